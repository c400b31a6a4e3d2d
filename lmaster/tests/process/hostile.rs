//! Requests of a hostile user beyond the limits of the master. Each has a bounded cost, and other users are served
//! meanwhile. As root, these tests act as another user. Otherwise they are skipped, because the caller is an operator
//! with larger limits.

mod connections;
mod queries;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use limo_model::JobId;
use limo_proto::{
    Answer, Change, ClientToMaster, Frame, Io, JobFilter, JobQuery, JobsQuery, MasterToClient, Query, SelectQuery,
    Selection, Selector, SendExec, StatusQuery, WaitQuery,
};
use limo_requirements::{Requirement, skip};
use nix::libc;

use crate::harness::{Client, Master, exec};

/// Uid of the user `daemon`, which exists on every Linux. The next one is another user.
const HOSTILE: libc::uid_t = 1;
const HONEST: libc::uid_t = 2;

/// Upper limit of the master's peak memory, in KiB.
const MEMORY: u64 = 512 << 10;

/// Usual wait of another user. The next value is the longest. These programs are not optimized, and other tests run
/// at the same time.
const USUALLY: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(15);

/// The keys of honest submissions.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// Runs `work` as another user, on its own thread.
fn as_user<T: Send>(uid: libc::uid_t, work: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no pointers are involved. Unlike the function of libc, the system call affects this thread only.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
            assert_eq!(result, 0, "root can be anybody");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(work())
        });
        thread.join().expect("the work is done")
    })
}

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip(Requirement::Root, "only root can become another user");
    }
    is_root
}

/// Returns a submission whose output goes to files, with `size` bytes of environment.
fn submission(number: u64, size: usize) -> ClientToMaster {
    let ClientToMaster::SendExec(mut submission) = exec(1) else { panic!("another message") };
    submission.key[..8].copy_from_slice(&number.to_le_bytes());
    submission.launch.io = Io::Detached;
    submission.launch.env = vec![(format!("V{number}").into_bytes(), vec![b'x'; size])];
    submission.request.name = "x".repeat(250);
    ClientToMaster::SendExec(submission)
}

fn shared(number: u64) -> ClientToMaster {
    let ClientToMaster::SendExec(submission) = submission(number, 100) else { panic!("another message") };
    let SendExec { key, request, mut launch, again } = *submission;
    launch.env.clear();
    ClientToMaster::SendExec(Box::new(SendExec { key, request, launch, again }))
}

async fn accepted(client: &mut Client) -> Option<JobId> {
    client
        .hear_of(|message| match message {
            MasterToClient::Accepted { job } => Some(Some(*job)),
            MasterToClient::Refused { .. } => Some(None),
            _ => None,
        })
        .await
}

/// Submits `count` waiting jobs of the hostile user, from number 1 on.
fn queue(master: &Master, count: u64) {
    as_user(HOSTILE, async || {
        let mut client = Client::new(master).await;
        for number in 0..count {
            client.say(shared(number)).await;
        }
        for _ in 0..count {
            assert!(accepted(&mut client).await.is_some());
        }
    });
}

async fn cancel_all(client: &mut Client) {
    let change = Change::CancelSelected { selection: Selection::from(vec![Selector::All]), signal: None };
    client.say(ClientToMaster::ChangeConf(Box::new(change))).await;
    client.hear_of(|message| matches!(message, MasterToClient::Answer(_)).then_some(())).await;
}

/// Makes requests of another user, each of which must be answered quickly.
async fn honest(master: &Master) {
    let mut client = Client::new(master).await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        let number = (1 << 40) + KEYS.fetch_add(1, Ordering::Relaxed);
        client.say(submission(number, 100)).await;
        let job = accepted(&mut client).await.expect("accepted");
        let cancel = Change::Cancel(vec![job]);
        client.say(ClientToMaster::ChangeConf(Box::new(cancel))).await;
        client.ask(Query::Job(JobQuery(job))).await;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    println!("another user waited for {:?}, at most {:?}", took[10], took[19]);
    assert!(took[10] < USUALLY && took[19] < AT_MOST, "another user waited: {took:?}");
}

