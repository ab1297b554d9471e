//! Labels of reference lines: right of the plot and above it, kept apart.

use lab::findings::{At, LinesPanel};

use super::axis::Mapping;
use super::svg::{Align, Style, Tone};
use crate::text::{text_width, wrap};

/// How these labels look.
pub const NOTE: Style = Style::new(10.5, Tone::Muted, Align::Start);
/// Distance between their baselines.
pub const NOTE_LINE: f64 = 12.0;

/// Labels of horizontal references, right of the plot, pushed apart where they would touch.
pub fn side_notes(panel: &LinesPanel, y: &Mapping, height: f64) -> Vec<(f64, Vec<String>)> {
    let wanted = panel.references.iter().filter_map(|r| match r.at {
        At::Y(v) if y.contains(v) && !r.label.is_empty() => {
            Some((y.place(v), wrap(&r.label, 92.0, NOTE.size, NOTE.weight)))
        }
        _ => None,
    });
    let mut notes: Vec<(f64, Vec<String>)> = wanted.collect();
    notes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = |lines: &[String]| lines.len() as f64 * NOTE_LINE / 2.0 / height;
    for i in 1..notes.len() {
        let least = notes[i - 1].0 + half(&notes[i - 1].1) + half(&notes[i].1);
        notes[i].0 = notes[i].0.max(least);
    }
    let mut ceiling = 1.0 + NOTE_LINE / 2.0 / height;
    for (place, lines) in notes.iter_mut().rev() {
        *place = place.min(ceiling - half(lines));
        ceiling = *place - half(lines);
    }
    notes
}

/// Labels of vertical references, above the plot, in as many rows as keep them apart.
pub fn top_notes(panel: &LinesPanel, x: &Mapping, width: f64) -> Vec<(usize, f64, String)> {
    let mut rows: Vec<f64> = Vec::new();
    let mut wanted: Vec<(f64, &str)> = Vec::new();
    for reference in panel.references.iter().filter(|r| !r.label.is_empty()) {
        if let At::X(v) = reference.at
            && x.contains(v)
        {
            wanted.push((width * x.place(v), &reference.label));
        }
    }
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let place = |(centre, label): (f64, &str)| {
        let half = text_width(label, NOTE.size, NOTE.weight) / 2.0;
        let centre = centre.min(width - half).max(half);
        let row = rows.iter().position(|end| centre - half >= end + 8.0).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(0.0);
        }
        rows[row] = centre + half;
        (row, centre, label.to_string())
    };
    wanted.into_iter().map(place).collect()
}
