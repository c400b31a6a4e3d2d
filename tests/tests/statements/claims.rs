//! Compares answers with the journal, claim by claim.

use std::collections::BTreeMap;

use limo_model::{JobEnd, Outcome, Time};
use limo_proto::JobState;
use serde_json::Value;

use crate::looks::Look;
use crate::reasons;
use crate::timeline::{Timeline, While};
use crate::world::{JobHistory, Sums, World};

/// Number of contradictions shown for each claim.
const SHOWN: usize = 3;

/// Amounts are printed with six decimals.
const ROUNDING: f64 = 1e-5;

/// Time after a change of a node's jobs in which its reading may lag.
const READING_MS: i64 = 2_500;

/// Time after a change of a node's caps, longer than a suspension may take.
const CAPPED_MS: i64 = 30_000;

pub struct Verdict<'w> {
    pub world: &'w World,
    /// Number of checks of each claim, and the contradictions.
    claims: BTreeMap<&'static str, (u64, Vec<String>)>,
}

impl<'w> Verdict<'w> {
    pub fn new(world: &'w World) -> Self {
        Self { world, claims: BTreeMap::new() }
    }

    /// Claim, with a description of a contradiction.
    pub fn claim(&mut self, claim: &'static str, holds: bool, contradiction: impl FnOnce() -> String) {
        let (count, contradictions) = self.claims.entry(claim).or_default();
        *count += 1;
        if !holds {
            contradictions.push(contradiction());
        }
    }

    /// Ends the comparison. `keep` saves the journal and returns its place.
    ///
    /// # Panics
    /// If an answer contradicts the journal, or a claim was never checked.
    pub fn pass(self, keep: impl FnOnce() -> String) {
        let mut faults = 0;
        for (claim, (count, contradictions)) in &self.claims {
            println!("{count:>8} x {claim}");
            faults += contradictions.len();
            for contradiction in contradictions.iter().take(SHOWN) {
                println!("CONTRADICTION, 1 of {}: {contradiction}", contradictions.len());
            }
        }
        assert!(faults == 0, "{faults} answers contradict the journal, which is kept in {}", keep());
        assert!(self.claims.len() > 30, "little was checked");
    }

    pub fn check(&mut self, look: &Look) {
        let (of, answer) = (look.of, look.answer());
        let rows = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
        match look.question.as_str() {
            "lq --json" => rows("jobs").iter().for_each(|job| self.job(of, job)),
            "lconf status --json" => self.status(of, &answer),
            "lq nodes --json" => rows("nodes").iter().for_each(|node| self.node(of, node)),
            "lconf user --json" => rows("users").iter().for_each(|user| self.user(of, user)),
            "lq energy --json" => {
                rows("sums").iter().chain([&answer["total"]]).for_each(|sum| self.sum(of, sum));
            }
            "lconf history --json" => rows("changes").iter().for_each(|change| self.change(change)),
            question if question.starts_with("lq history") => {
                let jobs = rows("jobs");
                jobs.iter().for_each(|job| self.job(of, job));
                let ends: Vec<i64> = jobs.iter().filter_map(|job| job["end_unix_ms"].as_i64()).collect();
                self.claim("the newest first", ends.is_sorted_by(|a, b| a >= b), || format!("{ends:?}"));
            }
            _ => {
                self.job(of, &answer["job"]);
                self.band_and_price(of, &answer, of);
            }
        }
    }

    fn job(&mut self, of: While, said: &Value) {
        let world = self.world;
        let id = said["id"].as_u64().unwrap_or(0);
        let Some(job) = world.jobs.get(&id) else {
            return self.claim("the job is in the journal", false, || said.to_string());
        };
        self.claim("submission", said["submit_unix_ms"].as_i64() == Some(job.submitted), || {
            format!("{id} {} was at {}", said["submit_unix_ms"], job.submitted)
        });
        self.claim("user", said["user"] == *job.request.user, || {
            format!("{id} {} is {}", said["user"], job.request.user)
        });
        if job.tasks > 0 {
            return self.array(of, (id, job), said);
        }
        let was = |state: &JobState| said["state"] == state.name();
        self.claim("state of a job", job.state.was(of, was), || {
            format!("{id} is {}, was {:?} at {of:?}", said["state"], job.state.during(of).collect::<Vec<_>>())
        });
        match &job.finished {
            Some(_) if !said["end_unix_ms"].is_null() => self.ended(id, job, said),
            _ => self.under_way(of, (id, job), said),
        }
    }

