//! Sessions of the users of a pool's computers, and the file in which they are prepared.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use limo_model::decimal::text;

use super::error::PoolError;
use super::pseudonym::Pseudonyms;
use super::{NAME_LIMIT, prepared};

/// Most names of computers, or of users.
const NAMES: usize = 500_000;

/// Time that a user spends at a computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// In milliseconds since 1970.
    pub login: i64,
    /// In milliseconds since 1970.
    pub logout: i64,
    /// Index in the names of computers.
    pub computer: u32,
    /// Index in the names of users.
    pub user: u32,
}

/// Names, each stored once.
#[derive(Debug, Default)]
pub struct NameTable {
    names: Vec<Box<[u8]>>,
    indices: HashMap<Box<[u8]>, u32>,
}

impl NameTable {
    /// Returns the index of a name, or `None` if there are too many.
    pub fn index(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(index) = self.indices.get(name) {
            return Some(*index);
        }
        if self.names.len() >= NAMES {
            return None;
        }
        let index = u32::try_from(self.names.len()).ok()?;
        self.names.push(name.into());
        self.indices.insert(name.into(), index);
        Some(index)
    }

    /// Returns the name of an index that [`NameTable::index`] returned.
    pub fn name(&self, index: u32) -> &[u8] {
        self.names.get(index as usize).map(|name| &**name).unwrap_or_default()
    }

    /// Replaces the names that are not empty.
    fn hide(&mut self, pseudonyms: &Pseudonyms) {
        for name in self.names.iter_mut().filter(|name| !name.is_empty()) {
            *name = pseudonyms.of(name).into_bytes().into();
        }
        self.indices.clear();
    }
}

/// Place of a cell in its file, for errors.
pub(super) struct Cell<'a> {
    pub file: &'a str,
    pub line: u64,
    pub name: &'static str,
    pub value: &'a [u8],
}

/// Sessions with the names of computers and users.
#[derive(Debug, Default)]
pub struct Sessions {
    /// In any order until [`Sessions::sort`].
    pub sessions: Vec<Session>,
    /// Names of computers.
    pub computers: NameTable,
    /// Names of users; an empty one is unknown.
    pub users: NameTable,
}

impl Sessions {
    /// Returns the index of a computer.
    pub(super) fn computer(&mut self, cell: &Cell<'_>) -> Result<u32, PoolError> {
        index(&mut self.computers, cell, "computers")
    }

    /// Returns the index of a user.
    pub(super) fn user(&mut self, cell: &Cell<'_>) -> Result<u32, PoolError> {
        index(&mut self.users, cell, "users")
    }

    /// Sorts by login, then by the name of the computer.
    pub fn sort(&mut self) {
        let Self { sessions, computers, .. } = self;
        sessions.sort_unstable_by(|a, b| {
            let names = || computers.name(a.computer).cmp(computers.name(b.computer));
            a.login.cmp(&b.login).then_with(names).then(a.logout.cmp(&b.logout))
        });
    }

    /// Replaces the names of users by pseudonyms.
    pub fn hide(&mut self, pseudonyms: &Pseudonyms) {
        self.users.hide(pseudonyms);
    }

    /// Writes `login,logout,computer,user`, gzipped if the name ends in `.gz`.
    ///
    /// # Errors
    /// [`PoolError::Write`]; an earlier file of that name is then unchanged.
    pub fn write(&self, path: &Path) -> Result<(), PoolError> {
        prepared::file(path, |out| {
            let written = self.write_to(out);
            written.map_err(|source| PoolError::Write { file: path.display().to_string(), source })
        })
    }

    fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(prepared::SESSIONS.as_bytes())?;
        for session in &self.sessions {
            write!(out, "{},{},", text(session.login.into(), 3), text(session.logout.into(), 3))?;
            prepared::cell(out, self.computers.name(session.computer))?;
            out.write_all(b",")?;
            prepared::cell(out, self.users.name(session.user))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

fn index(names: &mut NameTable, cell: &Cell<'_>, what: &'static str) -> Result<u32, PoolError> {
    if cell.value.len() > NAME_LIMIT {
        return Err(PoolError::long_name(cell.file, cell.line, cell.name, cell.value));
    }
    let many = || PoolError::TooMany { file: cell.file.to_owned(), line: cell.line, what, limit: NAMES };
    names.index(cell.value).ok_or_else(many)
}
