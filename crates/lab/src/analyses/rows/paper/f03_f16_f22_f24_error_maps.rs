//! F3, F16, F22, F24: every layer against every step of Newton and of GD, by similarity of errors.

use crate::analyses::kit::notebook::Entry;
use crate::analyses::kit::paired::{lead, slope_ratio};
use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::{DEEP, ONE_HEAD, SKEWED};
use crate::compare::matching::{Lead, MARGIN, ahead};
use crate::findings::Reading;
use crate::stats::interval;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "F3",
        paper: Some(("Figure 3", "4.2")),
        headline: Some(Headline {
            rank: 1,
            figure: "best",
            claims: &["newton-linear", "newton-slope", "gd-exponential", "last-layer"],
        }),
        order: 30,
        title: "Do the layers match Newton's steps on a line and gradient descent's on an exponential?",
        summary: "For each layer the most similar number of Newton iterations and of GD steps, by similarity of errors. A straight \
                  line means that a layer does the work of a fixed number of steps; an exponential means that the other is \
                  exponentially slower.",
        needs: &["r1"],
        run: |lab, note| {
            let said = Said {
                newton: "Transformers layers show a linear trend with … steps but an exponential trend with GD",
                gd: "Transformers layers show a linear trend with … steps but an exponential trend with GD",
                slope: Some("each layer appears to compute roughly 3 additional iterations"),
            };
            maps(lab, note, &ISOTROPIC, &said)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F16",
        paper: Some(("Figure 16", "A.3.1")),
        order: 160,
        title: "Do the layers match Newton's steps on a line on ill-conditioned data?",
        summary: "The maps of F3 for a Transformer trained on inputs with κ = 100.",
        needs: &["r2"],
        run: |lab, note| {
            let similar = "Transformers are similar to Newton's method than GD in ill-conditioned data";
            maps(lab, note, &SKEWED, &Said { newton: similar, gd: similar, slope: Some(MIDDLE_LAYERS) })?;
            newton_over_gd(lab, note, &SKEWED, similar)
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F22",
        paper: Some(("Figure 22", "A.4.1")),
        order: 220,
        seconds: 11.5,
        title: "Do the layers match Newton's steps on a line with one head per layer?",
        summary: "The maps of F3 for a Transformer of 12 layers with a single head each.",
        needs: &["r4"],
        run: |lab, note| {
            let suffice = "more similar than gradient descents, in terms of rate of convergence";
            maps(lab, note, &ONE_HEAD, &Said { newton: suffice, gd: suffice, slope: Some(MIDDLE_LAYERS) })
        },
        ..Analysis::FIGURE
    },
    Analysis {
        id: "F24",
        paper: Some(("Figure 24", "A.4.2")),
        order: 240,
        title: "Do the layers match Newton's steps on a line with 24 of them?",
        summary: "The maps of F3 for a Transformer of 24 layers with 8 heads.",
        needs: &["r5"],
        run: |lab, note| {
            let support = "fewer heads per layer, or with more layers, also support our findings";
            // three per layer is said of twelve layers
            maps(lab, note, &DEEP, &Said { newton: support, gd: support, slope: None })
        },
        ..Analysis::FIGURE
    },
];

/// What the paper says of a network's maps, literally.
pub struct Said {
    /// That its layers match Newton's steps on a line.
    pub newton: &'static str,
    /// That they match gradient descent's on an exponential.
    pub gd: &'static str,
    /// That a layer is worth about three steps of Newton, where it says so.
    pub slope: Option<&'static str>,
}

/// The paper's number for Transformers in general.
pub const MIDDLE_LAYERS: &str = "with each middle layer roughly computing 3 iterations";
const PAPERS_LAST: &str = "paper: 21 at layers 10 to 12";
const NO_NUMBER: &str = "the paper has no number";

