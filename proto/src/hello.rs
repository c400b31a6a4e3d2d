//! The first frame each way: the caller's role, the common version, and the master's journal.
//!
//! The layout of the caller's frame never changes, and the answer only grows at its end, so that incompatible
//! versions can report this to each other.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use limo_model::{ClusterId, Currency, CurrencyError, Epoch, Incarnation, JournalId};
use thiserror::Error;

/// The only message version of this program.
pub const VERSION: u8 = 2;

const MAGIC: &[u8; 4] = b"LIMO";

/// The role of a caller, which decides about the messages of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A node daemon.
    Node,
    /// A program of a user or an operator.
    Client,
    /// A caller that wants a certificate or a token: see [`crate::EnrolRequest`].
    Enrolment,
}

/// The caller's greeting: the versions that it speaks, from `oldest` to `newest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The role of the caller.
    pub role: Role,
    /// The oldest version that it speaks.
    pub oldest: u8,
    /// The newest version that it speaks, not below `oldest`.
    pub newest: u8,
}

/// The identity of a master in its answer: it defines the meaning of job numbers on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// The journal of the master.
    pub journal: JournalId,
    /// Epoch of the opening of the journal.
    pub epoch: Epoch,
    /// Currency of all prices and amounts.
    pub currency: Currency,
}

/// Reason for rejecting a greeting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum Reject {
    #[error("this is not Limo's protocol")]
    NotLimo,
    #[error(
        "the peer speaks versions {oldest} to {newest} of the protocol: this program speaks version {VERSION}; \
         use programs of one release of Limo"
    )]
    Version { oldest: u8, newest: u8 },
    #[error("the master's currency is refused: {0}")]
    Currency(CurrencyError),
    #[error("unknown role {0}")]
    Role(u8),
    #[error("the peer refused: {0}")]
    ByPeer(String),
    /// The caller was rejected before it greeted.
    #[error("{0}")]
    Unwelcome(String),
}

impl Hello {
    /// Returns the greeting of this program, which speaks only [`VERSION`].
    pub fn of(role: Role) -> Self {
        Self { role, oldest: VERSION, newest: VERSION }
    }

    pub(crate) fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(7);
        out.put_slice(MAGIC);
        out.put_u8(match self.role {
            Role::Node => 0,
            Role::Client => 1,
            Role::Enrolment => 2,
        });
        out.put_u8(self.oldest);
        out.put_u8(self.newest);
        out.freeze()
    }

    /// Decodes a greeting.
    ///
    /// # Errors
    /// [`Reject`] if it is not a greeting, or the versions do not overlap.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Reject> {
        let Some(rest) = body.strip_prefix(MAGIC) else { return Err(Reject::NotLimo) };
        let &[role, oldest, newest] = rest else { return Err(Reject::NotLimo) };
        let role = match role {
            0 => Role::Node,
            1 => Role::Client,
            2 => Role::Enrolment,
            other => return Err(Reject::Role(other)),
        };
        if !(oldest..=newest).contains(&VERSION) {
            return Err(Reject::Version { oldest, newest });
        }
        Ok(Self { role, oldest, newest })
    }
}

/// Encodes the answer: the common version and the identity, or a reason.
pub(crate) fn encode_answer(answer: &Result<Identity, Reject>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(MAGIC);
    match answer {
        Ok(Identity { journal: JournalId { cluster, incarnation }, epoch, currency }) => {
            out.put_u8(VERSION);
            out.put_slice(&cluster.0);
            out.put_u64(incarnation.0);
            out.put_u64(epoch.0);
            out.put_slice(currency.code().as_bytes());
        }
        Err(reject) => {
            out.put_u8(0);
            out.put_slice(reject.to_string().as_bytes());
        }
    }
    out.freeze()
}

/// Decodes the answer. Ignores further bytes, which come from a later version.
///
/// # Errors
/// [`Reject`] if the peer refused, or sent something else.
pub(crate) fn decode_answer(body: &[u8]) -> Result<Identity, Reject> {
    let Some(rest) = body.strip_prefix(MAGIC) else { return Err(Reject::NotLimo) };
    match rest.split_first() {
        Some((0, reason)) => {
            Err(Reject::ByPeer(String::from_utf8_lossy(reason).chars().filter(|letter| !letter.is_control()).collect()))
        }
        Some((&VERSION, mut rest)) => {
            let mut cluster = [0; 16];
            rest.try_copy_to_slice(&mut cluster).map_err(|_| Reject::NotLimo)?;
            let incarnation = Incarnation(rest.try_get_u64().map_err(|_| Reject::NotLimo)?);
            let epoch = Epoch(rest.try_get_u64().map_err(|_| Reject::NotLimo)?);
            let code = rest.get(..3).and_then(|code| std::str::from_utf8(code).ok());
            let currency = code.and_then(Currency::of_code).ok_or(Reject::NotLimo)?;
            Ok(Identity { journal: JournalId { cluster: ClusterId(cluster), incarnation }, epoch, currency })
        }
        Some((&version, _)) => Err(Reject::Version { oldest: version, newest: version }),
        None => Err(Reject::NotLimo),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_carries_the_journal_and_may_grow() {
        let journal = JournalId { cluster: ClusterId([3; 16]), incarnation: Incarnation(u64::MAX) };
        let identity = Identity { journal, epoch: Epoch(7), currency: Currency::of_code("DKK").expect("a code") };
        let answer = encode_answer(&Ok(identity));
        assert_eq!(decode_answer(&answer), Ok(identity));
        assert_eq!(decode_answer(&[&answer[..], b"more"].concat()), Ok(identity));
        for short in 0..answer.len() {
            assert!(decode_answer(&answer[..short]).is_err(), "{short} bytes");
        }
    }

    #[test]
    fn version_1_is_refused_both_ways() {
        let refused = Reject::Version { oldest: 1, newest: 1 };
        assert_eq!(Hello::decode(b"LIMO\x00\x01\x01"), Err(refused.clone()));
        assert_eq!(decode_answer(b"LIMO\x01"), Err(refused.clone()));
        let told = decode_answer(&encode_answer(&Err(refused))).map_err(|reject| reject.to_string());
        assert!(told.as_ref().is_err_and(|told| told.contains("use programs of one release")), "{told:?}");
    }
}
