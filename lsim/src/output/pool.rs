//! Figures of a pool: states of its nodes, overheads of jobs, and wasted work (htc-sim-2015, section III-H).

use limo_model::{Energy, Money, Span};

use super::json::Json;
use crate::engine::{GroupBill, NodeActivity, PoolFigures, RunTime, Spent};

/// Causes of evictions, in the order of [`PoolFigures::wasted`].
const CAUSES: [&str; 2] = ["owners", "reboots"];

/// Overheads of jobs in ascending order, in milliseconds.
struct Overheads(Vec<i64>);

impl Overheads {
    fn of(pool: &PoolFigures) -> Self {
        let mut overheads = pool.overheads.clone();
        overheads.sort_unstable();
        Self(overheads)
    }

    /// Returns the mean, rounded down; `None` without jobs.
    fn mean(&self) -> Option<i64> {
        self.0.iter().sum::<i64>().checked_div(i64::try_from(self.0.len()).ok()?)
    }

    /// Returns the value that this share of the jobs do not exceed, in thousandths.
    fn at(&self, permille: usize) -> Option<i64> {
        self.0.get((self.0.len() * permille).div_ceil(1_000).saturating_sub(1)).copied()
    }
}

/// Returns the mean overhead in milliseconds, the number of evictions and the energy that they wasted in mJ.
pub fn totals(pool: &PoolFigures) -> (Option<i64>, u64, i128) {
    let evictions = pool.wasted.iter().map(|of| of.count).sum();
    let wasted: i128 = pool.wasted.iter().map(|of| of.spent.uj.div_euclid(1_000)).sum();
    (Overheads::of(pool).mean(), evictions, wasted)
}

/// Returns lines of a table with a name and a value.
pub fn lines(pool: &PoolFigures) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let overheads = Overheads::of(pool);
    let shown = |ms: Option<i64>| ms.map_or("-".to_owned(), |ms| Span::from_ms(ms).to_string());
    let [mean, median, p95] = [overheads.mean(), overheads.at(500), overheads.at(950)].map(shown);
    lines.push(("overhead".to_owned(), format!("mean {mean}, median {median}, p95 {p95}")));
    let work = |of: &RunTime| format!("{} of {}", energy(of.spent.uj), of.spent.span);
    lines.push(("good work".to_owned(), work(&pool.good)));
    for (cause, wasted) in CAUSES.into_iter().zip(&pool.wasted) {
        let text = format!("{} evictions, {} wasted", wasted.count, work(wasted));
        lines.push((format!("evicted, {cause}"), text));
    }
    if pool.checkpoints.count > 0 {
        lines.push(("checkpoints".to_owned(), format!("{}, {}", pool.checkpoints.count, work(&pool.checkpoints))));
    }
    if pool.transfers.count > 0 {
        let mean = Span::from_ms(mean_transfer(pool).unwrap_or(0));
        lines.push(("transfers".to_owned(), format!("mean {mean}, {}", work(&pool.transfers))));
    }
    if pool.given_up > 0 {
        lines.push(("given up".to_owned(), format!("{} jobs", pool.given_up)));
    }
    lines.push((
        "owners".to_owned(),
        format!("{} visits; {} reboots, {} left out", pool.visits, pool.reboots, pool.left_out),
    ));
    let facility = all(&pool.bills);
    if facility.facility_uj != facility.uj || facility.cost.is_some() || facility.carbon_mg != 0 {
        let cost = facility.cost.map_or("unknown".to_owned(), |cost| cost.to_string());
        let kg = facility.carbon_mg as f64 / 1e6;
        let charge = facility.charge;
        let text = format!("{} for {cost}; {kg:.1} kg of carbon ({charge})", energy(facility.facility_uj));
        lines.push(("facility".to_owned(), text));
    }
    for (activity, spent) in NodeActivity::ALL.into_iter().zip(total(pool)) {
        if spent.span > Span::ZERO {
            let text = format!("{} in {}", energy(spent.uj), spent.span);
            lines.push((format!("nodes, {}", activity.name()), text));
        }
    }
    lines
}

