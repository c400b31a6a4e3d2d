//! `lq energy`: energy and cost of finished jobs, as sums by user, job, application or day, and energy of nodes.

use limo_client::json::EnergyJson;
use limo_client::{Align, Clock, Failure, Master, Room, Screen, Table, answer_json, answer_screen, exit, or_dash};
use limo_model::{Energy, Money, Span, Time};
use limo_proto::{EnergyBy, EnergyQuery, EnergyReport, EnergySum, JobFilter};

use crate::args::{By, EnergyArgs};

/// Default range in days.
const DAYS: i64 = 30;

/// Prints the sums.
///
/// # Errors
/// If the master cannot be asked, or options exclude each other.
pub async fn run(args: &EnergyArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    let query = query(args, &Clock::system())?;
    let (by, range) = (query.by.clone(), (query.since, query.until));
    let report = master.session().await?.energy(query).await?;
    let clock = Clock::system();
    if json {
        answer_json(&EnergyJson::new(&by, range, &report, &clock))?;
    } else {
        answer_screen(&as_text(&report, args, (&clock, &Screen::of_stdout())))?;
    }
    Ok(exit::DONE)
}

fn query(args: &EnergyArgs, clock: &Clock) -> Result<EnergyQuery, Failure> {
    let (mut since, until) = (args.ended.since, args.ended.until);
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(Failure::new("--until is not after --since"));
    }
    let filter = args.filter.filter();
    if let Some(state) = args.filter.states.iter().find(|state| !state.is_over()) {
        return Err(Failure::new(format_args!("a job that is {} has not used its energy yet", state.name())));
    }
    let by = match args.by {
        By::User => EnergyBy::User,
        By::Job => EnergyBy::Job,
        By::Application => EnergyBy::Application,
        By::Account => EnergyBy::Account,
        By::Node | By::Group if !filter.is_empty() => {
            let by = word(args.by);
            let failure = Failure::new(format_args!(
                "the energy of nodes is not divided among jobs: --by {by} cannot be combined with filters of jobs"
            ));
            return Err(failure.hint(format!("lq energy --by {by} --since now-1d")));
        }
        By::State if (JobFilter { nodes: Vec::new(), ..filter.clone() }) != JobFilter::default() => {
            let failure = Failure::new("states are those of nodes: --by state cannot be combined with filters of jobs");
            return Err(failure.hint("lq energy --by state -w n1"));
        }
        By::Node => EnergyBy::Node,
        By::Group => EnergyBy::Group,
        By::State => EnergyBy::State,
        By::Day => {
            let end = until.unwrap_or(clock.now());
            let begin = *since.get_or_insert(end - Span::from_secs(DAYS * 86_400));
            EnergyBy::Days(clock.days(begin, end).map_err(Failure::new)?)
        }
    };
    Ok(EnergyQuery { by, filter, since, until, limit: args.limit })
}

fn word(by: By) -> &'static str {
    match by {
        By::User => "user",
        By::Job => "job",
        By::Node => "node",
        By::Group => "group",
        By::State => "state",
        By::Day => "day",
        By::Application => "application",
        By::Account => "account",
    }
}

/// Formats the key of a sum.
fn key(sum: &EnergySum, by: By, clock: &Clock) -> String {
    match begin(sum, by) {
        Some(begin) => clock.date(begin),
        None if matches!(by, By::Group | By::Account) && sum.key.is_empty() => "-".to_owned(),
        None => sum.key.clone(),
    }
}

fn begin(sum: &EnergySum, by: By) -> Option<Time> {
    if by == By::Day { sum.key.parse().ok().map(Time::from_unix_ms) } else { None }
}

/// Returns true if the sums are over nodes and not over jobs.
fn is_of_nodes(by: By) -> bool {
    matches!(by, By::Node | By::Group | By::State)
}

fn saved(sum: &EnergySum) -> Option<Money> {
    Some(sum.start_now_cost? - sum.cost?)
}

