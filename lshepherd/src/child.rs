//! A process from its creation to the first instruction of its program. Until then it shares the memory of this
//! process, which is faster than a copy. This process does not wait for it, because a user's file may block the child
//! without a limit.
//!
//! The child makes raw system calls and writes to its own stack only. It does not allocate, lock or use `errno`. It
//! enters its control group and drops its privileges itself: groups, then user, then umask and directory, then files. So
//! it accesses every file as the job's user.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use limo_containment::{Cores, Entry};
use limo_shepherd::{FIRST_INHERITED, Identity, Plan, Step};
use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::{Pid, pipe2};

use crate::limits::{Limits, read};
use crate::raw::{call, clone3};

/// Size of the child's stack. Its deepest calls need some hundred bytes, or more without optimization.
const STACK: usize = 64 << 10;

/// Flag of `clone3(2)`. The constant of `libc` is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Shell for programs that name no interpreter, as in `execvp(3)`.
const SHELL: &CStr = c"/bin/sh";

/// Soft limit on open files, equal to that of a login. The hard limit is that of the daemon.
const SOFT_FILES: u64 = 1024;

/// Texts for the kernel, with the required list of pointers. The texts do not move when this value moves.
struct Texts {
    texts: Vec<CString>,
    list: Vec<*const c_char>,
}

impl Texts {
    fn new(texts: &[Vec<u8>]) -> io::Result<Self> {
        let texts = texts.iter().map(|text| text_of(text)).collect::<io::Result<Vec<_>>>()?;
        let list = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Ok(Self { texts, list })
    }
}

fn text_of(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text holds a NUL byte"))
}

/// Everything that the child reads. It stays at its address until the child has left this memory.
struct Birth {
    paths: Texts,
    argv: Texts,
    /// Arguments for a program that a shell has to run; the child sets the second one.
    shell_argv: Vec<*const c_char>,
    env: Texts,
    directory: CString,
    checkpoints: Option<CString>,
    umask: u32,
    identity: Option<Identity>,
    stdin: Option<CString>,
    /// Files for stdout and stderr: the name, and true if the content stays.
    outputs: [Option<(CString, bool)>; 2],
    terminal: bool,
    blocked: bool,
    no_new_privs: bool,
    /// Mask of the CPUs to which it is bound; empty to leave it unbound.
    cores: Vec<usize>,
    /// Descriptors in the order of their places: stdin, stdout, stderr, and from [`FIRST_INHERITED`] on.
    descriptors: Vec<OwnedFd>,
    /// Index of the first descriptor to close when the program begins.
    until_exec: usize,
    limits: Limits,
    report: RawFd,
    /// Files through which the child enters control groups of version 1.
    tasks: Vec<OwnedFd>,
}

/// A birth in use by a child: this process does not access it until it is dropped.
struct Shared(*mut Birth);

