//! Short lists of node names, such as `n[1-3,7]`, as people type them.

/// A number at the end of a name, or the first and last of consecutive ones.
type Run<'a> = (&'a str, Option<&'a str>);

/// Returns the names in their order. Neighbours that differ only in a number of equal length are joined in brackets.
pub fn host_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut groups: Vec<(&str, Vec<Run>)> = Vec::new();
    for name in names {
        let (prefix, number) = split(name);
        let group = groups.last_mut().filter(|(own, runs)| {
            *own == prefix && !number.is_empty() && runs.iter().all(|(from, _)| !from.is_empty())
        });
        match group.map(|(_, runs)| (runs.last().copied(), runs)) {
            Some((Some((from, to)), runs)) if follows(to.unwrap_or(from), number) => {
                runs.pop();
                runs.push((from, Some(number)));
            }
            Some((_, runs)) => runs.push((number, None)),
            None => groups.push((prefix, vec![(number, None)])),
        }
    }
    let run = |(from, to): &Run| to.map_or((*from).to_owned(), |to| format!("{from}-{to}"));
    let group = |(prefix, runs): &(&str, Vec<Run>)| match &runs[..] {
        [(number, None)] => format!("{prefix}{number}"),
        runs => format!("{prefix}[{}]", runs.iter().map(run).collect::<Vec<_>>().join(",")),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(",")
}

/// Most digits of a number: readers of a list know no larger ones.
const DIGITS: usize = 18;

/// Splits a name before the digits at its end. Of more than 18, the first belong to the other part.
fn split(name: &str) -> (&str, &str) {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.split_at(text.max(name.len().saturating_sub(DIGITS)))
}

fn follows(before: &str, number: &str) -> bool {
    let value = |digits: &str| digits.parse::<u64>().ok();
    before.len() == number.len() && value(before).and_then(|before| before.checked_add(1)) == value(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_stand_in_brackets() {
        let check = |names: &[&str], expected: &str| assert_eq!(host_list(names.iter().copied()), expected);
        check(&["n1"], "n1");
        check(&["n1", "n2", "n3", "n7"], "n[1-3,7]");
        check(&["n1", "a", "n2"], "n1,a,n2");
        check(&["n08", "n09", "n10", "n9", "n10"], "n[08-10,9,10]");
        check(&["gpu", "gpu1"], "gpu,gpu1");
        check(&["n4294967296", "n4294967297"], "n[4294967296-4294967297]");
        check(&["n9123456789012345678901", "n9123456789012345678902"], "n9123[456789012345678901-456789012345678902]");
        check(&[], "");
    }
}
