//! The file of users who are logged in, `utmp(5)`.

use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use nix::libc;

type Entry = libc::utmpx;

/// Returns the terminals of users who are logged in, such as `pts/3`. An incomplete last record is left out.
pub fn terminals(records: &[u8]) -> impl Iterator<Item = &Path> {
    let (line, kind) = (offset_of!(Entry, ut_line), offset_of!(Entry, ut_type));
    records.chunks_exact(size_of::<Entry>()).filter_map(move |record| {
        let is_user = i16::from_ne_bytes(record[kind..kind + 2].try_into().ok()?) == libc::USER_PROCESS;
        let name = record[line..line + libc::__UT_LINESIZE].split(|byte| *byte == 0).next()?;
        let path = Path::new(OsStr::from_bytes(name));
        // Displays have names like `:0`, which are not files.
        let is_plain = !name.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
        (is_user && is_plain).then_some(path)
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Makes a record.
    pub fn entry(kind: i16, terminal: &str) -> Vec<u8> {
        let mut record = vec![0; size_of::<Entry>()];
        let (at, line) = (offset_of!(Entry, ut_type), offset_of!(Entry, ut_line));
        record[at..at + 2].copy_from_slice(&kind.to_ne_bytes());
        record[line..line + terminal.len()].copy_from_slice(terminal.as_bytes());
        record
    }

    #[test]
    fn only_terminals_of_users_are_named() {
        let records = [
            entry(libc::BOOT_TIME, "~"),
            entry(libc::USER_PROCESS, "tty2"),
            entry(libc::DEAD_PROCESS, "pts/1"),
            entry(libc::USER_PROCESS, "pts/2"),
            entry(libc::USER_PROCESS, "../etc/passwd"),
            entry(libc::USER_PROCESS, "/etc/passwd"),
            entry(libc::USER_PROCESS, ""),
            vec![7; 20],
        ];
        let records = records.concat();
        let found: Vec<_> = terminals(&records).collect();
        assert_eq!(found, [Path::new("tty2"), Path::new("pts/2")]);
    }
}
