//! Known algorithms have the fingerprints that theory gives them.

use super::*;
use crate::data::prompts::{Questions, Task};
use crate::solvers;

const DIM: usize = 10;

fn questions(prompts: usize, lengths: &[usize]) -> Questions {
    let task = Task::new("linear", "gaussian", DIM, 31).unwrap();
    task.questions(Seed(5), "eval", 0, prompts, lengths.to_vec(), 2 * DIM)
}

fn asked(lengths: &[usize]) -> Asked {
    Asked::fresh(questions(128, lengths), Scale::One).unwrap()
}

/// In the unit in which the default starts of Newton are the same for all prompts.
fn asked_by_norm(lengths: &[usize]) -> Asked {
    Asked::fresh(questions(128, lengths), Scale::Frobenius).unwrap()
}

fn taken(solver: &str, steps: &Steps, asked: &Asked) -> Fingerprint {
    Fingerprint::of(&*solvers::build(solver).unwrap(), steps, asked, &Options::default()).unwrap()
}

#[test]
fn filters_are_the_closed_forms() {
    let asked = asked(&[30]);
    let found = taken("gd:eta=0.01", &Steps::parse("1,3,10,40").unwrap(), &asked);
    let after = &found.lengths[0];
    for (s, m) in [1, 3, 10, 40].into_iter().enumerate() {
        for (knot, f) in after.knots.values.iter().zip(&after.filters[s]) {
            let theory = 1.0 - (1.0 - 0.01 * knot).powi(m);
            assert!((f.value - theory).abs() < 0.02, "{m} steps at λ = {knot}: {} and {theory}", f.value);
            assert!(f.low <= f.value && f.value <= f.high);
        }
        assert!(after.unexplained[s].value < 1e-2, "a filter explains GD: {:?}", after.unexplained[s]);
    }
}

#[test]
fn newton_has_its_return_map_and_its_starts_their_shapes() {
    let asked = asked_by_norm(&[20, 30]);
    for (solver, exponent) in [("newton:start=identity", 1.0..1.4), ("newton", 1.9..2.9)] {
        let found = taken(solver, &Steps::range(0, 9), &asked);
        for after in &found.lengths {
            let maps: Vec<&ReturnMap> = after.maps.iter().flatten().collect();
            assert!(maps.len() >= 4, "{solver}: {} maps", maps.len());
            for map in maps {
                assert!((map.order.value - 2.0).abs() < 0.1, "{solver}: {map:?}");
                assert!(
                    (map.a.value - 2.0).abs() < 0.1 && (map.b.value - 1.0).abs() < 0.15,
                    "{solver}: {map:?}"
                );
            }
            let shapes: Vec<f64> = after.shapes.iter().flatten().map(|s| s.exponent.value).collect();
            assert!(shapes.len() >= 3, "{solver}: {shapes:?}");
            assert!(shapes.iter().all(|p| exponent.contains(p)), "{solver}: {shapes:?}");
        }
    }
    let cubic = taken("hyperpower:order=3", &Steps::range(0, 6), &asked);
    for map in cubic.lengths.iter().flat_map(|after| &after.maps).flatten() {
        assert!((map.order.value - 3.0).abs() < 0.25, "{map:?}");
    }
}

#[test]
fn the_degree_bound_never_exceeds_the_degree() {
    let asked = asked(&[12, 30]);
    let gd = taken("gd:eta=0.01", &Steps::range(1, 6), &asked);
    for after in &gd.lengths {
        // m steps of GD are a polynomial of degree m − 1 in S, times c
        for (s, degree) in after.degrees.iter().enumerate() {
            assert!(degree.unwrap() <= s, "{:?}", after.degrees);
        }
    }
    let cg = taken("cg", &Steps::range(1, 5), &asked);
    // CG is the best polynomial in another norm: nothing of a lower degree than half of its own comes as close
    for after in &cg.lengths {
        for (s, degree) in after.degrees.iter().enumerate() {
            assert!((s.div_ceil(2)..=s).contains(&degree.unwrap()), "{:?}", after.degrees);
        }
    }
}

#[test]
fn one_query_per_prompt_gives_the_same_filters() {
    let task = Task::new("linear", "gaussian", DIM, 31).unwrap();
    let prompts = task.sample(Seed(5), "eval", 0, 2000);
    let single = Asked::next_point(prompts, vec![30], Scale::Frobenius).unwrap();
    let steps = Steps::range(0, 8);
    let (one, all) = (taken("newton", &steps, &single), taken("newton", &steps, &asked_by_norm(&[30])));
    for s in 2..8 {
        let (one, all) = (&one.lengths[0], &all.lengths[0]);
        for (knot, f) in one.knots.values.iter().zip(&one.filters[s]) {
            let other = all.knots.interpolate(&all.filter(s), *knot);
            assert!((f.value - other).abs() < 0.05, "step {s} at λ = {knot}: {} and {other}", f.value);
        }
    }
    assert!(one.lengths[0].degrees.is_empty());
}