/// The maps of errors with Newton and GD, their best matches and the rate of those.
pub fn maps(lab: &Lab, note: &mut Notebook, setting: &Setting, said: &Said) -> Result<()> {
    let of = |baseline| -> Result<Compared> {
        Ok(setting.errors(lab, baseline)?.with_authors(setting.by_authors(lab, baseline)?))
    };
    let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
    rates(note, &newton, &gd, said);
    let why = by_size(lab, setting, newton.last_step().value)?;
    numbers(note, &newton, &gd, why);
    // the paper names a step for its main network alone
    let newton = if setting.network == ISOTROPIC.network { newton.mark_y(PAPERS_LAST, 21.0) } else { newton };
    let both = [&newton, &gd];
    let theirs: Vec<&Compared> = both.iter().filter_map(|of| of.authors()).collect();
    let title = "Similarity of errors, prompts and steps as in the authors' code";
    let linear = "As the paper draws it: Newton's iterations 1 to 23, steps of gradient descent on an axis that is not \
                  logarithmic, where an exponential bends upwards. A match at the upper end may lie beyond it. ";
    let basis = if setting.authors_inputs.is_some() {
        "The prompts of a batch of 64 share an eigenbasis. "
    } else {
        ""
    };
    note.maps("authors", title, setting, &theirs, &format!("{basis}{linear}"));
    let title = "Similarity of errors with Newton and gradient descent";
    let outlined = "Outlined: best match of each layer, with a whisker where its 95 % bootstrap interval is wider than one step. ";
    note.maps("maps", title, setting, &both, outlined);
    note.best(setting, &both);
    note.best_matches("best-matches", &both);
    note.other_layers(&both);
    Ok(())
}

/// Claims on the rate of the best matches: a line with Newton, an exponential with gradient descent.
pub fn rates(note: &mut Notebook, newton: &Compared, gd: &Compared, said: &Said) {
    note.trend("newton-linear", newton, Trend::Linear).quoted(said.newton).figure("best");
    note.straight("newton-straight", newton).quoted(said.newton).figure("best");
    let three = said.slope.map_or(Bound::None, |_| Within(2.5, 3.5));
    let slope = note.slope("newton-slope", newton, Trend::Linear, three).figure("best");
    let slope = slope.why(newton.why_not(Trend::Linear));
    match said.slope {
        Some(words) => slope.quoted(words),
        None => slope.ours(NO_NUMBER),
    };
    note.trend("gd-exponential", gd, Trend::Exponential)
        .quoted(said.gd)
        .also(AGAINST_A_LINE, over_a_line(gd))
        .figure("best");
    note.slope("gd-slope", gd, Trend::Exponential, Bound::None).ours(NO_NUMBER).figure("best");
    let entry = note
        .claim("slope-ratio", slope_ratio(newton, gd, newton.range()), Within(1.8, 2.2))
        .says(format!(
            "{}: Newton steps per layer over doublings of GD steps per layer ({}). Newton itself takes two steps per doubling of \
             GD (F26), so a network that keeps pace with Newton has 2, whatever its layers are worth",
            newton.map.label,
            newton.layers()
        ))
        .ours("2: Newton's own rate against gradient descent")
        .kind(Kind::Beyond)
        .also(Reading::OUR_LAYERS, slope_ratio(newton, gd, newton.middle()))
        .why(format!("{} {}", newton.why_not(Trend::Linear), gd.why_not(Trend::Exponential)))
        .figure("best");
    if let Some((newton, gd)) = newton.authors().zip(gd.authors()) {
        entry.authors(slope_ratio(newton, gd, newton.range()));
    }
}

/// Claims on single numbers.
fn numbers(note: &mut Notebook, newton: &Compared, gd: &Compared, why: String) {
    number(note, "last-layer", newton, |of| of.last_similarity(), AtLeast(0.99), "0.991")
        .says("SimE of the last layer with its best Newton step; the paper's Table 1 has .991")
        .figure("maps");
    let high = "the Transformer has very high error similarity with … method at all layers";
    number(note, "all-layers", newton, |of| lowest(of).1, AtLeast(0.9), high)
        .says("Lowest SimE of any layer with its best Newton step")
        .why(format!("It is the lowest at layer {}.", lowest(newton).0))
        .figure("maps");
    let last = "Method with 21 iterations, same as when … (see layer 10-12 in";
    number(note, "last-step", newton, |of| of.last_step(), Within(18.0, 24.0), last)
        .says("Best Newton step of the last layer; 21 within what a layer is worth")
        .figure("maps")
        .why(why);
    let hundreds = "Some individual Transformer layers make progress equivalent to hundreds of GD steps";
    number(note, "gd-jump", gd, most_in_a_layer, AtLeast(200.0), hundreds)
        .says("GD steps that a single layer is worth at most; hundreds are two of them or more")
        .why(gd.why_not(Trend::Exponential))
        .figure("best");
}

