//! Heat-maps: similarity of every step of one learner to every step of another, best matches marked.

use std::collections::BTreeMap;

use lab::findings::HeatmapPanel;

use super::axis::linear_ticks;
use super::legend::{BestMarks, Entry, LEAST_DOTTED, Legend, Sample};
use super::numbers::{Numbers, WHISKER};
use super::palette::{Ink, heat};
use super::panel::{ColourBar, Drawing, Frame, Labels, SMALL, small_width};
use super::svg::{Align, Style, Svg, Tone, number};
use crate::text::format_number;

/// Steps of the colour scale: more than an eye tells apart.
const SHADES: f64 = 63.0;

/// A heat-map measured for a plot of a given size.
#[derive(Debug)]
pub struct Heatmap<'a> {
    panel: &'a HeatmapPanel,
    /// Id of the pattern that fills undefined cells.
    hatch: String,
    labels: Labels,
    bar: ColourBar,
    legend: Legend,
    low: f64,
    high: f64,
    cell: (f64, f64),
    /// How cells print their values, where they do.
    numbers: Option<Numbers>,
    frame: Frame,
}

impl<'a> Heatmap<'a> {
    /// Measures a panel for a plot at most `width` wide and `height` high, more only where every cell has its number.
    pub fn new(panel: &'a HeatmapPanel, letter: &str, key: &str, width: f64, height: f64) -> Heatmap<'a> {
        let columns = panel.x_steps.len().max(1) as f64;
        let rows = panel.y_steps.len().max(1) as f64;
        let size = (width.min((columns * 46.0).max(150.0)), height);
        let (numbers, (width, height)) =
            Numbers::fit(panel, size).map_or((None, size), |(numbers, size)| (Some(numbers), size));
        let cell = (width / columns, height / rows);
        let (low, high) = domain(panel);
        let ticks = linear_ticks(low, high, 5);
        let step = ticks.windows(2).map(|w| w[1] - w[0]).fold(high - low, f64::min);
        let decimals = (-(step * 1.0001).log10().floor()).clamp(0.0, 6.0) as usize;
        let place = |v: f64| (v - low) / (high - low);
        let label = |v: f64| format!("{v:.decimals$}").replace('-', "−");
        let floor = panel.floor.filter(|f| f.is_finite());
        let bar = ColourBar {
            key: format!("{key}-bar"),
            name: ColourBar::break_name(&panel.value_label),
            stops: (0..=16).map(|i| heat(f64::from(i) / 16.0)).map(|c| Ink { light: c, dark: c }).collect(),
            labels: ticks.into_iter().map(|v| (place(v), label(v))).collect(),
            mark: floor.map(|f| (place(f), format!("floor {}", format_number(f)))),
        };
        let labels = Labels::new(letter, &panel.title, &panel.x_label, &panel.y_label, width, height);
        let mut right = 14.0 + bar.width() + 4.0;
        let hatch = format!("{key}-hatch");
        let dotted = numbers.is_none() && cell.0.min(cell.1) >= LEAST_DOTTED;
        let legend = Legend::new(entries(panel, dotted, &hatch), width + right - 4.0);
        right = right.max(legend.width() - width + 4.0);
        let frame = Frame {
            width,
            height,
            left: labels.beside(tick_width(&panel.y_steps)),
            right,
            top: labels.above().max(bar.above()),
            bottom: labels.below() + legend.height() + 6.0,
        };
        Heatmap { panel, hatch, labels, bar, legend, low, high, cell, numbers, frame }
    }

    fn corner(&self, (px, py): (f64, f64), row: usize, column: usize) -> (f64, f64) {
        let (width, height) = self.cell;
        (px + column as f64 * width, py + self.frame.height - (row + 1) as f64 * height)
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        self.panel.values.get(row).and_then(|r| r.get(column)).copied().unwrap_or(f64::NAN)
    }

    /// All cells of one shade as one path: a map of a thousand cells is some sixty elements.
    fn draw_cells(&self, svg: &mut Svg, origin: (f64, f64)) {
        let mut shades: BTreeMap<Option<u32>, String> = BTreeMap::new();
        for (row, column) in self.places() {
            let value = self.value(row, column);
            let shade = value.is_finite().then(|| self.shade(value));
            let ((x, y), (width, height)) = (self.corner(origin, row, column), self.cell);
            let (right, bottom) = (number(x + width), number(y + height));
            let cell = format!("M{0} {1}H{right}V{bottom}H{0}Z", number(x), number(y));
            shades.entry(shade).or_default().push_str(&cell);
        }
        for (shade, cells) in shades {
            let tag = svg.tag("path").attr("d", &cells);
            match shade {
                Some(shade) => tag.attr("fill", &heat(f64::from(shade) / SHADES).to_string()).end(),
                None => tag.fill_from(&self.hatch).end(),
            }
        }
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.panel.x_steps.len();
        (0..self.panel.y_steps.len()).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    fn shade(&self, value: f64) -> u32 {
        ((value - self.low) / (self.high - self.low) * SHADES).round() as u32
    }

    /// Values inside the cells, where there is room for them.
    fn print_values(&self, svg: &mut Svg, origin: (f64, f64), numbers: Numbers) {
        for row in 0..self.panel.y_steps.len() {
            let mut runs: Vec<(&str, Vec<(f64, String)>)> = Vec::new();
            for column in 0..self.panel.x_steps.len() {
                let value = self.value(row, column);
                let text = if value.is_finite() { numbers.text(value) } else { String::new() };
                if text.is_empty() || !numbers.fits(&text, self.cell.0) {
                    continue;
                }
                let ink = heat(f64::from(self.shade(value)) / SHADES).ink();
                let centre = self.corner(origin, row, column).0 + self.cell.0 / 2.0;
                match runs.last_mut() {
                    Some((last, run)) if *last == ink => run.push((centre, text)),
                    _ => runs.push((ink, vec![(centre, text)])),
                }
            }
            let y = self.corner(origin, row, 0).1 + self.cell.1 / 2.0;
            for (ink, cells) in runs {
                numbers.draw(svg, y, ink, &cells);
            }
        }
    }

    /// The numbers behind the map, for the script that shows the value under the pointer: steps and values, rows upwards.
    fn draw_values(&self, svg: &mut Svg, origin: (f64, f64)) {
        let panel = self.panel;
        let words = |numbers: &mut dyn Iterator<Item = String>| numbers.collect::<Vec<_>>().join(" ");
        let values = &mut self.places().map(|(row, column)| format_number(self.value(row, column)));
        let best = panel.best.iter().map(|row| row.map_or("-".to_string(), |row| row.to_string()));
        let plot = svg.rect(origin, (self.frame.width, self.frame.height)).attr("fill-opacity", "0");
        let plot = plot.attr("data-x", &panel.x_label).attr("data-y", &panel.y_label);
        let plot = plot.attr("data-columns", &words(&mut panel.x_steps.iter().map(u64::to_string)));
        let plot = plot.attr("data-rows", &words(&mut panel.y_steps.iter().map(u64::to_string)));
        let plot = plot.attr("data-best", &words(&mut best.into_iter()));
        plot.attr("data-value", &panel.value_label).attr("data-cells", &words(values)).end();
    }

    fn ticks(&self, svg: &mut Svg, (px, py): (f64, f64)) {
        let bottom = py + self.frame.height;
        let x_stride = stride(self.panel.x_steps.len(), tick_width(&self.panel.x_steps) + 7.0, self.cell.0);
        let style = |align| Style::new(SMALL, Tone::Muted, align);
        for (i, step) in self.panel.x_steps.iter().enumerate().step_by(x_stride) {
            let x = px + (i as f64 + 0.5) * self.cell.0;
            svg.line((x, bottom), (x, bottom + 4.0), Tone::Axis, 1.0);
            svg.text(x, bottom + 16.5, style(Align::Middle), &tick_label(*step));
        }
        let y_stride = stride(self.panel.y_steps.len(), 13.0, self.cell.1);
        for (i, step) in self.panel.y_steps.iter().enumerate().step_by(y_stride) {
            let y = bottom - (i as f64 + 0.5) * self.cell.1;
            svg.line((px - 4.0, y), (px, y), Tone::Axis, 1.0);
            svg.text(px - 7.0, y + 3.9, style(Align::End), &tick_label(*step));
        }
    }

    fn marks(&self, svg: &mut Svg, origin: (f64, f64)) {
        let rows = self.panel.y_steps.len();
        let printed = self.numbers.is_some();
        let mut marks = BestMarks::default();
        let defined =
            |column: &usize| self.panel.best.get(*column).copied().flatten().filter(|row| *row < rows);
        for column in 0..self.panel.x_steps.len() {
            let Some(row) = defined(&column) else { continue };
            let corner = self.corner(origin, row, column);
            let interval = self.panel.best_interval.get(column).copied().flatten();
            let middle = |row: usize| self.corner(origin, row.min(rows - 1), column).1 + self.cell.1 / 2.0;
            let x = corner.0 + if printed { self.cell.0 - WHISKER } else { self.cell.0 / 2.0 };
            if let Some((_, high)) = interval.filter(|(_, high)| *high > row) {
                marks.whisker(x, corner.1, middle(high));
            }
            if let Some((low, _)) = interval.filter(|(low, _)| *low < row) {
                marks.whisker(x, corner.1 + self.cell.1, middle(low));
            }
            marks.frame(corner, self.cell, !printed);
        }
        marks.draw(svg);
    }
}

impl Drawing for Heatmap<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn draw(&self, svg: &mut Svg, px: f64, py: f64) {
        let origin = (px, py);
        let Frame { width, height, .. } = self.frame;
        let pattern = svg.tag("pattern").attr("id", &self.hatch).num("width", 5.0).num("height", 5.0);
        pattern.attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)").open();
        let ground = svg.tag("rect").num("width", 5.0).num("height", 5.0);
        ground.attr("class", "page-fill").attr("fill", "#f4f4f5").end();
        svg.line((0.0, 0.0), (0.0, 5.0), Tone::Axis, 1.4);
        svg.close("pattern");
        svg.tag("g").attr("shape-rendering", "crispEdges").open();
        self.draw_cells(svg, origin);
        svg.close("g");
        if let Some(numbers) = self.numbers {
            self.print_values(svg, origin, numbers);
        }
        let edge = svg.rect(origin, (width, height)).attr("fill", "none").stroke_tone(Tone::Axis);
        edge.num("stroke-width", 1.0).inert().end();
        self.marks(svg, origin);
        self.ticks(svg, origin);
        self.labels.draw(svg, origin, self.frame, tick_width(&self.panel.y_steps), 0.0);
        self.bar.draw(svg, px + width + 14.0, py, height);
        self.legend.draw(svg, px, py + height + self.labels.below());
        self.draw_values(svg, origin);
    }
}

