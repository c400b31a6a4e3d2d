//! The cluster of the run: a master with its state on a small disk, and three emulated nodes.

use std::fs;
use std::time::Duration;

use limo_requirements::SmallDisk;
use limo_tests::{Cluster, Person, Setup, Submitter};

/// Node that never fails or stops: attached jobs run on it.
pub const STEADY_NODE: &str = "n1";

/// Nodes that are sometimes killed or stopped.
pub const FRAIL_NODES: [&str; 2] = ["n2", "n3"];

/// Core quota of the hostile user's jobs. It is below the number that honest jobs leave free, so that an honest job
/// never waits for a core.
const HOSTILE_CORES: u32 = 4;

/// Limits of a user in the journal: a small part of the disk.
const MASTER_CONFIG: &str = "[limits]\nsubmissions = \"64MiB\"\n";

/// Draw of an honest job, in watts: an eighth of the draw of its application on the whole unit.
pub const JOB_W: f64 = 5.0;

/// The machines have no noise, so that the energy of a job follows from its time.
const MACHINES: &str = r#"
[[machine]]
name = "MACHINE"
cores = 8
memory = "1 GiB"
idle = "10 W"
reading_noise = "0%"

[[machine.unit]]
name = "cpu"
hardware = "plain"
kind = "cpu"
nameplate = "80 W"
power_noise = "0%"
duration_noise = "0%"

[machine.unit.application.steady]
power = "40 W"
duration = "1h"
"#;

pub struct Site {
    pub cluster: Cluster,
    pub disk: SmallDisk,
}

impl Site {
    /// Starts the cluster for a run of this length, whose history stays on the disk. If this process may not mount a
    /// file system, prints the reason and returns `None`.
    pub fn start(length: Duration) -> Option<Self> {
        let disk = SmallDisk::mount((256 + length.as_secs() / 6) << 20)?;
        let config = disk.path().join("lmaster.toml");
        fs::write(&config, MASTER_CONFIG).expect("written");
        let state_dir = Some(disk.path().join("state"));
        // With TCP, another user can take the master's place.
        let mut setup = Setup { state_dir, over_tcp: true, clocks: true, ..Setup::default() };
        setup = setup.master(&["--node-lease", "8s", "--config", &config.display().to_string()]);
        for name in [STEADY_NODE].iter().chain(&FRAIL_NODES) {
            let file = disk.path().join(format!("{name}.toml"));
            fs::write(&file, MACHINES.replace("MACHINE", name)).expect("written");
            setup = setup.node(name, &["--hardware", &file.display().to_string()]);
        }
        Some(Self { cluster: setup.start(), disk })
    }

    pub fn submitter(&self) -> Submitter {
        self.cluster.submitter().clone()
    }
}

/// Sets quotas like an operator who expects users to flood the queue.
pub fn limit(cluster: &Cluster, enemy: &Person) {
    cluster.submitter().lconf(&["quota", &enemy.user.name, &format!("cores={HOSTILE_CORES}")]).succeeded();
}
