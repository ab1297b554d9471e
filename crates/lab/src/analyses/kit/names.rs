//! Names of networks as a reader meets them: `R1` for `r1`, `R6, 8 wide` for `r6-8`.

use crate::findings::numbers::grouped;
use crate::networks::models::{MINIATURE, Recipe};

/// What is said of a network named after one of the paper's that was trained otherwise.
pub const OTHER_RECIPE: &str = "fast recipe";
/// What a claim says of a network of the paper's recipe that began otherwise.
pub const OTHER_START: &str = "another start";
/// How the names of the same training from other seeds begin.
const SEED: &str = "seed";

/// Some networks in words: `R1`, `R1 and R7`, `R1, seeds 0–4`; nothing for none.
pub fn of(names: &[&str]) -> String {
    if let Some(seeds) = seeds(names) {
        return seeds;
    }
    if let Some((first, seeds)) = names.split_first().and_then(|(first, rest)| Some((first, seeds(rest)?))) {
        return format!("{} and {seeds}", one(first));
    }
    if let Some(widths) = widths(names) {
        return widths;
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    let names: Vec<String> = names.into_iter().map(one).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Some networks in words, with which of them were not trained as the paper's: `R4 (fast recipe)`,
/// `R1 and R7 (R7: fast recipe)`, `R2 (425,000 of 500,001 steps)`.
pub fn with_recipe(names: &[&str], others: &[(&str, Recipe)]) -> String {
    // what is called fast, or is our own, need not be said to be
    let said = others.iter().filter(|(name, _)| named_after_paper(name));
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, recipe) in said {
        let words = match recipe {
            Recipe::Other(_) => OTHER_RECIPE.to_string(),
            Recipe::Start(_) => OTHER_START.to_string(),
            Recipe::Cut { steps, of } => format!("{} of {} steps", grouped(*steps), grouped(*of)),
        };
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, members)) => members.push(name),
            None => groups.push((words, vec![name])),
        }
    }
    let all = of(names);
    match groups.as_slice() {
        [] => all,
        [(words, members)] if members.len() == names.len() => format!("{all} ({words})"),
        _ => {
            let parts = groups.iter().map(|(words, members)| format!("{}: {words}", of(members)));
            format!("{all} ({})", parts.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Whether a name promises a network of the paper and says nothing of how it was trained.
pub fn named_after_paper(name: &str) -> bool {
    match name.split_once('-') {
        None => name != MINIATURE,
        Some((_, special)) => special.parse::<usize>().is_ok() || ["wide", "relu"].contains(&special),
    }
}

/// One network: the part of its name before the dash is its number, the part after it what is special.
fn one(name: &str) -> String {
    let (number, special) = name.split_once('-').unwrap_or((name, ""));
    let number = if number == MINIATURE { number.to_string() } else { number.to_uppercase() };
    match special {
        "" => number,
        "along" => format!("{number} during training"),
        "relu" => format!("{number} with ReLU attention"),
        "fast" => format!("{number} by Muon"),
        width if width.parse::<usize>().is_ok() => format!("{number}, {width} wide"),
        other => match other.strip_prefix(SEED) {
            Some(seed) => format!("{number}, seed {seed}"),
            None => format!("{number}, {other}"),
        },
    }
}

/// One network and others that differ from it by their seeds, 1 and on.
fn seeds(names: &[&str]) -> Option<String> {
    let (first, others) = names.split_first().filter(|(_, others)| !others.is_empty())?;
    let stem = first.strip_suffix("-fast").unwrap_or(first);
    let numbered = |(i, name): (usize, &&str)| **name == *format!("{stem}-{SEED}{}", i + 1);
    let all = others.iter().enumerate().all(numbered);
    all.then(|| format!("{}, seeds 0–{}", one(first), others.len()))
}

/// Networks of one number and several widths.
fn widths(names: &[&str]) -> Option<String> {
    let split: Option<Vec<(&str, &str)>> = names.iter().map(|name| name.split_once('-')).collect();
    let split = split.filter(|split| split.len() > 1)?;
    let number = split[0].0;
    let same = split.iter().all(|(of, width)| *of == number && width.parse::<usize>().is_ok());
    let widths: Vec<&str> = split.iter().map(|(_, width)| *width).collect();
    same.then(|| format!("{}, {} wide", number.to_uppercase(), widths.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_named_as_the_paper_numbers_them() {
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["r1"]), "R1");
        assert_eq!(of(&["r7", "r1"]), "R1 and R7");
        assert_eq!(of(&["r1", "r7", "r7-wide"]), "R1, R7 and R7, wide");
        assert_eq!(of(&["r1-fast", "r1-seed1", "r1-seed2"]), "R1 by Muon, seeds 0–2");
        assert_eq!(of(&["r1", "r1-fast", "r1-seed1"]), "R1 and R1 by Muon, seeds 0–1");
        assert_eq!(of(&["r6-8", "r6-16"]), "R6, 8, 16 wide");
        assert_eq!(of(&["r1-along"]), "R1 during training");
        assert_eq!(of(&["miniature"]), "miniature");
        let fast = |name| (name, Recipe::Other("Muon".into()));
        let cut = ("r2", Recipe::Cut { steps: 425_000, of: 500_001 });
        assert_eq!(with_recipe(&["r4"], &[]), "R4");
        assert_eq!(with_recipe(&["r4"], &[fast("r4")]), "R4 (fast recipe)");
        let start = ("r7", Recipe::Start(" from layers of unit gain"));
        assert_eq!(with_recipe(&["r7"], &[start]), "R7 (another start)");
        assert_eq!(with_recipe(&["r1", "r7"], &[fast("r7")]), "R1 and R7 (R7: fast recipe)");
        assert_eq!(with_recipe(&["r2"], std::slice::from_ref(&cut)), "R2 (425,000 of 500,001 steps)");
        let both = with_recipe(&["r2", "r4"], &[cut, fast("r4")]);
        assert_eq!(both, "R2 and R4 (R2: 425,000 of 500,001 steps; R4: fast recipe)");
        let ours = [fast("r1-fast"), fast("miniature")];
        assert_eq!(with_recipe(&["r1-fast", "miniature"], &ours), "miniature and R1 by Muon");
    }
}
