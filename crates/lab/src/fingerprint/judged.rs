//! How far a candidate is from a learner: its best step for each step of the learner is chosen on the prompts of even number,
//! and what it leaves of the learner's errors is judged on the others.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

use super::asked::{Answers, Asked};
use crate::parallel;

/// Answers less those of least squares, of the prompts of even number together and of each of the others.
pub(super) struct Errors {
    /// `[l]`: a row per step, a column per answer of all prompts of even number.
    even: Vec<Array2<f64>>,
    /// `[l][b]`: the same for each prompt of odd number.
    odd: Vec<Vec<Array2<f64>>>,
}

impl Errors {
    pub fn of(answers: &Answers, asked: &Asked) -> Errors {
        let steps = answers.count();
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for (problems, seen) in asked.problems.iter().zip(&answers.of) {
            let of = |b: usize| {
                let right = Array1::from(problems[b].exact_answers());
                let found = ArrayView2::from_shape((steps, right.len()), &seen[b]).expect("[s, n]");
                &found - &right
            };
            let halves = |first: usize| (first..problems.len()).step_by(2).map(of).collect::<Vec<_>>();
            let together: Vec<Array2<f64>> = halves(0);
            let views: Vec<ArrayView2<f64>> = together.iter().map(|errors| errors.view()).collect();
            even.push(ndarray::concatenate(Axis(1), &views).expect("as many steps for every prompt"));
            odd.push(halves(1));
        }
        Errors { even, odd }
    }

    /// Squared length after a step, of each prompt of odd number `[b]`.
    fn power(&self, s: usize, l: usize) -> Array1<f64> {
        self.odd[l].iter().map(|errors| square(errors.row(s))).collect()
    }
}

/// A candidate at its best steps, on the prompts of odd number.
pub(super) struct Judged {
    /// Position of its best step `[s]`.
    pub best: Vec<usize>,
    /// Squared distance from the learner `[s][l][b]`.
    apart: Vec<Vec<Array1<f64>>>,
}

impl Judged {
    pub fn of(learner: &Errors, candidate: &Errors, says: &[Vec<bool>]) -> Judged {
        let lengths = 0..learner.even.len();
        // ‖e − e′‖² = ‖e‖² + ‖e′‖² − 2⟨e, e′⟩, all steps of both at once; a share of ‖e‖² is exact to round-off
        let shares: Vec<Array2<f64>> = lengths
            .clone()
            .map(|l| {
                let (own, their) = (&learner.even[l], &candidate.even[l]);
                let squares =
                    |errors: &Array2<f64>| errors.rows().into_iter().map(square).collect::<Array1<f64>>();
                let power = squares(own).insert_axis(Axis(1)).mapv_into(|p| p.max(f64::MIN_POSITIVE));
                (&power + &squares(their) - own.dot(&their.t()) * 2.0) / &power
            })
            .collect();
        let best: Vec<usize> = (0..says.len())
            .map(|s| {
                let cost = |k: usize| counting(&says[s]).map(|l| shares[l][[s, k]]).sum::<f64>();
                let costs = (0..shares[0].ncols()).map(|k| (k, cost(k)));
                costs.min_by(|x, y| x.1.total_cmp(&y.1)).map_or(0, |(k, _)| k)
            })
            .collect();
        let apart = |s: usize, l: usize| {
            let pairs = learner.odd[l].iter().zip(&candidate.odd[l]);
            pairs.map(|(own, their)| square((&own.row(s) - &their.row(best[s])).view())).collect()
        };
        let apart = (0..says.len()).map(|s| lengths.clone().map(|l| apart(s, l)).collect()).collect();
        Judged { best, apart }
    }

    /// Share that it leaves `[s]`.
    pub fn left(&self, learner: &Errors, says: &[Vec<bool>]) -> Vec<f64> {
        let left = |s: usize| {
            let share = |l: usize| self.apart[s][l].sum() / learner.power(s, l).sum().max(f64::MIN_POSITIVE);
            let shares: Vec<f64> = counting(&says[s]).map(share).collect();
            shares.iter().sum::<f64>() / shares.len() as f64
        };
        (0..says.len()).map(left).collect()
    }
}

