//! F13: over the layers, similarity with each candidate at its best step.

use super::f08_told_apart::FIRST;
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::ONLINE;
use crate::compare::matching::{Lead, ahead};
use crate::findings::Reading;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F13",
    paper: Some(("Figure 13", "A.2.4")),
    order: 130,
    cost: Cost::Minutes,
    title: "Which algorithm resembles the Transformer most at each layer?",
    summary: "Similarity of each layer with each candidate at its best step, by errors and by induced weights. A candidate counts as \
              ahead of Newton at a layer only by more than 0.001 and beyond doubt: differences are paired on prompts, and Holm's \
              method answers for the number of layers and candidates.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let mut panels = Vec::new();
    for (key, measure) in [("errors", Measure::Errors(View::default())), ("weights", Measure::Weights)] {
        let ours = Candidates::new(|baseline| setting.compare(lab, baseline, measure))?;
        // weights have the same positions and prompts by either protocol
        let authors = Candidates::new(|baseline| match measure {
            Measure::Weights => setting.compare(lab, baseline.by_authors(), measure),
            _ => setting.by_authors(lab, baseline),
        })?;
        let (found, by_authors) = (ours.ahead_of_newton(lab), authors.ahead_of_newton(lab));
        let newton = &ours.0[0];
        let label = newton.map.label;
        note.claim(&format!("newton-most-{key}"), layers(&found, FIRST), AtMost(0.0))
            .says(format!(
                "{label}: layers from {FIRST} on at which a candidate other than Newton is more similar beyond doubt ({})",
                ours.words(&found)
            ))
            .quoted("Transformers resemble Iterative Newton's Method the most")
            .authors(layers(&by_authors, FIRST))
            .also(Reading::OUR_LAYERS, layers(&found, newton.begun()))
            .why(format!(
                "By the authors' protocol: {}. {}",
                authors.words(&by_authors),
                newton.why_not_ahead_of(&ours.0[1])
            ));
        for (whose, of) in [("", &ours), (", the authors' steps", &authors)] {
            let y = Axis::linear(format!("{label} at the best step"));
            let panel =
                LinesPanel::new(Axis::linear("Transformer layers"), y, of.0.iter().map(Compared::curve));
            panels.push(panel.titled(format!("{label}{whose}")));
        }
    }
    let caption = format!(
        "Similarity of errors ({} prompts; by the authors' protocol fewer, and t = 0 too) and of induced weights. {}, 95 % bands. \
         Newton and GD may stop at any of their steps; online GD and OLS have only one. All converging candidates meet at the floor.",
        lab.count, setting.words
    );
    note.figure("layers", "Similarity with each candidate at its best step", caption, panels);
    Ok(())
}

/// The network against every candidate, Newton first.
struct Candidates(Vec<Compared>);

impl Candidates {
    fn new(compare: impl Fn(Baseline) -> Result<Compared>) -> Result<Candidates> {
        let all = [ISOTROPIC.newton, ISOTROPIC.gd, ONLINE, ISOTROPIC.exact];
        Ok(Candidates(all.into_iter().map(compare).collect::<Result<_>>()?))
    }

    /// Where another candidate than Newton is ahead beyond doubt.
    fn ahead_of_newton(&self, lab: &Lab) -> Vec<Lead> {
        let others: Vec<_> = self.0[1..].iter().map(|other| &other.map).collect();
        let leads = ahead(&self.0[0].map, &others, FIRST.., lab.seed);
        leads.into_iter().filter(Lead::second).collect()
    }

    /// Who is ahead where, in words.
    fn words(&self, leads: &[Lead]) -> String {
        let one = |lead: &Lead| {
            let who = self.0[1 + lead.other].baseline.label;
            format!("{who} at layer {} by {:.4}", lead.step, -lead.difference.value)
        };
        if leads.is_empty() { "none".into() } else { leads.iter().map(one).collect::<Vec<_>>().join(", ") }
    }
}

/// How many layers from `first` on there are among leads.
fn layers(leads: &[Lead], first: u64) -> usize {
    let mut layers: Vec<u64> = leads.iter().map(|lead| lead.step).filter(|layer| *layer >= first).collect();
    layers.sort_unstable();
    layers.dedup();
    layers.len()
}
