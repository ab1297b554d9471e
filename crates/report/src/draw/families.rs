//! Colours and legend entries of the series of one panel: ordered families get a ramp, the rest a category.

use lab::findings::{LinesPanel, Series};

use super::legend::{Entry, Sample};
use super::palette::{Ink, categorical, graded};
use super::panel::ColourBar;

/// More members than this, and a family is explained by a colour bar instead of a legend.
const LEGEND_LIMIT: usize = 8;

/// How one series looks: its colour and the shape of its markers.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub ink: Ink,
    pub shape: usize,
}

/// Looks of all series in order, the legend entries, and the colour bars of large families.
#[derive(Debug)]
pub struct Looks {
    pub looks: Vec<Look>,
    pub entries: Vec<Entry>,
    pub bars: Vec<ColourBar>,
}

/// Decides the looks of a panel; `key` makes names of gradients unique.
///
/// Series with a grade form a family when their labels differ only in a number: `Newton 5`, `Newton 9`.
pub fn looks(panel: &LinesPanel, key: &str) -> Looks {
    let mut families: Vec<((&str, &str), Vec<usize>)> = Vec::new();
    let mut looks = Vec::new();
    let mut categories = 0;
    for (i, series) in panel.series.iter().enumerate() {
        let look = match series.grade {
            Some(grade) => {
                let (before, _, after) = split_number(&series.label);
                let name = (before, after);
                let family = families.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
                    families.push((name, Vec::new()));
                    families.len() - 1
                });
                families[family].1.push(i);
                Look { ink: graded(family, grade), shape: family }
            }
            None => {
                categories += 1;
                Look { ink: categorical(categories - 1), shape: categories - 1 }
            }
        };
        looks.push(look);
    }
    let in_bar =
        |i: &usize| families.iter().any(|(_, members)| members.len() > LEGEND_LIMIT && members.contains(i));
    let entry = |i: usize| {
        let (series, look) = (&panel.series[i], looks[i]);
        Entry { sample: Sample::Curve(look.ink, series.stroke, look.shape), label: series.label.clone() }
    };
    let named = |i: &usize| !panel.series[*i].label.is_empty();
    let entries = (0..panel.series.len()).filter(|i| !in_bar(i)).filter(named).map(entry).collect();
    let large = families.iter().enumerate().filter(|(_, (_, members))| members.len() > LEGEND_LIMIT);
    let bars =
        large.map(|(family, (name, members))| bar(family, *name, members, &panel.series, key)).collect();
    Looks { looks, entries, bars }
}

fn bar(family: usize, name: (&str, &str), members: &[usize], series: &[Series], key: &str) -> ColourBar {
    let trim = |s: &str| s.trim().trim_end_matches('=').trim().to_string();
    let name =
        [trim(name.0), trim(name.1)].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" ");
    let label = |&i: &usize| {
        let (_, number, _) = split_number(&series[i].label);
        (series[i].grade.unwrap_or(0.0).clamp(0.0, 1.0), number.to_string())
    };
    let mut labels: Vec<(f64, String)> = members.iter().map(label).collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let stride = labels.len().div_ceil(7);
    let labels = labels.into_iter().step_by(stride).collect();
    let stops = (0..=16).map(|i| graded(family, f64::from(i) / 16.0)).collect();
    ColourBar {
        key: format!("{key}-family{family}"),
        name: ColourBar::break_name(&name),
        stops,
        labels,
        mark: None,
    }
}

/// Text before the last number of a label, that number, and the text after it.
fn split_number(label: &str) -> (&str, &str, &str) {
    let digit = |c: char| c.is_ascii_digit();
    let Some(last) = label.rfind(digit) else { return (label, "", "") };
    let part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '\u{202f}');
    let start = label[..last]
        .rfind(|c| !part(c))
        .map_or(0, |i| i + label[i..].chars().next().map_or(1, char::len_utf8));
    (&label[..start], &label[start..=last], &label[last + 1..])
}

#[cfg(test)]
mod tests {
    use super::split_number;

    #[test]
    fn the_last_number_of_a_label_is_found() {
        assert_eq!(split_number("Newton k = 15"), ("Newton k = ", "15", ""));
        assert_eq!(split_number("GD 2048 steps"), ("GD ", "2048", " steps"));
        assert_eq!(split_number("η=0.01"), ("η=", "0.01", ""));
        assert_eq!(split_number("OLS"), ("OLS", "", ""));
    }
}
