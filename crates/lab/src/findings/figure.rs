//! Figures as plain data: *what* a picture shows, never how it is drawn.
//!
//! Analyses fill these in; the `report` crate turns them into SVG, PNG and CSV. Every number a reader could
//! want to take out of a picture is here, so that the CSV beside a figure is complete.

use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// One figure: one or more panels under a common caption.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// File-name stem, lower case with dashes, unique within a report: `f26-newton-gd`.
    pub id: String,
    /// A short headline.
    pub title: String,
    /// What the reader sees and how it was made: full sentences.
    pub caption: String,
    /// Panels, left to right.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// A figure of panels, left to right.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
        panels: impl IntoIterator<Item = impl Into<Panel>>,
    ) -> Figure {
        let panels = panels.into_iter().map(Into::into).collect();
        Figure { id: id.into(), title: title.into(), caption: caption.into(), panels }
    }
}

/// One coordinate system within a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Panel {
    /// Similarity (or distance) of every step of one learner to every step of another.
    Heatmap(HeatmapPanel),
    /// Curves over a numeric axis.
    Lines(LinesPanel),
    /// Weights as matrices cut into named blocks.
    Blocks(BlocksPanel),
}

impl Panel {
    /// Its title, may be empty.
    pub fn title(&self) -> &str {
        match self {
            Panel::Heatmap(panel) => &panel.title,
            Panel::Lines(panel) => &panel.title,
            Panel::Blocks(panel) => &panel.title,
        }
    }

    /// Whether its parts fit together.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Panel::Heatmap(map) => {
                let (columns, rows) = (map.x_steps.len(), map.y_steps.len());
                let shape = map.values.len() == rows && map.values.iter().all(|row| row.len() == columns);
                let per_column = [map.best.len(), map.best_interval.len()] == [columns; 2];
                let inside = map.best.iter().flatten().all(|best| *best < rows)
                    && map.best_interval.iter().flatten().all(|(low, high)| low <= high && *high < rows);
                shape && per_column && inside
            }
            Panel::Lines(panel) => {
                panel.series.iter().all(|one| one.band.is_empty() || one.band.len() == one.points.len())
            }
            Panel::Blocks(panel) => {
                let width = panel.slots.iter().try_fold(0usize, |sum, (_, size)| sum.checked_add(*size));
                let square = |rows: &Vec<Vec<f64>>| {
                    Some(rows.len()) == width && rows.iter().all(|row| row.len() == rows.len())
                };
                panel.blocks.iter().all(|block| square(&block.values))
            }
        }
    }
}

impl From<HeatmapPanel> for Panel {
    fn from(panel: HeatmapPanel) -> Panel {
        Panel::Heatmap(panel)
    }
}

impl From<LinesPanel> for Panel {
    fn from(panel: LinesPanel) -> Panel {
        Panel::Lines(panel)
    }
}

impl From<BlocksPanel> for Panel {
    fn from(panel: BlocksPanel) -> Panel {
        Panel::Blocks(panel)
    }
}

/// Square matrices over the same named slots, side by side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlocksPanel {
    /// Panel title, may be empty.
    pub title: String,
    /// Names and sizes of the slots, in the order of rows and columns.
    pub slots: Vec<(String, usize)>,
    /// The matrices, in reading order.
    pub blocks: Vec<Block>,
}

/// One matrix of a [`BlocksPanel`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// Its name: `V₁`.
    pub name: String,
    /// `values[row][column]`, as many of both as the slots have entries.
    #[serde(with = "crate::exact")]
    pub values: Vec<Vec<f64>>,
}

/// How an axis maps numbers to space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Proportional.
    Linear,
    /// Powers of ten.
    Log10,
    /// Powers of two.
    Log2,
}

/// A labelled axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// Name with unit, as printed: `in-context examples t`.
    pub label: String,
    /// The mapping.
    pub scale: Scale,
    /// Fixed ends; from the data when absent. On a log axis smaller values are clipped at the lower end.
    #[serde(with = "crate::exact")]
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis that takes its range from the data.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Axis { label: label.into(), scale, range: None }
    }

    /// A proportional axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis::new(label, Scale::Linear)
    }

    /// An axis of powers of ten.
    pub fn log10(label: impl Into<String>) -> Self {
        Axis::new(label, Scale::Log10)
    }

    /// An axis of powers of two.
    pub fn log2(label: impl Into<String>) -> Self {
        Axis::new(label, Scale::Log2)
    }

    /// The same axis with fixed ends.
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// A heat-map: columns are steps of learner A, rows are steps of learner B (drawn upwards).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeatmapPanel {
    /// Panel title, may be empty.
    pub title: String,
    /// Label of the horizontal axis: `Newton iterations`.
    pub x_label: String,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Steps of A, one per column.
    pub x_steps: Vec<u64>,
    /// Steps of B, one per row.
    pub y_steps: Vec<u64>,
    /// `values[row][column]`; NaN where undefined (a learner diverged on most prompts).
    #[serde(with = "crate::exact")]
    pub values: Vec<Vec<f64>>,
    /// Label of the colour scale: `SimE`.
    pub value_label: String,
    /// Per column the best-matching row, if it is defined.
    pub best: Vec<Option<usize>>,
    /// Per column the bootstrap interval of the best-matching row (inclusive), if computed.
    pub best_interval: Vec<Option<(usize, usize)>>,
    /// Similarity of the two learners when both have converged: what any two solvers share.
    #[serde(with = "crate::exact")]
    pub floor: Option<f64>,
    /// Whether every cell shows its value as a number; else only cells with plenty of room do.
    #[serde(default)]
    pub numbers: bool,
}

