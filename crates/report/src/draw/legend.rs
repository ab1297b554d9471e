//! Legends below a plot: samples with names, set in columns, so that they never cover data.

use lab::findings::Stroke;

use super::palette::Ink;
use super::panel::{SMALL, small_width};
use super::svg::{Align, Style, Svg, Tone, number, path};
use crate::text::{Weight, wrap};

/// The picture beside a name.
#[derive(Clone, Debug)]
pub enum Sample {
    /// A curve: colour, stroke, marker shape.
    Curve(Ink, Stroke, usize),
    /// An outlined best match of a heat-map, with a dot where its cells have one.
    Best(bool),
    /// A whisker over rows.
    Whisker,
    /// A hatched cell; names the pattern.
    Hatched(String),
}

/// One name with its picture.
#[derive(Clone, Debug)]
pub struct Entry {
    pub sample: Sample,
    pub label: String,
}

/// Entries in columns.
#[derive(Debug)]
pub struct Legend {
    entries: Vec<(Sample, Vec<String>)>,
    columns: usize,
    column: f64,
}

const SAMPLE: f64 = 24.0;
const GAP: f64 = 18.0;
const ROW: f64 = 16.0;
const LINE: f64 = 13.0;
/// Sides of a cell below which a dot would touch its outline.
pub const LEAST_DOTTED: f64 = 6.5;

impl Legend {
    /// Sets `entries` into as few rows as fit into `width`, as even as can be; a name wider than that is broken.
    pub fn new(entries: Vec<Entry>, width: f64) -> Legend {
        let entries: Vec<(Sample, Vec<String>)> = entries
            .into_iter()
            .map(|e| (e.sample, wrap(&e.label, width - SAMPLE - 6.0, SMALL, Weight::Regular)))
            .collect();
        let widest = entries.iter().flat_map(|(_, lines)| lines).map(|l| small_width(l));
        let column = SAMPLE + 6.0 + widest.fold(0.0, f64::max) + GAP;
        let most = (((width + GAP) / column) as usize).clamp(1, entries.len().max(1));
        let rows = entries.len().div_ceil(most).max(1);
        let columns = entries.len().div_ceil(rows).max(1);
        Legend { entries, columns, column }
    }

    /// Height with the distance to what is above, zero without entries.
    pub fn height(&self) -> f64 {
        if self.entries.is_empty() { 0.0 } else { 12.0 + self.rows().iter().sum::<f64>() }
    }

    /// Width of what is drawn.
    pub fn width(&self) -> f64 {
        if self.entries.is_empty() { 0.0 } else { self.columns as f64 * self.column - GAP }
    }

    fn rows(&self) -> Vec<f64> {
        let tallest =
            |row: &[(Sample, Vec<String>)]| row.iter().map(|(_, l)| l.len()).max().unwrap_or(1).max(1);
        self.entries.chunks(self.columns).map(|row| ROW + (tallest(row) - 1) as f64 * LINE).collect()
    }

    /// Draws the legend with its upper left corner at (x, y).
    pub fn draw(&self, svg: &mut Svg, x: f64, y: f64) {
        let mut top = y + 12.0;
        for (row, height) in self.entries.chunks(self.columns).zip(self.rows()) {
            for (i, (sample, lines)) in row.iter().enumerate() {
                let left = x + i as f64 * self.column;
                sample.draw(svg, left, top + ROW / 2.0);
                for (j, line) in lines.iter().enumerate() {
                    let style = Style::new(SMALL, Tone::Ink, Align::Start);
                    svg.text(left + SAMPLE + 6.0, top + ROW / 2.0 + 3.9 + j as f64 * LINE, style, line);
                }
            }
            top += height;
        }
    }
}

