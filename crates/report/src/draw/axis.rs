//! Axes: from numbers to positions, and where the ticks stand.

use lab::findings::Scale;

use crate::text::{format_number, power_of_ten, superscript};

/// An axis with its ends decided: maps values to `0..=1` and knows its ticks.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// How values are spaced.
    pub scale: Scale,
    /// Lower end, positive on a log scale.
    pub low: f64,
    /// Upper end, greater than `low`.
    pub high: f64,
}

/// The smallest and largest numbers that an axis shows.
const TINY: f64 = 1e-250;
const HUGE: f64 = 1e250;

/// A tick: where on the axis, and what to print there.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

impl Mapping {
    /// An axis over `range` if given, else over the usable values of `data` with a little air (`pad`, a fraction).
    ///
    /// On a log scale only positive values are usable. Degenerate input gives a small valid axis, never a panic.
    pub fn new(
        scale: Scale,
        range: Option<(f64, f64)>,
        data: impl Iterator<Item = f64>,
        pad: f64,
    ) -> Mapping {
        let log = scale != Scale::Linear;
        // Beyond these, ends with air around them overflow; no picture needs them.
        let usable = |v: &f64| if log { (TINY..HUGE).contains(v) } else { v.abs() < HUGE };
        let found = data.filter(usable).fold(None, |ends: Option<(f64, f64)>, v| {
            Some(ends.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        });
        let fixed = range.filter(|(low, high)| usable(low) && usable(high) && low < high);
        let (low, high) = match (fixed, found) {
            (Some(ends), _) => ends,
            (None, Some((low, high))) if log => {
                let air = (pad * (high / low).ln()).max(0.05);
                (low * (-air).exp(), high * air.exp())
            }
            (None, Some((low, high))) => {
                let span = if high > low { high - low } else { low.abs().max(1.0) };
                // Close to zero, zero belongs to the picture and is the natural end.
                let bottom = if low >= 0.0 && low < 0.25 * span { 0.0 } else { low - pad * span };
                (bottom.min(low), high + pad * span)
            }
            (None, None) if log => (0.1, 10.0),
            (None, None) => (0.0, 1.0),
        };
        // Between ends that are hardly apart no step fits.
        let (low, high) = if log || high - low > TINY { (low, high) } else { (low - 0.5, high + 0.5) };
        Mapping { scale, low, high }
    }

    /// Place of `value`: 0 at the lower end, 1 at the upper, beyond that outside.
    ///
    /// What a log scale cannot show (zero, negative) lies just below the lower end, so that a curve leaves the
    /// plot through its lower edge.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            _ if value <= 0.0 => -0.15,
            _ => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(-4.0, 5.0)
    }

    /// Whether `value` is on the axis.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Two to twelve labelled ticks, increasing, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let wanted = wanted.clamp(3, 8);
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high, wanted),
            Scale::Log10 => log_ticks(self.low, self.high, 10.0, wanted),
            Scale::Log2 => log_ticks(self.low, self.high, 2.0, wanted),
        };
        let step = values.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
        let size = self.low.abs().max(self.high.abs());
        let label = |v: f64| {
            if self.scale == Scale::Linear { linear_label(v, step, size) } else { self.log_label(v) }
        };
        let mut labels: Vec<String> = values.iter().map(|&v| label(v)).collect();
        if labels.windows(2).any(|w| w[0] == w[1]) {
            // A short range far from zero: only the digits of the step tell its ticks apart.
            labels = values.iter().map(|&v| linear_label(v, step, size)).collect();
        }
        values.into_iter().zip(labels).map(|(value, label)| Tick { value, label }).collect()
    }

    /// Unlabelled ticks between decades, where there is room for them.
    pub fn minor_ticks(&self) -> Vec<f64> {
        if self.scale != Scale::Log10 || self.high / self.low > 1e7 {
            return Vec::new();
        }
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let decade = |e: i32| (2..10).map(move |m| f64::from(m) * 10f64.powi(e));
        (first..=last).flat_map(decade).filter(|&v| self.contains(v)).collect()
    }

    fn log_label(&self, value: f64) -> String {
        let exponent = if self.scale == Scale::Log2 { value.log2() } else { value.log10() };
        let whole = (exponent - exponent.round()).abs() < 1e-9;
        let plain = match self.scale {
            Scale::Log2 => self.low >= 1e-3 && self.high < 1e6,
            _ => (1e-2..=1e4).contains(&self.low) && self.high < 1e5,
        };
        match self.scale {
            Scale::Log2 if whole && !plain => format!("2{}", superscript(exponent.round() as i32)),
            Scale::Log10 if whole && !plain => power_of_ten(exponent.round() as i32),
            _ => format_number(value),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten that lie within `low..=high`.
pub fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|m| m * power);
    let step = steps.into_iter().find(|s| *s >= rough * 0.999).unwrap_or(steps[3]);
    let at = |step: f64| -> Vec<f64> {
        let slack = 1e-9;
        let (first, last) = ((low / step - slack).ceil() as i64, (high / step + slack).floor() as i64);
        (first..=last).map(|i| (i as f64 * step).clamp(low, high)).collect()
    };
    let ticks = at(step);
    if ticks.len() >= 2 { ticks } else { at(step / 5.0) }
}

/// Powers of `base` within `low..=high`, thinned evenly; over short ranges 1, 2, 5 per decade, or plain linear ticks.
pub fn log_ticks(low: f64, high: f64, base: f64, wanted: usize) -> Vec<f64> {
    let exponent = |v: f64| v.ln() / base.ln();
    let (first, last) = ((exponent(low) - 1e-9).ceil() as i32, (exponent(high) + 1e-9).floor() as i32);
    let count = last - first + 1;
    if count >= 3 || (count == 2 && base == 2.0) {
        let strides = [1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500];
        let fits = |s: &i32| (count + s - 1) / s <= wanted as i32;
        let stride = strides.into_iter().find(fits).unwrap_or(1000);
        let start = first + (-first).rem_euclid(stride);
        let start = if start + stride > last { first } else { start };
        return (start..=last).step_by(stride as usize).map(|e| base.powi(e).clamp(low, high)).collect();
    }
    let mantissas = |e: i32| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e));
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let fine: Vec<f64> = decades.flat_map(mantissas).filter(|v| (low..=high).contains(v)).collect();
    if base == 10.0 && fine.len() >= 3 { fine } else { linear_ticks(low, high, wanted.min(5)) }
}

/// All labels of a linear axis carry the decimals of its step; very large or small axes use powers of ten.
fn linear_label(value: f64, step: f64, size: f64) -> String {
    if !step.is_finite() {
        return format_number(value);
    }
    if !(1e-3..1e6).contains(&size) {
        let power = size.log10().floor();
        let mantissa = linear_label(value / 10f64.powf(power), step / 10f64.powf(power), 1.0);
        return if value.abs() < step / 2.0 {
            "0".into()
        } else {
            format!("{mantissa}×{}", power_of_ten(power as i32))
        };
    }
    // more than seventeen say nothing about a double, and a step of 0 would ask for endlessly many
    let decimals = (-(step * 1.0001).log10().floor()).clamp(0.0, 17.0) as usize;
    let text = format!("{:.decimals$}", value.abs());
    let zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
    if value < 0.0 && !zero { format!("−{text}") } else { text }
}
