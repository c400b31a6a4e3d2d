//! Parser of `--dependency`, with the words of `srun`. All conditions must be met.

use std::str::FromStr;

use limo_model::{Condition, Dependency};

/// Checked list. A separate type, because clap treats an option of type `Vec` as repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies {
    pub on: Vec<Dependency>,
    pub singleton: bool,
}

impl FromStr for Dependencies {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('?') {
            return Err("`?` (any of several) is not supported; separate with `,` (all of them)".into());
        }
        let mut found = Self::default();
        for item in text.split(',') {
            let mut parts = item.split(':');
            let word = parts.next().unwrap_or_default();
            let jobs: Vec<&str> = parts.collect();
            if word == "singleton" && jobs.is_empty() {
                found.singleton = true;
                continue;
            }
            let condition = Condition::ALL.into_iter().find(|condition| condition.name() == word);
            let condition = condition.ok_or_else(|| {
                format!(
                    "`{item}` is not a dependency: write afterok:ID, afternotok:ID, afterany:ID, after:ID or singleton"
                )
            })?;
            if jobs.is_empty() {
                return Err(format!("`{item}` names no job: write for example `{word}:12`"));
            }
            for job in jobs {
                let job = job.parse().map_err(|_| format!("`{job}` in `{item}` is not a job's number"))?;
                found.on.push(Dependency { condition, job });
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_all_conditions() {
        let check = |text: &str, on: &[&str], singleton| {
            let found: Dependencies = text.parse().expect(text);
            let words: Vec<String> = found.on.iter().map(Dependency::to_string).collect();
            assert_eq!(
                (words.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), found.singleton),
                (on, singleton)
            );
        };
        check("afterok:12:13", &["afterok:12", "afterok:13"], false);
        check("afterany:1,afternotok:2,after:3,singleton", &["afterany:1", "afternotok:2", "after:3"], true);
        check("singleton", &[], true);
    }

    #[test]
    fn wrong_lists_are_refused_with_the_item() {
        let check = |text: &str, expected: &str| assert_eq!(text.parse::<Dependencies>(), Err(expected.to_owned()));
        check("afterok:1?afterok:2", "`?` (any of several) is not supported; separate with `,` (all of them)");
        let forms = "write afterok:ID, afternotok:ID, afterany:ID, after:ID or singleton";
        check("aftercorr:1", &format!("`aftercorr:1` is not a dependency: {forms}"));
        check("12", &format!("`12` is not a dependency: {forms}"));
        check("", &format!("`` is not a dependency: {forms}"));
        check("singleton:1", &format!("`singleton:1` is not a dependency: {forms}"));
        check("afterok:1,", &format!("`` is not a dependency: {forms}"));
        check("afterok", "`afterok` names no job: write for example `afterok:12`");
        check("after:12+5", "`12+5` in `after:12+5` is not a job's number");
        check("afterok:1:", "`` in `afterok:1:` is not a job's number");
    }
}
