//! The messages of a session: limo-2018, Listing 3.1 and Table 3.1.
//!
//! They are the bytes of the C structures on a 64-bit machine: in the byte order of the host, and with padding, which
//! is zero. The thesis does not give the values of the magic number, the version and the codes, but that OK is zero and
//! all others are negative.

use std::io::{self, Read};

use thiserror::Error;

/// First number of a session. No palindrome, so the other byte order is noticed.
pub const MAGIC: u64 = u64::from_be_bytes(*b"LimoProf");

/// Version of the messages.
pub const VERSION: u64 = 1;

/// Size of the name in a [`StreamInit`], with at least one zero byte at its end.
pub const NAME_SIZE: usize = 0x80;

/// Size of `struct StreamInit`: 8 + 8 + 2 + 128 bytes, and 6 of padding.
pub const INIT_SIZE: usize = 152;

/// Size of the header of `struct StreamPackage`, and of `struct StreamStatus`: 4 bytes, 4 of padding, and 8.
pub const HEADER_SIZE: usize = 16;

/// The first message of a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInit {
    /// [`MAGIC`], if both sides have the same byte order.
    pub magic: u64,
    /// [`VERSION`], if both sides are compatible.
    pub version: u64,
    /// Number of the application.
    pub app: u16,
    /// Name of the session, then options of the application, zero-terminated.
    name: [u8; NAME_SIZE],
}

/// The name of a session is too long or contains a zero byte.
#[derive(Debug, Error)]
#[error("the session name {name:?} has {} bytes, but must have at most {} and no zero byte", .name.len(), NAME_SIZE - 1)]
pub struct NameError {
    name: String,
}

impl StreamInit {
    /// Makes the message for a session named `name`.
    ///
    /// # Errors
    /// [`NameError`] if `name` has more than 127 bytes or contains a zero byte.
    pub fn new(app: u16, name: &str) -> Result<Self, NameError> {
        if name.len() >= NAME_SIZE || name.contains('\0') {
            return Err(NameError { name: name.to_owned() });
        }
        let mut bytes = [0; NAME_SIZE];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { magic: MAGIC, version: VERSION, app, name: bytes })
    }

    /// Returns the name up to its first zero byte; bytes that are not UTF-8 become replacement characters.
    pub fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_SIZE);
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }

    /// Returns the bytes of the message.
    pub fn to_bytes(&self) -> [u8; INIT_SIZE] {
        let mut bytes = [0; INIT_SIZE];
        bytes[..8].copy_from_slice(&self.magic.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.version.to_ne_bytes());
        bytes[16..18].copy_from_slice(&self.app.to_ne_bytes());
        bytes[18..18 + NAME_SIZE].copy_from_slice(&self.name);
        bytes
    }

    /// Reads the message. Its values may be anything.
    ///
    /// # Errors
    /// If `source` fails or ends before.
    pub fn read(mut source: impl Read) -> io::Result<Self> {
        let (mut magic, mut version, mut app, mut name) = ([0; 8], [0; 8], [0; 2], [0; NAME_SIZE]);
        source.read_exact(&mut magic)?;
        source.read_exact(&mut version)?;
        source.read_exact(&mut app)?;
        source.read_exact(&mut name)?;
        source.read_exact(&mut [0; INIT_SIZE - 18 - NAME_SIZE])?;
        let (magic, version) = (u64::from_ne_bytes(magic), u64::from_ne_bytes(version));
        Ok(Self { magic, version, app: u16::from_ne_bytes(app), name })
    }
}

