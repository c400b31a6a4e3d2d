//! Formats a comparison as two aligned tables.

use std::fmt::Write as _;

use limo_model::decimal;
use serde_json::Number;

use super::{Comparison, PLACES, Starts};

pub(super) fn text(comparison: &Comparison) -> String {
    let Comparison { a, b, metrics, starts, largest, .. } = comparison;
    let mut text = format!("A  {a}\nB  {b}\n\n");
    let shown = |number: &Option<Number>| number.as_ref().map_or_else(|| "-".to_owned(), plain);
    let signed =
        |number: &Option<Number>| number.as_ref().map_or_else(|| "-".to_owned(), |number| sign(&plain(number)));
    let mut rows = vec![["metric", "A", "B", "difference", "%"].map(str::to_owned)];
    rows.extend(metrics.iter().map(|metric| {
        let percent = metric.percent.as_ref().and_then(|number| decimal::parse(&plain(number), PLACES));
        let percent = percent
            .map_or_else(|| "-".to_owned(), |value| sign(&decimal::fixed(decimal::rescale(value, PLACES, 2), 2)));
        [metric.name.clone(), shown(&metric.a), shown(&metric.b), signed(&metric.difference), percent]
    }));
    text.push_str(&aligned(&rows));
    let Starts { earlier, equal, later, only_a, only_b, neither } = starts;
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "\njobs in B: {earlier} start earlier, {equal} at the same time, {later} later");
    if only_a + only_b + neither > 0 {
        let _ = writeln!(text, "{only_a} start only in A, {only_b} only in B, {neither} in neither");
    }
    if !largest.is_empty() {
        text.push_str("\nthe largest differences:\n");
        let mut rows = vec![["job", "submitted s", "start A s", "start B s", "difference s"].map(str::to_owned)];
        rows.extend(largest.iter().map(|row| {
            let by = sign(&decimal::text(row.by, PLACES));
            [row.job_id.to_string(), plain(&row.submit_s), plain(&row.start_a_s), plain(&row.start_b_s), by]
        }));
        text.push_str(&aligned(&rows));
    }
    text
}

/// Removes the `.0` of whole numbers.
pub(super) fn plain(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn sign(text: &str) -> String {
    let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'-'));
    if text.starts_with('-') || zero {
        text.trim_start_matches(if zero { "-" } else { "" }).to_owned()
    } else {
        format!("+{text}")
    }
}

/// Aligns the first column to the left, the others to the right.
fn aligned(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for row in rows {
        let first = format!("{:<width$}", row[0], width = widths[0]);
        let rest: Vec<String> = (1..5).map(|at| format!("  {:>width$}", row[at], width = widths[at])).collect();
        let _ = writeln!(text, "{first}{}", rest.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs() {
        let shown = ["3", "-3", "0", "-0.00", "0.5"].map(sign);
        assert_eq!(shown, ["+3", "-3", "0", "0.00", "+0.5"]);
    }
}
