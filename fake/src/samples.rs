//! Sample jobs, nodes and status for snapshots of the clients' output; each kind of value occurs.

use std::num::NonZeroU32;

use limo_model::{
    Band, Budget, Budgets, Containment, Cores, Energy, Estimate, EstimateSource, JobEnd, JobId, JobShare, Memory,
    Meter, Mode, ModeSetting, Money, Outcome, Power, Preset, Price, Profile, ProfileKey, Release, Span, Time, UnitKind,
    Usage, Wait,
};
use limo_proto::{BudgetAccount, Candidate, JobReport, JobState, NodeReport, NodeState, Status, UnitReport};

/// 2017-10-26 11:00:00 UTC, in milliseconds: never today, so that times are shown with their dates.
const ELEVEN: i64 = 1_509_015_600_000;

fn minutes(count: i64) -> Time {
    Time::from_unix_ms(ELEVEN) + Span::from_secs(count * 60)
}

fn estimate() -> Estimate {
    Estimate {
        duration: Span::from_secs(600),
        power: Power::from_watts(90),
        energy: Energy::from_joules(54_000),
        source: EstimateSource::Learned,
        runs: 3,
    }
}

/// Returns a job that waits for the band.
pub fn waiting_job(id: u64) -> JobReport {
    let wait = Wait::Band { needs: Power::from_watts(90), left: Power::from_mw(41_500), until: Some(minutes(180)) };
    JobReport {
        job: JobId(id),
        state: JobState::Waiting,
        user: "ada".into(),
        name: "cg".into(),
        application: "cg".into(),
        command: "./cg -n 5 'a b'".into(),
        cores: Cores::Count(NonZeroU32::MIN),
        memory: Memory::from_bytes(1 << 30),
        time_limit: Some(Span::from_secs(3600)),
        deadline: Some(minutes(600)),
        start_by: None,
        nodes: Vec::new(),
        units: Vec::new(),
        submitted: minutes(0),
        started: None,
        ended: None,
        end: None,
        wait: Some(wait),
        estimate: None,
        energy: None,
        cost: None,
        start_now_cost: None,
        stdout: None,
        stderr: None,
        emulated: false,
        held: None,
        allowance: None,
        used_up: None,
        begin: None,
        dependencies: Vec::new(),
        singleton: false,
        task: None,
        array: None,
        measured: None,
        confidence: None,
        priority: Some(limo_model::Standing::default()),
        unreachable: Vec::new(),
        suspended: None,
        packed: None,
        explores: None,
        queue: None,
        widths: None,
        evictions: Default::default(),
        kept: None,
        checkpoint_failed: None,
        step: None,
        steps: 0,
        node_count: 1,
        total_cores: Some(1),
        directory: Some("/home/ada".into()),
        usage: None,
        licences: Vec::new(),
        account: None,
        qos: None,
        labels: None,
    }
}

/// Returns a job that has been running since 11:05 on emulated hardware.
pub fn running_job(id: u64) -> JobReport {
    JobReport {
        state: JobState::Running,
        cores: Cores::All,
        nodes: vec!["n1".into()],
        units: vec!["n1/gpu".into()],
        started: Some(minutes(5)),
        wait: None,
        estimate: Some(estimate()),
        energy: Some(Energy::from_joules(120)),
        emulated: true,
        ..waiting_job(id)
    }
}

/// Three quarters of the time of one core, and half of a gibibyte.
fn usage() -> Usage {
    Usage {
        elapsed: Span::from_secs(600),
        user_cpu: Span::from_secs(420),
        system_cpu: Span::from_secs(30),
        max_rss: Memory::from_bytes(1 << 29),
        ..Usage::default()
    }
}

/// Returns a job that ran from 11:05 to 11:15.
pub fn finished_job(id: u64, outcome: Outcome) -> JobReport {
    let end = JobEnd::Ran { outcome, stopped: None };
    JobReport {
        state: JobState::of(&end),
        units: vec!["n1/cpu".into()],
        ended: Some(minutes(15)),
        end: Some(end),
        estimate: None,
        energy: Some(Energy::from_joules(54_000)),
        cost: Some(Money::from_micro(1_200)),
        start_now_cost: Some(Money::from_micro(2_400)),
        emulated: false,
        measured: Some(true),
        confidence: Some(1_000),
        priority: None,
        usage: Some(usage()),
        ..running_job(id)
    }
}