    fn under_way(&mut self, of: While, (id, job): (u64, &JobHistory), said: &Value) {
        let start = said["start_unix_ms"].as_i64();
        self.claim("start", job.started.was(of, |started| *started == start), || {
            format!("{id} {start:?}, was {:?}", job.started.during(of).collect::<Vec<_>>())
        });
        let nodes = |world: &World| {
            let names = |placement: &Option<limo_model::Placement>| {
                let parts = placement.iter().flatten();
                let mut names: Vec<String> =
                    parts.flat_map(|part| part.nodes()).map(|node| world.nodes[node.0 as usize].name.clone()).collect();
                names.sort_unstable();
                names
            };
            job.placement.during(of).map(names).collect::<Vec<Vec<String>>>()
        };
        let (claimed, known) = (words(&said["nodes"]), nodes(self.world));
        self.claim("nodes of a job", known.contains(&claimed), || format!("{id} {claimed:?}, was on {known:?}"));
        if said["state"] == "waiting" {
            let held = said["held_by"].as_str().map(str::to_owned);
            self.claim("hold", job.held.was(of, |by| *by == held), || {
                format!("{id} {held:?}, was {:?}", job.held.during(of).collect::<Vec<_>>())
            });
            reasons::check(self, of, (id, job), said);
        }
    }

    fn ended(&mut self, id: u64, job: &JobHistory, said: &Value) {
        let Some(finished) = &job.finished else { return };
        let claims = [
            ("end", said["end_unix_ms"].as_i64(), Some(finished.ended.unix_ms())),
            ("start", said["start_unix_ms"].as_i64(), finished.started.map(Time::unix_ms)),
        ];
        for (claim, claimed, known) in claims {
            self.claim(claim, claimed == known, || format!("{id} {claimed:?}, was {known:?}"));
        }
        if let JobEnd::Ran { outcome, .. } = &finished.end {
            let known = match outcome {
                Outcome::Exited(code)
                | Outcome::ExitedAtLimit(code)
                | Outcome::NotStarted { code, .. }
                | Outcome::ExceededMemory { code, .. }
                | Outcome::EndedWithJob { code } => (Some(*code), None),
                Outcome::Signaled(signal) | Outcome::SignaledAtLimit(signal) => (None, Some(*signal)),
                Outcome::Lost { .. } | Outcome::NodeFailed { .. } | Outcome::NotPrepared { .. } => (None, None),
            };
            let known = (known.0.map(i64::from), known.1.map(i64::from));
            let claimed = (said["exit_code"].as_i64(), said["signal"].as_i64());
            self.claim("exit code or signal", claimed == known, || format!("{id} {claimed:?}, was {known:?}"));
        }
        if finished.started.is_none() {
            let nothing = said["energy_j"].is_null() && said["cost"].is_null();
            return self.claim("a job that did not run used nothing", nothing, || said.to_string());
        }
        let (energy, cost) = (said["energy_j"].as_f64().unwrap_or(f64::NAN), said["cost"].as_f64());
        let measured = said["energy_measured"] == true;
        self.claim("energy that was measured", measured == finished.usage.energy.is_some(), || said.to_string());
        let known = finished.account.energy.joules();
        self.claim("energy of a job", (energy - known).abs() < 0.01, || format!("{id} {energy} J, was {known} J"));
        self.priced(id, (job.submitted, finished.ended.unix_ms()), (energy, cost));
    }

    /// Claims that the cost lies between those at the lowest and the highest price of that time.
    fn priced(&mut self, id: u64, (from, to): (i64, i64), (energy, cost): (f64, Option<f64>)) {
        let ran = While { from, to };
        let prices = self.world.prices(ran, ran);
        let known: Vec<f64> = prices.iter().flatten().copied().collect();
        let Some(cost) = cost else {
            // If a price was known for only a part of the time, the job may not have run then.
            return self.claim("unknown cost", prices.contains(&None), || format!("{id}: prices were {prices:?}"));
        };
        self.claim("known cost", !known.is_empty(), || format!("{id} {cost} EUR, and no price was known"));
        let of = |price: f64| price * energy / 3.6e9;
        let unknown = prices.contains(&None).then_some(0.0);
        let bounds = || known.iter().copied().chain(unknown).map(of);
        let (least, most) = (bounds().fold(f64::MAX, f64::min), bounds().fold(f64::MIN, f64::max));
        self.claim("cost of a job", (least - ROUNDING..=most + ROUNDING).contains(&cost), || {
            format!("{id} {cost} EUR, but {energy} J are {least} to {most} EUR")
        });
    }

