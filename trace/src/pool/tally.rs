//! Counts of an import, for its user.

use super::attribute::{Attribute, COUNT};

/// Numbers of records and jobs, of what was left out, and of values that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Records of histories and events of event logs.
    pub records: u64,
    /// Written jobs.
    pub jobs: u64,
    /// Jobs of several files or records, written once.
    pub duplicates: u64,
    /// Records and jobs without a needed value.
    pub incomplete: u64,
    /// Jobs that have not ended.
    pub unfinished: u64,
    /// Jobs that ended before they began.
    pub impossible: u64,
    /// Events of jobs whose submission is not in the files.
    pub unknown: u64,
    /// Lines that are neither an attribute nor an end of a record.
    pub unreadable: u64,
    pub(super) missing: [u64; COUNT],
    pub(super) mistyped: [u64; COUNT],
}

impl Tally {
    /// Returns a line for each kind of loss.
    pub fn notes(&self) -> Vec<String> {
        let kinds = [
            (self.duplicates, "records are of a job that another record has: written once"),
            (self.incomplete, "records lack a needed value: left out"),
            (self.unfinished, "jobs have not ended: left out"),
            (self.impossible, "jobs end before they begin: left out"),
            (self.unknown, "events are of jobs whose submission is not in the files: left out"),
            (self.unreadable, "lines are not `Name = value`: skipped"),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let values = Attribute::ALL.iter().flat_map(|attribute| {
            let of = |counts: &[u64; COUNT], what| (counts[*attribute as usize], attribute.name(), what);
            [of(&self.missing, "no"), of(&self.mistyped, "an unusable")]
        });
        let values = values.filter(|(count, ..)| *count > 0);
        kinds.chain(values.map(|(count, name, what)| format!("{count} records have {what} {name}"))).collect()
    }
}
