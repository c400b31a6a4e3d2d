//! Faults that tests put into the step, to see that they find them. Without the feature `faults` there are none.

/// A fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An end is told before it is recorded.
    ToldBeforeDurable,
    /// An end is forgotten before the master has acknowledged it.
    ForgottenEarly,
    /// A command that an earlier daemon may have started is started again.
    StartedAgain,
    /// The lease of an attempt is not enforced.
    LeaseForgotten,
    /// The time limit of an attempt is not enforced.
    LimitForgotten,
    /// The record of another journal counts as the master's.
    ForeignAdopted,
    /// Caps are confirmed before they are set.
    CapsConfirmedEarly,
    /// An exit code that an earlier daemon recorded is told wrongly.
    CodeChanged,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ToldBeforeDurable,
        Self::ForgottenEarly,
        Self::StartedAgain,
        Self::LeaseForgotten,
        Self::LimitForgotten,
        Self::ForeignAdopted,
        Self::CapsConfirmedEarly,
        Self::CodeChanged,
    ];
}

#[cfg(feature = "faults")]
thread_local! {
    static INJECTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Has the nodes of this thread make a mistake, or none, from now on.
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
