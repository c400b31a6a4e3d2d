//! Options of a job, which sbatch and srun share, and their translation into options of `lrun`.

mod fields;
mod size;
mod table;

use std::collections::BTreeSet;
use std::ffi::OsString;

use limo_client::{Clock, Failure, Master, parse_signal};
use limo_model::environment::WITH_SLURM_NAMES;

use crate::call::WRONG_OPTION;
use crate::getopt::Given;
use crate::moment::{self, Toward};
use crate::partitions::Partitions;
use crate::select::own_user;
use crate::values;

pub use fields::file_name;
use size::Size;
use table::{HARMLESS, REFUSED};
pub use table::{JOB_OPTIONS, from_environment};

/// A job in the words of `lrun`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Options for `lrun`.
    pub options: Vec<OsString>,
    /// Variables for the environment of `lrun`, and thus of the job.
    pub variables: Vec<(String, String)>,
    /// True if more than one task may start.
    pub several: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Options of a job; a later option replaces an earlier one.
pub struct JobOptions(pub Vec<Given>);

impl JobOptions {
    /// Returns the value of an option, if it is given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|given| given.name == name).map(|given| given.value.as_str())
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the one of these options that was given last.
    fn last<'a>(&'a self, names: &[&str]) -> Option<(&'static str, &'a str)> {
        let given = self.0.iter().rev().find(|given| names.contains(&given.name));
        given.map(|given| (given.name, given.value.as_str()))
    }

    /// Translates the options.
    ///
    /// # Errors
    /// A value is wrong, or Limo cannot do what an option requests.
    pub async fn translate(&self, master: &Master) -> Result<Translated, Failure> {
        // Programs that know no partition leave the value empty.
        let partition = match self.get("partition").filter(|list| !list.is_empty()) {
            Some(list) => Some(Partitions::ask(master).await?.resolve(list)?),
            None => None,
        };
        self.with_partition(partition, &Clock::system())
    }

    /// Translates the options. `partition` has the shown name, and that of the queue if there are queues.
    fn with_partition(
        &self,
        partition: Option<(String, Option<String>)>,
        clock: &Clock,
    ) -> Result<Translated, Failure> {
        if let Some(given) = self.0.iter().find(|given| REFUSED.contains(&given.name)) {
            return Err(Failure::new(format_args!("Limo has nothing like --{}", given.name)));
        }
        let mut job = Translated::default();
        let ignored: BTreeSet<&str> =
            self.0.iter().map(|given| given.name).filter(|name| HARMLESS.contains(name)).collect();
        if !ignored.is_empty() {
            let ignored: Vec<String> = ignored.iter().map(|name| format!("--{name}")).collect();
            job.warnings.push(format!("Limo ignores {}", ignored.join(", ")));
        }
        if let Some((shown, queue)) = partition {
            job.set("SLURM_JOB_PARTITION", shown);
            if let Some(queue) = queue {
                job.option("--partition", queue);
            }
        }
        let size = Size::of(self)?;
        size.add_to(&mut job);
        for (name, option) in [
            ("chdir", "--chdir"),
            ("dependency", "--dependency"),
            ("reservation", "--reservation"),
            ("licenses", "--licenses"),
            ("account", "--account"),
            ("qos", "--qos"),
            ("mail-type", "--mail-type"),
            ("mail-user", "--mail-user"),
            ("comment", "--comment"),
            ("wckey", "--wckey"),
        ] {
            if let Some(value) = self.get(name) {
                job.option(option, value);
            }
        }
        for (name, option) in [("nodelist", "--nodelist"), ("exclude", "--exclude")] {
            if let Some(value) = self.get(name).filter(|value| !value.is_empty()) {
                job.option(option, value);
            }
        }
        if let Some(text) = self.get("constraint").filter(|text| !text.is_empty()) {
            job.option("--constraint", constraint(text)?);
        }
        for (name, option) in [("hold", "--hold"), ("exclusive", "--exclusive")] {
            if self.has(name) {
                job.options.push(option.into());
            }
        }
        if let Some(("requeue", _)) = self.last(&["requeue", "no-requeue"]) {
            job.options.push("--requeue".into());
        }
        if let Some(begin) = self.get("begin") {
            let at = moment::read(begin, Toward::Future, clock);
            let at = at.ok_or_else(|| wrong("begin", begin))?;
            // Without a later time, such as for `now`, the job may begin at once.
            if at > clock.now() {
                job.option("--begin", Clock::rfc3339(at));
            }
        }
        if let Some(nice) = self.get("nice") {
            job.options.push(if nice.is_empty() { "--nice".into() } else { format!("--nice={nice}").into() });
        }
        if let Some(priority) = self.get("priority").filter(|value| !value.eq_ignore_ascii_case("top")) {
            job.option("--priority", priority);
        }
        self.times(&mut job)?;
        self.files(&mut job);
        job.set("SLURM_CLUSTER_NAME", "limo");
        job.set("SLURM_JOB_UID", nix::unistd::getuid().to_string());
        job.set("SLURM_JOB_USER", own_user());
        job.set(WITH_SLURM_NAMES, "1");
        self.export(&mut job);
        Ok(job)
    }

    /// Translates the options of a step of a job. Those about the allocation have no effect.
    ///
    /// # Errors
    /// A value is wrong, or Limo cannot do what an option requests.
    pub fn translate_step(&self) -> Result<Translated, Failure> {
        let mut step = Translated::default();
        Size::of(self)?.add_to_step(&mut step);
        for (name, option) in [("chdir", "--chdir"), ("nodelist", "--nodelist"), ("exclude", "--exclude")] {
            if let Some(value) = self.get(name).filter(|value| !value.is_empty()) {
                step.option(option, value);
            }
        }
        if let Some(text) = self.get("time")
            && let Some(limit) = values::time_limit(text).ok_or_else(|| wrong("time", text))?
        {
            step.option("--time", format!("{}s", limit.ms() / 1000));
        }
        self.files(&mut step);
        step.set(WITH_SLURM_NAMES, "1");
        self.export(&mut step);
        Ok(step)
    }

    fn times(&self, job: &mut Translated) -> Result<(), Failure> {
        let limit = match self.get("time") {
            Some(text) => values::time_limit(text).ok_or_else(|| wrong("time", text))?,
            None => None,
        };
        if let Some(limit) = limit {
            job.option("--time", format!("{}s", limit.ms() / 1000));
        }
        let Some(signal) = self.get("signal") else { return Ok(()) };
        let (of_batch, rest) = match signal.split_once(':') {
            Some((flags, rest)) => (flags.contains(['B', 'b']), rest),
            None => (false, signal),
        };
        let (name, before) = rest.split_once('@').unwrap_or((rest, "60"));
        let before: u32 = before.parse().map_err(|_| wrong("signal", signal))?;
        parse_signal(name).map_err(|_| wrong("signal", signal))?;
        if limit.is_none() {
            job.warnings.push("--signal has no effect without --time".to_owned());
        } else if !of_batch {
            job.warnings.push("--signal without `B:` is for steps: give it to srun, or write `B:`".to_owned());
        } else {
            job.option("--signal", format!("{name}@{before}s"));
        }
        Ok(())
    }

    fn files(&self, job: &mut Translated) {
        let is_array = self.has("array");
        for (name, option) in [("output", "--output"), ("error", "--error"), ("input", "--input")] {
            if let Some(value) = self.get(name) {
                let mut value = file_name(value, is_array);
                // lrun takes a number for that of a task.
                if name == "input" && value.bytes().all(|byte| byte.is_ascii_digit()) {
                    value.insert_str(0, "./");
                }
                job.option(option, value);
            }
        }
        if let Some(mode) = self.get("open-mode") {
            let append = ["a", "append"].contains(&mode.to_ascii_lowercase().as_str());
            job.option("--open-mode", if append { "append" } else { "truncate" });
        }
    }

    /// Adds the selection of variables: with a list, the variables that Slurm sets must be named, too.
    fn export(&self, job: &mut Translated) {
        let Some(list) = self.get("export") else { return };
        let given = list.trim_matches(',');
        let none = ["none", "nil"].contains(&given.to_ascii_lowercase().as_str());
        if given.is_empty() || given.eq_ignore_ascii_case("all") {
            return;
        }
        // Slurm makes the environment of a login for NONE.
        let login = ["PATH", "HOME", "USER", "LOGNAME", "SHELL"];
        let mut names: Vec<String> = if none {
            login.iter().filter(|name| std::env::var_os(name).is_some()).map(|name| (*name).to_owned()).collect()
        } else {
            vec![given.to_owned()]
        };
        names.extend(job.variables.iter().map(|(name, _)| name.clone()));
        job.option("--export", names.join(","));
    }
}

