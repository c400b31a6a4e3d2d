//! Wrong inputs of all programs, in `wrong-inputs.txt`: each command, its exit code, and every line of its output. A
//! person reviews the lines when the table changes; `UPDATE_WRONG_INPUTS=1` rewrites them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use limo_tests::{Cluster, Setup, programs};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/wrong-inputs.txt");

/// Hardware that is equal on every machine.
const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/newcomer.toml");

/// Input files of some commands.
const FILES: [(&str, &str); 9] = [
    ("empty", ""),
    ("job.sh", "#!/bin/sh\necho hi\n"),
    ("badopt.sh", "#!/bin/sh\n#LIMO --nonsense\ntrue\n"),
    ("noexec", "x"),
    ("badlimits.csv", "time,low,high\n2030-01-01 00:00,5 W,1 W\n"),
    ("badprice.csv", "time,price\nx,5\n"),
    ("bad.toml", "= [\n"),
    ("unknown.toml", "colour = 1\n"),
    ("bad.swf", "one two\n"),
];

/// Returns the commands of the table, in order.
fn commands(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| line.strip_prefix("$ "))
}

/// Runs a command; returns its output with its exit code.
fn say(cluster: &Cluster, command: &str) -> String {
    let submitter = cluster.submitter();
    let program = programs::path("lrun");
    let path = format!("{}:/usr/bin:/bin", program.parent().expect("a directory").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().env("PATH", path).env("HOME", &submitter.directory).env("TZ", "UTC");
    shell.env("LIMO_MASTER", &submitter.address).current_dir(&submitter.directory).stdin(Stdio::null());
    let shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sh is there");
    let ran = limo_tests::finish(shell);
    let said = format!("{}{}", ran.stdout, ran.stderr).replace(&submitter.directory.display().to_string(), "DIR");
    let lines: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("$ {command}\n{lines}= {}\n", ran.code.map_or("killed".into(), |code| code.to_string()))
}

#[test]
fn each_wrong_input_gives_the_output_of_the_table() {
    let cluster = Setup::default().node("n1", &["--hardware", HARDWARE]).start();
    for (name, content) in FILES {
        let path = cluster.submitter().path(name);
        fs::write(&path, content).expect("written");
        let mode = if name == "noexec" { 0o644 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("an own file");
    }
    let table = fs::read_to_string(TABLE).expect("the table");
    assert!(commands(&table).count() >= 200, "{} inputs", commands(&table).count());
    let said: Vec<String> = commands(&table).map(|command| say(&cluster, command)).collect();
    if std::env::var_os("UPDATE_WRONG_INPUTS").is_some() {
        fs::write(TABLE, said.concat()).expect("written");
    }
    let changed: String = said.iter().filter(|said| !table.contains(*said)).map(String::as_str).collect();
    assert!(said.concat() == table, "the table has other lines than these:\n{changed}");
}
