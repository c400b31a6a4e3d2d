//! Messages as bytes: a kind, then fields, each with a tag, a length and that many bytes. Numbers are little-endian.

use thiserror::Error;

/// Reason why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum DecodeError {
    #[error("the message ends within a field")]
    Short,
    #[error("field {tag} of the message has {length} bytes, which is not its size")]
    Size { tag: u16, length: usize },
    #[error("the message lacks field {tag}")]
    Missing { tag: u16 },
    #[error("field {tag} of the message is not UTF-8")]
    Text { tag: u16 },
    #[error("the message has the unknown kind {kind}")]
    Kind { kind: u16 },
    #[error("the message comes with {found} descriptors instead of {expected}")]
    Descriptors { found: usize, expected: usize },
}

/// Writes a message.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: u16) -> Self {
        Self(kind.to_le_bytes().to_vec())
    }

    /// Adds a field. A repeated tag makes a list, in the order of the fields.
    pub fn bytes(&mut self, tag: u16, bytes: &[u8]) -> &mut Self {
        // The frame of the job limits its plan to far less than 4 GiB.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&tag.to_le_bytes());
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn number(&mut self, tag: u16, number: u64) -> &mut Self {
        self.bytes(tag, &number.to_le_bytes())
    }

    /// Adds the field only if there is a value.
    pub fn maybe(&mut self, tag: u16, number: Option<u64>) -> &mut Self {
        if let Some(number) = number {
            self.number(tag, number);
        }
        self
    }

    /// Adds the field only if it is set.
    pub fn flag(&mut self, tag: u16, set: bool) -> &mut Self {
        self.maybe(tag, set.then_some(1))
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// The fields of a message in order.
#[derive(Debug)]
pub struct Fields<'a> {
    pub kind: u16,
    fields: Vec<(u16, &'a [u8])>,
}

impl<'a> Fields<'a> {
    /// Parses the fields.
    ///
    /// # Errors
    /// If the bytes end within a field.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (kind, mut rest) = bytes.split_first_chunk().ok_or(DecodeError::Short)?;
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let (tag, after) = rest.split_first_chunk().ok_or(DecodeError::Short)?;
            let (length, after) = after.split_first_chunk().ok_or(DecodeError::Short)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (field, after) = after.split_at_checked(length).ok_or(DecodeError::Short)?;
            fields.push((u16::from_le_bytes(*tag), field));
            rest = after;
        }
        Ok(Self { kind: u16::from_le_bytes(*kind), fields })
    }

    /// Returns all fields with this tag.
    pub fn list(&self, tag: u16) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        self.fields.iter().filter(move |(own, _)| *own == tag).map(|(_, bytes)| *bytes)
    }

    /// Returns the first field with this tag.
    pub fn bytes(&self, tag: u16) -> Option<&'a [u8]> {
        self.list(tag).next()
    }

    /// Returns a number, if the field is present.
    ///
    /// # Errors
    /// If the field is not a number.
    pub fn maybe(&self, tag: u16) -> Result<Option<u64>, DecodeError> {
        self.bytes(tag).map(|bytes| number(tag, bytes)).transpose()
    }

    /// Returns a number.
    ///
    /// # Errors
    /// If the field is absent or is not a number.
    pub fn number(&self, tag: u16) -> Result<u64, DecodeError> {
        self.maybe(tag)?.ok_or(DecodeError::Missing { tag })
    }

    /// Returns the numbers of all fields with this tag.
    ///
    /// # Errors
    /// If one of them is not a number.
    pub fn numbers(&self, tag: u16) -> Result<Vec<u64>, DecodeError> {
        self.list(tag).map(|bytes| number(tag, bytes)).collect()
    }

    /// Returns true if the field is set.
    ///
    /// # Errors
    /// If the field is present and is not a number.
    pub fn flag(&self, tag: u16) -> Result<bool, DecodeError> {
        Ok(self.maybe(tag)?.is_some_and(|set| set != 0))
    }

    /// Returns a text.
    ///
    /// # Errors
    /// If the field is absent or is not UTF-8.
    pub fn text(&self, tag: u16) -> Result<String, DecodeError> {
        let bytes = self.bytes(tag).ok_or(DecodeError::Missing { tag })?;
        String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Text { tag })
    }
}

fn number(tag: u16, bytes: &[u8]) -> Result<u64, DecodeError> {
    let size = DecodeError::Size { tag, length: bytes.len() };
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| size)?))
}

/// Converts a number to a smaller type.
///
/// # Errors
/// If it does not fit.
pub fn narrow<T: TryFrom<u64>>(tag: u16, number: u64) -> Result<T, DecodeError> {
    T::try_from(number).map_err(|_| DecodeError::Size { tag, length: size_of::<u64>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_ignored_and_cut_ones_refused() {
        let bytes = Writer::new(7).number(1, 5).bytes(999, b"later").flag(2, true).flag(3, false).finish();
        let fields = Fields::read(&bytes).expect("whole");
        assert_eq!((fields.kind, fields.number(1), fields.flag(2), fields.flag(3)), (7, Ok(5), Ok(true), Ok(false)));
        assert_eq!(fields.number(4), Err(DecodeError::Missing { tag: 4 }));
        assert_eq!(fields.number(999), Err(DecodeError::Size { tag: 999, length: 5 }));
        // Without its last field, which takes 14 bytes, the message is a valid shorter one.
        for length in (0..bytes.len()).filter(|length| ![2, 16, 27].contains(length)) {
            assert_eq!(Fields::read(&bytes[..length]).map(|_| ()), Err(DecodeError::Short), "{length}");
        }
    }
}
