//! The jobs of the hour as batch scripts for Slurm, with their durations and draws on each machine, as for the emulated
//! CPUs.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use limo_model::{Power, Span, UnitKind};
use limo_power::{Emulated, Hardware, Share};

/// The run of a job on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub duration: Span,
    /// Draw above idle.
    pub power: Power,
}

/// The emulated machines, which Slurm knows as `n1`, `n2` and so on, in the order of their file.
pub struct Machines(Vec<Emulated>);

impl Machines {
    pub fn new(hardware: &Hardware) -> Self {
        Self(hardware.machines.iter().cloned().map(Emulated::new).collect())
    }

    pub fn idle(&self) -> Vec<Power> {
        self.0.iter().map(|machine| machine.machine().spec.idle).collect()
    }

    /// Returns the run of the next job on the whole CPU of each machine, including noise.
    ///
    /// # Errors
    /// If a machine has no CPU, or its file does not contain the application.
    pub fn loads(&mut self, application: &str) -> Result<Vec<Load>> {
        let load = |machine: &mut Emulated| {
            let spec = &machine.machine().spec;
            let name = spec.name.clone();
            let mut units = spec.units.iter().enumerate();
            let cpu = units.find(|(_, unit)| unit.kind == UnitKind::Cpu);
            let (unit, cores) =
                cpu.map(|(index, cpu)| (index, cpu.cores)).with_context(|| format!("{name}: no CPU"))?;
            let plan = machine.plan(application, "", &[Share { unit, cores, cap: None }])?;
            let duration = plan.work.with_context(|| format!("{name} does not know `{application}`"))?;
            Ok(Load { duration, power: plan.power() })
        };
        self.0.iter_mut().map(load).collect()
    }
}

/// Returns Slurm's name for the machine at `index`.
pub fn node(index: usize) -> String {
    format!("n{}", index + 1)
}

/// Returns the index of the machine with Slurm's name `name`.
///
/// # Errors
/// If none of the `count` machines has the name.
pub fn index_of(name: &str, count: usize) -> Result<usize> {
    let index = (0..count).find(|index| node(*index) == name);
    index.with_context(|| format!("`{name}` is not one of the nodes n1 to n{count}"))
}

/// Returns a batch script that runs `application` for the time that it takes on the script's machine, and prints its
/// beginning and end.
///
/// # Errors
/// If the program cannot be quoted for a shell.
pub fn script(workload: &Path, application: &str, loads: &[Load]) -> Result<String> {
    let workload = workload.to_str().filter(|path| !path.contains('\''));
    let workload = workload.context("the path of limo-workload is not UTF-8 text or has a quote in it")?;
    ensure!(application.chars().all(char::is_alphanumeric), "`{application}` cannot be the name of a job");
    let case = |(index, load): (usize, &Load)| format!("{}) duration={}ms ;;\n", node(index), load.duration.ms());
    let cases: String = loads.iter().enumerate().map(case).collect();
    Ok(format!(
        "#!/bin/sh\ncase $SLURMD_NODENAME in\n{cases}*) echo \"no such node: $SLURMD_NODENAME\"; exit 1 ;;\nesac\n\
         echo \"begin $SLURMD_NODENAME $(date +%s%3N)\"\n\
         '{workload}' {application} --duration \"$duration\"\ncode=$?\n\
         echo \"end $code $(date +%s%3N)\"\nexit $code\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::hardware::{example, faster};

    fn machines() -> Machines {
        let text = faster(&example().expect("the example"), 10).expect("faster");
        Machines::new(&Hardware::parse(Path::new("machines.toml"), &text).expect("machines"))
    }

    #[test]
    fn a_job_takes_what_the_cpu_of_each_machine_takes() {
        let mut machines = machines();
        let loads = machines.loads("cg").expect("loads");
        // The Xeons of power/examples/limo-2018.toml draw 38 W for 45 s, here 4.5 s, with a noise of 1 % and 2 %.
        for load in &loads[..2] {
            assert!((load.duration - Span::from_ms(4_500)).ms().abs() <= 90, "{load:?}");
            assert!((load.power.mw() - 38_000).abs() <= 380, "{load:?}");
        }
        assert_eq!(loads.len(), 4);
        assert_ne!(loads, machines.loads("cg").expect("loads"), "each job has noise of its own");
        assert_eq!(machines.idle().into_iter().sum::<Power>(), Power::from_mw(36_800));
        let error = machines.loads("xx").expect_err("refused");
        assert_eq!(error.to_string(), "xeon1 does not know `xx`");
    }

    #[test]
    fn a_script_has_a_case_for_each_machine() {
        let load = |ms| Load { duration: Span::from_ms(ms), power: Power::ZERO };
        let script = script(Path::new("/a b/limo-workload"), "cg", &[load(4_500), load(61_000)]).expect("a script");
        assert!(script.contains("case $SLURMD_NODENAME in\nn1) duration=4500ms ;;\nn2) duration=61000ms ;;\n"));
        assert!(script.contains("\n'/a b/limo-workload' cg --duration \"$duration\"\n"));
        super::script(Path::new("it's"), "cg", &[]).expect_err("refused");
        super::script(Path::new("a"), "cg; ls", &[]).expect_err("refused");
    }

    #[test]
    fn nodes_have_the_numbers_of_their_machines() {
        assert_eq!((node(0), index_of("n4", 4).expect("a node")), ("n1".to_owned(), 3));
        let refused = |name| index_of(name, 4).expect_err("refused").to_string();
        assert_eq!(refused("n5"), "`n5` is not one of the nodes n1 to n4");
        assert_eq!(refused("n04"), "`n04` is not one of the nodes n1 to n4");
    }
}
