//! Figures as drawings and as numbers: on the figures of the gallery and on random, crowded ones.

use lab::findings::{Axis, Figure, HeatmapPanel, LinesPanel, Panel, Scale, Series};
use resvg::tiny_skia::Pixmap;
use resvg::usvg::{self, roxmltree};

use super::axis::Mapping;
use crate::Error;
use crate::tests::fixture;

/// Random numbers in `0..1` for property tests: a Weyl sequence through a mixer.
fn uniform(index: u64) -> f64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn ticks_are_few_increasing_and_on_the_axis() {
    for i in 0..6000 {
        let u = |k: u64| uniform(7 * i + k);
        let magnitude = 10f64.powf(u(0) * 24.0 - 12.0);
        let span = 10f64.powf(u(1) * 30.0 - 1.5);
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
            let low = if scale == Scale::Linear { (u(2) - 0.5) * magnitude } else { magnitude };
            let high = if scale == Scale::Linear {
                low + magnitude * 10f64.powf(u(3) * 4.0 - 2.0)
            } else {
                low * (1.0 + span)
            };
            let axis = Mapping::new(scale, Some((low, high)), std::iter::empty(), 0.0);
            let ticks = axis.ticks(3 + (u(4) * 6.0) as usize);
            let values: Vec<f64> = ticks.iter().map(|t| t.value).collect();
            assert!((2..=12).contains(&values.len()), "{axis:?}: {values:?}");
            assert!(values.windows(2).all(|w| w[0] < w[1]), "{axis:?}: {values:?}");
            assert!(values.iter().all(|v| axis.contains(*v)), "{axis:?}: {values:?}");
            assert!(ticks.windows(2).all(|w| w[0].label != w[1].label), "{axis:?}: {ticks:?}");
        }
    }
}

#[test]
fn an_axis_survives_any_data() {
    for data in
        [vec![], vec![f64::NAN], vec![0.0], vec![3.0, 3.0], vec![-1.0, 0.0], vec![f64::INFINITY, 1e300]]
    {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
            let axis = Mapping::new(scale, None, data.iter().copied(), 0.04);
            assert!(axis.low < axis.high && axis.place(axis.low).abs() < 1e-9, "{axis:?}");
            assert!(axis.place(0.0).is_finite() && axis.place(-5.0).is_finite());
        }
    }
}

/// All text boxes of a drawing as the rasteriser shapes them: x, y, right, bottom and content.
fn text_boxes(group: &usvg::Group, found: &mut Vec<(usvg::Rect, String)>) {
    for node in group.children() {
        match node {
            usvg::Node::Group(inner) => text_boxes(inner, found),
            usvg::Node::Text(text) => {
                let content = text.chunks().iter().map(|c| c.text().to_string()).collect();
                found.push((text.abs_bounding_box(), content));
            }
            _ => {}
        }
    }
}

/// Crowded figures: many columns, long names, references close together, colour scales of any reach.
fn crowded(seed: u64) -> Figure {
    let u = |k: u64| uniform(1000 * seed + k);
    let words = |k: u64| {
        "steps of a learner with quite a long name in several words".split_at(4 + (u(k) * 54.0) as usize).0
    };
    let steps = |k: u64| -> Vec<u64> {
        (0..1 + (u(k) * 60.0) as u64).map(|i| i * (u(k + 1) * 900.0) as u64 + i).collect()
    };
    let (x_steps, y_steps) = (steps(0), steps(2));
    let (offset, reach) = (u(4) - 0.5, 10f64.powf(u(5) * 5.0 - 4.0));
    let value = |r: usize, c: usize| offset + reach * uniform((r * 61 + c) as u64);
    let values = (0..y_steps.len()).map(|r| (0..x_steps.len()).map(|c| value(r, c)).collect()).collect();
    let map = HeatmapPanel {
        title: words(6).into(),
        x_label: words(7).into(),
        y_label: words(8).into(),
        best: vec![Some(0); x_steps.len()],
        best_interval: vec![Some((0, y_steps.len() - 1)); x_steps.len()],
        x_steps,
        y_steps,
        values,
        value_label: words(9).into(),
        floor: Some(offset + reach * u(10)),
        numbers: u(18) < 0.5,
    };
    let scales = [Scale::Linear, Scale::Log10, Scale::Log2];
    let scale = |k: u64| scales[(u(k) * 3.0) as usize];
    let low = 10f64.powf(u(11) * 16.0 - 8.0);
    let point = |i: u64| (low * (1.0 + i as f64), low * 10f64.powf(u(12) * 20.0 * u(20 + i)));
    let graded = |s: u64| u(13) < 0.5 && s > 2;
    let series = (0..3 + (u(14) * 16.0) as u64).map(|s| {
        let curve = Series::new(format!("{} {s}", words(40)), (0..9).map(point).collect());
        if graded(s) { curve.grade(s as f64 / 20.0) } else { curve.markers() }
    });
    let axes = (Axis::new(words(42), scale(15)), Axis::new(words(43), scale(16)));
    let mut lines = LinesPanel::new(axes.0, axes.1, series).titled(words(41));
    for i in 0..(u(17) * 6.0) as u64 {
        lines = match i.is_multiple_of(2) {
            true => lines.mark_y(words(50 + i), point(i % 3).1 * (1.0 + 0.01 * u(i))),
            false => lines.mark_x(words(50 + i), low * (1.0 + 4.0 * u(60 + i))),
        };
    }
    Figure::new(format!("crowded-{seed}"), "x", "", [Panel::from(map), lines.into()])
}

