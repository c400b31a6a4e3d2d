//! Columns of sacct.

use limo_client::{Failure, Used};
use limo_model::Span;

use super::processor_time;
use crate::format::cell;
use crate::view::View;
use crate::{status, values};

/// A column: its title, its width, and its value.
struct AccountColumn {
    title: &'static str,
    width: usize,
    value: fn(&View) -> String,
}

const fn column(title: &'static str, width: usize, value: fn(&View) -> String) -> AccountColumn {
    AccountColumn { title, width, value }
}

fn none(_: &View) -> String {
    String::new()
}

const COLUMNS: [AccountColumn; 64] = [
    column("JobID", 12, |view| view.label()),
    column("JobIDRaw", 12, |view| view.number()),
    column("JobName", 10, |view| view.job.name.clone()),
    column("Partition", 10, |view| view.partition()),
    column("Account", 10, |view| view.account()),
    column("AssocID", 10, |view| view.association().to_string()),
    column("AllocCPUS", 10, |view| if view.job.started.is_some() { view.cores().to_string() } else { "0".into() }),
    column("NCPUS", 10, |view| view.cores().to_string()),
    column("ReqCPUS", 8, |view| view.cores().to_string()),
    column("AllocNodes", 10, |view| view.job.nodes.len().to_string()),
    column("NNodes", 8, |view| view.node_count().to_string()),
    column("ReqNodes", 8, |view| view.node_count().to_string()),
    column("NTasks", 8, none),
    column("State", 10, |view| status::with_user(view.job)),
    column("ExitCode", 8, |view| status::exit_code(view.job)),
    column("DerivedExitCode", 15, |_| "0:0".to_owned()),
    column("User", 9, |view| view.job.user.clone()),
    column("UID", 6, |view| view.uid()),
    column("Group", 9, |view| view.group()),
    column("GID", 6, |view| view.gid()),
    column("Submit", 19, |view| view.moment(Some(view.job.submitted), "Unknown")),
    column("Eligible", 19, |view| view.moment(view.job.begin.or(Some(view.job.submitted)), "Unknown")),
    column("Start", 19, |view| {
        view.moment(view.job.started, if view.job.ended.is_some() { "None" } else { "Unknown" })
    }),
    column("End", 19, |view| view.moment(view.job.ended, "Unknown")),
    column("Elapsed", 10, |view| values::time_whole(view.run())),
    column("ElapsedRaw", 10, |view| (view.run().ms() / 1000).to_string()),
    column("Timelimit", 10, |view| view.job.time_limit.map_or_else(|| "UNLIMITED".to_owned(), values::time_whole)),
    column("TimelimitRaw", 12, |view| {
        view.job.time_limit.map_or_else(|| "UNLIMITED".to_owned(), |limit| (limit.ms() / 60_000).to_string())
    }),
    column("NodeList", 15, |view| match view.nodes() {
        none if none.is_empty() => "None assigned".to_owned(),
        nodes => nodes,
    }),
    column("Reason", 22, |view| status::reason(view.job).to_owned()),
    column("ReqMem", 10, |view| values::memory_shown(view.job.memory)),
    column("Priority", 10, |view| view.priority()),
    column("WorkDir", 20, |view| view.directory()),
    column("Cluster", 10, |_| "limo".to_owned()),
    column("QOS", 10, |view| view.qos()),
    column("Comment", 14, |view| view.comment()),
    column("AdminComment", 14, |view| match &view.job.wait {
        Some(wait) => wait.shown(|time| view.moment(Some(time), "")).to_string(),
        None => view.job.end.as_ref().map_or_else(String::new, |end| limo_client::end_in_words(end, view.clock)),
    }),
    column("SystemComment", 14, none),
    column("ConsumedEnergy", 14, |view| {
        view.job.energy.map_or_else(String::new, |energy| format!("{:.0}", energy.joules()))
    }),
    column("ConsumedEnergyRaw", 17, |view| {
        view.job.energy.map_or_else(String::new, |energy| format!("{:.0}", energy.joules()))
    }),
    column("CPUTime", 10, |view| values::time_whole(processor_time(view))),
    column("CPUTimeRAW", 10, |view| (processor_time(view).ms() / 1000).to_string()),
    column("TotalCPU", 10, |view| values::time_used(view.used().map_or(Span::ZERO, |used| used.cpu))),
    column("UserCPU", 10, |view| values::time_used(view.used().map_or(Span::ZERO, |used| used.usage.user_cpu))),
    column("SystemCPU", 10, |view| values::time_used(view.used().map_or(Span::ZERO, |used| used.usage.system_cpu))),
    column("Suspended", 10, |_| "00:00:00".to_owned()),
    column("Planned", 10, |view| {
        let until = view.job.started.or(view.job.ended).unwrap_or(view.clock.now());
        values::time_whole(until - view.job.submitted)
    }),
    column("Reserved", 10, |view| {
        let until = view.job.started.or(view.job.ended).unwrap_or(view.clock.now());
        values::time_whole(until - view.job.submitted)
    }),
    column("AllocTRES", 10, |view| if view.job.started.is_some() { tres(view) } else { String::new() }),
    column("ReqTRES", 10, tres),
    column("SubmitLine", 20, |view| view.job.command.clone()),
    column("Restarts", 8, |view| (view.job.evictions.by_owner + view.job.evictions.by_reboot).to_string()),
    column("MaxRSS", 10, |view| view.used().map_or_else(String::new, |used| values::memory_exact(used.usage.max_rss))),
    column("AveRSS", 10, |view| {
        of_one_node(view).map_or_else(String::new, |used| values::memory_exact(used.usage.max_rss))
    }),
    column("MaxVMSize", 10, none),
    column("AveCPU", 10, |view| of_one_node(view).map_or_else(String::new, |used| values::time_whole(used.cpu))),
    column("MaxDiskRead", 12, none),
    column("MaxDiskWrite", 12, none),
    column("Layout", 9, none),
    column("Flags", 20, none),
    column("Constraints", 15, none),
    column("Reservation", 20, none),
    column("WCKey", 10, |view| view.wckey()),
    column("McsLabel", 10, none),
];

