//! Steps of a session, checked by their effects.

use super::*;
use bytes::Bytes;
use limo_fake::finished_job;
use limo_model::{Cores, Request};
use limo_proto::{Io, Launch, StreamId, WindowSize};
use nix::libc::{SIGCONT, SIGINT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1};

const JOB: JobId = JobId(12);

fn exec() -> SendExec {
    let request = Request { name: "cg".into(), cores: Cores::All, ..Request::one_core("cg") };
    let launch = Launch {
        argv: vec![b"cg".to_vec()],
        variants: vec![],
        cwd: b"/".to_vec(),
        env: vec![],
        umask: 0,
        uid: 0,
        io: Io::Attached,
        ..Launch::default()
    };
    SendExec { key: [7; 16], request, launch, again: false }
}

/// Session at a time that the test sets, in milliseconds.
struct Story {
    session: Session,
    now: u64,
}

impl Story {
    fn new() -> Self {
        Self { session: Session::new(exec()), now: 0 }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.session.step(Duration::from_millis(self.now), input)
    }

    fn hear(&mut self, message: MasterToClient) -> Vec<Effect> {
        self.step(Input::Heard(Frame::Message(message)))
    }

    fn data(&mut self, channel: Channel, offset: u64, bytes: &'static [u8]) -> Vec<Effect> {
        let stream = StreamId::new(JOB, channel);
        self.step(Input::Heard(Frame::Data(Data { stream, offset, bytes: Bytes::from_static(bytes) })))
    }

    /// Returns a story with a connection and an accepted job.
    fn accepted() -> Self {
        let mut story = Self::new();
        story.step(Input::Connected);
        assert_eq!(story.hear(MasterToClient::Accepted { job: JOB }), [Effect::Say(News::Accepted(JOB))]);
        story
    }

    fn running() -> Self {
        let mut story = Self::accepted();
        story.hear(MasterToClient::Running { job: JOB, node: "n1".into(), unit: "cpu".into() });
        story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 0 });
        story
    }
}

fn sent(message: ClientToMaster) -> Effect {
    Effect::Send(Frame::Message(message))
}

fn signalled(signal: i32) -> Effect {
    sent(ClientToMaster::Signal { job: JOB, signal })
}

fn cancelled() -> Effect {
    sent(ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB]))))
}

fn finished(outcome: Outcome) -> MasterToClient {
    MasterToClient::Finished { job: JOB, report: Box::new(finished_job(JOB.0, outcome)) }
}

#[test]
fn an_unanswered_submission_is_repeated_with_its_key() {
    let mut story = Story::new();
    let submission = |again| [sent(ClientToMaster::SendExec(Box::new(SendExec { again, ..exec() })))];
    assert_eq!(story.step(Input::Connected), submission(false));
    assert_eq!(story.step(Input::Broken), [Effect::Say(News::Away)]);
    assert_eq!(story.step(Input::Broken), [], "once is enough");
    assert_eq!(story.step(Input::Connected), submission(true));
}

#[test]
fn an_accepted_job_is_attached_to_at_the_offsets_of_its_streams() {
    let mut story = Story::running();
    story.data(Channel::Stdout, 0, b"abc");
    story.data(Channel::Stderr, 0, b"x");
    story.step(Input::Broken);
    let attach = ClientToMaster::Attach { job: JOB, key: [7; 16], stdout: 3, stderr: 1, more: Vec::new() };
    assert_eq!(story.step(Input::Connected), [sent(attach)]);
    assert_eq!(story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 0 }), [Effect::Say(News::Back)]);
    // Bytes that arrive twice are passed on once.
    assert_eq!(story.data(Channel::Stdout, 1, b"bcd"), [Effect::Write(Channel::Stdout, 0, Bytes::from_static(b"d"))]);
    assert_eq!(story.data(Channel::Stdout, 9, b"gap"), [Effect::Reconnect]);
}

#[test]
fn the_terminal_size_is_sent_when_the_terminal_exists_and_on_each_connection() {
    let mut story = Story::accepted();
    let size = WindowSize { rows: 5, columns: 9 };
    let resize = || Effect::Send(Frame::Message(ClientToMaster::Resize { job: JOB, size }));
    assert_eq!(story.step(Input::Resized(size)), [], "the job has no terminal yet");
    assert_eq!(story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 0 }), [resize()]);
    story.step(Input::Broken);
    story.step(Input::Connected);
    assert!(story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 0 }).contains(&resize()));
    assert_eq!(story.step(Input::Resized(size)), [resize()]);
}

