//! Frames of the MCP39F511 and MCP39F511N.
//!
//! A request is `a5`, its total length, commands, and the sum of all bytes before as its last byte. A reply to a read
//! is `06`, its total length, the data, and the sum; to a write it is `06` alone. `15` is a refusal, `51` reports a
//! wrong sum of the request. Addresses have their higher byte first, numbers their lower one.

const HEADER: u8 = 0xa5;
const ACK: u8 = 0x06;
const NACK: u8 = 0x15;
const CHECKSUM_FAILED: u8 = 0x51;

const SET_ADDRESS: u8 = 0x41;
const READ: u8 = 0x4e;
const WRITE: u8 = 0x4d;

/// Bytes of a reply besides its data: its first byte, its length and its sum.
const AROUND: usize = 3;

/// Request to the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Reads `count` bytes from an address on; 32 is the most that other readers of this chip request.
    Read { address: u16, count: u8 },
    /// Writes a number to an address. Lost when the chip loses its supply: nothing here writes to its flash memory.
    Write { address: u16, value: u16 },
}

/// State of an answer after the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Complete answer: data for a read, empty for a write.
    Done(Vec<u8>),
    /// Incomplete answer.
    Begun,
    /// A refusal, provided that nothing follows. Such a byte may also precede an answer.
    Unless(Refusal),
    /// No answer.
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
        // A request has at most 10 bytes.
        bytes[1] = u8::try_from(bytes.len() + 1).unwrap_or(u8::MAX);
        bytes.push(sum(&bytes));
        bytes
    }

    /// Interprets `bytes` as an answer to this request. Bytes before an answer, such as the rest of an older one, are
    /// skipped.
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

/// Returns the state of an answer with `count` bytes of data that begins with the first byte.
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

    /// Requests and a reply as exchanged by other readers of this chip.
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
    fn answers_are_found_in_any_pieces() {
        let read = Ask::Read { address: 0x16, count: 2 };
        let check = |bytes: &str, expected: Reply| assert_eq!(read.reply(&hex(bytes)), expected, "{bytes}");
        check("06", Reply::Begun);
        check("06 05 39 30", Reply::Begun);
        check("06 05 39 30 74", Reply::Done(vec![0x39, 0x30]));
        check("06 05 39 30 75", Reply::Nothing);
        check("06 07 39 30", Reply::Nothing);
        // The rest of another answer may contain an ACK and the right length.
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