impl HeatmapPanel {
    /// A map without best matches: `values[row][column]` over numbered columns and rows.
    pub fn plain(
        title: impl Into<String>,
        (x_label, x_steps): (&str, Vec<u64>),
        (y_label, y_steps): (&str, Vec<u64>),
        value_label: &str,
        values: Vec<Vec<f64>>,
    ) -> HeatmapPanel {
        HeatmapPanel {
            title: title.into(),
            x_label: x_label.into(),
            y_label: y_label.into(),
            best: vec![None; x_steps.len()],
            best_interval: vec![None; x_steps.len()],
            x_steps,
            y_steps,
            values,
            value_label: value_label.into(),
            floor: None,
            numbers: false,
        }
    }

    /// The same map with its values as numbers in the cells.
    pub fn numbered(mut self) -> Self {
        self.numbers = true;
        self
    }
}

/// Curves in one coordinate system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinesPanel {
    /// Panel title, may be empty.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves, in legend order.
    pub series: Vec<Series>,
    /// Horizontal or vertical reference lines.
    pub references: Vec<Reference>,
}

impl LinesPanel {
    /// Curves over two axes, without a title or reference lines.
    ///
    /// ```
    /// use lab::findings::{Axis, LinesPanel, Series};
    /// let curve = Series::new("Newton", vec![(1.0, 0.5), (2.0, 0.25), (3.0, 0.0625)]);
    /// let panel = LinesPanel::new(Axis::linear("steps"), Axis::log10("error"), [curve]).mark_x("two", 2.0);
    /// assert_eq!((panel.series.len(), panel.references.len()), (1, 1));
    /// ```
    pub fn new(x: Axis, y: Axis, series: impl IntoIterator<Item = Series>) -> LinesPanel {
        LinesPanel {
            title: String::new(),
            x,
            y,
            series: series.into_iter().collect(),
            references: Vec::new(),
        }
    }

    /// The same panel with a title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The same panel with a vertical reference line.
    pub fn mark_x(mut self, label: impl Into<String>, x: f64) -> Self {
        self.references.push(Reference { label: label.into(), at: At::X(x) });
        self
    }

    /// The same panel with a horizontal reference line.
    pub fn mark_y(mut self, label: impl Into<String>, y: f64) -> Self {
        self.references.push(Reference { label: label.into(), at: At::Y(y) });
        self
    }
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stroke {
    /// A solid line.
    Solid,
    /// A dashed line: fits, bounds, the paper's printed variant.
    Dashed,
    /// Markers only: measured points without an order between them.
    Markers,
    /// A solid line with markers at the data.
    LineMarkers,
}

/// One curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Legend entry.
    pub label: String,
    /// Data; a non-finite y breaks the line.
    #[serde(with = "crate::exact")]
    pub points: Vec<(f64, f64)>,
    /// Interval per point (low, high), same length as `points`, or empty.
    #[serde(with = "crate::exact")]
    pub band: Vec<(f64, f64)>,
    /// How to draw it.
    pub stroke: Stroke,
    /// Position in an ordered family (Newton step 5 of 0…24) from 0 to 1 for a graded colour; a categorical colour when absent.
    #[serde(with = "crate::exact")]
    pub grade: Option<f64>,
}

impl Series {
    /// A solid curve without an interval.
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { label: label.into(), points, band: Vec::new(), stroke: Stroke::Solid, grade: None }
    }

    /// Estimates with their 95 % intervals as a band, a marker at each.
    pub fn estimates(label: impl Into<String>, estimates: impl IntoIterator<Item = (f64, Estimate)>) -> Self {
        let (points, band) = estimates.into_iter().map(|(x, e)| ((x, e.value), (e.low, e.high))).unzip();
        Series::new(label, points).band(band).markers()
    }

    /// The same curve with a marker at every point.
    pub fn markers(self) -> Self {
        self.stroke(Stroke::LineMarkers)
    }

    /// The same curve, dashed.
    pub fn dashed(self) -> Self {
        self.stroke(Stroke::Dashed)
    }

    /// The same curve with another stroke.
    pub fn stroke(mut self, stroke: Stroke) -> Self {
        self.stroke = stroke;
        self
    }

    /// The same curve with an interval per point.
    pub fn band(mut self, band: Vec<(f64, f64)>) -> Self {
        self.band = band;
        self
    }

    /// The same curve as a member of an ordered family.
    pub fn grade(mut self, grade: f64) -> Self {
        self.grade = Some(grade);
        self
    }
}

/// A straight reference line with a label.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// Printed beside the line.
    pub label: String,
    /// Where.
    pub at: At,
}

/// Orientation and position of a reference line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum At {
    /// A vertical line.
    X(#[serde(with = "crate::exact")] f64),
    /// A horizontal line.
    Y(#[serde(with = "crate::exact")] f64),
}
