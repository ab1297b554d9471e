//! A fingerprint in words.

use super::Identified;
use crate::findings::numbers::counted;
use crate::fingerprint::{AfterPairs, Overall};
use crate::learners::steps::Steps;
use crate::solvers;

/// A step of which less than this share is left is described.
const DESCRIBED: f64 = 0.5;

/// Recorded steps that follow one another and that the same algorithm describes.
struct Group<'a> {
    name: &'a str,
    ends: (u64, u64),
    left: (f64, f64),
}

/// What a step is worth after one number of pairs, by its return maps.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The step before the first map, and the step of the last.
    pub between: (u64, u64),
    /// Fewest and most Newton iterations of one step, log₂ of its order.
    pub range: (f64, f64),
    /// Their mean, and those of a and b of f ← a f − b f².
    pub overall: Overall,
}

impl Worth {
    /// What the steps of a fingerprint are worth; none where no filter says enough of the next.
    pub fn of(after: &AfterPairs, steps: &Steps) -> Option<Worth> {
        let mapped = || after.maps.iter().enumerate().filter_map(|(s, map)| Some((s, (*map)?)));
        let (first, last) = (mapped().next()?.0, mapped().next_back()?.0);
        let iterations = mapped().map(|(_, map)| map.order.value.log2());
        let range = iterations
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), of| (low.min(of), high.max(of)));
        let between = (steps.as_slice()[first], steps.as_slice()[last + 1]);
        Some(Worth { between, range, overall: after.overall })
    }
}

impl Identified {
    /// What a step is worth after the most pairs.
    pub fn worth(&self) -> Option<Worth> {
        Worth::of(self.fingerprint.lengths.last()?, &self.fingerprint.steps)
    }

    /// What was found, for the first screen: which algorithm, and what a step is worth.
    pub fn answer(&self) -> String {
        format!("{} {}", self.naming_words(), self.worth_words())
    }

    /// Which algorithm it is, and how much of it any filter could be.
    pub fn naming_words(&self) -> String {
        let named = self.naming.words();
        match self.units.of(self.unit) {
            left if left.is_finite() => {
                format!(
                    "{named}{} One filter for all prompts leaves {:.1} %.",
                    self.described(),
                    100.0 * left
                )
            }
            _ => named,
        }
    }

