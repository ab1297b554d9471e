//! Comparisons with baselines in a notebook: claims on their rate, maps, best-matching steps.

use super::compared::Compared;
use super::notebook::{Entry, Notebook};
use super::setting::{MIDDLE_RULE, Setting};
use crate::compare::rates::Trend;
use crate::findings::Bound;

impl Notebook {
    /// The claim that best matches follow `trend` over the middle layers, decided by BIC.
    pub fn trend(&mut self, name: &str, of: &Compared, trend: Trend) -> Entry<'_> {
        let (word, other) = match trend {
            Trend::Linear => ("a line", "an exponential"),
            Trend::Exponential => ("an exponential", "a line"),
        };
        let statement = format!(
            "{}, {}: {word} fits the best {} steps better than {other} ({}, BIC difference)",
            of.map.label,
            of.map.a.learner.name,
            of.baseline.label,
            of.layers()
        );
        let claim = self.claim(name, of.evidence(trend), Bound::AtLeast(0.0)).asks(&[of.network]);
        claim.says(statement).why(of.why_not(trend))
    }

    /// The claim about steps (or doublings of steps) per middle layer.
    pub fn slope(&mut self, name: &str, of: &Compared, trend: Trend, bound: Bound) -> Entry<'_> {
        let what = match trend {
            Trend::Exponential if of.fit.is_some() => "doublings of steps",
            _ => "steps",
        };
        let statement = format!(
            "{}, {}: {} {what} per layer ({})",
            of.map.label,
            of.map.a.learner.name,
            of.baseline.label,
            of.layers()
        );
        self.claim(name, of.per_step(trend), bound).asks(&[of.network]).says(statement)
    }

    /// A figure of maps with what a reader must know of each.
    pub fn maps(&mut self, name: &str, title: &str, setting: &Setting, maps: &[&Compared], note: &str) {
        let floors: String = maps.iter().map(|c| c.floor_words(setting)).collect();
        let fits: String = maps.iter().map(|c| c.describe()).collect();
        let caption = format!(
            "{} of every layer with every step ({}). {note}{fits}{floors}{}",
            maps[0].map.label,
            setting.about(maps[0].map.prompts()),
            maps[0].rule()
        );
        self.figure(name, title, caption, maps.iter().map(|c| c.map_panel("")));
    }

    /// Figure `best`: best-matching steps with both fits.
    pub fn best(&mut self, setting: &Setting, maps: &[&Compared]) {
        let caption = format!(
            "For each layer the most similar step, with its 95 % bootstrap interval over prompts ({}). Dashed: the \
             line and the exponential fitted between the two vertical lines. {}{}",
            setting.words,
            maps.iter().map(|c| c.describe()).collect::<String>(),
            maps[0].rule()
        );
        self.figure(
            "best",
            "Best-matching steps and their rate",
            caption,
            maps.iter().map(|c| c.best_panel()),
        );
    }

    /// Best step, its interval and the similarity there, per layer and algorithm.
    pub fn best_matches(&mut self, name: &str, maps: &[&Compared]) {
        let columns = maps.iter().flat_map(|c| {
            let (best, there) = (format!("best {}", c.baseline.label), format!("{} there", c.map.label));
            [best, "95 %".into(), there, "95 %".into()]
        });
        let row = |(i, &layer): (usize, &u64)| {
            let cells = maps.iter().flat_map(|c| {
                let interval = c.matching.step_intervals()[i];
                let there = c.similarity_at(i);
                [
                    c.step_for(layer).map_or("–".into(), |step| step.to_string()),
                    interval.map_or("–".into(), |(low, high)| format!("{low} to {high}")),
                    format!("{:.4}", there.value),
                    format!("{:.4} to {:.4}", there.low, there.high),
                ]
            });
            std::iter::once(layer.to_string()).chain(cells).collect()
        };
        self.table(
            name,
            "Best-matching steps",
            "For each layer the most similar step, the bootstrap interval of that step, and the similarity there with its \
             interval.",
            std::iter::once("layer".to_string()).chain(columns),
            maps[0].matching.a.as_slice().iter().enumerate().map(row),
        );
    }

    /// Table `ranges`: what other choices of the middle layers would have given.
    pub fn other_layers(&mut self, maps: &[&Compared]) {
        let chosen = maps[0].range();
        let last = maps[0].matching.a.last();
        let mut ranges: Vec<(u64, u64)> = chosen.into_iter().collect();
        if let Some((first, end)) = chosen {
            let one_off = [(first, end + 1), (first, end - 1), (first + 1, end), (first + 1, end + 1)];
            ranges.extend(one_off.into_iter().chain([(3, 9), (1, last)]));
        }
        ranges.retain(|(first, end)| first < end && *end <= last);
        let row = |i: usize, (first, end): (u64, u64), compared: &Compared| {
            let fit = compared.fit_over(first, end)?;
            let (rate, evidence) = (fit.per_step(fit.trend), fit.evidence(Trend::Exponential));
            let interval = |low: f64, high: f64| {
                if low.is_nan() || high.is_nan() { "–".into() } else { format!("{low:.2} to {high:.2}") }
            };
            Some(vec![
                format!("{first} to {end}{}", if i == 0 { ", by the rule" } else { "" }),
                compared.baseline.label.to_string(),
                fit.points.len().to_string(),
                if fit.trend == Trend::Linear { "line" } else { "exponential" }.into(),
                format!("{:.2}", rate.value),
                interval(rate.low, rate.high),
                format!("{:+.1}", evidence.value),
                interval(evidence.low, evidence.high),
                fit.agreement.map_or("–".into(), |a| format!("{:.0} %", 100.0 * a)),
            ])
        };
        let all = ranges.iter().enumerate().flat_map(|(i, &range)| maps.iter().map(move |c| (i, range, *c)));
        let caption = format!(
            "How much the choice of the middle layers matters: one layer more or fewer at either end, the paper's layers 3 to 9, and all. Matches at the ends of the search are not fitted. {MIDDLE_RULE}"
        );
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
        let rows = all.filter_map(|(i, range, compared)| row(i, range, compared));
        self.table("ranges", "The same fit to other layers", caption, columns, rows);
    }
}
