//! A command with everything that its launch needs. Names of users and groups are already resolved.

use crate::fields::{DecodeError, Fields, Writer, narrow};

/// The user that a job runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Real, effective and saved user.
    pub uid: u32,
    /// Real, effective and saved group.
    pub gid: u32,
    /// All groups, including the primary one.
    pub groups: Vec<u32>,
}

/// A file for stdout or stderr, relative to the job's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Name of the file, which is created if it does not exist.
    pub name: Vec<u8>,
    /// True if the present content of the file stays.
    pub keep: bool,
}

/// A file that is sent with the job, written before the launch and removed after the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Directory that does not exist yet; only the job's user may enter it.
    pub directory: Vec<u8>,
    /// Name without a directory.
    pub name: Vec<u8>,
    /// Content of the file.
    pub content: Vec<u8>,
}

/// A session of PAM around the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PamSession {
    /// Name of the service, which is the name of its file.
    pub service: String,
    /// Name of the job's user.
    pub user: String,
}

/// The steps of a launch, by their numbers in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Step in the words of the reason.
    Other = 0,
    /// `setsid(2)`.
    Session = 1,
    /// Setting groups, then the group, then the user.
    Identity = 2,
    /// `chdir(2)`, as the user.
    Directory = 3,
    /// Opening stdin as the user, with a trial read of zero bytes: a directory can be opened, but not read.
    Stdin = 4,
    /// Opening stdout as the user.
    Stdout = 5,
    /// Opening stderr as the user.
    Stderr = 6,
    /// Making stdin the terminal of the session.
    Terminal = 7,
    /// Giving descriptors their numbers.
    Inherited = 8,
    /// Executing the program: each path failed.
    Exec = 9,
    /// Writing the carried file, as the user.
    Carried = 10,
    /// Setting the limit on open files.
    Limits = 11,
    /// Making the process.
    Spawn = 12,
    /// Any step that did not end in time.
    Deadline = 13,
    /// Entering the control group.
    Group = 14,
    /// Opening the PAM session; the reason is for the user.
    Pam = 15,
    /// Making the directory for checkpoints, as the user.
    Checkpoints = 16,
    /// Binding the process to its cores.
    Cores = 17,
}

impl Step {
    /// Returns the step with this number; `Other` if the number is unknown.
    pub fn of(number: u8) -> Self {
        const ALL: [Step; 18] = [
            Step::Other,
            Step::Session,
            Step::Identity,
            Step::Directory,
            Step::Stdin,
            Step::Stdout,
            Step::Stderr,
            Step::Terminal,
            Step::Inherited,
            Step::Exec,
            Step::Carried,
            Step::Limits,
            Step::Spawn,
            Step::Deadline,
            Step::Group,
            Step::Pam,
            Step::Checkpoints,
            Step::Cores,
        ];
        ALL.get(usize::from(number)).copied().unwrap_or(Step::Other)
    }
}

/// The command to launch, with its user and its place. Texts contain no NUL byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Paths of the program, tried in order.
    pub paths: Vec<Vec<u8>>,
    /// Arguments, with the name of the program as the first.
    pub argv: Vec<Vec<u8>>,
    /// Environment as `NAME=VALUE`.
    pub env: Vec<Vec<u8>>,
    /// Working directory, entered as the user.
    pub directory: Vec<u8>,
    /// File mode mask, at most 0o777.
    pub umask: u32,
    /// Identity; `None` if `lshepherd` already has that user.
    pub identity: Option<Identity>,
    /// Uid of the user, even without an `identity`.
    pub uid: u32,
    /// File for stdin, relative to `directory`.
    pub stdin: Option<Vec<u8>>,
    /// File for stdout; `None` to use the descriptor that comes with the plan.
    pub stdout: Option<Output>,
    /// File for stderr; `None` to use the descriptor that comes with the plan.
    pub stderr: Option<Output>,
    /// True if stdin is a terminal that becomes the job's own.
    pub terminal: bool,
    /// True if all signals stay blocked in the program: it runs the job's tasks, and signals are meant for them.
    pub blocked: bool,
    /// Value of `LIMO_ATTEMPT`, by which the job's processes are found.
    pub cookie: String,
    /// Carried file, written before the launch and removed after the end.
    pub carried: Option<Carried>,
    /// Number of descriptors that the job inherits from [`crate::FIRST_INHERITED`] on.
    pub inherited: usize,
    /// Number of the last of these descriptors that are closed when the program begins.
    pub until_exec: usize,
    /// Directories of the job's control group, as `HIERARCHY=PATH`; empty without one. `lshepherd` removes the group.
    pub group: Vec<Vec<u8>>,
    /// True if no program of the job may get more rights than its user, not even by a set-user-ID file.
    pub no_new_privs: bool,
    /// PAM session, opened before the first process of the job.
    pub session: Option<PamSession>,
    /// Directory for checkpoints, relative to `directory`, which is made if it does not exist.
    pub checkpoints: Option<Vec<u8>>,
    /// Command for `/bin/sh` that makes a checkpoint.
    pub checkpoint_command: Option<Vec<u8>>,
    /// CPUs to which the process is bound, by the kernel's numbers; none leaves it unbound.
    pub cores: Vec<u32>,
}