fn as_text(report: &EnergyReport, args: &EnergyArgs, (clock, screen): (&Clock, &Screen)) -> String {
    let title = match args.by {
        By::User => "USER",
        By::Job => "JOB",
        By::Node => "NODE",
        By::Group => "GROUP",
        By::State => "STATE",
        By::Day => "DAY",
        By::Application => "APPLICATION",
        By::Account => "ACCOUNT",
    };
    let of_jobs: &[(&'static str, Align)] = &[
        (title, Align::Left),
        ("JOBS", Align::Right),
        ("ENERGY", Align::Figure),
        ("COST", Align::Right),
        ("AT ONCE", Align::Right),
        ("SAVED", Align::Right),
        ("OF THE ENERGY", Align::Left),
    ];
    let of_nodes: &[(&'static str, Align)] =
        &[(title, Align::Left), ("ENERGY", Align::Figure), ("KNOWN FOR", Align::Right), ("OF THE ENERGY", Align::Left)];
    let of_states: &[(&'static str, Align)] =
        &[(title, Align::Left), ("TIME", Align::Right), ("ENERGY", Align::Figure), ("KNOWN FOR", Align::Right)];
    let (is_nodes, is_states) = (is_of_nodes(args.by), args.by == By::State);
    let mut table = Table::new(match is_nodes {
        _ if is_states => of_states,
        true => of_nodes,
        false => of_jobs,
    });
    table.room(0, Room::GivesWay(8));
    if !is_states {
        table.room(if is_nodes { 3 } else { 6 }, Room::GivesWay(15));
    }
    let mut row = |name: String, sum: &EnergySum, how: String| {
        let energy = sum.energy.to_string();
        if is_states {
            table.row([name, or_dash(sum.span), energy, or_dash(sum.seen)]);
        } else if is_nodes {
            table.row([name, energy, or_dash(sum.seen), how]);
        } else {
            let costs = [or_dash(sum.cost), or_dash(sum.start_now_cost), or_dash(saved(sum))];
            table.row([name, sum.jobs.to_string(), energy].into_iter().chain(costs).chain([how]));
        }
    };
    for sum in &report.sums {
        row(key(sum, args.by, clock), sum, how(sum));
    }
    if is_states {
        row("total".into(), &report.total, String::new());
    } else if is_nodes {
        row("cluster".into(), &report.total, "believed".into());
    } else {
        row("total".into(), &report.total, how(&report.total));
    }
    let note = if is_states {
        "Of all nodes together, with idle draw, as meters showed it in the time of KNOWN FOR.\n"
    } else if is_nodes {
        "With idle draw, as meters showed it; `believed` estimates nodes without a meter.\n"
    } else {
        "Above idle, of finished jobs. AT ONCE is the cost if each had started at its submission.\n"
    };
    format!("{}\n{note}", table.render_for(screen))
}

/// Formats the shares of the energy that were measured, estimated and modelled: `80% measured, 20% estimated`.
fn how(sum: &EnergySum) -> String {
    if sum.energy <= Energy::ZERO {
        return "-".into();
    }
    let unknown = (sum.energy - sum.measured - sum.estimated - sum.emulated).at_least_zero();
    let parts =
        [(sum.measured, "measured"), (sum.emulated, "emulated"), (sum.estimated, "estimated"), (unknown, "unknown")];
    let share = |part: Energy| (part.mj() as f64 * 100.0 / sum.energy.mj() as f64).round();
    let parts: Vec<String> = parts
        .iter()
        .filter(|(part, _)| *part > Energy::ZERO)
        .map(|(part, word)| format!("{}% {word}", share(*part)))
        .collect();
    match parts.as_slice() {
        [one] => one.strip_prefix("100% ").unwrap_or(one).to_owned(),
        several => several.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_energy_are_percentages() {
        let check = |[energy, measured, estimated, emulated]: [i64; 4], expected: &str| {
            let [energy, measured, estimated, emulated] =
                [energy, measured, estimated, emulated].map(Energy::from_joules);
            assert_eq!(how(&EnergySum { energy, measured, estimated, emulated, ..EnergySum::default() }), expected);
        };
        check([0, 0, 0, 0], "-");
        check([200, 200, 0, 0], "measured");
        check([200, 0, 0, 0], "unknown");
        check([200, 100, 50, 30], "50% measured, 15% emulated, 25% estimated, 10% unknown");
    }

    /// Returns the words of each line of a table.
    fn words(by: &str, sums: Vec<EnergySum>) -> Vec<String> {
        use clap::Parser as _;

        let args = crate::args::Args::try_parse_from(["lq", "energy", "--by", by]).expect("a command");
        let Some(crate::args::Command::Energy(args)) = args.command else { panic!("{args:?}") };
        let total = EnergySum { energy: "3 kWh".parse().expect("energy"), ..EnergySum::default() };
        let text = as_text(&EnergyReport { sums, total }, &args, (&Clock::system(), &Screen::of_stdout()));
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn groups_and_states_of_nodes_have_their_columns() {
        let hours = |hours: i64| Some(Span::from_secs(3_600 * hours));
        let energy: Energy = "1.5 kWh".parse().expect("energy");
        let sum = |key: &str| EnergySum { key: key.to_owned(), energy, seen: hours(5), ..EnergySum::default() };
        let states = words("state", vec![EnergySum { span: hours(6), ..sum("job") }]);
        assert_eq!(states[..3], ["STATE TIME ENERGY KNOWN FOR", "job 6h 1.500 kWh 5h", "total - 3.000 kWh -"]);
        let groups = words("group", vec![EnergySum { measured: energy, ..sum("desks") }, sum("")]);
        let expected =
            ["GROUP ENERGY KNOWN FOR OF THE ENERGY", "desks 1.500 kWh 5h measured", "- 1.500 kWh 5h unknown"];
        assert_eq!(groups[..3], expected);
    }
}
