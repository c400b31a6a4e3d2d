//! `lconf backup`: a backup of the master's data as a tar archive. The bytes come from the master and not from its
//! state directory, so that the master checks the permission.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use limo_client::{AskError, Clock, Failure, Master, Session, answer, exit};
use limo_model::Memory;
use limo_proto::BackupReport;

/// Block size of tar, in bytes.
const BLOCK: usize = 512;

#[derive(Debug, clap::Args)]
pub struct Backup {
    /// Archive to create, e.g. limo.tar; it must not exist yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes the archive.
///
/// # Errors
/// If the file exists or cannot be written, or the master cannot be asked. No file remains then.
pub async fn run(Backup { file }: Backup, master: &Master) -> Result<u8, Failure> {
    let unfinished = unfinished(&file);
    let failed = |error: &io::Error| Failure::new(format_args!("cannot write {}: {error}", file.display()));
    // Both names are taken before the master does any work, and removed after a failure.
    create(&file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::new(format_args!("{} already exists", file.display()))
            .hint("choose another name: existing files are not overwritten"),
        _ => failed(&error),
    })?;
    let made = match create(&unfinished) {
        Ok(out) => fetch(BufWriter::new(out), master).await,
        Err(error) => Err(WriteError::Io(error)),
    };
    let finished = made.and_then(|report| Ok(fs::rename(&unfinished, &file).map(|()| report)?));
    let finished = finished.and_then(|report| Ok(limo_files::sync_name(&file).map(|()| report)?));
    match finished {
        Ok(report) => {
            let bytes = Memory::from_bytes(report.files.iter().map(|file| file.bytes).sum());
            answer(&format!("{}: {} files, {bytes}\n", file.display(), report.files.len()))?;
            Ok(exit::DONE)
        }
        Err(error) => {
            // This process created both files.
            let _ = fs::remove_file(&unfinished);
            let _ = fs::remove_file(&file);
            Err(match error {
                WriteError::Io(error) => failed(&error),
                WriteError::Ask(error) => error.into(),
            })
        }
    }
}

enum WriteError {
    Io(io::Error),
    Ask(AskError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<AskError> for WriteError {
    fn from(error: AskError) -> Self {
        Self::Ask(error)
    }
}

fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Creates a file that only its owner can read, because launches contain environments, which contain secrets.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

async fn fetch(mut out: BufWriter<File>, master: &Master) -> Result<BackupReport, WriteError> {
    let mut session: Session = master.session().await?;
    let report = session.backup().await?;
    let seconds = u64::try_from(Clock::system().now().unix_ms() / 1_000).unwrap_or_default();
    let owner = (report.uid, report.gid);
    let mut directories = Vec::new();
    for (number, file) in (0_u32..).zip(&report.files) {
        if let Some((directory, _)) = file.name.rsplit_once('/')
            && !directories.contains(&directory)
        {
            directories.push(directory);
            out.write_all(&header(&format!("{directory}/"), (b'5', 0o700), 0, (owner, seconds))?)?;
        }
        out.write_all(&header(&file.name, (b'0', 0o600), file.bytes, (owner, seconds))?)?;
        let mut offset = 0;
        while offset < file.bytes {
            let part = session.backup_part(number, offset).await?;
            if part.is_empty() || part.len() as u64 > file.bytes - offset {
                return Err(io::Error::other(format!("the master sent a wrong part of {}", file.name)).into());
            }
            out.write_all(&part)?;
            offset += part.len() as u64;
        }
        let tail = usize::try_from(file.bytes % BLOCK as u64).unwrap_or_default();
        out.write_all(&[0; BLOCK][..(BLOCK - tail) % BLOCK])?;
    }
    out.write_all(&[0; 2 * BLOCK])?;
    out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(report)
}

/// Makes a header of POSIX ustar. Sizes above eight gigabytes do not fit its octal digits and are written in base 256,
/// as GNU tar does.
fn header(
    name: &str,
    (kind, mode): (u8, u32),
    size: u64,
    ((uid, gid), seconds): ((u32, u32), u64),
) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic()) && !name.starts_with('/') && !name.contains("..");
    let field = block.get_mut(..name.len()).filter(|_| name.len() < 100 && plain);
    let field = field.ok_or_else(|| io::Error::other(format!("the master sent a file with the name `{name}`")))?;
    field.copy_from_slice(name.as_bytes());
    octal(&mut block[100..108], u64::from(mode));
    octal(&mut block[108..116], u64::from(uid));
    octal(&mut block[116..124], u64::from(gid));
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], seconds);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    Ok(block)
}

fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    if value >> (3 * digits) == 0 {
        field.copy_from_slice(format!("{value:0digits$o}\0").as_bytes());
        return;
    }
    field.fill(0);
    let at = field.len() - 8;
    field[at..].copy_from_slice(&value.to_be_bytes());
    field[0] |= 0x80;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_numbers_in_octal_and_a_sum() {
        let block = header("nodes/n1.json", (b'0', 0o600), 1_000, ((0, 100), 1_700_000_000)).expect("a name");
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&block[range]).into_owned();
        assert_eq!((text(0..14), text(100..108)), ("nodes/n1.json\0".into(), "0000600\0".into()));
        assert_eq!((text(116..124), text(124..136)), ("0000144\0".into(), "00000001750\0".into()));
        let mut without = block;
        without[148..156].fill(b' ');
        let sum: u32 = without.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(text(148..156), format!("{sum:06o}\0 "));
    }

    #[test]
    fn a_size_beyond_octal_is_in_base_256() {
        let block = header("journal.db", (b'0', 0o600), 1 << 33, ((0, 0), 0)).expect("a name");
        assert_eq!(block[124..136], [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
        let block = header("journal.db", (b'0', 0o600), (1 << 33) - 1, ((0, 0), 0)).expect("a name");
        assert_eq!(&block[124..136], b"77777777777\0");
    }

    #[test]
    fn names_outside_the_archive_are_refused() {
        for name in ["/etc/passwd", "../x", "a b", &"x".repeat(100)] {
            header(name, (b'0', 0o600), 0, ((0, 0), 0)).expect_err(name);
        }
    }
}