/// The numbers of pairs that count at a step: those that say something, or all where none does.
fn counting(says: &[bool]) -> impl Iterator<Item = usize> + '_ {
    let none = !says.contains(&true);
    (0..says.len()).filter(move |&l| says[l] || none)
}

/// Mean share that each candidate leaves `[r, c]` over what says something, each prompt counted as often as row r of `times`
/// says; NaN where nothing does.
pub(super) fn mean_shares(
    judged: &[Judged],
    learner: &Errors,
    says: &[Vec<bool>],
    times: &Array2<f64>,
) -> Array2<f64> {
    let all = says.iter().enumerate().flat_map(|(s, says)| (0..says.len()).map(move |l| (s, l)));
    let telling: Vec<(usize, usize)> = all.filter(|&(s, l)| says[s][l]).collect();
    let share = |&(s, l): &(usize, usize)| {
        let columns: Vec<ArrayView1<f64>> = judged.iter().map(|judged| judged.apart[s][l].view()).collect();
        let apart = ndarray::stack(Axis(1), &columns).expect("as many prompts for every candidate");
        let power = times.dot(&learner.power(s, l)).mapv_into(|p| p.max(f64::MIN_POSITIVE));
        times.dot(&apart) / power.insert_axis(Axis(1))
    };
    let zero = Array2::zeros((times.nrows(), judged.len()));
    if judged.is_empty() {
        return zero;
    }
    // added in their order, whatever the threads
    let shares: Vec<Array2<f64>> = parallel::map_items(&telling, share);
    shares.into_iter().fold(zero, |sum, share| sum + share) / telling.len() as f64
}

fn square(errors: ArrayView1<f64>) -> f64 {
    errors.dot(&errors)
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use crate::data::prompts::Task;
    use crate::data::seed::Seed;
    use crate::learners::steps::Steps;
    use crate::solvers;

    #[test]
    fn shares_are_what_the_answers_give_directly() {
        let task = Task::new("linear", "gaussian", 4, 13).unwrap();
        let questions = task.questions(Seed(1), "eval", 0, 10, vec![3, 12], 4);
        let asked = Asked::fresh(questions, Scale::One).unwrap();
        let ask = |name: &str| asked.ask(&*solvers::build(name).unwrap(), &Steps::range(1, 6)).unwrap();
        let (newton, gd) = (ask("newton"), ask("gd:eta=0.01"));
        let says = vec![vec![true; 2]; 6];
        let (own, their) = (Errors::of(&newton, &asked), Errors::of(&gd, &asked));
        let found = Judged::of(&own, &their, &says);
        let apart = |l: usize, b: usize, s: usize, k: usize| {
            let pairs = newton.of[l][b][4 * s..4 * s + 4].iter().zip(&gd.of[l][b][4 * k..4 * k + 4]);
            pairs.map(|(x, y)| (x - y).powi(2)).sum::<f64>()
        };
        let power = |l: usize, b: usize, s: usize| {
            let exact = asked.problems[l][b].exact_answers();
            newton.of[l][b][4 * s..].iter().zip(&exact).map(|(x, y)| (x - y).powi(2)).sum::<f64>()
        };
        let share = |l: usize, s: usize, k: usize, first: usize| {
            let of = |f: &dyn Fn(usize) -> f64| (first..10).step_by(2).map(f).sum::<f64>();
            of(&|b| apart(l, b, s, k)) / of(&|b| power(l, b, s))
        };
        let times = Array2::ones((1, 5));
        let mut mean = 0.0;
        for s in 0..6 {
            let cost = |k: usize| share(0, s, k, 0) + share(1, s, k, 0);
            let best = (0..6).min_by(|&i, &j| cost(i).total_cmp(&cost(j))).unwrap();
            assert_eq!(found.best[s], best, "best step for step {s}");
            let left = (share(0, s, best, 1) + share(1, s, best, 1)) / 2.0;
            assert!((found.left(&own, &says)[s] - left).abs() < 1e-12);
            mean += left / 6.0;
        }
        let score = mean_shares(&[found], &own, &says, &times)[[0, 0]];
        assert!((score - mean).abs() < 1e-12, "{score} and {mean}");
    }
}