/// Returns a unit that suits the waiting job, apart from the band.
pub fn candidate(obstacle: Option<Wait>) -> Candidate {
    Candidate {
        node: "n1".into(),
        unit: "cpu".into(),
        hardware: "xeon".into(),
        cap: None,
        estimate: estimate(),
        origin: "learned from 3 runs of cg".into(),
        cost: Some(Money::from_micro(1_200)),
        waiting: Money::from_micro(300),
        band: Money::from_micro(-100),
        obstacle,
    }
}

/// Returns an emulated node with a job on its accelerator.
pub fn node(name: &str) -> NodeReport {
    let cpu = UnitReport {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 8,
        cores_used: 2,
        cap: None,
        caps: Some((Power::from_watts(8), Power::from_watts(60))),
        jobs: vec![JobId(3)],
    };
    let gpu = UnitReport {
        name: "gpu".into(),
        hardware: "quadro-p2000".into(),
        kind: UnitKind::Accelerator,
        cores: 1,
        cores_used: 1,
        cap: None,
        caps: None,
        jobs: vec![JobId(4)],
    };
    NodeReport {
        name: name.into(),
        state: NodeState::Up,
        group: None,
        reason: None,
        units: vec![cpu, gpu],
        memory: Memory::from_bytes(16 << 30),
        memory_used: Memory::from_bytes(1 << 30),
        idle: Power::from_watts(15),
        draw: Power::from_mw(48_500),
        measured: true,
        meter: Meter::Emulated,
        energy: Energy::from_joules(1_000),
        cost: Some(Money::from_micro(80)),
        connected: true,
        unreachable_since: None,
        held: Power::ZERO,
        sleep: None,
        asleep_energy: Energy::ZERO,
        switching_energy: Energy::ZERO,
        containment: Some(Containment::FULL),
    }
}

/// Returns the status of a cluster in the middle of its band.
pub fn status() -> Status {
    let band = |low, high| Band::new(Power::from_watts(low), Power::from_watts(high)).unwrap_or(Band::UNLIMITED);
    Status {
        now: minutes(0),
        policy: Preset::Limo,
        mode: Mode::High,
        mode_setting: ModeSetting::Auto,
        band: band(40, 60),
        budgets: Budgets::default(),
        account: None,
        next_band: Some((minutes(60), band(20, 90))),
        limits_ended: None,
        price: Some(Price::from_milli_per_mwh(80_000)),
        next_price: Some((minutes(60), Some(Price::from_milli_per_mwh(-20_000)))),
        prices_ended: None,
        draw: Power::from_watts(50),
        idle: Power::from_watts(15),
        waiting: 3,
        running: 2,
        nodes_up: 3,
        nodes: 4,
        emulated: true,
        energy: Energy::from_joules(360_000),
        cost: Some(Money::from_micro(8_000)),
        jobs_cost: Some(Money::from_micro(5_000)),
        jobs_start_now_cost: Some(Money::from_micro(7_500)),
        in_band_permille: Some(975),
        rejected_plans: 0,
        trouble: None,
        prices_by: None,
        feeds: Vec::new(),
        own_band: None,
        grid: Vec::new(),
        meters: Vec::new(),
        unreachable: Vec::new(),
        held: Power::ZERO,
        foreign: Vec::new(),
        groups: Vec::new(),
        licences: Vec::new(),
        nodes_asleep: 0,
        asleep_energy: Energy::ZERO,
        switching_energy: Energy::ZERO,
        parts: Preset::Limo.parts(),
        explore: JobShare::NONE,
    }
}

/// Returns the same status with two budgets: for a day that began at nine, and for the day after.
pub fn status_with_budget() -> Status {
    let day = |from: i64, kwh: i64, release| Budget {
        from: minutes(from),
        until: minutes(from + 24 * 60),
        energy: Energy::from_joules(kwh * 3_600_000),
        release,
    };
    let budget = day(-120, 12, Release::Even);
    let periods = vec![budget, day(-120 + 24 * 60, 10, Release::ByPrice)];
    let account = BudgetAccount {
        budget,
        released: Energy::from_joules(3_600_000),
        spent: Energy::from_joules(2_700_000),
        reserved: Energy::from_joules(360_000),
    };
    Status {
        policy: Preset::Energybud,
        parts: Preset::Energybud.parts(),
        budgets: Budgets::new(periods).unwrap_or_default(),
        account: Some(account),
        ..status()
    }
}

/// Returns a profile of CG on a Xeon, from three runs.
pub fn profile() -> (ProfileKey, Profile) {
    let key = ProfileKey {
        application: "cg".into(),
        size: String::new(),
        hardware: "xeon".into(),
        cores: Some(8),
        nodes: None,
        cap: None,
    };
    let Estimate { duration, power, energy, source, runs } = estimate();
    (key, Profile { duration, power, energy, spread_permille: 50, runs, source })
}
