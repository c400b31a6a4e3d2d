//! Queues of the configuration.

use limo_model::{QueueTable, Queues, Wait};
use limo_proto::{Change, QueueReport, QueuesQuery};
use limo_sched::Event;

use super::*;

/// Two queues on one node each; `short` is the default.
fn queues(state: &str) -> Queues {
    let text = format!(
        "[short]\nnodes = [\"n1\"]\ndefault_time = \"10min\"\nmax_time = \"1h\"\ndefault = true\nstate = \"{state}\"\n\
         [long]\nnodes = [\"n[2-3]\"]\nusers = [\"user7\"]\n"
    );
    let tables: BTreeMap<String, QueueTable> = toml::from_str(&text).expect("tables");
    Queues::of_tables(tables).expect("queues")
}

fn configure(bench: &mut Bench, queues: Queues) {
    bench.settings.queues = queues;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
}

fn named(key: u8, queue: &str) -> ClientToMaster {
    exec_with(key, |exec| exec.request.queue = Some(queue.to_owned()))
}

#[test]
fn the_journal_has_the_queue_and_the_limit_that_a_job_was_given() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let before = bench.submit(client, 1);
    configure(&mut bench, queues("up"));
    let after = bench.submit(client, 2);
    let submitted = |bench: &Bench, of: JobId| {
        bench.disk.entries.iter().find_map(|(_, entry)| match entry {
            Entry::Event(Event::Submitted { job, request }) if *job == of => {
                Some((request.queue.clone(), request.time_limit))
            }
            _ => None,
        })
    };
    assert_eq!(submitted(&bench, before), Some((None, None)));
    let limit = Span::from_secs(600);
    assert_eq!(submitted(&bench, after), Some((Some("short".into()), Some(limit))));
    // The next process reads the same queues from the journal and the configuration.
    let mut bench = bench.killed();
    let report = |bench: &mut Bench| {
        let root = bench.client(0);
        let MasterToClient::Answer(answer) = bench.ask(root, Query::Job(JobQuery(after))) else { panic!("no answer") };
        let Answer::Jobs(jobs) = *answer else { panic!("{answer:?}") };
        (jobs[0].queue.clone(), jobs[0].time_limit)
    };
    assert_eq!(report(&mut bench), (Some("short".into()), Some(limit)));
    let sets = bench.disk.entries.iter();
    let sets = sets.filter(|(_, entry)| matches!(entry, Entry::Event(Event::QueuesSet { .. }))).count();
    assert_eq!(sets, 2, "the settings of the new process have no queues");
}

#[test]
fn a_queue_refuses_what_it_does_not_accept_and_starts_nothing_while_it_is_down() {
    let mut bench = Bench::new();
    configure(&mut bench, queues("down"));
    let (first, second) = (bench.node("n1"), bench.node("n2"));
    let (client, other) = (bench.client(7), bench.client(8));
    let mut refused = |client, message| {
        bench.heard(client);
        bench.say(client, message);
        let heard = bench.heard(client);
        refusal(heard.last()).to_owned()
    };
    assert_eq!(refused(client, named(1, "fast")), "there is no queue `fast` (queues: long, short)");
    assert!(refused(client, named(1, "a b")).starts_with("the queue `a b` has the character ` `"));
    assert_eq!(refused(other, named(1, "long")), "the queue `long` is not for user8");
    let too_long = exec_with(1, |exec| exec.request.time_limit = Some(Span::from_secs(7_200)));
    assert_eq!(refused(client, too_long), "the time limit of 2h is longer than the queue `short` allows: at most 1h");
    let waiting = bench.submit(client, 2);
    bench.say(client, named(3, "long"));
    let starts = |bench: &mut Bench| {
        [first, second].map(|node| words(&bench.orders(node)).iter().filter(|word| *word == "DoExec").count())
    };
    assert_eq!(starts(&mut bench), [0, 1], "the job of `long` does not start on n1");
    let wait = bench.controller.tx.core.reason(waiting, bench.now);
    assert_eq!(wait, Some(Wait::Queue { queue: "short".into(), is_known: true }));
    configure(&mut bench, queues("up"));
    assert_eq!(starts(&mut bench), [1, 0]);
}

