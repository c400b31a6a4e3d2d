//! Only one backup exists at a time, and it ends with its client's connection.

use limo_proto::Change;

use super::*;

fn back_up(bench: &mut Bench, peer: PeerId) -> Option<MasterToClient> {
    bench.say(peer, ClientToMaster::ChangeConf(Box::new(Change::Backup)));
    bench.heard(peer).pop()
}

fn part(bench: &mut Bench, peer: PeerId) -> Option<MasterToClient> {
    bench.say(peer, ClientToMaster::Ask(Box::new(Query::BackupPart(BackupPartQuery { file: 0, offset: 0 }))));
    bench.heard(peer).pop()
}

fn refusal(message: Option<MasterToClient>) -> String {
    match message {
        Some(MasterToClient::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn is_answer(message: Option<MasterToClient>) -> bool {
    matches!(message, Some(MasterToClient::Answer(_)))
}

#[test]
fn one_backup_for_one_connection() {
    let mut bench = Bench::new();
    let (first, second, user) = (bench.client(0), bench.client(0), bench.client(7));
    assert!(refusal(back_up(&mut bench, user)).starts_with("only an operator"));
    assert_eq!(refusal(part(&mut bench, first)), "no backup was made on this connection");
    assert!(is_answer(back_up(&mut bench, first)) && is_answer(part(&mut bench, first)));
    assert_eq!(refusal(part(&mut bench, user)), "no backup was made on this connection");
    assert_eq!(refusal(back_up(&mut bench, second)), "user0 is making a backup: only one is possible at a time");
    bench.input(Input::Gone(second));
    assert_eq!(bench.dropped_backups, 0, "it is not the second's");
    bench.input(Input::Gone(first));
    assert_eq!(bench.dropped_backups, 1);
    let third = bench.client(0);
    assert!(is_answer(back_up(&mut bench, third)));
}

#[test]
fn an_abandoned_backup_is_deleted() {
    let mut bench = Bench::new();
    let first = bench.client(0);
    bench.slow_answers = true;
    back_up(&mut bench, first);
    bench.input(Input::Gone(first));
    let second = bench.client(0);
    assert_eq!(
        refusal(back_up(&mut bench, second)),
        "user0 is making a backup: only one is possible at a time",
        "the copies are still being made"
    );
    bench.slow_answers = false;
    let answers: Vec<Input> = bench.answers.drain(..).collect();
    answers.into_iter().for_each(|answer| bench.input(answer));
    assert_eq!(bench.dropped_backups, 1);
    assert!(is_answer(back_up(&mut bench, second)));
}

#[test]
fn only_operators_compact_the_journal() {
    let mut bench = Bench::new();
    let (operator, user) = (bench.client(0), bench.client(7));
    let mut compact = |peer| {
        bench.say(peer, ClientToMaster::ChangeConf(Box::new(Change::CompactJournal)));
        bench.heard(peer).pop()
    };
    assert!(refusal(compact(user)).starts_with("only an operator"));
    let sizes = JournalSizes { before: 2, after: 1 };
    assert_eq!(compact(operator), Some(MasterToClient::Answer(Box::new(Answer::Compacted(sizes)))));
}
