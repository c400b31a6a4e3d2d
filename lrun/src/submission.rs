//! Builds the submission from the command line and the environment of the process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use limo_client::{Clock, Failure};
use limo_model::environment::CPU_BIND;
use limo_model::{Conditions, Memory, Request, Step, Warning, application, check_name};
use limo_proto::{BODY_LIMIT, ClientToMaster, Frame, Hold, Io, Launch, Origin, SendExec, WindowSize};
use nix::sys::stat::{Mode, umask};

use crate::args::{Args, WhenArgs};
use crate::dependency::Dependencies;
use crate::tasks::parallel;
use crate::work::Work;

/// Variable by which nodes find a job's processes. If a job submits another one, the variable must not be passed on.
const COOKIE: &str = "LIMO_ATTEMPT";

/// Variable with the address of the master.
const MASTER: &str = "LIMO_MASTER";

/// Variable that names the type of terminal.
const TERM: &str = "TERM";

/// Properties that a command inherits from its shell.
pub struct Surroundings {
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    umask: u32,
    /// Name of this machine; empty if it has none.
    host: String,
    /// Size of the terminal, if the job gets one.
    pub terminal: Option<WindowSize>,
}

impl Surroundings {
    /// Reads the surroundings of this process. Must be called before other threads create files: reading the umask sets
    /// it for a moment.
    ///
    /// # Errors
    /// If the current directory no longer exists.
    pub fn of_this_process() -> Result<Self, Failure> {
        let directory = std::env::current_dir()
            .map_err(|error| Failure::new(format_args!("cannot find the current directory: {error}")))?;
        let mask = umask(Mode::empty());
        umask(mask);
        let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
        let environment = std::env::vars_os().collect();
        Ok(Self { directory, environment, umask: mask.bits(), host, terminal: None })
    }

    /// Returns the working directory of a job with the option `chdir`.
    pub fn start(&self, chdir: Option<&Path>) -> PathBuf {
        chdir.map_or_else(|| self.directory.clone(), |to| self.directory.join(to))
    }

    /// Returns the search path for commands.
    pub fn path(&self) -> Option<&OsStr> {
        self.variable("PATH")
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_os_str())
    }
}

/// Builds the submission with a new key.
///
/// # Errors
/// If it is larger than the master accepts, or a variant is given twice.
pub fn build(args: &Args, work: Work, around: Surroundings, step: Option<Step>) -> Result<SendExec, Failure> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| Failure::new(format_args!("cannot draw a random key: {error}")))?;
    let carried = work.carried.as_ref().map(|file| (work.argv[0].clone(), file.len()));
    let request = Request { step, ..request(args, &work)? };
    let exec = SendExec { key, request, launch: launch(args, work, around)?, again: false };
    let frame = Frame::Message(ClientToMaster::SendExec(Box::new(exec.clone())));
    match frame.encode() {
        Ok(body) if body.len() <= BODY_LIMIT => Ok(exec),
        _ => Err(too_large(carried)),
    }
}

fn too_large(carried: Option<(OsString, usize)>) -> Failure {
    match carried {
        Some((name, size)) => Failure::new(format_args!(
            "{} ({size} bytes), its arguments and the environment have more than {BODY_LIMIT} bytes together",
            name.display()
        ))
        .hint("put the file where the nodes can read it, and name it as the command"),
        None => Failure::new(format_args!(
            "the command, its arguments and the environment have more than {BODY_LIMIT} bytes together"
        ))
        .hint("unset what the job does not need: `env -u NAME lrun ...`"),
    }
}

fn request(args: &Args, work: &Work) -> Result<Request, Failure> {
    let argv: Vec<&[u8]> = work.argv.iter().map(|word| word.as_encoded_bytes()).collect();
    let derived = application::of_command(&argv);
    let (application, size) = match &args.job.app {
        Some(app) => (app.clone(), String::new()),
        None => (derived.application, derived.size),
    };
    let named = || args.job.app.clone().unwrap_or_else(|| plain_name(&work.application));
    let mut variants: Vec<String> = Vec::new();
    for variant in &args.job.variants {
        if variants.contains(&variant.hardware) {
            return Err(Failure::new(format_args!("--variant is given twice for `{}`", variant.hardware)));
        }
        variants.push(variant.hardware.clone());
    }
    let names = |list: &Option<crate::args::Hosts>| list.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    Ok(Request {
        user: String::new(),
        name: args.job.job_name.clone().unwrap_or_else(named),
        application,
        size: if args.job.size.is_empty() { size } else { args.job.size.clone() },
        nodes: std::num::NonZeroU32::MIN,
        cores: args.tasks.cores(&args.resources),
        memory: args.resources.mem.unwrap_or(Memory::ZERO),
        time_limit: args.when.time,
        immediate: args.when.immediate,
        deadline: args.when.deadline,
        start_by: args.when.start_by,
        include: names(&args.resources.nodelist),
        exclude: names(&args.resources.exclude),
        hardware: crate::gres::hardware(args)?,
        variants,
        may_suspend: !args.power.no_suspend,
        may_requeue: args.power.requeue,
        filler: args.power.filler,
        conditions: conditions(&args.when)?,
        warning: warning(&args.when)?,
        kill_grace: args.when.kill_grace,
        allowance: args.power.allowance(),
        spread: args.tasks.spread(&args.resources),
        reservation: args.resources.reservation.clone(),
        priority: args.priority.priority(),
        exclusive: args.resources.is_exclusive(),
        accelerators: args.accelerators.count(),
        with_cores: args.accelerators.count().is_some() && args.resources.cores.is_some(),
        arrange: args.tasks.arrange(),
        cap: args.resources.cap,
        explore: args.power.explore,
        queue: args.resources.partition.clone(),
        widths: args.tasks.widths(),
        malleable: false,
        predicted: Vec::new(),
        restart: args.restart.restart(),
        queue_group: None,
        step: None,
        mail: args.mail.mail(),
        account: args.accounting.account.clone(),
        qos: args.accounting.qos.clone(),
        labels: args.labels.labels(),
        licences: args.resources.licenses.clone().unwrap_or_default().0,
    })
}

