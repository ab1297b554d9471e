//! Figures: panels side by side, their plots aligned.

use lab::findings::{Figure, Panel};

use super::blocks::Blocks;
use super::heatmap::Heatmap;
use super::lines::Lines;
use super::panel::{Drawing, Frame};
use super::svg::Svg;

/// Space around a figure and between its panels.
const MARGIN: f64 = 8.0;
const GUTTER: f64 = 26.0;

/// The whole figure as one SVG document, light, ready for a paper.
pub fn figure_svg(figure: &Figure) -> String {
    let size = if figure.panels.len() > 1 { (320.0, 250.0) } else { (430.0, 280.0) };
    let panels = measure(figure, size);
    let columns = columns(panels.len());
    let rows: Vec<&[Box<dyn Drawing + '_>]> = panels.chunks(columns).collect();
    // Plots of one column share their left edge, plots of one row their top.
    let fold = |column: usize, pick: fn(Frame) -> f64| {
        rows.iter().filter_map(|r| r.get(column)).map(|p| pick(p.frame())).fold(0.0, f64::max)
    };
    let lefts: Vec<f64> = (0..columns).map(|c| fold(c, |f| f.left)).collect();
    let rights: Vec<f64> = (0..columns).map(|c| fold(c, |f| f.width + f.right)).collect();
    let mut svg = Svg::default();
    let mut y = MARGIN;
    for row in &rows {
        let (top, bottom) = vertical(row);
        let mut x = MARGIN;
        for (column, panel) in row.iter().enumerate() {
            x += lefts[column];
            panel.draw(&mut svg, x, y + top);
            x += rights[column] + GUTTER;
        }
        y += top + row.iter().map(|p| p.frame().height).fold(0.0, f64::max) + bottom + GUTTER / 2.0;
    }
    let width = lefts.iter().chain(&rights).sum::<f64>() + GUTTER * (columns - 1) as f64 + 2.0 * MARGIN;
    svg.finish(width, y - GUTTER / 2.0 + MARGIN, &figure.title, &figure.caption)
}

/// Each panel as its width and an SVG of its own with common heights, so that a page can wrap them on a narrow screen and
/// still align them on a wide one. Plots are small enough for their text to be read on a phone.
pub fn panel_svgs(figure: &Figure) -> Vec<(f64, String)> {
    let panels = measure(figure, (300.0, 240.0));
    let (top, bottom) = vertical(&panels);
    let mut drawn = Vec::new();
    for (panel, drawing) in figure.panels.iter().zip(&panels) {
        let frame = drawing.frame();
        let mut svg = Svg::default();
        drawing.draw(&mut svg, frame.left + 2.0, top + 2.0);
        let (width, height) =
            (frame.left + frame.width + frame.right + 4.0, top + frame.height + bottom + 2.0);
        let title = panel.title();
        let label =
            if title.is_empty() { figure.title.clone() } else { format!("{}: {title}", figure.title) };
        drawn.push((width, svg.finish(width, height, &label, "")));
    }
    drawn
}

/// Panels a row: up to three, four as two by two.
fn columns(count: usize) -> usize {
    match count {
        0..=3 => count.max(1),
        4 => 2,
        _ => 3,
    }
}

fn vertical(panels: &[Box<dyn Drawing + '_>]) -> (f64, f64) {
    let most = |pick: fn(Frame) -> f64| panels.iter().map(|p| pick(p.frame())).fold(0.0, f64::max);
    (most(|f| f.top), most(|f| f.bottom))
}

fn measure(figure: &Figure, (width, height): (f64, f64)) -> Vec<Box<dyn Drawing + '_>> {
    let several = figure.panels.len() > 1;
    let mut panels: Vec<Box<dyn Drawing + '_>> = Vec::new();
    for (i, panel) in figure.panels.iter().enumerate() {
        let letter = if several { format!("({})", letter(i)) } else { String::new() };
        let key = format!("{}-{}", safe_key(&figure.id), i + 1);
        panels.push(match panel {
            Panel::Heatmap(p) => Box::new(Heatmap::new(p, &letter, &key, width, height)),
            Panel::Lines(p) => Box::new(Lines::new(p, &letter, &key, width, height)),
            Panel::Blocks(p) => Box::new(Blocks::new(p, &letter, width)),
        });
    }
    panels
}

/// `a` … `z`, then numbers.
fn letter(index: usize) -> String {
    u8::try_from(index)
        .ok()
        .filter(|i| *i < 26)
        .map_or_else(|| (index + 1).to_string(), |i| ((b'a' + i) as char).into())
}

/// An identifier without characters that `url(#…)` could not carry.
fn safe_key(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
