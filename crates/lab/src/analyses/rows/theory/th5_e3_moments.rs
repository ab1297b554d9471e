//! E3 and TH5: Newton's iterates as polynomials in S.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::problems::{gram_of, newton_iterates};
use crate::linalg::{Eigenvalues, Spectrum};
use crate::solvers::moment_coefficients;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "E3",
        paper: Some(("Text", "5")),
        order: 30,
        title: "Are the printed moment coefficients right?",
        summary: "Expanding Newton's iteration in powers of S, the paper prints M₁ = 2αS − 4α²S³ and M₂ = 4αS − \
                  12α²S³ + 16α³S⁵ − 16α⁴S⁷. The recurrence gives M₁ = 2αS − α²S³ and M₂ = 4αS − 6α²S³ + 4α³S⁵ − \
                  α⁴S⁷. Both are evaluated on the eigenvalues of S and compared with the iteration.",
        run: coefficients,
        ..Analysis::ERRATUM
    },
    Analysis {
        id: "TH5",
        paper: Some(("Text", "B.3")),
        order: 50,
        title: "How many moments of S do Newton and gradient descent use?",
        summary: "After k steps Newton's M_k is a polynomial in S of degree 2^(k+1) − 1, with the closed form (I − \
                  (I − αS²)^(2^k)) S⁻¹; gradient descent's is of degree k − 1. Degrees are those of the exact \
                  recurrences on polynomials; the closed form is compared with the iterated matrices.",
        run: degrees,
        ..Analysis::THEORY
    },
];

const PRINTED: [&[f64]; 2] = [&[0.0, 2.0, 0.0, -4.0], &[0.0, 4.0, 0.0, -12.0, 0.0, 16.0, 0.0, -16.0]];

/// c₀ + c₁z + c₂z² + … at z = `root`·`v`.
fn polynomial(coefficients: &[f64], root: f64, v: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * root * v + c)
}

fn coefficients(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let prompts = lab.prompts("gaussian")?;
    let right = [1, 2].map(|k| moment_coefficients(1.0, k));
    let mut worst = [[0.0_f64; 2]; 2]; // [printed, right][M₁, M₂]
    let mut least = [f64::INFINITY; 2];
    for b in 0..prompts.count().min(100) {
        let s = gram_of(&prompts, b);
        let (alpha, iterates) = newton_iterates(&s, DIM, 2);
        let spectrum = Spectrum::of(&s, DIM);
        for k in 0..2 {
            // Coefficients of powers of √α S, so that α carries no digits: M = √α Σ β_s (√αS)^s.
            let root = alpha.sqrt();
            let [printed, right] = [PRINTED[k], right[k].as_slice()]
                .map(|of| deviation(&spectrum, &iterates[k + 1], |v| root * polynomial(of, root, v)));
            least[k] = least[k].min(printed);
            worst[0][k] = worst[0][k].max(printed);
            worst[1][k] = worst[1][k].max(right);
        }
    }
    let from = "relative deviation from the iteration";
    note.claim("printed-m1", least[0], AtLeast(0.05))
        .says(format!("Printed M₁: smallest {from} over 100 prompts"))
        .quoted("M₁ = 2αS − 4α²S³");
    note.claim("printed-m2", least[1], AtLeast(0.05))
        .says(format!("Printed M₂: smallest {from}"))
        .quoted("M₂ = 4αS − 12α²S³ + 16α³S⁵ − 16α⁴S⁷");
    note.claim("right-m1", worst[1][0], AtMost(1e-12))
        .says(format!("Right M₁: largest {from}"))
        .ours("2αS − α²S³");
    note.claim("right-m2", worst[1][1], AtMost(1e-12))
        .says(format!("Right M₂: largest {from}"))
        .ours("4αS − 6α²S³ + 4α³S⁵ − α⁴S⁷");
    let row = |name: &str, coefficients: &[f64], off: f64| {
        let power = |i: usize| coefficients.get(i).map_or(String::new(), |c| c.to_string().replace('-', "−"));
        let off = if off < 1e-10 { "round-off".into() } else { format!("{off:.2}") };
        [name.to_string()].into_iter().chain([1, 3, 5, 7].map(power)).chain([off]).collect()
    };
    note.table(
        "coefficients",
        "Coefficients of M₁ and M₂",
        "Coefficients of αS, α²S³, α³S⁵ and α⁴S⁷, and the largest relative deviation from the iterated matrix over 100 \
         prompts.",
        ["", "αS", "α²S³", "α³S⁵", "α⁴S⁷", "deviation"],
        [
            row("M₁ printed", PRINTED[0], worst[0][0]),
            row("M₁ right", &right[0], worst[1][0]),
            row("M₂ printed", PRINTED[1], worst[0][1]),
            row("M₂ right", &right[1], worst[1][1]),
        ],
    );
    let curve = |label: &str, coefficients: &[f64]| {
        let xs = (0..=60).map(|i| f64::from(i) / 60.0);
        Series::new(label, xs.map(|x| (x, x * polynomial(coefficients, 1.0, x))).collect())
    };
    let panels = ["M₁", "M₂"].into_iter().enumerate().map(|(k, title)| {
        let series = [curve("right", &right[k]), curve("printed", PRINTED[k]).dashed()];
        let y = Axis::linear("eigenvalue of M S").range(-1.0, 1.1);
        LinesPanel::new(Axis::linear("eigenvalue of √α S"), y, series).titled(title)
    });
    let caption = "What M₁S and M₂S make of an eigenvalue: the identity would be 1, towards which the right ones rise from \
                   step to step. The printed ones turn back.";
    note.figure("polynomials", "Printed and right polynomials", caption, panels);
    Ok(())
}

