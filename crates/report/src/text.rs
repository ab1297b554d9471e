//! Text: escaping, numbers as people write them, and the real widths of glyphs.

use std::collections::HashMap;
use std::sync::LazyLock;

use lab::text::wrap_by;

/// Makes `text` safe inside XML and HTML, in element content and in double-quoted attributes alike.
///
/// The only place where text from findings is escaped. Control characters, which XML 1.0 cannot carry, become `�`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A number as a reader wants it: `2048`, `0.995`, `1.5×10⁻⁴`, with three significant digits.
///
/// Close to one the digits that tell it from one are kept (`0.99997`); whole numbers stay whole.
pub fn format_number(value: f64) -> String {
    if value.is_nan() {
        return "undefined".into();
    }
    let magnitude = value.abs();
    let sign = if value < 0.0 { "−" } else { "" };
    let body = if magnitude.is_infinite() {
        "∞".into()
    } else if magnitude < 1e7 && magnitude.fract() == 0.0 {
        group_thousands(magnitude as u64)
    } else if (1e-3..1e5).contains(&magnitude) {
        let decimals = if magnitude > 0.99 && magnitude < 1.0 {
            ((-(1.0 - magnitude).log10()).ceil() as usize + 1).clamp(3, 8)
        } else {
            (2 - magnitude.log10().floor() as i32).max(0) as usize
        };
        trim_zeros(&format!("{magnitude:.decimals$}"))
    } else {
        let text = format!("{magnitude:.2e}");
        let (mantissa, exponent) = text.split_once('e').expect("{:e} always writes an exponent");
        let power = power_of_ten(exponent.parse().expect("{:e} writes an integer exponent"));
        match trim_zeros(mantissa).as_str() {
            "1" => power,
            mantissa => format!("{mantissa}×{power}"),
        }
    };
    format!("{sign}{body}")
}

/// `10⁻³`, with real superscript characters.
pub fn power_of_ten(exponent: i32) -> String {
    format!("10{}", superscript(exponent))
}

/// An integer in superscript characters.
pub fn superscript(number: i32) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => char::from_u32('⁰' as u32 + (c as u32 - '0' as u32)).unwrap_or(c),
    };
    number.to_string().chars().map(raised).collect()
}

/// `0.500` → `0.5`, `2.00` → `2`; whole numbers are left alone.
fn trim_zeros(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text.into() }
}

/// Digits in threes from five digits on (`500 001`, with thin no-break spaces): `2048` stays as it is.
fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// A duration for people: `0.4 s`, `12 s`, `3 min 20 s`.
pub fn format_seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        "unknown".into()
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 60.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// Weight of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Normal text.
    Regular,
    /// Emphasised text.
    SemiBold,
}

/// Advances in thousandths of the font size, read off the embedded fonts by `assets/widths.py`: code point, regular,
/// semi-bold.
static ADVANCES: LazyLock<HashMap<char, (f64, f64)>> = LazyLock::new(|| {
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let c = char::from_u32(u32::from_str_radix(fields.next()?, 16).ok()?)?;
        Some((c, (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
    };
    include_str!("../assets/widths.tsv").lines().filter_map(row).collect()
});

/// Width of one line of text in the unit of `size`, by the glyphs of the embedded font.
///
/// The usual system sans fonts are narrower, so a layout that fits here fits in a browser.
pub fn text_width(text: &str, size: f64, weight: Weight) -> f64 {
    let advance = |c| match (ADVANCES.get(&c), weight) {
        (Some(&(regular, _)), Weight::Regular) => regular,
        (Some(&(_, bold)), Weight::SemiBold) => bold,
        (None, _) => 1000.0,
    };
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// Breaks `text` at spaces into lines no wider than `width`; a single word may be wider.
pub fn wrap(text: &str, width: f64, size: f64, weight: Weight) -> Vec<String> {
    wrap_by(text, width, |line| text_width(line, size, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_like_numbers() {
        let cases = [
            (0.0, "0"),
            (2048.0, "2048"),
            (500_001.0, "500\u{202f}001"),
            (0.995, "0.995"),
            (0.995_32, "0.9953"),
            (0.99997, "0.99997"),
            (0.25, "0.25"),
            (-0.061_25, "−0.0612"),
            (1.5e-4, "1.5×10⁻⁴"),
            (1e-4, "10⁻⁴"),
            (3.814e-28, "3.81×10⁻²⁸"),
            (12.345, "12.3"),
            (1234.5, "1234"),
            (2.5e9, "2.5×10⁹"),
            (f64::NAN, "undefined"),
            (f64::NEG_INFINITY, "−∞"),
        ];
        for (value, text) in cases {
            assert_eq!(format_number(value), text);
        }
    }

    #[test]
    fn nothing_escapes_escaping() {
        assert_eq!(escape(r#"<a b="c">&'"#), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
        assert_eq!(escape("a\u{0}b‖SSᵀ‖"), "a\u{fffd}b‖SSᵀ‖");
    }

    #[test]
    fn lines_are_no_wider_than_asked() {
        let text = "steps of gradient descent against steps of Newton's iteration";
        let lines = wrap(text, 120.0, 11.0, Weight::Regular);
        assert!(lines.len() > 1 && lines.iter().all(|l| text_width(l, 11.0, Weight::Regular) <= 120.0));
        assert_eq!(lines.join(" "), text);
    }
}
