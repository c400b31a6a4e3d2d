//! Settings: their sources, and the errors for bad ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use limo_proto::MasterToNode;
use limo_requirements::{Requirement, skip};

use crate::master::{Daemon, Master, command};

fn lslave(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lslave"));
    command.args(arguments).env_clear().env("LIMO_NAME", "n1");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Expects exit code 1, nothing on stdout, and one line on stderr that contains this text.
fn check(output: &Output, expected: &str) {
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{stderr}");
    assert!(stderr.starts_with("lslave: ") && stderr.contains(expected), "`{expected}` in `{stderr}`");
}

#[test]
fn bad_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lslave.toml");
    fs::write(&file, "").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("own file");
    let path = file.to_str().expect("UTF-8");
    let with = |content: &str, expected: &str| {
        fs::write(&file, content).expect("written");
        check(&lslave(&["--config", path, "--check-config"]).output().expect("it runs"), expected);
    };
    with("idel = \"5 W\"", "lslave.toml:1: unknown field `idel`");
    with("# power\nidle = 5", "lslave.toml:2: `5` has no unit: write for example `90 W`");
    with("reading_interval = \"0s\"", "the reading interval is 0s: it must be at least 20ms, for example `1s`");
    with("reading_interval = \"19ms\"", "the reading interval is 19ms: it must be at least 20ms");
    with("meter_interval = \"19ms\"", "the meter interval is 19ms: it must be at least 20ms");
    with("meter_interval = \"61s\"", "the meter interval is 1min1s: a meter must be read at least every 1min");
    with("meter = \"shelly:plug7\"", "lslave.toml:1: `plug7` is not an address of a device: it must begin `http://`");
    with("meter_access = \"/no/such/file\"", "cannot read /no/such/file: No such file");
    // The file is readable by all users.
    let open = format!("meter_access = \"{path}\"");
    with(&open, &format!("{path} may be read by others (mode 644): do `chmod 600 {path}`"));
    with("idle = \"-5 W\"", "the idle draw is -5.0 W: it must not be negative");
    with("name = \"n1\"\nmachine = \"m\"", "the machine `m` needs a hardware file");
    with(
        "# watts\nmeter = \"rapl\"",
        "lslave.toml:2: there is no meter `rapl`: write `powercap`, `hwmon:CHIP[/CHANNEL]`,",
    );
    with("meter = \"powercap\"\nreading_interval = \"61s\"", "is 1min1s: the master needs a reading at least");
    with("meter = \"powercap\"\nhardware = \"hw.toml\"", "a meter is set, but emulated hardware has its own");
    with("[caps]\ncpu = \"magic\"", "lslave.toml:2: there is no cap `magic`: write `rapl`, `cpufreq`, `hsmp`, ");
    with("[caps]\n\"a b\" = \"rapl\"", "the unit name `a b` has the character ` `");
    with("cap_lease = \"0s\"", "the lease of caps is 0s: it must be positive");
    with("hardware = \"hw.toml\"\n[caps]\ncpu = \"rapl\"", "unit `cpu` has a cap, but emulated hardware has its own");
    with("owner = \"camera\"", "lslave.toml:1: `camera` is not a source of owners: write `auto`, or some of `logind`,");
    with("owner_away_after = \"99ms\"", "the owner is away after 99ms: it must be 100ms to 1d, for example `1min`");
    with("gpus = \"amd\"", "lslave.toml:1: unknown variant `amd`, expected one of `auto`, `nvml`, `none`");
    let run = |arguments: &[&str], expected: &str| check(&lslave(arguments).output().expect("it runs"), expected);
    run(&["--config", "/no/such/file", "--check-config"], "cannot read the settings /no/such/file: No such file");
    run(
        &["--master", "10.0.0.1:6817"],
        "not on loopback: without certificates a node connects only to its own machine",
    );
    run(
        &["--master", "nowhere"],
        "the master `nowhere` is not an address: write for example `unix:/run/limo/master.sock`",
    );
    run(&["--master", "unix:here"], "the socket path `here` is relative: write it from / on");
    run(&["--master-user", "no such user"], "the master user `no such user` is not known on this machine");
    run(&["--name", "a b"], "the node name `a b` has the character ` `");
    run(&["--hardware", "/no/such/file"], "cannot read the hardware file /no/such/file");
    run(&["--cap", "cpu=rapl", "--cap", "cpu=hsmp"], "the unit `cpu` has two caps");
    run(
        &["--gpus", "nvml", "--nvml", "/no/such/library"],
        "cannot use the NVIDIA library /no/such/library: a libloading error occurred: /no/such/library: cannot open",
    );
    run(&["--log", "a=b=c"], "`a=b=c` is not a log level");
    let unknown = lslave(&["--no-such-option"]).output().expect("it runs");
    assert_eq!(unknown.status.code(), Some(125), "as every program of Limo");
}