#[test]
fn text_lies_inside_the_view_box_and_never_on_other_text() {
    let gallery = fixture::findings().into_iter().flat_map(|f| f.figures);
    for figure in gallery.chain((0..40).map(crowded)) {
        for svg in std::iter::once(crate::figure_svg(&figure))
            .chain(super::panel_svgs(&figure).into_iter().map(|p| p.1))
        {
            let tree = crate::png::parse(&svg).unwrap();
            let mut boxes = Vec::new();
            text_boxes(tree.root(), &mut boxes);
            let written = roxmltree::Document::parse(&svg).unwrap();
            assert_eq!(boxes.len(), written.descendants().filter(|n| n.has_tag_name("text")).count());
            for (i, (a, text)) in boxes.iter().enumerate() {
                let inside = a.left() >= 0.0 && a.top() >= 0.0 && a.right() <= tree.size().width();
                assert!(inside && a.bottom() <= tree.size().height(), "{}: {text:?} at {a:?}", figure.id);
                for (b, other) in &boxes[..i] {
                    // Boxes hold the full line height of a font; half of it is air.
                    let air = 3.5;
                    let across = a.left() + 0.5 < b.right() && b.left() + 0.5 < a.right();
                    let along = a.top() + air < b.bottom() && b.top() + air < a.bottom();
                    assert!(!(across && along), "{}: {text:?} on {other:?}: {a:?} {b:?}", figure.id);
                }
            }
        }
    }
}

#[test]
fn every_cell_and_point_tells_its_value_and_few_elements_draw_them() {
    let svg = crate::figure_svg(&fixture::heatmap_alone());
    let document = roxmltree::Document::parse(&svg).unwrap();
    let told = document.descendants().find_map(|n| n.attribute("data-cells")).unwrap();
    assert_eq!(told.split(' ').count(), 23 * 27);
    assert!(document.descendants().filter(|n| n.is_element()).count() < 200);
    let figure = fixture::curves();
    let svg = crate::figure_svg(&figure);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let told: Vec<&str> = document.descendants().filter_map(|n| n.attribute("data-points")).collect();
    let Panel::Lines(panel) = &figure.panels[0] else { unreachable!("the fixture has curves") };
    assert_eq!(told.len(), panel.series.len());
    assert!(told.iter().all(|points| points.split(' ').count() == 10), "{told:?}");
    assert!(told[0].contains(",512,"), "the last point of the first series: {}", told[0]);
}

#[test]
fn a_numbered_map_prints_every_cell_in_few_elements() {
    let steps = |count: u64| (1..=count).collect::<Vec<u64>>();
    let values: Vec<Vec<f64>> =
        (0..24).map(|r| (0..12).map(|c| uniform(12 * r + c) * 1.4 - 0.3).collect()).collect();
    let map = |values: Vec<Vec<f64>>| {
        HeatmapPanel::plain("", ("layer", steps(12)), ("steps", steps(24)), "SimE", values)
    };
    let printed = |map: HeatmapPanel| {
        let svg = crate::figure_svg(&Figure::new("numbers", "x", "", [map]));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts = document.descendants().filter(|n| n.has_tag_name("text"));
        let cells: Vec<String> = texts
            .filter(|n| n.attribute("x").is_some_and(|x| x.contains(' ')))
            .map(|n| n.text().unwrap_or_default().to_string())
            .collect();
        (cells.len(), cells.concat().matches('.').count())
    };
    assert_eq!(printed(map(values.clone())), (0, 0), "cells of a dense map stay empty unless asked");
    let (elements, numbers) = printed(map(values.clone()).numbered());
    assert_eq!(numbers, 24 * 12);
    assert!(elements < 24 * 10, "{elements} elements");
    let mut holes = values;
    holes[3][4] = f64::NAN;
    assert_eq!(printed(map(holes).numbered()).1, 24 * 12 - 1);
}

#[test]
fn arrow_heads_below_the_axis_do_not_overlap() {
    let heads = |apart: f64| {
        let points = (0..100).map(|i| (f64::from(i) * apart, 1e-9)).chain([(1000.0, 1.0)]).collect();
        let y = Axis::log10("error").range(1e-6, 1.0);
        let panel = LinesPanel::new(Axis::linear("steps"), y, [Series::new("a", points).markers()]);
        let svg = crate::figure_svg(&Figure::new("heads", "x", "", [panel]));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let path = document.descendants().find(|n| n.attribute("stroke-width") == Some("1.3")).unwrap();
        let starts = path.attribute("d").unwrap().split('M').skip(1);
        starts.map(|head| head.split(' ').next().unwrap().parse::<f64>().unwrap()).collect::<Vec<f64>>()
    };
    for apart in [0.5, 3.0, 10.0] {
        let heads = heads(apart);
        assert!(heads.len() > 1 && heads.windows(2).all(|w| w[1] - w[0] > 7.0), "{apart}: {heads:?}");
    }
}

