//! `results.csv`: one row per simulated configuration, appended at once when it is done. A sweep does not run these
//! again; a truncated last line is removed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use limo_model::decimal;
use thiserror::Error;

use super::cells;
use super::configuration::Labels;
use super::measures::{MEASURES, Values};
use crate::record::WriteError;

/// Name of the file in the folder of a sweep.
pub const FILE: &str = "results.csv";

/// Row of one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub labels: Labels,
    /// Figures, or the reason why the simulation failed.
    pub result: Result<Values, String>,
}

/// Reason why the results of a sweep cannot be read or written.
#[derive(Debug, Error)]
pub enum ResultsError {
    #[error("{} exists and is not a folder of a sweep (it has no {FILE}); name another folder with --out", .0.display())]
    Foreign(PathBuf),
    #[error("{}: another lsim writes there: wait for its end, or name another folder with --out", .0.display())]
    Busy(PathBuf),
    #[error("{}: another version of lsim wrote these columns: move the folder away, or name another one with --out", .0.display())]
    Columns(PathBuf),
    #[error("{}:{line}: this is not a row of a sweep: `{text}`; remove the line to run its configuration again", path.display())]
    Row { path: PathBuf, line: usize, text: String },
    #[error(transparent)]
    File(#[from] WriteError),
}

/// Rows of a folder, open to append, and locked against other sweeps.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    rows: BTreeMap<String, Row>,
}

/// Returns the first line of the file.
pub fn columns() -> String {
    let fixed = ["key", "workload", "seed", "policy", "budget", "set", "error"];
    cells::line(fixed.into_iter().chain(MEASURES.iter().map(|measure| measure.name)))
}

impl Row {
    /// Formats a row as a line without its line break.
    pub fn line(&self) -> String {
        let Labels { workload, seed, policy, budget, set } = &self.labels;
        let error = self.result.as_ref().err().map_or("", String::as_str);
        let shown = |index: usize| {
            let value = self.result.as_ref().ok().and_then(|values| *values.get(index)?);
            value.map(|value| decimal::text(value, MEASURES[index].places)).unwrap_or_default()
        };
        let values: Vec<String> = (0..MEASURES.len()).map(shown).collect();
        let fixed = [&self.key, workload, seed, policy, budget, set].map(String::as_str);
        cells::line(fixed.into_iter().chain([error]).chain(values.iter().map(String::as_str)))
    }

    /// Parses a line; `None` if it is not a row.
    pub fn read(line: &str) -> Option<Self> {
        let values = cells::values(line)?;
        let (fixed, figures) = values.split_at_checked(7)?;
        let [key, workload, seed, policy, budget, set, error] = <[String; 7]>::try_from(fixed.to_vec()).ok()?;
        if figures.len() != MEASURES.len() || key.is_empty() {
            return None;
        }
        let labels = Labels { workload, seed, policy, budget, set };
        if !error.is_empty() {
            return Some(Self { key, labels, result: Err(error) });
        }
        let value = |(text, measure): (&String, &super::measures::Measure)| match text.as_str() {
            "" => Some(None),
            text => decimal::parse(text, measure.places).map(Some),
        };
        let values: Option<Values> = figures.iter().zip(&MEASURES).map(value).collect();
        Some(Self { key, labels, result: Ok(values?) })
    }
}

impl Results {
    /// Opens or creates the folder.
    ///
    /// # Errors
    /// [`ResultsError`]: the folder holds something else, or cannot be read or written.
    pub fn open(folder: &Path) -> Result<Self, ResultsError> {
        let path = folder.join(FILE);
        let wrong = |source| WriteError::new(&path, source);
        if !path.exists() && (folder.is_file() || fs::read_dir(folder).is_ok_and(|mut held| held.next().is_some())) {
            return Err(ResultsError::Foreign(folder.to_owned()));
        }
        fs::create_dir_all(folder).map_err(|source| WriteError::new(folder, source))?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(wrong)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ResultsError::Busy(folder.to_owned())),
            // On a file system without locks, other sweeps are not excluded.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(wrong)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(wrong)?;
        }
        let mut results = Self { path, file, rows: BTreeMap::new() };
        match text[..whole].lines().next() {
            None => results.append(&columns())?,
            Some(first) if first == columns() => results.take(&text[..whole])?,
            Some(_) => return Err(ResultsError::Columns(results.path)),
        }
        Ok(results)
    }

    fn take(&mut self, text: &str) -> Result<(), ResultsError> {
        for (index, line) in text.lines().enumerate().skip(1) {
            let row = Row::read(line).ok_or_else(|| ResultsError::Row {
                path: self.path.clone(),
                line: index + 1,
                text: line.chars().take(60).collect(),
            })?;
            self.rows.insert(row.key.clone(), row);
        }
        Ok(())
    }

    /// Writes a line with one system call.
    fn append(&mut self, line: &str) -> Result<(), WriteError> {
        let written = self.file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|source| WriteError::new(&self.path, source))
    }

    /// Appends a row.
    ///
    /// # Errors
    /// If the row cannot be written.
    pub fn add(&mut self, row: Row) -> Result<(), WriteError> {
        self.append(&row.line())?;
        self.rows.insert(row.key.clone(), row);
        Ok(())
    }

    /// Returns the number of rows, including those of other sweeps.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str) -> Row {
        let labels = Labels { workload: "a,b.swf".to_owned(), policy: "easy".to_owned(), ..Labels::default() };
        let mut values = vec![None; MEASURES.len()];
        values[0] = Some(7);
        values[6] = Some(512_300);
        Row { key: key.to_owned(), labels, result: Ok(values) }
    }

    #[test]
    fn rows_there_and_back() {
        let failed = Row { result: Err("no, \"really\"".to_owned()), ..row("y") };
        assert_eq!(Row::read(&row("x").line()), Some(row("x")));
        assert_eq!(Row::read(&failed.line()), Some(failed));
        assert_eq!(Row::read("x,y"), None);
        assert_eq!(Row::read(&row("x").line().replace("0.5123", "0.5x")), None);
    }

    #[test]
    fn a_cut_line_is_taken_away() {
        let root = tempfile::tempdir().expect("a folder");
        let mut results = Results::open(root.path()).expect("opens");
        results.add(row("x")).expect("written");
        assert!(matches!(Results::open(root.path()), Err(ResultsError::Busy(_))));
        drop(results);
        let path = root.path().join(FILE);
        let whole = fs::read_to_string(&path).expect("read");
        fs::write(&path, format!("{whole}{}", &row("y").line()[..5])).expect("written");
        let mut results = Results::open(root.path()).expect("opens");
        assert_eq!((results.row("x"), results.row("y")), (Some(&row("x")), None));
        results.add(row("y")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), format!("{whole}{}\n", row("y").line()));
    }

    #[test]
    fn other_files() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("x"), "").expect("written");
        assert!(matches!(Results::open(root.path()), Err(ResultsError::Foreign(_))));
        fs::write(root.path().join(FILE), "a,b\n").expect("written");
        assert!(matches!(Results::open(root.path()), Err(ResultsError::Columns(_))));
        fs::write(root.path().join(FILE), format!("{}\nx\n", columns())).expect("written");
        assert!(matches!(Results::open(root.path()), Err(ResultsError::Row { line: 2, .. })));
    }
}
