//! Restores the state from disk.
//!
//! The journal begins with an empty core ([`origin`]). Each entry after that, or after the newest snapshot, is applied
//! again. Each round is run again and compared with the recorded one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context, Result};
use limo_journal::{Entry, NodeRow, Recovered, Submission};
use limo_model::{Currency, JobId, JournalId, Preset, Time};
use limo_proto::Launch;
use limo_sched::{Core, Options};

use crate::budget::Stages;
use crate::controller::{Launches, Live, NodeIncarnation};

/// The state after the last entry.
pub struct Restored {
    pub journal: JournalId,
    /// The incarnation in which each node got its last assignments, by name.
    pub incarnations: HashMap<String, NodeIncarnation>,
    /// Texts of other components, by name.
    pub kept: BTreeMap<String, String>,
    pub core: Core,
    pub stages: Stages,
    pub live: BTreeMap<JobId, Live>,
    pub generation: u64,
    /// Reason why nothing can be written at present, if any.
    pub read_only: Option<String>,
    /// Number of entries since the snapshot.
    pub entries: usize,
    /// The time of the last entry.
    pub last: Time,
    /// True if nothing was ever recorded.
    pub fresh: bool,
    /// Number of events that are now refused, and of rounds that now differ from the recorded ones.
    pub mismatches: usize,
}

/// Returns the core at the beginning of a journal whose first entry is at `first`. All later state comes from events.
pub fn origin(first: Time) -> Core {
    Core::new(first, Preset::DEFAULT, Options::default())
}

/// Name of the kept currency.
pub const KEPT_CURRENCY: &str = "currency";

/// Agrees on the currency of the journal, if it has a price or a cost.
///
/// # Errors
/// If the settings have another currency.
pub fn agree_on_currency(restored: &Restored) -> Result<()> {
    if restored.core.prices().is_none() && restored.core.sums().bill.cost().is_none() {
        return Ok(());
    }
    // A journal without a word about it is older than other currencies.
    let kept = restored.kept.get(KEPT_CURRENCY).and_then(|code| Currency::of_code(code)).unwrap_or_default();
    let remedy = || format!("the prices and costs in the journal are in {kept}: write `currency = \"{kept}\"`");
    kept.agree().with_context(remedy)
}

/// Restores the state from the journal; an empty journal begins at `now`.
///
/// # Errors
/// If the snapshot or a submission cannot be read. Mismatches are only logged and counted: decisions cannot be undone,
/// and the nodes will report their jobs.
pub fn restore(recovered: Recovered, now: Time) -> Result<Restored> {
    let Recovered { journal, snapshot, entries, live, generation, nodes, kept, read_only } = recovered;
    let fresh = snapshot.is_none() && entries.is_empty();
    let first = entries.first().map_or(now, |(at, _)| *at);
    let mut core = match snapshot {
        Some(text) => Core::from_state(serde_json::from_str(&text).context("the snapshot in the journal is damaged")?),
        None => origin(first),
    };
    let mut stages = Stages::resume(&core);
    let mut last = core.sums().since;
    let (count, mut mismatches) = (entries.len(), 0);
    for (at, entry) in entries {
        last = last.max(at);
        if let Err(difference) = replay((&mut core, &mut stages), at, &entry) {
            mismatches += 1;
            tracing::error!(at = at.unix_ms(), difference, "the journal does not replay: this is a bug in Limo");
        }
    }
    let live = live_jobs(&core, live)?;
    let incarnation = |row: NodeRow| (row.name, NodeIncarnation { instance: row.instance, boot: row.boot });
    let incarnations = nodes.into_values().map(incarnation).collect();
    Ok(Restored {
        journal,
        incarnations,
        kept,
        core,
        stages,
        live,
        generation,
        read_only,
        entries: count,
        last,
        fresh,
        mismatches,
    })
}

fn replay((core, stages): (&mut Core, &mut Stages), at: Time, entry: &Entry) -> Result<(), String> {
    match entry {
        Entry::Event(event) => stages.apply(core, at, event).map_err(|refused| format!("{event:?}: {refused}")),
        Entry::Round(recorded) => {
            let round = stages.round(core, at);
            if round == *recorded { Ok(()) } else { Err(format!("recorded {recorded:?}, now {round:?}")) }
        }
    }
}

fn live_jobs(core: &Core, submissions: Vec<Submission>) -> Result<BTreeMap<JobId, Live>> {
    let (mut live, mut launches) = (BTreeMap::new(), Launches::default());
    for submission in submissions {
        if let Some((job, mut found)) = live_job(core, submission)? {
            // Launches are shared at once, because separate copies of all environments would not fit into the memory
            // that the jobs take afterwards.
            launches.share(&mut found);
            live.insert(job, found);
        }
    }
    Ok(live)
}

fn live_job(core: &Core, submission: Submission) -> Result<Option<(JobId, Live)>> {
    let Submission { job, key, uid, launch } = submission;
    let Some(request) = core.job(job).map(|job| Arc::clone(&job.request)) else {
        tracing::error!(%job, "the journal has a submission of a job that is over");
        return Ok(None);
    };
    let launch = Launch::decode_stored(&launch).with_context(|| format!("the submission of job {job} is damaged"))?;
    Ok(Some((job, Live::new((job, key, uid), request, launch))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Band, Curve, ModeSetting};
    use limo_sched::Event;

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn recorded() -> (Core, Vec<(Time, Entry)>) {
        let mut core = origin(at(5));
        let events = [
            Event::LimitsSet { limits: Curve::constant(Band::UNLIMITED), by: "ada".into() },
            Event::ModeSet { mode: ModeSetting::Low, by: "ada".into() },
        ];
        let mut entries = Vec::new();
        for (index, event) in (0_i64..).zip(events) {
            core.apply(at(5 + index), &event).expect("possible");
            entries.push((at(5 + index), Entry::Event(event)));
            entries.push((at(5 + index), Entry::Round(core.round(at(5 + index)))));
        }
        (core, entries)
    }

    fn recovered(snapshot: Option<String>, entries: Vec<(Time, Entry)>) -> Recovered {
        Recovered { snapshot, entries, generation: 3, ..Recovered::default() }
    }

    #[test]
    fn entries_give_the_state_back_with_and_without_a_snapshot() {
        let (core, entries) = recorded();
        let restored = restore(recovered(None, entries.clone()), at(99)).expect("readable");
        assert!(restored.core == core && !restored.fresh && restored.mismatches == 0 && restored.last == at(6));
        let half = restore(recovered(None, entries[..2].to_vec()), at(99)).expect("readable");
        let snapshot = serde_json::to_string(half.core.state()).expect("written");
        let restored = restore(recovered(Some(snapshot), entries[2..].to_vec()), at(99)).expect("readable");
        assert!(restored.core == core && restored.mismatches == 0);
    }

    #[test]
    fn a_round_that_comes_out_otherwise_is_counted() {
        let (_, mut entries) = recorded();
        if let Some((_, Entry::Round(round))) = entries.last_mut() {
            round.wake_at = Some(at(77));
        }
        assert_eq!(restore(recovered(None, entries), at(99)).expect("readable").mismatches, 1);
    }

    #[test]
    fn nothing_is_a_beginning() {
        let restored = restore(recovered(None, Vec::new()), at(99)).expect("readable");
        assert!(restored.fresh && restored.core == origin(at(99)) && restored.generation == 3);
        assert!(restore(recovered(Some("{".into()), Vec::new()), at(99)).is_err());
    }
}