/// Returns the resources that a job on one node used: only there is the mean over the nodes known.
fn of_one_node(view: &View) -> Option<Used> {
    view.used().filter(|_| view.node_count() == 1)
}

fn tres(view: &View) -> String {
    let memory = match view.job.memory.bytes() {
        0 => String::new(),
        _ => format!("mem={},", values::memory_shown(view.job.memory)),
    };
    format!("billing={},cpu={},{memory}node={}", view.cores(), view.cores(), view.node_count())
}

/// A column to show, with its width and its side.
pub struct AccountField {
    column: &'static AccountColumn,
    width: usize,
    left: bool,
}

/// Largest width: more than any terminal has.
const WIDEST: usize = 4_096;

impl AccountField {
    /// Reads `Name`, `Name%20` or `Name%-20`.
    ///
    /// # Errors
    /// If no column has this name.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (name, width) = text.split_once('%').map_or((text, ""), |(name, width)| (name, width));
        let found = COLUMNS.iter().find(|column| column.title.eq_ignore_ascii_case(name.trim()));
        let column = found.ok_or_else(|| Failure::new(format_args!("Invalid field requested: \"{name}\"")))?;
        let left = width.starts_with('-') || width.is_empty() && column.title.starts_with("JobID");
        let width = width.trim_start_matches('-').parse().ok().filter(|width| (1..=WIDEST).contains(width));
        Ok(Self { column, width: width.unwrap_or(column.width), left })
    }

    pub fn title(&self) -> &'static str {
        self.column.title
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn value(&self, view: &View) -> String {
        (self.column.value)(view)
    }

    /// Fills a value to the width; a longer one is cut, with a `+` at its end.
    pub fn aligned(&self, value: &str) -> String {
        if value.chars().count() <= self.width {
            return cell(value, self.width, !self.left);
        }
        let cut: String = value.chars().take(self.width.saturating_sub(1)).collect();
        cut + "+"
    }
}

/// Returns the names of all columns, four in a line.
pub fn help() -> String {
    let line = |columns: &[AccountColumn]| {
        let names: Vec<String> = columns.iter().map(|column| format!("{:<19}", column.title)).collect();
        names.join(" ").trim_end().to_owned() + "\n"
    };
    COLUMNS.chunks(4).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_widths_and_sides() {
        let check = |text: &str, value: &str, expected: &str| {
            assert_eq!(AccountField::parse(text).expect(text).aligned(value), expected, "{text}");
        };
        check("JobID", "7", "7           ");
        check("jobname", "484ddc1b-bd46", "484ddc1b-+");
        check("State%-12", "FAILED", "FAILED      ");
        check("Account%3", "", "   ");
        check("State", "CANCELLED by 0", "CANCELLED+");
        let error = AccountField::parse("Nothing").err().map(|failure| failure.message);
        assert_eq!(error.as_deref(), Some("Invalid field requested: \"Nothing\""));
    }
}
