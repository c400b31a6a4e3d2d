//! Orders: the next job, and the jobs that may pass one that cannot start.

mod builder;
mod conservative;
mod easy;
mod expected;
mod trial;

pub(super) use builder::{AskedJob, Decision, PlanBuilder};
pub(super) use conservative::ConservativePass;
pub(super) use easy::EasyPass;
