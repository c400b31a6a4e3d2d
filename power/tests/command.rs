//! Commands that print watts: real scripts, good and bad.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use limo_model::Power;
use limo_power::{Command, Meter, Reading};

fn read(command: &str) -> Result<Reading, String> {
    Command::new(command).read(Duration::ZERO).map_err(|error| error.to_string())
}

#[test]
fn a_script_that_prints_watts() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("watts");
    fs::write(&script, "#!/bin/sh\necho 'warming up' >&2\necho \"Power: $1 W\"\necho 99 W\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("own file");
    assert_eq!(read(&format!("{} 41.5", script.display())), Ok(Reading::Draw(Power::from_mw(41_500))));
    assert_eq!(read("printf 0.2kW"), Ok(Reading::Draw(Power::from_watts(200))));
    // The output is read to its end, but only the start is kept.
    assert_eq!(read("echo 7; head -c 300000 /dev/zero"), Ok(Reading::Draw(Power::from_watts(7))));
}

#[test]
fn failures_of_a_command_are_reported() {
    let check = |command: &str, expected: &str| {
        let error = read(command).expect_err("no reading");
        assert_eq!(error, format!("the meter command `{command}` {expected}"));
    };
    check("echo 41.5 W; echo no sensor >&2; exit 3", "failed with exit status: 3; it printed `41.5 W no sensor`");
    check("kill -9 $$", "failed with signal: 9 (SIGKILL); it printed nothing");
    check(":", "printed nothing: it must print watts, for example `41.5 W`");
    let wrong = "the first number must be watts, for example `41.5 W`";
    check("echo 230 V", &format!("printed `230 V`: {wrong}"));
    check("echo no sensor", &format!("printed `no sensor`: {wrong}"));
    check("echo no sensor >&2", &format!("printed `no sensor`: {wrong}"));
    check("printf %0300d 0 | tr 0 x", &format!("printed `{}…`: {wrong}", "x".repeat(200)));
    check("echo 0", "shows 0.0 W: the draw of a running machine is above zero and at most 100.00 kW");
    check("echo '-5 W'", "shows -5.0 W: the draw of a running machine is above zero and at most 100.00 kW");
    let missing = read("/no/such/command").expect_err("no reading");
    assert!(
        missing.contains("failed with exit status: 127; it printed `") && missing.contains("not found"),
        "{missing}"
    );
}

/// Checks that the time limit kills the whole group, and that this takes little extra time.
#[test]
fn a_command_has_a_time_limit() {
    let limit = Duration::from_secs(1);
    for script in ["echo 4; sleep 1000 & wait", "sleep 1000 & echo 4", "exec >&- 2>&-; sleep 1000"] {
        let dir = tempfile::tempdir().expect("a directory");
        let begin = Instant::now();
        let pid = dir.path().join("pid");
        let command = format!("echo $$ > {}; {script}", pid.display());
        let error = Command::new(&command).with_limit(limit).read(Duration::ZERO).expect_err("no reading").to_string();
        let took = begin.elapsed();
        let printed = if script.contains("echo") { "`4`" } else { "nothing" };
        let expected = format!("did not end within 1000 ms and was killed; it printed {printed}");
        assert!(error.ends_with(&expected), "{script}: {error}");
        assert!(took >= limit && took < Duration::from_secs(20), "{script}: {took:?}");
        let number = fs::read_to_string(&pid).expect("it began").trim().to_owned();
        // A signal may take a moment to arrive.
        while is_alive(&number) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{script}");
            thread::yield_now();
        }
    }
}

/// Returns true if this process, or a process of its group or started by it, still runs. Ended processes may remain
/// uncollected for a while.
fn is_alive(number: &str) -> bool {
    fs::read_dir("/proc").expect("Linux").flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((start, rest)) = stat.rsplit_once(')') else { return false };
        // The number comes before the name; state, parent and group come after it.
        let fields: Vec<&str> = start.split(' ').take(1).chain(rest.split_whitespace().take(3)).collect();
        fields[0..1].iter().chain(&fields[2..]).any(|field| *field == number) && !["Z", "X"].contains(&fields[1])
    })
}
