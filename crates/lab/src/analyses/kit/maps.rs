//! Comparisons with baselines in a notebook: claims on their rate, maps, best-matching steps.

use super::compared::Compared;
use super::notebook::{Entry, Notebook};
use super::setting::{MIDDLE_RULE, Setting};
use crate::compare::rates::{BEYOND_DOUBT, RateFit, Shape, Trend};
use crate::findings::{Bound, Reading};
use crate::stats::Estimate;

impl Notebook {
    /// The claim that best matches follow `trend` over the fitted layers, by a difference of BIC above [`BEYOND_DOUBT`]. A line is
    /// held against the exponential alone; [`Notebook::straight`] holds it against other curves.
    pub fn trend(&mut self, name: &str, of: &Compared, trend: Trend) -> Entry<'_> {
        let (word, other) = match trend {
            Trend::Linear => ("a line", "an exponential"),
            Trend::Exponential => ("an exponential", "a line, a power law or a parabola"),
        };
        let what = format!("{word} fits the best {} steps better than {other}", of.baseline.label);
        let value = move |fit: &RateFit| fit.evidence(trend);
        self.of_rate(name, of, Bound::Beyond(BEYOND_DOUBT), &what, ", BIC difference", value)
            .why(of.why_not(trend))
    }

    /// The claim that no power law and no parabola fits best matches better than a line, by a difference of BIC above
    /// [`BEYOND_DOUBT`].
    pub fn straight(&mut self, name: &str, of: &Compared) -> Entry<'_> {
        let what = format!(
            "neither a power law nor a parabola fits the best {} steps better than a line",
            of.baseline.label
        );
        let bound = Bound::AtLeast(-BEYOND_DOUBT);
        self.of_rate(name, of, bound, &what, ", BIC difference", RateFit::straightness)
            .why(of.why_not(Trend::Linear))
    }

    /// The claim about steps (or doublings of steps) per fitted layer.
    pub fn slope(&mut self, name: &str, of: &Compared, trend: Trend, bound: Bound) -> Entry<'_> {
        let steps = match trend {
            Trend::Exponential if of.fit.is_some() => "doublings of steps",
            _ => "steps",
        };
        let what = format!("{} {steps} per layer", of.baseline.label);
        self.of_rate(name, of, bound, &what, "", move |fit| fit.per_step(trend))
    }

    /// A claim about the rate over the fitted layers; beside it the same over layers by our rule and, where it was asked, by the
    /// authors' protocol.
    fn of_rate(
        &mut self,
        name: &str,
        of: &Compared,
        bound: Bound,
        what: &str,
        unit: &str,
        value: impl Fn(&RateFit) -> Estimate,
    ) -> Entry<'_> {
        let value = |fit: Option<&RateFit>| fit.map_or(Estimate::NONE, &value);
        let (label, who) = (of.map.label, &of.map.a.learner.name);
        let entry = self
            .claim(name, value(of.fit.as_ref()), bound)
            .asks(&[of.network])
            .says(format!("{label}, {who}: {what} ({}{unit})", of.layers()))
            .also(Reading::OUR_LAYERS, value(of.over_our_layers().as_ref()));
        match of.authors() {
            Some(authors) => entry.authors(value(authors.fit.as_ref())),
            None => entry,
        }
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

    /// Table `ranges`: what other choices of layers would have given, by each of four curves.
    pub fn other_layers(&mut self, maps: &[&Compared]) {
        let columns = [
            "layers",
            "algorithm",
            "matches",
            "line or exponential",
            "steps (doublings) per layer",
            "95 %",
            "BIC of the line",
            "exponential",
            "power law",
            "parabola",
            "beyond doubt",
        ];
        let ranges = ranges(maps[0]);
        let all = ranges.iter().flat_map(|(words, range)| maps.iter().map(move |c| (words, *range, *c)));
        let rows = all.filter_map(|(words, range, compared)| range_row(words, range, compared));
        let caption = format!(
            "How much the choice of layers matters: those of the claims, our own middle layers, one layer more or fewer at either \
             end, and all. The smallest BIC fits best, and a trend is beyond doubt where it is smaller by more than {BEYOND_DOUBT}. \
             Matches at the ends of the search are not fitted. {MIDDLE_RULE}"
        );
        self.table("ranges", "The same fit to other layers", caption, columns, rows);
    }
}

/// The fitted layers and other choices, each with what to say of it.
fn ranges(of: &Compared) -> Vec<(&'static str, (u64, u64))> {
    let Some((first, end)) = of.range() else { return vec![] };
    let last = of.matching.a.last();
    let mut ranges = vec![("", (first, end))];
    ranges.extend(of.middle().map(|middle| (", by our rule", middle)));
    let one_off = [(first, end + 1), (first, end - 1), (first + 1, end), (first + 1, end + 1), (1, last)];
    for range in one_off {
        if ranges.iter().all(|(_, other)| *other != range) {
            ranges.push(("", range));
        }
    }
    ranges.retain(|(_, (first, end))| first < end && *end <= last);
    ranges
}

fn range_row(words: &str, (first, end): (u64, u64), compared: &Compared) -> Option<Vec<String>> {
    let fit = compared.fit_over(first, end)?;
    let rate = fit.per_step(fit.trend);
    let mut row = vec![
        format!("{first} to {end}{words}"),
        compared.baseline.label.to_string(),
        fit.points.len().to_string(),
        if fit.trend == Trend::Linear { "line" } else { "exponential" }.into(),
        format!("{:.2}", rate.value),
        if rate.low.is_nan() { "–".into() } else { format!("{:.2} to {:.2}", rate.low, rate.high) },
    ];
    row.extend(Shape::ALL.map(|shape| format!("{:.1}", fit.of(shape).bic)));
    row.push(match fit.settled() {
        Some(Trend::Linear) => "line".into(),
        Some(Trend::Exponential) => "exponential".into(),
        None => "neither".into(),
    });
    Some(row)
}
