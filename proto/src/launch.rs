//! The data with which a node starts a command like its submitter, and the destinations of its streams.

use limo_model::{FileFacts, JobId, Span, Tasks, expand_file_name};
use serde::{Deserialize, Serialize};

use crate::encoding::{DecodeError, decode_stored};
use crate::limits::TooLarge;

/// Data to start the command as the submitter would. Texts are bytes, because Unix does not promise UTF-8.
///
/// Kept in journals: a new field goes to the end, and [`Launch::decode_stored`] also reads data without it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// The command and its arguments; at least the command.
    pub argv: Vec<Vec<u8>>,
    /// Commands for particular types of hardware, which replace `argv` there.
    pub variants: Vec<(String, Vec<Vec<u8>>)>,
    /// The directory in which the command runs: a path on the node.
    pub cwd: Vec<u8>,
    /// Names and values of its environment. The node adds those of `docs/environment.md`.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Permission bits that new files do not get, 0 to 0o777.
    pub umask: u32,
    /// The submitter, as the kernel of the master's host knows the connection's owner.
    pub uid: u32,
    /// The destination of its streams.
    pub io: Io,
    /// Streams with another destination.
    pub files: Files,
    /// The place of its submission.
    pub origin: Origin,
    /// The content of the file named by the first word of `argv`, if it travels with the job.
    pub carried: Option<Vec<u8>>,
    /// Size of the terminal that an attached job has instead of pipes.
    pub terminal: Option<WindowSize>,
    /// The tasks, if it is an array.
    pub array: Option<Array>,
    /// Options for several tasks; set also if lines carry task numbers.
    pub parallel: Option<Parallel>,
    /// The nodes that run no command of the job, only those of its steps.
    pub hold: Hold,
}

/// Nodes of a job that are only held for its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// Each node runs the command.
    #[default]
    Nothing,
    /// The command runs once, on the first node; the job ends with it.
    Others,
    /// No node runs a command. The job ends when it is cancelled, or at its time limit.
    All,
}

impl Hold {
    /// Returns true if the node at `index` among those of the job runs no command.
    pub fn covers(self, index: u32) -> bool {
        match self {
            Self::Nothing => false,
            Self::Others => index > 0,
            Self::All => true,
        }
    }
}

/// Rules for how the tasks of a job share streams and end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parallel {
    /// True if each line of output begins with the number of its task.
    pub label: bool,
    /// The task that gets stdin; all if unset.
    pub reader: Option<u32>,
    /// True if the failure of one task ends the others.
    pub kill_on_bad_exit: bool,
    /// True to omit messages about failed tasks.
    pub quiet: bool,
}

/// The part of one node in a job of several tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The names of all nodes of the job, in the order of their tasks.
    pub nodes: Vec<String>,
    /// Index of this node.
    pub index: u32,
    /// Number of tasks on each node.
    pub tasks: Vec<u32>,
    /// Time from TERM to KILL if one failed task ends the others.
    pub grace: Span,
}

impl Share {
    /// Returns the number of the first task here, and the count of tasks here.
    pub fn own(&self) -> (u32, u32) {
        let index = self.index as usize;
        (self.tasks.iter().take(index).sum(), self.tasks.get(index).copied().unwrap_or(0))
    }

    /// Returns the number of tasks on all nodes.
    pub fn total(&self) -> u32 {
        self.tasks.iter().sum()
    }
}

/// The place of a submission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The name of the machine.
    pub host: String,
    /// The directory on that machine.
    pub directory: Vec<u8>,
}

/// Size of a terminal, in characters. Zero is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowSize {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters in a line.
    pub columns: u16,
}

/// The tasks of an array, which run the same command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Array {
    /// Task numbers, and the most that may run at a time.
    pub tasks: Tasks,
    /// The entry of each task in its environment, in order; empty if tasks have only numbers.
    pub entries: Vec<Vec<u8>>,
}

/// The place of a job in its array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Number of the array.
    pub array: JobId,
    /// Number of the task.
    pub number: u32,
    /// Number of tasks.
    pub count: u32,
    /// Lowest number of a task.
    pub lowest: u32,
    /// Highest number of a task.
    pub highest: u32,
    /// Entry of the task, in addition to its number; see [`Array::entries`].
    pub entry: Option<Vec<u8>>,
}

/// The destination of a job's stdin, stdout and stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Io {
    /// Streams go through the master to the client that submitted the job.
    #[default]
    Attached,
    /// stdin is empty; stdout and stderr go to `limo-JOB.out` and `limo-JOB.err` in the job's directory. A task of an
    /// array writes to `limo-ARRAY_TASK.out`.
    Detached,
}

/// Streams with another destination than [`Io`]: files that the node opens as the job's user. Names have the form of
/// [`limo_model::check_file_name`], relative to the job's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Files {
    /// File to read.
    pub stdin: Option<Vec<u8>>,
    /// File to write.
    pub stdout: Option<Vec<u8>>,
    /// File for stderr; if only `stdout` is set, stderr also goes there.
    pub stderr: Option<Vec<u8>>,
    /// True to append to the output files.
    pub append: bool,
}

