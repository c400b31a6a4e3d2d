//! Limits of one user. Each refusal names the limit, and does not affect other users.

use limo_proto::{Change, Selection, Selector};

use super::*;

impl Bench {
    pub(super) fn jobs(&mut self) -> Vec<JobReport> {
        let client = self.client(0);
        let answer =
            self.ask(client, Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 1000 }));
        let MasterToClient::Answer(answer) = answer else { panic!("{answer:?}") };
        let Answer::Jobs(jobs) = *answer else { panic!("{answer:?}") };
        jobs
    }

    /// Lets clients read everything.
    pub(super) fn drain(&mut self) {
        for peer in std::mem::take(&mut self.undrained) {
            self.input(Input::Drained(peer));
        }
    }
}

fn wait(jobs: impl IntoIterator<Item = u64>) -> ClientToMaster {
    ClientToMaster::Ask(Box::new(Query::Wait(WaitQuery(jobs.into_iter().map(JobId).collect()))))
}

fn refused(bench: &mut Bench, client: PeerId, message: ClientToMaster) -> String {
    bench.heard(client);
    bench.say(client, message);
    refusal(bench.heard(client).first()).to_owned()
}

fn listed(heard: &[MasterToClient]) -> Vec<u64> {
    let [MasterToClient::Answer(answer)] = heard else { panic!("{heard:?}") };
    let Answer::Jobs(jobs) = answer.as_ref() else { panic!("{answer:?}") };
    jobs.iter().map(|job| job.job.0).collect()
}

/// Submits jobs 1 to `count` of user 7, which wait.
fn waiting(count: u8) -> (Bench, PeerId) {
    let mut bench = Bench::new();
    let owner = bench.client(7);
    for key in 1..=count {
        bench.submit(owner, key);
    }
    (bench, owner)
}

fn cancel(bench: &mut Bench, owner: PeerId, job: u64) {
    bench.say(owner, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JobId(job)]))));
}

#[test]
fn a_job_that_is_waited_for_many_times_is_reported_once() {
    let (mut bench, owner) = waiting(1);
    let watcher = bench.client(8);
    bench.say(watcher, wait(std::iter::repeat_n(1, 131_000)));
    cancel(&mut bench, owner, 1);
    assert_eq!(listed(&bench.heard(watcher)), [1]);
    bench.say(watcher, wait(std::iter::repeat_n(1, 131_000)));
    assert_eq!(listed(&bench.heard(watcher)), [1], "one that is over");
}

#[test]
fn a_wait_and_a_change_name_at_most_so_many_jobs() {
    let (mut bench, owner) = waiting(4);
    bench.settings.limits.wait_numbers = 3;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    assert_eq!(refused(&mut bench, owner, wait([1, 2, 3, 4])), "the wait names 4 jobs: the limit is 3");
    let hold = ClientToMaster::ChangeConf(Box::new(Change::Hold(vec![JobId(1); 4])));
    assert_eq!(refused(&mut bench, owner, hold), "the change names 4 jobs: the limit is 3");
    let root = bench.client(0);
    assert_eq!(refused(&mut bench, root, wait([1, 2, 3, 4])), "the wait names 4 jobs: the limit is 3");
}

#[test]
fn the_open_waits_of_a_user_are_counted_over_all_connections() {
    let (mut bench, owner) = waiting(4);
    bench.settings.limits.open_waits = 4;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let (first, second, other) = (bench.client(8), bench.client(8), bench.client(9));
    bench.say(first, wait([1, 2]));
    bench.say(second, wait([3, 2]));
    let reason = "the open waits of one user may name 4 jobs: 4 are named, and this wait names 1";
    assert_eq!(refused(&mut bench, first, wait([1])), reason);
    bench.say(other, wait([1, 2, 3, 4]));
    assert!(bench.heard(other).is_empty(), "another user has limits of its own");
    cancel(&mut bench, owner, 1);
    bench.input(Input::Gone(second));
    bench.say(first, wait([3, 4]));
    assert_eq!(refused(&mut bench, first, wait([3])), reason, "two of the first wait are still counted");
    cancel(&mut bench, owner, 2);
    assert_eq!(listed(&bench.heard(first)), [1, 2]);
    bench.say(first, wait([3]));
    cancel(&mut bench, owner, 3);
    assert_eq!(listed(&bench.heard(first)), [3]);
    cancel(&mut bench, owner, 4);
    assert_eq!(listed(&bench.heard(first)), [3, 4]);
    assert_eq!(listed(&bench.heard(other)), [1, 2, 3, 4]);
}

