//! The words of a report, each explained in a line: terms, the codes of rows, and the networks by their numbers.

use super::kit::names;
use crate::networks::models::{MINIATURE, NETWORKS, PaperNetwork};

/// A word and its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// As it is written in reports: `SimE`, `F3`, `R1`.
    pub word: String,
    /// One or two sentences, without a full stop at the end.
    pub means: String,
}

/// What is measured, and how.
const TERMS: [(&str, &str); 29] = [
    (
        "prompt",
        "pairs (x₁, y₁), (x₂, y₂), … from one function, drawn anew for each prompt, and a last input whose label is asked for",
    ),
    ("t", "pairs read so far: 1 … 40 in most analyses, and the label of input t + 1 is predicted from them"),
    ("d, κ", "dimension of the inputs; condition number of their covariance, 1 for isotropic inputs"),
    ("step", "what a learner takes one after the other: an iteration of an algorithm, a layer of a network"),
    (
        "error/d",
        "mean squared error over the dimension d: about 1 for no prediction at all, 0 for a perfect one",
    ),
    (
        "SimE",
        "similarity of errors: the cosine of two learners' errors over t = 1 … 40, mean over prompts. 1 is the same errors",
    ),
    ("SimW", "similarity of induced weights: the cosine of two learners' weights, mean over prompts and t"),
    ("induced weights", "the linear function that a learner's answers to fresh inputs imply, after t pairs"),
    ("match", "best match: for each step of one learner the step of the other with the highest similarity"),
    (
        "rate",
        "how best matches grow: on a line (both converge at the same rate) or an exponential (the other is exponentially slower)",
    ),
    (
        "BIC difference",
        "how much better one curve fits than another, by the Bayesian information criterion; above 0 for the curve named first, \
         beyond doubt above 6",
    ),
    (
        "floor",
        "similarity floor: marks what two converged solvers share. It is the similarity of the exact solution with an algorithm, \
         or of two learners at their last steps; near it a similarity says “both have converged”, not “the same algorithm”",
    ),
    (
        "middle layers",
        "layers between the first that does better than two Newton steps and the last with twice the final error: \
         our choice, beside the layers that the paper names",
    ),
    (
        "read-out",
        "the affine map from a layer's hidden state to a prediction, fitted for each layer; the network stays as it is",
    ),
    (
        "filter",
        "f in w = f(S) w_OLS, with S = XᵀX: how much of the least-squares solution a step has done along an eigenvector of S, by \
         its eigenvalue λ. 0 is nothing, 1 is all of it",
    ),
    (
        "fingerprint",
        "the filters of a learner, step by step. They tell algorithms apart that converge to the same solution and have similar errors",
    ),
    (
        "patching",
        "an activation of a network is replaced by that of another prompt, the donor, and the rest computed from there: how far the \
         answer goes to the donor's says what the replaced tokens held",
    ),
    (
        "exponent p",
        "how a filter begins, f ≈ (λ/λ_c)^p: 1 for gradient descent and for Newton from the identity, 2 for Newton from αS",
    ),
    (
        "return map",
        "f after a step against f before it, over all eigenvalues: f ← a f − b f². One Newton iteration has a = 2 and b = 1 from \
         any start",
    ),
    (
        "order",
        "r of 1 − f ← (1 − f)^r, from one step to the next: 2 for one Newton iteration, 4 for two; log₂ r is what the step is worth",
    ),
    ("claim", "a statement with a measured value and a bound; its verdict follows from the two"),
    (
        "quoted",
        "what the paper says, literally; where the words are ours that is said: a paraphrase, theory, a number found independently",
    ),
    ("required", "the bound that the measured value must meet for the claim to hold"),
    (
        "verdict",
        "holds: the whole 95 % interval meets the bound; fails: the whole interval misses it; unsettled: it reaches across; \
         measured: the paper fixes nothing that could be met or missed, and nothing is judged",
    ),
    (
        "95 % interval",
        "where the measured value would lie for other prompts, by resampling them; where it says so, for other seeds of training",
    ),
    (
        "reading",
        "the same claim measured another way, beside the way that decides: by other layers, by the authors' protocol",
    ),
    (
        "the authors' protocol",
        "the choices of their published code: 320 prompts, t = 0 … 40, Newton steps 1 … 23, their grid of GD steps, random starts of \
         online GD, an eigenbasis per batch of ill-conditioned inputs",
    ),
    (
        "recipe",
        "how a network was trained. The paper's: Adam at 1e-4, batches of 64, 500,001 steps; a fast one reaches a like loss in minutes",
    ),
    (
        "cause",
        "what a failure is laid to: (a) the network, trained otherwise than the paper's; (b) the protocol, since by the authors' it \
         holds; (c) the paper itself",
    ),
];