impl Sample {
    fn draw(&self, svg: &mut Svg, x: f64, y: f64) {
        let centre = x + SAMPLE / 2.0;
        match self {
            Sample::Curve(ink, stroke, shape) => {
                if *stroke != Stroke::Markers {
                    let line = svg.segment((x, y), (x + SAMPLE, y));
                    let line = line.stroke_ink(*ink).num("stroke-width", 2.0);
                    match stroke {
                        Stroke::Dashed => line.attr("stroke-dasharray", "5 3").end(),
                        _ => line.end(),
                    }
                }
                if matches!(stroke, Stroke::Markers | Stroke::LineMarkers) {
                    svg.tag("path").attr("d", &marker(*shape, (centre, y))).fill_ink(*ink).end();
                }
            }
            Sample::Best(dot) => {
                let mut marks = BestMarks::default();
                marks.frame((centre - 6.0, y - 6.0), (12.0, 12.0), *dot);
                marks.draw(svg);
            }
            Sample::Whisker => {
                let mut marks = BestMarks::default();
                [-6.0, 6.0].into_iter().for_each(|arm| marks.whisker(centre, y, y + arm));
                marks.draw(svg);
            }
            Sample::Hatched(pattern) => {
                let cell = svg.rect((centre - 6.0, y - 6.0), (12.0, 12.0)).fill_from(pattern);
                cell.stroke_tone(Tone::Axis).num("stroke-width", 0.8).end();
            }
        }
    }
}

/// A data marker as path data; shapes differ so that a greyscale print still tells series apart.
pub fn marker(shape: usize, (x, y): (f64, f64)) -> String {
    let closed =
        |corners: &[(f64, f64)]| format!("{}Z", path(corners.iter().map(|(dx, dy)| Some((x + dx, y + dy)))));
    match shape % 4 {
        0 => disc((x, y), 3.1),
        1 => closed(&[(-2.8, -2.8), (2.8, -2.8), (2.8, 2.8), (-2.8, 2.8)]),
        2 => closed(&[(0.0, -3.8), (3.6, 2.6), (-3.6, 2.6)]),
        _ => closed(&[(0.0, -4.0), (4.0, 0.0), (0.0, 4.0), (-4.0, 0.0)]),
    }
}

/// A disc as path data.
fn disc((x, y): (f64, f64), radius: f64) -> String {
    let [r, across] = [radius, 2.0 * radius].map(number);
    format!("M{} {}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0Z", number(x - radius), number(y))
}

/// Marks of best matches, black in white so that they show on any cell; drawn together, in four elements.
#[derive(Default)]
pub struct BestMarks {
    whiskers: String,
    frames: String,
    dots: String,
}

impl BestMarks {
    /// The outline of a cell, with a dot if asked and if there is room for one.
    pub fn frame(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), dot: bool) {
        let inset = 0.7;
        let (left, top) = (number(x + inset), number(y + inset));
        let (right, bottom) = (number(x + width - inset), number(y + height - inset));
        self.frames += &format!("M{left} {top}H{right}V{bottom}H{left}Z");
        if dot && width.min(height) >= LEAST_DOTTED {
            let radius = (width.min(height) * 0.17).clamp(1.3, 2.8);
            self.dots += &disc((x + width / 2.0, y + height / 2.0), radius);
        }
    }

    /// One arm of a whisker with a cap at its far end.
    pub fn whisker(&mut self, x: f64, from: f64, to: f64) {
        let cap = (number(x - 2.5), number(x + 2.5));
        self.whiskers +=
            &format!("M{0} {1}V{2}M{3} {2}H{4}", number(x), number(from), number(to), cap.0, cap.1);
    }

    /// Draws all of them.
    pub fn draw(&self, svg: &mut Svg) {
        let mut stroke = |data: &str, fill: &str, colour: &str, width: f64| {
            if !data.is_empty() {
                let tag = svg.tag("path").attr("d", data).attr("fill", fill).attr("stroke", colour);
                tag.num("stroke-width", width).inert().end();
            }
        };
        stroke(&self.whiskers, "none", "#ffffff", 2.8);
        stroke(&self.whiskers, "none", "#000000", 1.1);
        stroke(&self.frames, "none", "#ffffff", 3.0);
        stroke(&self.frames, "none", "#000000", 1.5);
        stroke(&self.dots, "#000000", "#ffffff", 0.9);
    }
}
