//! The order of node names in tables.

/// Sorts by name, with numbers as numbers: `n2` before `n10`.
pub(crate) fn in_order<T>(mut items: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
    items.sort_by(|one, other| (runs(name(one)), name(one)).cmp(&(runs(name(other)), name(other))));
    items
}

/// Splits a name into digits, which compare as numbers, and other characters.
fn runs(name: &str) -> Vec<(usize, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut runs = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_digit(c) != is_digit(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        let number = run.trim_start_matches('0');
        runs.push(if is_digit(first) { (number.len() + 1, number) } else { (0, run) });
        rest = after;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_with_numbers_as_numbers() {
        let names = ["n10", "rack2-n1", "n2", "n02", "n", "gpu", "rack10-n1", "rack2-n0", "n1a", "n1"];
        let sorted = in_order(names.to_vec(), |name| name);
        assert_eq!(sorted, ["gpu", "n", "n1", "n1a", "n02", "n2", "n10", "rack2-n0", "rack2-n1", "rack10-n1"]);
    }
}
