//! What heat-maps and line panels share: the space around a plot, its heading, labels and colour bars.

use super::palette::Ink;
use super::svg::{Align, Style, Svg, Tone};
use crate::text::{Weight, text_width, wrap};

/// Size of tick labels and legends.
pub const SMALL: f64 = 11.0;
/// Size of axis labels.
pub const LABEL: f64 = 12.0;
/// Size of panel headings.
pub const HEADING: f64 = 12.5;
/// Distance between baselines.
pub const LEADING: f64 = 15.0;
/// Width of a colour bar.
pub const BAR: f64 = 11.0;

/// Width of a text in the size of tick labels.
pub fn small_width(text: &str) -> f64 {
    text_width(text, SMALL, Weight::Regular)
}

/// Size of a plot and the space its labels need around it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// A panel that has been measured and can be drawn with its plot's upper left corner anywhere.
pub trait Drawing {
    /// The space it needs.
    fn frame(&self) -> Frame;
    /// Draws it.
    fn draw(&self, svg: &mut Svg, x: f64, y: f64);
}

/// Heading and axis labels, broken into lines that fit the plot.
#[derive(Debug)]
pub struct Labels {
    letter: String,
    heading: Vec<String>,
    x: Vec<String>,
    y: Vec<String>,
}

impl Labels {
    /// Breaks the texts for a plot of the given size; `letter` is `(a)` or empty.
    pub fn new(letter: &str, title: &str, x: &str, y: &str, width: f64, height: f64) -> Labels {
        let indent =
            if letter.is_empty() { 0.0 } else { text_width(letter, HEADING, Weight::SemiBold) + 6.0 };
        Labels {
            letter: letter.into(),
            heading: wrap(title, width - indent, HEADING, Weight::SemiBold),
            x: wrap(x, width + 20.0, LABEL, Weight::Regular),
            y: wrap(y, height + 10.0, LABEL, Weight::Regular),
        }
    }

    /// Height of the heading with its distance to the plot.
    pub fn above(&self) -> f64 {
        let lines = self.heading.len().max(usize::from(!self.letter.is_empty()));
        if lines == 0 { 10.0 } else { lines as f64 * LEADING + 11.0 }
    }

    /// Height of tick labels and the horizontal label.
    pub fn below(&self) -> f64 {
        21.0 + self.x.len() as f64 * LEADING
    }

    /// Width of the vertical label, and of tick labels of the given width.
    pub fn beside(&self, ticks: f64) -> f64 {
        ticks + 11.0 + self.y.len() as f64 * LEADING + 2.0
    }

    /// Draws all of them around a plot at (x, y); `lift` is what else lies between plot and heading.
    pub fn draw(&self, svg: &mut Svg, (x, y): (f64, f64), frame: Frame, ticks: f64, lift: f64) {
        let heading = Style::new(HEADING, Tone::Ink, Align::Start).bold();
        let lines = self.heading.len().max(1);
        let first = y - 11.0 - lift - (lines - 1) as f64 * LEADING;
        let mut indent = 0.0;
        if !self.letter.is_empty() {
            svg.text(x, first, heading, &self.letter);
            indent = text_width(&self.letter, HEADING, Weight::SemiBold) + 6.0;
        }
        for (i, line) in self.heading.iter().enumerate() {
            svg.text(x + indent, first + i as f64 * LEADING, heading, line);
        }
        let middle = Style::new(LABEL, Tone::Ink, Align::Middle);
        for (i, line) in self.x.iter().enumerate() {
            svg.text(x + frame.width / 2.0, y + frame.height + 34.0 + i as f64 * LEADING, middle, line);
        }
        for (i, line) in self.y.iter().enumerate() {
            let back = (self.y.len() - 1 - i) as f64 * LEADING;
            svg.text_upwards(x - ticks - 14.0 - back, y + frame.height / 2.0, middle, line);
        }
    }
}

/// A vertical colour bar with labels at positions in `0..=1` (0 at the bottom) and a name above it.
#[derive(Debug)]
pub struct ColourBar {
    /// Unique within the page: names the gradient.
    pub key: String,
    /// Broken into lines above the bar.
    pub name: Vec<String>,
    /// Colours from bottom to top at equal distances.
    pub stops: Vec<Ink>,
    /// Position and text of each label.
    pub labels: Vec<(f64, String)>,
    /// A special position with its name: a line across the bar.
    pub mark: Option<(f64, String)>,
}

impl ColourBar {
    /// Breaks a name for the room above a bar.
    pub fn break_name(name: &str) -> Vec<String> {
        wrap(name, 92.0, SMALL, Weight::Regular)
    }

    /// Space right of the bar's left edge.
    pub fn width(&self) -> f64 {
        let labels = self.labels.iter().map(|(_, l)| small_width(l));
        let mark = self.mark.iter().map(|(_, l)| text_width(l, SMALL, Weight::SemiBold) + 3.0);
        let names = self.name.iter().map(|l| small_width(l) - BAR - 8.0);
        BAR + 8.0 + labels.chain(mark).chain(names).fold(0.0, f64::max)
    }

    /// Height of the name above the bar.
    pub fn above(&self) -> f64 {
        if self.name.is_empty() { 0.0 } else { self.name.len() as f64 * 13.0 + 10.0 }
    }

    /// Draws the bar with its upper left corner at (x, y). Labels too close to the mark or to each other give way.
    pub fn draw(&self, svg: &mut Svg, x: f64, y: f64, height: f64) {
        let gradient = svg.tag("linearGradient").attr("id", &self.key).num("x1", 0.0).num("y1", 1.0);
        gradient.num("x2", 0.0).num("y2", 0.0).open();
        for (i, ink) in self.stops.iter().enumerate() {
            let offset = i as f64 / (self.stops.len() - 1).max(1) as f64;
            let stop = svg.tag("stop").attr("offset", &format!("{offset:.4}")).attr("class", "stop");
            stop.paint("stop-color", *ink).end();
        }
        svg.close("linearGradient");
        svg.rect((x, y), (BAR, height)).fill_from(&self.key).end();
        for (i, line) in self.name.iter().enumerate() {
            let up = (self.name.len() - 1 - i) as f64 * 13.0;
            svg.text(x, y - 9.0 - up, Style::new(SMALL, Tone::Ink, Align::Start), line);
        }
        let at = |position: f64| y + height * (1.0 - position);
        let marked = self.mark.as_ref().map(|(position, _)| at(*position));
        let mut last = f64::INFINITY;
        for (position, label) in &self.labels {
            let here = at(*position);
            if last - here < 13.0 || marked.is_some_and(|m| (m - here).abs() < 13.5) {
                continue;
            }
            last = here;
            svg.line((x + BAR, here), (x + BAR + 4.0, here), Tone::Axis, 1.0);
            svg.text(x + BAR + 7.0, here + 3.9, Style::new(SMALL, Tone::Muted, Align::Start), label);
        }
        if let Some((position, name)) = &self.mark {
            let here = at(*position);
            svg.line((x - 3.0, here), (x + BAR + 6.0, here), Tone::Page, 3.2);
            svg.line((x - 3.0, here), (x + BAR + 6.0, here), Tone::Ink, 1.6);
            svg.text(x + BAR + 9.0, here + 3.9, Style::new(SMALL, Tone::Ink, Align::Start).bold(), name);
        }
    }
}