#[test]
fn pixels_have_the_size_asked_for() {
    let figure = fixture::curves();
    let tree = crate::png::parse(&crate::figure_svg(&figure)).unwrap();
    let picture = Pixmap::decode_png(&crate::figure_png(&figure, 1.5).unwrap()).unwrap();
    assert_eq!(picture.width(), (tree.size().width() * 1.5).ceil() as u32);
    assert_eq!(picture.height(), (tree.size().height() * 1.5).ceil() as u32);
    let dark = picture.pixels().iter().filter(|p| p.red() < 90 && p.alpha() == 255).count();
    assert!(dark > 500, "no ink: {dark}");
    assert!(matches!(crate::figure_png(&figure, 0.0), Err(Error::Raster { .. })));
}

#[test]
fn csv_gives_every_number_back() {
    let points: Vec<(f64, f64)> =
        (0..50).map(|i| (uniform(i), 10f64.powf(uniform(i + 99) * 600.0 - 300.0))).collect();
    let band: Vec<(f64, f64)> = points.iter().map(|p| (p.1 / 3.0, p.1 * 3.0)).collect();
    let series = Series::new("a", points.clone()).band(band.clone());
    let panel = LinesPanel::new(Axis::linear("x"), Axis::linear("x"), [series]);
    let figure = Figure::new("x", "x", "", [panel]);
    let csv = crate::figure_csv(&figure);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("panel,panel_title,series,x,y,low,high,grade"));
    for (line, (point, band)) in lines.zip(points.iter().zip(&band)) {
        let read: Vec<f64> = line.split(',').skip(3).take(4).map(|f| f.parse().unwrap()).collect();
        assert_eq!(read, [point.0, point.1, band.0, band.1]);
    }

    let figure = fixture::heatmap_alone();
    let Panel::Heatmap(map) = &figure.panels[0] else { unreachable!("the fixture is a heat-map") };
    let csv = crate::figure_csv(&figure);
    assert!(csv.starts_with("panel,panel_title,x_step,y_step,value,is_best,"));
    let mut best = 0;
    for line in csv.lines().skip(1) {
        let row: Vec<&str> = line.split(',').collect();
        let column = map.x_steps.iter().position(|s| s.to_string() == row[2]).unwrap();
        let line = map.y_steps.iter().position(|s| s.to_string() == row[3]).unwrap();
        assert_eq!(row[4].parse::<f64>().unwrap(), map.values[line][column]);
        best += usize::from(row[5] == "true");
    }
    assert_eq!(best, map.best.iter().flatten().count());
    let mut table = fixture::findings()[0].tables[0].clone();
    table.rows[0][0] = "a, \"b\"".into();
    let csv = crate::table_csv(&table);
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.contains("\"a, \"\"b\"\"\",8,"), "{csv}");
}

#[test]
fn blocks_tell_every_weight() {
    let figure = fixture::blocks();
    let Panel::Blocks(panel) = &figure.panels[0] else { unreachable!("the fixture is made of blocks") };
    let present = |b: &lab::findings::Block| b.values.iter().flatten().filter(|v| **v != 0.0).count();
    let csv = crate::figure_csv(&figure);
    assert!(csv.starts_with("panel,panel_title,matrix,row_slot,row,column_slot,column,weight\n"));
    let weights = |panel: &str| csv.lines().filter(|line| line.starts_with(panel)).count();
    assert_eq!(weights("1,"), panel.blocks.iter().map(present).sum::<usize>());
    assert!(csv.contains("Layers 2–13: Newton,A₁,a,4,b,4,-40.5\n"), "{csv}");
    // A multiple of the identity is one stroke, the rest is one rectangle a number.
    let svg = crate::figure_svg(&figure);
    assert_eq!(svg.matches("<title>A₁: a ← b: −40.5</title>").count(), 2);
    assert!(svg.contains("<title>V₁: label ← cos2: −2469</title>"), "{svg}");
}

#[test]
fn no_numbers_are_too_odd_for_an_axis() {
    let odd = [0.0, -0.0, 5e-324, 1e-300, 1.0, 1.0 + f64::EPSILON, 1e300, f64::MAX, f64::INFINITY, f64::NAN];
    for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
        for (low, high) in odd.iter().flat_map(|low| odd.map(|high| (*low, high))) {
            for range in [None, Some((low, high)), Some((-high, -low))] {
                let axis = Mapping::new(scale, range, [low, high, -low].into_iter(), 0.05);
                assert!(axis.low.is_finite() && axis.low < axis.high && axis.high.is_finite(), "{axis:?}");
                assert!(axis.ticks(6).len() < 50, "{axis:?}");
                axis.minor_ticks();
            }
        }
    }
}
