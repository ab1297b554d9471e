//! A fingerprint and what was named by it as findings: words, figures and tables; numbers for programs.
//!
//! words: the answer; panels: pictures; tables: what a page and the terminal print; arrays: JSON and .npz.

mod arrays;
mod panels;
mod tables;
mod words;

pub use panels::{Curve, filter_series, filters_panel, return_map_panel};
pub use words::Worth;

use super::{AfterPairs, ByUnit, Fingerprint, Linearity, Naming, Scale};
use crate::findings::{Figure, Findings, LinesPanel};
use crate::solvers;

/// A learner's fingerprint, and which algorithm it is.
#[derive(Clone, Debug)]
pub struct Identified {
    /// What it does to each eigen-direction.
    pub fingerprint: Fingerprint,
    /// The learner among some algorithms.
    pub naming: Naming,
    /// Whether its answers are linear; none where it answers no fresh queries.
    pub linearity: Option<Linearity>,
    /// Filters of known algorithms at the steps that are closest to middle steps, after each number of pairs.
    pub curves: Vec<Vec<Curve>>,
    /// The unit of eigenvalues.
    pub unit: Scale,
    /// What filters leave unexplained in each unit.
    pub units: ByUnit,
    /// What a reader must know before believing it, in full sentences.
    pub notes: Vec<String>,
}

impl Identified {
    /// Everything a page about it shows.
    pub fn findings(&self) -> Findings {
        let Identified { fingerprint, .. } = self;
        let who = solvers::label(&fingerprint.learner);
        let of = |panel: &dyn Fn(usize, &AfterPairs) -> LinesPanel| -> Vec<LinesPanel> {
            fingerprint.lengths.iter().enumerate().map(|(l, after)| panel(l, after)).collect()
        };
        let (steps, unit) = (&fingerprint.steps, fingerprint.unit);
        let mut figures = vec![Figure::new(
            "filters",
            format!("Filters of {who}"),
            self.filters_caption(),
            of(&|l, after| filters_panel(after, steps, unit, self.unit, &self.curves[l])),
        )];
        if steps.len() > 1 {
            figures.push(Figure::new(
                "return-map",
                format!("From one {} to the next", unit.one()),
                "A point is an eigenvalue: its filter before a step and after it, where that says something. Whatever the \
                 start of an iteration is, its points lie on one curve: 2f − f² for Newton, which squares 1 − f.",
                of(&|_, after| return_map_panel(after, steps, unit)),
            ));
        }
        if self.naming.informative.contains(&true) {
            figures.push(Figure::new(
                "left",
                "What each algorithm leaves",
                "Share of w − w_OLS that the closest algorithms leave, each at its closest step, on prompts that did not choose \
                 the step; the mean over numbers of pairs. Dashed: what one filter for all prompts leaves, whatever its shape. \
                 Steps that have not begun or are over say nothing and are left out.",
                [self.left_panel()],
            ));
        }
        Findings {
            analysis: "fingerprint".into(),
            title: format!("Which algorithm is {who}?"),
            answer: self.answer(),
            summary: self.summary(),
            figures,
            tables: self.tables(),
            notes: self.notes.clone(),
            ..Findings::default()
        }
    }
}
