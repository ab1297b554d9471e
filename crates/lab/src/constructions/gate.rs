//! Gates: scores that tell, from positions alone, which column stands where.

use std::f64::consts::PI;

use ndarray::Array2;

use super::slots::{Slots, Wire};

/// Names of the slots of the first and second frequency.
const NAMES: [(&str, &str); 2] = [("cos", "sin"), ("cos2", "sin2")];

/// Positions on one or two circles, for up to N columns, and the gates they allow.
///
/// At position p the slots hold cos(ωp) and sin(ωp) for each frequency ω. The gate of a lag is
/// 1 − (2/gap) Σ_ω [1 − cos ω(t−s−lag)], which is 1 for s = t−lag and at most −1 for every other s. Round-off makes
/// the 1 uncertain by about ε/gap. With one frequency π/(N+1) the gap is near 5/N²; a second one, √N times as fast,
/// lifts it to about 5/N.
#[derive(Clone, Debug)]
pub struct Positions {
    frequencies: Vec<f64>,
    gap: f64,
}

impl Positions {
    /// One circle: slots `cos`, `sin`.
    pub fn one_circle(columns: usize) -> Positions {
        Positions::new(vec![PI / (columns + 1) as f64], columns)
    }

    /// Two circles: slots `cos`, `sin`, `cos2`, `sin2`.
    pub fn two_circles(columns: usize) -> Positions {
        let slow = PI / (columns + 1) as f64;
        let period = (columns as f64).sqrt().ceil().max(2.0);
        Positions::new(vec![slow, 2.0 * PI / period], columns)
    }

    fn new(frequencies: Vec<f64>, columns: usize) -> Positions {
        let distance = |lag: usize| frequencies.iter().map(|w| 1.0 - (w * lag as f64).cos()).sum::<f64>();
        let gap = (1..=columns).map(distance).fold(f64::INFINITY, f64::min);
        Positions { frequencies, gap }
    }

    /// Writes the slots of all positions into a table `[p, w]`.
    pub fn write(&self, slots: &Slots, table: &mut Array2<f64>) {
        for (w, (cos, sin)) in self.frequencies.iter().zip(NAMES) {
            for p in 0..table.nrows() {
                table[[p, slots.range(cos).start]] = (w * p as f64).cos();
                table[[p, slots.range(sin).start]] = (w * p as f64).sin();
            }
        }
    }

    /// The table `[p, w]` of all positions of a construction, with slot `one` filled in.
    pub fn table(&self, slots: &Slots, columns: usize) -> Array2<f64> {
        let mut table = Array2::zeros((columns, slots.width()));
        self.write(slots, &mut table);
        table.column_mut(slots.range("one").start).fill(1.0);
        table
    }

    /// `scale` · (gate of `lag`) + `offset`, as terms of a score. Slot `one` holds 1 everywhere.
    pub fn gate(&self, lag: f64, scale: f64, offset: f64) -> Vec<Wire<'static>> {
        let steep = 2.0 * scale / self.gap;
        let mut terms = Vec::new();
        for (w, (cos, sin)) in self.frequencies.iter().zip(NAMES) {
            let (c, s) = ((w * lag).cos() * steep, (w * lag).sin() * steep);
            terms.extend([(cos, cos, c), (cos, sin, -s), (sin, sin, c), (sin, cos, s)]);
        }
        terms.push(("one", "one", offset + scale - steep * self.frequencies.len() as f64));
        terms
    }

    /// 1 in one column and at most −1 in every other, as a sum over slots.
    pub fn at(&self, column: usize) -> Vec<(&'static str, f64)> {
        let steep = 2.0 / self.gap;
        let mut terms = vec![("one", 1.0 - steep * self.frequencies.len() as f64)];
        for (w, (cos, sin)) in self.frequencies.iter().zip(NAMES) {
            let angle = w * column as f64;
            terms.extend([(cos, angle.cos() * steep), (sin, angle.sin() * steep)]);
        }
        terms
    }

    /// The smallest Σ_ω [1 − cos ω·lag] over the lags that occur.
    pub fn gap(&self) -> f64 {
        self.gap
    }
}
