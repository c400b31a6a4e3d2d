//! Admission: the power and the energy that a start must leave, besides free nodes.

mod equations;
mod gate;

pub(super) use gate::Gate;
