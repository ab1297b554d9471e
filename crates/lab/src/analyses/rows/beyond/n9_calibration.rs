//! N9: are known algorithms named rightly by their fingerprints? Exact, with noise on their answers, built as Transformers with
//! noise on their weights, and beside controls.
//!
//! Bounds were written on 2026-11-17, before this row was run: 95 % named rightly without noise and with the least, all that is
//! the same said to be untellable, no control named as Newton's iteration or gradient descent. That exact algorithms are named
//! had been seen before, and the rules of `fingerprint/naming.rs` were chosen with some of the controls in view
//! (docs/decisions.md).

use super::n9_controls::controls;
use super::n9_known::{Bench, Subject, subjects};
use super::n9_weights::constructions;
use crate::analyses::kit::prelude::*;
use crate::fingerprint::{Named, Naming};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "N9",
    order: 90,
    seconds: 7.9,
    title: "Are known algorithms named rightly?",
    summary: "Fingerprints name an algorithm by the weights that its answers imply: the one that leaves least of w − w_OLS at its \
              best steps, and all that cannot be told from it. Here the right name is known. Every iterative algorithm is shown \
              to all of them, exact and with noise on its answers; so are Transformers whose weights are an algorithm, with noise \
              on the weights; and controls that are none of them.",
    run,
    ..Analysis::BEYOND
}];

/// Dimension and pairs.
const SIZE: (usize, [usize; 2]) = (DIM, [25, LAST]);
/// Prompts.
const PROMPTS: usize = 96;
/// Noise on answers, of their root mean square.
const LEVELS: [f64; 5] = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1];
/// Smaller shares than this are shown as this.
const LEAST: f64 = 1e-6;

/// A subject and what it was named.
struct Judged {
    subject: &'static Subject,
    naming: Naming,
}

impl Judged {
    /// The closest of the candidates that are not the same.
    fn next(&self) -> Option<&Named> {
        self.naming.candidates.iter().find(|candidate| !self.subject.is(&candidate.name))
    }

    /// The candidates that are the same, itself apart.
    fn same(&self) -> impl Iterator<Item = &Named> {
        self.subject.same().filter_map(|name| self.naming.of(name))
    }
}

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let bench = Bench::new(lab.seed, SIZE, lab.count.clamp(24, PROMPTS), &[])?;
    let mut found: Vec<Judged> = Vec::new();
    // subjects by level: named rightly, and among the names
    let mut counts = [[0_usize; 2]; LEVELS.len()];
    for subject in subjects() {
        lab.say(&format!("naming {}", subject.label));
        let mut said = bench.said_by(subject)?;
        found.push(Judged { subject, naming: bench.name(&said, &said.steps)? });
        for (count, level) in counts.iter_mut().zip(LEVELS) {
            said.noise = level;
            let naming = bench.name(&said, &said.steps)?;
            count[0] += usize::from(subject.named_rightly(&naming));
            count[1] += usize::from(subject.among_names(&naming));
        }
    }
    let shares = counts.map(|counts| counts.map(|count| count as f64 / found.len() as f64));
    claims(note, &found, &shares);
    matrix(note, &found, bench.prompts().count());
    noise(note, &found, &shares, bench.prompts().count());
    constructions(lab, note)?;
    controls(lab, note, &bench)
}