    /// Checks the numbers of waiting and of started tasks of an array.
    fn array(&mut self, of: While, (id, job): (u64, &JobHistory), said: &Value) {
        if said["array"].is_null() || !said["end_unix_ms"].is_null() {
            return;
        }
        let states = |at: i64| {
            let tasks = (id + 1..=id + u64::from(job.tasks)).filter_map(|task| self.world.jobs[&task].state.at(at));
            let tasks: Vec<JobState> = tasks.copied().collect();
            let count = |test: fn(JobState) -> bool| tasks.iter().filter(|state| test(**state)).count() as u64;
            (count(|state| state == JobState::Waiting), count(|state| state != JobState::Waiting && !state.is_over()))
        };
        let tasks = id + 1..=id + u64::from(job.tasks);
        let mut times: Vec<i64> =
            tasks.flat_map(|task| self.world.jobs[&task].state.times(of)).chain([of.from, of.to]).collect();
        times.sort_unstable();
        let known: Vec<(u64, u64)> = times.into_iter().map(states).collect();
        let count = |key: &str| said["array"][key].as_u64().unwrap_or(u64::MAX);
        let claimed = (count("waiting_count"), count("active_count"));
        // A finished task is on no node, even before the next round starts another one.
        let ended = (id + 1..=id + u64::from(job.tasks)).filter(|task| {
            let finished = self.world.jobs[task].finished.as_ref();
            finished.is_some_and(|finished| (of.from..=of.to).contains(&finished.ended.unix_ms()))
        });
        let ended = ended.count() as u64;
        // Between two times, several tasks may change within one millisecond, and the answer was given among them.
        let between = |claimed: u64, one: u64, other: u64, less: u64| {
            (one.min(other).saturating_sub(less)..=one.max(other)).contains(&claimed)
        };
        let was = known
            .windows(2)
            .any(|of| between(claimed.0, of[0].0, of[1].0, 0) && between(claimed.1, of[0].1, of[1].1, ended));
        self.claim("tasks that wait and run", was, || format!("{id} {claimed:?}, was {known:?}, {ended} ended"));
        if said["state"] == "waiting" {
            reasons::check(self, of, (id, job), said);
        }
    }

    fn status(&mut self, of: While, said: &Value) {
        let now = said["now_unix_ms"].as_i64().unwrap_or(0);
        self.claim("now", (of.from..=of.to).contains(&now), || format!("{now} at {of:?}"));
        let world = self.world;
        let counts = (said["waiting"].as_u64().unwrap_or(u64::MAX), said["running"].as_u64().unwrap_or(u64::MAX));
        let all = world.counts.get("").expect("jobs were submitted");
        let none_yet = all.at(of.from).is_none() && counts == (0, 0);
        let was = all.was(of, |known| (known.waiting, known.running) == counts);
        self.claim("how many wait and run", none_yet || was, || {
            format!("{counts:?}, was {:?} at {of:?}", all.during(of).collect::<Vec<_>>())
        });
        for (claim, timeline) in [("policy", &world.policy), ("mode_setting", &world.mode_setting)] {
            let known: Vec<&String> = timeline.during(of).collect();
            // Before the first change the default holds.
            let holds = known.is_empty() || known.iter().any(|known| said[claim] == ***known);
            self.claim(claim, holds, || format!("{}, was {known:?}", said[claim]));
        }
        self.band_and_price(of, said, While { from: now, to: now });
        let up = |at: i64| world.nodes.iter().filter(|node| node.connected.at(at) == Some(&true)).count() as u64;
        let times = world.nodes.iter().flat_map(|node| node.connected.times(of)).chain([of.from]);
        let known: Vec<u64> = times.map(up).collect();
        self.claim("nodes that are up", known.iter().any(|up| said["nodes_up"] == *up), || {
            format!("{}, was {known:?}", said["nodes_up"])
        });
        self.claim("no plan was rejected", said["rejected_plans"] == 0, || format!("{:?}", world.rejected));
        let cost = said["jobs_cost"].as_f64();
        let same = |sums: &Sums| same(sums.cost, cost);
        let sums = world.sums.get("");
        let holds =
            sums.map_or(cost.is_none(), |sums| sums.was(of, same) || sums.at(of.from).is_none() && cost.is_none());
        self.claim("what jobs cost", holds, || format!("{cost:?}, was {:?}", sums.map(|sums| sums.at(of.to))));
    }

    /// Claims that the band and the price held at some time in a span; `now` is the part of the span in which the
    /// answer was given.
    fn band_and_price(&mut self, of: While, said: &Value, now: While) {
        let claimed = (said["band_low_w"].as_f64(), said["band_high_w"].as_f64());
        let known = self.world.bands(of, now);
        self.claim("band", known.contains(&claimed), || format!("{claimed:?}, was {known:?}"));
        let price = said["price_per_mwh"].as_f64();
        let known = self.world.prices(of, now);
        self.claim("price", known.contains(&price), || format!("{price:?}, was {known:?}"));
    }