impl Shared {
    fn new(birth: Birth) -> Self {
        Self(Box::into_raw(Box::new(birth)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was a box, and the child has left this memory.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// A child that does not run its program yet.
pub struct Launching {
    pub pid: Pid,
    /// Pipe whose end shows that the child has left this memory.
    report: File,
    /// Stack of the child; only the child reads and writes it.
    _stack: Vec<u128>,
    _birth: Shared,
}

/// The fate of a child.
pub enum Progress {
    /// No news.
    Open,
    /// The child runs its program, or was killed before.
    Left,
    /// The child is about to end because of this error.
    Failed(Step, i32),
}

/// Returns the limit on open files of jobs: that of a login, within the limit of this process.
pub fn file_limit() -> io::Result<libc::rlimit64> {
    let own = read(libc::RLIMIT_NOFILE)?;
    Ok(libc::rlimit64 { rlim_cur: SOFT_FILES.min(own.rlim_max), rlim_max: own.rlim_max })
}

/// Begins a launch. `descriptors` are stdin, stdout, stderr and the inherited ones, none below 10; `limits`
/// are the job's as far as they differ from those of this process, and `entry` the way into its control group.
///
/// # Errors
/// If the process cannot be created.
pub fn begin(plan: Plan, descriptors: Vec<OwnedFd>, limits: Limits, entry: Option<Entry>) -> io::Result<Launching> {
    let Entry { unified, tasks } = entry.unwrap_or_default();
    let (report, theirs) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    if plan.argv.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no command"));
    }
    let argv = Texts::new(&plan.argv)?;
    let arguments = argv.list.get(1..).unwrap_or_default();
    let shell_argv = [&[SHELL.as_ptr(), ptr::null()], arguments].concat();
    let output = |output: Option<limo_shepherd::Output>| -> io::Result<_> {
        output.map(|output| Ok((text_of(&output.name)?, output.keep))).transpose()
    };
    let birth = Shared::new(Birth {
        paths: Texts::new(&plan.paths)?,
        argv,
        shell_argv,
        env: Texts::new(&plan.env)?,
        directory: text_of(&plan.directory)?,
        checkpoints: plan.checkpoints.as_deref().map(text_of).transpose()?,
        umask: plan.umask & 0o777,
        identity: plan.identity,
        stdin: plan.stdin.as_deref().map(text_of).transpose()?,
        outputs: [output(plan.stdout)?, output(plan.stderr)?],
        terminal: plan.terminal,
        blocked: plan.blocked,
        no_new_privs: plan.no_new_privs,
        cores: plan.cores.into_iter().collect::<Cores>().mask(),
        until_exec: descriptors.len() - plan.until_exec,
        descriptors,
        limits,
        report: theirs.as_raw_fd(),
        tasks,
    });
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let child = clone(unified.as_ref(), &mut stack, &birth)?;
    Ok(Launching { pid: Pid::from_raw(child), report: report.into(), _stack: stack, _birth: birth })
}

/// Starts the child, in a control group of version 2 if its directory is given.
fn clone(group: Option<&OwnedFd>, stack: &mut Vec<u128>, birth: &Shared) -> io::Result<c_int> {
    let Some(group) = group else {
        // SAFETY: the pointer is the end of the allocated memory, to which no other pointer exists; `u128` has the
        // alignment of a stack.
        let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
        // SAFETY: the caller keeps the birth and the stack until the child has left this memory. All signals of this
        // process are blocked, so no handler runs in the child.
        let child = unsafe { libc::clone(born, top.cast(), libc::CLONE_VM | libc::SIGCHLD, birth.0.cast()) };
        return if child < 0 { Err(io::Error::last_os_error()) } else { Ok(child) };
    };
    // SAFETY: zeros are valid: they ask for nothing.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = (libc::CLONE_VM as u64) | CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = group.as_raw_fd() as u64;
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = (stack.capacity() * size_of::<u128>()) as u64;
    // SAFETY: as above; the size of the stack is a multiple of that of `u128`, and `born` ends the process.
    let child = unsafe { clone3(&arguments, born, birth.0.cast()) };
    // Errors of the kernel are between -4095 and -1.
    if child < 0 { Err(io::Error::from_raw_os_error(-(child as c_int))) } else { Ok(child as c_int) }
}

impl Launching {
    pub fn as_file(&self) -> &File {
        &self.report
    }

    /// Returns the progress of the child. Once the child has left this memory, this value may be dropped.
    pub fn progress(&mut self) -> Progress {
        let mut bytes = [0; 8];
        match self.report.read(&mut bytes) {
            Ok(8) => {
                let [step, _, _, _, a, b, c, d] = bytes;
                Progress::Failed(Step::of(step), i32::from_le_bytes([a, b, c, d]))
            }
            Ok(0) => Progress::Left,
            // Such a short write is never split.
            Ok(_) => Progress::Failed(Step::Other, libc::EIO),
            Err(_) => Progress::Open,
        }
    }
}

type Done = Result<(), (Step, c_int)>;

/// The life of the child.
extern "C" fn born(birth: *mut c_void) -> c_int {
    // SAFETY: the parent owns the birth and keeps it. Only the child uses it from now on.
    let birth = unsafe { &mut *birth.cast::<Birth>() };
    // SAFETY: this code runs only in the child.
    let (step, errno) = unsafe {
        match prepare(birth) {
            Ok(()) => (Step::Exec, exec(birth)),
            Err(failed) => failed,
        }
    };
    let [a, b, c, d] = errno.to_le_bytes();
    let report = [step as u8, 0, 0, 0, a, b, c, d];
    // SAFETY: the bytes live until the call returns; the last call ends this process only.
    unsafe {
        call(libc::SYS_write, [birth.report as usize, report.as_ptr() as usize, report.len(), 0, 0]);
        call(libc::SYS_exit, [127, 0, 0, 0, 0]);
    }
    127
}

fn check(step: Step, result: isize) -> Result<isize, (Step, c_int)> {
    // Errors of the kernel are between -4095 and -1.
    if result < 0 { Err((step, -(result as c_int))) } else { Ok(result) }
}

/// Does everything up to the start of the program.
///
/// # Safety
/// Only in the child.
unsafe fn prepare(birth: &Birth) -> Done {
    // SAFETY: every pointer is to memory that lives until the child has left it.
    unsafe {
        for tasks in &birth.tasks {
            let own = c"0";
            check(Step::Group, call(libc::SYS_write, [tasks.as_raw_fd() as usize, own.as_ptr() as usize, 1, 0, 0]))?;
        }
        if !birth.cores.is_empty() {
            let (size, mask) = (size_of_val(birth.cores.as_slice()), birth.cores.as_ptr() as usize);
            check(Step::Cores, call(libc::SYS_sched_setaffinity, [0, size, mask, 0, 0]))?;
        }
        check(Step::Session, call(libc::SYS_setsid, [0; 5]))?;
        for (place, fd) in birth.descriptors.iter().enumerate() {
            let flags = if place >= birth.until_exec { libc::O_CLOEXEC as usize } else { 0 };
            check(Step::Inherited, call(libc::SYS_dup3, [fd.as_raw_fd() as usize, place, flags, 0, 0]))?;
        }
        if birth.terminal {
            check(Step::Terminal, call(libc::SYS_ioctl, [0, libc::TIOCSCTTY as usize, 0, 0, 0]))?;
        }
        for (resource, limit) in &birth.limits.0 {
            let limit = &raw const *limit as usize;
            check(Step::Limits, call(libc::SYS_prlimit64, [0, *resource as usize, limit, 0, 0]))?;
        }
        if let Some(Identity { uid, gid, groups }) = &birth.identity {
            let (uid, gid) = (*uid as usize, *gid as usize);
            let done = |result| check(Step::Identity, result);
            done(call(libc::SYS_setgroups, [groups.len(), groups.as_ptr() as usize, 0, 0, 0]))?;
            done(call(libc::SYS_setresgid, [gid, gid, gid, 0, 0]))?;
            done(call(libc::SYS_setresuid, [uid, uid, uid, 0, 0]))?;
        }
        // If this process's parent is killed, nobody would stop the job at its limit. A change of user resets this.
        call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0]);
        if birth.no_new_privs {
            let done = call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0]);
            check(Step::Identity, done)?;
        }
        call(libc::SYS_umask, [birth.umask as usize, 0, 0, 0, 0]);
        check(Step::Directory, call(libc::SYS_chdir, [birth.directory.as_ptr() as usize, 0, 0, 0, 0]))?;
        if let Some(name) = &birth.checkpoints {
            let name = [libc::AT_FDCWD as usize, name.as_ptr() as usize, 0o777, 0, 0];
            match check(Step::Checkpoints, call(libc::SYS_mkdirat, name)) {
                // An earlier attempt has made it.
                Ok(_) | Err((_, libc::EEXIST)) => {}
                Err(failed) => return Err(failed),
            }
        }
        if let Some(name) = &birth.stdin {
            open(Step::Stdin, name, libc::O_RDONLY, 0)?;
            // A directory can be opened, but not read.
            check(Step::Stdin, call(libc::SYS_read, [0; 5]))?;
        }
        for (place, output) in (1..).zip(&birth.outputs) {
            let Some((name, keep)) = output else { continue };
            let truncate = if *keep { 0 } else { libc::O_TRUNC };
            // Append mode is always set, so that two descriptors of one file do not overwrite each other.
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | truncate;
            let step = if place == 1 { Step::Stdout } else { Step::Stderr };
            match open(step, name, flags, place) {
                Err((_, libc::ENOENT)) => {
                    make_directories(name);
                    open(step, name, flags, place)?;
                }
                other => other?,
            }
        }
        // All descriptors of this process are already close-on-exec. A kernel before 5.11 does not have this call.
        let first = birth.descriptors.len().max(FIRST_INHERITED as usize);
        call(libc::SYS_close_range, [first, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0, 0]);
        if !birth.blocked {
            let none = 0_u64;
            let how = libc::SIG_SETMASK as usize;
            check(
                Step::Other,
                call(libc::SYS_rt_sigprocmask, [how, &raw const none as usize, 0, size_of::<u64>(), 0]),
            )?;
        }
    }
    Ok(())
}

