//! Records that are being written, and what follows when they are durable.

use limo_model::{Attempt as Number, JobId};
use limo_proto::NodeToMaster;
use tracing::{debug, warn};

use super::Node;
use crate::exchange::{Effect, Ticket};
use crate::records::Record;

/// Record that is being written while its attempt waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    job: JobId,
    number: Number,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Intent,
    Going,
    Unfit,
    Evicted,
    End,
    Forget,
}

impl Node {
    /// Writes a record. Dependent messages follow as soon as it is durable.
    pub(super) fn record(&mut self, record: Record) {
        let kind = match &record {
            Record::Intent(_) => Kind::Intent,
            Record::Going { .. } | Record::Released { .. } => Kind::Going,
            Record::Unfit { .. } => Kind::Unfit,
            Record::Evicted { .. } => Kind::Evicted,
            Record::End { .. } => Kind::End,
            Record::Forget { .. } => Kind::Forget,
        };
        let (job, number) = record.key();
        let ticket = self.next_ticket;
        self.next_ticket = Ticket(ticket.0 + 1);
        self.writing.insert(ticket, Writing { job, number, kind });
        self.effect(Effect::Record { ticket, record });
    }

    pub(super) fn recorded(&mut self, ticket: Ticket, result: Result<(), String>) {
        let Some(Writing { job, number, kind }) = self.writing.remove(&ticket) else {
            return debug!(ticket = ticket.0, "a record that nobody waits for");
        };
        match kind {
            Kind::Intent => self.intent_recorded(job, number, result),
            Kind::Going => self.going_recorded(job, number, result),
            Kind::End => self.end_recorded(job, number, result),
            Kind::Unfit | Kind::Evicted | Kind::Forget => {
                if let Err(error) = result {
                    warn!(%job, attempt = %number, error, "the records of the job are not up to date");
                }
                if let Kind::Evicted = kind {
                    self.send(NodeToMaster::Evicted { job, attempt: number });
                }
            }
        }
    }
}