    fn node(&mut self, of: While, said: &Value) {
        let world = self.world;
        let Some(node) = world.nodes.iter().find(|node| said["name"] == *node.name) else {
            return self.claim("the node is in the journal", false, || said.to_string());
        };
        let connected = said["connected"] == true;
        self.claim("connection of a node", node.connected.was(of, |known| *known == connected), || {
            format!("{} {connected} at {of:?}, was {:?}", node.name, node.connected)
        });
        let unit = &said["units"][0];
        let jobs: Vec<u64> = unit["jobs"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let cores = unit["cores_used"].as_u64().unwrap_or(u64::MAX);
        let same = |known: &BTreeMap<u64, u32>| {
            known.keys().eq(&jobs) && known.values().map(|cores| u64::from(*cores)).sum::<u64>() == cores
        };
        self.claim("jobs of a node", node.jobs.was(of, same), || {
            format!("{} {jobs:?} with {cores}, was {:?}", node.name, node.jobs.during(of).collect::<Vec<_>>())
        });
        let open = said["state"] == "up" || said["state"] == "unreachable";
        let suspect = said["state"] == "suspect";
        self.claim("whether a node is open", suspect || node.closed.was(of, |closed| *closed != open), || {
            said.to_string()
        });
        let before = While { from: of.from - READING_MS, ..of };
        // A suspended node receives its caps without obeying them.
        let capped = While { from: of.from - CAPPED_MS, ..of };
        let steady = self.steady(&node.jobs, before)
            && node.connected.during(before).count() == 1
            && node.caps.during(capped).count() <= 1;
        if said["measured"] == true && steady {
            let draw = said["draw_w"].as_f64().unwrap_or(f64::NAN);
            let near = |known: &limo_model::Power| (known.watts() - draw).abs() < 1.0;
            self.claim("draw of a node", node.reading.was(before, near), || {
                format!("{} {draw} W, readings were {:?}", node.name, node.reading.during(before).collect::<Vec<_>>())
            });
        }
    }

    /// Returns true if the jobs of a node stayed the same, and none of them began, was suspended or was capped.
    fn steady(&self, jobs: &Timeline<BTreeMap<u64, u32>>, of: While) -> bool {
        let mut states =
            jobs.during(of).flat_map(BTreeMap::keys).map(|job| self.world.jobs[job].state.during(of).count());
        jobs.during(of).count() == 1 && states.all(|count| count == 1)
    }

    fn user(&mut self, of: While, said: &Value) {
        let number = |key: &str| said[key].as_u64().unwrap_or(u64::MAX);
        let claimed = (number("running_count"), number("cores"), number("waiting_count"));
        let Some(known) = self.world.counts.get(said["name"].as_str().unwrap_or_default()) else { return };
        let holds = known.was(of, |counts| (counts.running, counts.cores, counts.waiting) == claimed);
        self.claim("jobs of a user", holds, || {
            format!("{} {claimed:?}, was {:?}", said["name"], known.during(of).collect::<Vec<_>>())
        });
    }

    fn sum(&mut self, of: While, said: &Value) {
        let key = said["key"].as_str().unwrap_or_default();
        let (jobs, energy) = (said["jobs"].as_u64(), said["energy_j"].as_f64().unwrap_or(f64::NAN));
        let cost = said["cost"].as_f64();
        let none = Sums::default();
        let holds =
            |known: &Sums| Some(known.jobs) == jobs && (known.energy_j - energy).abs() < 1.0 && same(known.cost, cost);
        let timeline = self.world.sums.get(key);
        let was = timeline.is_some_and(|known| known.was(of, holds));
        let nothing_yet = timeline.is_none_or(|known| known.at(of.from).is_none()) && holds(&none);
        self.claim("energy of a user", was || nothing_yet, || {
            format!("`{key}` {said}, was {:?}", timeline.map(|known| known.during(of).collect::<Vec<_>>()))
        });
    }

    /// Claims that a change of a policy or a mode was made at its time.
    fn change(&mut self, said: &Value) {
        let at = said["at_unix_ms"].as_i64().unwrap_or(0);
        for item in said["items"].as_array().into_iter().flatten() {
            let timeline = match item["subject"].as_str() {
                Some("policy") => &self.world.policy,
                Some("mode") => &self.world.mode_setting,
                _ => continue,
            };
            let known: Vec<&String> = timeline.during(While { from: at, to: at }).collect();
            let new = item["new"].as_str().unwrap_or_default();
            self.claim("change of a setting", known.iter().any(|known| new.starts_with(known.as_str())), || {
                format!("{said}, was {known:?}")
            });
        }
    }
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn same(known: Option<f64>, claimed: Option<f64>) -> bool {
    match (known, claimed) {
        (Some(known), Some(claimed)) => (known - claimed).abs() < ROUNDING,
        (known, claimed) => known == claimed,
    }
}