/// Returns the conditions for a start, or `None` if there are none.
fn conditions(when: &WhenArgs) -> Result<Option<Box<Conditions>>, Failure> {
    for (option, at) in [("--deadline", when.deadline), ("--start-by", when.start_by)] {
        if let Some((at, begin)) = at.zip(when.begin).filter(|(at, begin)| at <= begin) {
            let clock = Clock::system();
            let (at, begin) = (clock.show(at), clock.show(begin));
            return Err(Failure::new(format_args!("{option} {at} is not after --begin {begin}")));
        }
    }
    let Dependencies { on, singleton } = when.dependency.clone().unwrap_or_default();
    let conditions = Conditions { hold: when.hold, begin: when.begin, dependencies: on, singleton };
    Ok((conditions != Conditions::default()).then(|| Box::new(conditions)))
}

fn warning(when: &WhenArgs) -> Result<Option<Warning>, Failure> {
    match when.signal.zip(when.time).filter(|(warning, limit)| warning.before >= *limit) {
        Some((warning, limit)) => {
            let before = warning.before;
            let text = format_args!("--signal {before} before the end needs a longer time limit than {limit}");
            Err(Failure::new(text).hint("write for example `--signal USR1@10s`"))
        }
        None => Ok(when.signal),
    }
}

fn launch(args: &Args, work: Work, around: Surroundings) -> Result<Launch, Failure> {
    let directory = around.start(args.job.chdir.as_deref());
    // Without a terminal type, a job cannot use a terminal.
    let term = around.terminal.and_then(|_| Some((OsString::from(TERM), around.variable(TERM)?.to_owned())));
    let variants = args.job.variants.iter().map(|variant| {
        let argv = variant.argv.iter().map(|word| word.clone().into_bytes()).collect();
        (variant.hardware.clone(), argv)
    });
    let mut environment = args.job.export.clone().unwrap_or_default().of(around.environment);
    environment.retain(|(name, _)| name != COOKIE && name != CPU_BIND);
    environment.extend(args.tasks.cpu_bind.map(|bind| (CPU_BIND.into(), bind.to_string().into())));
    if let Some(term) = term.filter(|(name, _)| !environment.iter().any(|(own, _)| own == name)) {
        environment.push(term);
    }
    let hold = args.steps.hold();
    let is_set = environment.iter().any(|(name, _)| name == MASTER);
    // The steps of the job ask the same master.
    if let Some(address) = args.master.given().filter(|_| hold != Hold::Nothing && !is_set) {
        environment.push((MASTER.into(), address.into()));
    }
    Ok(Launch {
        argv: work.argv.into_iter().map(OsString::into_vec).collect(),
        variants: variants.collect(),
        cwd: directory.into_os_string().into_vec(),
        env: environment.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
        umask: around.umask,
        uid: nix::unistd::getuid().as_raw(),
        io: if args.how.is_detached() || args.steps.no_shell { Io::Detached } else { Io::Attached },
        files: args.files.files(),
        origin: Origin { host: around.host, directory: around.directory.into_os_string().into_vec() },
        carried: work.carried,
        terminal: around.terminal,
        array: args.array.array()?,
        parallel: parallel(args)?,
        hold,
    })
}

