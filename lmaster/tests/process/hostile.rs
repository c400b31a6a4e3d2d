//! A user who asks for more than the master can hold: each request has a bounded cost, and another user is served meanwhile.
//! As root these tests are another user; otherwise the caller is an operator, whose limits are larger, and they are skipped.

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

/// The user `daemon` of every Linux, and another.
const HOSTILE: libc::uid_t = 1;
const HONEST: libc::uid_t = 2;

/// Most memory that the master may ever have had, in KiB.
const MEMORY: u64 = 512 << 10;

/// How long another user waits mostly, and at most: these programs are not optimized, and other tests run beside them.
const USUALLY: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(15);

/// The keys of honest submissions.
static KEYS: AtomicU64 = AtomicU64::new(0);

/// Does something as another user, on a thread of its own.
fn as_user<T: Send>(uid: libc::uid_t, work: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: it has no pointers. The system call, unlike the function of libc, is for this thread alone.
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

/// A submission that goes to files, with so many bytes of environment.
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

/// So many jobs of the hostile user that wait, from number 1 on.
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

/// What another user does, again and again: each time it has to be quick.
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

/// While somebody else does this, another user is served, and afterwards the master has not had too much memory.
/// What the attack leaves is kept until then.
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
        // The first of them are answered, the others were refused.
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
                // It may have been hung up on.
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