/// Codes of Table 3.1. The number of OK is that of a package without content, which is ignored as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Status {
    /// To be ignored.
    Ok = 0,
    /// Any error during the session.
    Error = -1,
    /// The sides are incompatible: another magic number or version.
    WrongVersion = -2,
    /// The executor does not have the application.
    InvalidRequest = -3,
    /// The executor is ready for the session.
    AwaitStart = -4,
    /// The executor is ready for packages.
    AckStart = -5,
    /// The generator has sent all packages.
    Fini = -6,
    /// The executor has processed all packages.
    AckEnd = -7,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Ok,
        Self::Error,
        Self::WrongVersion,
        Self::InvalidRequest,
        Self::AwaitStart,
        Self::AckStart,
        Self::Fini,
        Self::AckEnd,
    ];

    /// Returns the bytes of the message with this code.
    pub fn to_bytes(self, sqn: u32) -> [u8; HEADER_SIZE] {
        StreamHeader { sqn, size: self as i64 }.to_bytes()
    }
}

/// The begin of a package, or a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHeader {
    /// Number that its sender chooses, for logs.
    pub sqn: u32,
    /// Size of the content that follows, in bytes, if positive; otherwise a code.
    pub size: i64,
}

impl StreamHeader {
    /// Returns the bytes of the header.
    pub fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&self.sqn.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.size.to_ne_bytes());
        bytes
    }

    /// Reads a header. Returns `None` if `source` ends before its first byte.
    ///
    /// # Errors
    /// If `source` fails, or ends within the header.
    pub fn read(mut source: impl Read) -> io::Result<Option<Self>> {
        let (mut sqn, mut size) = ([0; 4], [0; 8]);
        loop {
            match source.read(&mut sqn[..1]) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        source.read_exact(&mut sqn[1..])?;
        source.read_exact(&mut [0; 4])?;
        source.read_exact(&mut size)?;
        Ok(Some(Self { sqn: u32::from_ne_bytes(sqn), size: i64::from_ne_bytes(size) }))
    }

    /// Returns the status of a header that is not the begin of a package, or `None` if its code is unknown.
    pub fn status(self) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as i64 == self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_has_the_bytes_of_the_c_structure() {
        let init = StreamInit::new(0x0102, "m16").unwrap();
        let mut expected = Vec::new();
        expected.extend(0x4c69_6d6f_5072_6f66_u64.to_ne_bytes());
        expected.extend(1_u64.to_ne_bytes());
        expected.extend(0x0102_u16.to_ne_bytes());
        expected.extend(b"m16");
        expected.resize(8 + 8 + 2 + 128 + 6, 0);
        assert_eq!(init.to_bytes().as_slice(), expected);
        let read = StreamInit::read(expected.as_slice()).unwrap();
        assert_eq!((&read, read.name()), (&init, "m16".to_owned()));
        StreamInit::read(&expected[..151]).expect_err("a byte is missing");
    }

    #[test]
    fn a_header_has_the_bytes_of_the_c_structure() {
        let header = StreamHeader { sqn: 7, size: 300 };
        let expected = [7_u32.to_ne_bytes().as_slice(), &[0; 4], &300_i64.to_ne_bytes()].concat();
        assert_eq!(header.to_bytes().as_slice(), expected);
        assert_eq!(StreamHeader::read(expected.as_slice()).unwrap(), Some(header));
        assert_eq!(StreamHeader::read(&[][..]).unwrap(), None);
        StreamHeader::read(&expected[..15]).expect_err("a byte is missing");
    }

    #[test]
    fn codes_are_zero_and_down_in_the_order_of_table_3_1() {
        let codes = Status::ALL.map(|status| status as i64);
        assert_eq!(codes, [0, -1, -2, -3, -4, -5, -6, -7]);
        for status in Status::ALL {
            let header = StreamHeader::read(status.to_bytes(1).as_slice()).unwrap().unwrap();
            assert_eq!(header.status(), Some(status));
        }
        assert_eq!(StreamHeader { sqn: 0, size: -8 }.status(), None);
    }

    #[test]
    fn names_have_a_zero_byte_at_their_end() {
        assert_eq!(StreamInit::new(0, &"a".repeat(127)).unwrap().name().len(), 127);
        let error = StreamInit::new(0, &"a".repeat(128)).expect_err("too long").to_string();
        assert!(error.ends_with("has 128 bytes, but must have at most 127 and no zero byte"), "{error}");
        StreamInit::new(0, "a\0b").expect_err("it would be cut");
    }
}