fn claims(note: &mut Notebook, found: &[Judged], shares: &[[f64; 2]]) {
    let rightly = |judged: &&Judged| judged.subject.named_rightly(&judged.naming);
    let wrong: Vec<&str> =
        found.iter().filter(|judged| !rightly(judged)).map(|judged| judged.subject.label).collect();
    note.claim("exact", 1.0 - wrong.len() as f64 / found.len() as f64, AtLeast(0.95))
        .says(
            "Share of the known algorithms that are named, and nothing that is something else, without noise",
        )
        .ours("At least 95 %")
        .why(format!("Not named rightly: {}", wrong.join(", ")));
    let same = || found.iter().flat_map(Judged::same);
    let tied = same().filter(|named| named.tied).count() as f64 / same().count() as f64;
    note.claim("untellable", tied, AtLeast(1.0))
        .says("Share of the pairs that make the same weights, such as gradient descent at 2^k and Newton from the identity at k, that \
               are said to be untellable")
        .ours("What is the same cannot be told apart");
    note.claim("same", worst(same().map(|named| named.score.value)), AtMost(1e-6))
        .says("Largest share of w − w_OLS that one of such a pair leaves of the other")
        .ours("Nothing but round-off, by theory");
    let next = found.iter().filter_map(Judged::next).map(|named| named.score.value);
    note.claim("different", next.fold(f64::INFINITY, f64::min), Bound::None)
        .says("Least share of w − w_OLS that a candidate leaves of an algorithm that is not the same");
    for (i, (level, [rightly, _])) in LEVELS.into_iter().zip(shares).enumerate() {
        note.claim(&format!("answers-{}", i + 1), *rightly, if i == 0 { AtLeast(0.95) } else { Bound::None })
            .says(format!(
                "Share named rightly with noise of {} % of their size on all answers",
                100.0 * level
            ))
            .ours(if i == 0 { "A little noise changes no name" } else { "" })
            .figure("answers");
    }
}

fn matrix(note: &mut Notebook, found: &[Judged], prompts: usize) {
    let candidates = found[0].naming.candidates.len();
    let names: Vec<&str> = subjects().take(candidates).map(|subject| subject.solver).collect();
    let share = |judged: &Judged, name: &&str| {
        judged.naming.of(name).map_or(f64::NAN, |named| named.score.value.clamp(LEAST, 1.0).log10())
    };
    let values = found.iter().map(|judged| names.iter().map(|name| share(judged, name)).collect()).collect();
    let (x, y) = ((1..=candidates as u64).collect(), (1..=found.len() as u64).collect());
    let panel =
        HeatmapPanel::plain("", ("candidate", x), ("algorithm", y), "log₁₀ of the share left", values);
    let (dim, [first, last]) = SIZE;
    let caption = format!(
        "log₁₀ of the share of w − w_OLS that a candidate leaves of an algorithm, each at its best steps (d = {dim}, {first} and {last} \
         pairs, {prompts} prompts); {} stands for all that is less, 0 for all that is more. Numbers are those of the table; algorithms up to number \
         {candidates} are also the candidates.",
        LEAST.log10()
    );
    note.figure("confusion", "What each candidate leaves of each algorithm", caption, [panel]);
    let rows = found.iter().enumerate().map(|(i, judged)| {
        let percent = |named: Option<&Named>| {
            named.map_or("–".into(), |named| format!("{:.2} %", 100.0 * named.score.value))
        };
        let why: Vec<String> =
            judged.subject.same.iter().map(|(names, why)| format!("{}: {why}", names.join(", "))).collect();
        vec![
            (i + 1).to_string(),
            judged.subject.label.to_string(),
            judged.subject.steps.to_string(),
            if judged.naming.names().is_empty() { "none".into() } else { judged.naming.names().join(", ") },
            if why.is_empty() { "–".into() } else { why.join("; ") },
            judged.next().map_or("–".into(), |next| next.name.clone()),
            percent(judged.next()),
        ]
    });
    let columns =
        ["number", "algorithm", "steps shown", "named as", "the same by theory", "closest other", "leaves"];
    let caption = "Without noise. Several names: they cannot be told apart at these steps. The closest other is not the same by theory.";
    note.table("named", "Algorithms and their names", caption, columns, rows.collect::<Vec<_>>());
}

fn noise(note: &mut Notebook, found: &[Judged], shares: &[[f64; 2]], prompts: usize) {
    let curve = |label: &str, i: usize| {
        Series::new(label, LEVELS.into_iter().zip(shares).map(|(level, share)| (level, share[i])).collect())
            .markers()
    };
    let x = Axis::log10("noise, of the answers' root mean square");
    let curves = [curve("named rightly", 0), curve("among the names", 1)];
    let panel = LinesPanel::new(x, Axis::linear("share of the algorithms").range(0.0, 1.05), curves);
    let caption = format!(
        "{} algorithms with Gaussian noise on all answers ({prompts} prompts, {DIM} queries after each number of pairs). Named rightly: \
         named, and nothing that is something else. What leaves more than a tenth is not named.",
        found.len()
    );
    note.figure("answers", "Names by noise on the answers", caption, [panel]);
}
