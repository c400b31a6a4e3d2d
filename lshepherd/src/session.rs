//! The PAM session of this process, and what the job inherits from it. A process opens at most one and then ends,
//! because modules change it for good.

use limo_shepherd::{PamSession, Plan};

use crate::limits::Limits;
use crate::pam::Session;

/// State of the session of this process.
#[derive(Default)]
pub struct SessionState {
    open: Option<Session>,
    was_begun: bool,
    /// True if nothing is left of the attempt.
    is_due: bool,
    /// True if this process has nothing more to do.
    is_spent: bool,
}

impl SessionState {
    /// Opens the session of the plan, if it has one, and adds its environment below that of the job. Returns the limits
    /// of the job, which modules may change; the limits of this process stay as they are.
    ///
    /// # Errors
    /// The reason for the user.
    pub fn begin(&mut self, plan: &mut Plan, jobs: Limits) -> Result<Limits, String> {
        let Some(wanted) = plan.session.take() else { return Ok(jobs) };
        self.was_begun = true;
        let own = Limits::current();
        jobs.apply();
        let opened = Session::open(&wanted);
        let limits = Limits::current();
        own.apply();
        let (session, environment) = opened?;
        self.open = Some(session);
        add_below(&mut plan.env, environment);
        Ok(limits)
    }

    /// Returns the reason for a session that was opened too late.
    pub fn late(PamSession { service, user }: &PamSession) -> String {
        format!("PAM service `{service}` took too long to open a session for user `{user}`")
    }

    /// Marks the session as due to be closed.
    pub fn attempt_is_over(&mut self) {
        self.is_due = true;
    }

    /// Closes the session if it is due. A module may block.
    pub fn close(&mut self) {
        if self.is_due || self.is_spent {
            self.open = None;
        }
    }

    /// Returns true if this process has begun a session, so that it cannot take another job.
    pub fn was_begun(&self) -> bool {
        self.was_begun
    }

    /// Marks this process as one that ends as soon as its session is closed.
    pub fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Returns true if the session is closed and this process has to end.
    pub fn has_ended(&self) -> bool {
        self.is_spent && self.open.is_none()
    }
}

/// Adds the variables that the job does not have.
fn add_below(env: &mut Vec<Vec<u8>>, below: Vec<Vec<u8>>) {
    let name = |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let own: Vec<_> = env.iter().map(|variable| name(variable)).collect();
    env.extend(below.into_iter().filter(|variable| !own.contains(&name(variable))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_the_job_stays() {
        let texts = |all: &[&str]| all.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        let mut env = texts(&["A=job", "AB=", "C"]);
        add_below(&mut env, texts(&["AB=pam", "B=pam=1", "A=pam", "C=pam"]));
        assert_eq!(env, texts(&["A=job", "AB=", "C", "B=pam=1"]));
    }
}
