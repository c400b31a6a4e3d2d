//! Command line of `lrun`. Short options mean the same as for `srun`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::array::ArrayArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Parser};
use limo_client::{Clock, MasterArg, ReconnectArg};
use limo_model::{Allowance, Energy, JobId, Money, Span, Time, UnitError, Warning, WhenUsed, check_name};

use crate::dependency::Dependencies;
use crate::resources::ResourceArgs;
use crate::warning::warning;

use crate::accounting::AccountingArgs;
use crate::export::Export;
use crate::files::FileArgs;
use crate::gres::GresArgs;
use crate::labels::LabelArgs;
use crate::login;
use crate::mail::MailArgs;
use crate::priority::PriorityArgs;
use crate::restart::RestartArgs;
use crate::step::StepArgs;
use crate::tasks::TaskArgs;
use crate::work::ScriptArgs;

/// Run a command on the cluster as if it ran on this machine
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true, args_override_self = true)]
#[command(override_usage = "lrun [OPTIONS] [--] COMMAND [ARGS]... | lrun login [--out DIR]")]
#[command(
    after_help = "Exit code: that of the command, 128+n for signal n; 125 if Limo failed, refused or lost the job.",
    after_long_help = login::LONG_HELP
)]
pub struct Args {
    /// Command and arguments, or the arguments of the script; options of lrun end here
    #[arg(required_unless_present_any = ["script", "wrap", "attach", "no_shell"], trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    #[command(flatten)]
    pub job: JobArgs,
    #[command(flatten)]
    pub accounting: AccountingArgs,
    #[command(flatten)]
    pub mail: MailArgs,
    #[command(flatten)]
    pub labels: LabelArgs,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub accelerators: GresArgs,
    #[command(flatten)]
    pub tasks: TaskArgs,
    #[command(flatten)]
    pub steps: StepArgs,
    #[command(flatten)]
    pub when: WhenArgs,
    #[command(flatten)]
    pub power: PowerArgs,
    #[command(flatten)]
    pub restart: RestartArgs,
    #[command(flatten)]
    pub priority: PriorityArgs,
    #[command(flatten)]
    pub script: ScriptArgs,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub array: ArrayArgs,
    #[command(flatten)]
    pub how: HowArgs,
    #[command(flatten)]
    pub taking: TakingArgs,
    #[command(flatten)]
    pub master: MasterArg,
    #[command(flatten)]
    pub reconnect: ReconnectArg,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job")]
pub struct JobArgs {
    /// Name in listings [default: that of the application]
    #[arg(short = 'J', long, value_name = "NAME", value_parser = job_name)]
    pub job_name: Option<String>,
    /// Working directory [default: the current one]
    #[arg(short = 'D', long, value_name = "DIR")]
    pub chdir: Option<PathBuf>,
    /// Application name of its profiles [default: made from user, command and options]
    #[arg(long, value_name = "NAME", value_parser = application, hide = true)]
    pub app: Option<String>,
    /// Size class of its profiles [default: the numbers of the command line]
    #[arg(long, value_name = "CLASS", value_parser = size_class, default_value = "", hide_default_value = true, hide = true)]
    pub size: String,
    /// Another command for a type of hardware; repeatable
    #[arg(long = "variant", value_name = "HARDWARE=COMMAND", hide = true)]
    pub variants: Vec<Variant>,
    /// Variables to export: ALL (default), NONE, NAME[=VALUE],...
    #[arg(long, value_name = "LIST", value_parser = OsStringValueParser::new().try_map(|text| Export::new(&text)), hide = true)]
    pub export: Option<Export>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Time and price")]
pub struct WhenArgs {
    /// End the job after this time, e.g. 1h30min
    #[arg(short = 't', long, value_name = "SPAN", value_parser = positive_span)]
    pub time: Option<Span>,
    /// Start at once or fail
    #[arg(short = 'I', long)]
    pub immediate: bool,
    /// Wait for a cheaper hour if it can end by then, e.g. now+2h
    #[arg(long, value_name = "TIME", value_parser = coming_time, conflicts_with = "immediate")]
    pub deadline: Option<Time>,
    /// Wait for a cheaper hour, but start by then
    #[arg(long, value_name = "TIME", value_parser = coming_time, conflicts_with = "immediate", hide = true)]
    pub start_by: Option<Time>,
    /// Do not start before then, e.g. 22:00 or now+1h
    #[arg(long, value_name = "TIME", value_parser = coming_time, conflicts_with = "immediate", hide = true)]
    pub begin: Option<Time>,
    /// Do not start before `lq release`
    #[arg(short = 'H', long, conflicts_with = "immediate", hide = true)]
    pub hold: bool,
    /// Start after other jobs, e.g. afterok:12:13,singleton
    #[arg(short = 'd', long, value_name = "LIST", conflicts_with = "immediate")]
    pub dependency: Option<Dependencies>,
    /// Send a signal before the time limit, e.g. USR1@5min [time: 60s]
    #[arg(long, value_name = "SIGNAL[@SPAN]", value_parser = warning, requires = "time", hide = true)]
    pub signal: Option<Warning>,
    /// Time between TERM and KILL when the job is ended, at most the master's
    #[arg(long, value_name = "SPAN", value_parser = span, hide = true)]
    pub kill_grace: Option<Span>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "When power is short", group = ArgGroup::new("limit").args(["energy_limit", "cost_limit"]).multiple(true))]
pub struct PowerArgs {
    /// Never suspend the job to save power
    #[arg(long, hide = true)]
    pub no_suspend: bool,
    /// Allow Limo to end the job and run it again from its beginning to save power
    #[arg(long, overrides_with = "no_requeue", hide = true)]
    pub requeue: bool,
    /// Do not allow Limo to run the job again (default)
    #[arg(long, overrides_with = "requeue", hide = true)]
    pub no_requeue: bool,
    /// Use only spare power: start below the lower limit and give up power first
    #[arg(long, conflicts_with_all = ["immediate", "deadline", "start_by"], hide = true)]
    pub filler: bool,
    /// Allow Limo to measure the application at lower caps: a few jobs run slower, within --time and --deadline
    #[arg(long, conflicts_with_all = ["cap", "filler"], hide = true)]
    pub explore: bool,
    /// End the job when it has used this much energy, e.g. 2kWh
    #[arg(long, value_name = "ENERGY", value_parser = positive::<Energy>, hide = true)]
    pub energy_limit: Option<Energy>,
    /// End the job when it has cost this much, e.g. 0.40EUR
    #[arg(long, value_name = "MONEY", value_parser = positive::<Money>, hide = true)]
    pub cost_limit: Option<Money>,
    /// At these limits, stop the job or only warn [default: stop]
    #[arg(long, value_name = "WHAT", requires = "limit", hide = true)]
    pub on_limit: Option<WhenUsed>,
}

impl PowerArgs {
    /// Returns the job's allowance, or `None` without a limit.
    pub fn allowance(&self) -> Option<Allowance> {
        let (energy, cost) = (self.energy_limit, self.cost_limit);
        let when_used = self.on_limit.unwrap_or_default();
        (energy.is_some() || cost.is_some()).then_some(Allowance { energy, cost, when_used })
    }
}

fn positive<T: FromStr<Err = UnitError> + Default + PartialOrd>(text: &str) -> Result<T, String> {
    let value: T = text.parse().map_err(|error: UnitError| error.to_string())?;
    if value > T::default() { Ok(value) } else { Err("is not above zero".into()) }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "General", group = ArgGroup::new("unattended").args(["detach", "wait"]).multiple(true))]
