//! Reports of jobs, nodes and the cluster for clients, made from the core's state. Decides nothing.

mod explained;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use limo_feeds::grid::Mode;
use limo_model::{
    Budgets, Cause, Causes, Cores, FileFacts, JobEnd, JobId, Meter, Placement, Power, Request, Span, Time, UnitId,
    UnitKind, Usage,
};
use limo_proto::{
    ArrayReport, GridLimit, GridReport, GridState, JobReport, JobState, LicenceReport, NodeReport, PackedTasks, Status,
    Suspension, UnitReport,
};
use limo_sched::{Assignment, Clock, Core, Finished, Job, Node, Phase};

use crate::budget::account;
use crate::controller::Live;
use crate::missing;
use crate::states;

pub use explained::{candidates, explanation, is_at, place, shorten};

/// Reports a job that is over.
pub fn finished(finished: &Finished, live: &Live, (nodes, clock): (&[Node], &Clock)) -> JobReport {
    let ran = finished.started.is_some();
    // The energy and the cost of a step are those of its job.
    let counts = ran && live.request.step.is_none();
    let (submitted, request) = (clock.shown(finished.submitted), live.request.on(&finished.placement));
    JobReport {
        state: JobState::of(&finished.end),
        started: finished.started.map(|at| clock.shown(at)),
        ended: Some(clock.shown(finished.ended)),
        end: Some(shown_end(&finished.end, clock)),
        array: finished.tasks.zip(live.launch.array.as_ref()).map(|(ended, array)| ArrayReport {
            tasks: array.tasks.clone(),
            waiting: None,
            active: 0,
            ended,
        }),
        energy: counts.then_some(finished.account.energy),
        cost: finished.account.cost.filter(|_| counts),
        start_now_cost: finished.account.start_now_cost.filter(|_| counts),
        measured: counts.then_some(finished.usage.energy.is_some()),
        confidence: finished.usage.energy.filter(|_| counts).map(|_| finished.usage.confidence),
        evictions: finished.evictions,
        steps: finished.steps,
        kept: Some(finished.kept.ran).filter(|ran| *ran > Span::ZERO),
        checkpoint_failed: finished.kept.failed,
        usage: known(finished.usage),
        time_limit: finished.new_limit.map_or(request.time_limit, |new| new.limit),
        ..base((finished.job, submitted), &request, Some(live), (&finished.placement, nodes))
    }
}

/// Returns the usage of something that ran. A lost attempt has none.
pub fn known(usage: Usage) -> Option<Usage> {
    (usage.elapsed > Span::ZERO).then_some(usage)
}

fn shown_end(end: &JobEnd, clock: &Clock) -> JobEnd {
    match end {
        JobEnd::Refused { wait } => JobEnd::Refused { wait: wait.clone().moved(clock.offset) },
        end => end.clone(),
    }
}

/// Reports a job that is not over. Its use so far equals the expectation.
pub fn current(id: JobId, job: &Job, live: Option<&Live>, (core, now): (&Core, Time)) -> JobReport {
    let none = Placement::new();
    let assignment = job.assignment();
    let placement = assignment.map_or(&none, |assignment| &assignment.placement);
    let is_waiting = matches!(job.phase, Phase::Waiting(_));
    let wait = if is_waiting { core.reason(id, now) } else { None };
    let started = job.running().map(|running| running.started);
    // The draw of a step is that of its job.
    let draws = job.request.step.is_none();
    let estimate = assignment.map(|assignment| assignment.estimate).filter(|_| draws);
    let energy =
        job.running().zip(assignment).filter(|_| draws).map(|(running, assignment)| running.used(assignment, now));
    let clock = core.clock();
    let cost = |from: Time| {
        let (energy, started) = energy.zip(started)?;
        core.cost_on(placement, energy, (from, now - started))
    };
    JobReport {
        state: states::of_job(job),
        started: started.map(|at| clock.shown(at)),
        wait: wait.map(|wait| wait.moved(clock.offset)),
        estimate,
        energy,
        cost: started.and_then(cost),
        start_now_cost: cost(job.eligible()),
        held: job.held.clone(),
        used_up: job.running().and_then(|running| running.used_up),
        dependencies: job.after.clone(),
        priority: (is_waiting && draws).then(|| core.standing(now, job)),
        unreachable: assignment.map(|assignment| missing::of_job(core, assignment)).unwrap_or_default(),
        suspended: job.causes().map(|causes| suspension(causes, (core, now))),
        evictions: job.evictions,
        steps: job.step_count(),
        kept: Some(job.kept_so_far()).filter(|ran| *ran > Span::ZERO),
        checkpoint_failed: job.checkpoint_failed(),
        explores: assignment.and_then(|assignment| explored(&job.request, assignment)),
        ..base((id, clock.shown(job.submitted)), &job.request, live, (placement, core.nodes()))
    }
}

