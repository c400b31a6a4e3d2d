//! Options that name what is measured, and where the results go; and one measurement from its warm-up to its verdict.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use limo_model::Power;

use super::workload;
use crate::machine::Setting;
use crate::measure::process::MeasuredCommand;
use crate::measure::run::{Laboratory, WarmUp};
use crate::measure::statistics::{MOST_RUNS, Repeated};
use crate::measure::verdict::{Reason, UNTRUSTED, changed, has_effect};
use crate::results::{self, Measurement, Provenance, RunRecord, Summary};

/// Options of the application.
#[derive(Debug, Clone, Args)]
pub struct SubjectArguments {
    /// Name of the application in its profile [default: the command's name]
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Size class in its profile [default: the numbers among the command's arguments]
    #[arg(long, value_name = "CLASS")]
    size: Option<String>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "lprof-results")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Command to measure, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// One application in a laboratory.
pub struct Subject {
    /// The laboratory.
    pub laboratory: Laboratory,
    command: MeasuredCommand,
    warm_up: WarmUp,
    out: PathBuf,
    seed: Option<u64>,
}

/// Runs at one cap, with their verdict.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The measurement, as it is stored.
    pub measurement: Measurement,
    /// Its statistics; `None` if there are too few runs.
    pub repeated: Option<Repeated>,
    /// Number of reasons that concern the runs, and not only the effect of the cap.
    pub faults: usize,
    /// True if the cap has an effect, or there is none.
    pub has_effect: bool,
}

impl Judged {
    /// Returns its typical run.
    pub fn summary(&self) -> Option<&Summary> {
        self.measurement.summary.as_ref()
    }
}

impl SubjectArguments {
    /// Warms the machine up without a cap. `seed` is that of the order of caps, if there are several.
    ///
    /// # Errors
    /// If a name is wrong, the command fails, or after a signal.
    pub fn warm_up(&self, laboratory: Laboratory, seed: Option<u64>) -> anyhow::Result<Subject> {
        let (app, size) = workload::names(&self.command).unzip();
        let (app, size) = (self.app.clone().or(app), self.size.clone().or(size));
        let command = MeasuredCommand::new(self.command.clone(), app, size)?;
        let warm_up = WarmUp { times: 1, durations_s: Vec::new() };
        let mut subject = Subject { laboratory, command, warm_up, out: self.out.clone(), seed };
        subject.begin()?;
        Ok(subject)
    }
}

fn named(command: &MeasuredCommand) -> String {
    if command.size.is_empty() {
        command.application.clone()
    } else {
        format!("{}/{}", command.application, command.size)
    }
}

impl Subject {
    /// Warms the machine up without a cap.
    fn begin(&mut self) -> anyhow::Result<()> {
        let testbed = &self.laboratory.testbed;
        let shown_seed = self.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        let emulated = if testbed.is_emulated() { " (emulated)" } else { "" };
        self.laboratory.progress.say(&format!(
            "measuring `{}` as {} on {}{emulated} by {}{shown_seed}",
            self.command.shown(),
            named(&self.command),
            testbed.unit().hardware,
            testbed.meter
        ));
        self.warm_up = self.laboratory.warm_up(&self.command)?;
        Ok(())
    }

    /// Measures a variant of the same application and size from now on: this command on the unit with this index.
    ///
    /// # Errors
    /// If the unit cannot be restored, the command fails, or after a signal.
    pub fn change(&mut self, unit: usize, argv: Vec<String>) -> anyhow::Result<()> {
        self.laboratory.set(Setting::Original)??;
        self.laboratory.select(unit);
        self.command.argv = argv;
        self.begin()
    }

    /// Returns the hardware that is measured, and the command, for people.
    pub fn variant(&self) -> (String, String) {
        (self.laboratory.testbed.unit().hardware.clone(), self.command.shown())
    }

