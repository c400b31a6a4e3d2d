//! Attacks in random order while the work continues.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use limo_tests::{Dice, Person, finish};

use crate::honest::Work;

const ATTACKS: [&str; 14] = [
    "waits",
    "unread",
    "selectors",
    "silence",
    "garbage",
    "halves",
    "dry-runs",
    "refusals",
    "environments",
    "long-name",
    "lease",
    "litter",
    "descriptors",
    "escapes",
];

pub fn run(enemy: &Person, mut dice: Dice, work: &Work) {
    while !work.is_over() {
        let attack = ATTACKS[dice.below(ATTACKS.len() as u64) as usize];
        let time = Duration::from_secs(2) + dice.up_to(Duration::from_secs(6));
        println!("attack: {attack}");
        let said = if attack == "silence" { silence(enemy, time) } else { one(enemy, attack, time) };
        // If the master has disconnected an attack, the attack is complete.
        if said.contains("not its own") || said.contains("panicked") {
            work.fault(format!("attack {attack}: {said}"));
        }
    }
}

/// Attacks for `time`; returns the output of the attack.
fn one(enemy: &Person, attack: &str, time: Duration) -> String {
    let mut command = enemy.command("limo-hostile", &[attack, "--master", &enemy.submitter.address]);
    command.arg("--programs").arg(enemy.programs()).arg("--scratch").arg(&enemy.submitter.directory);
    command.arg("--for").arg(format!("{}ms", time.as_millis()));
    finish(command.spawn().expect("executable")).stderr
}

/// Opens thousands of connections and sends nothing.
fn silence(enemy: &Person, time: Duration) -> String {
    let mut command = enemy.command("limo-stranger", &["crowd", &enemy.submitter.address, "3000"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("executable");
    thread::sleep(time);
    // The program ends with its stdin.
    drop(child.stdin.take());
    finish(child).stderr
}
