//! States of a node in ledgers of time and energy (htc-sim-2015, equation 1).

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeActivity {
    /// Asleep.
    Sleep,
    /// Awake, without a job or an owner.
    Idle,
    /// Used by its owner.
    User,
    /// Running a job.
    Job,
    /// Running a job beside its owner.
    Both,
    /// With a job that stands still.
    Suspended,
    /// Falling asleep.
    Down,
    /// Waking.
    Up,
    /// Starting anew.
    Reboot,
    /// Unreachable.
    Away,
}

impl NodeActivity {
    /// All states, in the order of reports. A simulated node is never away.
    pub const ALL: [Self; 10] = [
        Self::Sleep,
        Self::Idle,
        Self::User,
        Self::Job,
        Self::Both,
        Self::Suspended,
        Self::Down,
        Self::Up,
        Self::Reboot,
        Self::Away,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Idle => "idle",
            Self::User => "user",
            Self::Job => "job",
            Self::Both => "both",
            Self::Suspended => "suspended",
            Self::Down => "down",
            Self::Up => "up",
            Self::Reboot => "reboot",
            Self::Away => "away",
        }
    }
}
