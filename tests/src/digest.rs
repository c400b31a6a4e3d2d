//! A fast digest of a stream, which shows if a byte is missing, doubled or misplaced.

/// A polynomial hash over the 8-byte words of the stream, independent of the sizes of its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    pub length: u64,
    hash: u64,
    /// Bytes of the incomplete last word.
    rest: Vec<u8>,
}

impl Digest {
    pub fn take(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let missing = (8 - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.rest.len() < 8 {
                return;
            }
            self.word(<[u8; 8]>::try_from(&self.rest[..]).expect("8 bytes"));
            self.rest.clear();
        }
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.word(*word));
        self.rest.extend_from_slice(rest);
    }

    fn word(&mut self, word: [u8; 8]) {
        // The constant is that of splitmix64; any odd number with bits everywhere would do.
        self.hash = (self.hash.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[test]
fn cuts_do_not_matter_and_order_does() {
    let digest = |pieces: &[&[u8]]| {
        let mut digest = Digest::default();
        pieces.iter().for_each(|piece| digest.take(piece));
        digest
    };
    let text = b"0123456789abcdefghijklmnopq";
    assert_eq!(digest(&[text]), digest(&[&text[..3], &text[3..4], &text[4..19], &text[19..]]));
    assert_ne!(digest(&[text]), digest(&[&text[8..16], &text[..8], &text[16..]]));
    assert_ne!(digest(&[text]), digest(&[&text[..26]]));
}
