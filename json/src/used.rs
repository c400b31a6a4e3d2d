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

#[cfg(test)]
mod tests {
    use limo_fake::finished_job;
    use limo_model::{Memory, Outcome};
    use limo_proto::PackedTasks;

    use super::*;

    #[test]
    fn efficiencies_are_shares_of_what_was_requested() {
        let job = JobReport { total_cores: Some(2), ..finished_job(7, Outcome::Exited(0)) };
        let used = Used::of(&job).expect("it ran");
        // 450 s on two cores in 600 s, and 512 MiB of 1 GiB.
        assert_eq!((used.cpu, used.core_time), (Span::from_secs(450), Some(Span::from_secs(1200))));
        assert_eq!((used.cpu_efficiency(), used.memory_efficiency()), (Some(0.375), Some(0.5)));
        let packed = Some(PackedTasks { count: 5, per_node: vec![1, 4] });
        let used = Used::of(&JobReport { packed, ..job.clone() }).expect("it ran");
        assert_eq!(used.memory_efficiency(), Some(0.125), "four tasks on a node have 4 GiB");
        let used = Used::of(&JobReport { total_cores: Some(0), memory: Memory::ZERO, ..job.clone() }).expect("it ran");
        assert_eq!((used.cpu_efficiency(), used.memory_efficiency()), (None, None));
        assert_eq!(Used::of(&JobReport { usage: None, ..job }), None);
    }
}
