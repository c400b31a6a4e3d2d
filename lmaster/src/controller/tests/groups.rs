//! Groups of nodes of the configuration.

use limo_model::{GroupTable, Groups, Power, Wait};
use limo_proto::{Change, GroupDraw, GroupReport, GroupsQuery};
use limo_sched::Event;

use super::*;

fn groups(limit: &str) -> Groups {
    let tables: BTreeMap<String, GroupTable> =
        toml::from_str(&format!("[rack]\nnodes = [\"n[1-2]\"]\nlimit = \"{limit}\"\n")).expect("tables");
    Groups::of_tables(tables).expect("groups")
}

fn configure(bench: &mut Bench, groups: Groups) {
    bench.settings.groups = groups;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
}

fn set(group: &str, limit: Power) -> ClientToMaster {
    ClientToMaster::ChangeConf(Box::new(Change::GroupLimit { group: group.into(), limit }))
}

fn report(bench: &mut Bench) -> GroupReport {
    let root = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Groups(GroupsQuery)) else { panic!("no answer") };
    let Answer::Groups(all) = *answer else { panic!("{answer:?}") };
    let [group] = &all[..] else { panic!("{all:?}") };
    group.clone()
}

#[test]
fn an_operator_sets_a_limit_until_the_settings_change_it() {
    let mut bench = Bench::new();
    configure(&mut bench, groups("900 W"));
    bench.node("n1");
    let (root, user) = (bench.client(0), bench.client(7));
    let limit = |bench: &mut Bench| report(bench).limit;
    assert_eq!(limit(&mut bench), Power::from_watts(900));
    bench.say(root, set("rack", Power::from_mw(1)));
    let job = bench.submit(user, 1);
    let wait = bench.controller.tx.core.reason(job, bench.now);
    assert!(matches!(&wait, Some(Wait::Group { group, limit, .. }) if group == "rack" && limit.mw() == 1), "{wait:?}");
    configure(&mut bench, groups("900 W"));
    assert_eq!(limit(&mut bench), Power::from_mw(1), "the same settings change nothing");
    bench.say(user, set("rack", Power::from_watts(9)));
    assert_eq!(limit(&mut bench), Power::from_mw(1), "a user may not");
    bench.heard(root);
    bench.say(root, set("room", Power::from_watts(9)));
    assert_eq!(refusal(bench.heard(root).last()), "there is no group `room` (groups: rack)");
    bench.say(root, set("rack", Power::ZERO));
    assert_eq!(refusal(bench.heard(root).last()), "group.rack: limit is 0.0 W: it must be above 0 W");
    configure(&mut bench, groups("800 W"));
    let found = report(&mut bench);
    assert_eq!((found.limit, found.configured), (Power::from_watts(800), Power::from_watts(800)));
    assert_eq!((found.nodes.as_str(), found.known), ("n[1-2]", 1));
    bench.node("n3");
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Nodes(NodesQuery)) else { panic!("no answer") };
    let Answer::Nodes(nodes) = *answer else { panic!("{answer:?}") };
    assert_eq!(nodes.iter().map(|node| node.group.as_deref()).collect::<Vec<_>>(), [Some("rack"), None]);
    let MasterToClient::Answer(answer) = bench.ask(root, Query::Status(StatusQuery)) else { panic!("no answer") };
    let Answer::Status(status) = *answer else { panic!("{answer:?}") };
    let shown = GroupDraw { name: "rack".into(), draw: found.draw, limit: Power::from_watts(800) };
    assert_eq!(status.groups, [shown]);
}

#[test]
fn a_limit_is_in_the_journal() {
    let mut bench = Bench::new();
    configure(&mut bench, groups("900 W"));
    let root = bench.client(0);
    bench.say(root, set("rack", Power::from_watts(100)));
    let settings = bench.settings.clone();
    let mut bench = bench.killed();
    let sets = bench.disk.entries.iter();
    let sets = sets.filter(|(_, entry)| matches!(entry, Entry::Event(Event::GroupsSet { .. }))).count();
    assert_eq!(sets, 3, "the settings of the new process have no groups");
    bench.settings = settings;
    configure(&mut bench, groups("900 W"));
    assert_eq!(report(&mut bench).limit, Power::from_watts(900), "the group is a new one");
}
