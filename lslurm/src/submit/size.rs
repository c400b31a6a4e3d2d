//! Size of a job: nodes, tasks, cores, memory and accelerators.

use limo_client::Failure;
use limo_model::{Memory, NodeRange, check_name};

use super::{JobOptions, Translated, wrong};
use crate::values;

/// Options that give the memory, and those that give the accelerators. The last one counts.
const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
const GPUS: [&str; 4] = ["gpus", "gpus-per-node", "gpus-per-task", "gres"];

/// Size of a job as requested.
pub struct Size {
    nodes: Option<NodeRange>,
    tasks: Option<u32>,
    per_node: Option<u32>,
    cores: Option<u32>,
    memory: Option<Memory>,
    /// Accelerators of each node, with their type.
    gpus: Option<(Option<String>, u32)>,
    per_cpu: Option<Memory>,
}

impl Size {
    /// Reads the options.
    ///
    /// # Errors
    /// If a value is wrong.
    pub fn of(options: &JobOptions) -> Result<Self, Failure> {
        let number = |name: &str| match options.get(name) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .map(Some)
                .ok_or_else(|| Failure::new(format_args!("Invalid numeric value \"{text}\" for --{name}."))),
        };
        let nodes = match options.get("nodes") {
            None => None,
            Some(text) => Some(text.parse::<NodeRange>().map_err(|_| wrong("nodes", text))?),
        };
        let (tasks, per_node) = (number("ntasks")?, number("ntasks-per-node")?);
        let cores = number("cpus-per-task")?;
        let mut size = Self { nodes, tasks, per_node, cores, memory: None, gpus: None, per_cpu: None };
        size.gpus = match options.last(&GPUS) {
            Some((name, text)) => size.accelerators(name, text)?,
            None => None,
        };
        if let Some((name, text)) = options.last(&MEMORY) {
            let amount = values::memory(text).ok_or_else(|| wrong(name, text))?;
            let of_node = u64::from(size.tasks_on_node());
            let times = match name {
                "mem-per-cpu" => of_node * u64::from(cores.unwrap_or(1)),
                "mem-per-gpu" => size.gpus.as_ref().map_or(1, |(_, count)| u64::from(*count)),
                _ => 1,
            };
            let bytes = amount.bytes().checked_mul(times).ok_or_else(|| wrong(name, text))?;
            // `--mem=0` is all of the memory of the node.
            size.memory = (bytes > 0).then_some(Memory::from_bytes(bytes));
            size.per_cpu = (name == "mem-per-cpu").then_some(amount);
        }
        Ok(size)
    }

    fn least_nodes(&self) -> u32 {
        self.nodes.map_or(1, |nodes| nodes.least.get())
    }

    fn tasks_on_node(&self) -> u32 {
        let spread = || self.tasks.map_or(1, |tasks| tasks.div_ceil(self.least_nodes()));
        self.per_node.unwrap_or_else(spread)
    }

    /// Reads `2`, `TYPE:2` or `gpu:TYPE:2`; returns the accelerators of each node.
    fn accelerators(&self, name: &str, text: &str) -> Result<Option<(Option<String>, u32)>, Failure> {
        let refused = || match name {
            "gres" => Failure::new("Invalid generic resource (gres) specification"),
            _ => wrong(name, text),
        };
        let rest = match (name, text) {
            ("gres", "" | "none") => return Ok(None),
            ("gres", "gpu") => "1",
            ("gres", _) => text.strip_prefix("gpu:").or_else(|| text.strip_prefix("gpu=")).ok_or_else(refused)?,
            _ => text,
        };
        let (hardware, count) = match rest.rsplit_once([':', '=']) {
            Some((hardware, count)) => (Some(hardware), count),
            None if rest.starts_with(|letter: char| letter.is_ascii_digit()) => (None, rest),
            None => (Some(rest), "1"),
        };
        let count: u32 = count.parse().map_err(|_| refused())?;
        if hardware.is_some_and(|hardware| check_name("hardware", hardware).is_err()) {
            return Err(refused());
        }
        let count = match name {
            "gpus" if count.is_multiple_of(self.least_nodes()) => count / self.least_nodes(),
            "gpus" => {
                return Err(Failure::new(format_args!(
                    "--gpus={text} cannot be divided among {} nodes: use --gpus-per-node",
                    self.least_nodes()
                )));
            }
            "gpus-per-task" => count.saturating_mul(self.tasks_on_node()),
            _ => count,
        };
        Ok((count > 0).then(|| (hardware.map(str::to_owned), count)))
    }

    /// Adds the options of a step. What is not given is that of its job.
    pub fn add_to_step(&self, step: &mut Translated) {
        let nodes = self.nodes.map(|nodes| nodes.least.get());
        let numbers = [
            ("--nodes", nodes),
            ("--ntasks", self.tasks),
            ("--ntasks-per-node", self.per_node.filter(|_| self.tasks.is_none())),
            ("--cores", self.cores),
        ];
        for (option, number) in numbers {
            if let Some(number) = number {
                step.option(option, number.to_string());
            }
        }
        self.add_memory_and_gpus(step);
    }

    fn add_memory_and_gpus(&self, job: &mut Translated) {
        if let Some(memory) = self.memory {
            job.option("--mem", format!("{}KiB", memory.bytes().div_ceil(1 << 10)));
        }
        if let Some((hardware, count)) = &self.gpus {
            let kind = hardware.as_ref().map_or_else(String::new, |hardware| format!("{hardware}:"));
            job.option("--gpus", format!("{kind}{count}"));
        }
    }

    /// Adds the options for `lrun`, and the variables that only the command line knows.
    pub fn add_to(&self, job: &mut Translated) {
        let tasks = self.tasks.filter(|tasks| *tasks > 1);
        // Several tasks may be on one node only.
        if let Some(nodes) = self.nodes.filter(|nodes| nodes.most.get() > 1 || tasks.is_some()) {
            let (least, most) = (nodes.least, nodes.most);
            job.option("--nodes", if least == most { least.to_string() } else { format!("{least}-{most}") });
            job.several = true;
        }
        if let Some(tasks) = tasks {
            job.option("--ntasks", tasks.to_string());
            job.several = true;
        }
        if let Some(per_node) = self.per_node {
            job.set("SLURM_NTASKS_PER_NODE", per_node.to_string());
            if per_node > 1 {
                job.option("--ntasks-per-node", per_node.to_string());
                job.several = true;
            }
        }
        if let Some(cores) = self.cores {
            job.option("--cores", cores.to_string());
        }
        if let Some(memory) = self.memory {
            match self.per_cpu {
                Some(amount) => job.set("SLURM_MEM_PER_CPU", (amount.bytes() >> 20).to_string()),
                None => job.set("SLURM_MEM_PER_NODE", (memory.bytes() >> 20).to_string()),
            }
        }
        self.add_memory_and_gpus(job);
    }
}
