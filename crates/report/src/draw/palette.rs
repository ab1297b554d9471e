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
    /// A colour as written in a style sheet: `0x440154` is `#440154`.
    const fn hex(colour: u32) -> Rgb {
        let [_, red, green, blue] = colour.to_be_bytes();
        Rgb(red, green, blue)
    }

    /// Relative luminance (WCAG), 0 black … 1 white.
    pub fn luminance(self) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// The ink that is read best on this colour: black or white, at a contrast of 4.5 or more.
    pub fn ink(self) -> &'static str {
        if self.luminance() > 0.179 { "#000000" } else { "#ffffff" }
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
const VIRIDIS: [u32; 17] = [
    0x440154, 0x48186a, 0x472d7b, 0x424086, 0x3b528b, 0x33638d, 0x2c728e, 0x26828e, 0x21918c, 0x1fa088,
    0x28ae80, 0x3fbc73, 0x5ec962, 0x84d44b, 0xaddc30, 0xd8e219, 0xfde725,
];

/// Inferno (same authors; CC0) at seventeen equal distances: the second ordered family in a panel.
const INFERNO: [u32; 17] = [
    0x000004, 0x0b0724, 0x210c4a, 0x3d0965, 0x57106e, 0x711a6e, 0x8a226a, 0xa32c61, 0xbc3754, 0xd24644,
    0xe45a31, 0xf1731d, 0xf98e09, 0xfcac11, 0xf9cb35, 0xf2ea69, 0xfcffa4,
];

/// Straight interpolation in a table; `position` is clamped to `0..=1`.
fn ramp(table: &[u32; 17], position: f64) -> Rgb {
    let place = position.clamp(0.0, 1.0) * 16.0;
    let (i, part) = ((place as usize).min(15), place - (place as usize).min(15) as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (a, b) = (Rgb::hex(table[i]), Rgb::hex(table[i + 1]));
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
    const SET: [(u32, u32); 8] = [
        (0x0072b2, 0x5cb3e6),
        (0xd55e00, 0xf0863a),
        (0x009e73, 0x2cc498),
        (0xb35c91, 0xe092c0),
        (0x3b3e44, 0xd0d3d8),
        (0xb8860b, 0xe8c547),
        (0x4da6d9, 0x8fccf2),
        (0x8c510a, 0xc99a62),
    ];
    let (light, dark) = SET[index % SET.len()];
    Ink { light: Rgb::hex(light), dark: Rgb::hex(dark) }
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
    fn numbers_are_read_on_every_colour() {
        for colour in (0..=64).map(|i| heat(f64::from(i) / 64.0)) {
            let ink = if colour.ink() == "#000000" { 0.0 } else { 1.0 };
            let (light, dark) = (colour.luminance().max(ink), colour.luminance().min(ink));
            assert!((light + 0.05) / (dark + 0.05) >= 4.5, "{colour}");
        }
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