const PLAN: u16 = 100;

mod tag {
    pub const PATH: u16 = 1;
    pub const ARGUMENT: u16 = 2;
    pub const VARIABLE: u16 = 3;
    pub const DIRECTORY: u16 = 4;
    pub const UMASK: u16 = 5;
    pub const UID: u16 = 6;
    pub const GID: u16 = 7;
    pub const GROUP: u16 = 8;
    pub const BECOME: u16 = 9;
    pub const STDIN: u16 = 10;
    pub const STDOUT: u16 = 11;
    pub const STDOUT_KEEP: u16 = 12;
    pub const STDERR: u16 = 13;
    pub const STDERR_KEEP: u16 = 14;
    pub const TERMINAL: u16 = 15;
    pub const BLOCKED: u16 = 16;
    pub const COOKIE: u16 = 17;
    pub const CARRIED_DIRECTORY: u16 = 18;
    pub const CARRIED_NAME: u16 = 19;
    pub const CARRIED_CONTENT: u16 = 20;
    pub const INHERITED: u16 = 21;
    pub const UNTIL_EXEC: u16 = 22;
    pub const CONTROL_GROUP: u16 = 23;
    pub const NO_NEW_PRIVS: u16 = 24;
    pub const PAM_SERVICE: u16 = 25;
    pub const PAM_USER: u16 = 26;
    pub const CHECKPOINTS: u16 = 27;
    pub const CHECKPOINT_COMMAND: u16 = 28;
    pub const CORE: u16 = 29;
}

