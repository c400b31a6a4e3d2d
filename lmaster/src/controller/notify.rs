//! Events of jobs for the program of the site. They are told when they are on disk, at most once.

use limo_model::{JobEnd, JobId, Mail, MailEvent, Request};
use limo_proto::{JobReport, JobState};

use super::commit::After;
use super::tx::Tx;
use super::{Controller, Effect};
use crate::messenger::{Errand, Notification};

/// Returns true if an event of a job is to be told; `is_task` for the task of an array.
fn is_wanted(all: bool, mail: Option<&Mail>, event: MailEvent, is_task: bool) -> bool {
    let asks = |event| mail.is_some_and(|mail| mail.events.has(event));
    if is_task { asks(MailEvent::ArrayTasks) && asks(event) } else { all || asks(event) }
}

fn mail_user(request: &Request) -> String {
    let given = request.mail.as_ref().map(|mail| mail.user.clone()).filter(|user| !user.is_empty());
    given.unwrap_or_else(|| request.user.clone())
}

impl Tx {
    /// Tells an event of a job that is not over, once it is on disk.
    pub(super) fn tell_site(&mut self, id: JobId, (event, state): (MailEvent, JobState)) {
        let Some(settings) = &self.settings.notify else { return };
        let Some(job) = self.core.job(id).filter(|job| job.request.step.is_none()) else { return };
        let request = &job.request;
        if !is_wanted(settings.all, request.mail.as_deref(), event, self.core.array_of(id).is_some()) {
            return;
        }
        let notification = Notification {
            event,
            job: id,
            name: request.name.clone(),
            user: request.user.clone(),
            mail_user: mail_user(request),
            state: state.name(),
            exit_code: None,
        };
        let errand = Errand { settings: settings.clone(), notification };
        self.commits.batch().gate(After::Tell(Box::new(errand)));
    }
}

impl Controller {
    /// Tells the end of a job, which is on disk.
    pub(super) fn tell_end(&mut self, report: &JobReport) {
        let Some(settings) = &self.tx.settings.notify else { return };
        let Some(live) = self.live_of(report.job).filter(|_| report.step.is_none()) else { return };
        let mail = live.request.mail.as_deref();
        let wants = |event| is_wanted(settings.all, mail, event, report.task.is_some());
        let has_failed = report.state != JobState::Completed;
        let event = match (has_failed, wants(MailEvent::Fail), wants(MailEvent::End)) {
            (true, true, _) => MailEvent::Fail,
            (_, _, true) => MailEvent::End,
            _ => return,
        };
        let exit_code = match &report.end {
            Some(JobEnd::Ran { outcome, .. }) => Some(outcome.exit_code()),
            _ => None,
        };
        let notification = Notification {
            event,
            job: report.job,
            name: report.name.clone(),
            user: report.user.clone(),
            mail_user: mail_user(&live.request),
            state: report.state.name(),
            exit_code,
        };
        let errand = Errand { settings: settings.clone(), notification };
        self.tx.effects.push(Effect::Tell(Box::new(errand)));
    }
}