impl Translated {
    pub fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.options.extend([name.into(), value.into()]);
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }
}

/// Returns the types of hardware of a constraint: alternatives, or all of them.
fn constraint(text: &str) -> Result<String, Failure> {
    if text.contains(['*', '[', ']', '(', ')', ',']) || text.contains('&') && text.contains('|') {
        let words =
            "Limo obeys types of hardware such as `skylake|milan` or `skylake&a100`, without counts and brackets";
        return Err(Failure::new(format_args!("Invalid feature specification: {text}: {words}")));
    }
    Ok(text.to_owned())
}

/// Makes the complaint about a value.
fn wrong(option: &str, value: &str) -> Failure {
    let text = match option {
        "nodes" => format!("\"{value}\" is not a valid node count"),
        _ => format!("Invalid --{option} specification"),
    };
    Failure { code: WRONG_OPTION, ..Failure::new(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::parse;
    use limo_model::Time;

    fn translated(line: &str) -> Result<Translated, String> {
        let words = shell_words::split(line).expect("words");
        let (given, _) = parse(&JOB_OPTIONS, &words, false).expect("options");
        let clock = Clock::utc(Time::from_unix_ms(1_795_371_854_000));
        JobOptions(given).with_partition(None, &clock).map_err(|failure| failure.message)
    }

    fn check(line: &str, expected: &str) {
        let job = translated(line).expect(line);
        let shown: Vec<String> = job.options.iter().map(|word| word.display().to_string()).collect();
        assert_eq!(shown.join(" "), expected, "{line}");
    }

    #[test]
    fn options_become_those_of_lrun() {
        check("-t 5 --mem 50 --ntasks=1 --cpus-per-task=1 -D /d", "--cores 1 --mem 51200KiB --chdir /d --time 300s");
        check("-t 1 -t 2-0", "--time 172800s");
        check("-t 0 --requeue --no-requeue", "");
        check("--no-requeue --requeue -H", "--hold --requeue");
        check("-N 2 -n 4 --mem-per-cpu=1G -c 3", "--nodes 2 --ntasks 4 --cores 3 --mem 6291456KiB");
        check("-N 1 -n 1", "");
        check("-N 1 -n 2", "--nodes 1 --ntasks 2");
        check("-N 2 --gpus=4", "--nodes 2 --gpus 2");
        check("--ntasks-per-node=2 --gpus-per-task=a100:1", "--ntasks-per-node 2 --gpus a100:2");
        check("--gres=gpu:k80:2", "--gpus k80:2");
        check(
            "-w n1 -x n2 --exclusive=user --nice -d afterok:1:2",
            "--dependency afterok:1:2 --nodelist n1 --exclude n2 --exclusive --nice",
        );
        check("-b now", "");
        check("-b 20:00", "--begin 2026-11-22T20:00:00Z");
        check("-t 10 --signal=B:USR2@30", "--time 600s --signal USR2@30s");
        check("-C skylake|milan --comment 'a b' --wckey k", "--comment a b --wckey k --constraint skylake|milan");
        check("-C 'skylake&a100'", "--constraint skylake&a100");
        check("-i 7 -e none", "--error none --input ./7");
    }

    #[test]
    fn harmless_options_are_named_in_one_warning() {
        check("-A x -q q", "--account x --qos q");
        let job = translated("--switches 1 --hint=compute_bound").expect("accepted");
        assert_eq!(job.warnings, ["Limo ignores --hint, --switches"]);
        assert_eq!(job.options, Vec::<OsString>::new());
        let job = translated("-t 10 --signal=USR1@90").expect("accepted");
        assert_eq!(job.warnings, ["--signal without `B:` is for steps: give it to srun, or write `B:`"]);
    }

    #[test]
    fn wrong_values_and_what_limo_cannot_do_are_refused() {
        let refused = |line: &str, expected: &str| assert_eq!(translated(line), Err(expected.to_owned()), "{line}");
        refused("-t x", "Invalid --time specification");
        refused("--mem=x", "Invalid --mem specification");
        refused("-n 0", "Invalid numeric value \"0\" for --ntasks.");
        refused("-N x", "\"x\" is not a valid node count");
        refused("-t 10 --signal=B:FOO@3", "Invalid --signal specification");
        refused("-b never", "Invalid --begin specification");
        refused("-N 3 --gpus=4", "--gpus=4 cannot be divided among 3 nodes: use --gpus-per-node");
        refused("--gres=nic:1", "Invalid generic resource (gres) specification");
        let words =
            "Limo obeys types of hardware such as `skylake|milan` or `skylake&a100`, without counts and brackets";
        for text in ["a&b|c", "a*2", "[a|b]", "(a|b)"] {
            refused(&format!("-C '{text}'"), &format!("Invalid feature specification: {text}: {words}"));
        }
        refused("--container=x", "Limo has nothing like --container");
    }

    #[test]
    fn a_list_of_variables_keeps_those_of_slurm() {
        check("--export=ALL", "");
        check("--export=ALL,X=1,", "--export ALL,X=1,SLURM_CLUSTER_NAME,SLURM_JOB_UID,SLURM_JOB_USER,LIMO_SLURM");
        let job = translated("--export=NONE").expect("accepted");
        let list = job.options[1].display().to_string();
        assert!(
            list.starts_with("PATH,") && list.ends_with(",SLURM_CLUSTER_NAME,SLURM_JOB_UID,SLURM_JOB_USER,LIMO_SLURM"),
            "{list}"
        );
    }
}
