//! Faults that tests put into the controller, to see that they find them. Outside tests there are none.

/// A fault of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A client is answered before what it is told is on disk.
    AnsweredEarly,
    /// A node that comes back is not told again which of its jobs are to end.
    StopNotRepeated,
}

#[cfg(test)]
impl Fault {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::AnsweredEarly, Self::StopNotRepeated];
}

#[cfg(test)]
thread_local! {
    static INJECTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Has the masters of this thread make a mistake, or none, from now on.
#[cfg(test)]
pub fn inject(fault: Option<Fault>) {
    INJECTED.set(fault);
}

#[cfg(test)]
pub(super) fn has(fault: Fault) -> bool {
    INJECTED.get() == Some(fault)
}

#[cfg(not(test))]
pub(super) const fn has(_: Fault) -> bool {
    false
}
