//! The frames of the MCP39F511 and MCP39F511N: bytes only, no line and no clock.
//!
//! A request is `a5`, its whole length, commands, and the sum of all that as its last byte. A reply to a read is `06`, its
//! whole length, the data, and the sum; to a write it is `06` alone. `15` is a refusal, `51` says that the sum of the
//! request was wrong. Addresses have their higher byte first, numbers their lower one.

const HEADER: u8 = 0xa5;
const ACK: u8 = 0x06;
const NACK: u8 = 0x15;
const CHECKSUM_FAILED: u8 = 0x51;

const SET_ADDRESS: u8 = 0x41;
const READ: u8 = 0x4e;
const WRITE: u8 = 0x4d;

/// What a reply has beside its data: its first byte, its length and its sum.
const AROUND: usize = 3;

/// What a request asks the chip to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// So many bytes from an address on; 32 is the most that readers of this chip were seen to ask for.
    Read { address: u16, count: u8 },
    /// A number at an address. Lost when the chip loses its supply: nothing here writes to its flash memory.
    Write { address: u16, value: u16 },
}

/// What the bytes that came so far mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The whole answer: data for a read, nothing for a write.
    Done(Vec<u8>),
    /// A whole answer may still come.
    Begun,
    /// An answer if nothing follows. A byte of this kind may be part of what precedes an answer, too.
    Unless(Refusal),
    /// Nothing of an answer.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Accepted,
    Refused,
    ChecksumFailed,
}

impl Ask {
    pub fn frame(self) -> Vec<u8> {
        let mut bytes = vec![HEADER, 0, SET_ADDRESS];
        match self {
            Self::Read { address, count } => {
                bytes.extend(address.to_be_bytes());
                bytes.extend([READ, count]);
            }
            Self::Write { address, value } => {
                bytes.extend(address.to_be_bytes());
                bytes.extend([WRITE, 2]);
                bytes.extend(value.to_le_bytes());
            }
        }
        // 10 bytes at most.
        bytes[1] = u8::try_from(bytes.len() + 1).unwrap_or(u8::MAX);
        bytes.push(sum(&bytes));
        bytes
    }

    /// What `bytes` mean as an answer to this. Whatever stands before an answer, such as the rest of an older one, is
    /// passed over.
    pub fn reply(self, bytes: &[u8]) -> Reply {
        if let Self::Read { count, .. } = self {
            let count = usize::from(count);
            for at in 0..bytes.len() {
                match data(&bytes[at..], count) {
                    Reply::Nothing => {}
                    found => return found,
                }
            }
        }
        match (bytes.last(), self) {
            (Some(&ACK), Self::Write { .. }) => Reply::Unless(Refusal::Accepted),
            (Some(&NACK), _) => Reply::Unless(Refusal::Refused),
            (Some(&CHECKSUM_FAILED), _) => Reply::Unless(Refusal::ChecksumFailed),
            _ => Reply::Nothing,
        }
    }
}

/// Whether an answer with `count` bytes of data begins with the first byte.
fn data(bytes: &[u8], count: usize) -> Reply {
    let length = count + AROUND;
    let starts = bytes.first() == Some(&ACK) && bytes.get(1).is_none_or(|found| usize::from(*found) == length);
    match bytes.get(..length) {
        _ if !starts => Reply::Nothing,
        None => Reply::Begun,
        Some(frame) if frame[length - 1] == sum(&frame[..length - 1]) => Reply::Done(frame[2..length - 1].to_vec()),
        Some(_) => Reply::Nothing,
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        text.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect()
    }

    /// Requests and a reply that other readers of this chip exchange with it.
    #[test]
    fn known_frames() {
        let check = |ask: Ask, expected: &str| assert_eq!(ask.frame(), hex(expected));
        check(Ask::Read { address: 0x02, count: 32 }, "a5 08 41 00 02 4e 20 5e");
        check(Ask::Read { address: 0x16, count: 8 }, "a5 08 41 00 16 4e 08 5a");
        check(Ask::Read { address: 0x12, count: 4 }, "a5 08 41 00 12 4e 04 52");
        check(Ask::Write { address: 0xa8, value: 1 }, "a5 0a 41 00 a8 4d 02 01 00 e8");
        let reply = hex("06 0b 39 30 00 00 00 00 00 00 7a");
        let power = Ask::Read { address: 0x16, count: 8 };
        assert_eq!(power.reply(&reply), Reply::Done(hex("39 30 00 00 00 00 00 00")));
    }

    #[test]
    fn answers_in_whatever_comes() {
        let read = Ask::Read { address: 0x16, count: 2 };
        let check = |bytes: &str, expected: Reply| assert_eq!(read.reply(&hex(bytes)), expected, "{bytes}");
        check("06", Reply::Begun);
        check("06 05 39 30", Reply::Begun);
        check("06 05 39 30 74", Reply::Done(vec![0x39, 0x30]));
        check("06 05 39 30 75", Reply::Nothing);
        check("06 07 39 30", Reply::Nothing);
        // The rest of another answer, in which even an ACK and the right length may be.
        check("00 15 51 06 06 05 39 30 74", Reply::Done(vec![0x39, 0x30]));
        check("06 05 06 05 39 30 74", Reply::Done(vec![0x39, 0x30]));
        check("15", Reply::Unless(Refusal::Refused));
        check("00 51", Reply::Unless(Refusal::ChecksumFailed));
        check("15 06", Reply::Begun);
        assert_eq!(read.reply(&[]), Reply::Nothing);
        let write = Ask::Write { address: 0xa8, value: 1 };
        assert_eq!(write.reply(&[0x06]), Reply::Unless(Refusal::Accepted));
        assert_eq!(write.reply(&[0x06, 0x15]), Reply::Unless(Refusal::Refused));
        assert_eq!(write.reply(&[0x00]), Reply::Nothing);
    }
}