    /// Measures at one setting, after one run that does not count. Runs are added to `earlier` ones of the same setting.
    ///
    /// # Errors
    /// If the command or the meter fails, or after a signal.
    pub fn measure(
        &mut self,
        setting: Setting,
        most: Option<usize>,
        earlier: Vec<RunRecord>,
    ) -> anyhow::Result<Judged> {
        let started_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let shown = if setting == Setting::Original { "no cap".to_owned() } else { setting.to_string() };
        self.laboratory.progress.step(&format!("measuring with {shown}"));
        let mut runs = earlier;
        let set = self.laboratory.set(setting)?;
        let mut reasons = Vec::new();
        match set {
            Ok(()) => {
                if setting != Setting::Original {
                    self.laboratory.run_once(&self.command, self.warm_up.times)?;
                }
                let most = most.unwrap_or(MOST_RUNS);
                self.laboratory.series(&self.command, self.warm_up.times, most, &mut runs)?;
            }
            Err(problem) => reasons.push(Reason::CapNotHeld { error: problem.to_string() }),
        }
        let (summary, found) = self.laboratory.judge(&mut runs);
        let repeated = Repeated::of(&runs.iter().map(RunRecord::pair).collect::<Vec<_>>());
        if reasons.is_empty() {
            reasons = found;
        }
        let unit = self.laboratory.testbed.unit();
        let measurement = Measurement {
            schema: Measurement::SCHEMA,
            application: self.command.application.clone(),
            size: self.command.size.clone(),
            hardware: unit.hardware.clone(),
            cores: unit.cores,
            cap_w: setting.cap().map(Power::watts),
            clocks: setting.clocks(),
            provenance: self.provenance(i64::try_from(started_ms).unwrap_or(i64::MAX)),
            summary,
            reasons: reasons.iter().map(Reason::to_string).collect(),
            runs,
        };
        Ok(Judged { measurement, repeated, faults: reasons.len(), has_effect: true })
    }

    fn provenance(&self, started_ms: i64) -> Provenance {
        let kernel = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host.unwrap_or_default(),
            kernel: kernel.unwrap_or_default(),
            started_ms,
            command: self.command.argv.clone(),
            emulated: self.laboratory.testbed.is_emulated(),
            meter: self.laboratory.testbed.meter.clone(),
            sheet: self.laboratory.timing.sheet,
            idle_s: self.laboratory.timing.idle_s,
            seed: self.seed,
            warm_up_s: self.warm_up.durations_s.clone(),
        }
    }

    /// Finds out if a setting has an effect, and adds the reason if a cap has none. Clocks may be the original ones.
    pub fn compare(&self, capped: &mut Judged, uncapped: &Judged) {
        let (Some(with), Some(without)) = (&capped.repeated, &uncapped.repeated) else { return };
        // The driver knows it, even if neither energy nor duration shows it.
        capped.has_effect = has_effect(with, without) || capped.measurement.limits().power > 0;
        if let Some(cap) = capped.measurement.cap().filter(|_| !capped.has_effect) {
            let reason = Reason::CapWithoutEffect { cap: cap.to_string() };
            capped.measurement.reasons.push(reason.to_string());
        }
    }

    /// Adds the reason to the first measurement without a cap if the last one differs from it.
    pub fn compare_last(&self, first: &mut Judged, last: &Judged) {
        if let (Some(one), Some(other)) = (&first.repeated, &last.repeated)
            && let Some(reason) = changed(one, other)
        {
            first.measurement.reasons.push(reason.to_string());
            first.faults += 1;
        }
    }

    /// Stores a measurement. A later one of the same key replaces it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store(&self, measurement: &Measurement) -> anyhow::Result<()> {
        results::append(&self.out, measurement)
    }

    /// Says where the results are.
    pub fn say_where(&self) {
        let out = self.out.display();
        self.laboratory.progress.say(&format!("the results are in {out}; `lprof export {out}` prints the profiles"));
    }

    /// Restores the caps. Returns the failures as an error.
    ///
    /// # Errors
    /// If a control cannot be restored.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.laboratory.progress.end();
        let failures = self.laboratory.testbed.close();
        anyhow::ensure!(
            failures.is_empty(),
            "the values before the caps are not restored ({}); the next lprof or lslave tries again",
            failures.join("; ")
        );
        Ok(())
    }
}

/// Ends a measuring command: restores the caps in any case. The exit code is 3 if the result is false.
///
/// # Errors
/// The error of the measurement, or if the caps cannot be restored.
pub fn finish(subject: Subject, result: anyhow::Result<bool>) -> anyhow::Result<ExitCode> {
    let closed = subject.close();
    match result {
        Ok(is_good) => closed.map(|()| if is_good { ExitCode::SUCCESS } else { ExitCode::from(UNTRUSTED) }),
        Err(error) => closed.with_context(|| format!("{error:#}")).and(Err(error)),
    }
}
