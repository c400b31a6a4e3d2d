//! Faults that tests inject into the controller to check that they detect them. Other builds contain none.

/// A fault of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A client is answered before the result is on disk.
    AnsweredEarly,
    /// A reconnected node does not get its orders to stop again.
    StopNotRepeated,
    /// The end of an attempt is not acknowledged to its node.
    EndNotAcknowledged,
    /// Jobs of an unreachable node end before their leases do.
    LeaseNotAwaited,
    /// The draw of jobs on a lost node is not held.
    DrawFreedEarly,
    /// A repeated submission is not recognized.
    SubmissionForgotten,
    /// The time for acknowledgements has no end.
    AcknowledgementNotDue,
    /// The attempts that a node reports at its registration are ignored.
    ReportsIgnored,
    /// A restarted machine counts as the same as before.
    RestartOverlooked,
    /// Deadlines follow the wall clock.
    WallClockFollowed,
    /// A node whose connection breaks before it has answered an order to sleep counts as unreachable, and is never woken.
    SleeperForgotten,
    /// A node that does not wake is not woken again.
    WokenOnce,
    /// The offset of stdin that a node reports at its registration is ignored.
    WindowLost,
    /// Peers could not reach a master that did not run, and it counts this time as their silence.
    AbsenceOverlooked,
    /// A peer that gives no sign of life is not noticed.
    HeartbeatOff,
    /// A user gets more connections than the limit.
    LimitIgnored,
    /// A node counts as capped as soon as it is told, before it confirms its caps.
    CapsBelievedEarly,
    /// The answer to an earlier suspension counts as that to the last one.
    AnswersConfused,
}

#[cfg(test)]
impl Fault {
    /// All faults.
    pub const ALL: [Self; 18] = [
        Self::AnsweredEarly,
        Self::StopNotRepeated,
        Self::EndNotAcknowledged,
        Self::LeaseNotAwaited,
        Self::DrawFreedEarly,
        Self::SubmissionForgotten,
        Self::AcknowledgementNotDue,
        Self::ReportsIgnored,
        Self::RestartOverlooked,
        Self::WallClockFollowed,
        Self::SleeperForgotten,
        Self::WokenOnce,
        Self::WindowLost,
        Self::AbsenceOverlooked,
        Self::HeartbeatOff,
        Self::LimitIgnored,
        Self::CapsBelievedEarly,
        Self::AnswersConfused,
    ];
}

#[cfg(test)]
thread_local! {
    static INJECTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Injects a fault into the masters of this thread, or removes it.
#[cfg(test)]
pub fn inject(fault: Option<Fault>) {
    INJECTED.set(fault);
}

#[cfg(test)]
pub fn has(fault: Fault) -> bool {
    INJECTED.get() == Some(fault)
}

#[cfg(not(test))]
pub const fn has(_: Fault) -> bool {
    false
}
