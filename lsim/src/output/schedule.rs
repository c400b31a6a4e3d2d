//! `schedule.json`: figures of one run. `"schema": 1`; keys name their unit, energy in joules, money in `currency`.
//!
//! `wall_s` and `peak_rss_bytes` describe the simulating machine. They come last and are the only two that differ
//! between equal runs.

use limo_model::{Currency, Energy, Money, Time};

use super::json::Json;
use super::metrics::Metrics;
use super::pool;
use crate::record::{BudgetPeriod, ByState, Heading, HostUse, PredictionErrors, Summary};

/// Returns the file's text; without `host`, the part that equal runs share.
pub fn text(heading: &Heading, metrics: &Metrics, summary: &Summary, host: Option<HostUse>) -> String {
    let mut json = Json::pretty();
    json.object(|json| {
        json.key("schema").int(1);
        run(json, heading);
        jobs(json, metrics);
        platform(json, heading, metrics, summary);
        json.key("budget_periods").array(|json| {
            for period in &summary.budgets {
                budget(json, heading.start, period);
            }
        });
        if let Some(figures) = &summary.pool {
            json.key("pool").object(|json| pool::write(json, figures));
        }
        if let Some(errors) = &summary.predictions {
            json.key("predictions").object(|json| predictions(json, errors));
        }
        json.key("rounds").int(i128::from(summary.rounds));
        json.key("violations").int(i128::from(summary.violations));
        json.key("versions").object(|json| json.key("lsim").text(env!("CARGO_PKG_VERSION")));
        if let Some(host) = host {
            json.key("wall_s").decimal(i128::from(host.wall.ms()), 3);
            json.key("peak_rss_bytes").int(i128::from(host.peak_rss_bytes));
        }
    });
    json.into_text()
}

fn predictions(json: &mut Json, errors: &PredictionErrors) {
    json.key("jobs").int(i128::from(errors.jobs));
    json.key("mean_error_share");
    match errors.error_millionths() {
        Some(error) => json.decimal(error, 6),
        None => json.null(),
    }
    json.key("below_quantile_share").decimal(errors.covered_millionths(), 6);
}

fn run(json: &mut Json, heading: &Heading) {
    json.key("policy").text(&heading.policy);
    json.key("options").object(|json| {
        for (key, value) in &heading.options {
            json.key(key).text(value);
        }
    });
    json.key("workload").text(&heading.workload);
    json.key("platform").text(&heading.platform);
    json.key("processors").int(i128::from(heading.processors));
    json.key("seed");
    match heading.seed {
        Some(seed) => json.int(i128::from(seed)),
        None => json.null(),
    }
}

fn jobs(json: &mut Json, metrics: &Metrics) {
    let counts = &metrics.counts;
    json.key("jobs").int(i128::from(metrics.jobs()));
    json.key("jobs_started").int(i128::from(counts.started));
    json.key("jobs_completed").int(i128::from(counts.completed));
    json.key("jobs_killed").int(i128::from(counts.killed));
    json.key("jobs_refused").int(i128::from(counts.refused));
    json.key("jobs_unfinished").int(i128::from(counts.unfinished));
    json.key("utilisation").decimal(metrics.utilisation_millionths(), 6);
    json.key("avebsld").decimal(metrics.avebsld_millionths(), 6);
    json.key("max_bsld").decimal(metrics.max_bsld_millionths(), 6);
    json.key("mean_wait_s").decimal(metrics.mean_wait_us(), 6);
    json.key("max_wait_s").decimal(i128::from(metrics.max_wait().ms()), 3);
    json.key("mean_turnaround_s").decimal(metrics.mean_turnaround_us(), 6);
    json.key("makespan_s").decimal(i128::from(metrics.makespan().ms()), 3);
    json.key("busy_processor_s").decimal(metrics.busy_processor_ms(), 3);
}

fn platform(json: &mut Json, heading: &Heading, metrics: &Metrics, summary: &Summary) {
    json.key("simulated_s").decimal(i128::from((summary.end - heading.start).ms()), 3);
    joules(json, "energy_j", metrics.energy());
    by_state(json, &summary.energy_by_state);
    json.key("draw_at_end_w").decimal(i128::from(metrics.draw_at_end().mw()), 3);
    money(json, metrics.cost());
    json.key("currency").text(Currency::agreed().code());
    json.key("outside_limits_share").decimal(metrics.outside_limits_millionths(), 6);
    json.key("switches").object(|json| {
        json.key("on").int(i128::from(summary.switches.on));
        json.key("off").int(i128::from(summary.switches.off));
    });
    json.key("steering").object(|json| {
        json.key("caps").int(i128::from(summary.steering.caps));
        json.key("suspended").int(i128::from(summary.steering.suspended));
        json.key("resumed").int(i128::from(summary.steering.resumed));
        json.key("requeued").int(i128::from(summary.steering.requeued));
    });
    json.key("window");
    match heading.window.zip(metrics.energy_in_window()) {
        Some((window, energy)) => json.object(|json| {
            seconds(json, "from_s", heading.start, window.from);
            seconds(json, "until_s", heading.start, window.until);
            joules(json, "energy_j", energy);
            money(json, metrics.cost_in_window());
        }),
        None => json.null(),
    }
}

fn by_state(json: &mut Json, energy: &ByState<Energy>) {
    json.key("energy_by_state_j").object(|json| {
        joules(json, "idle", energy.idle);
        joules(json, "computing", energy.computing);
        joules(json, "off", energy.off);
        joules(json, "switching_on", energy.switching_on);
        joules(json, "switching_off", energy.switching_off);
    });
}

fn budget(json: &mut Json, start: Time, period: &BudgetPeriod) {
    json.object(|json| {
        seconds(json, "from_s", start, period.window.from);
        seconds(json, "until_s", start, period.window.until);
        joules(json, "energy_j", period.energy);
        joules(json, "spent_j", period.spent);
        json.key("overspent").bool(period.spent > period.energy);
    });
}

fn money(json: &mut Json, cost: Option<Money>) {
    json.key("cost");
    match cost {
        Some(cost) => json.decimal(i128::from(cost.micro()), 6),
        None => json.null(),
    }
}

fn joules(json: &mut Json, key: &str, energy: Energy) {
    json.key(key).decimal(i128::from(energy.mj()), 3);
}

fn seconds(json: &mut Json, key: &str, start: Time, at: Time) {
    json.key(key).decimal(i128::from((at - start).ms()), 3);
}
