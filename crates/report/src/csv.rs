//! The numbers behind every picture: tidy CSV, one observation a row, floats that read back bit for bit.

use lab::findings::{At, BlocksPanel, Figure, HeatmapPanel, LinesPanel, Panel, Table};

const LINES: [&str; 6] = ["series", "x", "y", "low", "high", "grade"];
const HEATMAP: [&str; 7] =
    ["x_step", "y_step", "value", "is_best", "best_low_step", "best_high_step", "floor"];
const BLOCKS: [&str; 6] = ["matrix", "row_slot", "row", "column_slot", "column", "weight"];

/// All numbers of a figure. `panel` counts from 1; a figure that mixes panel kinds has the columns of all.
///
/// Lines: `series,x,y,low,high,grade`; a reference line is a row whose other coordinate is empty. Heat-maps:
/// `x_step,y_step,value,is_best,best_low_step,best_high_step,floor`, the interval only on the best row. Blocks:
/// `matrix,row_slot,row,column_slot,column,weight`, rows and columns counted within their slots, only weights that are not 0.
pub fn figure_csv(figure: &Figure) -> String {
    let columns = |panel: &Panel| -> &[&str] {
        match panel {
            Panel::Lines(_) => &LINES,
            Panel::Heatmap(_) => &HEATMAP,
            Panel::Blocks(_) => &BLOCKS,
        }
    };
    let kinds: [&[&str]; 3] = [&LINES, &HEATMAP, &BLOCKS];
    let present = kinds.into_iter().filter(|kind| figure.panels.iter().any(|p| columns(p) == *kind));
    let head: Vec<&str> = ["panel", "panel_title"].into_iter().chain(present.flatten().copied()).collect();
    let mut out = String::new();
    push_row(&mut out, &head);
    for (i, panel) in figure.panels.iter().enumerate() {
        let own = columns(panel);
        let start =
            head.iter().position(|name| *name == own[0]).expect("the columns of every panel are present");
        let rows = match panel {
            Panel::Lines(panel) => line_rows(panel),
            Panel::Heatmap(panel) => heatmap_rows(panel),
            Panel::Blocks(panel) => block_rows(panel),
        };
        for row in rows {
            let mut fields = vec![String::new(); head.len()];
            fields[0] = (i + 1).to_string();
            fields[1] = panel.title().to_string();
            fields[start..start + own.len()].clone_from_slice(&row);
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

fn block_rows(panel: &BlocksPanel) -> Vec<Vec<String>> {
    let names: Vec<(&str, usize)> =
        panel.slots.iter().flat_map(|(name, size)| (0..*size).map(move |i| (name.as_str(), i))).collect();
    let mut rows = Vec::new();
    for block in &panel.blocks {
        for (row, values) in names.iter().zip(&block.values) {
            for (column, value) in names.iter().zip(values).filter(|(_, v)| **v != 0.0) {
                let [row, column] = [row, column].map(|(name, i)| (name.to_string(), i.to_string()));
                rows.push(vec![block.name.clone(), row.0, row.1, column.0, column.1, float(*value)]);
            }
        }
    }
    rows
}

/// The shortest text that reads back as the same float.
fn float(value: f64) -> String {
    format!("{value:?}")
}

fn push_row(out: &mut String, fields: &[impl AsRef<str>]) {
    let quoted = |field: &str| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_string(),
    };
    out.push_str(&fields.iter().map(|field| quoted(field.as_ref())).collect::<Vec<_>>().join(","));
    out.push('\n');
}
