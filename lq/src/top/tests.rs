//! Contents of the screen, and reactions to keys.

use limo_client::Clock;
use limo_fake::{node, running_job, status, waiting_job};
use limo_model::{Drawn, Energy, Power, Span, Time};
use limo_proto::{JobReport, NodeState};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::draw::draw;
use super::state::{Seen, Then, Top};

/// Returns a clock in UTC, regardless of the zone of the machine.
fn clock() -> Clock {
    Clock::utc(status().now + Span::from_secs(450))
}

/// Makes a cluster of two nodes, one of them unreachable, with two running and `waiting` waiting jobs. The draw is
/// known for four of the last five minutes.
fn top(waiting: u64) -> Top {
    let mut top = Top::new("127.0.0.1:6817", None);
    let away =
        limo_proto::NodeReport { state: NodeState::Unreachable, connected: false, measured: false, ..node("n2") };
    let mut jobs = vec![running_job(3), running_job(4)];
    jobs[1].user = "bob".into();
    jobs.extend((5..5 + waiting).map(|id| JobReport { name: format!("job-{id}"), ..waiting_job(id) }));
    let minute = |minutes_ago: i64, watts: i64| {
        let (mean, seen) = (Power::from_watts(watts), Span::from_secs(60));
        let at = status().now - Span::from_secs(60 * minutes_ago);
        Drawn { at, mean, low: mean, high: mean, energy: Energy::ZERO, seen, looks: 60 }
    };
    let past = vec![minute(5, 20), minute(4, 40), minute(2, 60), minute(1, 55)];
    let status = limo_proto::Status { waiting, nodes_up: 1, nodes: 2, ..status() };
    let now = status.now;
    top.looked(Ok(Seen { status, nodes: vec![node("n1"), away], jobs, more: false, past }), now);
    top
}