pub struct HowArgs {
    /// Print the job's number and exit
    #[arg(long, visible_alias = "parsable")]
    pub detach: bool,
    /// Like --detach, but wait for the end and exit with its code
    #[arg(short = 'W', long)]
    pub wait: bool,
    /// Show when and where the job would start
    #[arg(long, visible_alias = "test-only", conflicts_with_all = ["detach", "wait"])]
    pub dry_run: bool,
    /// Print JSON (with --detach or --dry-run)
    #[arg(long, hide = true)]
    pub json: bool,
    /// Report what happens to the job
    #[arg(short, long, hide = true)]
    pub verbose: bool,
    /// Report only errors of Limo
    #[arg(short = 'Q', long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Speak of refusals in the words of srun, which has called this program
    #[arg(long, hide = true)]
    pub as_srun: bool,
}

/// Options for new jobs only. clap treats a structure of options as a group with its name.
const NEW_JOBS: [&str; 17] = [
    "command",
    "JobArgs",
    "MailArgs",
    "ResourceArgs",
    "GresArgs",
    "TaskArgs",
    "StepArgs",
    "WhenArgs",
    "PowerArgs",
    "RestartArgs",
    "PriorityArgs",
    "ScriptArgs",
    "FileArgs",
    "ArrayArgs",
    "unattended",
    "dry_run",
    "json",
];

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "General")]
pub struct TakingArgs {
    /// Take over the streams of a job whose lrun has ended (see `lq attach`)
    #[arg(long, value_name = "JOB", conflicts_with_all = NEW_JOBS, hide = true)]
    pub attach: Option<JobId>,
    /// With --attach: also take the streams from an lrun that still runs
    #[arg(long, requires = "attach", conflicts_with = "command", hide = true)]
    pub take: bool,
}

impl HowArgs {
    /// Returns true if no client is attached to the job's streams.
    pub fn is_detached(&self) -> bool {
        self.detach || self.wait
    }
}

/// Checked list of names. A separate type, because clap treats an option of type `Vec` as repeatable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

