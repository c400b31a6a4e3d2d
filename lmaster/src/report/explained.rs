//! Explanations: the places where a job could run, and the start that is planned for it.

use limo_model::{Request, Time, UnitId, clip, host_list};
use limo_proto::{CANDIDATES_LIMIT, Candidate, Explanation, JobReport, Planned};
use limo_sched::{Core, Job, PlannedPlace, possibilities};

pub fn explanation(core: &Core, now: Time, request: &Request, job: JobReport) -> Explanation {
    let view = core.view(now);
    let since = core.job(job.job).map_or(now, Job::eligible);
    let mut candidates = candidates(core, (now, since), request);
    let more = shorten(&mut candidates);
    let planned = core
        .planned_start(now, job.job)
        .map(|planned| Planned { at: core.clock().shown(planned.at), place: place(core, planned.place) });
    let (mode, price, draw, band) = (view.mode(), view.price(), view.draw(), view.band());
    Explanation { candidates, more, job, mode, price, draw, band, planned }
}

/// Returns the nodes of a planned start as a short list, or their number.
pub fn place(core: &Core, place: PlannedPlace) -> String {
    match place {
        PlannedPlace::Named(nodes) => {
            let nodes = nodes.into_iter().filter_map(|node| core.node(node));
            clip(host_list(nodes.map(|node| node.spec().name.as_str())), PLACE_LIMIT)
        }
        PlannedPlace::Any(1) => "1 node".to_owned(),
        PlannedPlace::Any(count) => format!("{count} nodes"),
    }
}

/// Longest text for the nodes of a planned start, in bytes.
const PLACE_LIMIT: usize = 4_096;

/// Returns every unit that could run a request.
pub fn candidates(core: &Core, (now, submitted): (Time, Time), request: &Request) -> Vec<Candidate> {
    let view = core.view(now);
    let candidate = |found: limo_sched::Possibility| {
        let (node, unit) = view.unit(found.unit)?;
        Some(Candidate {
            node: node.spec().name.clone(),
            unit: unit.name.clone(),
            hardware: unit.hardware.clone(),
            cap: found.cap,
            estimate: found.estimate,
            origin: found.origin,
            cost: found.cost,
            waiting: found.waiting,
            band: found.band,
            obstacle: found.obstacle,
        })
    };
    possibilities(&view, request, submitted).into_iter().filter_map(candidate).collect()
}

/// Cuts the list to its limit. Returns the number of omitted candidates.
pub fn shorten(candidates: &mut Vec<Candidate>) -> u32 {
    let more = candidates.len().saturating_sub(CANDIDATES_LIMIT);
    candidates.truncate(CANDIDATES_LIMIT);
    u32::try_from(more).unwrap_or(u32::MAX)
}

/// Returns true if a candidate is this unit.
pub fn is_at(core: &Core, unit: UnitId, candidate: &Candidate) -> bool {
    core.node(unit.node).is_some_and(|node| {
        let spec = node.spec();
        let name = spec.units.get(usize::from(unit.unit)).map(|unit| unit.name.as_str());
        spec.name == candidate.node && name == Some(candidate.unit.as_str())
    })
}
