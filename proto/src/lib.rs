//! The protocol between Limo's programs over Unix sockets and TCP: messages, their bytes, and the identity of the peer.
//!
//! One connection per peer. A frame is a 4-byte big-endian length and a body; the body's first byte distinguishes
//! greetings, messages and stdio data. The first frames agree on a version. Decides nothing and keeps no job.

#![warn(missing_docs)]

mod accounts;
mod backup;
mod bound;
mod candidates;
mod connection;
mod credentials;
mod descriptors;
mod encoding;
mod endpoint;
mod energy;
mod enrol;
mod exchange;
mod frame;
mod groups;
mod heartbeat;
mod hello;
mod history;
mod launch;
mod licences;
mod limits;
mod message;
mod newest;
mod orders;
mod outside;
mod owner;
mod pieces;
mod places;
mod plan;
mod predictor;
mod queries;
mod queues;
mod reader;
mod readings;
mod register;
mod replace;
mod report;
mod safe;
mod select;
mod socket;
mod state;
mod status;
mod stream;
mod suspension;
mod tls;
mod trust;
mod usage;
mod users;
mod web;
mod writer;

pub use accounts::{AccountReport, AccountsQuery, QosQuery, QosReport};
pub use backup::{BACKUP_PART, BackupFile, BackupReport, JournalSizes};
pub use bound::{BoundError, List, Text};
pub use candidates::{CANDIDATES_LIMIT, Candidate, DryRun, Explanation, Planned};
pub use connection::{Connection, ConnectionError, Greeted, accept, connect, connect_newest, connect_over, turn_away};
pub use credentials::{
    AUTHORITIES_FILE, Credentials, CredentialsError, IDENTITY_FILE, Listening, write_authorities, write_identity,
};
pub use descriptors::{DescriptorLimit, raise_descriptor_limit};
pub use encoding::{
    DecodeError, EncodeError, STORED_FORMAT, decode_stored, decode_stored_as, encode_stored, encode_stored_as,
    encoded_len,
};
pub use endpoint::{Endpoint, EndpointError, UNIX_PREFIX};
pub use energy::{EnergyBy, EnergyQuery, EnergyReport, EnergySum};
pub use enrol::{CertificateBytes, EnrolAnswer, EnrolError, EnrolRequest, KeyBytes, NewCertificate, enrol, join};
pub use exchange::ExchangeError;
pub use frame::{BODY_LIMIT, Data, Frame, FrameError, GREETING_LIMIT, Sign};
pub use groups::{GroupDraw, GroupReport, GroupsQuery, OwnersReport};
pub use heartbeat::{Alive, Beat, HEARTBEAT, Heartbeat, MISSED_BEATS, PULSE_EVERY, Pulse};
pub use hello::{Hello, Identity, Reject, Role, VERSION};
pub use history::{ChangeReport, ItemReport, Undo, UndoReport};
pub use launch::{
    Array, FileNames, Files, Hold, Io, Launch, LaunchWithoutHold, Origin, Parallel, Share, Task, WORDS_LIMIT,
    WindowSize,
};
pub use licences::LicenceReport;
pub use limits::{FACTORS_LIMIT, TooLarge};
pub use message::{
    Change, ClientToMaster, FAILED_CAPS, MasterToClient, NOTICE_LIMIT, NodeToMaster, PROBE_LIMIT, Reason, Sample,
    SendExec, SubmissionKey,
};
pub use newest::Newest;
pub use orders::{DoExec, MasterToNode, StepOf};
pub use outside::{FeedKind, FeedReport, GridLimit, GridReport, GridState, MeterReport};
pub use owner::user_name;
pub use places::{SYSTEM_SOCKET, default_socket, default_state_dir, tls_directory, user_socket};
pub use plan::{PlanQuery, PlanReport, PlannedJob, STARTS_LIMIT, STEPS_LIMIT};
pub use predictor::{ModelReport, PredictorQuery, PredictorReport};
pub use queries::*;
pub use queues::{QueueReport, QueuesQuery};
pub use reader::{Reader, Received};
pub use readings::{ReadingsQuery, ReadingsReport};
pub use register::{ATTEMPTS_PIECE, AttemptReport, AttemptState, Kept, NewSlave, Registration};
pub use replace::Replace;
pub use report::{ArrayReport, JobReport, NodeDetail, NodeReport, PackedTasks, UnitReport, UnreachableReport};
pub use safe::{UnsafePlace, make_directory, own_directory, safe_program};
pub use select::{Finished, JobFilter, JobOrder, ListingQuery, NUMBERS_LIMIT, Selection, Selector};
pub use socket::{Principal, Socket, Via};
pub use state::{JobState, NodeSleep, NodeState};
pub use status::{BudgetAccount, FOREIGN_LIMIT, ForeignReport, Status, UNREACHABLE_LIMIT};
pub use stream::{CHUNK, Channel, Inbox, Outbox, Positions, StreamError, StreamId, WINDOW};
pub use suspension::Suspension;
pub use tls::{ListenerConfig, TlsSocket};
pub use trust::{ServiceUserError, Trusted};
pub use usage::{LiveUsage, UsageQuery, UsageReport};
pub use users::{FairshareChange, UserReport, UsersChange, UsersReport};
pub use web::{WebQuery, WebReport};
pub use writer::{SignWriter, Writer};
