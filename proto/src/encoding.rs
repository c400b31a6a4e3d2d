//! Encoding of messages and stored values. Only this module uses bincode. Decoding is bounded: a value may allocate at
//! most [`LIMIT`] bytes, regardless of its lengths (RUSTSEC-2025-0141 and its reason are in `deny.toml`).

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Most bytes that decoding one value may allocate: the largest frame.
const LIMIT: usize = crate::frame::BODY_LIMIT;

/// Number of the format of values on disk, which is their first byte. It grows with a stored shape, and not with the
/// protocol: a journal outlives many versions of the protocol.
pub const STORED_FORMAT: u8 = 1;

/// Errors in encoding.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum EncodeError {
    #[error("the message cannot be encoded: {0}")]
    Encoding(#[from] bincode::error::EncodeError),
    #[error("the message takes {size} bytes: the limit is {limit}")]
    TooLarge { size: usize, limit: usize },
}

/// Errors in decoding.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum DecodeError {
    #[error("the message is malformed: {0}")]
    Malformed(bincode::error::DecodeError),
    /// A value that its type does not allow, for example one above its bound.
    #[error("the message is malformed: {0}")]
    Value(String),
    #[error("{extra} bytes follow the message")]
    Trailing { extra: usize },
    #[error("stored in format {found}: this program reads {known}")]
    Format { found: u8, known: u8 },
    #[error("stored data is empty")]
    Empty,
}

impl From<bincode::error::DecodeError> for DecodeError {
    fn from(error: bincode::error::DecodeError) -> Self {
        match error {
            bincode::error::DecodeError::OtherString(reason) => Self::Value(reason),
            error => Self::Malformed(error),
        }
    }
}

pub(crate) fn encode_into<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    bincode::serde::encode_into_std_write(value, out, bincode::config::standard())?;
    if out.len() > LIMIT {
        return Err(EncodeError::TooLarge { size: out.len(), limit: LIMIT });
    }
    Ok(())
}

/// Returns the size of a value in a message.
pub fn encoded_len<T: Serialize>(value: &T) -> usize {
    // A value that cannot be encoded is never sent.
    bincode::serde::encode_into_std_write(value, &mut std::io::sink(), bincode::config::standard()).unwrap_or(0)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let config = bincode::config::standard().with_limit::<LIMIT>();
    let (value, used) = bincode::serde::decode_from_slice(bytes, config)?;
    if used != bytes.len() {
        return Err(DecodeError::Trailing { extra: bytes.len() - used });
    }
    Ok(value)
}

/// Encodes a value for the disk. [`STORED_FORMAT`] comes first, so that a later version knows the format.
///
/// # Errors
/// If the value is larger than a frame.
pub fn encode_stored<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encode_stored_as(STORED_FORMAT, value)
}

/// Encodes a value whose shape has changed, with its own format number.
///
/// # Errors
/// Same as [`encode_stored`].
pub fn encode_stored_as<T: Serialize>(format: u8, value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![format];
    encode_into(value, &mut out)?;
    Ok(out)
}

/// Decodes the result of [`encode_stored`].
///
/// # Errors
/// If it has another format, or another type.
pub fn decode_stored<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    decode_stored_as(STORED_FORMAT, bytes)
}

/// Decodes the result of [`encode_stored_as`] with the same format.
///
/// # Errors
/// Same as [`decode_stored`].
pub fn decode_stored_as<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&found, rest)) if found == format => decode(rest),
        Some((&found, _)) => Err(DecodeError::Format { found, known: format }),
    }
}
