//! Admission: the power and the energy that must be left for a start, besides free nodes.

mod equations;
mod gate;

pub(super) use gate::Gate;
