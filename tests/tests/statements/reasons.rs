//! Compares the reported reasons of waiting jobs with the journal of that time.

use limo_model::{Energy, Power, Price, Quotas};
use limo_proto::JobState;
use serde_json::Value;

use crate::claims::Verdict;
use crate::timeline::While;
use crate::world::{Counts, JobHistory, NodeHistory, World};

/// Limit for the first round after a submission, on a busy machine.
const FIRST_LOOK_MS: i64 = 2_000;

/// Time in ms without assignments for a node that did not acknowledge one.
const SUSPECT_MS: i64 = 60_000;

pub fn check(verdict: &mut Verdict<'_>, of: While, (id, job): (u64, &JobHistory), said: &Value) {
    let world = verdict.world;
    let Some(reason) = said["wait_reason"].as_str() else {
        let new = of.from - job.submitted < FIRST_LOOK_MS || job.state.during(of).count() > 1;
        return verdict.claim("a waiting job has a reason", new, || format!("{id} at {of:?}: {said}"));
    };
    let kind = said["wait_kind"].as_str().unwrap_or_default();
    let text = reason.strip_prefix(kind).and_then(|text| text.strip_prefix(": ")).unwrap_or_default();
    let (claim, holds) = match kind {
        "held" => ("held", job.held.was(of, |by| by.as_deref() == between(text, "by ", ","))),
        "begin" => {
            let begin = job.request.conditions.as_ref().and_then(|conditions| conditions.begin);
            ("begin", begin.is_some_and(|begin| begin.unix_ms() > of.from))
        }
        "dependency" => ("dependency", dependency(world, of, text)),
        "singleton" => {
            ("singleton", named(text, "job ").is_some_and(|other| is(world, of, other, |state| !state.is_over())))
        }
        "behind" => (
            "behind",
            named(text, "delay job ").is_some_and(|other| {
                is(world, of, other, |state| matches!(state, JobState::Waiting | JobState::Suspended))
            }),
        ),
        "quota" => ("quota", quota(world, of, job, text)),
        "resources" => ("resources", is_taken(world, of, job)),
        "no node" => ("no node", is_taken(world, of, job) && !has_nodes(world, of, job)),
        "array limit" => ("array limit", array_limit(world, of, (id, job))),
        "band" => {
            // Algorithm 3.3 keeps the draw below the limit, so even equal amounts are too much.
            let is_strict = world.policy.was(of, |policy| policy == "limo-prototype");
            ("needs more than the band leaves", needs_more::<Power>(text, is_strict))
        }
        "budget" => (
            "needs more than the budget leaves",
            needs_more::<Energy>(text, false) && world.budgets.was(of, |any| *any),
        ),
        "filler" | "low mode" if text.contains("no lower limit") || text.contains("without a lower limit") => {
            ("no lower limit", world.bands(of, of).iter().any(|band| band.0.is_none()))
        }
        "low mode" | "filler" | "sparing" => ("lower limit or price", lower_limit(world, of, text)),
        "price" => ("cheaper later", cheaper(text)),
        "reserved" => {
            let name = between(text, "reserved (", ")");
            ("reserved", name.is_some_and(|name| world.reservations.was(of, |all| all.contains_key(name))))
        }
        "sooner" => ("sooner", !text.is_empty()),
        "depth" => ("depth", !text.is_empty()),
        _ => ("a known kind of reason", false),
    };
    verdict.claim(claim, holds, || {
        let nodes: Vec<_> = world.nodes.iter().map(|node| node.jobs.during(of).collect::<Vec<_>>()).collect();
        let (policies, bands): (Vec<_>, _) = (world.policy.during(of).collect(), world.bands(of, of));
        let (cores, count) = (job.request.cores, job.request.nodes);
        format!("{id} ({cores} on {count}) `{reason}` at {of:?} under {policies:?}; nodes had {nodes:?}, bands were {bands:?}")
    });
}

/// Returns the text between two pieces.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after).map_or(rest, |(found, _)| found))
}