/// Largest difference between `f` of the eigenvalues of S and the eigenvalues of an iterate, relative to the latter.
fn deviation(s: &Spectrum, iterate: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let iterate = Eigenvalues::of(iterate, DIM);
    let mut values: Vec<f64> = s.values.iter().map(|v| f(*v)).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let off = worst(values.iter().zip(iterate.iter()).map(|(a, b)| (a - b).abs()));
    off / iterate.largest()
}

/// Degrees of gradient descent's polynomials after 0 … `last` steps, by p ← p − η(S p − 1).
fn gd_degrees(last: usize) -> Vec<f64> {
    let mut p: Vec<f64> = vec![0.0];
    let mut degrees = vec![0.0];
    for _ in 1..=last {
        let mut next = p.clone();
        next.push(0.0);
        p.iter().enumerate().for_each(|(i, c)| next[i + 1] -= 0.5 * c);
        next[0] += 0.5;
        p = next;
        degrees.push(degree(&p));
    }
    degrees
}

fn degree(p: &[f64]) -> f64 {
    p.iter().rposition(|c| *c != 0.0).unwrap_or(0) as f64
}

fn degrees(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let newton: Vec<f64> = (0..=6).map(|k| degree(&moment_coefficients(1.0, k))).collect();
    let gd = gd_degrees(6);
    let apart = |degrees: &[f64], right: fn(f64) -> f64| {
        worst(degrees.iter().enumerate().map(|(k, degree)| (degree - right(k as f64)).abs()))
    };
    note.claim("newton-degree", apart(&newton, |k| 2f64.powf(k + 1.0) - 1.0), AtMost(0.0))
        .says("Largest difference of Newton's degree from 2^(k+1) − 1, k = 0…6")
        .quoted("requires computing Ω(2ᵏ) moments of S");
    note.claim("gd-degree", apart(&gd[1..], |k| k), AtMost(0.0))
        .says("Largest difference of gradient descent's degree from k − 1, k = 1…6")
        .quoted("after k steps of GD, the highest power of S is only O(k)");
    // The closed form against the iteration, on the whole matrices' spectra.
    let prompts = lab.prompts("gaussian")?;
    let mut deviations = Vec::new();
    for b in 0..prompts.count().min(50) {
        let s = gram_of(&prompts, b);
        let (alpha, iterates) = newton_iterates(&s, DIM, 10);
        let spectrum = Spectrum::of(&s, DIM);
        for (k, m) in iterates.iter().enumerate() {
            let closed = |v: f64| -(2f64.powi(k as i32) * (-alpha * v * v).ln_1p()).exp_m1() / v;
            deviations.push(deviation(&spectrum, m, closed));
        }
    }
    note.claim("closed-form", worst(deviations), AtMost(1e-10))
        .says("Largest relative deviation of (I − (I − αS²)^(2^k)) S⁻¹ from the iteration, k = 0…10")
        .ours("By induction from I − M_{k+1}S = (I − M_kS)²")
        .kind(Kind::Beyond);
    let curve = |label: &str, degrees: &[f64]| {
        let points = degrees.iter().enumerate().map(|(k, degree)| (k as f64, *degree));
        Series::new(label, points.filter(|p| p.1 > 0.0).collect()).markers()
    };
    let series = [curve("Newton: 2^(k+1) − 1", &newton), curve("gradient descent: k − 1", &gd)];
    let caption = "Exact degrees from the recurrences on polynomials. The gap between the two curves is the gap between the \
                   two rates.";
    let panel = LinesPanel::new(Axis::linear("steps k"), Axis::log2("degree in S"), series);
    note.figure("degrees", "Degree of the polynomial in S after k steps", caption, [panel]);
    Ok(())
}
