//! What users see of the commands of others.

use limo_model::{Profile, ProfileKey};
use limo_proto::{
    Change, ChangesQuery, EnergyBy, EnergyQuery, Finished, JobOrder, ListingQuery, PlanQuery, PredictorQuery,
    ProfilesQuery, Selection, VariationQuery,
};

use super::*;

/// A word in everything that describes the command of user 7.
const WORD: &str = "marker";

/// Submits a job whose command, application and files have the word.
fn marked(key: u8) -> ClientToMaster {
    exec_with(key, |exec| {
        exec.request.application = format!("+cg+{WORD}");
        exec.launch.argv = vec![b"cg".to_vec(), format!("--{WORD}").into_bytes()];
        exec.launch.cwd = format!("/home/{WORD}").into_bytes();
        exec.launch.io = Io::Detached;
    })
}

/// Returns one query of each type that shows jobs or what is known about them.
fn queries(waiting: JobId, over: JobId) -> Vec<Query> {
    let energy = |by| EnergyQuery { by, filter: JobFilter::default(), since: None, until: None, limit: 10 };
    let finished = Finished { filter: JobFilter::default(), since: None, until: None, after: None, limit: 10 };
    vec![
        Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 10 }),
        Query::Job(JobQuery(waiting)),
        Query::Job(JobQuery(over)),
        Query::Explain(ExplainQuery(waiting)),
        Query::Wait(WaitQuery(vec![over])),
        Query::History(finished),
        Query::Listing(ListingQuery {
            filter: JobFilter::default(),
            order: JobOrder::Number,
            descending: false,
            after: None,
            limit: 10,
        }),
        Query::Plan(PlanQuery { from: Time::from_unix_ms(START), until: Time::MAX }),
        Query::Profiles(ProfilesQuery),
        Query::Variation(VariationQuery),
        Query::Predictor(PredictorQuery),
        Query::Energy(energy(EnergyBy::Application)),
        Query::Energy(energy(EnergyBy::Job)),
        Query::Changes(ChangesQuery { limit: 100, ..ChangesQuery::default() }),
        Query::Select(SelectQuery { selection: Selection::default(), live: false }),
        Query::Users(UsersQuery),
        Query::Nodes(NodesQuery),
        Query::Status(StatusQuery),
        Query::Reservations(ReservationsQuery),
    ]
}

/// Returns a cluster with a waiting and a finished job of user 7, a running one, and a profile of its command.
fn cluster() -> (Bench, JobId, JobId) {
    let mut bench = Bench::new();
    let (node, client, root) = (bench.node("n1"), bench.client(7), bench.client(0));
    let accepted = |bench: &mut Bench, key| {
        bench.heard(client);
        bench.say(client, marked(key));
        match bench.heard(client).first() {
            Some(MasterToClient::Accepted { job }) => *job,
            other => panic!("not accepted: {other:?}"),
        }
    };
    let over = accepted(&mut bench, 1);
    bench.report(node, NodeToMaster::JobAck { job: over, attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Started { job: over, attempt: Attempt(1) });
    let reason = format!("cannot run /home/{WORD}/cg");
    let outcome = Outcome::NotStarted { code: 127, reason };
    bench.report(node, NodeToMaster::Ended { job: over, attempt: Attempt(1), outcome, usage: Usage::default() });
    let running = accepted(&mut bench, 2);
    bench.report(node, NodeToMaster::JobAck { job: running, attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Started { job: running, attempt: Attempt(1) });
    bench.say(client, exec_with(4, |exec| exec.request.cores = Cores::All));
    let waiting = accepted(&mut bench, 3);
    let key = ProfileKey {
        application: format!("user7+cg+{WORD}"),
        hardware: "cpu".into(),
        cores: None,
        nodes: None,
        cap: None,
        size: String::new(),
    };
    let profile = Profile {
        duration: Span::from_secs(1),
        power: Power::from_mw(1_000),
        energy: limo_model::Energy::from_mj(1_000),
        spread_permille: 0,
        runs: 1,
        source: limo_model::EstimateSource::Imported,
    };
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::SetProfiles(vec![(key, profile)]))));
    (bench, waiting, over)
}

fn shows(bench: &mut Bench, client: PeerId, query: Query) -> bool {
    bench.heard(client);
    bench.say(client, ClientToMaster::Ask(Box::new(query)));
    let heard = bench.heard(client);
    assert!(!heard.is_empty());
    format!("{heard:?}").contains(WORD)
}

#[test]
fn no_query_shows_the_command_of_another_user() {
    let (mut bench, waiting, over) = cluster();
    bench.settings.hides_commands = true;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let (owner, other, root) = (bench.client(7), bench.client(8), bench.client(0));
    for query in queries(waiting, over) {
        assert!(!shows(&mut bench, other, query.clone()), "{query:?}");
        let (to_owner, to_root) = (shows(&mut bench, owner, query.clone()), shows(&mut bench, root, query.clone()));
        assert_eq!(to_owner, to_root, "{query:?}");
    }
    for query in [Query::Job(JobQuery(over)), Query::Explain(ExplainQuery(waiting))] {
        assert!(shows(&mut bench, owner, query), "the owner sees it");
    }
}

#[test]
fn commands_are_shown_to_all_unless_they_are_hidden() {
    let (mut bench, waiting, over) = cluster();
    let other = bench.client(8);
    let shown = queries(waiting, over).into_iter().filter(|query| shows(&mut bench, other, query.clone())).count();
    // Jobs, both of Job, Explain, Wait, History, Profiles, Changes and Listing; the test's database has no sums of energy.
    assert_eq!(shown, 9);
}
