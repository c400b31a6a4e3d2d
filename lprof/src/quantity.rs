//! Quantities for people: three digits and a decimal prefix.

const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// Returns a number that is not negative with three digits and a prefix, such as `2.55 MOp`.
pub fn si(value: f64, unit: &str) -> String {
    let (mut value, mut prefix) = (value, 0);
    // 999.5 would be rounded to 1000.
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let places = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let places = if prefix == 0 && value.fract() == 0.0 { 0 } else { places };
    format!("{value:.places$} {}{unit}", PREFIXES[prefix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let expected = [
            (0.0, "0 B"),
            (7.0, "7 B"),
            (0.25, "0.25 B"),
            (999.4, "999 B"),
            (999.5, "1.00 kB"),
            (33_468.0, "33.5 kB"),
            (2_547_000.0, "2.55 MB"),
            (99_960_000.0, "100 MB"),
            (1e18, "1000 PB"),
        ];
        expected.iter().for_each(|(value, text)| assert_eq!(si(*value, "B"), *text));
    }
}
