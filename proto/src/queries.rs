//! Queries of clients and their answers. Messages, costs and dispatch follow from [`for_each_query!`](crate::for_each_query).

use limo_model::{Drawn, Factor, JobId, Profile, ProfileKey, Request, Reservation, Time, UnitName};
use serde::{Deserialize, Serialize};

use crate::accounts::{AccountReport, AccountsQuery, QosQuery, QosReport};
use crate::backup::{BackupReport, JournalSizes};
use crate::candidates::{DryRun, Explanation};
use crate::energy::{EnergyQuery, EnergyReport};
use crate::groups::{GroupReport, GroupsQuery};
use crate::history::{ChangeReport, UndoReport};
use crate::plan::{PlanQuery, PlanReport};
use crate::predictor::{PredictorQuery, PredictorReport};
use crate::queues::{QueueReport, QueuesQuery};
use crate::readings::{ReadingsQuery, ReadingsReport};
use crate::report::{JobReport, NodeDetail, NodeReport};
use crate::select::{Finished, JobFilter, ListingQuery, Selection};
use crate::status::Status;
use crate::usage::{UsageQuery, UsageReport};
use crate::users::UsersReport;
use crate::web::{WebQuery, WebReport};

/// A query of some type, with the type of its answer.
pub trait Asking: Into<Query> {
    /// The type of the master's answer.
    type Answer;

    /// The cost for the master.
    const COST: Cost;

    /// Takes the answer out of a message.
    ///
    /// # Errors
    /// The message itself, if it answers another query.
    fn answer(found: Answer) -> Result<Self::Answer, Answer>;
}

/// The cost of a query for the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// The query is served at once.
    Light,
    /// The query is queued with its user's other queries, and served in slices.
    Heavy,
}

/// Lists all queries for a macro. The order is that of the wire, so a new one comes last. A line has the variant of
/// [`Query`] with its type, the [`Cost`], and the type of the answer with its place in [`Answer`].
#[macro_export]
macro_rules! for_each_query {
    ($then:ident) => {
        $then! {
            Jobs(JobsQuery), Heavy, JobsPage: match {
                Answer::Jobs(jobs) => JobsPage { jobs, next: None },
                Answer::JobsUpTo { jobs, next } => JobsPage { jobs, next: Some(next) }
            };
            Job(JobQuery), Light, Vec<JobReport>: match { Answer::Jobs(jobs) => jobs };
            Explain(ExplainQuery), Heavy, Explanation: match { Answer::Explanation(explanation) => *explanation };
            Wait(WaitQuery), Light, Vec<JobReport>: match { Answer::Jobs(jobs) => jobs };
            Nodes(NodesQuery), Heavy, Vec<NodeReport>: match { Answer::Nodes(nodes) => nodes };
            Status(StatusQuery), Light, Status: match { Answer::Status(status) => *status };
            Profiles(ProfilesQuery), Heavy, Vec<(ProfileKey, Profile)>: match { Answer::Profiles(profiles) => profiles };
            DryRun(DryRunQuery), Heavy, DryRun: match { Answer::DryRun(result) => *result };
            Node(NodeQuery), Light, NodeDetail: match { Answer::Node(detail) => *detail };
            Readings(ReadingsQuery), Heavy, ReadingsReport: match {
                Answer::Readings { emulated, intervals } => ReadingsReport { emulated, intervals }
            };
            Select(SelectQuery), Heavy, Vec<JobId>: match { Answer::Selected(jobs) => jobs };
            History(Finished), Heavy, HistoryPage: match { Answer::History { jobs, more } => HistoryPage { jobs, more } };
            Energy(EnergyQuery), Heavy, EnergyReport: match { Answer::Energy(report) => *report };
            Changes(ChangesQuery), Light, ChangesPage: match {
                Answer::Changes { changes, more } => ChangesPage { changes, more }
            };
            BackupPart(BackupPartQuery), Light, Vec<u8>: match { Answer::BackupPart(bytes) => bytes };
            Reservations(ReservationsQuery), Light, Vec<(String, Reservation)>: match {
                Answer::Reservations(reservations) => reservations
            };
            Users(UsersQuery), Heavy, UsersReport: match { Answer::Users(report) => *report };
            Variation(VariationQuery), Heavy, Vec<(UnitName, Factor)>: match { Answer::Variation(factors) => factors };
            Queues(QueuesQuery), Heavy, Vec<QueueReport>: match { Answer::Queues(queues) => queues };
            Predictor(PredictorQuery), Light, PredictorReport: match { Answer::Predictor(report) => report };
            Groups(GroupsQuery), Heavy, Vec<GroupReport>: match { Answer::Groups(groups) => groups };
            Listing(ListingQuery), Heavy, HistoryPage: match { Answer::History { jobs, more } => HistoryPage { jobs, more } };
            Plan(PlanQuery), Heavy, PlanReport: match { Answer::Plan(report) => *report };
            Web(WebQuery), Light, WebReport: match { Answer::Web(report) => report };
            Accounts(AccountsQuery), Heavy, Vec<AccountReport>: match { Answer::Accounts(accounts) => accounts };
            Qos(QosQuery), Heavy, Vec<QosReport>: match { Answer::Qos(qos) => qos };
            Usage(UsageQuery), Light, UsageReport: match { Answer::Usage(report) => report };
        }
    };
}