/// Returns the mean time of the transfers of an attempt that has some, in milliseconds, rounded down.
fn mean_transfer(pool: &PoolFigures) -> Option<i64> {
    pool.transfers.spent.span.ms().checked_div(i64::try_from(pool.transfers.count).ok()?)
}

/// Returns the sums over all groups.
fn total(pool: &PoolFigures) -> [Spent; 9] {
    let mut sums = [Spent::default(); 9];
    for group in &pool.ledger {
        for (sum, spent) in sums.iter_mut().zip(group) {
            sum.span = sum.span + spent.span;
            sum.uj += spent.uj;
        }
    }
    sums
}

fn energy(uj: i128) -> Energy {
    Energy::from_mj(i64::try_from(uj.div_euclid(1_000)).unwrap_or(i64::MAX))
}

/// Writes the figures as JSON.
pub fn write(json: &mut Json, pool: &PoolFigures) {
    let overheads = Overheads::of(pool);
    json.key("overhead_s").object(|json| {
        for (key, ms) in [("mean", overheads.mean()), ("median", overheads.at(500)), ("p95", overheads.at(950))] {
            json.key(key);
            match ms {
                Some(ms) => json.decimal(ms.into(), 3),
                None => json.null(),
            }
        }
    });
    let (_, evictions, wasted) = totals(pool);
    json.key("evictions").int(evictions.into());
    json.key("wasted_energy_j").decimal(wasted, 3);
    let work = |json: &mut Json, key: &str, counted: &str, of: &RunTime| {
        json.key(key).object(|json| {
            json.key(counted).int(of.count.into());
            spent(json, of.spent);
        });
    };
    work(json, "good", "jobs", &pool.good);
    for (cause, wasted) in CAUSES.into_iter().zip(&pool.wasted) {
        work(json, &format!("wasted_by_{cause}"), "evictions", wasted);
    }
    work(json, "checkpoints", "count", &pool.checkpoints);
    work(json, "transfers", "attempts", &pool.transfers);
    json.key("mean_transfer_s");
    match mean_transfer(pool) {
        Some(ms) => json.decimal(ms.into(), 3),
        None => json.null(),
    }
    work(json, "removed", "jobs", &pool.removed);
    json.key("given_up").int(pool.given_up.into());
    json.key("visits").int(pool.visits.into());
    json.key("reboots").int(pool.reboots.into());
    json.key("reboots_left_out").int(pool.left_out.into());
    json.key("facility").object(|json| bill(json, &all(&pool.bills)));
    json.key("facility_by_group").object(|json| {
        for of in &pool.bills {
            json.key(&of.group).object(|json| bill(json, of));
        }
    });
    json.key("groups").array(|json| {
        for group in &pool.ledger {
            json.object(|json| {
                for (activity, of) in NodeActivity::ALL.into_iter().zip(group) {
                    json.key(activity.name()).object(|json| spent(json, *of));
                }
            });
        }
    });
}

fn spent(json: &mut Json, Spent { span, uj }: Spent) {
    json.key("node_s").decimal(span.ms().into(), 3);
    json.key("energy_j").decimal(uj.div_euclid(1_000), 3);
}

/// Returns the sum of the bills of all groups.
fn all(bills: &[GroupBill]) -> GroupBill {
    let sum = |of: fn(&GroupBill) -> i128| bills.iter().map(of).sum();
    GroupBill {
        group: String::new(),
        uj: sum(|of| of.uj),
        facility_uj: sum(|of| of.facility_uj),
        cost: bills.iter().fold(None, |sum, of| Money::of_known(sum, of.cost)),
        carbon_mg: sum(|of| of.carbon_mg),
        charge: bills.iter().map(|of| of.charge).sum(),
    }
}

fn bill(json: &mut Json, of: &GroupBill) {
    json.key("nodes_j").decimal(of.uj.div_euclid(1_000), 3);
    json.key("energy_j").decimal(of.facility_uj.div_euclid(1_000), 3);
    json.key("cost");
    match of.cost {
        Some(cost) => json.decimal(cost.micro().into(), 6),
        None => json.null(),
    }
    json.key("carbon_kg").decimal(of.carbon_mg, 6);
    json.key("carbon_charge").decimal(of.charge.micro().into(), 6);
}
