//! The shape of a filter in two numbers: f(λ) = 1 − exp(−(λ/λ_c)^p).
//!
//! With many steps 1−(1−ηλ)^m is close to p = 1 with λ_c = 1/(ηm), and 1−(1−αλ²)^m to p = 2: the exponent says from which
//! start a Newton iteration grew, whatever its number of steps.

/// A filter with all its values above this is 1 nearly everywhere, and has no shape.
const DONE: f64 = 0.9;
/// A filter with all its values below this has not begun.
const BEGUN: f64 = 0.15;

/// The exponent p and the cut-off λ_c of a filter `[k]` over its knots, each with its weight; `None` where it has not begun or
/// is done. The search begins `near` a shape, if one is known.
pub(super) fn fit(
    knots: &[f64],
    weights: &[f64],
    filter: &[f64],
    near: Option<(f64, f64)>,
) -> Option<(f64, f64)> {
    let low = filter.iter().copied().fold(f64::INFINITY, f64::min);
    let high = filter.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !(low < DONE && high > BEGUN) || knots.len() < 4 {
        return None;
    }
    // λ_c where f crosses 1 − 1/e, or beyond the last knot
    let level = 1.0 - (-1.0_f64).exp();
    let crossing = filter.iter().position(|f| *f >= level);
    let guess = || (1.5, crossing.map_or(knots[knots.len() - 1] / high.max(0.05), |k| knots[k]));
    let (mut p, cutoff) = near.unwrap_or_else(guess);
    let mut log_c = cutoff.ln();
    let mut damping = 1e-3;
    let mut error = squares(knots, weights, filter, p, log_c);
    for _ in 0..100 {
        let (mut a, mut b) = ([0.0; 3], [0.0; 2]); // JᵀJ (upper) and Jᵀr
        for ((knot, f), weight) in knots.iter().zip(filter).zip(weights) {
            let z = knot.ln() - log_c;
            let power = (p * z).exp();
            let slope = power * (-power).exp();
            let (by_p, by_c, r) = (slope * z, -slope * p, f - (1.0 - (-power).exp()));
            a = [a[0] + weight * by_p * by_p, a[1] + weight * by_p * by_c, a[2] + weight * by_c * by_c];
            b = [b[0] + weight * by_p * r, b[1] + weight * by_c * r];
        }
        let (a0, a2) = (a[0] * (1.0 + damping), a[2] * (1.0 + damping));
        let determinant = a0 * a2 - a[1] * a[1];
        if determinant <= 0.0 {
            return None;
        }
        let step_p = (a2 * b[0] - a[1] * b[1]) / determinant;
        let step_c = (a0 * b[1] - a[1] * b[0]) / determinant;
        let (next_p, next_c) = ((p + step_p).clamp(0.05, 20.0), log_c + step_c);
        let next = squares(knots, weights, filter, next_p, next_c);
        if next <= error {
            let close = step_p.abs() < 1e-7 && step_c.abs() < 1e-7;
            (p, log_c, error, damping) = (next_p, next_c, next, (damping * 0.3).max(1e-12));
            if close {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e8 {
                break;
            }
        }
    }
    Some((p, log_c.exp()))
}

fn squares(knots: &[f64], weights: &[f64], filter: &[f64], p: f64, log_c: f64) -> f64 {
    let curve = |knot: &f64| 1.0 - (-(p * (knot.ln() - log_c)).exp()).exp();
    knots.iter().zip(filter).zip(weights).map(|((knot, f), weight)| weight * (f - curve(knot)).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knots() -> Vec<f64> {
        (0..12).map(|k| 6.0 * 16f64.powf(f64::from(k) / 11.0)).collect()
    }

    #[test]
    fn its_own_curve_comes_back() {
        for (p, c) in [(0.7, 20.0), (1.0, 5.0), (1.0, 60.0), (2.0, 30.0), (3.5, 40.0)] {
            let filter: Vec<f64> = knots().iter().map(|k| 1.0 - (-(k / c).powf(p)).exp()).collect();
            let (found, cut) = fit(&knots(), &[1.0; 12], &filter, None).unwrap();
            assert!((found - p).abs() < 1e-5 && (cut / c - 1.0).abs() < 1e-5, "{p} {c}: {found} {cut}");
        }
    }

    #[test]
    fn the_starts_of_newton_have_exponents_one_and_two() {
        let largest: f64 = 96.0;
        for m in [4.0, 8.0, 16.0] {
            let identity: Vec<f64> =
                knots().iter().map(|k| 1.0 - (1.0 - k / (2.0 * largest)).powf(m)).collect();
            let gram: Vec<f64> =
                knots().iter().map(|k| 1.0 - (1.0 - (k / (1.5 * largest)).powi(2)).powf(m)).collect();
            let (one, two) = (
                fit(&knots(), &[1.0; 12], &identity, None).unwrap().0,
                fit(&knots(), &[1.0; 12], &gram, None).unwrap().0,
            );
            assert!((one - 1.05).abs() < 0.1 && (two - 2.05).abs() < 0.2, "{m}: {one} {two}");
        }
    }

    #[test]
    fn what_has_not_begun_or_is_done_has_no_shape() {
        assert!(
            fit(&knots(), &[1.0; 12], &[0.02; 12], None).is_none()
                && fit(&knots(), &[1.0; 12], &[0.97; 12], None).is_none()
        );
    }
}