macro_rules! define {
    ($($name:ident($query:ty), $cost:ident, $answer:ty: match { $($found:pat => $value:expr),+ };)+) => {
        /// A query on the wire. Each is answered by one [`Answer`] or `Refused`.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the types say what they ask")]
        pub enum Query {
            $($name($query),)+
        }

        impl Query {
            /// Returns the cost for the master.
            pub fn cost(&self) -> Cost {
                match self {
                    $(Self::$name(_) => <$query>::COST,)+
                }
            }
        }

        $(
            impl From<$query> for Query {
                fn from(query: $query) -> Self {
                    Self::$name(query)
                }
            }

            impl Asking for $query {
                type Answer = $answer;

                const COST: Cost = Cost::$cost;

                fn answer(found: Answer) -> Result<$answer, Answer> {
                    match found {
                        $($found => Ok($value),)+
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

for_each_query!(define);

/// Asks for waiting and running jobs that pass the filter, and for finished ones after the last of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsQuery {
    /// Filter of jobs.
    pub filter: JobFilter,
    /// First number.
    pub from: JobId,
    /// Most finished jobs, the newest first.
    pub ended: u32,
}

/// The answer to a [`JobsQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobsPage {
    /// Jobs by number.
    pub jobs: Vec<JobReport>,
    /// First number of the next page, if any.
    pub next: Option<JobId>,
}

/// Asks for a job, finished or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobQuery(pub JobId);

/// Asks for the reason why a job waits, and the places where it could run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainQuery(pub JobId);

/// Waits until all of these jobs are over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitQuery(pub Vec<JobId>);

/// Asks for all known nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesQuery;

/// Asks for the present state of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusQuery;

/// Asks for all profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfilesQuery;

/// Asks for the candidates of a request and the reason why it would wait now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunQuery(pub Box<Request>);

/// Asks for a node with its own report; only for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeQuery(pub String);

/// Asks for the numbers of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectQuery {
    /// The selected jobs.
    pub selection: Selection,
    /// True to omit finished jobs.
    pub live: bool,
}

/// The answer to [`Finished`] and to a [`ListingQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage {
    /// Jobs, of [`Finished`] the newest first.
    pub jobs: Vec<JobReport>,
    /// True if more jobs follow.
    pub more: bool,
}

/// A part of the list of changes, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChangesQuery {
    /// Earliest time of the changes.
    pub since: Option<Time>,
    /// Operator who made the changes.
    pub by: Option<String>,
    /// Exclusive upper bound of the numbers, to continue a long list.
    pub before: Option<u64>,
    /// Most changes.
    pub limit: u32,
}

/// The answer to a [`ChangesQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesPage {
    /// Changes, newest first.
    pub changes: Vec<ChangeReport>,
    /// True if more changes follow.
    pub more: bool,
}

/// Asks for at most [`crate::BACKUP_PART`] bytes of a file of the backup that was made on this connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupPartQuery {
    /// Index in the report of the backup.
    pub file: u32,
    /// Offset of the first byte.
    pub offset: u64,
}

/// Asks for the reservations that are not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationsQuery;

/// Asks for quotas, shares and use of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersQuery;

/// Asks for the differences of units from the profiles of their hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariationQuery;

/// The answer to a [`Query`] or a [`Change`](crate::Change).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Answer {
    /// Answer to [`JobsQuery`], [`JobQuery`] and [`WaitQuery`].
    Jobs(Vec<JobReport>),
    /// Answer to [`ExplainQuery`].
    Explanation(Box<Explanation>),
    /// Answer to [`NodesQuery`].
    Nodes(Vec<NodeReport>),
    /// Answer to [`StatusQuery`].
    Status(Box<Status>),
    /// Answer to [`ProfilesQuery`].
    Profiles(Vec<(ProfileKey, Profile)>),
    /// Answer to [`DryRunQuery`].
    DryRun(Box<DryRun>),
    /// The change is on disk and in force.
    Done,
    /// Answer to [`NodeQuery`].
    Node(Box<NodeDetail>),
    /// Intervals in the order of time; `emulated` is true if any of the watts are emulated.
    Readings { emulated: bool, intervals: Vec<Drawn> },
    /// The selected jobs.
    Selected(Vec<JobId>),
    /// Answer to [`Finished`] and [`ListingQuery`]; `more` is true if further jobs follow.
    History { jobs: Vec<JobReport>, more: bool },
    /// Answer to [`EnergyQuery`].
    Energy(Box<EnergyReport>),
    /// Changes, newest first; `more` is true if further changes follow.
    Changes { changes: Vec<ChangeReport>, more: bool },
    /// Items that were undone, or would be undone.
    Undone(Box<UndoReport>),
    /// A backup is ready to be fetched.
    Backup(BackupReport),
    /// Answer to [`BackupPartQuery`]: bytes from the offset on.
    BackupPart(Vec<u8>),
    /// Reservations by name.
    Reservations(Vec<(String, Reservation)>),
    /// Answer to [`UsersQuery`].
    Users(Box<UsersReport>),
    /// Jobs with numbers below `next`, which begins the next page.
    JobsUpTo { jobs: Vec<JobReport>, next: JobId },
    /// The journal was compacted.
    Compacted(JournalSizes),
    /// The change is on disk and in force; these are warnings about it.
    Warned(Vec<String>),
    /// Answer to [`VariationQuery`].
    Variation(Vec<(UnitName, Factor)>),
    /// Answer to [`QueuesQuery`].
    Queues(Vec<QueueReport>),
    /// Answer to [`PredictorQuery`].
    Predictor(PredictorReport),
    /// Answer to [`GroupsQuery`].
    Groups(Vec<GroupReport>),
    /// Answer to [`PlanQuery`].
    Plan(Box<PlanReport>),
    /// Answer to [`WebQuery`].
    Web(WebReport),
    /// Answer to [`AccountsQuery`].
    Accounts(Vec<AccountReport>),
    /// Answer to [`QosQuery`].
    Qos(Vec<QosReport>),
    /// Answer to [`UsageQuery`].
    Usage(UsageReport),
}
