//! How far the axes of a line panel reach, and where the ticks of the horizontal one stand.

use lab::findings::{At, LinesPanel, Scale, Series, Stroke};

use super::axis::{Mapping, Tick};
use super::panel::small_width;

/// All values that decide the reach of an axis: data, bands and reference lines. Horizontally, of curves without markers only what
/// the vertical axis shows, and the point at which they leave it.
pub fn reach(panel: &LinesPanel, horizontal: bool) -> impl Iterator<Item = f64> + '_ {
    let pick = move |(x, y): (f64, f64)| if horizontal { x } else { y };
    let data = panel.series.iter().flat_map(move |series| {
        let points = series.points.iter().enumerate();
        points.filter(move |(i, _)| !horizontal || drawn(panel, series, *i)).map(move |(_, p)| pick(*p))
    });
    let bands = panel.series.iter().flat_map(|s| &s.band).flat_map(|&(low, high)| [low, high]);
    let lines = panel.references.iter().filter_map(move |r| match r.at {
        At::X(v) if horizontal => Some(v),
        At::Y(v) if !horizontal => Some(v),
        _ => None,
    });
    data.chain(bands.filter(move |_| !horizontal)).chain(lines)
}

/// Whether anything is drawn for a point of a series: a marker or an arrow head, or the curve to one of its neighbours.
fn drawn(panel: &LinesPanel, series: &Series, i: usize) -> bool {
    let inside = |(low, high): (f64, f64)| {
        let near = &series.points[i.saturating_sub(1)..(i + 2).min(series.points.len())];
        near.iter().any(|(_, y)| (low..=high).contains(y))
    };
    marked(series) || panel.y.range.is_none_or(inside)
}

/// Whether a series has a marker at every point.
pub fn marked(series: &Series) -> bool {
    matches!(series.stroke, Stroke::Markers | Stroke::LineMarkers)
}

/// Whether all data lie at whole numbers: layers, steps, pairs.
fn whole(panel: &LinesPanel) -> bool {
    panel.series.iter().flat_map(|s| &s.points).all(|(x, _)| x.fract() == 0.0)
}

/// As many ticks as their labels leave room for; at whole numbers alone where the data have no others.
pub fn horizontal_ticks(panel: &LinesPanel, axis: &Mapping, width: f64) -> Vec<Tick> {
    let whole = axis.scale == Scale::Linear && whole(panel);
    let clear = |ticks: &Vec<Tick>| {
        let even = !whole || ticks.iter().all(|t| t.value.fract() == 0.0);
        even && ticks.windows(2).all(|w| {
            let apart = width * (axis.place(w[1].value) - axis.place(w[0].value));
            let widths = [&w[0], &w[1]].map(|t| small_width(&t.label));
            apart >= (widths[0] + widths[1]) / 2.0 + 9.0
        })
    };
    (3..=8).rev().map(|wanted| axis.ticks(wanted)).find(clear).unwrap_or_else(|| axis.ticks(3))
}

#[cfg(test)]
mod tests {
    use lab::findings::{Axis, Figure};
    use resvg::usvg::roxmltree;

    use super::*;

    #[test]
    fn a_horizontal_axis_counts_in_whole_layers_and_ends_with_what_is_seen() {
        let texts = |panel: LinesPanel| -> Vec<String> {
            let svg = crate::figure_svg(&Figure::new("axis", "x", "", [panel]));
            let document = roxmltree::Document::parse(&svg).unwrap();
            let texts = document.descendants().filter(|n| n.has_tag_name("text"));
            texts.filter_map(|n| n.text().map(str::to_string)).collect()
        };
        let layers = Series::new("a", (1..=4).map(|l| (f64::from(l), 0.1)).collect());
        let found = texts(LinesPanel::new(Axis::linear("layer"), Axis::log10("error"), [layers]));
        assert!(found.contains(&"3".to_string()) && !found.iter().any(|t| t.contains("1.5")), "{found:?}");

        let falling = |stroke: fn(Series) -> Series| {
            let points = (0..=20).map(|i| (f64::from(i) * 10.0, 10f64.powi(-i))).collect();
            let y = Axis::log10("error").range(1e-6, 1.0);
            texts(LinesPanel::new(Axis::linear("steps"), y, [stroke(Series::new("a", points))]))
        };
        let (curve, marked) = (falling(|s| s), falling(Series::markers));
        assert!(!curve.contains(&"200".to_string()), "a curve is gone after 70 steps: {curve:?}");
        assert!(marked.contains(&"200".to_string()), "arrow heads tell of later steps: {marked:?}");
    }
}