/// Command for a type of hardware, instead of the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub hardware: String,
    pub argv: Vec<String>,
}

impl FromStr for Variant {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (hardware, command) = text
            .split_once('=')
            .ok_or_else(|| "has no `=`: write for example `quadro-p2000='./cg-cuda -n 5'`".to_owned())?;
        check_name("hardware", hardware).map_err(|error| error.to_string())?;
        let argv = shell_words::split(command).map_err(|error| format!("`{command}`: {error}"))?;
        if argv.is_empty() {
            return Err(format!("the command for `{hardware}` is empty"));
        }
        Ok(Self { hardware: hardware.to_owned(), argv })
    }
}

/// Parses a name that the submitter chooses. Names with `+` are reserved for those that Limo makes from commands.
fn application(text: &str) -> Result<String, String> {
    check_name("application", text).map_err(|error| error.to_string())?;
    match text.contains(limo_model::application::JOINT) {
        true => Err(format!("the application `{text}` has a `+`, which is reserved for names that Limo makes")),
        false => Ok(text.to_owned()),
    }
}

fn size_class(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        _ => check_name("size class", text).map(|()| text.to_owned()).map_err(|error| error.to_string()),
    }
}

/// Longest name in bytes, because tables show all of it.
const JOB_NAME_LIMIT: usize = 128;

fn job_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > JOB_NAME_LIMIT {
        return Err(format!("has {} bytes; the limits are 1 and {JOB_NAME_LIMIT}", text.len()));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(found) => Err(format!("has the control character {found:?}")),
        None => Ok(text.to_owned()),
    }
}

fn positive_span(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: limo_model::UnitError| error.to_string())?;
    if span > Span::ZERO { Ok(span) } else { Err("is not above zero".into()) }
}

fn span(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: limo_model::UnitError| error.to_string())?;
    if span >= Span::ZERO { Ok(span) } else { Err("is below zero".into()) }
}

fn coming_time(text: &str) -> Result<Time, String> {
    let clock = Clock::system();
    let time = clock.parse(text).map_err(|error| error.to_string())?;
    if time > clock.now() { Ok(time) } else { Err(format!("{} has passed", clock.show(time))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_at_the_command() {
        let args = Args::try_parse_from(["lrun", "-c", "2", "ls", "-l", "--json", "--", "-x"]).expect("a command line");
        assert_eq!(args.command, ["ls", "-l", "--json", "--", "-x"]);
        assert!(!args.how.json);
        let args = Args::try_parse_from(["lrun", "--", "-c"]).expect("a command line");
        assert_eq!(args.command, ["-c"]);
    }

    #[test]
    fn attach_excludes_options_of_new_jobs() {
        for option in [
            "--job-name=a",
            "--size=1",
            "-c2",
            "--exclusive",
            "--cap=30W",
            "--gres=gpu:1",
            "-n2",
            "-l",
            "-t1h",
            "-I",
            "--requeue",
            "--energy-limit=1kWh",
            "--max-restarts=1",
            "--mail-type=END",
            "--priority=1",
            "--nice",
            "--wrap=true",
            "-oout",
            "--pty",
            "--array=1-2",
            "--detach",
            "-W",
            "--dry-run",
            "--json",
        ] {
            let refused = Args::try_parse_from(["lrun", "--attach", "7", option]).expect_err(option).to_string();
            let name = option.split('=').next().unwrap_or(option);
            assert!(refused.contains("'--attach <JOB>' cannot be used with"), "{option}: {refused}");
            assert!(!name.starts_with("--") || refused.contains(name), "{option}: {refused}");
        }
        let line = ["lrun", "--attach", "7", "--take", "-v", "--master", "a:1", "--reconnect-timeout", "1s"];
        assert_eq!(Args::try_parse_from(line).expect("a command line").taking.attach, Some(JobId(7)));
    }

    #[test]
    fn variants_are_a_type_and_a_command() {
        let check = |text: &str, expected: Result<(&str, &[&str]), &str>| match (text.parse::<Variant>(), expected) {
            (Ok(variant), Ok((hardware, argv))) => {
                assert_eq!(
                    (variant.hardware.as_str(), variant.argv),
                    (hardware, argv.iter().map(|a| (*a).into()).collect())
                );
            }
            (Err(error), Err(expected)) => assert_eq!(error, expected),
            (got, _) => panic!("{text}: {got:?}"),
        };
        check("gpu=./cg -n 'a b'", Ok(("gpu", &["./cg", "-n", "a b"])));
        check("gpu=env A=b x", Ok(("gpu", &["env", "A=b", "x"])));
        check("gpu", Err("has no `=`: write for example `quadro-p2000='./cg-cuda -n 5'`"));
        check("gpu=", Err("the command for `gpu` is empty"));
        check("gpu='x", Err("`'x`: missing closing quote"));
    }
}