/// Names of the files of a job's streams, for streams that go to files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNames {
    /// The name of [`Files::stdin`], with every `%` replaced.
    pub stdin: Option<Vec<u8>>,
    /// The name of [`Files::stdout`], with every `%` replaced.
    pub stdout: Option<Vec<u8>>,
    /// The name of [`Files::stderr`], with every `%` replaced.
    pub stderr: Option<Vec<u8>>,
}

/// Longest path that Linux accepts, in bytes.
const PATH_LIMIT: usize = 4096;

/// Longest name of a machine, in bytes.
const HOST_LIMIT: usize = 256;

/// Most commands for particular types of hardware.
const VARIANTS_LIMIT: usize = 64;

/// Most words and variables of the environment together: far more than an `exec` accepts. The decoder counts eight
/// bytes for each length, so it accepts no more in one message.
pub const WORDS_LIMIT: usize = 131_072;

impl Launch {
    /// Checks that every part is within its bound, so that derived messages and reports are also bounded.
    ///
    /// # Errors
    /// [`TooLarge`], naming the first part above its bound.
    pub fn check(&self) -> Result<(), TooLarge> {
        let Files { stdin, stdout, stderr, .. } = &self.files;
        let file = |file: &Option<Vec<u8>>| file.as_ref().map_or(0, Vec::len);
        let sizes = [
            ("working directory", self.cwd.len(), PATH_LIMIT),
            ("file for input", file(stdin), PATH_LIMIT),
            ("file for output", file(stdout), PATH_LIMIT),
            ("file for errors", file(stderr), PATH_LIMIT),
            ("name of the submitting machine", self.origin.host.len(), HOST_LIMIT),
            ("submission directory", self.origin.directory.len(), PATH_LIMIT),
        ];
        if let Some((place, size, limit)) = sizes.into_iter().find(|(_, size, limit)| size > limit) {
            return Err(TooLarge::Bytes { place, size, limit });
        }
        let words = self.argv.len() + self.variants.iter().map(|(_, argv)| argv.len()).sum::<usize>() + self.env.len();
        let counts =
            [("variants", self.variants.len(), VARIANTS_LIMIT), ("arguments and variables", words, WORDS_LIMIT)];
        match counts.into_iter().find(|(_, count, limit)| count > limit) {
            Some((place, count, limit)) => Err(TooLarge::Count { place, count, limit }),
            None => Ok(()),
        }
    }

    /// Returns the files of this job's streams, relative to its directory.
    pub fn file_names(&self, facts: &FileFacts) -> FileNames {
        let Files { stdin, stdout, stderr, .. } = &self.files;
        let own = facts.own_number();
        let usual = |end: &str| (self.io == Io::Detached).then(|| format!("limo-{own}.{end}").into_bytes());
        let expanded = |name: &Option<Vec<u8>>| name.as_ref().map(|name| expand_file_name(name, facts));
        FileNames {
            stdin: expanded(stdin),
            stdout: expanded(stdout).or_else(|| usual("out")),
            stderr: expanded(stderr).or_else(|| expanded(stdout)).or_else(|| usual("err")),
        }
    }

    /// Decodes the result of [`crate::encode_stored`] of this or an earlier version.
    ///
    /// # Errors
    /// If the bytes have none of these forms.
    pub fn decode_stored(bytes: &[u8]) -> Result<Self, DecodeError> {
        let third = || decode_stored::<LaunchWithoutHold>(bytes).map(Self::from);
        let second = || decode_stored::<Second>(bytes).map(Self::from);
        let first = || decode_stored::<First>(bytes).map(Self::from);
        decode_stored(bytes).or_else(|error| third().or_else(|_| second()).or_else(|_| first()).map_err(|_| error))
    }
}

/// The fields of a launch before jobs had steps, as old records have them.
#[derive(Serialize, Deserialize)]
pub struct LaunchWithoutHold {
    second: Second,
    parallel: Option<Parallel>,
}

impl From<LaunchWithoutHold> for Launch {
    fn from(LaunchWithoutHold { second, parallel }: LaunchWithoutHold) -> Self {
        Self { parallel, ..second.into() }
    }
}

/// The fields of a launch before jobs had several tasks.
#[derive(Serialize, Deserialize)]
struct Second {
    first: First,
    files: Files,
    origin: Origin,
    carried: Option<Vec<u8>>,
    terminal: Option<WindowSize>,
    array: Option<Array>,
}

impl From<Second> for Launch {
    fn from(second: Second) -> Self {
        let Second { first, files, origin, carried, terminal, array } = second;
        Self { files, origin, carried, terminal, array, ..first.into() }
    }
}

/// The fields of a launch in the first version.
#[derive(Serialize, Deserialize)]
struct First {
    argv: Vec<Vec<u8>>,
    variants: Vec<(String, Vec<Vec<u8>>)>,
    cwd: Vec<u8>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    umask: u32,
    uid: u32,
    io: Io,
}