fn base(
    (job, submitted): (JobId, Time),
    request: &Request,
    live: Option<&Live>,
    (placement, nodes): (&Placement, &[Node]),
) -> JobReport {
    let place = |unit: UnitId| {
        let node = nodes.get(unit.node.0 as usize)?.spec();
        Some((node, node.units.get(usize::from(unit.unit))?))
    };
    let mut units: Vec<UnitId> = placement.iter().flat_map(|part| part.units()).collect();
    // Units in the order of the nodes' tasks.
    units.sort_by_key(|unit| unit.node);
    let places: Vec<_> = units.into_iter().filter_map(place).collect();
    let mut names: Vec<String> = places.iter().map(|(node, _)| node.name.clone()).collect();
    names.dedup();
    // A file name may contain the node, so it is unknown before the node is known.
    let (stdout, stderr) = live.zip(names.first()).map_or((None, None), |(live, node)| output(job, live, node));
    let conditions = request.conditions.as_ref();
    let needed = if request.is_packed() { 1 } else { request.nodes.get() };
    JobReport {
        job,
        state: JobState::Waiting,
        user: request.user.clone(),
        name: request.name.clone(),
        application: request.application.clone(),
        command: live.map(|live| command(&live.argv)).unwrap_or_default(),
        cores: request.cores,
        memory: request.memory,
        time_limit: request.time_limit,
        deadline: request.deadline,
        start_by: request.start_by,
        node_count: if names.is_empty() { needed } else { u32::try_from(names.len()).unwrap_or(u32::MAX) },
        nodes: names,
        units: places.iter().map(|(node, unit)| format!("{}/{}", node.name, unit.name)).collect(),
        submitted,
        started: None,
        ended: None,
        end: None,
        wait: None,
        estimate: None,
        energy: None,
        cost: None,
        start_now_cost: None,
        emulated: places.iter().any(|(node, _)| node.meter == Meter::Emulated),
        stdout,
        stderr,
        held: None,
        begin: conditions.and_then(|conditions| conditions.begin),
        dependencies: Vec::new(),
        singleton: conditions.is_some_and(|conditions| conditions.singleton),
        task: live.and_then(|live| live.task(job)).map(|task| (task.array, task.number)),
        array: None,
        measured: None,
        confidence: None,
        allowance: request.allowance,
        used_up: None,
        priority: None,
        unreachable: Vec::new(),
        suspended: None,
        packed: packed(request, placement),
        explores: None,
        queue: request.queue.clone(),
        widths: request.widths.map(|widths| (widths, request.nodes)),
        evictions: Default::default(),
        kept: None,
        checkpoint_failed: None,
        step: request.step.map(|step| (step.of, step.number)),
        steps: 0,
        total_cores: total_cores(request, (placement, nodes)),
        directory: live.map(|live| String::from_utf8_lossy(&live.launch.cwd).into_owned()),
        usage: None,
        licences: request.licences.clone(),
        account: request.account.clone(),
        qos: request.qos.clone(),
        labels: request.labels.clone(),
    }
}

