//! E3 and TH5: Newton's iterates as polynomials in S.

use crate::analyses::{Analysis, DIM, LAST, Lab, Outcome};
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Axis, Figure, LinesPanel, Panel, Scale, Series, Stroke, Table};
use crate::linalg::{Spectrum, frobenius_of_square, gram, newton_schulz};
use crate::solvers::moment_coefficients;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "E3",
        order: 30,
        title: "The printed moment coefficients are wrong",
        summary: "Expanding Newton's iteration in powers of S, the paper prints M₁ = 2αS − 4α²S³ and \
              M₂ = 4αS − 12α²S³ + 16α³S⁵ − 16α⁴S⁷. The recurrence gives M₁ = 2αS − α²S³ and \
              M₂ = 4αS − 6α²S³ + 4α³S⁵ − α⁴S⁷. Both are evaluated on the eigenvalues of S and compared with the iteration.",
        needs: &[],
        run: |lab, note| note.adopt(run_erratum(lab)),
        ..Analysis::ERRATUM
    },
    Analysis {
        id: "TH5",
        order: 50,
        title: "Newton uses exponentially many moments, gradient descent linearly many",
        summary: "After k steps Newton's M_k is a polynomial in S of degree 2^(k+1) − 1, with the closed form \
              (I − (I − αS²)^(2^k)) S⁻¹; gradient descent's is of degree k − 1. Degrees are those of the exact \
              recurrences on polynomials; the closed form is compared with the iterated matrices.",
        needs: &[],
        run: |lab, note| note.adopt(run_degrees(lab)),
        ..Analysis::THEORY
    },
];

const PRINTED: [&[f64]; 2] = [&[0.0, 2.0, 0.0, -4.0], &[0.0, 4.0, 0.0, -12.0, 0.0, 16.0, 0.0, -16.0]];

fn run_erratum(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.prompts("gaussian")?;
    let mut worst = [[0.0_f64; 2]; 2]; // [printed, right][M₁, M₂]
    let mut least = [f64::INFINITY; 2];
    for b in 0..prompts.count().min(100) {
        let (s, alpha, iterates) = newton(&prompts.prompt(b).0[..LAST * DIM], 2);
        let spectrum = Spectrum::of(&s, DIM);
        for k in 1..=2 {
            // Coefficients of powers of √α S, so that α carries no digits: M = √α Σ β_s (√αS)^s.
            let right = moment_coefficients(1.0, k as u32);
            let iterate = Spectrum::of(&iterates[k], DIM);
            for (which, coefficients) in [PRINTED[k - 1], &right].into_iter().enumerate() {
                let off = polynomial_deviation(coefficients, alpha, &spectrum, &iterate);
                worst[which][k - 1] = worst[which][k - 1].max(off);
                if which == 0 {
                    least[k - 1] = least[k - 1].min(off);
                }
            }
        }
    }
    let claim =
        |id: &str, statement: &str, value: f64, bound| Claim::new(id, Kind::Erratum, statement, value, bound);
    let claims = vec![
        claim(
            "E3.printed-m1",
            "Printed M₁: smallest relative deviation from the iteration over 100 prompts",
            least[0],
            Bound::AtLeast(0.05),
        )
        .quoted("2αS − 4α²S³"),
        claim(
            "E3.printed-m2",
            "Printed M₂: smallest relative deviation from the iteration",
            least[1],
            Bound::AtLeast(0.05),
        )
        .quoted("4αS − 12α²S³ + 16α³S⁵ − 16α⁴S⁷"),
        claim(
            "E3.right-m1",
            "Right M₁: largest relative deviation from the iteration",
            worst[1][0],
            Bound::AtMost(1e-12),
        )
        .quoted("2αS − α²S³"),
        claim(
            "E3.right-m2",
            "Right M₂: largest relative deviation from the iteration",
            worst[1][1],
            Bound::AtMost(1e-12),
        )
        .quoted("4αS − 6α²S³ + 4α³S⁵ − α⁴S⁷"),
    ];
    let row = |name: &str, coefficients: &[f64], off: f64| {
        let power = |i: usize| coefficients.get(i).map_or(String::new(), |c| c.to_string().replace('-', "−"));
        let mut row = vec![name.to_string()];
        row.extend([1, 3, 5, 7].map(power));
        row.push(if off < 1e-10 { "round-off".into() } else { format!("{off:.2}") });
        row
    };
    let table = Table {
        id: "e3-coefficients".into(),
        title: "Coefficients of M₁ and M₂".into(),
        caption: "Coefficients of αS, α²S³, α³S⁵ and α⁴S⁷, and the largest relative deviation from the iterated matrix over 100 prompts.".into(),
        columns: ["", "αS", "α²S³", "α³S⁵", "α⁴S⁷", "deviation"].map(String::from).to_vec(),
        rows: vec![
            row("M₁ printed", PRINTED[0], worst[0][0]),
            row("M₁ right", &moment_coefficients(1.0, 1), worst[1][0]),
            row("M₂ printed", PRINTED[1], worst[0][1]),
            row("M₂ right", &moment_coefficients(1.0, 2), worst[1][1]),
        ],
    };
    let claims = claims.into_iter().map(|claim| claim.figure("e3-polynomials")).collect();
    Ok(Outcome { claims, figures: vec![polynomials()], tables: vec![table] })
}