/// Ends of the colour scale: all finite values and the similarity floor.
fn domain(panel: &HeatmapPanel) -> (f64, f64) {
    let values = panel.values.iter().flatten().copied().chain(panel.floor).filter(|v| v.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low < high {
        (low, high)
    } else if low.is_finite() {
        (low - 0.5, low + 0.5)
    } else {
        (0.0, 1.0)
    }
}

/// What the marks of this map mean, best matches with or without a dot; only those that occur in it.
fn entries(panel: &HeatmapPanel, dotted: bool, hatch: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |sample, label: &str| entries.push(Entry { sample, label: label.into() });
    if panel.best.iter().any(Option::is_some) {
        add(Sample::Best(dotted), "best match of each column");
    }
    if panel.best_interval.iter().flatten().any(|(low, high)| low < high) {
        add(Sample::Whisker, "its 95 % interval");
    }
    if panel.values.iter().flatten().any(|v| !v.is_finite()) {
        add(Sample::Hatched(hatch.into()), "undefined");
    }
    entries
}

/// Label every how-manieth of `count` cells of size `cell`, when a label needs `room`.
fn stride(count: usize, room: f64, cell: f64) -> usize {
    let least = (room / cell).ceil().max(1.0) as usize;
    [1, 2, 3, 4, 5, 10, 20, 50, 100].into_iter().find(|s| *s >= least).unwrap_or(count.max(1))
}

/// A step as the axes of curves write it.
fn tick_label(step: u64) -> String {
    format_number(step as f64)
}

fn tick_width(steps: &[u64]) -> f64 {
    steps.iter().map(|s| small_width(&tick_label(*s))).fold(0.0, f64::max)
}
