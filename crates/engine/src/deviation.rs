//! How far numbers are from what they should be.

/// The largest of some deviations, 0 of none, and NaN if one of them is: `max` would pass over it, and what is not a number would seem to
/// be right.
///
/// ```
/// use engine::deviation::{least, worst};
///
/// assert_eq!((worst([0.1, 0.3, 0.2]), least([0.2, 0.1, 0.3])), (0.3, 0.1));
/// assert!(worst([f64::NAN, 0.3]).is_nan() && worst([0.3, f64::NAN]).is_nan());
/// assert!(least([f64::NAN, 0.3]).is_nan() && least([0.3, f64::NAN]).is_nan());
/// ```
pub fn worst<T: Into<f64>>(deviations: impl IntoIterator<Item = T>) -> f64 {
    let larger = |worst: f64, next: f64| if worst.is_nan() || next <= worst { worst } else { next };
    deviations.into_iter().map(Into::into).fold(0.0, larger)
}

/// The smallest of some deviations, infinite of none, and NaN if one of them is, where all must be large.
pub fn least<T: Into<f64>>(deviations: impl IntoIterator<Item = T>) -> f64 {
    let smaller = |least: f64, next: f64| if least.is_nan() || next >= least { least } else { next };
    deviations.into_iter().map(Into::into).fold(f64::INFINITY, smaller)
}
