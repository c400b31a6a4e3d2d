//! Nodes of a history as a platform.

use limo_model::{NodeSpec, Power, Span};
use limo_trace::Platform;
use limo_trace::platform::{Draw, Group, Names, Rest};

/// Returns the draws of the nodes, each in its own group.
pub fn platform(nodes: &[NodeSpec]) -> Platform {
    Platform { groups: nodes.iter().map(group).collect() }
}

/// Converts a node for the engine: all of its units together.
fn group(spec: &NodeSpec) -> Group {
    let cores = spec.units.iter().map(|unit| unit.cores).sum();
    let nameplate: Power = spec.units.iter().map(|unit| unit.nameplate).sum();
    let draw = Draw { idle: spec.idle, busy: spec.idle + nameplate };
    let rest = spec.rest().map(|rest| Rest {
        draw: rest.draw,
        down_time: rest.down.span,
        down_draw: rest.down.draw,
        up_time: rest.up.span,
        up_draw: rest.up.draw,
    });
    Group {
        names: Names::One(spec.name.clone()),
        count: 1,
        cores,
        memory: Some(spec.memory),
        hardware: spec.units.first().map(|unit| unit.hardware.clone()).unwrap_or_default(),
        units: Vec::new(),
        start_delay: Span::ZERO,
        variation: None,
        draw,
        believed: draw,
        rest,
    }
}
