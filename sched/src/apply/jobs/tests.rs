//! Submissions that need no plan.

use limo_model::{NodeSpec, Power, Preset, Request, Time, UnitKind, UnitSpec};

use crate::{Core, Event, Options};

const NOW: Time = Time::from_unix_ms(0);

/// Makes a core with one busy node and `waiting` waiting jobs; every job is alone on a node.
fn busy(preset: Preset, waiting: u64) -> Core {
    let mut core = Core::new(NOW, preset, Options { depth: 2, ..Options::default() });
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "cpu".into(),
        kind: UnitKind::Cpu,
        cores: 1,
        nameplate: Power::from_watts(10),
        caps: None,
    };
    let spec = NodeSpec {
        name: "n1".into(),
        units: vec![unit],
        memory: limo_model::Memory::ZERO,
        idle: Power::ZERO,
        meter: limo_model::Meter::None,
        rest: None,
    };
    core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
    for _ in 0..=waiting {
        core.submit(NOW, core.next_job(), Request::one_core("true")).expect("possible");
    }
    core.round(NOW);
    core
}

/// Returns true if one more job makes the core call the policy.
fn asks(preset: Preset, waiting: u64, request: Request) -> bool {
    let mut core = busy(preset, waiting);
    assert!(!core.state().dirty, "a round leaves nothing to ask");
    core.submit(NOW, core.next_job(), request).expect("possible");
    core.state().dirty
}

#[test]
fn a_job_beyond_the_depth_needs_no_plan() {
    let usual = || Request::one_core("true");
    for preset in [Preset::Fifo, Preset::Limo, Preset::LimoPrototype] {
        // The third waiting job exceeds the depth of the policy, so it gets that reason.
        let asked = [0, 1, 2, 3].map(|waiting| asks(preset, waiting, usual()));
        assert_eq!(asked, [true, true, true, false], "{preset}");
        assert!(asks(preset, 3, Request { priority: 1, ..usual() }), "{preset}: it goes before others");
    }
    assert!(asks(Preset::Easy, 3, usual()), "every job may pass others");
}
