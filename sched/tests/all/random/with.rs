//! Steps with more kinds of jobs than the golden worlds have.

use proptest::prelude::*;

use super::{Ask, Step};

/// Returns steps in which many jobs request accelerators, some with cores next to them; the golden worlds have no
/// such steps.
pub fn with_cores(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let accelerators = proptest::option::weighted(0.3, 1..=2_u32);
    (steps, accelerators, any::<bool>()).prop_map(|(step, accelerators, with_cores)| match step {
        Step::Submit(ask) => {
            Step::Submit(Ask { accelerators: accelerators.unwrap_or(ask.accelerators), with_cores, ..ask })
        }
        step => step,
    })
}

/// Makes some jobs packed, some of them with more chunks than there are nodes. The golden worlds do not have them.
pub fn with_packs(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    (steps, proptest::option::weighted(0.25, 0..5_u32)).prop_map(|(step, more)| match (step, more) {
        (Step::Submit(ask), Some(more)) => Step::Submit(Ask { nodes: ask.nodes + more, packed: true, ..ask }),
        (step, _) => step,
    })
}

/// Adds queues, and names one of them for some jobs. The golden worlds have none.
pub fn with_queues(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let queue = (prop_oneof![1 => Just(0), 2 => 1..8_u8], proptest::bool::weighted(0.2));
    let step = (steps, proptest::option::of(0..2_u8)).prop_map(|(step, queue)| match step {
        Step::Submit(ask) => Step::Submit(Ask { queue, ..ask }),
        step => step,
    });
    prop_oneof![9 => step, 1 => [queue.clone(), queue].prop_map(Step::Queues)]
}

/// Adds two kinds of licences, which some jobs need. The golden worlds have none.
pub fn with_licences(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let needs = proptest::option::weighted(0.4, [0..3_u32, 0..3_u32]);
    let step = (steps, needs).prop_map(|(step, needs)| match step {
        Step::Submit(ask) => Step::Submit(Ask { licences: needs.unwrap_or_default(), ..ask }),
        step => step,
    });
    prop_oneof![9 => step, 1 => [0..5_u32, 0..5_u32].prop_map(Step::Licences)]
}

/// Adds accounts and QOS with limits, which some jobs name. The golden worlds have none.
pub fn with_accounts(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let maybe = |most: u32| proptest::option::weighted(0.4, 0..most);
    let limits = (maybe(4), maybe(8)).prop_map(|(jobs, cores)| [jobs, cores]);
    let names = (proptest::option::of(0..3_u8), proptest::option::weighted(0.3, 0..2_u8));
    let step = (steps, names).prop_map(|(step, (account, qos))| match step {
        Step::Submit(ask) => Step::Submit(Ask { account, qos, ..ask }),
        step => step,
    });
    prop_oneof![
        18 => step,
        1 => [limits.clone(), limits.clone(), limits.clone()].prop_map(Step::Accounts),
        1 => [limits.clone(), limits].prop_map(Step::Qos),
    ]
}

/// Gives some jobs a range of nodes, which may be wider than the cluster. Packed jobs cannot have one.
pub fn with_ranges(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    (steps, proptest::option::weighted(0.15, 1..4_u32)).prop_map(|(step, more)| match (step, more) {
        (Step::Submit(ask), Some(more_nodes)) if !ask.packed => Step::Submit(Ask { more_nodes, ..ask }),
        (step, _) => step,
    })
}

/// Adds groups of nodes with limits, owners, rules for sleep and reboots. The golden worlds have none.
pub fn with_groups(steps: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let group = (0..8_u8, 10..150_i64);
    prop_oneof![
        11 => steps,
        1 => [group.clone(), group].prop_map(Step::Groups),
        2 => (0..8_u8, any::<bool>()).prop_map(|(node, comes)| Step::Owner(node, comes)),
        1 => (0..8_u8, any::<u8>()).prop_map(|(node, step)| Step::Reboot(node, step)),
    ]
}

/// Jobs, cores, watt-hours and submissions.
pub(super) fn quota() -> impl Strategy<Value = [Option<u32>; 4]> {
    let maybe = |range: std::ops::Range<u32>| proptest::option::weighted(0.4, range);
    (maybe(0..3), maybe(0..6), maybe(0..20), maybe(3..9)).prop_map(|(jobs, cores, wh, all)| [jobs, cores, wh, all])
}
