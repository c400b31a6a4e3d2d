//! Orders: the next job, and the jobs that may pass one that cannot start.

mod batch;
mod builder;
mod conservative;
mod easy;
mod expected;
mod list;
mod trial;

pub(super) use batch::BatchPass;
pub(super) use builder::{AskedJob, Decision, PlanBuilder, next_change};
pub(super) use conservative::ConservativePass;
pub(super) use easy::EasyPass;
pub(super) use list::ListPass;
pub(crate) use list::think;
