//! Readers of what devices and their programs answer, as functions of the answer. Their meters call the same functions;
//! these are public so that they can be tested with any bytes.

use limo_model::Power;
use serde_json::Value;

use crate::access::Login;
use crate::digest::Challenge;
use crate::meter::json::{Answer, JsonError};
use crate::meter::{IpmiError, command, ipmi, mcp39f511, tasmota};

/// Returns the draw in what a meter command printed.
pub fn of_command(printed: &str) -> Option<Power> {
    command::watts(printed)
}

/// Returns the draw in what `ipmitool raw` printed; `None` if that is not a list of bytes.
///
/// # Errors
/// [`IpmiError`] if the bytes are not an answer with a draw.
pub fn of_ipmi(printed: &str) -> Option<Result<Power, IpmiError>> {
    ipmi::bytes(printed).map(|bytes| ipmi::draw(&bytes, "ipmitool"))
}

/// Returns the completion code in what `ipmitool` printed about a refusal.
pub fn refusal_of_ipmi(printed: &str) -> Option<u8> {
    ipmi::completion_code(printed)
}

/// Returns the draw at `pointer` (RFC 6901) in an answer of Redfish or of a Shelly plug.
///
/// # Errors
/// [`JsonError`] if the number of watts is missing.
pub fn of_json(answer: &Value, pointer: &str) -> Result<Power, JsonError> {
    Answer { url: "http://device", value: answer, hint: "no watts" }.watts(pointer)
}

/// Returns the draw in an answer of a Tasmota plug, of the channel that counts from 1.
///
/// # Errors
/// [`JsonError`] if the channel or its number of watts is missing.
pub fn of_tasmota(answer: &Value, channel: Option<u32>) -> Result<Power, JsonError> {
    tasmota::draw("http://plug/cm", answer, channel)
}

/// Returns the data in what a chip MCP39F511 sent after it was asked for `count` bytes, once its answer is complete.
pub fn of_wattmeter(sent: &[u8], count: u8) -> Option<Vec<u8>> {
    mcp39f511::answered(sent, count)
}

/// Returns the header with the proof of a password for a server's challenge (RFC 7616), if it is of a known kind.
pub fn of_challenge(header: &str) -> Option<String> {
    let login = Login { user: "user".to_owned(), password: "password".to_owned() };
    Some(Challenge::parse(header)?.answer(&login, ("GET", "/"), "0"))
}
