//! Programs of the site, such as the submit hook: run beside the loop, with limits on their time and their output.
//! Decides nothing.

use std::process::{ExitStatus, Stdio};

use limo_model::Span;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Search path of programs, which do not inherit the environment of the daemon.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The result of a program that ended by itself.
#[derive(Debug)]
pub struct ProgramResult {
    pub status: ExitStatus,
    /// The first bytes of its output; one more than allowed if there was more.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramLimits {
    pub time: Span,
    /// Most bytes of stdout.
    pub stdout: usize,
    /// Most bytes of stderr; the rest is dropped.
    pub stderr: usize,
}

/// Runs a program in `/`, with this input and only these variables besides `PATH`. It ends when the program and all processes that hold
/// its output have ended.
///
/// # Errors
/// The reason, as the rest of a sentence: it cannot be run, or exceeded its time limit and was killed with its process
/// group.
pub async fn run(
    mut command: Command,
    variables: &[(&'static str, String)],
    (input, limits): (&[u8], ProgramLimits),
) -> Result<ProgramResult, String> {
    let variables = variables.iter().map(|(name, value)| (name, value));
    command.env_clear().env("PATH", PATH).envs(variables).current_dir("/").process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let work = async {
        let give = async {
            if let Some(mut stdin) = stdin {
                // The program need not read its input.
                let _ = stdin.write_all(input).await;
            }
        };
        let ((), stdout, stderr) = tokio::join!(give, first(stdout, limits.stdout + 1), all(stderr, limits.stderr));
        // Only now is the number of the process given back, so that no other process is killed.
        child.wait().await.map(|status| ProgramResult { status, stdout, stderr })
    };
    let limit = std::time::Duration::from_millis(u64::try_from(limits.time.ms()).unwrap_or(0));
    match tokio::time::timeout(limit, work).await {
        Ok(ended) => ended.map_err(|error| format!("cannot be watched: {error}")),
        Err(_) => {
            let _ = group.map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
            Err(format!("did not end within {} and was killed", limits.time))
        }
    }
}

/// Reads up to `limit` bytes, then closes the pipe.
async fn first(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // Bytes that were read before an error count.
        let _ = pipe.take(limit as u64).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Reads everything, and returns the first `limit` bytes.
async fn all(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let Some(mut pipe) = pipe else { return bytes };
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        let kept = count.min(limit - bytes.len());
        bytes.extend_from_slice(&piece[..kept]);
    }
    bytes
}
