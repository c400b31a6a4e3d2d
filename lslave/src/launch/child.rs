//! A process from its birth to the first instruction of its program. Until then it shares the daemon's memory, as of
//! `vfork(2)`: nothing of the daemon is copied, which would take longer than everything else here, and the thread that
//! starts it stands still. Knows nothing of jobs but [`Steps`].
//!
//! What runs in the child makes system calls and writes to its own stack, to `errno` of the thread that waits, and to
//! [`Birth::failed`]; it allocates nothing and takes no lock. `posix_spawn(3)` does the same and knows too few steps:
//! neither groups nor users, no umask and no terminal.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;

use nix::libc;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::LaunchError;
use super::steps::{Step, Steps};

/// Of the child, until it is the program: the deepest of its calls needs some hundred bytes.
const STACK: usize = 64 << 10;

/// Where programs are looked for by a job that has no `PATH`, as `execvp(3)` does.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";

/// What runs programs that name no interpreter, as `execvp(3)` has it.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// What becomes of a child.
pub(super) struct Program {
    /// Where it may be, to be tried in order.
    paths: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    /// The first of `argv` is what the program is told as its name. Of variables that are given twice the last counts.
    ///
    /// # Errors
    /// [`LaunchError::Nul`].
    pub(super) fn new(
        program: &OsStr,
        argv: impl Iterator<Item = OsString>,
        env: Vec<(OsString, OsString)>,
    ) -> Result<Self, LaunchError> {
        let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| LaunchError::Nul);
        let path = env.iter().rev().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_bytes());
        let paths = places(program.as_bytes(), path.unwrap_or(USUAL_PATH)).into_iter().map(text);
        let mut seen = HashSet::new();
        let last = env.iter().rev().filter(|(key, _)| seen.insert(key));
        let env = last.map(|(key, value)| text([key.as_bytes(), b"=", value.as_bytes()].concat()));
        let mut env = env.collect::<Result<Vec<_>, _>>()?;
        env.reverse();
        Ok(Self {
            paths: paths.collect::<Result<_, _>>()?,
            argv: argv.map(|one| text(one.into_vec())).collect::<Result<_, _>>()?,
            env,
        })
    }
}

/// Where `program` may be. One with a slash in its name is where it says.
fn places(program: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let within = |dir: &[u8]| if dir.is_empty() { program.to_vec() } else { [dir, b"/", program].concat() };
    path.split(|byte| *byte == b':').map(within).collect()
}

/// Why there is no process.
pub(super) enum Failed {
    Spawn(io::Error),
    Step(Step, io::Error),
    Exec(io::Error),
}

/// What the child finds in the memory that it shares.
struct Birth<'a> {
    paths: &'a [CString],
    argv: &'a [*const c_char],
    /// The same for a program that a shell has to run; the second is put in by the child.
    shell_argv: &'a mut [*const c_char],
    env: &'a [*const c_char],
    stdio: [c_int; 3],
    steps: &'a Steps,
    /// Which step failed, if any: of the program itself, none.
    failed: Option<(Option<Step>, c_int)>,
}

/// Starts `program` with these descriptors as stdin, stdout and stderr, after `steps`. Returns once it is really running.
///
/// # Errors
/// [`Failed`], where nothing is left of it.
pub(super) fn spawn(program: &Program, stdio: &[OwnedFd; 3], steps: &Steps) -> Result<Pid, Failed> {
    let list = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>();
    let (argv, env) = (list(&program.argv), list(&program.env));
    let arguments = list(program.argv.get(1..).unwrap_or_default());
    let mut shell_argv = [vec![SHELL.as_ptr(), ptr::null()], arguments].concat();
    let mut birth = Birth {
        paths: &program.paths,
        argv: &argv,
        shell_argv: &mut shell_argv,
        env: &env,
        stdio: stdio.each_ref().map(AsRawFd::as_raw_fd),
        steps,
        failed: None,
    };
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    // SAFETY: the end of the memory that was allocated, to which no other pointer leads; `u128` is aligned as a stack must be.
    let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
    // SAFETY: sets of signals are plain memory, filled before they are read. This thread goes on only when the child has
    // left this memory, so that all of `birth` and the stack outlive it; no handler of the daemon runs in the child, because
    // all signals are blocked until it has none.
    let child = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let child = libc::clone(born, top.cast(), flags, (&raw mut birth).cast());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        if child < 0 {
            return Err(Failed::Spawn(error));
        }
        Pid::from_raw(child)
    };
    // SAFETY: a plain value of this frame; the child may have written it.
    match unsafe { ptr::read_volatile(&raw const birth.failed) } {
        None => Ok(child),
        Some((step, errno)) => {
            // It is about to end, or has. Nobody else collects it: the daemon's loop stands still here.
            let _ = waitpid(child, None);
            let error = io::Error::from_raw_os_error(errno);
            Err(step
                .map_or_else(|| Failed::Exec(io::Error::from_raw_os_error(errno)), |step| Failed::Step(step, error)))
        }
    }
}

