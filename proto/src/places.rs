//! Default paths of sockets and state.
//!
//! Root, and a service user with `/run/limo` or `/var/lib/limo/PROGRAM`, use the machine's directories. Other users
//! have their own. Creates nothing.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The socket of the machine's master.
pub const SYSTEM_SOCKET: &str = "/run/limo/master.sock";

const SYSTEM_STATE: &str = "/var/lib/limo";
const SOCKET: &str = "limo/master.sock";

/// Returns the socket on which a master of this user listens, and to which its nodes connect. `None` if the user has no
/// home.
pub fn default_socket() -> Option<PathBuf> {
    let system = Path::new(SYSTEM_SOCKET);
    if is_root() || system.parent().is_some_and(is_own) { Some(system.to_owned()) } else { user_socket() }
}

/// Returns the socket of this user's own master: in `$XDG_RUNTIME_DIR`, else next to its state. `None` for root.
pub fn user_socket() -> Option<PathBuf> {
    if is_root() {
        return None;
    }
    absolute(env::var_os("XDG_RUNTIME_DIR")).or_else(user_state).map(|directory| directory.join(SOCKET))
}

/// Returns the state directory of `program`. `None` if the user has no home.
pub fn default_state_dir(program: &str) -> Option<PathBuf> {
    let system = Path::new(SYSTEM_STATE).join(program);
    if is_root() || is_own(&system) { Some(system) } else { user_state().map(|home| home.join("limo").join(program)) }
}

/// Returns the directory of this user's certificate: `$LIMO_TLS_DIR`, else `/etc/limo/tls` for root and
/// `~/.config/limo/tls` for others. `None` if the user has no home.
pub fn tls_directory() -> Option<PathBuf> {
    let config = || absolute(env::var_os("XDG_CONFIG_HOME"));
    let home = || absolute(env::var_os("HOME")).map(|home| home.join(".config"));
    let own = || if is_root() { Some("/etc".into()) } else { config().or_else(home) };
    absolute(env::var_os("LIMO_TLS_DIR")).or_else(|| own().map(|directory: PathBuf| directory.join("limo/tls")))
}

fn user_state() -> Option<PathBuf> {
    let home = || absolute(env::var_os("HOME")).map(|home| home.join(".local/state"));
    absolute(env::var_os("XDG_STATE_HOME")).or_else(home)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn is_own(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|metadata| metadata.uid() == nix::unistd::geteuid().as_raw())
}

/// Ignores a relative path, as the XDG specification requires.
fn absolute(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}