/// Serves another user during the attack, then checks the master's memory. Keeps what the attack returns until then.
fn attack<T: Send>(master: &Master, work: impl AsyncFnOnce() -> T + Send) {
    std::thread::scope(|scope| {
        let hostile = scope.spawn(|| as_user(HOSTILE, work));
        as_user(HONEST, async || honest(master).await);
        let left = hostile.join().expect("the attack is over");
        as_user(HONEST, async || honest(master).await);
        drop(left);
    });
    let peak = master.peak_memory();
    println!("the master had {} MiB at most", peak >> 10);
    assert!(peak < MEMORY, "the master had {} MiB", peak >> 10);
}

fn start() -> Option<(tempfile::TempDir, Master)> {
    is_root().then(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let master = Master::start(dir.path());
        (dir, master)
    })
}

fn ask(query: Query) -> ClientToMaster {
    ClientToMaster::Ask(Box::new(query))
}

#[test]
fn a_wait_for_many_equal_numbers() {
    let Some((_dir, master)) = start() else { return };
    queue(&master, 1);
    attack(&master, async || {
        let mut client = Client::new(&master).await;
        cancel_all(&mut client).await;
        for _ in 0..5 {
            client.say(ask(Query::Wait(WaitQuery(vec![JobId(1); 131_000])))).await;
            let answer = client.hear_of(|message| match message {
                MasterToClient::Answer(answer) => Some(answer.clone()),
                _ => None,
            });
            let Answer::Jobs(jobs) = *answer.await else { panic!("another answer") };
            assert_eq!(jobs.len(), 1);
        }
    });
}

#[test]
fn many_waits_on_one_connection() {
    let Some((_dir, master)) = start() else { return };
    queue(&master, 2_000);
    attack(&master, async || {
        let mut client = Client::new(&master).await;
        for _ in 0..2_000 {
            client.say(ask(Query::Wait(WaitQuery((1..=2_000).map(JobId).collect())))).await;
        }
        let mut other = Client::new(&master).await;
        cancel_all(&mut other).await;
        // Earlier requests were answered, but these were refused.
        let refused = client.hear_of(|message| match message {
            MasterToClient::Refused { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        assert!(refused.await.contains("the open waits of one user may name 100000 jobs"));
    });
}

#[test]
fn clients_that_do_not_read() {
    let Some((_dir, master)) = start() else { return };
    queue(&master, 3_000);
    attack(&master, async || {
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = Client::new(&master).await;
            for _ in 0..500 {
                let list = Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 30_000 });
                // The master may have closed the connection.
                if client.connection.writer.send(&Frame::Message(ask(list))).await.is_err() {
                    break;
                }
            }
            clients.push(client);
        }
        clients
    });
}

#[test]
fn many_selectors() {
    let Some((_dir, master)) = start() else { return };
    queue(&master, 3_000);
    attack(&master, async || {
        for _ in 0..20 {
            let mut client = Client::new(&master).await;
            let selection = Selection::from(vec![Selector::All; 20_000]);
            client.say(ask(Query::Select(SelectQuery { selection, live: false }))).await;
            let refused = client.hear_of(|message| match message {
                MasterToClient::Refused { reason, .. } => Some(reason.clone()),
                _ => None,
            });
            let refused = refused.await;
            assert!(refused.contains("the limit is 1000"), "{refused}");
            assert_eq!(client.hear().await, None, "what cannot be read ends the connection");
        }
    });
}

#[test]
fn jobs_with_large_environments_and_their_memory_after_they_are_cancelled() {
    let Some((dir, master)) = start() else { return };
    attack(&master, async || {
        let mut client = Client::new(&master).await;
        let mut count = 0;
        for number in 0..1_500 {
            client.say(submission(number, 1_000_000)).await;
            match accepted(&mut client).await {
                Some(_) => count += 1,
                None => break,
            }
        }
        assert_eq!(count, 67, "64 MiB is the limit");
        let full = master.memory();
        cancel_all(&mut client).await;
        let end = Instant::now() + Duration::from_secs(30);
        while master.memory() + (40 << 10) > full {
            assert!(Instant::now() < end, "{} KiB with all jobs, {} KiB without", full, master.memory());
            client.ask(Query::Status(StatusQuery)).await;
        }
    });
    let journal = size(dir.path());
    assert!(journal < 256 << 20, "the journal takes {} MiB", journal >> 20);
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").metadata());
    files.map(|metadata| metadata.expect("readable").len()).sum()
}