/// Returns the file name of the command, with `_` for characters that a name cannot have.
fn plain_name(command: &OsStr) -> String {
    let name = Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-+".contains(c) { c } else { '_' };
    // Names are at most 64 bytes long.
    let name: String = name.chars().take(64).map(plain).collect();
    if check_name("application", &name).is_ok() { name } else { "_".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn around(environment: &[(&str, &str)]) -> Surroundings {
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Surroundings { directory: "/home/ada".into(), environment, umask: 0o27, host: "desk".into(), terminal: None }
    }

    fn submission(args: &[&str]) -> SendExec {
        submission_in(args, around(&[("A", "b"), (COOKIE, "inherited")])).expect("a submission")
    }

    fn submission_in(args: &[&str], around: Surroundings) -> Result<SendExec, Failure> {
        let args = Args::try_parse_from(args).expect("a command line");
        let work = Work::of(&args, None, &around)?;
        build(&args, work, around, None)
    }

    #[test]
    fn a_submission_has_the_surroundings_of_its_command() {
        let exec = submission(&["lrun", "-D", "work", "./cg", "-n", "5"]);
        assert_eq!(exec.launch.argv, [b"./cg".to_vec(), b"-n".to_vec(), b"5".to_vec()]);
        assert_eq!(exec.launch.cwd, b"/home/ada/work");
        assert_eq!(exec.launch.env, [(b"A".to_vec(), b"b".to_vec())], "the cookie of another job stays out");
        assert_eq!((exec.launch.umask, exec.launch.io), (0o27, Io::Attached));
        assert_eq!((exec.request.application.as_str(), exec.request.name.as_str()), ("+cg+-n+N", "cg"));
        assert_eq!(exec.request.size, "5");
        let named = submission(&["lrun", "--app", "solver", "--size", "C", "cg", "7"]).request;
        assert_eq!([named.application, named.size, named.name], ["solver", "C", "solver"]);
        assert_ne!(exec.key, submission(&["lrun", "cg"]).key);
    }

    #[test]
    fn accelerators_take_cores_only_if_asked() {
        let check = |options: &[&str], expected: (bool, &str, Option<u32>)| {
            let request = submission(&[&["lrun"], options, &["cg"]].concat()).request;
            let cores = request.cores.to_string();
            let found = (request.with_cores, cores.as_str(), request.accelerators.map(|count| count.get()));
            assert_eq!(found, expected, "{options:?}");
        };
        check(&["--gres", "gpu:2"], (false, "1", Some(2)));
        check(&["--gres", "gpu:2", "-c", "8"], (true, "8", Some(2)));
        check(&["--gpus", "1", "-c", "all"], (true, "all", Some(1)));
        check(&["--gpus", "1", "--exclusive"], (false, "all", Some(1)));
        check(&["--exclusive", "-n", "2"], (false, "1", None));
        check(&["--cap", "30W"], (false, "all", None));
        check(&["-c", "8"], (false, "8", None));
    }

    #[test]
    fn a_job_with_a_cap_is_alone_on_its_nodes() {
        let request = submission(&["lrun", "--cap", "30W", "cg"]).request;
        assert_eq!((request.cap, request.exclusive), (Some(limo_model::Power::from_watts(30)), true));
    }

    #[test]
    fn a_wrapped_line_is_run_by_sh() {
        let exec = submission(&["lrun", "--wrap", "echo a; echo b"]);
        assert_eq!(exec.launch.argv, [b"sh".to_vec(), b"-c".to_vec(), b"echo a; echo b".to_vec()]);
        assert!(exec.request.application.starts_with("+inline-"), "{}", exec.request.application);
        assert_eq!(exec.request.name, "wrap");
    }

    #[test]
    fn a_job_with_a_terminal_gets_its_type() {
        let env = |terminal| {
            let around = Surroundings { terminal, ..around(&[("TERM", "vt100"), ("A", "b")]) };
            submission_in(&["lrun", "--export", "NONE", "cg"], around).expect("a submission").launch.env
        };
        assert_eq!(env(None), []);
        assert_eq!(env(Some(WindowSize { rows: 24, columns: 80 })), [(b"TERM".to_vec(), b"vt100".to_vec())]);
    }

    #[test]
    fn a_binding_is_that_of_its_own_command() {
        let env = |options: &[&str]| {
            let line = [&["lrun"], options, &["cg"]].concat();
            submission_in(&line, around(&[(CPU_BIND, "numa")])).expect("a submission").launch.env
        };
        assert_eq!(env(&[]), [], "not that of another job");
        let expected = [(b"LIMO_CPU_BIND".to_vec(), b"cores".to_vec())];
        assert_eq!(env(&["--export", "NONE", "--cpu-bind", "cores"]), expected);
    }

    #[test]
    fn a_batch_job_knows_its_master() {
        let env = |options: &[&str]| {
            let line = [&["lrun", "--export", "NONE", "--master", "unix:/run/m"], options, &["cg"]].concat();
            submission(&line).launch.env
        };
        assert_eq!(env(&[]), []);
        assert_eq!(env(&["--batch"]), [(b"LIMO_MASTER".to_vec(), b"unix:/run/m".to_vec())]);
    }

    #[test]
    fn jobs_have_plain_names() {
        let check = |command: &str, expected: &str| assert_eq!(plain_name(OsStr::new(command)), expected);
        check("/opt/bin/cg.B", "cg.B");
        check("my prog", "my_prog");
        check("..", "..");
        check("/", "_");
        check(&"ä".repeat(70), &"_".repeat(64));
    }

    #[test]
    fn a_submission_that_is_too_large_is_refused_before_it_is_sent() {
        let failure = submission_in(&["lrun", "cg"], around(&[("A", &"b".repeat(BODY_LIMIT))])).expect_err("too large");
        assert_eq!(
            failure.message,
            "the command, its arguments and the environment have more than 1048576 bytes together"
        );
    }
}
