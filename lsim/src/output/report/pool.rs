//! The part of the report about a pool: its nodes over the day, its owners, and its evictions.

use limo_model::{NodeActivity, Span};
use limo_plot::{Axis, Cell, Chart, PlotLine, Stack, Table};

use crate::engine::{PoolFigures, RunTime};

const HOUR_MS: f64 = 3_600_000.0;

/// Returns the part as HTML.
pub fn section(pool: &PoolFigures) -> String {
    let causes = evictions(pool).html();
    let (day, logins) = (over_the_day(pool), logins(pool));
    format!("<section aria-labelledby=\"pool\">\n<h2 id=\"pool\">Pool</h2>\n{day}{logins}{causes}</section>\n")
}

/// Draws the mean number of nodes in each state by hour of the day.
fn over_the_day(pool: &PoolFigures) -> String {
    let ms = pool.hours.ms();
    let nodes = pool.nodes as f64;
    // All nodes are in some state at all times, so the sum of an hour is its part of the simulated time.
    let sums: Vec<f64> = (0..24).map(|hour| ms.iter().map(|of| of[hour] as f64).sum()).collect();
    let mean = |hour: usize, of: &[i64; 24]| if sums[hour] > 0.0 { of[hour] as f64 / sums[hour] * nodes } else { 0.0 };
    let states = NodeActivity::ALL.into_iter().zip(&ms).filter(|(_, of)| of.iter().any(|ms| *ms > 0));
    let bands: Vec<(&str, Vec<f64>)> =
        states.map(|(state, of)| (state.name(), (0..24).map(|hour| mean(hour, of)).collect())).collect();
    let places: Vec<f64> = (0..24).map(|hour| f64::from(hour) + 0.5).collect();
    let across = Axis::stepped(0.0, 24.0, 3.0);
    let down = Axis::of_values([nodes].into_iter(), false);
    let (across_name, down_name) = ("hour of the day (UTC)", "nodes");
    let stack = Stack { across: &across, down: &down, across_name, down_name, bands: &bands, places: &places };
    figure("Nodes by state over the day, mean of all days", &(stack.legend() + &stack.svg()))
}

fn logins(pool: &PoolFigures) -> String {
    if pool.logins.is_empty() {
        return String::new();
    }
    let point = |(day, count): (usize, &u32)| (day as f64, f64::from(*count), format!("day {day}"));
    let line = PlotLine {
        index: 0,
        name: "logins".to_owned(),
        points: pool.logins.iter().enumerate().map(point).collect(),
        is_marked: pool.logins.len() < 2,
    };
    let across = Axis::of_values([pool.logins.len() as f64].into_iter(), false);
    let down = Axis::of_values(pool.logins.iter().map(|count| f64::from(*count)), false);
    let (across_name, down_name, series) = ("day", "logins", &[line]);
    let chart = Chart { across: &across, down: &down, across_name, down_name, series };
    figure("Logins of owners per day", &chart.svg())
}

fn figure(caption: &str, body: &str) -> String {
    format!("<figure class=\"pool\">\n<figcaption>{caption}</figcaption>\n{body}</figure>\n")
}

/// Makes the table of the evictions and of the time that is not good work.
fn evictions(pool: &PoolFigures) -> Table {
    let [owners, reboots] = &pool.wasted;
    let rows = [
        ("evicted by owners", owners),
        ("evicted by reboots", reboots),
        ("checkpoints", &pool.checkpoints),
        ("transfers", &pool.transfers),
        ("removed jobs", &pool.removed),
        ("completed jobs", &pool.good),
    ];
    let row = |(name, of): (&str, &RunTime)| {
        let hours = of.spent.span.max(Span::ZERO).ms() as f64 / HOUR_MS;
        let kwh = of.spent.uj as f64 / 3.6e12;
        vec![Cell::from(name), of.count.to_string().into(), format!("{hours:.1}").into(), format!("{kwh:.3}").into()]
    };
    Table {
        caption: "Time of jobs on nodes, by its use".to_owned(),
        head: ["", "number", "time (h)", "energy (kWh)"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Time;

    use super::*;

    /// One of two nodes has a job from 03:00 to 04:00 of a day; both are idle otherwise.
    #[test]
    fn bands_are_the_mean_numbers_of_nodes() {
        let at = |hours: i64| Time::from_unix_ms(0) + Span::from_secs(3_600 * hours);
        let mut pool = PoolFigures { nodes: 2, logins: vec![3, 0, 1], ..PoolFigures::default() };
        pool.wasted[0] = RunTime { count: 7, ..RunTime::default() };
        pool.wasted[0].spent.span = Span::from_secs(5_400);
        for (state, from, to) in [
            (NodeActivity::Idle, 0, 24),
            (NodeActivity::Idle, 0, 3),
            (NodeActivity::Job, 3, 4),
            (NodeActivity::Idle, 4, 24),
        ] {
            pool.hours.add(state, at(from), at(to));
        }
        let html = section(&pool);
        // The axis of nodes ends at 2 at the top (12), and begins at 288: one node is at 150.
        let places: Vec<&str> = html.split_once("class=\"b0\"").expect("idle nodes").1.split('L').take(5).collect();
        assert!(
            places[3].ends_with(" 150.0") && places[2].ends_with(" 12.0") && places[4].ends_with(" 12.0"),
            "{html}"
        );
        assert!(html.contains("<th scope=\"row\">evicted by owners</th><td>7</td><td>1.5</td>"), "{html}");
        assert!(html.contains("Logins of owners per day"), "{html}");
    }
}
