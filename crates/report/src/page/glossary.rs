//! Words and codes of the report, explained once, in a box at the top of every page.

use std::fmt::Write;

/// What a reader cannot know, in the order in which it is met.
const WORDS: [(&str, &str); 10] = [
    (
        "holds, fails, undefined",
        "A claim <em>holds</em> when its measured value meets the bound that is required of it, and <em>fails</em> when it does \
         not; nothing else decides. It is <em>undefined</em> where the paper fixes no number that could be met or missed.",
    ),
    (
        "step, best match",
        "An iteration of an algorithm or a layer of a network. For each step of one learner, the best match is the most similar \
         step of the other; how it grows tells how fast one is in steps of the other.",
    ),
    ("SimE", "Cosine of two learners’ errors, averaged over prompts; 1 means the same mistakes."),
    (
        "SimW",
        "The same for induced weights: the linear function that a learner’s answers to fresh queries imply.",
    ),
    (
        "floor",
        "Marks what two converged solvers share: the similarity of two learners that have both arrived at the exact solution. \
         A similarity near the floor says “both have converged”, not “the same algorithm”.",
    ),
    (
        "error / d",
        "Squared error of a prediction, divided by the dimension d of the inputs: 1 knows nothing.",
    ),
    (
        "R1 … R9",
        "The networks: R1 main (12 layers, 8 heads), R2 ill-conditioned inputs (κ = 100), R3 noisy labels, R4 one head, \
         R5 24 layers, R6 several widths, R7 LSTM, R8 and R9 two-layer ReLU and tanh targets.",
    ),
    (
        "F, T, TH",
        "F3 is Figure 3 of the paper, F5-R7 its Figure 5 for network R7, T1 its Table 1, TH1 … its theorem and lemmas.",
    ),
    (
        "E, Q, N, M, REF",
        "E1 … errata; Q1 … statements in the text; N1 …, M1 beyond the paper; REF reference numbers, kept to notice change.",
    ),
    (
        "Figure 3 of the paper, Picture 3",
        "Figures and tables with a number are the paper’s own. Pictures are ours, numbered through the report.",
    ),
];

/// The box; closed, so that it is in nobody’s way.
pub fn glossary(out: &mut String) {
    out.push_str("<details class=\"glossary\" id=\"glossary\">\n<summary>Words and codes: <em>floor, SimE, SimW, error/d, R1…R9, F, T, TH, E, Q, N</em></summary>\n<dl>\n");
    for (word, meaning) in WORDS {
        let _ = writeln!(out, "<div><dt>{word}</dt><dd>{meaning}</dd></div>");
    }
    out.push_str("</dl>\n</details>\n");
}
