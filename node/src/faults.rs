//! Faults that tests inject into the step, to check that they detect them. The feature `faults` enables them.

/// Fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An end is reported before it is recorded.
    ToldBeforeDurable,
    /// An end is forgotten before the master has acknowledged it.
    ForgottenEarly,
    /// A command that a shepherd has started for an earlier daemon is started again.
    StartedAgain,
    /// The lease of an attempt is not enforced.
    LeaseForgotten,
    /// The time limit of an attempt is not enforced.
    LimitForgotten,
    /// The record of another journal counts as one of the master's journal.
    ForeignAdopted,
    /// Caps are confirmed before they are set.
    CapsConfirmedEarly,
    /// An exit code from the records of an earlier daemon is reported wrongly.
    CodeChanged,
    /// A shepherd may forget its job before the end is recorded.
    ReleasedEarly,
    /// The job of a killed shepherd is not reported.
    LossUntold,
    /// A job is started after its prolog has failed.
    PrologIgnored,
    /// The end of a job is recorded without its epilog.
    EpilogSkipped,
    /// An assignment is acknowledged before it is recorded.
    AcknowledgedEarly,
    /// A changed time limit of a running job is ignored.
    LimitNotChanged,
    /// Caps outlive the lease of an unreachable master.
    CapsKept,
    /// Jobs that start beside the owner are not suspended.
    OwnerOverlooked,
    /// Ended jobs are not reported at a registration while their output is not delivered.
    OutputUnreported,
    /// The reason of a script is reported in its full length.
    ReasonUnbounded,
    /// A daemon lifts the caps of an earlier one although jobs go on.
    CapsLifted,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 19] = [
        Self::ToldBeforeDurable,
        Self::ForgottenEarly,
        Self::StartedAgain,
        Self::LeaseForgotten,
        Self::LimitForgotten,
        Self::ForeignAdopted,
        Self::CapsConfirmedEarly,
        Self::CodeChanged,
        Self::ReleasedEarly,
        Self::LossUntold,
        Self::PrologIgnored,
        Self::EpilogSkipped,
        Self::AcknowledgedEarly,
        Self::LimitNotChanged,
        Self::CapsKept,
        Self::OwnerOverlooked,
        Self::OutputUnreported,
        Self::ReasonUnbounded,
        Self::CapsLifted,
    ];
}

#[cfg(feature = "faults")]
thread_local! {
    static INJECTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Injects a fault into the nodes of this thread, or removes it.
#[cfg(feature = "faults")]
pub fn inject(fault: Option<Fault>) {
    INJECTED.set(fault);
}

#[cfg(feature = "faults")]
pub(crate) fn has(fault: Fault) -> bool {
    INJECTED.get() == Some(fault)
}

#[cfg(not(feature = "faults"))]
pub(crate) const fn has(_: Fault) -> bool {
    false
}