/// A claim on a number that the paper has for its main network alone; of others it is measured.
fn number<'a>(
    note: &'a mut Notebook,
    name: &str,
    of: &Compared,
    value: fn(&Compared) -> Estimate,
    bound: Bound,
    words: &str,
) -> Entry<'a> {
    let main = of.network == ISOTROPIC.network;
    let entry = note.claim(name, value(of), if main { bound } else { Bound::None });
    let entry = match of.authors() {
        Some(authors) => entry.authors(value(authors)),
        None => entry,
    };
    if main { entry.quoted(words) } else { entry.ours("the paper has no number for this network") }
}

/// A reading of an exponential that has to beat what the paper holds it against and nothing else.
pub const AGAINST_A_LINE: &str = "against a line alone";

/// How much better an exponential fits than a line: what an exponential against all shapes is short of may be due to others.
pub fn over_a_line(of: &Compared) -> Estimate {
    let Estimate { value, low, high } = of.evidence(Trend::Linear);
    Estimate { value: -value, low: -high, high: -low }
}

/// The layer that is least similar to its best match, and how similar it is.
fn lowest(of: &Compared) -> (u64, Estimate) {
    let similarity = &of.matching.similarity;
    let least = (0..similarity.len()).min_by(|&i, &j| similarity[i].total_cmp(&similarity[j])).unwrap_or(0);
    (of.matching.a.as_slice()[least], of.similarity_at(least))
}

/// The largest difference of best steps from one layer to the next.
fn most_in_a_layer(of: &Compared) -> Estimate {
    let most = |steps: &Vec<f64>| steps.windows(2).map(|w| w[1] - w[0]).fold(f64::NAN, f64::max);
    let (low, high) = interval(of.matching.resampled_interpolated.iter().map(most).collect());
    Estimate { value: most(&of.matching.interpolated), low, high }
}

/// Whether the layers are more similar to Newton than to gradient descent, each at its best steps.
fn newton_over_gd(lab: &Lab, note: &mut Notebook, setting: &Setting, quoted: &str) -> Result<()> {
    let (newton, gd) = (setting.errors(lab, setting.newton)?, setting.errors(lab, setting.gd)?);
    let theirs = (setting.by_authors(lab, setting.newton)?, setting.by_authors(lab, setting.gd)?);
    let (first, last) = (setting.layers.0, newton.matching.a.last());
    let leads = ahead(&newton.map, &[&gd.map], first.., lab.seed);
    let layers = |of: fn(&Lead) -> bool| {
        let layers: Vec<String> = leads.iter().filter(|lead| of(lead)).map(|l| l.step.to_string()).collect();
        if layers.is_empty() { "none".to_string() } else { layers.join(", ") }
    };
    let words = format!(
        "Beyond doubt (by more than {MARGIN}, paired, Holm over layers) Newton is ahead at layers {}, gradient descent at {}.",
        layers(Lead::first),
        layers(Lead::second)
    );
    note.claim("newton-over-gd", lead(&newton, &gd, first, lab.seed), AtLeast(0.0))
        .says(format!(
            "SimE with Newton less SimE with GD, each at its best step, mean over layers {first} to {last}"
        ))
        .quoted(quoted)
        .authors(lead(&theirs.0, &theirs.1, first, lab.seed))
        .why(words.clone())
        .figure("lead");
    let difference = leads.iter().map(|lead| (lead.step as f64, lead.difference));
    let y = Axis::linear("SimE with Newton − SimE with GD");
    let panel = LinesPanel::new(Axis::linear("layer"), y, [Series::estimates("difference", difference)]);
    let caption = format!(
        "How much more similar each layer is to Newton than to gradient descent, each at its best step, with 95 % intervals paired \
         over prompts ({}). {words}",
        setting.about(newton.map.prompts())
    );
    note.figure(
        "lead",
        "Newton's lead over gradient descent, by layer",
        caption,
        [panel.mark_y("none", 0.0)],
    );
    Ok(())
}

/// Why the last layer matches another step than the paper's: which one it would be by the size of the error alone.
fn by_size(lab: &Lab, setting: &Setting, best: f64) -> Result<String> {
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let newton = setting.path(lab, setting.newton)?;
    let median = |of: &Trajectory, step: u64| median_error(of, &prompts, step, setting.data.dim);
    let own = median(&network, network.steps.last());
    let apart = |step: &u64| (median(&newton, *step) / own).ln().abs();
    let steps = newton.steps.as_slice().iter().copied();
    let nearest = steps.min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or_default();
    Ok(format!(
        "At t = d, where errors are largest, the last layer's median error/d is {own:.1e}, nearest to Newton's after {nearest} iterations ({:.1e}). \
         SimE, which weighs directions over all t, prefers {best:.1}.",
        median(&newton, nearest)
    ))
}
