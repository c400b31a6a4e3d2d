//! The first frame each way: who is calling, and which version both speak.
//!
//! Its layout never changes, so that any two versions can tell each other that they do not understand each other.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// The version of the messages that this program speaks. There is no older one yet.
pub const VERSION: u8 = 1;

const MAGIC: &[u8; 4] = b"LIMO";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Node,
    Client,
}

/// The caller's greeting: the versions that it speaks, from `oldest` to `newest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    pub role: Role,
    pub oldest: u8,
    pub newest: u8,
}

/// Why a greeting was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reject {
    #[error("this is not Limo's protocol")]
    NotLimo,
    #[error("the peer speaks versions {oldest} to {newest} of the protocol: this program speaks {VERSION}")]
    Version { oldest: u8, newest: u8 },
    #[error("unknown role {0}")]
    Role(u8),
    #[error("the peer refused: {0}")]
    ByPeer(String),
    /// A caller that is turned away before it has greeted.
    #[error("{0}")]
    Unwelcome(String),
}

impl Hello {
    pub fn of(role: Role) -> Self {
        Self { role, oldest: VERSION, newest: VERSION }
    }

    pub(crate) fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(7);
        out.put_slice(MAGIC);
        out.put_u8(match self.role {
            Role::Node => 0,
            Role::Client => 1,
        });
        out.put_u8(self.oldest);
        out.put_u8(self.newest);
        out.freeze()
    }

    /// # Errors
    /// [`Reject`] where it is not a greeting, or no version is common.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Reject> {
        let Some(rest) = body.strip_prefix(MAGIC) else { return Err(Reject::NotLimo) };
        let &[role, oldest, newest] = rest else { return Err(Reject::NotLimo) };
        let role = match role {
            0 => Role::Node,
            1 => Role::Client,
            other => return Err(Reject::Role(other)),
        };
        if !(oldest..=newest).contains(&VERSION) {
            return Err(Reject::Version { oldest, newest });
        }
        Ok(Self { role, oldest, newest })
    }
}

/// The answer: the version agreed on, or a reason.
pub(crate) fn encode_answer(answer: &Result<u8, Reject>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    match answer {
        Ok(version) => out.put_u8(*version),
        Err(reject) => {
            out.put_u8(0);
            out.put_slice(reject.to_string().as_bytes());
        }
    }
    out.freeze()
}

/// # Errors
/// [`Reject`] where the peer refused, or answered something else.
pub(crate) fn decode_answer(body: &[u8]) -> Result<u8, Reject> {
    let Some(rest) = body.strip_prefix(MAGIC) else { return Err(Reject::NotLimo) };
    match rest.split_first() {
        Some((0, reason)) => {
            Err(Reject::ByPeer(String::from_utf8_lossy(reason).chars().filter(|letter| !letter.is_control()).collect()))
        }
        Some((&VERSION, [])) => Ok(VERSION),
        Some((&version, _)) => Err(Reject::Version { oldest: version, newest: version }),
        None => Err(Reject::NotLimo),
    }
}
