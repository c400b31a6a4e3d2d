//! Timers at exact instants.

use limo_shepherd::Handle;

use super::*;

fn at(ms: u64) -> BootTime {
    BootTime(ms)
}

/// Makes timers; times are in milliseconds.
fn timers(time_limit: Option<u64>, kill_grace: u64, leased: bool) -> Watch {
    let (handle, lease) = (Handle(1), leased.then_some(at(0)));
    let launch_deadline = 1000;
    let (claim, kept) = (None, limo_shepherd::Kept::default());
    let (warning, checkpoint) = (None, None);
    Watch::new(&Launch { handle, time_limit, warning, checkpoint, kill_grace, lease, launch_deadline, claim, kept })
}

#[test]
fn checkpoints_come_after_running_time_without_suspensions() {
    let mut watch = Watch { checkpoint: Some((Some(12), 30)), ..timers(Some(100), 10, false) };
    assert_eq!(watch.deadline(None), None, "it has not begun");
    watch.begins(at(1000));
    assert_eq!((watch.deadline(None), watch.due(None, at(1029))), (Some(at(1030)), None));
    assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(Some(12), 30)));
    assert_eq!((watch.deadline(None), watch.due(None, at(1030))), (Some(at(1060)), None));
    watch.frozen(true, at(1040));
    assert_eq!((watch.deadline(None), watch.due(None, at(9000))), (None, None));
    watch.frozen(false, at(5000));
    assert_eq!((watch.deadline(None), watch.due(None, at(5019))), (Some(at(5020)), None));
    // A late one counts as late, and the next one is due a whole interval later.
    assert_eq!(watch.due(None, at(5025)), Some(Due::Checkpoint(Some(12), 65)));
    assert_eq!(watch.deadline(None), Some(at(5055)));
    assert!(watch.stop(Why::Stop, at(5100)));
    assert_eq!((watch.deadline(None), watch.due(None, at(5099))), (Some(at(5070)), Some(Due::Kill)));
}

#[test]
fn one_command_runs_at_a_time_and_has_a_limit() {
    let mut watch = Watch { checkpoint: Some((None, 30)), ..timers(None, 10, false) };
    watch.begins(at(1000));
    assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(None, 30)));
    assert_eq!(watch.deadline(None), Some(at(1030 + COMMAND_LIMIT)), "no second one meanwhile");
    watch.frozen(true, at(1040));
    assert_eq!((watch.deadline(None), watch.due(None, at(9_000_000))), (None, None), "it is suspended, too");
    watch.frozen(false, at(5000));
    assert_eq!(watch.command_ended(at(5015)), Some((30, 25)), "10 ms before the suspension, and 15 after it");
    assert_eq!((watch.command_ended(at(5016)), watch.deadline(None)), (None, Some(at(5045))));
    assert_eq!(watch.due(None, at(5045)), Some(Due::Checkpoint(None, 85)));
    assert_eq!(watch.due(None, at(5044 + COMMAND_LIMIT)), None);
    assert_eq!(watch.due(None, at(5045 + COMMAND_LIMIT)), Some(Due::KillCommand));
}

#[test]
fn a_checkpoint_precedes_the_end_of_an_evicted_job() {
    let evicted = |checkpoint, every| {
        let mut watch = Watch { checkpoint: Some((checkpoint, every)), ..timers(None, 10, false) };
        watch.begins(at(1000));
        watch.frozen(true, at(1040));
        let first = watch.evict(100, at(5000));
        assert_eq!(watch.evict(900, at(5001)), None, "a repeated order changes nothing");
        (watch, first)
    };
    let (mut watch, first) = evicted(Some(12), 900);
    assert_eq!(first, Some(Due::Checkpoint(Some(12), 40)));
    assert_eq!((watch.due(None, at(5049)), watch.due(None, at(5050))), (None, Some(Due::Term(Why::Stop))));
    assert_eq!((watch.due(None, at(5099)), watch.due(None, at(5100))), (None, Some(Due::Kill)));
    assert_eq!(watch.deadline(None), None);
    // TERM follows the end of a command.
    let (mut watch, first) = evicted(None, 900);
    assert_eq!((first, watch.due(None, at(5060))), (Some(Due::Checkpoint(None, 40)), None));
    assert_eq!(watch.command_ended(at(5060)), Some((40, 60)));
    assert_eq!(watch.due(None, at(5060)), Some(Due::Term(Why::Stop)));
    assert_eq!(watch.deadline(None), Some(at(5100)));
    // A command without an end is not waited for.
    let (mut watch, _) = evicted(None, 900);
    assert_eq!(watch.due(None, at(5100)), Some(Due::Term(Why::Stop)));
    assert_eq!(watch.due(None, at(5100)), Some(Due::Kill));
    // A command that has begun before the suspension is the checkpoint.
    let mut watch = Watch { checkpoint: Some((None, 30)), ..timers(None, 10, false) };
    watch.begins(at(1000));
    assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(None, 30)));
    watch.frozen(true, at(1040));
    assert_eq!((watch.evict(100, at(5000)), watch.command_ended(at(5005))), (None, Some((30, 15))));
    // A stop does not wait for the checkpoint, and without checkpoints nothing precedes TERM.
    let (mut watch, _) = evicted(None, 900);
    assert!(watch.stop(Why::Stop, at(5050)) && !watch.stop(Why::Stop, at(5060)));
    assert_eq!(watch.deadline(None), Some(at(5050)));
    assert_eq!(timers(None, 10, false).evict(100, at(0)), Some(Due::Term(Why::Stop)));
}

