//! Partitions: the queues of the cluster, or one partition of all nodes if there are none.

use limo_client::{Failure, Master};
use limo_proto::QueueReport;

/// Name of the partition of a cluster without queues.
pub const ONLY: &str = "main";

/// The partitions of a cluster.
pub struct Partitions(pub Vec<QueueReport>);

impl Partitions {
    /// Asks the master.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub async fn ask(master: &Master) -> Result<Self, Failure> {
        Ok(Self(master.queues().await?))
    }

    /// Returns the shown name of the first known partition of a list with commas, and its queue if there are queues.
    ///
    /// # Errors
    /// If none is known.
    pub fn resolve(&self, list: &str) -> Result<(String, Option<String>), Failure> {
        let is_known = |name: &&str| match self.0.is_empty() {
            true => *name == ONLY,
            false => self.0.iter().any(|queue| queue.name == *name),
        };
        match list.split(',').find(is_known) {
            Some(name) => Ok((name.to_owned(), (!self.0.is_empty()).then(|| name.to_owned()))),
            None => Err(Failure::new(format_args!("invalid partition specified: {list}"))),
        }
    }
}
