//! Stands for an application on emulated hardware: runs for as long as the unit's profile says and really uses its
//! stdin and stdout. It computes nothing, so many of them fit on one machine.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use limo_model::Span;

#[derive(Parser)]
#[command(about = "An application that does nothing for a given time, and reads its stdin to the end")]
struct Arguments {
    /// What it calls itself in its output.
    #[arg(default_value = "workload")]
    name: String,
    /// How long it runs, such as `2s`; otherwise as LIMO_EMULATED_DURATION_MS says.
    #[arg(long)]
    duration: Option<Span>,
    /// How long it runs in milliseconds, as the node's emulated hardware has it.
    #[arg(long, env = "LIMO_EMULATED_DURATION_MS", hide = true)]
    emulated_duration_ms: Option<i64>,
}

fn main() -> anyhow::Result<()> {
    let begin = Instant::now();
    let arguments = Arguments::parse();
    let duration = arguments.duration.or(arguments.emulated_duration_ms.map(Span::from_ms)).context(
        "how long to run is not known: this application is not in the node's hardware file; give `--duration 2s`",
    )?;
    let name = &arguments.name;
    say(&format!("{name} begins, for {duration}"))?;
    let input = thread::spawn(read_all);
    let rest = Duration::from_millis(u64::try_from(duration.ms()).unwrap_or(0)).saturating_sub(begin.elapsed());
    thread::sleep(rest);
    // The thread ends at the end of stdin; it does not panic, since it only counts.
    let Ok(seen) = input.join() else { anyhow::bail!("the thread that reads stdin is gone") };
    let (bytes, checksum) = seen.context("cannot read stdin")?;
    say(&format!("{name} ends: {bytes} bytes of stdin, checksum {checksum:016x}"))
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}

/// Reads stdin to its end: how many bytes, and their FNV-1a.
fn read_all() -> io::Result<(u64, u64)> {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 64 * 1024];
    let (mut bytes, mut checksum) = (0, 0xcbf2_9ce4_8422_2325_u64);
    loop {
        let count = stdin.read(&mut buffer)?;
        if count == 0 {
            return Ok((bytes, checksum));
        }
        bytes += count as u64;
        for byte in &buffer[..count] {
            checksum = (checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
