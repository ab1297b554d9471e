//! A small SVG writer: tags with attributes, text, and the few inks every figure shares.
//!
//! Colours are plain attributes, so a file on its own looks right (light). Classes and the custom property
//! `--dark` ride along; the page's style sheet uses them to adapt the same drawing to a dark page.

use std::fmt::Write;

use super::palette::Ink;
use crate::text::{Weight, escape};

/// Fonts in order of preference; the first is embedded for PNGs, the others are usual system fonts, none wider.
pub const FONTS: &str = "Inter, 'Helvetica Neue', Helvetica, 'Segoe UI', Roboto, Arial, sans-serif";

/// Inks shared by all figures: class name and its colour on white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Text that is read first.
    Ink,
    /// Text that is read second: tick labels, notes.
    Muted,
    /// Grid lines.
    Grid,
    /// Frames and ticks.
    Axis,
    /// The paper itself.
    Page,
}

impl Tone {
    /// Class name and colour on white.
    pub fn parts(self) -> (&'static str, &'static str) {
        match self {
            Tone::Ink => ("ink", "#1d1f23"),
            Tone::Muted => ("muted", "#555a62"),
            Tone::Grid => ("grid", "#e7e8ea"),
            Tone::Axis => ("axis", "#8f949c"),
            Tone::Page => ("page", "#ffffff"),
        }
    }
}

/// Whether text begins at its position, is centred on it, or ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Start,
    Middle,
    End,
}

/// How a piece of text looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub size: f64,
    pub weight: Weight,
    pub tone: Tone,
    pub align: Align,
}

impl Style {
    /// Regular text of a size.
    pub const fn new(size: f64, tone: Tone, align: Align) -> Style {
        Style { size, weight: Weight::Regular, tone, align }
    }

    /// The same in semi-bold.
    pub const fn bold(mut self) -> Style {
        self.weight = Weight::SemiBold;
        self
    }
}

/// A drawing in progress: a string that only grows by whole elements.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// Begins an element; finish it with [`Tag::end`], [`Tag::titled`] or [`Tag::open`].
    pub fn tag(&mut self, name: &'static str) -> Tag<'_> {
        self.body.push('<');
        self.body.push_str(name);
        Tag { svg: self, name }
    }

    /// Closes a group begun with [`Tag::open`].
    pub fn close(&mut self, name: &str) {
        let _ = writeln!(self.body, "</{name}>");
    }

    /// Begins a straight line.
    pub fn segment(&mut self, from: (f64, f64), to: (f64, f64)) -> Tag<'_> {
        self.tag("line").num("x1", from.0).num("y1", from.1).num("x2", to.0).num("y2", to.1)
    }

    /// A straight line in a shared ink.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), tone: Tone, width: f64) {
        self.segment(from, to).stroke_tone(tone).num("stroke-width", width).end();
    }

    /// Begins a rectangle, by its upper left corner and its size.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) -> Tag<'_> {
        self.tag("rect").num("x", x).num("y", y).num("width", width).num("height", height)
    }

    /// One line of text; `y` is the baseline.
    pub fn text(&mut self, x: f64, y: f64, style: Style, content: &str) {
        self.text_tag(x, y, style).content(content);
    }

    /// One line of text reading upwards, centred on the point.
    pub fn text_upwards(&mut self, x: f64, y: f64, style: Style, content: &str) {
        let turn = format!("rotate(-90 {} {})", number(x), number(y));
        self.text_tag(x, y, style).attr("transform", &turn).content(content);
    }

    fn text_tag(&mut self, x: f64, y: f64, style: Style) -> Tag<'_> {
        let (class, colour) = style.tone.parts();
        let mut tag = self.tag("text").num("x", x).num("y", y).num("font-size", style.size);
        tag = tag.attr("class", class).attr("fill", colour);
        if style.weight == Weight::SemiBold {
            tag = tag.attr("font-weight", "600");
        }
        match style.align {
            Align::Start => tag,
            Align::Middle => tag.attr("text-anchor", "middle"),
            Align::End => tag.attr("text-anchor", "end"),
        }
    }

    /// The document around the drawing: `label` is its name for readers who hear it.
    pub fn finish(self, width: f64, height: f64, label: &str, description: &str) -> String {
        let (w, h) = (number(width.ceil()), number(height.ceil()));
        let description = if description.is_empty() {
            String::new()
        } else {
            format!("<desc>{}</desc>\n", escape(description))
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             role=\"img\" aria-label=\"{}\" font-family=\"{}\">\n{description}<rect class=\"page\" width=\"{w}\" \
             height=\"{h}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(label),
            escape(FONTS),
            self.body
        )
    }
}

/// An element whose attributes are being written.
#[derive(Debug)]
#[must_use = "an element is only complete once it is ended"]
pub struct Tag<'a> {
    svg: &'a mut Svg,
    name: &'static str,
}

impl<'a> Tag<'a> {
    /// A numeric attribute.
    pub fn num(self, key: &str, value: f64) -> Self {
        let _ = write!(self.svg.body, " {key}=\"{}\"", number(value));
        self
    }

    /// A text attribute.
    pub fn attr(self, key: &str, value: &str) -> Self {
        let _ = write!(self.svg.body, " {key}=\"{}\"", escape(value));
        self
    }

    /// Strokes with a shared ink.
    pub fn stroke_tone(self, tone: Tone) -> Self {
        let (class, colour) = tone.parts();
        self.attr("class", class).attr("stroke", colour)
    }

    /// Strokes with a data colour.
    pub fn stroke_ink(self, ink: Ink) -> Self {
        self.attr("class", "s").paint("stroke", ink)
    }

    /// Fills with a data colour.
    pub fn fill_ink(self, ink: Ink) -> Self {
        self.attr("class", "f").paint("fill", ink)
    }

    /// A data colour as an attribute, with its dark variant for the page's style sheet.
    pub fn paint(self, key: &str, ink: Ink) -> Self {
        self.attr(key, &ink.light.to_string()).attr("style", &format!("--dark:{}", ink.dark))
    }

    /// Fills with a gradient or pattern of this drawing, by its id.
    pub fn fill_from(self, id: &str) -> Self {
        self.attr("fill", &format!("url(#{id})"))
    }

    /// Lets the pointer through to what lies below.
    pub fn inert(self) -> Self {
        self.attr("pointer-events", "none")
    }

    /// Ends an element without content.
    pub fn end(self) {
        self.svg.body.push_str("/>\n");
    }

    /// Ends an element that shows `title` when the pointer rests on it.
    pub fn titled(self, title: &str) {
        let _ = writeln!(self.svg.body, "><title>{}</title></{}>", escape(title), self.name);
    }

    /// Ends an element with text content.
    pub fn content(self, text: &str) {
        let _ = writeln!(self.svg.body, ">{}</{}>", escape(text), self.name);
    }

    /// Leaves the element open for children; the caller closes it with [`Svg::close`].
    pub fn open(self) {
        self.svg.body.push_str(">\n");
    }
}

/// A coordinate with at most two decimals: enough for a hundredth of a pixel.
pub fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// A polyline as path data; a new subpath begins after every `None`.
pub fn path(points: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let mut data = String::new();
    let mut pen_down = false;
    for point in points {
        match point {
            Some((x, y)) => {
                let _ = write!(data, "{}{} {}", if pen_down { 'L' } else { 'M' }, number(x), number(y));
                pen_down = true;
            }
            None => pen_down = false,
        }
    }
    data
}
