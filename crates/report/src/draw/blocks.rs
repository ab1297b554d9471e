//! Weights as block pictures: matrices cut into named slots, blue for positive and orange for negative numbers.

use lab::findings::{Block, BlocksPanel};

use super::palette::{Ink, categorical};
use super::panel::{Drawing, Frame, Labels, SMALL};
use super::svg::{Align, Style, Svg, Tone};
use crate::text::{Weight, format_number, text_width};

/// Size of slot names and of the numbers beside a matrix's name.
const TINY: f64 = 9.0;
/// Sides of slots of one entry and of many.
const SCALAR: f64 = 12.0;
const VECTOR: f64 = 28.0;
/// Space between matrices.
const GAP: f64 = 16.0;
/// Height of a matrix's name.
const NAME: f64 = 17.0;

/// Matrices measured for a plot of a given width.
#[derive(Debug)]
pub struct Blocks<'a> {
    panel: &'a BlocksPanel,
    labels: Labels,
    /// Side of a matrix, room for slot names beside and above it, matrices per row.
    side: f64,
    names: f64,
    per_row: usize,
    /// Whether the colours are explained below: once in a figure.
    explained: bool,
    frame: Frame,
}

impl<'a> Blocks<'a> {
    /// Measures a panel for a plot about `width` wide; as many matrices a row as fit.
    pub fn new(panel: &'a BlocksPanel, letter: &str, width: f64) -> Blocks<'a> {
        let side: f64 = panel.slots.iter().map(|(_, size)| extent(*size)).sum();
        let widest = panel.slots.iter().map(|(name, _)| text_width(name, TINY, Weight::Regular));
        let names = widest.fold(0.0, f64::max) + 6.0;
        let titles = panel.blocks.iter().map(|block| {
            let name = text_width(&block.name, SMALL, Weight::SemiBold);
            name + 5.0 + text_width(&size_of(block), TINY, Weight::Regular)
        });
        let side_by_side = titles.fold(side + names, f64::max) + GAP;
        let count = panel.blocks.len().max(1);
        // A little wider than asked is better than one matrix fewer.
        let per_row = (((1.15 * width + GAP) / side_by_side).floor() as usize).clamp(1, count);
        let rows = count.div_ceil(per_row) as f64;
        let width = width.max(side_by_side * per_row as f64 - GAP);
        let labels = Labels::new(letter, &panel.title, "", "", width, width);
        let explained = letter.is_empty() || letter == "(a)";
        let frame = Frame {
            width,
            height: rows * (NAME + names + side + GAP) - GAP,
            left: 2.0,
            right: 2.0,
            top: labels.above(),
            bottom: if explained { 26.0 } else { 8.0 },
        };
        Blocks { panel, labels, side, names, per_row, explained, frame }
    }

    /// Start and extent of each slot from the edge of a matrix, and its first entry.
    fn places(&self) -> Vec<(f64, f64, usize)> {
        let (mut at, mut entry) = (0.0, 0);
        let mut places = Vec::new();
        for (_, size) in &self.panel.slots {
            places.push((at, extent(*size), entry));
            at += extent(*size);
            entry += size;
        }
        places
    }

    fn draw_matrix(&self, svg: &mut Svg, block: &Block, (x, y): (f64, f64)) {
        svg.text(x, y + 11.0, Style::new(SMALL, Tone::Ink, Align::Start).bold(), &block.name);
        let after = x + text_width(&block.name, SMALL, Weight::SemiBold) + 5.0;
        svg.text(after, y + 11.0, Style::new(TINY, Tone::Muted, Align::Start), &size_of(block));
        let (left, top) = (x + self.names, y + NAME + self.names);
        let places = self.places();
        for ((name, _), (at, extent, _)) in self.panel.slots.iter().zip(&places) {
            let middle = at + extent / 2.0 + 3.3;
            svg.text(left - 4.0, top + middle, Style::new(TINY, Tone::Muted, Align::End), name);
            let style = Style::new(TINY, Tone::Muted, Align::Start);
            svg.text_upwards(left + middle, top - 4.0, style, name);
        }
        let outline = svg.rect((left, top), (self.side, self.side));
        outline.attr("fill", "none").stroke_tone(Tone::Axis).end();
        for (at, _, _) in places.iter().skip(1) {
            svg.line((left, top + at), (left + self.side, top + at), Tone::Grid, 1.0);
            svg.line((left + at, top), (left + at, top + self.side), Tone::Grid, 1.0);
        }
        for (row, down) in self.panel.slots.iter().zip(&places) {
            for (column, along) in self.panel.slots.iter().zip(&places) {
                self.draw_block(svg, block, (left, top), (row, *down), (column, *along));
            }
        }
    }

    /// One block: a multiple of the identity is one diagonal stroke, anything else cell by cell.
    fn draw_block(
        &self,
        svg: &mut Svg,
        block: &Block,
        (left, top): (f64, f64),
        (row, down): (&(String, usize), (f64, f64, usize)),
        (column, along): (&(String, usize), (f64, f64, usize)),
    ) {
        let value = |r: usize, c: usize| {
            block.values.get(down.2 + r).and_then(|v| v.get(along.2 + c)).copied().unwrap_or(f64::NAN)
        };
        let first = value(0, 0);
        let title =
            |value: f64| format!("{}: {} ← {}: {}", block.name, row.0, column.0, format_number(value));
        let entries = || (0..row.1).flat_map(|r| (0..column.1).map(move |c| (r, c)));
        let identity = row.1 == column.1
            && row.1 > 1
            && entries().all(|(r, c)| value(r, c) == if r == c { first } else { 0.0 });
        if identity && first != 0.0 {
            let inset = 2.0;
            let from = (left + along.0 + inset, top + down.0 + inset);
            let to = (left + along.0 + along.1 - inset, top + down.0 + down.1 - inset);
            let line = svg
                .segment(from, to)
                .stroke_ink(ink(first))
                .num("stroke-width", 3.0)
                .attr("stroke-linecap", "round");
            return line.titled(&title(first));
        }
        let cell = (along.1 / column.1 as f64, down.1 / row.1 as f64);
        for (r, c) in entries().filter(|&(r, c)| value(r, c) != 0.0) {
            let at = (left + along.0 + c as f64 * cell.0, top + down.0 + r as f64 * cell.1);
            let inset = if cell.0 > 6.0 { 1.5 } else { 0.0 };
            let size = (cell.0 - 2.0 * inset, cell.1 - 2.0 * inset);
            let rect = svg.rect((at.0 + inset, at.1 + inset), size);
            rect.fill_ink(ink(value(r, c))).titled(&title(value(r, c)));
        }
    }
}

impl Drawing for Blocks<'_> {
    fn frame(&self) -> Frame {
        self.frame
    }