/// Returns the cores of a placement; without one, those that the request needs, if their number is known.
fn total_cores(request: &Request, (placement, nodes): (&Placement, &[Node])) -> Option<u32> {
    if placement.is_empty() {
        let takes_none = request.accelerators.is_some() && !request.with_cores;
        return match request.cores {
            _ if takes_none => Some(0),
            Cores::Count(count) => Some(count.get().saturating_mul(request.nodes.get())),
            Cores::All => None,
        };
    }
    let is_cpu = |unit: UnitId| {
        let units = nodes.get(unit.node.0 as usize).map(|node| &node.spec().units);
        units.and_then(|units| units.get(usize::from(unit.unit))).is_some_and(|unit| unit.kind == UnitKind::Cpu)
    };
    let parts = placement.iter().filter(|part| is_cpu(part.unit));
    Some(parts.fold(0, |sum: u32, part| sum.saturating_add(part.cores.saturating_mul(part.count))))
}

fn packed(request: &Request, placement: &Placement) -> Option<PackedTasks> {
    let per_node = || request.chunks_by_node(placement);
    request.is_packed().then(|| PackedTasks { count: request.nodes.get(), per_node: per_node() })
}

/// Returns the cap that a job explores. A job may also measure a cap that it requested.
fn explored(request: &Request, assignment: &Assignment) -> Option<Power> {
    let cap = assignment.placement.first().and_then(|part| part.cap);
    cap.filter(|_| assignment.measures && request.cap.is_none())
}

fn suspension(causes: &Causes, (core, now): (&Core, Time)) -> Suspension {
    let limit = causes.since_of(Cause::Limit).map(|_| core.settings().limits.band(now).high());
    let owner = causes.since_of(Cause::Owner).is_some();
    Suspension { since: core.clock().shown(causes.since()), by: causes.by().map(str::to_owned), limit, owner }
}

/// Returns the paths of stdout and stderr on `node`, if they go to files.
fn output(job: JobId, live: &Live, node: &str) -> (Option<String>, Option<String>) {
    let Live { request, launch, .. } = live;
    let array = live.task(job).map(|task| (task.array, task.number));
    let facts = FileFacts { job, name: &request.name, user: &request.user, node, node_index: 0, task: 0, array };
    let names = launch.file_names(&facts);
    let directory = Path::new(OsStr::from_bytes(&launch.cwd));
    let path = |name: Option<Vec<u8>>| Some(directory.join(OsStr::from_bytes(&name?)).display().to_string());
    (path(names.stdout), path(names.stderr))
}

/// Longest command in a report, in characters, because a listing of thousands of jobs must fit into a frame.
const COMMAND_LIMIT: usize = 1000;

/// Formats the command as shell input.
fn command(argv: &[Vec<u8>]) -> String {
    let words = argv.iter().map(|word| String::from_utf8_lossy(word));
    let text = shell_words::join(words);
    if text.chars().count() <= COMMAND_LIMIT {
        return text;
    }
    text.chars().take(COMMAND_LIMIT).chain(['…']).collect()
}

/// Reports a node with these active jobs.
pub fn node(core: &Core, (node, jobs): (&Node, &[JobId]), now: Time) -> NodeReport {
    let spec = node.spec();
    let is_on = |job: &JobId, id: UnitId| {
        let of = core.job(*job).and_then(|job| job.assignment());
        of.is_some_and(|of| of.placement.iter().flat_map(|part| part.units()).any(|unit| unit == id))
    };
    let unit = |(id, unit): (UnitId, &limo_model::UnitSpec)| UnitReport {
        name: unit.name.clone(),
        hardware: unit.hardware.clone(),
        kind: unit.kind,
        cores: unit.cores,
        cores_used: core.cores_used(id),
        cap: node.cap(id.unit),
        caps: unit.caps,
        jobs: jobs.iter().copied().filter(|job| is_on(job, id)).collect(),
    };
    let (energy, cost) = core.account_with(node.id(), jobs, now);
    let slept = node.slept(now);
    NodeReport {
        name: spec.name.clone(),
        state: states::of_node(node, now),
        group: core.group_of(node).map(str::to_owned),
        reason: node.drained().map(|drained| format!("{} ({})", drained.reason, drained.by)),
        units: node.units().map(unit).collect(),
        memory: spec.memory,
        memory_used: core.memory_used(node.id()),
        idle: spec.idle,
        draw: core.draw_with(node.id(), jobs),
        measured: node.is_measured(now, core.settings().options.stale_after),
        meter: spec.meter,
        energy,
        cost,
        connected: node.is_connected() && node.is_awake(),
        unreachable_since: node.away_since().map(|at| core.clock().shown(at)),
        held: node.held_draw(),
        sleep: states::sleep_of(node),
        asleep_energy: slept.asleep,
        switching_energy: slept.switching,
        // The connection knows it.
        containment: None,
    }
}