#[test]
fn before_d_pairs_directions_without_eigenvalue_are_left_out() {
    let asked = asked(&[6]);
    let gd = taken("gd:eta=0.01", &Steps::parse("1,10").unwrap(), &asked);
    assert!(asked.problems[0].iter().all(|p| p.values.len() == 6));
    assert!(gd.lengths[0].outside.iter().all(|share| *share < 1e-12), "GD stays in the span");
}

#[test]
fn algorithms_are_named_and_equals_are_not_told_apart() {
    let asked = asked(&[15, 30]);
    let grid = |name: &str| match name {
        "gd:eta=0.01" => Steps::parse("1..=64").unwrap(),
        "gd:eta=0.02" => Steps::parse("1..=64").unwrap(),
        _ => Steps::range(0, 12),
    };
    let names = [
        "newton",
        "newton:start=identity,eta=0.01",
        "gd:eta=0.01",
        "gd:eta=0.02",
        "cg",
        "hyperpower:order=3",
    ];
    let build = |name: &str| solvers::build(name).unwrap();
    let candidates: Vec<Candidate> =
        names.iter().map(|name| Candidate::ask(name, &*build(name), &grid(name), &asked).unwrap()).collect();
    let named = |name: &str, steps: &Steps| {
        let answers = asked.ask(&*build(name), steps).unwrap();
        Naming::of_answers(&answers, &candidates, &asked, Seed(0))
    };
    for name in ["newton", "gd:eta=0.02", "cg", "hyperpower:order=3"] {
        let steps = if name.starts_with("gd") { Steps::range(1, 12) } else { Steps::range(0, 8) };
        let found = named(name, &steps);
        assert_eq!(found.names(), [name], "{}", found.words());
    }
    // Newton from ηI at k is GD at 2^k; at other numbers of steps GD is told from it
    let mut same = named("newton:start=identity,eta=0.01", &Steps::range(0, 5)).names().join(" ");
    assert!(same.contains("gd:eta=0.01") && same.contains("identity"), "{same}");
    same = named("gd:eta=0.01", &Steps::range(1, 12)).names().join(" ");
    assert_eq!(same, "gd:eta=0.01");
    // online GD is none of them
    let online = named("ogd", &Steps::single(1));
    assert!(!online.names().contains(&"newton"), "{}", online.words());
}

#[test]
fn linearity_is_found_and_missed() {
    let questions = questions(16, &[20]);
    let of = |name: &str| {
        let learner = solvers::build(name).unwrap();
        Linearity::of(&*learner, &learner.default_steps(), &questions, 20, Seed(0)).unwrap()
    };
    let largest =
        |shares: &[Estimate]| shares.iter().map(|s| s.value).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let newton = of("newton");
    let all = [&newton.query_scaled, &newton.query_added, &newton.labels_scaled, &newton.labels_added];
    assert!(all.iter().all(|shares| largest(shares) < 1e-20));
    // neighbours are linear in the labels, and not in the query
    let knn = of("knn");
    assert!(largest(&knn.labels_added) < 1e-20 && largest(&knn.query_added) > 0.05);
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_sentence() {
    let few = Asked::fresh(questions(4, &[30]), Scale::One).unwrap();
    let newton = solvers::build("newton").unwrap();
    let why = |asked: &Asked, options: &Options| {
        Fingerprint::of(&*newton, &Steps::range(0, 3), asked, options).unwrap_err().to_string()
    };
    let said = why(&few, &Options::default());
    assert!(
        said.contains(
            "12 knots from 4 prompts after 30 pairs; accepted: at least 24 prompts, or 8 with 4 knots"
        ),
        "{said}"
    );
    let said = why(&asked(&[30]), &Options { knots: 100, ..Options::default() });
    assert!(said.contains("accepted: from 4 to 64 knots, or at least 200 prompts"), "{said}");
    let other =
        Task::new("relu-2nn", "gaussian", DIM, 31).unwrap().questions(Seed(0), "eval", 0, 32, vec![30], DIM);
    let said = Asked::fresh(other, Scale::One).err().unwrap().to_string();
    assert!(said.contains("labels are no linear function of the inputs"), "{said}");
    let prompts = Task::new("linear", "gaussian", DIM, 31).unwrap().sample(Seed(0), "eval", 0, 4);
    let said = Asked::next_point(prompts, vec![31], Scale::One).err().unwrap().to_string();
    assert!(said.contains("accepted: up to 30"), "{said}");
}