/// Returns the number of a job after these words.
fn named(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn is(world: &World, of: While, job: u64, test: impl Fn(JobState) -> bool) -> bool {
    let Some(job) = world.jobs.get(&job) else { return false };
    // An array is over when its tasks are.
    let array_is_open = job.tasks > 0 && job.finished.as_ref().is_none_or(|end| end.ended.unix_ms() >= of.from);
    array_is_open || job.state.was(of, |state| test(*state))
}

fn dependency(world: &World, of: While, text: &str) -> bool {
    let Some(other) = named(text, "job ") else { return false };
    is(world, of, other, |state| match text {
        _ if text.contains("has not begun") => state == JobState::Waiting || state == JobState::Starting,
        _ if text.contains("is not over") => !state.is_over(),
        _ if text.contains("has not ended well") => state != JobState::Completed,
        _ => state == JobState::Completed || !state.is_over(),
    })
}

fn quota(world: &World, of: While, job: &JobHistory, text: &str) -> bool {
    let user = &job.request.user;
    if let Some(other) = named(text, "job ").filter(|_| text.contains("before it")) {
        return is(world, of, other, |state| state == JobState::Waiting);
    }
    // More tasks may be started than run, and the others wait.
    let of_quotas = |test: &dyn Fn(&Counts, &Quotas) -> bool| {
        let counts = &world.counts[user];
        world.quotas.was(of, |quotas| counts.was(of, |counts| test(counts, quotas)))
    };
    if let Some(needs) = named(text, "needs ") {
        let (has, most) = (named(text, " have ").unwrap_or(0), named(text, " of "));
        return of_quotas(&|counts, quotas| {
            quotas.of(user).cores.map(u64::from) == most && Some(has + needs) > most && counts.cores <= has
        });
    }
    let (has, most) = (named(text, "").unwrap_or(0), named(text, " of "));
    of_quotas(&|counts, quotas| {
        let jobs = counts.running..=counts.running + counts.waiting;
        quotas.of(user).jobs.map(u64::from) == most && Some(has) >= most && jobs.contains(&has)
    })
}

/// Returns true if at some time too few nodes had enough free cores for the job, or such a node could not be used.
fn is_taken(world: &World, of: While, job: &JobHistory) -> bool {
    if has_suspects(world, of) || world.reservations.was(of, |all| !all.is_empty()) {
        return true;
    }
    let free = |at: i64| {
        let has_room = |node: &&NodeHistory| {
            let used: u32 = node.jobs.at(at).map_or(0, |jobs| jobs.values().sum());
            let is_open = node.connected.at(at) == Some(&true) && node.closed.at(at) == Some(&false);
            // Algorithm 3.3 starts jobs on free units only. A job that does not use the cap of a unit does not share
            // it.
            let is_shared = world.policy.at(at).is_some_and(|policy| policy == "limo-prototype")
                || node.caps.was(of, |caps| caps.iter().any(Option::is_some));
            is_open && node.cores - used >= job.request.cores.on(node.cores) && (used == 0 || !is_shared)
        };
        world.nodes.iter().filter(has_room).count() as u32
    };
    let changes = |node: &NodeHistory| {
        node.jobs.times(of).chain(node.connected.times(of)).chain(node.closed.times(of)).collect::<Vec<_>>()
    };
    let mut moments = world.nodes.iter().flat_map(changes).filter(|at| *at >= of.from).chain([of.from, of.to]);
    moments.any(|at| free(at) < job.request.nodes.get())
}

fn has_suspects(world: &World, of: While) -> bool {
    let suspect = While { from: of.from - SUSPECT_MS, ..of };
    world.suspected.was(suspect, |at| *at >= suspect.from)
}

/// Returns true if enough nodes for the job were always connected and open, and none of them was suspect.
fn has_nodes(world: &World, of: While, job: &JobHistory) -> bool {
    let up = |node: &&NodeHistory| {
        node.connected.during(of).all(|connected| *connected) && node.closed.during(of).all(|closed| !closed)
    };
    !has_suspects(world, of) && world.nodes.iter().filter(up).count() >= job.request.nodes.get() as usize
}

/// Returns true if at some time the allowed number of tasks had their turn: they ran, waited to run again, or were
/// held.
fn array_limit(world: &World, of: While, (id, job): (u64, &JobHistory)) -> bool {
    let tasks = || (id + 1..=id + u64::from(job.tasks)).map(|task| &world.jobs[&task].state);
    let run = |at: i64| tasks().filter_map(|state| state.at(at)).filter(|state| !state.is_over()).count();
    // In this run, arrays have only this limit.
    tasks().flat_map(|state| state.times(of)).chain([of.from, of.to]).any(|at| run(at) >= 2)
}

/// Returns true if the reason needs more than the amount that it reports as left. With `is_strict`, an equal amount
/// is also too little.
fn needs_more<T: std::str::FromStr + PartialOrd>(text: &str, is_strict: bool) -> bool {
    let needs = between(text, "needs ", ",").and_then(|needs| needs.split(" above").next()?.parse::<T>().ok());
    let left = between(text, ", ", " left").and_then(|left| left.parse::<T>().ok());
    let most = between(text, "leave at most ", ",").and_then(|most| most.parse::<T>().ok());
    needs.zip(left.or(most)).is_some_and(|(needs, left)| needs > left || (is_strict && needs == left))
}

/// Checks that the lower limit and the price in a reason are those of the time, and that the draw has reached the
/// limit.
fn lower_limit(world: &World, of: While, text: &str) -> bool {
    let price = between(text, "energy costs ", ",").map(|price| price.parse::<Price>().ok());
    let price_holds = price.is_none_or(|price| world.prices(of, of).contains(&price.map(|price| price.per_mwh())));
    let watts = |text: Option<&str>| text.and_then(|text| text.parse::<Power>().ok());
    let draw = watts(between(text, "the draw ", " h"));
    let low = watts(between(text, "the lower limit ", ",").and_then(|low| low.split(" without").next()));
    let reached = match (draw, low) {
        (Some(draw), Some(low)) => draw >= low && world.bands(of, of).iter().any(|band| band.0 == Some(low.watts())),
        _ => price.is_some(),
    };
    price_holds && reached
}

fn cheaper(text: &str) -> bool {
    if text.starts_with("a start at ") && text.ends_with("costs less in total") {
        return true;
    }
    let prices = text.split_once(" -> ").map(|(now, then)| {
        (now.parse::<Price>().ok(), then.split(" at ").next().and_then(|then| then.parse::<Price>().ok()))
    });
    prices.is_some_and(|(now, then)| now.zip(then).is_some_and(|(now, then)| then < now))
}
