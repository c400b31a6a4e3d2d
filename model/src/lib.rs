//! The vocabulary that all parts of Limo share: ids, physical units, time, curves, nodes, jobs, profiles, policies,
//! wait reasons and ends of jobs.
//!
//! Pure data, without clock, file or socket. Values are fixed-point integers, so equal inputs give equal bytes on
//! every machine.

#![warn(missing_docs)]

mod account;
mod activity;
mod allowance;
mod backoff;
mod became;
mod budget;
mod causes;
mod checkpoint;
mod chunk;
mod clock;
mod conditions;
mod confidence;
mod cpu_bind;
mod currency;
mod curve;
mod digest;
mod drawn;
mod ending;
mod failure;
mod fairshare;
mod file_name;
mod group;
mod host_list;
mod hosts;
mod id;
mod identity;
mod job;
mod job_share;
mod labels;
mod lease;
mod licence;
mod mail;
mod memory;
mod mode;
mod node;
mod number;
mod over_quota;
mod overrides;
mod owner;
mod pace;
mod placement;
mod predicted;
#[allow(missing_docs, reason = "the table of policies says what each part is")]
mod preset;
pub mod preset_page;
mod profile;
mod qos;
mod queue;
mod quota;
mod reboot;
mod reservation;
mod restart;
mod session;
mod sleep;
mod slowdown;
mod spread;
mod standing;
mod step;
mod tariff;
mod tasks;
mod text;
mod time;
mod units;
mod variation;
mod wait;
mod wake;
mod widths;

pub mod application;
pub mod as_text;
pub mod decimal;
pub mod environment;

pub use account::{ACCOUNT_DEPTH_LIMIT, ACCOUNTS_LIMIT, AccountError, AccountSpec, AccountTable, Accounts};
pub use activity::NodeActivity;
pub use allowance::{Allowance, UsedUp, WhenUsed};
pub use backoff::Backoff;
pub use became::Became;
pub use budget::{Budget, BudgetError, Budgets, Release, ReleaseError};
pub use causes::{Cause, Causes};
pub use checkpoint::{
    CHECKPOINT_COMMAND_LIMIT, Checkpoint, CheckpointBy, CheckpointEvery, CheckpointFailure, Kept, best_interval,
};
pub use chunk::{Arrange, Chunk, Cores};
pub use clock::{Mono, Now, Wall};
pub use conditions::{Condition, Conditions, Dependency};
pub use confidence::{Confidence, ConfidenceError};
pub use cpu_bind::{CpuBind, CpuBindError};
pub use currency::{Currency, CurrencyError};
pub use curve::{Band, BandError, Curve, CurveError};
pub use digest::Digest;
pub use drawn::Drawn;
pub use ending::{Eviction, JobEnd, StopReason, TaskCounts};
pub use failure::{WRONG_USAGE, plain_words, with_causes};
pub use fairshare::{Fairshare, Measure, WEIGHT_LIMIT};
pub use file_name::{FileFacts, FileNameError, check_file_name, expand_file_name};
pub use group::{GROUPS_LIMIT, GroupError, GroupSpec, GroupTable, Groups};
pub use host_list::host_list;
pub use hosts::{HostError, parse_hosts};
pub use id::{Attempt, JobId, NameError, NodeId, UnitId, check_name};
pub use identity::{ClusterId, Epoch, Incarnation, JournalId};
pub use job::{Outcome, PRIORITY_LIMIT, REASON_LIMIT, Request, Usage, Warning};
pub use job_share::{JobShare, JobShareError};
pub use labels::{LABEL_LIMIT, Labels, check_label};
pub use lease::Lease;
pub use licence::{
    JOB_LICENCES_LIMIT, LICENCES_LIMIT, LicenceCount, LicenceError, LicenceTable, Licences, check_licences,
    parse_licences,
};
pub use mail::{MAIL_USER_LIMIT, Mail, MailEvent, MailEvents, check_mail_user};
pub use memory::Memory;
pub use mode::{Mode, ModeSetting};
pub use node::{CORE_LIMIT, Containment, Meter, NodeSpec, Rest, SpecError, Switch, UnitKind, UnitSpec};
pub use number::UnitError;
pub use over_quota::OverQuota;
pub use overrides::{NamedPart, Overrides, PartRule};
pub use owner::{Beside, OwnerRules};
pub use pace::{Pace, Work, pace};
pub use placement::{Part, Placement, nodes, runs, width};
pub use predicted::{PREDICTED_LIMIT, Predicted};
pub use preset::{AdmissionRule, CapRule, Described, IdleRule, OrderRule, Parts, PlacementRule, Preset};
pub use profile::{Estimate, EstimateSource, Profile, ProfileKey};
pub use qos::{QOS_LIMIT, QosClasses, QosError, QosSpec, QosTable};
pub use queue::{QUEUES_LIMIT, QueueError, QueueSpec, QueueTable, Queues};
pub use quota::{Quota, QuotaLimit, Quotas, Window};
pub use reboot::{DayWindow, Deferral, Reboot, RebootRule};
pub use reservation::Reservation;
pub use restart::{Evictions, LimitOrNone, Restart, RestartLimit, RestartLimits};
pub use session::{NodeSessions, SessionSums};
pub use sleep::{SleepAfter, SleepRules};
pub use slowdown::{Slowdown, SlowdownKey};
pub use spread::{Spread, SpreadError};
pub use standing::Standing;
pub use step::{STEPS_LIMIT, Step, parse_step};
pub use tariff::{CarbonCharge, CarbonIntensity, CostRatio, CostRatioError, Tariff, TariffError};
pub use tasks::{TASKS_LIMIT, Tasks, TasksError};
pub use text::{clip, clip_lossy};
pub use time::{Span, Time};
pub use units::{Energy, Money, Power, Price};
pub use variation::{Factor, FactorsOf, MILLION, UnitName, Variation, VariationKey, ratio};
pub use wait::{ShownWait, Wait};
pub use wake::{Mac, MacError, Wake};
pub use widths::{NodeRange, NodeRangeError, WIDTH_LIMIT, Widths};
