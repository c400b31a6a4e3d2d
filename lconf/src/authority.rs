//! The option that names the directory of the authority, and the hints for its errors.

use std::path::PathBuf;

use limo_authority::{Directory, DirectoryError};
use limo_client::Failure;
use limo_proto::default_state_dir;

/// Options that name the directory.
#[derive(Debug, clap::Args)]
pub struct AuthorityArg {
    /// Directory of the authority [default: tls in the state directory of lmaster]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl AuthorityArg {
    /// Returns true if the directory is that of the default master.
    pub fn is_default(&self) -> bool {
        self.dir.is_none()
    }

    /// Returns the directory.
    ///
    /// # Errors
    /// If it is not given and the user has no home.
    pub fn directory(&self) -> Result<Directory, Failure> {
        let default = || default_state_dir("lmaster").map(|state| state.join("tls"));
        let path = self.dir.clone().or_else(default);
        let path = path.ok_or_else(|| Failure::new("this user has no home").hint("name the directory with --dir"))?;
        Ok(Directory::new(path))
    }
}

/// Makes a failure of an error, with a hint.
pub fn failure(error: DirectoryError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        DirectoryError::Exists(_) => failure.hint("issue certificates with `lconf cert issue`"),
        DirectoryError::NoAuthority(_) => {
            failure.hint("make an authority with `lconf cluster init`, or name its directory with --dir")
        }
        DirectoryError::Rotating => failure.hint("lconf cert rotate --finish"),
        DirectoryError::NotRotating => failure.hint("lconf cert rotate"),
        DirectoryError::LeftBehind(_) => {
            failure.hint("wait until they have renewed their certificates, or add --force: they must join again")
        }
        _ => failure,
    }
}