    /// Where no algorithm describes the whole: the steps of which one leaves less than half, a sentence.
    fn described(&self) -> String {
        if !self.naming.names().is_empty() {
            return String::new();
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut before = None;
        for (s, &step) in self.fingerprint.steps.as_slice().iter().enumerate() {
            let found = self.closest(s).filter(|(.., left)| *left <= DESCRIBED);
            if let Some((name, _, left)) = found {
                match groups.last_mut() {
                    Some(Group { ends, left: (low, high), .. }) if before == Some(name) => {
                        (ends.1, *low, *high) = (step, low.min(left), high.max(left));
                    }
                    _ => groups.push(Group { name, ends: (step, step), left: (left, left) }),
                }
            }
            before = found.map(|(name, ..)| name);
        }
        let words = groups.iter().map(|Group { name, ends: (first, last), left: (low, high) }| {
            let share = match format!("{:.0}", 100.0 * low) {
                same if same == format!("{:.0}", 100.0 * high) => same,
                low => format!("{low} to {:.0}", 100.0 * high),
            };
            let steps = if first == last { first.to_string() } else { format!("{first} to {last}") };
            format!("{steps} ({name}, {share} %)")
        });
        let words: Vec<String> = words.collect();
        match words.is_empty() {
            true => String::new(),
            false => format!(" Less than half is left of {} {}.", self.fingerprint.unit, words.join(", ")),
        }
    }

    /// What a step is worth, a sentence.
    pub fn worth_words(&self) -> String {
        let one = self.fingerprint.unit.one();
        let Some(Worth { between: (first, last), range: (low, high), overall }) = self.worth() else {
            return format!("No {one} says enough of the next to tell what it is worth.");
        };
        let Overall { iterations, a, b, .. } = overall;
        let all = self.fingerprint.steps.as_slice().windows(2).all(|pair| pair[1] == pair[0] + 1);
        let each = if all { one } else { "recorded step" };
        let spread = match high - low > 0.25 {
            true => format!(", {:.1} to {:.1} by {each}", tenths(low), tenths(high)),
            false => String::new(),
        };
        let (sign, b) = if b.value < -0.005 { ("+", -b.value) } else { ("−", b.value.max(0.0)) };
        format!(
            "From {one} {first} to {last} each {each} is worth {:.1} Newton iterations (order {:.1}{spread}): \
             f ← {:.2} f {sign} {b:.2} f², after {}.",
            tenths(iterations.value),
            iterations.value.exp2(),
            a.value,
            counted(self.fingerprint.lengths.last().map_or(0, |after| after.pairs), "pair", "pairs"),
        )
    }

    /// What was done, a paragraph.
    pub(super) fn summary(&self) -> String {
        let Identified { fingerprint, unit, .. } = self;
        let (who, prompts) =
            (solvers::label(&fingerprint.learner), counted(fingerprint.prompts, "prompt", "prompts"));
        let pairs: Vec<String> = fingerprint.lengths.iter().map(|after| after.pairs.to_string()).collect();
        format!(
            "What {who} does to each eigen-direction of S = XᵀX after each {}: its weights are f(S) w_OLS, and the filter f \
             tells the algorithm. {prompts}, after {} pairs; eigenvalues as {}.",
            fingerprint.unit.one(),
            pairs.join(", "),
            unit.words().1
        )
    }

    /// What the picture of filters shows.
    pub(super) fn filters_caption(&self) -> String {
        let mut at: Vec<String> = Vec::new();
        for curve in self.curves.iter().flatten() {
            let text = curve.of.to_string();
            if !at.contains(&text) {
                at.push(text);
            }
        }
        let dashed = match at.is_empty() {
            true => String::new(),
            false => format!(
                " Dashed: known algorithms, each at the steps that are closest to {} {}.",
                self.fingerprint.unit,
                at.join(", ")
            ),
        };
        format!(
            "f is what is done of an eigen-direction: 0 nothing, 1 what least squares does. Gradient descent and Newton from \
             the identity begin in proportion to λ, Newton from αS in proportion to λ². Bands are 95 % intervals over \
             resampled prompts.{dashed}"
        )
    }
}

/// Rounded, and never −0.
fn tenths(value: f64) -> f64 {
    (10.0 * value).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use crate::fingerprint::plan::{Plan, Wish};
    use crate::fingerprint::shown::{filters_panel, return_map_panel};
    use crate::learners::planned::Source;
    use crate::learners::steps::Steps;
    use crate::learners::task::KnownTask;

    fn identified(learner: &str, steps: &str) -> super::Identified {
        let wish = Wish {
            learner: learner.into(),
            steps: Some(Steps::parse(steps).unwrap()),
            against: vec!["newton".into(), "newton:start=identity".into(), "gd:eta=fro".into()],
            pairs: vec![8],
            prompts: Some(Source::Count(96)),
            queries: None,
            knots: 8,
            unit: None,
            task: KnownTask { dim: Some(4), points: Some(12), ..KnownTask::default() },
            seed: 0,
        };
        Plan::new(wish).unwrap().0.run(&|_| ()).unwrap()
    }

    #[test]
    fn the_answer_names_the_algorithm_and_what_a_step_is_worth() {
        let newton = identified("newton", "0..=8");
        let said = newton.answer();
        assert!(said.starts_with("Closest is newton, which leaves 0.0 %"), "{said}");
        assert!(
            said.contains("each iteration is worth 1.0 Newton iterations (order 2.0): f ← 2.0"),
            "{said}"
        );
        // from m steps to m + 1 the residual is raised to 1 + 1/m
        let gd = identified("gd:eta=fro", "1..=12");
        let worth = gd.worth().unwrap();
        assert!(worth.range.0 < 0.2 && (worth.range.1 - 1.0).abs() < 0.1, "{worth:?}");
        let said = gd.worth_words();
        assert!(said.contains(" to 1.0 by iteration"), "{said}");
        // gradient descent that doubles is Newton from the identity
        let doubling = identified("gd:eta=fro", "pow2:0..=6");
        assert_eq!(doubling.naming.names().len(), 2, "{}", doubling.answer());
        assert!(
            doubling.worth_words().contains("each recorded step is worth 1.0"),
            "{}",
            doubling.worth_words()
        );
        // one step has no next one, and OLS nothing to do
        let exact = identified("ols", "1");
        let said = exact.answer();
        assert!(said.starts_with("No step has begun") && said.ends_with("what it is worth."), "{said}");
        assert_eq!(exact.findings().figures.len(), 1);
    }

    #[test]
    fn pictures_have_every_step_and_the_dashed_ones_their_gap() {
        let found = identified("newton:start=identity", "0..=6");
        let (after, steps) = (&found.fingerprint.lengths[0], &found.fingerprint.steps);
        let panel = filters_panel(after, steps, found.fingerprint.unit, found.unit, &found.curves[0]);
        let labels: Vec<&str> = panel.series.iter().map(|s| &*s.label).collect();
        assert_eq!(labels[..2], ["iteration 0", "iteration 1"]);
        assert_eq!(labels[7..].len(), 3, "{labels:?}");
        for dashed in &panel.series[7..] {
            let gaps = dashed.points.iter().filter(|p| p.1.is_nan()).count();
            assert_eq!(dashed.points.len(), 2 * after.knots.count() + gaps, "{}", dashed.label);
        }
        let map = return_map_panel(after, steps, found.fingerprint.unit);
        // measured points of a Newton iteration lie on the second curve
        for series in map.series.iter().filter(|s| s.grade.is_some()) {
            assert!(series.points.iter().all(|(f, g)| (g - (2.0 * f - f * f)).abs() < 0.1), "{series:?}");
        }
    }
}