/// What the letters of a row's id say.
const CODES: [(&str, &str); 8] = [
    ("F…", "a figure of the paper: F3 is Figure 3; F5-R7 is the part of Figure 5 about network R7"),
    ("T…", "a table of the paper: T1 is Table 1"),
    (
        "TH…",
        "its theorem, lemmas and remarks, as weights; TH1′ (TH1-prime) is our shorter construction, TH1″ (TH1-prime-prime) \
         its start at the identity",
    ),
    ("E…", "an erratum: what the paper prints and what is right, both run"),
    ("Q…", "a statement in the paper's text"),
    ("N…", "not in the paper: seeds, training, ablation, recipes, fingerprints, what is inside"),
    ("M1", "the miniature, a network trained in a minute"),
    ("REF", "reference values of the algorithms, kept so that a change is noticed"),
];

/// Every word that a report explains: terms, codes of rows, networks.
pub fn glossary() -> Vec<Term> {
    let term = |(word, means): (&str, &str)| Term { word: word.into(), means: means.into() };
    TERMS.into_iter().chain(CODES).map(term).chain(networks()).collect()
}

/// The networks by their numbers, each with what it is and what it was trained on.
fn networks() -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for network in NETWORKS {
        let number = network.name.split('-').next().unwrap_or(network.name);
        let word = names::of(&[number]);
        if terms.last().is_none_or(|term| term.word != word) {
            terms.push(Term { word, means: about(network, number) });
        }
    }
    terms
}

/// `Transformer of 12 layers and 8 heads (linear of gaussian inputs, d=20, 40 pairs)`
fn about(network: &PaperNetwork, number: &str) -> String {
    let PaperNetwork { about, function, inputs, dim, points, .. } = network;
    // r6-8, r6-16, …: networks that differ by their width alone and have no plain one among them
    let suffixes = NETWORKS.iter().filter_map(|n| n.name.strip_prefix(number)?.strip_prefix('-'));
    let widths: Vec<&str> = suffixes.filter(|suffix| suffix.parse::<usize>().is_ok()).collect();
    let what = match network.name == number || number == MINIATURE {
        true => about.replace("r1", "R1"),
        false => format!("{}, {} wide", about.split(',').next().unwrap_or(about), widths.join(", ")),
    };
    format!("{what} ({function} functions of {inputs} inputs, d={dim}, {} pairs)", points - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyses::ANALYSES;

    fn means(word: &str) -> String {
        let found = glossary().into_iter().find(|term| term.word == word);
        found.unwrap_or_else(|| panic!("{word} is not explained")).means
    }

    #[test]
    fn every_code_and_every_network_is_explained() {
        for row in ANALYSES.iter() {
            let letters: String = row.id.chars().take_while(char::is_ascii_uppercase).collect();
            let code = if ["M", "REF"].contains(&&*letters) { row.id.to_string() } else { letters + "…" };
            assert!(!means(&code).is_empty());
            row.needs.iter().for_each(|need| {
                let number = need.split('-').next().unwrap();
                assert!(means(&names::of(&[number])).contains("pairs"), "{need}");
            });
        }
    }

    #[test]
    fn each_word_is_explained_once_and_shortly() {
        let all = glossary();
        for (i, term) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|before| before.word != term.word), "{} twice", term.word);
            assert!(!term.means.ends_with('.') && term.means.chars().count() <= 240, "{}", term.word);
        }
        assert!(means("floor").contains("converged solvers share"));
        assert_eq!(
            means("R6"),
            "Transformer of 1 head, 8, 16, 32, 64 wide (linear functions of gaussian inputs, d=20, 40 pairs)"
        );
        assert!(
            means("R2")
                .starts_with("R1 on ill-conditioned data (linear functions of skewed:kappa=100 inputs")
        );
    }
}
