//! Orders: the next job, and the jobs that may pass one that cannot start.

mod batch;
mod builder;
mod conservative;
mod easy;
mod expected;
mod trial;

pub(super) use batch::BatchPass;
pub(super) use builder::{AskedJob, Decision, PlanBuilder};
pub(super) use conservative::ConservativePass;
pub(super) use easy::EasyPass;