/// What each polynomial makes of an eigenvalue, where the iteration should make nearly its inverse.
fn polynomials() -> Figure {
    let curve = |label: &str, coefficients: &[f64], stroke| {
        let value = |x: f64| x * coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
        let points = (0..=60).map(|i| f64::from(i) / 60.0).map(|x| (x, value(x))).collect();
        Series::new(label, points).stroke(stroke)
    };
    let panel = |k: usize| {
        let right = moment_coefficients(1.0, k as u32);
        Panel::Lines(LinesPanel {
            title: if k == 1 { "M₁".into() } else { "M₂".into() },
            x: Axis::new("eigenvalue of √α S", Scale::Linear),
            y: Axis::new("eigenvalue of M S", Scale::Linear).range(-1.0, 1.1),
            series: vec![
                curve("right", &right, Stroke::Solid),
                curve("printed", PRINTED[k - 1], Stroke::Dashed),
            ],
            references: vec![],
        })
    };
    Figure {
        id: "e3-polynomials".into(),
        title: "Printed and right polynomials".into(),
        caption: "What M₁S and M₂S make of an eigenvalue: the identity would be 1, towards which the right ones rise from step to step. \
                  The printed ones turn back."
            .into(),
        panels: vec![panel(1), panel(2)],
    }
}

/// S, α and M₀…M_k of the pairs.
fn newton(xs: &[f64], k: usize) -> (Vec<f64>, f64, Vec<Vec<f64>>) {
    let s = gram(xs, DIM);
    let alpha = 1.0 / frobenius_of_square(&s, DIM);
    let mut m: Vec<f64> = s.iter().map(|v| alpha * v).collect();
    let mut scratch = m.clone();
    let mut all = vec![m.clone()];
    for _ in 0..k {
        newton_schulz(&s, &mut m, &mut scratch, DIM);
        all.push(m.clone());
    }
    (s, alpha, all)
}

/// Largest difference between the eigenvalues of a polynomial in S and those of an iterate, relative to the latter.
fn polynomial_deviation(coefficients: &[f64], alpha: f64, s: &Spectrum, iterate: &Spectrum) -> f64 {
    let root = alpha.sqrt();
    let mut values: Vec<f64> = s
        .values
        .iter()
        .map(|v| root * coefficients.iter().rev().fold(0.0, |sum, c| sum * root * v + c))
        .collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let off = values.iter().zip(&iterate.values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    off / iterate.largest()
}

fn run_degrees(lab: &Lab) -> Result<Outcome> {
    let degree = |p: &[f64]| p.iter().rposition(|c| *c != 0.0).unwrap_or(0) as f64;
    let newton_degrees: Vec<f64> = (0..=6).map(|k| degree(&moment_coefficients(1.0, k))).collect();
    // p ← p − η(S p − 1) on polynomials in S
    let mut gd: Vec<f64> = vec![0.0];
    let mut gd_degrees = vec![0.0];
    for _ in 1..=6 {
        let mut next = gd.clone();
        next.push(0.0);
        gd.iter().enumerate().for_each(|(i, c)| next[i + 1] -= 0.5 * c);
        next[0] += 0.5;
        gd = next;
        gd_degrees.push(degree(&gd));
    }
    let off =
        (0..=6).map(|k| (newton_degrees[k] - (2f64.powi(k as i32 + 1) - 1.0)).abs()).fold(0.0, f64::max);
    let gd_off = (1..=6).map(|k| (gd_degrees[k] - (k as f64 - 1.0)).abs()).fold(0.0, f64::max);

    // The closed form against the iteration, on the whole matrices' spectra.
    let prompts = lab.prompts("gaussian")?;
    let mut worst = 0.0_f64;
    for b in 0..prompts.count().min(50) {
        let (s, alpha, iterates) = newton(&prompts.prompt(b).0[..LAST * DIM], 10);
        let spectrum = Spectrum::of(&s, DIM);
        for (k, m) in iterates.iter().enumerate() {
            let mut closed: Vec<f64> = spectrum
                .values
                .iter()
                .map(|v| -(2f64.powi(k as i32) * (-alpha * v * v).ln_1p()).exp_m1() / v)
                .collect();
            closed.sort_by(|a, b| b.total_cmp(a));
            let iterate = Spectrum::of(m, DIM);
            let off = closed.iter().zip(&iterate.values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            worst = worst.max(off / iterate.largest());
        }
    }
    let claims = vec![
        Claim::new(
            "TH5.newton-degree",
            Kind::Paper,
            "Largest difference of Newton's degree from 2^(k+1) − 1, k = 0…6",
            off,
            Bound::AtMost(0.0),
        )
        .quoted("moments up to S^(2^(k+1)−1)")
        .figure("th5-degrees"),
        Claim::new(
            "TH5.gd-degree",
            Kind::Paper,
            "Largest difference of gradient descent's degree from k − 1, k = 1…6",
            gd_off,
            Bound::AtMost(0.0),
        )
        .quoted("degree O(k)")
        .figure("th5-degrees"),
        Claim::new(
            "TH5.closed-form",
            Kind::Paper,
            "Largest relative deviation of (I − (I − αS²)^(2^k)) S⁻¹ from the iteration, k = 0…10",
            worst,
            Bound::AtMost(1e-10),
        )
        .quoted("sum of moments"),
    ];
    let curve = |values: &[f64]| {
        values.iter().enumerate().map(|(k, v)| (k as f64, *v)).filter(|p| p.1 > 0.0).collect()
    };
    let figure = Figure {
        id: "th5-degrees".into(),
        title: "Degree of the polynomial in S after k steps".into(),
        caption: "Exact degrees from the recurrences on polynomials. The gap between the two curves is the gap between the two rates.".into(),
        panels: vec![Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new("steps k", Scale::Linear),
            y: Axis::new("degree in S", Scale::Log2),
            series: vec![
                Series::new("Newton: 2^(k+1) − 1", curve(&newton_degrees)).stroke(Stroke::LineMarkers),
                Series::new("gradient descent: k − 1", curve(&gd_degrees)).stroke(Stroke::LineMarkers),
            ],
            references: vec![],
        })],
    };
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}