fn licence(of: limo_sched::LicenceUse<'_>) -> LicenceReport {
    LicenceReport { name: of.name.to_owned(), total: of.total, held: of.held, holders: of.holders, waiting: of.waiting }
}

pub fn status(core: &Core, now: Time, trouble: Option<String>, grid: &[limo_feeds::grid::Report]) -> Status {
    let (settings, sums, clock) = (core.settings(), core.sums(), core.clock());
    let next_price = core.prices().and_then(|prices| prices.changes(now).next());
    let band = settings.limits.band(now);
    // The bill is extended up to now, without changing the state.
    let mut bill = sums.bill;
    bill.add(sums.drawn(), sums.since, now, core.prices());
    let permille = |part: i64, whole: i64| u32::try_from(i128::from(part) * 1000 / i128::from(whole)).unwrap_or(1000);
    let up = core.nodes().iter().filter(|node| node.is_connected() && node.is_awake()).count();
    let asleep = core.nodes().iter().filter(|node| !node.is_awake()).count();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Status {
        now: clock.shown(now),
        policy: settings.preset,
        mode: settings.mode,
        mode_setting: settings.mode_setting,
        band,
        budgets: clock.shown_budgets(&Budgets::new(settings.budgets.from_then_on(now).to_vec()).unwrap_or_default()),
        account: account(core, now),
        next_band: settings.limits.bands(now).next().map(|(at, band)| (clock.shown(at), band)),
        limits_ended: settings.operator_limits().ended(now).map(|at| clock.shown(at)),
        price: core.prices().and_then(|prices| prices.at(now).copied()),
        next_price: next_price.map(|(at, price)| (clock.shown(at), price.copied())),
        prices_ended: core.prices().and_then(|prices| prices.ended(now)).map(|at| clock.shown(at)),
        draw: sums.drawn(),
        idle: core.idle(),
        waiting: core.waiting_tasks(),
        running: core.active() as u64,
        nodes_up: count(up),
        nodes: count(core.known_nodes().count()),
        emulated: core.nodes().iter().any(|node| node.spec().meter == Meter::Emulated),
        energy: bill.energy(),
        cost: bill.cost(),
        jobs_cost: sums.jobs_cost,
        jobs_start_now_cost: sums.jobs_start_now_cost,
        in_band_permille: (sums.limited.ms() > 0).then(|| permille(sums.inside.ms(), sums.limited.ms())),
        rejected_plans: sums.rejected_plans,
        trouble,
        prices_by: None,
        feeds: Vec::new(),
        meters: Vec::new(),
        unreachable: missing::nodes(core),
        foreign: Vec::new(),
        groups: Vec::new(),
        licences: core.licences().map(licence).collect(),
        nodes_asleep: count(asleep),
        asleep_energy: core.nodes().iter().map(|node| node.slept(now).asleep).sum(),
        switching_energy: core.nodes().iter().map(|node| node.slept(now).switching).sum(),
        held: core.nodes().iter().map(Node::held_draw).sum(),
        parts: settings.chosen_parts(),
        explore: settings.explore,
        own_band: settings.own_limits.as_ref().map(|own| own.band(now)).filter(|own| *own != band),
        grid: grid.iter().map(source).collect(),
    }
}

fn source(report: &limo_feeds::grid::Report) -> GridReport {
    let limit = report.limit.and_then(|limit| {
        let band = limo_model::Band::new(limit.low, limit.high).ok()?;
        Some(GridLimit { band, until: limit.until, emergency: limit.emergency })
    });
    GridReport {
        name: report.name.clone(),
        state: match report.mode {
            Mode::Ok => GridState::Ok,
            Mode::Stale => GridState::Stale,
            Mode::Failsafe { .. } => GridState::Failsafe,
        },
        heard: report.heard,
        fault: report.fault.clone(),
        limit,
    }
}
