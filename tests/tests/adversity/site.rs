//! The cluster of the run: a master whose state is on a small disk, and three emulated nodes.

use std::fs;
use std::time::Duration;

use limo_requirements::SmallDisk;
use limo_tests::{Cluster, Person, Setup, Submitter};

/// Never fails and is never stopped: attached jobs run on it.
pub const STEADY_NODE: &str = "n1";

/// Killed and stopped now and then.
pub const FRAIL_NODES: [&str; 2] = ["n2", "n3"];

/// Cores that jobs of the hostile user may have: fewer than honest jobs leave, so that another honest job never waits for one.
const HOSTILE_CORES: u32 = 4;

/// Limits of a user in the journal: a small part of the disk.
const MASTER_CONFIG: &str = "[limits]\nsubmissions = \"64MiB\"\n";

/// Draw of an honest job, in watts: an eighth of that of its application, which has the whole unit.
pub const JOB_W: f64 = 5.0;

/// No noise: a job's energy is known from its time.
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
    /// For a run of such a length, whose history stays on the disk. `None`, after saying so, if this process may not mount a
    /// file system.
    pub fn start(length: Duration) -> Option<Self> {
        let disk = SmallDisk::mount((256 + length.as_secs() / 6) << 20)?;
        let config = disk.path().join("lmaster.toml");
        fs::write(&config, MASTER_CONFIG).expect("written");
        let state_dir = Some(disk.path().join("state"));
        // Over TCP, so that another user can take the master's place.
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

/// Sets quotas as an operator who expects that users flood the queue.
pub fn limit(cluster: &Cluster, enemy: &Person) {
    cluster.submitter().lconf(&["quota", &enemy.user.name, &format!("cores={HOSTILE_CORES}")]).succeeded();
}
