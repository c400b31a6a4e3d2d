//! Resources that a job used, against those that it requested.

use limo_model::{Memory, Span, Usage};
use limo_proto::JobReport;

/// Resources that a finished job has used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Resources of its last attempt; of an array, those of its tasks that are over.
    pub usage: Usage,
    /// CPU time in user mode and in the kernel together.
    pub cpu: Span,
    /// Running time of all of its cores together. `None` if it had no cores, or their number is not known.
    pub core_time: Option<Span>,
    /// Memory that it requested on the node with most of its tasks; `None` without a request.
    pub requested: Option<Memory>,
}

impl Used {
    /// Returns the resources that a job used, if they are known.
    pub fn of(job: &JobReport) -> Option<Self> {
        let usage = job.usage?;
        let cores = job.total_cores.filter(|cores| *cores > 0);
        let most = job.packed.as_ref().and_then(|packed| packed.per_node.iter().max()).copied().unwrap_or(1);
        let requested = Memory::from_bytes(job.memory.bytes().saturating_mul(most.into()));
        Some(Self {
            usage,
            cpu: usage.user_cpu + usage.system_cpu,
            core_time: cores.map(|cores| Span::from_ms(usage.elapsed.ms().saturating_mul(cores.into()))),
            requested: Some(requested).filter(|requested| *requested > Memory::ZERO),
        })
    }

    /// Returns the CPU time by the running time of its cores: 1 if all of them computed all the time.
    pub fn cpu_efficiency(&self) -> Option<f64> {
        let core_time = self.core_time.filter(|time| *time > Span::ZERO)?;
        Some(self.cpu.secs() / core_time.secs())
    }

    /// Returns the most memory on a node by the memory that it requested there.
    pub fn memory_efficiency(&self) -> Option<f64> {
        Some(self.usage.max_rss.bytes() as f64 / self.requested?.bytes() as f64)
    }
}
