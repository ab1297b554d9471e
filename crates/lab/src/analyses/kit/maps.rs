//! Comparisons of networks with algorithms as figures and tables.

use crate::analyses::kit::compared::Compared;
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{MIDDLE_RULE, Setting};
use crate::compare::rates::{Trend, fit_rate};
use crate::findings::figure::{Figure, Scale, Table};

/// What other choices of the middle layers would have given.
pub fn ranges_table(id: &str, maps: &[&Compared]) -> Table {
    let chosen = maps[0].middle();
    let last = maps[0].matching.a.last();
    let mut ranges: Vec<(u64, u64)> = chosen.into_iter().collect();
    if let Some((first, end)) = chosen {
        ranges.extend([
            (first, end + 1),
            (first, end - 1),
            (first + 1, end),
            (first + 1, end + 1),
            (3, 9),
            (1, last),
        ]);
    }
    ranges.retain(|(first, end)| first < end && *end <= last);
    let mut rows = Vec::new();
    for (i, &(first, end)) in ranges.iter().enumerate() {
        for compared in maps {
            let Some(fit) = fit_rate(&compared.matching, first, end) else { continue };
            let (word, scale) = match fit.trend {
                Trend::Linear => ("line", 1.0),
                Trend::Exponential => ("exponential", 1.0 / 2f64.ln()),
            };
            let interval = |i: Option<(f64, f64)>, scale: f64| {
                i.map_or("–".into(), |(low, high)| format!("{:.2} to {:.2}", low * scale, high * scale))
            };
            rows.push(vec![
                format!("{first} to {end}{}", if i == 0 { ", by the rule" } else { "" }),
                compared.baseline.label.to_string(),
                fit.points.len().to_string(),
                word.into(),
                format!("{:.2}", fit.chosen().slope * scale),
                interval(fit.slope_interval, scale),
                format!("{:+.1}", fit.evidence_for_exponential()),
                interval(fit.evidence_interval, 1.0),
                fit.agreement.map_or("–".into(), |a| format!("{:.0} %", 100.0 * a)),
            ]);
        }
    }
    let columns = [
        "layers",
        "algorithm",
        "matches",
        "better fit",
        "steps (doublings) per layer",
        "95 %",
        "BIC for the exponential",
        "95 %",
        "resamples that agree",
    ];
    Table {
        id: id.into(),
        title: "The same fit to other layers".into(),
        caption: format!(
            "How much the choice of the middle layers matters: one layer more or fewer at either end, the paper's layers 3 to 9, and all. Matches at the ends of the search are not fitted. {MIDDLE_RULE}"
        ),
        columns: columns.map(String::from).to_vec(),
        rows,
    }
}

/// A figure of maps with what a reader must know of each.
pub fn maps_figure(
    lab: &Lab,
    id: &str,
    title: &str,
    setting: &Setting,
    maps: &[&Compared],
    note: &str,
) -> Figure {
    let floors: String = maps.iter().map(|c| c.floor_text(setting)).collect();
    let fits: String = maps.iter().map(|c| c.describe()).collect();
    Figure {
        id: id.into(),
        title: title.into(),
        caption: format!(
            "{} of every layer with every step ({}, {} prompts). {note}{fits}{floors}{}",
            maps[0].map.label,
            setting.words,
            maps[0].map.per_prompt.dim().2.min(lab.count),
            maps[0].rule()
        ),
        panels: maps.iter().map(|c| c.panel("")).collect(),
    }
}

/// A figure of best-matching steps with both fits; gradient descent on a scale of powers of two.
pub fn best_figure(id: &str, setting: &Setting, maps: &[(&Compared, Scale)]) -> Figure {
    Figure {
        id: id.into(),
        title: "Best-matching steps and their rate".into(),
        caption: format!(
            "For each layer the most similar step, with its 95 % bootstrap interval over prompts ({}). Dashed: the \
             line and the exponential fitted between the two vertical lines. {}{}",
            setting.words,
            maps.iter().map(|(c, _)| c.describe()).collect::<String>(),
            maps[0].0.rule()
        ),
        panels: maps.iter().map(|(c, scale)| c.best_panel(*scale)).collect(),
    }
}

/// Best step, its interval and the similarity there, per layer and algorithm.
pub fn best_table(lab: &Lab, id: &str, maps: &[&Compared]) -> Table {
    let mut columns = vec!["layer".to_string()];
    for c in maps {
        columns.push(format!("best {}", c.baseline.label));
        columns.push("95 %".into());
        columns.push(format!("{} there", c.map.label));
        columns.push("95 %".into());
    }
    let rows = maps[0].matching.a.as_slice().iter().enumerate().map(|(i, layer)| {
        let mut row = vec![layer.to_string()];
        for c in maps {
            let steps = c.matching.b.as_slice();
            row.push(c.matching.best[i].map_or("–".into(), |b| steps[b].to_string()));
            row.push(
                c.matching.intervals()[i]
                    .map_or("–".into(), |(l, h)| format!("{} to {}", steps[l], steps[h])),
            );
            let there = c.at_best(lab, i);
            row.push(format!("{:.4}", there.value));
            row.push(format!("{:.4} to {:.4}", there.low, there.high));
        }
        row
    });
    Table {
        id: id.into(),
        title: "Best-matching steps".into(),
        caption: "For each layer the most similar step, the bootstrap interval of that step, and the similarity there with its \
                  interval."
            .into(),
        columns,
        rows: rows.collect(),
    }
}