fn screen(top: &mut Top, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, top, &clock())).expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let line = |y| {
        let cells: String = (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        cells.trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect()
}

fn key(top: &mut Top, code: KeyCode) -> Then {
    top.key(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn ids(top: &Top) -> Vec<u64> {
    top.jobs(&clock()).iter().map(|job| job.job.0).collect()
}

#[test]
fn a_small_screen() {
    assert_eq!(screen(&mut top(9), 80, 24), include_str!("screens/80x24.txt"));
}

#[test]
fn a_large_screen() {
    assert_eq!(screen(&mut top(9), 200, 50), include_str!("screens/200x50.txt"));
}

#[test]
fn a_queue_that_is_not_shown_whole() {
    let mut top = top(3);
    top.seen.as_mut().expect("a look").more = true;
    let text = screen(&mut top, 80, 24);
    assert!(text.ends_with("s sort: jobid  r reverse  u user: all  (first 5)\n"), "{text}");
}

#[test]
fn an_unreachable_master_is_shown() {
    let mut top = top(1);
    top.looked(Err("cannot connect to 127.0.0.1:6817".into()), status().now + Span::from_secs(5));
    top.looked(Err("still not".into()), status().now + Span::from_secs(9));
    let text = screen(&mut top, 80, 24);
    assert!(text.starts_with("127.0.0.1:6817  AWAY since 2017-10-26 11:00:05 "), "{text}");
    assert!(text.contains("\naway: still not\n"), "{text}");
    assert!(text.contains("job-5"), "what was known stays: {text}");
    let seen = top.seen.clone().expect("it was seen");
    top.looked(Ok(seen), status().now + Span::from_secs(10));
    assert!(!screen(&mut top, 80, 24).contains("AWAY"));
}

#[test]
fn keys_sort_and_filter() {
    let mut top = top(2);
    assert_eq!(ids(&top), [3, 4, 5, 6]);
    key(&mut top, KeyCode::Char('r'));
    assert_eq!((ids(&top), top.order_in_words().as_str()), (vec![6, 5, 4, 3], "jobid, largest first"));
    key(&mut top, KeyCode::Char('s'));
    assert_eq!((ids(&top), top.order_in_words().as_str()), (vec![3, 4, 5, 6], "st, largest first"));
    key(&mut top, KeyCode::Char('u'));
    for letter in "bq".chars() {
        assert_eq!(key(&mut top, KeyCode::Char(letter)), Then::GoOn, "letters are typed");
    }
    key(&mut top, KeyCode::Backspace);
    key(&mut top, KeyCode::Enter);
    assert_eq!(ids(&top), [4]);
    let text = screen(&mut top, 80, 24);
    assert!(text.contains("u user: b...") && text.contains("\njob 4: ./cg -n 5 'a b'\n"), "{text}");
    key(&mut top, KeyCode::Char('u'));
    key(&mut top, KeyCode::Char('x'));
    assert_eq!(ids(&top), Vec::<u64>::new());
    key(&mut top, KeyCode::Esc);
    assert_eq!((ids(&top), key(&mut top, KeyCode::Char('q'))), (vec![4], Then::Quit));
    let interrupt = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!(top.key(&interrupt), Then::Quit);
}

#[test]
fn the_eye_scrolls() {
    let mut top = top(40);
    assert!(!screen(&mut top, 80, 24).contains("job-44"));
    key(&mut top, KeyCode::End);
    let text = screen(&mut top, 80, 24);
    assert!(text.contains("job-44") && !text.contains("job-5 "), "{text}");
    let page = top.page;
    key(&mut top, KeyCode::PageUp);
    key(&mut top, KeyCode::Up);
    assert_eq!(top.at, 41 - page - 1);
    assert!(
        screen(&mut top, 80, 24)
            .contains(&format!("job {} waits: band: needs 90.0 W, 41.5 W left until", 44 - page - 1))
    );
    key(&mut top, KeyCode::Home);
    assert!(screen(&mut top, 80, 24).contains("job-5 "));
    key(&mut top, KeyCode::Up);
    assert_eq!(top.at, 0);
}

#[test]
fn tiny_screens_are_drawn() {
    for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 5)] {
        screen(&mut top(9), width, height);
    }
    screen(&mut Top::new("127.0.0.1:6817", Some("ada".into())), 80, 24);
}

/// Checks that a step of the past is the mean of its samples, and that a step without samples is a gap.
#[test]
fn the_past_draw_is_shown() {
    let watts = |top: &Top, count| -> Vec<Option<f64>> {
        top.past(count).iter().map(|mean| mean.map(|mean| mean.watts())).collect()
    };
    let mut top = top(0);
    let known = watts(&top, 31);
    assert_eq!((known[0], known[5], known[6]), (Some(20.0), Some(20.0), Some(40.0)));
    assert_eq!((known[12], known[18], known[29], known[30]), (None, Some(60.0), Some(55.0), Some(50.0)));
    assert_eq!(watts(&top, 2), [Some(55.0), Some(50.0)]);
    // Only the last 20 s of the current minute are known.
    let mut seen = top.seen.clone().expect("a look");
    let last = seen.past.pop().expect("an interval");
    seen.past.push(Drawn { at: seen.status.now - Span::from_secs(50), seen: Span::from_secs(20), ..last });
    let mut other = Top::new("127.0.0.1:6817", None);
    other.looked(Ok(seen), Time::from_unix_ms(0));
    assert_eq!(watts(&other, 5), [None, None, Some(55.0), Some(55.0), Some(50.0)]);
    let look = |seconds: i64, watts: i64| {
        let status = limo_proto::Status {
            now: status().now + Span::from_secs(seconds),
            draw: Power::from_watts(watts),
            ..status()
        };
        Ok(Seen { status, nodes: Vec::new(), jobs: Vec::new(), more: false, past: Vec::new() })
    };
    top.looked(look(1, 60), Time::from_unix_ms(0));
    top.looked(look(2, 70), Time::from_unix_ms(0));
    assert_eq!(watts(&top, 2), [Some(55.0), Some(60.0)]);
    top.looked(look(21, 30), Time::from_unix_ms(0));
    assert_eq!(watts(&top, 3), [Some(60.0), None, Some(30.0)]);
}
