//! Errors of a wattmeter with this chip.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::Chip;
use super::frame::Ask;

/// Reason why there is no reading.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum Mcp39f511Error {
    #[error("cannot open the wattmeter at {}: {source}{}", path.display(), remedy(source))]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is not a serial line: name the device of the wattmeter; `lslave --probe` searches for it", path.display())]
    NoLine { path: PathBuf },
    #[error("the wattmeter at {} is gone: {source}; is it plugged in?", path.display())]
    Gone { path: PathBuf, source: io::Error },
    #[error("the wattmeter at {} did not answer within {} ms: is this the device of a wattmeter?", path.display(), limit.as_millis())]
    Silent { path: PathBuf, limit: Duration },
    #[error("the wattmeter at {} refuses {}: is it an MCP39F511 or MCP39F511N?", path.display(), shown(*ask))]
    Refused { path: PathBuf, ask: Ask },
    #[error("the wattmeter at {} finds the checksum of a request wrong: is another program using it?", path.display())]
    Checksum { path: PathBuf },
    #[error("the wattmeter at {} answers with {found}, which is not a complete reply: is another program using it?", path.display())]
    Garbled { path: PathBuf, found: String },
    #[error(
        "the wattmeter at {} shows {found} as the {what} of an {chip}, where at most {limit} can be: it may be an {}, so \
         write `{}:{}`",
        path.display(), chip.other(), chip.other().scheme(), path.display()
    )]
    OtherChip { path: PathBuf, what: &'static str, found: u16, limit: u16, chip: Chip },
    #[error("the wattmeter at {} keeps its interval of 2^{found} line cycles: 2^{wanted} was written", path.display())]
    Interval { path: PathBuf, found: u16, wanted: u16 },
}

impl Mcp39f511Error {
    /// Returns true if a retry on the same line may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Refused { .. } | Self::Checksum { .. } | Self::Garbled { .. })
    }
}

/// Returns a remedy for a device that cannot be opened, as the end of a sentence.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; is it plugged in, and is the module `cdc_acm` loaded?",
        io::ErrorKind::PermissionDenied => {
            "; run lslave as root, or put its user into the group of the device, often `dialout`"
        }
        _ => "",
    }
}

fn shown(ask: Ask) -> String {
    match ask {
        Ask::Read { address, count } => format!("to show {count} bytes from {address:#04x} on"),
        Ask::Write { address, .. } => format!("to take a number at {address:#04x}"),
    }
}