#[test]
fn a_request_has_at_most_so_many_selectors() {
    let (mut bench, owner) = waiting(3);
    let select = |which: Vec<Selector>| {
        let selection = Selection::from(which);
        ClientToMaster::Ask(Box::new(Query::Select(SelectQuery { selection, live: false })))
    };
    let reason = refused(&mut bench, owner, select(vec![Selector::All; 20_000]));
    assert_eq!(reason, "the request has 20000 selectors: the limit is 1000");
    let all = [Selector::All, Selector::Range(JobId(1), JobId(u64::MAX))];
    bench.say(owner, select(all.into_iter().cycle().take(1_000).collect()));
    let heard = bench.heard(owner);
    let [MasterToClient::Answer(answer)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(**answer, Answer::Selected([1, 2, 3].map(JobId).to_vec()));
}

/// Returns a submission that waits, with a name that makes its report long.
pub(super) fn named(key: u32) -> ClientToMaster {
    let ClientToMaster::SendExec(mut exec) = exec(1) else { panic!("another message") };
    exec.key[..4].copy_from_slice(&key.to_le_bytes());
    (exec.request.name, exec.launch.io) = ("x".repeat(250), Io::Detached);
    ClientToMaster::SendExec(exec)
}

const LONG: u64 = 1_500;

/// Runs several jobs of user 7 to their ends.
fn over() -> (Bench, PeerId) {
    let mut bench = Bench::new();
    let owner = bench.client(7);
    for key in 0..u32::try_from(LONG).expect("small") {
        bench.say(owner, named(key));
    }
    let all = Change::Cancel((1..=LONG).map(JobId).collect());
    bench.say(owner, ClientToMaster::ChangeConf(Box::new(all)));
    assert_eq!(bench.disk.finished.len() as u64, LONG);
    bench.heard(owner);
    (bench, owner)
}

/// Returns the numbers of the jobs in each page, and the encoded size.
fn pages(heard: &[MasterToClient]) -> Vec<(Vec<u64>, usize)> {
    let page = |message: &MasterToClient| {
        let (MasterToClient::Piece(page) | MasterToClient::Answer(page)) = message else { panic!("{message:?}") };
        let (Answer::Jobs(jobs) | Answer::History { jobs, .. }) = page.as_ref() else { panic!("{page:?}") };
        (jobs.iter().map(|job| job.job.0).collect(), limo_proto::encoded_len(message))
    };
    heard.iter().map(page).collect()
}

#[test]
fn the_next_page_of_a_list_is_made_when_the_last_was_taken() {
    let all = || JobFilter::default();
    let finished = limo_proto::Finished { filter: all(), since: None, until: None, after: None, limit: 1_000 };
    for (query, count) in [
        (Query::Jobs(JobsQuery { filter: all(), from: JobId(0), ended: u32::MAX }), LONG),
        (Query::Wait(WaitQuery((1..=LONG).map(JobId).collect())), LONG),
        (Query::History(finished), 1_000),
    ] {
        let (mut bench, owner) = over();
        bench.slow_clients = true;
        bench.say(owner, ClientToMaster::Ask(Box::new(query)));
        bench.say(owner, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
        let mut told: Vec<u64> = Vec::new();
        loop {
            let heard = bench.heard(owner);
            if let [MasterToClient::Piece(_)] = heard.as_slice() {
                assert_eq!(bench.undrained, [owner]);
                let (jobs, size) = pages(&heard).remove(0);
                assert!((200 << 10..257 << 10).contains(&size), "{size} bytes");
                told.extend(jobs);
                bench.drain();
                continue;
            }
            let [last @ MasterToClient::Answer(_), MasterToClient::Answer(status)] = heard.as_slice() else {
                panic!("{heard:?}")
            };
            assert!(matches!(status.as_ref(), Answer::Status(_)), "the next request is answered after the last page");
            told.extend(pages(std::slice::from_ref(last)).remove(0).0);
            break;
        }
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len() as u64, count);
    }
}

#[test]
fn a_list_of_possibly_lost_data_ends_with_a_refusal() {
    let (mut bench, owner) = over();
    let list = || Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 1_500 });
    bench.slow_clients = true;
    bench.say(owner, ClientToMaster::Ask(Box::new(list())));
    assert!(matches!(bench.heard(owner).as_slice(), [MasterToClient::Piece(_)]));
    bench.slow_disk = true;
    let other = bench.client(8);
    bench.say(other, named(9_999));
    bench.fail();
    assert_eq!(words(&bench.heard(owner)), ["Refused"]);
    bench.slow_disk = false;
    bench.drain();
    assert!(bench.heard(owner).is_empty(), "the list is not gone on with");
    bench.slow_clients = false;
    bench.pass(Span::from_secs(1));
    bench.say(owner, ClientToMaster::Ask(Box::new(list())));
    let told: usize = pages(&bench.heard(owner)).iter().map(|(jobs, _)| jobs.len()).sum();
    assert_eq!(told as u64, LONG);
}

