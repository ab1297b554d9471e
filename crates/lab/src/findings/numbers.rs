//! Numbers for people.

/// A number of things, in the right form of their word: `1 core`, `1,280 prompts`.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number as u64), if number == 1 { one } else { many })
}

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A factor as people say it, to two digits: `2.3`, `48`, `5,300`.
pub fn roughly(factor: f64) -> String {
    if !factor.is_finite() || factor >= 1e15 {
        return format!("{factor:.1e}");
    }
    if factor < 10.0 {
        return format!("{factor:.1}");
    }
    let unit = 10f64.powf(factor.log10().floor() - 1.0).max(1.0);
    grouped(((factor / unit).round() * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_two_digits() {
        let said = [1.04, 9.96, 48.4, 99.7, 5301.7, 4264.0, 1e20].map(roughly);
        assert_eq!(said, ["1.0", "10.0", "48", "100", "5,300", "4,300", "1.0e20"]);
    }
}
