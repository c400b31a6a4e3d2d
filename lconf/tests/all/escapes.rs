//! Names and reasons of users, nodes, feeds and sources of limits cannot control a terminal.

use limo_fake::{answer, node, status};
use limo_model::{Power, Reservation, Time};
use limo_proto::{
    Answer, ForeignReport, GridReport, GridState, MasterToClient, MeterReport, Status, UnreachableReport,
};

use crate::answered;

/// Control characters: title of the window, colour, line feed, carriage return, direction of the text, bell, and a
/// control byte of C1.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31mred\nroot\r\u{202e}\u{9b}2J";

fn text() -> String {
    HOSTILE.to_owned()
}

async fn check(args: &[&str], told: MasterToClient) {
    let (output, _) = answered(args, told).await;
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!output.contains(steers), "{args:?}: {output:?}");
    assert!(!output.lines().any(|line| line.starts_with("root")), "{args:?}: a line of its own: {output}");
    assert!(output.contains("owned"), "{args:?} shows the text: {output}");
}

#[tokio::test]
async fn names_and_reasons_are_escaped_wherever_they_are_shown() {
    let (at, grid) = (Time::from_unix_ms(0), GridState::Ok);
    let shown = Status {
        trouble: Some(text()),
        prices_by: Some(text()),
        grid: vec![GridReport { name: text(), state: grid, heard: None, fault: Some(text()), limit: None }],
        meters: vec![MeterReport {
            source: text(),
            serves: Some(vec![text()]),
            draw: Some(Power::ZERO),
            failing: Some(text()),
        }],
        unreachable: vec![UnreachableReport { name: text(), since: Some(at), lost: true, jobs: 1, held: Power::ZERO }],
        foreign: vec![ForeignReport { node: text(), at, jobs: 1 }],
        ..status()
    };
    let told = || answer(Answer::Status(Box::new(shown.clone())));
    check(&["status"], told()).await;
    check(&["status", "--json"], told()).await;
    let mut shown = node(HOSTILE);
    (shown.reason, shown.units[0].name, shown.held) = (Some(text()), text(), Power::from_watts(1));
    check(&["node", "list"], answer(Answer::Nodes(vec![shown]))).await;
    let reservation = Reservation {
        users: [text()].into_iter().collect(),
        nodes: [text()].into_iter().collect(),
        reason: text(),
        from: at,
        until: at,
    };
    check(&["reservation", "list"], answer(Answer::Reservations(vec![(text(), reservation)]))).await;
    check(&["drain", "n1", "--reason", "x"], MasterToClient::Refused { reason: text(), hint: Some(text()) }).await;
}