impl Plan {
    /// Encodes the plan; [`crate::send_launch`] sends it.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(PLAN);
        for (tag, list) in [(tag::PATH, &self.paths), (tag::ARGUMENT, &self.argv), (tag::VARIABLE, &self.env)] {
            for one in list {
                writer.bytes(tag, one);
            }
        }
        writer.bytes(tag::DIRECTORY, &self.directory).number(tag::UMASK, self.umask.into());
        writer.number(tag::UID, self.uid.into());
        if let Some(Identity { uid: _, gid, groups }) = &self.identity {
            writer.flag(tag::BECOME, true).number(tag::GID, (*gid).into());
            for group in groups {
                writer.number(tag::GROUP, (*group).into());
            }
        }
        if let Some(name) = &self.stdin {
            writer.bytes(tag::STDIN, name);
        }
        if let Some(Output { name, keep }) = &self.stdout {
            writer.bytes(tag::STDOUT, name).flag(tag::STDOUT_KEEP, *keep);
        }
        if let Some(Output { name, keep }) = &self.stderr {
            writer.bytes(tag::STDERR, name).flag(tag::STDERR_KEEP, *keep);
        }
        writer.flag(tag::TERMINAL, self.terminal).flag(tag::BLOCKED, self.blocked);
        writer.bytes(tag::COOKIE, self.cookie.as_bytes());
        if let Some(Carried { directory, name, content }) = &self.carried {
            writer.bytes(tag::CARRIED_DIRECTORY, directory);
            writer.bytes(tag::CARRIED_NAME, name).bytes(tag::CARRIED_CONTENT, content);
        }
        writer.number(tag::INHERITED, self.inherited as u64).number(tag::UNTIL_EXEC, self.until_exec as u64);
        for directory in &self.group {
            writer.bytes(tag::CONTROL_GROUP, directory);
        }
        if self.no_new_privs {
            writer.flag(tag::NO_NEW_PRIVS, true);
        }
        if let Some(PamSession { service, user }) = &self.session {
            writer.bytes(tag::PAM_SERVICE, service.as_bytes()).bytes(tag::PAM_USER, user.as_bytes());
        }
        if let Some(name) = &self.checkpoints {
            writer.bytes(tag::CHECKPOINTS, name);
        }
        if let Some(command) = &self.checkpoint_command {
            writer.bytes(tag::CHECKPOINT_COMMAND, command);
        }
        for core in &self.cores {
            writer.number(tag::CORE, (*core).into());
        }
        writer.finish()
    }

    /// Decodes a plan.
    ///
    /// # Errors
    /// If the bytes are not a plan.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::read(bytes)?;
        if fields.kind != PLAN {
            return Err(DecodeError::Kind { kind: fields.kind });
        }
        let list = |tag| fields.list(tag).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let some = |tag| fields.bytes(tag).map(<[u8]>::to_vec);
        let small = |tag| narrow::<u32>(tag, fields.maybe(tag)?.unwrap_or(0));
        let size = |tag| narrow::<usize>(tag, fields.maybe(tag)?.unwrap_or(0));
        let uid = small(tag::UID)?;
        let identity = if fields.flag(tag::BECOME)? {
            let groups = fields.numbers(tag::GROUP)?.into_iter().map(|group| narrow(tag::GROUP, group));
            Some(Identity { uid, gid: small(tag::GID)?, groups: groups.collect::<Result<_, _>>()? })
        } else {
            None
        };
        let output = |name, keep| -> Result<Option<Output>, DecodeError> {
            let keep = fields.flag(keep)?;
            Ok(some(name).map(|name| Output { name, keep }))
        };
        let carried = some(tag::CARRIED_DIRECTORY).map(|directory| Carried {
            directory,
            name: some(tag::CARRIED_NAME).unwrap_or_default(),
            content: some(tag::CARRIED_CONTENT).unwrap_or_default(),
        });
        let session = match fields.bytes(tag::PAM_SERVICE) {
            Some(_) => Some(PamSession { service: fields.text(tag::PAM_SERVICE)?, user: fields.text(tag::PAM_USER)? }),
            None => None,
        };
        let cores = fields.numbers(tag::CORE)?.into_iter().map(|core| narrow(tag::CORE, core));
        Ok(Self {
            paths: list(tag::PATH),
            argv: list(tag::ARGUMENT),
            env: list(tag::VARIABLE),
            directory: some(tag::DIRECTORY).ok_or(DecodeError::Missing { tag: tag::DIRECTORY })?,
            umask: small(tag::UMASK)?,
            identity,
            uid,
            stdin: some(tag::STDIN),
            stdout: output(tag::STDOUT, tag::STDOUT_KEEP)?,
            stderr: output(tag::STDERR, tag::STDERR_KEEP)?,
            terminal: fields.flag(tag::TERMINAL)?,
            blocked: fields.flag(tag::BLOCKED)?,
            cookie: fields.text(tag::COOKIE)?,
            carried,
            inherited: size(tag::INHERITED)?,
            until_exec: size(tag::UNTIL_EXEC)?,
            group: list(tag::CONTROL_GROUP),
            no_new_privs: fields.flag(tag::NO_NEW_PRIVS)?,
            session,
            checkpoints: some(tag::CHECKPOINTS),
            checkpoint_command: some(tag::CHECKPOINT_COMMAND),
            cores: cores.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_survive_the_way() {
        let full = Plan {
            paths: vec![b"/bin/true".to_vec(), b"/usr/bin/true".to_vec()],
            argv: vec![b"true".to_vec(), Vec::new(), b"\xff".to_vec()],
            env: vec![b"A=1".to_vec()],
            directory: b"/".to_vec(),
            umask: 0o022,
            identity: Some(Identity { uid: u32::MAX, gid: 1, groups: vec![1, 2] }),
            uid: u32::MAX,
            stdin: Some(b"in".to_vec()),
            stdout: Some(Output { name: b"out".to_vec(), keep: true }),
            stderr: Some(Output { name: b"err".to_vec(), keep: false }),
            terminal: true,
            blocked: true,
            cookie: "abc".into(),
            carried: Some(Carried { directory: b"/tmp/a".to_vec(), name: b"b".to_vec(), content: Vec::new() }),
            inherited: 2,
            until_exec: 1,
            group: vec![b"unified=/cg/7.1".to_vec(), b"memory=/cg/m/7.1".to_vec()],
            no_new_privs: true,
            session: Some(PamSession { service: "limo".into(), user: "alice".into() }),
            checkpoints: Some(b"limo-checkpoint-7".to_vec()),
            checkpoint_command: Some(b"./save".to_vec()),
            cores: vec![0, 65_535],
        };
        assert_eq!(Plan::decode(&full.encode()), Ok(full));
        let empty = Plan::default();
        assert_eq!(Plan::decode(&empty.encode()), Ok(empty));
        assert_eq!((Step::of(Step::Cores as u8), Step::of(200)), (Step::Cores, Step::Other));
    }
}