#[test]
fn stdin_waits_for_the_job_and_continues_at_the_nodes_offset() {
    let mut story = Story::accepted();
    assert!(!story.session.wants_stdin(), "a waiting job consumes no input");
    story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 0 });
    assert!(story.session.wants_stdin());
    let piece = |offset, bytes: &'static [u8]| {
        let stream = StreamId::new(JOB, Channel::Stdin);
        Effect::Send(Frame::Data(Data { stream, offset, bytes: Bytes::from_static(bytes) }))
    };
    assert_eq!(story.step(Input::Stdin(Bytes::from_static(b"hello"))), [piece(0, b"hello")]);
    story.step(Input::Broken);
    assert!(!story.session.wants_stdin());
    story.step(Input::Connected);
    let effects = story.hear(MasterToClient::Attached { job: JOB, stdin_offset: 2 });
    assert_eq!(effects, [Effect::Say(News::Back), piece(2, b"llo")]);
    assert_eq!(story.step(Input::Stdin(Bytes::new())), [piece(5, b"")]);
    assert!(!story.session.wants_stdin());
}

#[test]
fn a_job_that_ran_is_done_when_its_output_is_written() {
    let mut story = Story::running();
    assert_eq!(story.hear(finished(Outcome::Exited(7))), []);
    story.data(Channel::Stdout, 0, b"abc");
    story.data(Channel::Stdout, 3, b"");
    story.data(Channel::Stderr, 0, b"");
    story.step(Input::Written(Channel::Stdout, 0, 3));
    story.step(Input::Written(Channel::Stderr, 0, 1));
    let ack = ClientToMaster::StreamAck { stream: StreamId::new(JOB, Channel::Stdout), offset: 4 };
    let report = Box::new(finished_job(12, Outcome::Exited(7)));
    let leave = Effect::Leave(Leave::Over { report, interrupt: None, output_lost: false });
    assert_eq!(story.step(Input::Written(Channel::Stdout, 0, 1)), [sent(ack), leave]);
}

#[test]
fn a_lost_job_sends_no_more_output() {
    let mut story = Story::running();
    let effects = story.hear(finished(Outcome::Lost { reason: "n1 restarted".into() }));
    assert!(matches!(effects[..], [Effect::Leave(Leave::Over { .. })]), "{effects:?}");
}

#[test]
fn a_refusal_belongs_to_the_last_request() {
    let refused = || MasterToClient::Refused { reason: "no".into(), hint: None };
    let failed = |text: &str| [Effect::Leave(Leave::Failed(Failure::new(text)))];
    let mut story = Story::new();
    story.step(Input::Connected);
    assert_eq!(story.hear(refused()), failed("no"));
    let mut story = Story::running();
    story.step(Input::Broken);
    story.step(Input::Connected);
    assert_eq!(story.hear(refused())[1..], failed("cannot return to job 12: no"));
    let mut story = Story::running();
    assert_eq!(story.hear(refused()), [Effect::Say(News::NotCancelled { job: JOB, reason: "no".into() })]);
}

#[test]
fn interrupts_cancel_a_waiting_job() {
    let mut story = Story::new();
    story.step(Input::Connected);
    assert_eq!(story.step(Input::Signal(SIGTERM)), [], "the number to cancel is unknown");
    let effects = story.hear(MasterToClient::Accepted { job: JOB });
    assert_eq!(effects, [Effect::Say(News::Accepted(JOB)), cancelled()]);
    // The connection may have broken before the master read it.
    story.step(Input::Broken);
    assert_eq!(story.step(Input::Connected)[1..], [cancelled()]);
    let leave = Leave::Interrupted { signal: SIGINT, job: Some(JOB) };
    assert_eq!(story.step(Input::Signal(SIGINT)), [Effect::Leave(leave)]);
}

#[test]
fn a_running_job_gets_signals_and_the_second_interrupt_stops_it() {
    let mut story = Story::running();
    assert_eq!(story.step(Input::Signal(SIGUSR1)), [signalled(SIGUSR1)]);
    assert_eq!(story.step(Input::Signal(SIGINT)), [signalled(SIGINT)]);
    story.now = 1_001;
    assert_eq!(story.step(Input::Signal(SIGINT)), [signalled(SIGINT)], "later than a second");
    story.now = 2_000;
    assert_eq!(story.step(Input::Signal(SIGINT)), [cancelled()]);
    assert_eq!(story.step(Input::Signal(SIGTSTP)), [signalled(SIGSTOP), Effect::StopSelf]);
    assert_eq!(story.step(Input::Signal(SIGCONT)), [signalled(SIGCONT)]);
}

#[test]
fn signals_are_kept_while_the_master_is_unreachable() {
    let mut story = Story::running();
    story.step(Input::Broken);
    assert_eq!(story.step(Input::Signal(SIGUSR1)), []);
    assert_eq!(story.step(Input::Connected)[1..], [signalled(SIGUSR1)]);
}

#[test]
fn a_closed_stdout_becomes_the_jobs_sigpipe() {
    let mut story = Story::running();
    assert_eq!(story.step(Input::Blocked(Channel::Stderr, Errno::EPIPE)), []);
    assert_eq!(story.step(Input::Blocked(Channel::Stdout, Errno::EPIPE)), [signalled(SIGPIPE)]);
    let effects = story.step(Input::Blocked(Channel::Stdout, Errno::ENOSPC));
    assert_eq!(effects, [Effect::Say(News::CannotWrite(Channel::Stdout, Errno::ENOSPC)), signalled(SIGPIPE)]);
}