#[test]
fn a_user_has_one_query_running_and_four_waiting() {
    let (mut bench, _) = over();
    let list = || {
        ClientToMaster::Ask(Box::new(Query::Jobs(JobsQuery {
            filter: JobFilter::default(),
            from: JobId(0),
            ended: 1_500,
        })))
    };
    bench.slow_clients = true;
    let clients: Vec<PeerId> = (0..6).map(|_| bench.client(8)).collect();
    for client in &clients {
        bench.say(*client, list());
    }
    let reason = "user8 has 1 queries running and 4 waiting: the limit is reached";
    assert_eq!(refusal(bench.heard(clients[5]).first()), reason);
    let heard: Vec<usize> = clients[..5].iter().map(|client| bench.heard(*client).len()).collect();
    assert_eq!(heard, [1, 0, 0, 0, 0], "one page is told");
    bench.say(clients[5], ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    assert_eq!(words(&bench.heard(clients[5])), ["Answer"], "what costs nothing waits for nothing");
    let other = bench.client(9);
    bench.say(other, list());
    assert_eq!(words(&bench.heard(other)), ["Piece"], "another user has a turn of its own");
    // A client that disconnects frees a place.
    bench.input(Input::Gone(clients[0]));
    assert_eq!(words(&bench.heard(clients[1])), ["Piece"]);
    bench.slow_clients = false;
    bench.drain();
    for client in &clients[1..5] {
        assert_eq!(words(&bench.heard(*client)).last().map(String::as_str), Some("Answer"));
    }
}

#[test]
fn requests_that_wait_are_counted_in_bytes_over_all_connections_of_a_user() {
    let (mut bench, _) = over();
    bench.settings.limits.requests = 1 << 20;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    bench.slow_clients = true;
    let clients: Vec<PeerId> = (0..4).map(|_| bench.client(8)).collect();
    let list = || {
        ClientToMaster::Ask(Box::new(Query::Jobs(JobsQuery {
            filter: JobFilter::default(),
            from: JobId(0),
            ended: 1_500,
        })))
    };
    let large = || {
        let ClientToMaster::SendExec(mut exec) = named(1) else { panic!("another message") };
        exec.launch.env = vec![(b"X".to_vec(), vec![b'x'; 400_000])];
        ClientToMaster::SendExec(exec)
    };
    for client in &clients {
        bench.say(*client, list());
        bench.say(*client, large());
    }
    let closed: Vec<PeerId> = bench.closed.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(closed, clients[2..], "two such requests fit");
    let reason = &bench.closed[0].1;
    assert!(reason.contains("without waiting for an answer (limits.requests)"), "{reason}");
}

/// Returns a submission with `size` bytes of environment.
fn sized(key: u32, size: usize) -> ClientToMaster {
    let ClientToMaster::SendExec(mut exec) = named(key) else { panic!("another message") };
    exec.launch.env = vec![(key.to_string().into_bytes(), vec![b'x'; size])];
    ClientToMaster::SendExec(exec)
}

#[test]
fn waiting_jobs_of_a_user_take_a_bounded_number_of_bytes_which_are_given_back() {
    let mut bench = Bench::new();
    let (owner, other) = (bench.client(7), bench.client(8));
    let size = 1_000_000;
    let mut accepted = 0;
    let reason = loop {
        bench.say(owner, sized(accepted, size));
        match bench.heard(owner).pop() {
            Some(MasterToClient::Accepted { .. }) => accepted += 1,
            refused => break refusal(refused.as_ref()).to_owned(),
        }
        assert!(accepted < 100, "64 MiB is the limit");
    };
    assert_eq!(accepted, 67);
    assert!(reason.starts_with("the memory for the jobs of one user is used up: 63.9 MiB are taken"), "{reason}");
    assert!(reason.ends_with("and the limit is 64 MiB (limits.launches)"), "{reason}");
    bench.say(other, sized(1_000, size));
    assert_eq!(words(&bench.heard(other)), ["Accepted"], "another user has limits of its own");
    // The count begins again after a restart.
    let mut bench = bench.killed();
    let owner = bench.client(7);
    bench.say(owner, sized(2_000, size));
    refusal(bench.heard(owner).first());
    cancel(&mut bench, owner, 5);
    bench.heard(owner);
    bench.say(owner, sized(3_000, size));
    assert_eq!(words(&bench.heard(owner)), ["Accepted"]);
}
