//! Names that are near to one that is unknown.

/// Names there are that may have been meant, the nearest first; at most three.
pub fn close<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let mut close: Vec<(f64, &str)> = known
        .map(|k| {
            let score = strsim::jaro_winkler(&lower, &k.to_lowercase());
            (if k.to_lowercase().starts_with(&lower) { 1.0 } else { score }, k)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0));
    close.into_iter().take(3).map(|(_, k)| k).collect()
}
