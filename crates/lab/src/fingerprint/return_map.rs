//! From one step to the next: f_{s+1} = a f_s − b f_s², free of any start.
//!
//! A Newton iteration T ← 2T − TST has a = 2 and b = 1 on every eigenvalue; a relaxed one a and a−1; one that raises the
//! residual to the power r has f_{s+1} = 1 − (1−f_s)^r, the order.

/// Filters beyond these say nothing: nothing has begun, or everything is over.
const INFORMATIVE: std::ops::RangeInclusive<f64> = 0.02..=0.95;
/// Fewest knots for two coefficients.
const FEWEST: usize = 4;
/// Orders beyond these are not told apart.
const ORDERS: (f64, f64) = (0.25, 32.0);

/// a, b and the order of the step from one filter `[k]` to the next, each knot with its weight; `None` where too few knots say
/// anything.
pub(super) fn fit(weights: &[f64], before: &[f64], after: &[f64]) -> Option<[f64; 3]> {
    let all = weights.iter().zip(before).zip(after).map(|((w, f), g)| (*w, *f, *g));
    let informative: Vec<(f64, f64, f64)> = all.filter(|(_, f, _)| INFORMATIVE.contains(f)).collect();
    if informative.len() < FEWEST {
        return None;
    }
    let (mut ff, mut fs, mut ss, mut fg, mut sg) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (w, f, g) in &informative {
        let square = f * f;
        ff += w * f * f;
        fs += w * f * square;
        ss += w * square * square;
        fg += w * f * g;
        sg += w * square * g;
    }
    let determinant = ff * ss - fs * fs;
    if determinant <= 1e-12 * ff * ss {
        return None;
    }
    let a = (fg * ss - sg * fs) / determinant;
    let b = (fg * fs - sg * ff) / determinant;
    Some([a, b, order(&informative)])
}

/// The r of 1 − (1−f)^r that fits best: by golden section in log r.
fn order(pairs: &[(f64, f64, f64)]) -> f64 {
    let error = |log_r: f64| {
        let r = log_r.exp();
        pairs.iter().map(|(w, f, g)| w * (g - 1.0 + (1.0 - f).powf(r)).powi(2)).sum::<f64>()
    };
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (ORDERS.0.ln(), ORDERS.1.ln());
    let (mut x, mut y) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_x, mut at_y) = (error(x), error(y));
    while high - low > 1e-7 {
        if at_x < at_y {
            (high, y, at_y) = (y, x, at_x);
            x = high - golden * (high - low);
            at_x = error(x);
        } else {
            (low, x, at_x) = (x, y, at_y);
            y = low + golden * (high - low);
            at_y = error(y);
        }
    }
    f64::midpoint(low, high).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_have_their_coefficients() {
        let before: Vec<f64> = (1..=9).map(|k| f64::from(k) / 10.0).collect();
        for r in [1.5, 2.0, 3.0, 4.0] {
            let after: Vec<f64> = before.iter().map(|f| 1.0 - (1.0 - f).powf(r)).collect();
            let [a, b, order] = fit(&[1.0; 9], &before, &after).unwrap();
            assert!((order - r).abs() < 1e-4, "{r}: {order}");
            assert!(r != 2.0 || ((a - 2.0).abs() < 1e-9 && (b - 1.0).abs() < 1e-9), "{a} {b}");
        }
        let relaxed: Vec<f64> = before.iter().map(|f| 1.7 * f - 0.7 * f * f).collect();
        let [a, b, _] = fit(&[1.0; 9], &before, &relaxed).unwrap();
        assert!((a - 1.7).abs() < 1e-9 && (b - 0.7).abs() < 1e-9);
    }

    #[test]
    fn too_little_says_nothing() {
        assert!(fit(&[1.0; 3], &[0.5, 0.6, 0.7], &[0.7, 0.8, 0.9]).is_none());
        assert!(
            fit(&[1.0; 8], &[0.99; 8], &[1.0; 8]).is_none()
                && fit(&[1.0; 8], &[0.5; 8], &[0.75; 8]).is_none()
        );
    }
}
