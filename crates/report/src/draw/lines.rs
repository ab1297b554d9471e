//! Line panels: curves, bands, markers and reference lines in one coordinate system.

use lab::findings::{At, LinesPanel, Series, Stroke};

use super::axis::{Mapping, Tick};
use super::families::{Look, Looks, looks};
use super::legend::{Legend, marker};
use super::notes::{NOTE, NOTE_LINE, side_notes, top_notes};
use super::panel::{Drawing, Frame, Labels, SMALL, small_width};
use super::reach::{horizontal_ticks, marked, reach};
use super::svg::{Align, Style, Svg, Tone, number, path};
use crate::text::{format_number, text_width};

/// At most this many points of a series answer to the pointer; a longer curve is thinned evenly.
const HOVER_LIMIT: usize = 160;
/// Least distance of arrow heads.
const HEAD: f64 = 8.5;

/// A line panel measured for a plot of a given size.
#[derive(Debug)]
pub struct Lines<'a> {
    panel: &'a LinesPanel,
    /// Id of the clip path around the plot.
    clip: String,
    labels: Labels,
    x: Mapping,
    y: Mapping,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    looks: Looks,
    legend: Legend,
    /// Lines of each label at the right edge, with the height they are set at (fraction of the axis).
    side_notes: Vec<(f64, Vec<String>)>,
    /// Labels above the plot: row, centre and text.
    top_notes: Vec<(usize, f64, String)>,
    /// Widths of the vertical axis's tick labels and of the labels at the right edge, height of those above.
    tick_width: f64,
    side_width: f64,
    top_height: f64,
    frame: Frame,
}

