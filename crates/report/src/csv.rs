//! The numbers behind every picture: tidy CSV, one observation a row, floats that read back bit for bit.

use lab::figure::{At, Figure, HeatmapPanel, LinesPanel, Panel, Table};

const LINES: [&str; 6] = ["series", "x", "y", "low", "high", "grade"];
const HEATMAP: [&str; 7] =
    ["x_step", "y_step", "value", "is_best", "best_low_step", "best_high_step", "floor"];

/// All numbers of a figure. `panel` counts from 1; a figure that mixes panel kinds has the columns of both.
///
/// Lines: `series,x,y,low,high,grade`; a reference line is a row whose other coordinate is empty. Heat-maps:
/// `x_step,y_step,value,is_best,best_low_step,best_high_step,floor`, the interval only on the best row.
pub fn figure_csv(figure: &Figure) -> String {
    let lines = figure.panels.iter().any(|p| matches!(p, Panel::Lines(_)));
    let heatmap = figure.panels.iter().any(|p| matches!(p, Panel::Heatmap(_)));
    let mut out = String::new();
    let mut head = vec!["panel".to_string(), "panel_title".to_string()];
    head.extend(LINES.iter().filter(|_| lines).map(ToString::to_string));
    head.extend(HEATMAP.iter().filter(|_| heatmap).map(ToString::to_string));
    push_row(&mut out, &head);
    for (i, panel) in figure.panels.iter().enumerate() {
        let (title, rows) = match panel {
            Panel::Lines(panel) => (&panel.title, line_rows(panel)),
            Panel::Heatmap(panel) => (&panel.title, heatmap_rows(panel)),
        };
        for row in rows {
            let mut fields = vec![(i + 1).to_string(), title.clone()];
            let pad = |n: usize| std::iter::repeat_n(String::new(), n);
            match panel {
                Panel::Lines(_) => {
                    fields.extend(row);
                    fields.extend(pad(if heatmap { HEATMAP.len() } else { 0 }));
                }
                Panel::Heatmap(_) => {
                    fields.extend(pad(if lines { LINES.len() } else { 0 }));
                    fields.extend(row);
                }
            }
            push_row(&mut out, &fields);
        }
    }
    out
}

/// A table as CSV: its heads, then its rows.
pub fn table_csv(table: &Table) -> String {
    let mut out = String::new();
    push_row(&mut out, &table.columns);
    table.rows.iter().for_each(|row| push_row(&mut out, row));
    out
}

fn line_rows(panel: &LinesPanel) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for series in &panel.series {
        for (i, &(x, y)) in series.points.iter().enumerate() {
            let (low, high) = series.band.get(i).map_or_else(Default::default, |b| (float(b.0), float(b.1)));
            let grade = series.grade.map_or_else(String::new, float);
            rows.push(vec![series.label.clone(), float(x), float(y), low, high, grade]);
        }
    }
    for reference in &panel.references {
        let (x, y) = match reference.at {
            At::X(v) => (float(v), String::new()),
            At::Y(v) => (String::new(), float(v)),
        };
        rows.push(vec![reference.label.clone(), x, y, String::new(), String::new(), String::new()]);
    }
    rows
}

fn heatmap_rows(panel: &HeatmapPanel) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let step = |row: usize| panel.y_steps.get(row).map_or_else(String::new, ToString::to_string);
    for (column, x) in panel.x_steps.iter().enumerate() {
        for (row, y) in panel.y_steps.iter().enumerate() {
            let value = panel.values.get(row).and_then(|r| r.get(column)).copied().unwrap_or(f64::NAN);
            let best = panel.best.get(column) == Some(&Some(row));
            let interval = panel.best_interval.get(column).copied().flatten().filter(|_| best);
            let (low, high) = interval.map_or_else(Default::default, |(l, h)| (step(l), step(h)));
            let floor = panel.floor.map_or_else(String::new, float);
            rows.push(vec![x.to_string(), y.to_string(), float(value), best.to_string(), low, high, floor]);
        }
    }
    rows
}

/// The shortest text that reads back as the same float.
fn float(value: f64) -> String {
    format!("{value:?}")
}

fn push_row(out: &mut String, fields: &[String]) {
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}
