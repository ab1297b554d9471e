//! Means with intervals, by the bootstrap: errors here are heavy-tailed, so no normal approximation.

use crate::data::seed::Seed;
use crate::parallel;

/// How many times prompts are resampled.
pub(crate) const RESAMPLES: usize = 1000;

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value on all prompts.
    pub value: f64,
    /// 2.5 % quantile over resampled prompts.
    pub low: f64,
    /// 97.5 % quantile over resampled prompts.
    pub high: f64,
}

impl Estimate {
    /// Nothing could be measured.
    pub const NONE: Estimate = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };

    /// The value and its interval for a table: `0.49 [0.43, 0.55]`; a dash where nothing could be measured.
    pub fn cell(&self, digits: usize) -> String {
        let Estimate { value, low, high } = self;
        match (value.is_nan(), low.is_nan() || high.is_nan()) {
            (true, _) => "–".into(),
            (_, true) => format!("{value:.digits$}"),
            _ => format!("{value:.digits$} [{low:.digits$}, {high:.digits$}]"),
        }
    }

    /// The interval in words, to follow the value: ` (95 %: 0.43 to 0.55)`; nothing where there is none.
    pub fn words(&self) -> String {
        let Estimate { low, high, .. } = self;
        if low.is_nan() || high.is_nan() { String::new() } else { format!(" (95 %: {low:.2} to {high:.2})") }
    }
}

/// How often each of `count` prompts occurs in resample number `resample`.
pub(crate) fn multiplicities(seed: Seed, resample: usize, count: usize) -> Vec<f64> {
    let mut draws = seed.at("bootstrap", resample as u64);
    let mut times = vec![0.0; count];
    (0..count).for_each(|_| times[draws.below(count)] += 1.0);
    times
}

/// Mean of one value per prompt, with its bootstrap interval.
pub fn mean(seed: Seed, values: &[f64]) -> Estimate {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let mean = |r| crate::linalg::dot(&multiplicities(seed, r, values.len()), values) / count;
    let means = parallel::map(RESAMPLES, mean);
    let (low, high) = interval(means);
    Estimate { value, low, high }
}

/// Mean over the runs of a sweep with its 95 % interval by Student's t: a handful of seeds is too few to resample. A single
/// run has no interval; runs without a value are left out.
pub fn over_runs(values: &[f64]) -> Estimate {
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return Estimate { value, low: f64::NAN, high: f64::NAN };
    }
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student(values.len() - 1) * (variance / count).sqrt();
    Estimate { value, low: value - half, high: value + half }
}

/// The same for values that spread over orders of magnitude: geometric mean, and the interval of the logarithms.
pub fn over_runs_log(values: &[f64]) -> Estimate {
    let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
    let Estimate { value, low, high } = over_runs(&logs);
    Estimate { value: value.exp(), low: low.exp(), high: high.exp() }
}

/// 97.5 % quantile of Student's t.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    // Beyond the table the first term of the expansion in 1/freedom is exact to three digits.
    TABLE.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

/// Any statistic of the prompts, with its bootstrap interval: `statistic` gets the indices of the prompts to use.
pub fn bootstrap(seed: Seed, count: usize, statistic: impl Fn(&[usize]) -> f64 + Sync) -> Estimate {
    let all: Vec<usize> = (0..count).collect();
    let resampled = parallel::map(RESAMPLES, |r| {
        let mut draws = seed.at("bootstrap", r as u64);
        let indices: Vec<usize> = (0..count).map(|_| draws.below(count)).collect();
        statistic(&indices)
    });
    let (low, high) = interval(resampled);
    Estimate { value: statistic(&all), low, high }
}

/// Median of the chosen values.
pub(crate) fn median_of(values: &[f64], indices: &[usize]) -> f64 {
    let mut chosen: Vec<f64> = indices.iter().map(|&i| values[i]).collect();
    let middle = chosen.len() / 2;
    *chosen.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The middle 95 % of resampled values; NaNs are left out.
pub(crate) fn interval(mut values: Vec<f64>) -> (f64, f64) {
    values.retain(|v| !v.is_nan());
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    (at(0.025), at(0.975))
}

/// P-values adjusted by Holm's step-down method: those at or below a level can all be rejected with at most that chance of any
/// false rejection, however the tests depend on each other.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[i]).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Chance that a standard normal exceeds `z`.
pub(crate) fn normal_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// Straight line through points by least squares: (intercept, slope, sum of squared residuals).
pub fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let intercept = my - slope * mx;
    let rss = points.iter().map(|p| (p.1 - intercept - slope * p.0).powi(2)).sum();
    (intercept, slope, rss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let covered = (0..200)
            .filter(|&i| {
                let sample = Seed(9).at("coverage", i).normals(60);
                let m = mean(Seed(i), &sample);
                m.low <= 0.0 && 0.0 <= m.high
            })
            .count();
        assert!((176..=200).contains(&covered), "{covered} of 200"); // 190 expected
    }

    #[test]
    fn a_handful_of_runs_covers_the_truth_as_often_as_it_says() {
        for count in [3, 5, 25] {
            let covered = (0..400)
                .filter(|&i| {
                    let estimate = over_runs(&Seed(9).at("runs", i).normals(count));
                    estimate.low <= 0.0 && 0.0 <= estimate.high
                })
                .count();
            assert!((365..=394).contains(&covered), "{covered} of 400 with {count} runs"); // 380 expected
        }
        let wide = over_runs_log(&[1e-4, 1e-2]);
        assert!((wide.value - 1e-3).abs() < 1e-12 && wide.low > 0.0 && wide.high > 1.0);
        assert!(over_runs(&[1.0, f64::NAN]).low.is_nan() && over_runs(&[1.0, f64::NAN]).value == 1.0);
    }

    #[test]
    fn holm_adjusts_as_in_the_textbooks() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!((holm(&[0.7, 0.6]), holm(&[])), (vec![1.0, 1.0], vec![]));
    }

    #[test]
    fn a_normal_has_its_tail() {
        assert!((normal_tail(1.959964) - 0.025).abs() < 1e-7 && (normal_tail(0.0) - 0.5).abs() < 1e-12);
        assert!((normal_tail(-1.0) - 0.841345).abs() < 1e-6 && normal_tail(8.0) > 0.0);
    }

    #[test]
    fn lines_are_found() {
        let (a, b, rss) = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert!((a - 1.0).abs() < 1e-12 && (b - 2.0).abs() < 1e-12 && rss < 1e-20);
    }
}
