//! Colours: two perceptually uniform ramps and one colour-blind-safe set, each with a variant for dark pages.

use std::fmt;

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl Rgb {
    /// Relative luminance (WCAG), 0 black … 1 white.
    pub fn luminance(self) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }
}

/// A colour on a light page and its counterpart on a dark one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// On white: what a standalone SVG and a PNG show.
    pub light: Rgb,
    /// On a dark page: the HTML report swaps it in.
    pub dark: Rgb,
}

/// Viridis (Smith, van der Walt, Firing; CC0) at seventeen equal distances.
const VIRIDIS: [Rgb; 17] = [
    Rgb(0x44, 0x01, 0x54),
    Rgb(0x48, 0x18, 0x6a),
    Rgb(0x47, 0x2d, 0x7b),
    Rgb(0x42, 0x40, 0x86),
    Rgb(0x3b, 0x52, 0x8b),
    Rgb(0x33, 0x63, 0x8d),
    Rgb(0x2c, 0x72, 0x8e),
    Rgb(0x26, 0x82, 0x8e),
    Rgb(0x21, 0x91, 0x8c),
    Rgb(0x1f, 0xa0, 0x88),
    Rgb(0x28, 0xae, 0x80),
    Rgb(0x3f, 0xbc, 0x73),
    Rgb(0x5e, 0xc9, 0x62),
    Rgb(0x84, 0xd4, 0x4b),
    Rgb(0xad, 0xdc, 0x30),
    Rgb(0xd8, 0xe2, 0x19),
    Rgb(0xfd, 0xe7, 0x25),
];

/// Inferno (same authors; CC0) at seventeen equal distances: the second ordered family in a panel.
const INFERNO: [Rgb; 17] = [
    Rgb(0x00, 0x00, 0x04),
    Rgb(0x0b, 0x07, 0x24),
    Rgb(0x21, 0x0c, 0x4a),
    Rgb(0x3d, 0x09, 0x65),
    Rgb(0x57, 0x10, 0x6e),
    Rgb(0x71, 0x1a, 0x6e),
    Rgb(0x8a, 0x22, 0x6a),
    Rgb(0xa3, 0x2c, 0x61),
    Rgb(0xbc, 0x37, 0x54),
    Rgb(0xd2, 0x46, 0x44),
    Rgb(0xe4, 0x5a, 0x31),
    Rgb(0xf1, 0x73, 0x1d),
    Rgb(0xf9, 0x8e, 0x09),
    Rgb(0xfc, 0xac, 0x11),
    Rgb(0xf9, 0xcb, 0x35),
    Rgb(0xf2, 0xea, 0x69),
    Rgb(0xfc, 0xff, 0xa4),
];

/// Straight interpolation in a table; `position` is clamped to `0..=1`.
fn ramp(table: &[Rgb; 17], position: f64) -> Rgb {
    let place = position.clamp(0.0, 1.0) * 16.0;
    let (i, part) = ((place as usize).min(15), place - (place as usize).min(15) as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (a, b) = (table[i], table[i + 1]);
    Rgb(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Colour of a heat-map cell, 0 low … 1 high.
pub fn heat(position: f64) -> Rgb {
    ramp(&VIRIDIS, position)
}

/// Colour of a member of an ordered family: `family` counts the families of a panel, `grade` in `0..=1`.
///
/// Each ramp is cut where a line would vanish into the page: at the pale end on white, at the dark end on black.
pub fn graded(family: usize, grade: f64) -> Ink {
    let grade = grade.clamp(0.0, 1.0);
    if family.is_multiple_of(2) {
        Ink { light: ramp(&VIRIDIS, 0.82 * grade), dark: ramp(&VIRIDIS, 0.34 + 0.64 * grade) }
    } else {
        Ink { light: ramp(&INFERNO, 0.16 + 0.62 * grade), dark: ramp(&INFERNO, 0.42 + 0.5 * grade) }
    }
}

/// Okabe and Ito's colour-blind-safe set, yellow darkened so that it carries a line on white.
pub fn categorical(index: usize) -> Ink {
    const SET: [Ink; 8] = [
        Ink { light: Rgb(0x00, 0x72, 0xb2), dark: Rgb(0x5c, 0xb3, 0xe6) },
        Ink { light: Rgb(0xd5, 0x5e, 0x00), dark: Rgb(0xf0, 0x86, 0x3a) },
        Ink { light: Rgb(0x00, 0x9e, 0x73), dark: Rgb(0x2c, 0xc4, 0x98) },
        Ink { light: Rgb(0xb3, 0x5c, 0x91), dark: Rgb(0xe0, 0x92, 0xc0) },
        Ink { light: Rgb(0x3b, 0x3e, 0x44), dark: Rgb(0xd0, 0xd3, 0xd8) },
        Ink { light: Rgb(0xb8, 0x86, 0x0b), dark: Rgb(0xe8, 0xc5, 0x47) },
        Ink { light: Rgb(0x4d, 0xa6, 0xd9), dark: Rgb(0x8f, 0xcc, 0xf2) },
        Ink { light: Rgb(0x8c, 0x51, 0x0a), dark: Rgb(0xc9, 0x9a, 0x62) },
    ];
    SET[index % SET.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_gets_lighter_all_the_way() {
        let lightness: Vec<f64> = (0..=64).map(|i| heat(f64::from(i) / 64.0).luminance()).collect();
        assert!(lightness.windows(2).all(|w| w[1] > w[0]), "{lightness:?}");
    }

    #[test]
    fn lines_stand_out_from_their_page() {
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        let graded = (0..2).flat_map(|f| (0..=10).map(move |i| graded(f, f64::from(i) / 10.0)));
        for ink in graded.chain((0..8).map(categorical)) {
            assert!(contrast(ink.light.luminance(), 1.0) >= 1.7, "{ink:?}");
            assert!(contrast(ink.dark.luminance(), 0.01) >= 2.2, "{ink:?}");
        }
    }
}
