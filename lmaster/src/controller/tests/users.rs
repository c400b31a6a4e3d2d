//! Reports about users, and the priorities that they may set.

use limo_proto::{Array, Change, Parallel, UserReport};

use super::*;

fn user(bench: &mut Bench, name: &str) -> UserReport {
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Users(UsersQuery)) else { panic!("no answer") };
    let Answer::Users(report) = *answer else { panic!("{answer:?}") };
    report.users.iter().find(|user| user.name == name).expect("known").clone()
}

#[test]
fn cores_of_all_nodes_and_tasks_that_wait_are_counted() {
    let mut bench = Bench::new();
    let (root, client) = (bench.client(0), bench.client(7));
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Policy { preset: Preset::Easy, parts: Vec::new() })));
    let nodes: Vec<PeerId> = ["n1", "n2", "n3"].iter().map(|name| bench.node(name)).collect();
    let wide = exec_with(1, |exec| {
        exec.request.spread = Some(super::multi_node::spread(3));
        exec.launch.parallel = Some(Parallel::default());
    });
    bench.say(client, wide);
    assert!(nodes.iter().all(|node| words(&bench.orders(*node)).contains(&"DoExec".to_owned())));
    let array = Array { tasks: "1-40".parse().expect("tasks"), entries: Vec::new() };
    bench.say(client, exec_with(2, |exec| (exec.launch.io, exec.launch.array) = (Io::Detached, Some(array))));
    let told = user(&mut bench, "user7");
    assert_eq!((told.running, told.cores, told.waiting), (1, 3, 40));
}

#[test]
fn users_lower_priorities_and_keep_them_but_raise_none() {
    let mut bench = Bench::new();
    let client = bench.client(7);
    let job = bench.submit(client, 1);
    let mut rank = |priority| {
        bench.heard(client);
        bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Priority { jobs: vec![job], priority })));
        match bench.heard(client).pop() {
            Some(MasterToClient::Refused { reason, .. }) => Err(reason),
            _ => Ok(()),
        }
    };
    assert_eq!((rank(-5), rank(-5)), (Ok(()), Ok(())));
    assert_eq!(rank(-4), Err("job 1 has the priority -5: only an operator can raise it".into()));
    bench.say(client, exec_with(2, |exec| exec.request.priority = 1));
    let refused = bench.heard(client);
    assert_eq!(refusal(refused.last()), "a priority of 1 is above 0: only an operator can submit a job with it");
}

#[test]
fn a_client_cannot_act_for_another_user() {
    let mut bench = Bench::new();
    for uid in [0, 7] {
        let client = bench.client(uid);
        bench.say(client, ClientToMaster::OnBehalf { uid: 8, user: "user8".into() });
        let refused = bench.heard(client);
        assert!(refusal(refused.last()).starts_with("only a submit host may act for others"), "{refused:?}");
    }
}

#[test]
fn a_client_that_may_only_ask_changes_nothing() {
    let mut bench = Bench::new();
    let client = bench.peer();
    let caller = Caller { uid: 9, user: "graphs".into(), groups: Arc::default(), operator: false, may_only_ask: true };
    bench.input(Input::ClientConnected(client, caller));
    let mode = ClientToMaster::ChangeConf(Box::new(Change::Mode(ModeSetting::Auto)));
    for message in [exec(1), mode, ClientToMaster::TakeUp { job: JobId(1), take: true }] {
        bench.heard(client);
        bench.say(client, message);
        let refused = bench.heard(client);
        assert_eq!(refusal(refused.last()), "the certificate is of role read-only, which may only ask");
    }
    assert!(matches!(bench.ask(client, Query::Status(StatusQuery)), MasterToClient::Answer(_)));
}