    fn draw(&self, svg: &mut Svg, px: f64, py: f64) {
        let (wide, high) =
            ((self.frame.width + GAP) / self.per_row as f64, NAME + self.names + self.side + GAP);
        for (i, block) in self.panel.blocks.iter().enumerate() {
            let (column, row) = (i % self.per_row, i / self.per_row);
            self.draw_matrix(svg, block, (px + column as f64 * wide, py + row as f64 * high));
        }
        self.labels.draw(svg, (px, py), self.frame, 0.0, 0.0);
        if !self.explained {
            return;
        }
        let bottom = py + self.frame.height + 10.0;
        for (i, (sign, word)) in [(1.0, "positive"), (-1.0, "negative")].into_iter().enumerate() {
            let x = px + 82.0 * i as f64;
            svg.rect((x, bottom), (9.0, 9.0)).fill_ink(ink(sign)).end();
            svg.text(x + 14.0, bottom + 8.4, Style::new(SMALL, Tone::Muted, Align::Start), word);
        }
    }
}

fn ink(value: f64) -> Ink {
    categorical(usize::from(value < 0.0))
}

/// Side of a slot in the picture: a vector stays readable, a matrix stays small, whatever d.
fn extent(size: usize) -> f64 {
    match size {
        0 => 0.0,
        1 => SCALAR,
        size => VECTOR.max(size as f64),
    }
}

/// The number in a matrix when there is only one, else how large they are.
fn size_of(block: &Block) -> String {
    let mut present = block.values.iter().flatten().copied().filter(|v| *v != 0.0);
    let Some(first) = present.next() else { return "0".into() };
    let (mut same, mut largest) = (true, first.abs());
    for value in present {
        same &= value == first;
        largest = largest.max(value.abs());
    }
    if same { format_number(first) } else { format!("up to {}", format_number(largest)) }
}
