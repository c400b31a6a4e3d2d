//! Hardware report for an operator, through the master. One report of a real machine serves all requests that arrive
//! meanwhile; for emulated hardware it shows the file and the model.

use limo_model::UnitKind;
use limo_power::Emulated;
use limo_proto::{NodeToMaster, Text};

use super::Node;
use crate::exchange::Effect;

/// Most requests that wait for one report.
const WAITING_LIMIT: usize = 1_000;

impl Node {
    pub(super) fn probe(&mut self, ticket: u64) {
        if let Some(model) = self.as_model() {
            let report = emulated(model).into();
            return self.send(NodeToMaster::Probed { ticket, report });
        }
        match &mut self.probing {
            Some(waiting) if waiting.len() >= WAITING_LIMIT => {
                let report = format!("{WAITING_LIMIT} other requests wait for the hardware report of this node").into();
                return self.send(NodeToMaster::Probed { ticket, report });
            }
            Some(waiting) => return waiting.push(ticket),
            None => {}
        }
        self.probing = Some(vec![ticket]);
        let shown = self.meter_in_words();
        self.effect(Effect::Probe { shown });
    }

    pub(super) fn probed(&mut self, report: String) {
        let report = Text::new(report);
        for ticket in self.probing.take().unwrap_or_default() {
            self.send(NodeToMaster::Probed { ticket, report: report.clone() });
        }
    }
}

/// Formats a line of a report: a subject and a value.
pub fn line(what: &str, value: &str) -> String {
    format!("{what:<11} {value}\n")
}

/// Reports emulated hardware in the form of a real machine.
fn emulated(model: &Emulated) -> String {
    let spec = &model.machine().spec;
    let mut text = line("emulated", &format!("machine `{}` of the hardware file: all watts are modelled", spec.name));
    text += &line("memory", &spec.memory.to_string());
    text += &line("draw", &format!("{} emulated, {} of it idle", model.draw(), spec.idle));
    for (index, unit) in spec.units.iter().enumerate() {
        let kind = match unit.kind {
            UnitKind::Cpu => format!("{} cores", unit.cores),
            UnitKind::Accelerator => "an accelerator".to_owned(),
        };
        let cap = match (unit.caps, model.held(index)) {
            (None, _) => "cannot be capped".to_owned(),
            (Some((low, high)), None) => format!("cap {low} to {high}; now none"),
            (Some((low, high)), Some(cap)) => format!("cap {low} to {high}; now {cap}"),
        };
        text += &line(&unit.name, &format!("{}, {kind}, up to {} above idle; {cap}", unit.hardware, unit.nameplate));
    }
    text
}