/// Makes the directories of a file that do not exist. If one cannot be made, the file cannot be opened either.
///
/// # Safety
/// Only in the child.
unsafe fn make_directories(name: &CStr) {
    // The child allocates no memory.
    let mut part = [0_u8; libc::PATH_MAX as usize];
    for (at, byte) in name.to_bytes().iter().enumerate().take(part.len() - 1) {
        if *byte == b'/' && at > 0 {
            // SAFETY: the array ends with a zero, and lives until the call returns.
            unsafe { call(libc::SYS_mkdirat, [libc::AT_FDCWD as usize, part.as_ptr() as usize, 0o777, 0, 0]) };
        }
        part[at] = *byte;
    }
}

/// Opens a file as a given descriptor.
///
/// # Safety
/// Only in the child.
unsafe fn open(step: Step, name: &CStr, flags: c_int, place: usize) -> Done {
    // Any user may create a FIFO of that name. Without O_NONBLOCK it would block the child until another process
    // opens it.
    let open = flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the name lives until the calls return.
    unsafe {
        let fd = check(step, call(libc::SYS_openat, [here, name.as_ptr() as usize, open as usize, 0o666, 0]))?;
        let fd = fd.cast_unsigned();
        let flags = (flags & libc::O_APPEND) as usize;
        check(step, call(libc::SYS_fcntl, [fd, libc::F_SETFL as usize, flags, 0, 0]))?;
        check(step, call(libc::SYS_dup3, [fd, place, 0, 0, 0]))?;
    }
    Ok(())
}

/// Executes the program, as `execvp(3)` does; returns the error.
///
/// # Safety
/// Only in the child.
unsafe fn exec(birth: &mut Birth) -> c_int {
    let mut last = libc::ENOENT;
    let mut refused = false;
    let execve = |path: &CStr, argv: &[*const c_char], env: &[*const c_char]| {
        let arguments = [path.as_ptr() as usize, argv.as_ptr() as usize, env.as_ptr() as usize, 0, 0];
        // SAFETY: all texts and lists end in a null, and live until the child has left this memory.
        -(unsafe { call(libc::SYS_execve, arguments) } as c_int)
    };
    for path in &birth.paths.texts {
        let mut error = execve(path, &birth.argv.list, &birth.env.list);
        if error == libc::ENOEXEC {
            birth.shell_argv[1] = path.as_ptr();
            error = execve(SHELL, &birth.shell_argv, &birth.env.list);
        }
        match error {
            // The program may be in another directory.
            libc::EACCES => refused = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT | libc::ENAMETOOLONG => {}
            other => return other,
        }
        last = error;
    }
    if refused { libc::EACCES } else { last }
}