#[test]
fn machines_of_a_hardware_file() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../power/examples/limo-2018.toml");
    let run = |arguments: &[&str]| {
        lslave(&[&["--hardware", example, "--check-config"], arguments].concat()).output().expect("it runs")
    };
    check(&run(&[]), "describes no machine `n1`: it has xeon1, xeon2, odroid-c1, odroid-c2");
    check(&run(&["--machine", "xeon3"]), "describes no machine `xeon3`");
    check(&run(&["--machine", "xeon1", "--idle", "1 W"]), "the hardware file has it for emulated hardware");
    let good = run(&["--machine", "xeon2", "--master", "/run/limo/x"]);
    assert_eq!(text(&good.stdout), "node `n1`: 3 units, master unix:/run/limo/x\n", "{}", text(&good.stderr));
}

/// Flags take precedence over the environment, and the environment over the file.
#[test]
fn flags_precede_variables_and_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lslave.toml");
    fs::write(&file, "master = \"127.0.0.1:1\"\n").expect("written");
    let path = file.to_str().expect("UTF-8");
    let check = |command: &mut Command, expected: &str| {
        let output = command.arg("--check-config").output().expect("it runs");
        assert!(text(&output.stdout).ends_with(expected), "{}", text(&output.stdout));
    };
    check(&mut lslave(&["--config", path]), "127.0.0.1:1\n");
    check(lslave(&[]).env("LIMO_CONFIG", path), "127.0.0.1:1\n");
    check(lslave(&["--config", path]).env("LIMO_MASTER", "127.0.0.1:2"), "127.0.0.1:2\n");
    check(lslave(&["--config", path, "--master", "127.0.0.1:3"]).env("LIMO_MASTER", "127.0.0.1:2"), "127.0.0.1:3\n");
}

/// Tests that a refused node reports the reason and ends, while a node that was registered before keeps trying.
#[tokio::test]
async fn a_refused_node_says_why() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = command(dir.path(), &master, &[]);
    let daemon = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let (mut node, _) = master.greet().await;
    node.send(MasterToNode::Refused { reason: "another node is named `n1`".into() }).await;
    let output = daemon.await.expect("no panic");
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("lslave: the master refuses this node: another node is named `n1`"), "{stderr}");

    let _daemon = Daemon::start(&master, &[]);
    let (node, _) = master.welcome().await;
    drop(node);
    let (mut node, _) = master.greet().await;
    node.send(MasterToNode::Refused { reason: "for now".into() }).await;
    drop(node);
    master.welcome().await;
}

/// A hang-up signal makes the daemon read its settings again. Here, the interval of readings changes from a very long
/// to a short one.
#[tokio::test]
async fn settings_are_read_again() {
    let master = Master::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lslave.toml");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../power/examples/limo-2018.toml");
    let content =
        |interval: &str| format!("hardware = \"{example}\"\nmachine = \"xeon1\"\nreading_interval = \"{interval}\"\n");
    fs::write(&file, content("1d")).expect("written");
    let daemon = Daemon::start(&master, &["--config", file.to_str().expect("UTF-8")]);
    let (mut node, _) = master.welcome().await;
    let mut reading = async || {
        node.message(|message| matches!(message, limo_proto::NodeToMaster::Reading(_)).then_some(())).await;
    };
    reading().await;
    // A broken file changes nothing and does not end the daemon.
    fs::write(&file, "nonsense = 1").expect("written");
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    fs::write(&file, content("20ms")).expect("written");
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    for _ in 0..5 {
        reading().await;
    }
}

/// Lets another user change the state directory: the node does not start and writes nothing there.
#[test]
fn a_state_directory_of_others_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    fs::create_dir(&state).expect("made");
    let refused = |expected: &str| {
        let state = state.to_str().expect("UTF-8");
        let output = lslave(&["--state-dir", state, "--master", "127.0.0.1:1"]).output().expect("it runs");
        check(&output, "the state directory is not safe: ");
        check(&output, expected);
    };
    fs::set_permissions(&state, fs::Permissions::from_mode(0o1777)).expect("own directory");
    refused("can be written by other users (mode 1777)");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("own directory");
    std::os::unix::fs::symlink(dir.path().join("target"), state.join("instance")).expect("a link");
    refused("instance is a symbolic link");
    fs::remove_file(state.join("instance")).expect("own link");
    if std::os::unix::fs::chown(&state, Some(65_533), None).is_err() {
        return skip(Requirement::Root, "only root can give a directory away");
    }
    refused("belongs to uid 65533");
    assert!(fs::read_dir(&state).expect("readable").next().is_none(), "nothing was made there");
}