/// The life of the child.
extern "C" fn born(birth: *mut c_void) -> c_int {
    // SAFETY: it is the parent's `Birth`, and the parent stands still.
    let birth = unsafe { &mut *birth.cast::<Birth>() };
    let failed = match redirect(birth.stdio).and_then(|()| birth.steps.run()) {
        Ok(()) => (None, exec(birth)),
        Err((step, errno)) => (Some(step), errno),
    };
    birth.failed = Some(failed);
    // SAFETY: ends this process and nothing else; no destructor of the parent's values runs.
    unsafe { libc::_exit(127) }
}

/// Puts the descriptors in the places of stdin, stdout and stderr. They are none of these themselves: the daemon has all three.
fn redirect(stdio: [c_int; 3]) -> Result<(), (Step, c_int)> {
    for (place, fd) in (0..).zip(stdio) {
        // SAFETY: both are numbers of descriptors.
        if unsafe { libc::dup2(fd, place) } < 0 {
            return Err((Step::Kept, errno()));
        }
    }
    Ok(())
}

/// Becomes the program, as `execvp(3)` does; returns why not.
fn exec(birth: &mut Birth) -> c_int {
    let mut last = libc::ENOENT;
    let mut refused = false;
    for path in birth.paths {
        // SAFETY: all texts and lists end in a null, and live in the parent, which stands still.
        let mut error = unsafe {
            libc::execve(path.as_ptr(), birth.argv.as_ptr(), birth.env.as_ptr());
            errno()
        };
        if error == libc::ENOEXEC {
            birth.shell_argv[1] = path.as_ptr();
            // SAFETY: as above.
            error = unsafe {
                libc::execve(SHELL.as_ptr(), birth.shell_argv.as_ptr(), birth.env.as_ptr());
                errno()
            };
        }
        match error {
            // It may be elsewhere.
            libc::EACCES => refused = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT | libc::ENAMETOOLONG => {}
            other => return other,
        }
        last = error;
    }
    if refused { libc::EACCES } else { last }
}

/// Of the last call that failed.
pub(super) fn errno() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_the_path_says() {
        let check = |program: &str, path: &str, expected: &[&str]| {
            let found = places(program.as_bytes(), path.as_bytes());
            let found: Vec<_> = found.iter().map(|place| String::from_utf8_lossy(place)).collect();
            assert_eq!(found, expected, "{program} {path}");
        };
        check("true", "/bin:/usr/bin", &["/bin/true", "/usr/bin/true"]);
        check("true", ":b:", &["true", "b/true", "true"]);
        check("./true", "/bin", &["./true"]);
        check("/x/true", "", &["/x/true"]);
    }

    #[test]
    fn of_variables_that_come_twice_the_last_counts() {
        let pair = |key: &str, value: &str| (OsString::from(key), OsString::from(value));
        let env = vec![pair("A", "1"), pair("PATH", "/a"), pair("A", "2"), pair("PATH", "/b")];
        let program = Program::new(OsStr::new("x"), ["x".into()].into_iter(), env).unwrap_or_else(|_| panic!("no NUL"));
        assert_eq!(program.env, [c"A=2".to_owned(), c"PATH=/b".to_owned()]);
        assert_eq!(program.paths, [c"/b/x".to_owned()]);
    }
}