#[test]
fn members_of_a_queues_groups_may_use_it_whatever_the_client_claims() {
    let mut bench = Bench::new();
    let text = "[shared]\nusers = [\"user7\"]\ngroups = [\"chem\", \"physics\"]\n";
    configure(&mut bench, Queues::of_tables(toml::from_str(text).expect("tables")).expect("queues"));
    let claims = |key| {
        exec_with(key, |exec| {
            exec.request.queue = Some("shared".to_owned());
            exec.request.queue_group = Some("physics".to_owned());
        })
    };
    let stranger = bench.member(8, &["art"]);
    bench.say(stranger, claims(1));
    let reason = "the queue `shared` is not for user8, who is in none of its groups: chem, physics";
    assert_eq!(refusal(bench.heard(stranger).last()), reason);
    let [user, member] = [bench.client(7), bench.member(9, &["art", "physics"])];
    for (client, key) in [(user, 2), (member, 3)] {
        bench.say(client, claims(key));
        assert!(words(&bench.heard(client)).contains(&"Accepted".to_owned()));
    }
    let by_groups: Vec<Option<String>> = bench
        .disk
        .entries
        .iter()
        .filter_map(|(_, entry)| match entry {
            Entry::Event(Event::Submitted { request, .. }) => Some(request.queue_group.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(by_groups, [None, Some("physics".to_owned())], "the journal has the group that counted");
    // The next process accepts the recorded jobs without a look-up.
    assert_eq!(bench.killed().controller.tx.core.waiting(), 2);
}

#[test]
fn an_operator_takes_a_queue_down_and_up_whatever_its_settings_say() {
    let mut bench = Bench::new();
    configure(&mut bench, queues("up"));
    let node = bench.node("n1");
    let (root, client) = (bench.client(0), bench.client(7));
    let set = |queue: &str, is_down| {
        ClientToMaster::ChangeConf(Box::new(Change::QueueState { queue: queue.into(), is_down }))
    };
    bench.say(root, set("short", true));
    let job = bench.submit(client, 1);
    let is_waiting = |bench: &Bench| {
        let wait = bench.controller.tx.core.reason(job, bench.now);
        wait == Some(Wait::Queue { queue: "short".into(), is_known: true })
    };
    assert!(is_waiting(&bench));
    configure(&mut bench, queues("up"));
    assert!(is_waiting(&bench), "the same settings change nothing");
    bench.say(root, set("short", false));
    assert!(words(&bench.orders(node)).contains(&"DoExec".to_owned()));
    configure(&mut bench, queues("down"));
    let closed =
        |bench: &Bench| bench.controller.tx.core.settings().queues.get("short").is_some_and(|of| of.is_closed());
    assert!(closed(&bench), "changed settings count");
    bench.heard(root);
    bench.say(root, set("fast", true));
    assert_eq!(refusal(bench.heard(root).last()), "there is no queue `fast` (queues: long, short)");
    bench.say(client, set("short", false));
    assert!(closed(&bench), "a user may not");
}

#[test]
fn queues_are_reported_with_their_nodes() {
    let mut bench = Bench::new();
    configure(&mut bench, queues("up"));
    bench.node("n2");
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Queues(QueuesQuery)) else { panic!("no answer") };
    let Answer::Queues(all) = *answer else { panic!("{answer:?}") };
    let shown = |of: &QueueReport| (of.name.clone(), of.nodes.clone(), of.known, of.available, of.is_default);
    let expected = [("long", "n[2-3]", 1, 1, false), ("short", "n1", 0, 0, true)];
    let expected = expected.map(|(name, nodes, known, available, default)| {
        (name.to_owned(), Some(nodes.to_owned()), known, available, default)
    });
    assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), expected);
}
