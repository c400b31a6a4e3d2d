//! Converts nodes and jobs into the types of the core.

use std::num::NonZeroU32;
use std::sync::Arc;

use limo_model::{Arrange, Chunk, Cores, Memory, Meter, NodeSpec, Request, Rest, Span, Switch, UnitKind, UnitSpec};
use limo_trace::platform::Group;
use limo_trace::{Chunks, CompactSpan, Job, Moldable, Platform, Treatment, Workload};

/// Returns the nodes of a platform in order, as the scheduler believes them to be.
pub fn node_specs(platform: &Platform) -> impl Iterator<Item = NodeSpec> {
    platform.groups.iter().flat_map(|group| {
        let spec = spec(group);
        (0..group.count).map(move |index| NodeSpec { name: group.node_name(index), ..spec.clone() })
    })
}

/// Returns the nodes of a group, without their names.
fn spec(group: &Group) -> NodeSpec {
    let sole = || UnitSpec {
        name: "cpu".into(),
        hardware: group.hardware.clone(),
        kind: UnitKind::Cpu,
        cores: group.cores,
        nameplate: group.believed.busy - group.believed.idle,
        caps: None,
    };
    let units = group.units.iter().map(|unit| UnitSpec {
        name: unit.name.clone(),
        hardware: unit.hardware.clone(),
        kind: unit.kind,
        cores: unit.cores,
        nameplate: unit.nameplate,
        caps: unit.caps,
    });
    let switch = |span, draw| Switch { span, draw };
    let rest = group.rest.map(|rest| Rest {
        draw: rest.draw,
        down: switch(rest.down_time, rest.down_draw),
        up: switch(rest.up_time, rest.up_draw),
        wake: None,
    });
    NodeSpec {
        name: String::new(),
        units: if group.units.is_empty() { vec![sole()] } else { units.collect() },
        memory: group.memory.unwrap_or(Memory::ZERO),
        idle: group.believed.idle,
        meter: Meter::None,
        rest: rest.map(Arc::new),
    }
}

/// Returns a job with only those values from which its request follows; the others are equal in all jobs.
pub fn asked(job: &Job) -> Job {
    let (number, submit, run, user) = (0, Span::ZERO, Span::ZERO, 0);
    Job { number, submit, wait: None, run, user, removed: None, bytes: None, ..*job }
}

/// Makes the request of a job: a share of one node if one has enough processors. Otherwise whole nodes, as many as
/// the cores of the most frequent kind require. A packed job has a chunk for each processor, unless its format says how it
/// is divided.
pub fn request(platform: &Platform, workload: &Workload, job: &Job) -> Request {
    if let Some(chunks) = workload.chunks(job) {
        return of_chunks(chunks, workload, job);
    }
    if let Some(Moldable { widths, malleable, .. }) = workload.moldable(job) {
        let accelerators = NonZeroU32::new(job.treatment.accelerators);
        let (nodes, with_cores) = (widths.least, accelerators.is_some());
        let widths = Some(*widths).filter(|widths| widths.least < widths.most);
        let malleable = *malleable && widths.is_some();
        let cores = Cores::All;
        return Request { nodes, widths, malleable, cores, accelerators, with_cores, ..treated(workload, job) };
    }
    let largest = platform.groups.iter().map(Group::widest).max().unwrap_or(1);
    let usual = platform.groups.iter().max_by_key(|group| group.count).map_or(1, Group::widest).max(1);
    let (nodes, cores) = match NonZeroU32::new(job.processors) {
        _ if job.treatment.packed => (job.processors, Cores::Count(NonZeroU32::MIN)),
        Some(_) if job.treatment.whole_unit && job.processors <= largest => (1, Cores::All),
        Some(processors) if job.processors <= largest => (1, Cores::Count(processors)),
        _ if usual == 1 => (job.processors, Cores::Count(NonZeroU32::MIN)),
        _ => (job.processors.div_ceil(usual), Cores::All),
    };
    let Treatment { accelerators, packed, .. } = job.treatment;
    Request {
        nodes: NonZeroU32::new(nodes).unwrap_or(NonZeroU32::MIN),
        cores,
        accelerators: NonZeroU32::new(accelerators),
        with_cores: accelerators > 0,
        arrange: if packed { Arrange::Pack } else { Arrange::Spread },
        ..treated(workload, job)
    }
}

fn of_chunks(chunks: &Chunks, workload: &Workload, job: &Job) -> Request {
    let Chunk { cores, with_cores, accelerators, memory } = chunks.each;
    Request {
        nodes: chunks.count,
        cores,
        with_cores,
        accelerators,
        memory,
        hardware: chunks.hardware.clone(),
        arrange: Arrange::Pack,
        ..treated(workload, job)
    }
}

/// Makes the request of a job for one core.
fn treated(workload: &Workload, job: &Job) -> Request {
    let application = workload.application(job);
    let Treatment { may_suspend, may_requeue, filler, explore, .. } = job.treatment;
    let (name, variants) =
        application.map_or_else(Default::default, |known| (known.name.clone(), known.variants.clone()));
    Request {
        time_limit: job.walltime.map(CompactSpan::span),
        variants,
        may_suspend,
        may_requeue,
        filler,
        explore,
        queue: workload.queue(job),
        // The user does not matter to the core, because rows are made from the workload.
        ..Request::one_core(name)
    }
}

#[cfg(test)]
mod tests {
    use limo_trace::Treatment;

    use super::*;

    #[test]
    fn a_packed_job_has_a_chunk_for_each_processor() {
        let platform = Platform::taurus(2);
        let treatment = Treatment { packed: true, accelerators: 1, ..Treatment::default() };
        let job = Job {
            number: 1,
            submit: Span::ZERO,
            wait: None,
            run: Span::from_secs(1),
            walltime: None,
            processors: 8,
            user: -1,
            application: -1,
            queue: -1,
            treatment,
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        };
        let found = request(&platform, &Workload::default(), &job);
        assert_eq!((found.nodes.get(), found.is_packed()), (8, true));
        assert_eq!((found.cores.on(99), found.accelerators, found.with_cores), (1, NonZeroU32::new(1), true));
    }
}
