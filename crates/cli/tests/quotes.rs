//! `scripts/check-quotes`: words of the paper are found in its source, others are not. The paper here is made up.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::with;

const PAPER: &str = r"
\documentclass{article}
\newcommand{\bS}{\boldsymbol{S}}
\newcommand{\bT}{\boldsymbol{T}}
\newcommand{\newton}{Iterative Newton}
\newcommand{\new}[1]{{\color{black} {#1}}}
\begin{document}
We find that \emph{every} layer of the ill-conditioned
network\footnote{A network that---even when it is small---learns.} with $\kappa(\bS)=100$ needs
2,000 steps~\citep{someone2020} of \newton's method, see \Cref{fig:one}. % and nobody knows why
\new{The ``start'' is $\bM_0 = \alpha \bS$ with $\alpha = \frac{2}{\|\bS \bS^\top\|_2}$.}
\begin{equation}
    \bT_1 = 2 \alpha \bS - 4 \alpha^2 \bS^3, \qquad \mathcal O\left(\log(1/\epsilon)\right)
\end{equation}
Newton & \textbf{0.991} & 0.920 \\
\end{document}
";

/// Each with whether the paper says it.
const QUOTES: [(&str, bool); 14] = [
    ("Every layer of the ill-conditioned network with κ(S) = 100", true),
    ("2,000 steps of Iterative Newton’s method", true),
    ("a network that—even when it is small—learns", true),
    ("α = 2/‖SSᵀ‖₂", true),
    ("T₁ = 2αS − 4α²S³", true),
    ("O(log(1/ε))", true),
    ("Newton … .991", true),
    ("We find … steps … “start”", true),
    ("every layer of the network", false),
    ("2,001 steps", false),
    ("T₁ = 2αS + 4α²S³", false),
    ("steps … We find", false),
    ("and nobody knows why", false),
    ("EVERY layer", false),
];

fn check(dir: &Path, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-quotes");
    Command::new("python3").arg(script).args(arguments).current_dir(dir).output().unwrap()
}

fn python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no python3 here");
    }
    found
}

/// A ledger of claims that quote the paper, and one whose words are ours.
fn ledger(quotes: impl Iterator<Item = &'static str>) -> String {
    let claims = quotes
        .enumerate()
        .map(|(i, quoted)| serde_json::json!({"id": format!("F{i}.x"), "quoted": quoted, "words": "paper"}));
    let ours = serde_json::json!({"id": "F99.x", "quoted": "nowhere to be found", "words": "ours"});
    let claims: Vec<_> = claims.chain([ours]).collect();
    serde_json::json!({"analyses": [{"claims": claims}]}).to_string()
}

#[test]
fn words_of_the_paper_are_found_and_others_are_not() {
    if !python() {
        return;
    }
    let ledger = ledger(QUOTES.iter().map(|(quote, _)| *quote));
    let dir = with(&[("paper.tex", PAPER), ("ledger.json", &ledger)]);
    let output = check(dir.path(), &["paper.tex", "ledger.json"]);
    let said = String::from_utf8(output.stdout).unwrap();
    for (i, (quote, there)) in QUOTES.iter().enumerate() {
        assert_eq!(!said.contains(&format!("F{i}.x:")), *there, "{quote}\n{said}");
    }
    assert!(!said.contains("F99"), "{said}");
    assert!(said.contains("14 quotes, 6 not found"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_ledger_whose_quotes_are_all_there_passes() {
    if !python() {
        return;
    }
    let ledger = ledger(QUOTES.iter().filter(|(_, there)| *there).map(|(quote, _)| *quote));
    let dir = with(&[("paper.tex", PAPER), ("ledger.json", &ledger)]);
    assert_eq!(check(dir.path(), &["paper.tex", "."]).status.code(), Some(0));
    assert_eq!(check(dir.path(), &["paper.tex", "--text", "Every layer"]).status.code(), Some(0));
}

#[test]
fn bad_input_is_said_in_one_sentence() {
    if !python() {
        return;
    }
    let dir = with(&[("paper.tex", PAPER), ("empty.tex", ""), ("no.json", "{\"analyses\": 1}")]);
    let bad: [&[&str]; 5] = [
        &[],
        &["paper.tex", "nothing.json"],
        &["paper.tex", "no.json"],
        &["none.tex", "--text", "a"],
        &["empty.tex", "--text", "a"],
    ];
    for arguments in bad {
        let output = check(dir.path(), arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("check-quotes: ") && said.lines().count() == 1, "{said}");
    }
}