impl From<First> for Launch {
    fn from(first: First) -> Self {
        let First { argv, variants, cwd, env, umask, uid, io } = first;
        Self { argv, variants, cwd, env, umask, uid, io, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_stored;
    use limo_model::JobId;

    fn check(io: Io, files: Files, expected: [Option<&str>; 3]) {
        let facts =
            FileFacts { job: JobId(7), name: "sim", user: "ada", node: "n1", node_index: 0, task: 0, array: None };
        let FileNames { stdin, stdout, stderr } = Launch { io, files, ..Launch::default() }.file_names(&facts);
        let text = |name: Option<Vec<u8>>| name.map(|name| String::from_utf8(name).expect("UTF-8"));
        assert_eq!([stdin, stdout, stderr].map(text), expected.map(|name| name.map(str::to_owned)));
    }

    #[test]
    fn streams_go_to_the_client_or_to_files() {
        let name = |name: &str| Some(name.as_bytes().to_vec());
        check(Io::Attached, Files::default(), [None, None, None]);
        check(Io::Detached, Files::default(), [None, Some("limo-7.out"), Some("limo-7.err")]);
        let only = |stdout: &str| Files { stdout: name(stdout), ..Files::default() };
        check(Io::Attached, only("%x.%j"), [None, Some("sim.7"), Some("sim.7")]);
        check(Io::Detached, only("o"), [None, Some("o"), Some("o")]);
        let errors = Files { stderr: name("e"), stdin: name("i%u"), ..Files::default() };
        check(Io::Attached, errors.clone(), [Some("iada"), None, Some("e")]);
        check(Io::Detached, errors, [Some("iada"), Some("limo-7.out"), Some("e")]);
    }

    #[test]
    fn each_part_has_a_bound() {
        let check = |change: fn(&mut Launch), expected: &str| {
            let mut launch = Launch { argv: vec![b"true".to_vec()], ..Launch::default() };
            assert_eq!(launch.check(), Ok(()));
            change(&mut launch);
            assert_eq!(launch.check().expect_err("above the bound").to_string(), expected);
        };
        let long = |length| Some(vec![b'x'; length]);
        check(|l| l.cwd = vec![b'/'; 4097], "the working directory takes 4097 bytes: the limit is 4096");
        check(
            |l| l.origin.directory = vec![b'/'; 4097],
            "the submission directory takes 4097 bytes: the limit is 4096",
        );
        check(
            |l| l.origin.host = "h".repeat(257),
            "the name of the submitting machine takes 257 bytes: the limit is 256",
        );
        check(|l| l.argv = vec![Vec::new(); 131_073], "131073 arguments and variables: the limit is 131072");
        check(|l| l.env = vec![Default::default(); 131_072], "131073 arguments and variables: the limit is 131072");
        check(|l| l.variants = vec![Default::default(); 65], "65 variants: the limit is 64");
        let mut launch = Launch { files: Files { stderr: long(4097), ..Files::default() }, ..Launch::default() };
        let refused = launch.check().expect_err("too long").to_string();
        assert_eq!(refused, "the file for errors takes 4097 bytes: the limit is 4096");
        launch.files.stderr = long(4096);
        assert_eq!(launch.check(), Ok(()));
    }

    #[test]
    fn the_first_stored_format_is_read() {
        let now = Launch { argv: vec![b"a".to_vec()], uid: 7, io: Io::Detached, ..Launch::default() };
        let Launch { argv, variants, cwd, env, umask, uid, io, .. } = now.clone();
        let first = encode_stored(&First { argv, variants, cwd, env, umask, uid, io }).expect("small");
        assert_eq!(Launch::decode_stored(&first).expect("readable"), now);
        let files = Files { stdout: Some(b"o".to_vec()), ..Files::default() };
        let now = Launch { files, carried: Some(b"#!".to_vec()), ..now };
        let Launch { argv, variants, cwd, env, umask, uid, io, files, origin, carried, terminal, array, .. } =
            now.clone();
        let fields = || First {
            argv: argv.clone(),
            variants: variants.clone(),
            cwd: cwd.clone(),
            env: env.clone(),
            umask,
            uid,
            io,
        };
        let second = || Second {
            first: fields(),
            files: files.clone(),
            origin: origin.clone(),
            carried: carried.clone(),
            terminal,
            array: array.clone(),
        };
        let stored = encode_stored(&second()).expect("small");
        assert_eq!(Launch::decode_stored(&stored).expect("readable"), now);
        assert_eq!(Launch::decode_stored(&encode_stored(&now).expect("small")).expect("readable"), now);
        let parallel = Some(Parallel { label: true, reader: Some(3), ..Parallel::default() });
        let third = encode_stored(&LaunchWithoutHold { second: second(), parallel }).expect("small");
        let now = Launch { parallel, ..now };
        assert_eq!(Launch::decode_stored(&third).expect("readable"), now);
        let now = Launch { hold: Hold::Others, ..now };
        assert_eq!(Launch::decode_stored(&encode_stored(&now).expect("small")).expect("readable"), now);
        assert!(Launch::decode_stored(&first[..first.len() - 1]).is_err());
    }
}