impl<'a> Lines<'a> {
    /// Measures a panel for a plot of `width` × `height`.
    pub fn new(panel: &'a LinesPanel, letter: &str, key: &str, width: f64, height: f64) -> Lines<'a> {
        let x = Mapping::new(panel.x.scale, panel.x.range, reach(panel, true), 0.02);
        let y = Mapping::new(panel.y.scale, panel.y.range, reach(panel, false), 0.04);
        let x_ticks = horizontal_ticks(panel, &x, width);
        let y_ticks = y.ticks((height / 42.0) as usize);
        let labels = Labels::new(letter, &panel.title, &panel.x.label, &panel.y.label, width, height);
        let looks = looks(panel, key);
        let side_notes = side_notes(panel, &y, height);
        let top_notes = top_notes(panel, &x, width);

        let tick_width = y_ticks.iter().map(|t| small_width(&t.label)).fold(0.0, f64::max);
        let notes = side_notes.iter().flat_map(|(_, l)| l);
        let side_width = notes.map(|l| text_width(l, NOTE.size, NOTE.weight) + 8.0).fold(0.0, f64::max);
        let overhang = x_ticks.last().map_or(0.0, |t| small_width(&t.label) / 2.0);
        let mut right = side_width.max(overhang + 4.0);
        right += looks.bars.iter().map(|b| b.width() + 14.0).sum::<f64>();
        let legend = Legend::new(looks.entries.clone(), width + right.max(8.0) - 8.0);
        right = right.max(legend.width() - width + 4.0);
        let top_height = top_notes.iter().map(|n| n.0 + 1).max().unwrap_or(0) as f64 * NOTE_LINE;
        let bars = looks.bars.iter().map(|b| b.above()).fold(0.0, f64::max);
        let frame = Frame {
            width,
            height,
            left: labels.beside(tick_width),
            right,
            top: (labels.above() + top_height).max(bars),
            bottom: labels.below() + legend.height() + 6.0,
        };
        Lines {
            panel,
            clip: format!("{key}-clip"),
            labels,
            x,
            y,
            x_ticks,
            y_ticks,
            looks,
            legend,
            side_notes,
            top_notes,
            tick_width,
            side_width,
            top_height,
            frame,
        }
    }

    fn at(&self, (px, py): (f64, f64), (vx, vy): (f64, f64)) -> (f64, f64) {
        (px + self.frame.width * self.x.place(vx), py + self.frame.height * (1.0 - self.y.place(vy)))
    }

    fn grid(&self, svg: &mut Svg, (px, py): (f64, f64)) {
        let Frame { width, height, .. } = self.frame;
        for tick in &self.x_ticks {
            let x = px + width * self.x.place(tick.value);
            svg.line((x, py), (x, py + height), Tone::Grid, 1.0);
            svg.line((x, py + height), (x, py + height + 4.5), Tone::Axis, 1.0);
            svg.text(x, py + height + 16.5, Style::new(SMALL, Tone::Muted, Align::Middle), &tick.label);
        }
        for tick in &self.y_ticks {
            let y = py + height * (1.0 - self.y.place(tick.value));
            svg.line((px, y), (px + width, y), Tone::Grid, 1.0);
            svg.line((px - 4.5, y), (px, y), Tone::Axis, 1.0);
            svg.text(px - 7.5, y + 3.9, Style::new(SMALL, Tone::Muted, Align::End), &tick.label);
        }
        for value in self.x.minor_ticks() {
            let x = px + width * self.x.place(value);
            svg.line((x, py + height), (x, py + height + 2.5), Tone::Axis, 0.8);
        }
        for value in self.y.minor_ticks() {
            let y = py + height * (1.0 - self.y.place(value));
            svg.line((px - 2.5, y), (px, y), Tone::Axis, 0.8);
        }
        svg.line((px, py), (px, py + height), Tone::Axis, 1.0);
        svg.line((px, py + height), (px + width, py + height), Tone::Axis, 1.0);
    }

    fn references(&self, svg: &mut Svg, (px, py): (f64, f64)) {
        let Frame { width, height, .. } = self.frame;
        for reference in &self.panel.references {
            let (from, to) = match reference.at {
                At::X(v) if self.x.contains(v) => {
                    let x = px + width * self.x.place(v);
                    ((x, py - 3.0), (x, py + height))
                }
                At::Y(v) if self.y.contains(v) => {
                    let y = py + height * (1.0 - self.y.place(v));
                    ((px, y), (px + width + 4.0, y))
                }
                _ => continue,
            };
            let line = svg
                .segment(from, to)
                .attr("class", "note")
                .attr("stroke", "#555a62")
                .num("stroke-width", 1.1);
            line.attr("stroke-dasharray", "1.5 2.5").titled(&reference.label);
        }
        for (place, lines) in &self.side_notes {
            let middle = py + height * (1.0 - place);
            let first = middle + 3.7 - (lines.len() - 1) as f64 * NOTE_LINE / 2.0;
            for (i, line) in lines.iter().enumerate() {
                svg.text(px + width + 8.0, first + i as f64 * NOTE_LINE, NOTE, line);
            }
        }
        for (row, centre, text) in &self.top_notes {
            let style = Style { align: Align::Middle, ..NOTE };
            svg.text(px + centre, py - 6.0 - *row as f64 * NOTE_LINE, style, text);
        }
    }

    fn band(&self, svg: &mut Svg, origin: (f64, f64), series: &Series, look: Look) {
        let pairs = series.points.iter().zip(&series.band);
        let sound = |p: &(f64, f64), b: &(f64, f64)| p.0.is_finite() && b.0.is_finite() && b.1.is_finite();
        let pairs: Vec<_> = pairs.filter(|(p, b)| sound(p, b)).collect();
        if series.stroke == Stroke::Markers {
            let ends = pairs.iter().flat_map(|(p, b)| {
                [Some(self.at(origin, (p.0, b.0))), Some(self.at(origin, (p.0, b.1))), None]
            });
            let bars = svg.tag("path").attr("d", &path(ends)).attr("fill", "none").stroke_ink(look.ink);
            bars.num("stroke-width", 1.2).end();
        } else if pairs.len() > 1 {
            let up = pairs.iter().map(|(p, b)| Some(self.at(origin, (p.0, b.1))));
            let down = pairs.iter().rev().map(|(p, b)| Some(self.at(origin, (p.0, b.0))));
            let area = svg.tag("path").attr("d", &format!("{}Z", path(up.chain(down))));
            area.fill_ink(look.ink).num("fill-opacity", 0.16).end();
        }
    }

    fn curve(&self, svg: &mut Svg, origin: (f64, f64), series: &Series, look: Look, thin: bool) {
        if series.stroke == Stroke::Markers {
            return;
        }
        let finite = |&(x, y): &(f64, f64)| (x.is_finite() && y.is_finite()).then(|| self.at(origin, (x, y)));
        let line = svg.tag("path").attr("d", &path(series.points.iter().map(finite))).attr("fill", "none");
        let line = line.stroke_ink(look.ink).num("stroke-width", if thin { 1.5 } else { 2.0 });
        let line = line.attr("stroke-linejoin", "round");
        match series.stroke {
            Stroke::Dashed => line.attr("stroke-dasharray", "6 3.5").end(),
            _ => line.attr("stroke-linecap", "round").end(),
        }
    }

    /// Markers of a series, all in one element; what lies below the axis is an arrow head at its lower edge, and where these would
    /// overlap only the first of them.
    fn markers(&self, svg: &mut Svg, origin: (f64, f64), series: &Series, look: Look) {
        let edge = origin.1 + self.frame.height;
        let (mut shown, mut below) = (String::new(), String::new());
        let mut last_head = f64::NEG_INFINITY;
        for &(x, y) in series.points.iter().filter(|p| self.reachable(p)) {
            let (cx, cy) = self.at(origin, (x, y));
            if self.y.contains(y) {
                shown += &marker(look.shape, (cx, cy));
            } else if y < self.y.low && (cx - last_head).abs() >= HEAD {
                last_head = cx;
                let corners = [(-3.5, -7.0), (3.5, -7.0), (0.0, -1.0)];
                let head = path(corners.iter().map(|(dx, dy)| Some((cx + dx, edge + dy))));
                below += &format!("{head}Z");
            }
        }
        if !shown.is_empty() {
            svg.tag("path").attr("d", &shown).fill_ink(look.ink).end();
        }
        if !below.is_empty() {
            let tag = svg.tag("path").attr("d", &below).attr("fill", "none");
            tag.stroke_ink(look.ink).num("stroke-width", 1.3).end();
        }
    }

    fn reachable(&self, (x, y): &(f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && self.x.contains(*x)
    }

    /// The numbers behind a curve, for the script that shows the value near the pointer: place, x, y and interval of each point.
    fn values(&self, svg: &mut Svg, origin: (f64, f64), series: &Series) {
        let stride = series.points.len().div_ceil(HOVER_LIMIT).max(1);
        let mut points = Vec::new();
        for (i, &(x, y)) in series.points.iter().enumerate().step_by(stride) {
            if !self.reachable(&(x, y)) || y > self.y.high {
                continue;
            }
            let (cx, cy) = self.at(origin, (x, y.max(self.y.low)));
            let mut point =
                format!("{},{},{},{}", number(cx), number(cy), format_number(x), format_number(y));
            if let Some((low, high)) = series.band.get(i) {
                point += &format!(",{},{}", format_number(*low), format_number(*high));
            }
            points.push(point);
        }
        let tag = svg.tag("g").attr("data-series", &series.label).attr("data-x", &self.panel.x.label);
        tag.attr("data-y", &self.panel.y.label).attr("data-points", &points.join(" ")).end();
    }
}

impl Drawing for Lines<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn draw(&self, svg: &mut Svg, px: f64, py: f64) {
        let origin = (px, py);
        let Frame { width, height, .. } = self.frame;
        self.grid(svg, origin);
        svg.tag("clipPath").attr("id", &self.clip).open();
        svg.rect((px - 1.0, py - 3.0), (width + 5.0, height + 4.0)).end();
        svg.close("clipPath");
        svg.tag("g").attr("clip-path", &format!("url(#{})", self.clip)).open();
        let all = || self.panel.series.iter().zip(&self.looks.looks);
        let thin = self.panel.series.len() > 8;
        for (series, look) in all().filter(|(s, _)| !s.band.is_empty()) {
            self.band(svg, origin, series, *look);
        }
        for (series, look) in all() {
            self.curve(svg, origin, series, *look, thin);
        }
        svg.close("g");
        self.references(svg, origin);
        for (series, look) in all().filter(|(s, _)| marked(s)) {
            self.markers(svg, origin, series, *look);
        }
        all().for_each(|(series, _)| self.values(svg, origin, series));
        self.labels.draw(svg, origin, self.frame, self.tick_width, self.top_height);
        let mut bar_x = px + width + 14.0 + self.side_width;
        for bar in &self.looks.bars {
            bar.draw(svg, bar_x, py, height);
            bar_x += bar.width() + 14.0;
        }
        self.legend.draw(svg, px, py + height + self.labels.below());
    }
}
