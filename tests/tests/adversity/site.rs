//! The cluster of the run: a master whose state is on a small disk, and three emulated nodes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use limo_tests::{Cluster, Setup, Submitter};
use tempfile::TempDir;

/// Never fails and is never stopped: attached jobs run on it.
pub const STEADY_NODE: &str = "n1";

/// Killed and stopped now and then.
pub const FRAIL_NODES: [&str; 2] = ["n2", "n3"];

/// Draw of an honest job, in watts: a quarter of that of its application, which has the whole unit.
pub const JOB_W: f64 = 5.0;

/// No noise: a job's energy is known from its time.
const MACHINES: &str = r#"
[[machine]]
name = "MACHINE"
cores = 4
memory = "1 GiB"
idle = "10 W"
reading_noise = "0%"

[[machine.unit]]
name = "cpu"
hardware = "plain"
kind = "cpu"
nameplate = "40 W"
power_noise = "0%"
duration_noise = "0%"

[machine.unit.application.steady]
power = "20 W"
duration = "1h"
"#;

pub struct Site {
    pub cluster: Cluster,
    pub disk: SmallDisk,
}

impl Site {
    /// `None`, after saying so, where this process may not mount a file system.
    pub fn start() -> Option<Self> {
        let disk = match SmallDisk::mount() {
            Ok(disk) => disk,
            Err(reason) => {
                println!("skipped: a tmpfs cannot be mounted here: {reason}");
                return None;
            }
        };
        let state_dir = Some(disk.path().join("state"));
        // Over TCP, so that another user can take the master's place.
        let mut setup = Setup { state_dir, over_tcp: true, clocks: true, ..Setup::default() };
        setup = setup.master(&["--node-lease", "8s"]);
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

/// A file system of its own; gone when dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Result<Self, String> {
        let disk = Self(tempfile::tempdir().expect("a directory"));
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=192m,mode=0700", "limo-test"]).arg(disk.path());
        let output = mount.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(disk) } else { Err(said) }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes up every byte that is left.
    pub fn fill(&self) {
        let mut file = File::create(self.path().join("filler")).expect("room for a name");
        let mut piece = 1024 * 1024;
        while piece > 0 {
            if file.write_all(&vec![1; piece]).is_err() {
                piece /= 2;
            }
        }
    }

    pub fn make_room(&self) {
        fs::remove_file(self.path().join("filler")).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}
