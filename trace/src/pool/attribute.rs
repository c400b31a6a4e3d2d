//! Attributes of jobs and events that are read from HTCondor's records. All others are skipped, and never written.

use std::sync::LazyLock;

/// Kind of value that an attribute has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole number.
    Whole,
    /// Number, which may have decimal places. They are rounded.
    Number,
    /// Text.
    Text,
    /// Seconds since 1970, or a date and a time.
    Time,
}

macro_rules! attributes {
    ($($name:ident: $kind:ident),* $(,)?) => {
        /// Attribute that is read. HTCondor ignores the case of its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are those of HTCondor")]
        pub enum Attribute { $($name),* }

        impl Attribute {
            /// All attributes, in the order in which they are written.
            pub(super) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns HTCondor's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            pub(super) fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind),* }
            }
        }
    };
}

attributes! {
    ClusterId: Whole,
    ProcId: Whole,
    QDate: Whole,
    EnteredCurrentStatus: Whole,
    JobCurrentStartDate: Whole,
    Owner: Text,
    JobStatus: Whole,
    BytesSent: Number,
    BytesRecvd: Number,
    GlobalJobId: Text,
    CompletionDate: Whole,
    RemoteWallClockTime: Number,
    CommittedTime: Number,
    NumJobStarts: Whole,
    NumShadowStarts: Whole,
    CumulativeSuspensionTime: Number,
    CommittedSuspensionTime: Number,
    RequestCpus: Whole,
    RequestMemory: Whole,
    Cmd: Text,
    // Those of events.
    EventTypeNumber: Whole,
    EventTime: Time,
    Cluster: Whole,
    Proc: Whole,
    SentBytes: Number,
    ReceivedBytes: Number,
    TotalSentBytes: Number,
    TotalReceivedBytes: Number,
}

/// Number of attributes.
pub(super) const COUNT: usize = Attribute::ALL.len();

/// Length of the longest name, and 1.
const LENGTHS: usize = 25;

/// Attributes by the length of their names, so that a name is compared with few.
static BY_LENGTH: LazyLock<[Vec<Attribute>; LENGTHS]> = LazyLock::new(|| {
    let of = |length| Attribute::ALL.iter().copied().filter(|attribute| attribute.name().len() == length).collect();
    std::array::from_fn(of)
});

impl Attribute {
    /// Finds the attribute of a name.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let found = BY_LENGTH.get(name.len())?.iter();
        found.copied().find(|attribute| attribute.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_in_any_case() {
        for attribute in Attribute::ALL {
            assert_eq!(Attribute::of(attribute.name().as_bytes()), Some(*attribute));
            assert_eq!(Attribute::of(attribute.name().to_lowercase().as_bytes()), Some(*attribute));
        }
        assert_eq!(Attribute::ALL.iter().map(|attribute| attribute.name().len() + 1).max(), Some(LENGTHS));
        assert_eq!(Attribute::of(b"Requirements"), None);
        assert_eq!(Attribute::of(&[b'x'; 100]), None);
        assert_eq!(Attribute::of(b""), None);
    }
}
