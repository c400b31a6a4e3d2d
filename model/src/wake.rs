//! The way to wake a sleeping node. Contains no command: the master's own settings do.

use core::net::Ipv4Addr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The way in which the master wakes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Wake {
    /// The command of the master's settings.
    Command,
    /// Wake-on-LAN: a magic packet to the broadcast address, 255.255.255.255 by default.
    Wol { mac: Mac, broadcast: Option<Ipv4Addr> },
}

/// The hardware address of a network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

/// Error for a text that is not a hardware address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a hardware address: write for example `52:54:00:12:34:56`")]
pub struct MacError(String);

impl FromStr for Mac {
    type Err = MacError;

    /// Parses six bytes of two hexadecimal digits, separated by `:` or by `-`.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let error = || MacError(text.to_owned());
        let separator = if text.contains('-') { '-' } else { ':' };
        let byte = |digits: &str| {
            let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(digits, 16).ok().filter(|_| is_byte)
        };
        let bytes: Option<Vec<u8>> = text.split(separator).map(byte).collect();
        let bytes: [u8; 6] = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(error)?;
        // The first bit marks a group address, which does not belong to a single card.
        if bytes[0] & 1 == 1 || bytes == [0; 6] { Err(error()) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Mac {
    /// Returns six bytes of 0xff and sixteen times the address: the packet that wakes the machine of a listening card.
    pub fn magic_packet(self) -> [u8; 102] {
        let mut packet = [0xff; 102];
        for place in packet[6..].chunks_exact_mut(6) {
            place.copy_from_slice(&self.0);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_read_as_they_are_written() {
        let mac = Mac([0x52, 0x54, 0, 0x12, 0xab, 0xff]);
        assert_eq!("52:54:00:12:ab:ff".parse(), Ok(mac));
        assert_eq!("52-54-00-12-AB-FF".parse(), Ok(mac));
        assert_eq!(mac.to_string(), "52:54:00:12:ab:ff");
        let wrong =
            ["", "52:54:00:12:ab", "52:54:00:12:ab:ff:00", "52:54:00:12:ab:fg", "+2:54:00:12:ab:ff", "5254.0012.abff"];
        for text in wrong {
            assert_eq!(text.parse::<Mac>(), Err(MacError(text.to_owned())));
        }
        for nobody in ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"] {
            assert_eq!(nobody.parse::<Mac>(), Err(MacError(nobody.to_owned())));
        }
    }

    #[test]
    fn a_magic_packet_is_six_times_ff_and_sixteen_times_the_address() {
        let packet = Mac([1, 2, 3, 4, 5, 6]).magic_packet();
        assert_eq!(packet.len(), 102);
        assert_eq!(packet[..6], [0xff; 6]);
        assert_eq!(packet[6..18], [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
        assert_eq!(packet[96..], [1, 2, 3, 4, 5, 6]);
    }
}