#[test]
fn a_warning_comes_once_ahead_of_the_limit() {
    let mut watch = Watch { warning: Some((10, 30)), ..timers(Some(100), 10, false) };
    watch.begins(at(1000));
    assert_eq!((watch.deadline(None), watch.due(None, at(1069))), (Some(at(1070)), None));
    watch.extend(150);
    assert_eq!((watch.deadline(None), watch.due(None, at(1119))), (Some(at(1120)), None));
    assert_eq!(watch.due(None, at(1120)), Some(Due::Warn(10)));
    assert_eq!((watch.deadline(None), watch.due(None, at(1149))), (Some(at(1150)), None));
    assert_eq!(watch.due(None, at(1150)), Some(Due::Term(Why::Limit)));
}

#[test]
fn a_limit_excludes_frozen_time() {
    let mut watch = timers(Some(100), 10, false);
    assert_eq!(watch.deadline(None), None, "it has not begun");
    watch.begins(at(1000));
    watch.frozen(true, at(1040));
    watch.frozen(true, at(1041));
    assert_eq!((watch.deadline(None), watch.due(None, at(9000))), (None, None));
    watch.frozen(false, at(5000));
    assert_eq!(watch.deadline(None), Some(at(5060)));
    assert_eq!(watch.due(None, at(5059)), None);
    assert_eq!(watch.due(None, at(5060)), Some(Due::Term(Why::Limit)));
    assert_eq!((watch.deadline(None), watch.due(None, at(5069))), (Some(at(5070)), None));
    assert_eq!(watch.due(None, at(5070)), Some(Due::Kill));
    assert_eq!((watch.deadline(None), watch.due(None, at(9999)), watch.why()), (None, None, Why::Limit));
}

#[test]
fn an_extended_limit_counts_from_the_beginning() {
    let mut watch = timers(Some(100), 10, false);
    watch.begins(at(1000));
    watch.extend(40);
    assert_eq!(watch.deadline(None), Some(at(1100)), "no limit becomes shorter");
    watch.extend(150);
    assert_eq!((watch.deadline(None), watch.due(None, at(1149))), (Some(at(1150)), None));
    watch.frozen(true, at(1050));
    assert_eq!(watch.due(None, at(9000)), None);
    watch.frozen(false, at(1110));
    assert_eq!(watch.deadline(None), Some(at(1160)), "the pause was longer than what the master knows");
    assert_eq!(watch.due(None, at(1160)), Some(Due::Term(Why::Limit)));
}

#[test]
fn a_new_limit_counts_from_the_beginning_without_suspensions() {
    let mut watch = timers(Some(100), 10, false);
    watch.begins(at(1000));
    watch.frozen(true, at(1040));
    watch.frozen(false, at(5000));
    watch.set_limit(Some(300));
    assert_eq!(watch.deadline(None), Some(at(5260)), "40 ms of 300 ms were over");
    watch.extend(9_000);
    assert_eq!(watch.deadline(None), Some(at(10_000)));
    watch.set_limit(Some(30));
    assert_eq!((watch.deadline(None), watch.due(None, at(5000))), (Some(at(5000)), Some(Due::Term(Why::Limit))));
    let mut watch = timers(Some(100), 10, false);
    watch.set_limit(Some(50));
    watch.begins(at(1000));
    assert_eq!(watch.deadline(None), Some(at(1050)), "set before the beginning");
    watch.set_limit(None);
    assert_eq!((watch.deadline(None), watch.due(None, at(9999))), (None, None));
}

#[test]
fn a_lease_ends_only_leased_jobs_and_can_be_renewed() {
    let mut watch = timers(None, 10, true);
    watch.begins(at(0));
    watch.frozen(true, at(1));
    assert_eq!((watch.deadline(Some(at(50))), watch.due(Some(at(50)), at(49))), (Some(at(50)), None));
    assert_eq!(watch.due(Some(at(80)), at(50)), None, "renewed");
    assert_eq!(watch.due(Some(at(80)), at(80)), Some(Due::Term(Why::Lease)), "frozen or not");
    let mut other = timers(None, 10, false);
    other.begins(at(0));
    assert_eq!((other.deadline(Some(at(50))), other.due(Some(at(50)), at(60))), (None, None));
}

#[test]
fn the_earliest_kill_counts() {
    let mut watch = timers(None, 10, false);
    assert!(watch.stop(Why::Stop, at(500)));
    watch.stop(Why::Stop, at(200));
    watch.stop(Why::Stop, at(900));
    assert_eq!(watch.deadline(None), Some(at(200)));
    assert_eq!(watch.due(None, at(200)), Some(Due::Kill));
    watch.stop(Why::Stop, at(100));
    assert_eq!(watch.due(None, at(300)), None, "KILL was sent");
    let mut long = timers(Some(100), 10, true);
    long.begins(at(0));
    assert!(long.stop(Why::Stop, at(9000)) && !long.stop(Why::Stop, at(8000)));
    assert_eq!(long.deadline(Some(at(500))), Some(at(110)), "the time limit and its grace come first");
    assert_eq!(long.deadline(Some(at(50))), Some(at(60)), "the lease and its grace come first");
    assert_eq!((long.due(Some(at(50)), at(60)), long.why()), (Some(Due::Kill), Why::Stop));
}
