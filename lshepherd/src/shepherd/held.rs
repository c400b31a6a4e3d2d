//! Attempts that outlive `lslave`: they are held until they are released, with their streams and the answers about them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use limo_shepherd::processes::children;
use limo_shepherd::{Answer, BootTime, Claim, Handle};
use nix::poll::PollFlags;

use super::Shepherd;
use crate::home::{Home, leave_stderr};
use crate::stdio::Rings;

impl Shepherd {
    /// Answers a new connection: what this process is and holds, and every answer about it.
    pub fn greet(&mut self) {
        // Answers for an earlier connection are repeated, or nobody needs them any longer.
        self.answers.clear();
        self.is_ready_due = false;
        let now = BootTime::now();
        let held = self.attempts.iter().find_map(|(handle, attempt)| Some((attempt.holds(*handle, now)?, attempt)));
        if held.is_none() && self.session.was_begun() {
            return self.session.spend();
        }
        let (holds, told) = held.map(|(holds, attempt)| (Box::new(holds), attempt.told.clone())).unzip();
        self.answers.push_back(Answer::Hello { pid: std::process::id().cast_signed(), holds });
        self.answers.extend(told.into_iter().flatten());
    }

    /// Listens in a directory, so that jobs outlive the connection.
    pub(super) fn settle_in(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        let directory =
            descriptors.into_iter().next().ok_or_else(|| io::Error::other("no directory came with the order"));
        match directory.and_then(|directory| Ok((Home::open(directory, name)?, Rings::new()?))) {
            Ok(home) => {
                self.home = Some(home);
                leave_stderr();
                self.greet();
            }
            Err(error) => {
                self.has_failed = true;
                self.trouble(format!("cannot listen for a later lslave: {error}"));
            }
        }
    }

    /// Returns the descriptors of the streams' memory.
    pub fn memory(&self) -> Vec<BorrowedFd<'_>> {
        self.home.iter().flat_map(|(_, Rings(rings))| rings.iter().map(AsFd::as_fd)).collect()
    }

    /// Takes the name of an attempt, before anything of it is started.
    pub(super) fn claimed(&mut self, claim: Option<Claim>) -> io::Result<()> {
        let Some(claim) = claim else { return Ok(()) };
        let refused = |what| io::Error::other(what);
        let (home, rings) = self.home.as_mut().ok_or_else(|| refused("lshepherd has no directory"))?;
        if !self.attempts.is_empty() {
            return Err(refused("lshepherd holds another job"));
        }
        rings.reset();
        home.claim(Some(claim))
    }

    /// Gives an answer about an attempt, which a later `lslave` gets again.
    pub(super) fn tell(&mut self, handle: Handle, answer: Answer) {
        if let Some(attempt) = self.attempts.get_mut(&handle) {
            attempt.told.push(answer.clone());
        }
        self.answers.push_back(answer);
    }

    /// Handles the end of an attempt without processes or output. Forgets it, unless `lslave` must release it first.
    pub(super) fn over(&mut self, handle: Handle) {
        self.remove_carried(handle);
        self.leave_group(handle);
        self.session.attempt_is_over();
        let Some(attempt) = self.attempts.get_mut(&handle) else { return };
        attempt.is_over = true;
        if attempt.claim.is_none() || attempt.is_released {
            self.forget(handle);
        }
    }

    /// Forgets an attempt as soon as nothing is left of it.
    pub(super) fn release(&mut self, handle: Handle) {
        self.is_ready_due = true;
        if let Some(attempt) = self.attempts.get_mut(&handle) {
            attempt.is_released = true;
            attempt.stdio.discard();
            if attempt.is_over {
                self.forget(handle);
            }
        }
        self.ready_if_settled();
    }

    fn forget(&mut self, handle: Handle) {
        let Some(attempt) = self.attempts.remove(&handle) else { return };
        self.abandoned.extend(attempt.command.and_then(|command| command.into_running()));
        let claim = attempt.claim;
        if let Some((home, _)) = self.home.as_mut().filter(|_| claim.is_some())
            && let Err(error) = home.claim(None)
        {
            self.trouble(format!("cannot rename the socket: {error}"));
        }
    }

    /// Returns true if this process has nothing to do without `lslave`.
    pub fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.workers.is_empty()
    }

    /// Tells `lslave` that another job can be launched, once no process is left. Ends this process instead if it has
    /// begun a session.
    pub(super) fn ready_if_settled(&mut self) {
        if self.session.was_begun() {
            if self.is_ready_due && self.is_idle() {
                self.session.spend();
            }
            return;
        }
        let is_settled = || self.is_idle() && self.abandoned.is_empty() && children().is_none_or(|all| all.is_empty());
        if self.is_ready_due && is_settled() {
            self.is_ready_due = false;
            self.answers.push_back(Answer::Ready);
        }
    }

    /// Returns the streams that can make progress when they are ready.
    pub fn streams(&self) -> Vec<(Handle, usize, BorrowedFd<'_>, PollFlags)> {
        let Some((_, rings)) = &self.home else { return Vec::new() };
        let all = self.attempts.iter();
        all.flat_map(|(handle, attempt)| {
            attempt.stdio.interest(rings).map(|(index, stream, flags)| (*handle, index, stream, flags))
        })
        .collect()
    }

    /// Handles a stream that is ready.
    pub fn stream_ready(&mut self, handle: Handle, index: usize) {
        if let (Some(attempt), Some((_, rings))) = (self.attempts.get_mut(&handle), &mut self.home)
            && attempt.stdio.move_bytes(index, rings)
        {
            self.answers.push_back(Answer::Moved { handle });
        }
    }

    /// Handles bytes of stdin that `lslave` has added.
    pub(super) fn woken(&mut self, handle: Handle) {
        if let (Some(attempt), Some((_, rings))) = (self.attempts.get_mut(&handle), &mut self.home)
            && attempt.stdio.woken(rings)
        {
            self.answers.push_back(Answer::Moved { handle });
        }
    }

    /// Ends the outputs of commands that are over, though a hidden process holds them open.
    pub(super) fn close_outputs(&mut self, now: BootTime) {
        let Some((_, rings)) = &mut self.home else { return };
        for (handle, attempt) in &mut self.attempts {
            if attempt.close_by.is_some_and(|by| by <= now) {
                attempt.close_by = None;
                if attempt.stdio.close(rings) {
                    self.answers.push_back(Answer::Moved { handle: *handle });
                }
            }
        }
    }
}
