//! Batch scripts: their checks, their lines `#SBATCH`, and the file that is sent with a job.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use limo_client::Failure;
use limo_proto::BODY_LIMIT;

/// Beginning of a line with options.
const MARK: &str = "#SBATCH";

/// A batch script.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchScript {
    /// File name, which is also the default name of the job.
    pub name: String,
    content: Vec<u8>,
}

impl BatchScript {
    /// Makes the script of `--wrap`.
    pub fn wrap(line: &str) -> Self {
        let content = format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{line}\n\n");
        Self { name: "wrap".to_owned(), content: content.into_bytes() }
    }

    /// Reads a script from a file, or from standard input without one.
    ///
    /// # Errors
    /// If it cannot be read, or does not look like a script.
    pub fn read(path: Option<&str>) -> Result<Self, Failure> {
        let mut content = Vec::new();
        let limit = BODY_LIMIT as u64 + 1;
        let read = match path {
            Some(path) => File::open(path).and_then(|file| file.take(limit).read_to_end(&mut content)),
            None => io::stdin().take(limit).read_to_end(&mut content),
        };
        read.map_err(|error| match path {
            Some(path) => Failure::new(format_args!("Unable to open file {path}")),
            None => Failure::new(format_args!("Unable to read standard input: {error}")),
        })?;
        let name = path.and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy().into_owned());
        Self::of(name.unwrap_or_else(|| "sbatch".to_owned()), content)
    }

    fn of(name: String, content: Vec<u8>) -> Result<Self, Failure> {
        if content.is_empty() {
            return Err(Failure::new("Batch script is empty!"));
        }
        if content.iter().all(u8::is_ascii_whitespace) {
            return Err(Failure::new("Batch script contains only whitespace!"));
        }
        if !content.starts_with(b"#!") {
            return Err(Failure::new(
                "This does not look like a batch script.  The first\n\
                 sbatch: error: line must start with #! followed by the path to an interpreter.\n\
                 sbatch: error: For instance: #!/bin/sh",
            ));
        }
        if content.windows(2).any(|pair| pair == b"\r\n") {
            return Err(Failure::new(
                "Batch script contains DOS line breaks (\\r\\n)\n\
                 sbatch: error: instead of expected UNIX line breaks (\\n).",
            ));
        }
        Ok(Self { name, content })
    }

    /// Returns the words of the lines with options, up to the first line that is neither a comment nor empty.
    ///
    /// # Errors
    /// If a quote is open; the error names the line.
    pub fn words(&self) -> Result<Vec<String>, Failure> {
        let mut words = Vec::new();
        for (index, line) in self.content.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let trimmed = line.trim();
            if !trimmed.is_empty() && !trimmed.starts_with('#') {
                break;
            }
            let Some(rest) = line.strip_prefix(MARK).filter(|rest| rest.starts_with([' ', '\t'])) else { continue };
            let found = shell_words::split(rest)
                .map_err(|error| Failure::new(format_args!("{}: line {}: {error}", self.name, index + 1)))?;
            words.extend(found.into_iter().take_while(|word| !word.starts_with('#')));
        }
        Ok(words)
    }

    /// Writes the file for `lrun` into a new private directory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn hand_over(&self) -> Result<HandedOver, Failure> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| Failure::new(format_args!("cannot draw a number: {error}")))?;
        let number = u64::from_le_bytes(random);
        let directory = std::env::temp_dir().join(format!("lslurm-{number:016x}"));
        let path = directory.join(&self.name);
        let written = DirBuilder::new().mode(0o700).create(&directory).and_then(|()| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(&self.content)
        });
        let handed = HandedOver { path, directory };
        written.map_err(|error| Failure::new(format_args!("cannot write {}: {error}", handed.path.display())))?;
        Ok(handed)
    }
}

/// The file for `lrun`, which is removed at last.
pub struct HandedOver {
    pub path: PathBuf,
    directory: PathBuf,
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        // A file that stays does little harm in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<BatchScript, String> {
        BatchScript::of("job.sh".into(), text.into()).map_err(|failure| failure.message)
    }

    #[test]
    fn options_of_the_head_are_words_of_a_shell() {
        let text = "#!/bin/sh\n#SBATCH -J 'a name' --mem=5 # as it is\n\n# note\n##SBATCH -c 9\n #SBATCH -c 9\n\
                    #SBATCHX -c 9\n#SBATCH\t--comment=\"it's\"\necho\n#SBATCH -c 9\n";
        let words = script(text).expect("a script").words().expect("words");
        assert_eq!(words, ["-J", "a name", "--mem=5", "--comment=it's"]);
        let open = script("#!/bin/sh\n\n#SBATCH -J 'x\n").expect("a script").words().expect_err("an open quote");
        assert_eq!(open.message, "job.sh: line 3: missing closing quote");
    }

    #[test]
    fn what_is_no_script_is_refused() {
        assert_eq!(script(""), Err("Batch script is empty!".into()));
        assert_eq!(script(" \n"), Err("Batch script contains only whitespace!".into()));
        assert!(script("echo\n").is_err_and(|error| error.starts_with("This does not look like a batch script.")));
        assert!(script("#!/bin/sh\r\n").is_err_and(|error| error.contains("DOS line breaks")));
    }

    #[test]
    fn mutated_scripts_are_read_or_refused() {
        let seeds = [
            "#!/bin/sh\n#SBATCH -J 'a name' --mem=5G -n 4\n#SBATCH --time=1-02:03:04 --array=0-9%2\n\necho\n",
            "#!/bin/bash\n# note\n#SBATCH\t--comment=\"it's\" -N 2-4 --signal=B:USR1@60 -d afterok:1:2\n",
        ];
        let words = ["#SBATCH ", "--time=", "99999999999999999999", "--", "-", "'", "\\", "\n", "\r\n", "%", "@"];
        limo_mutations::read_mutated(&seeds, &words, |text| {
            let Some(words) = script(text).ok().and_then(|script| script.words().ok()) else { return false };
            let times = words.iter().map(|word| word.trim_start_matches("--time="));
            let read: Vec<_> = times.filter_map(crate::values::time_limit).flatten().collect();
            assert!(read.iter().all(|span| *span > limo_model::Span::ZERO), "{read:?}");
            crate::getopt::parse(&crate::submit::JOB_OPTIONS, &words, false).is_ok()
        });
    }
}
