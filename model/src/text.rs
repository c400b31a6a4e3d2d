//! Text of a bounded length, for texts that peers and jobs choose.

/// Marks the end of a clipped text.
const ELLIPSIS: char = '…';

/// Returns `text` in at most `limit` bytes. A longer text is cut between two characters and ends with an ellipsis, if
/// that fits.
pub fn clip(mut text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mark = if limit >= ELLIPSIS.len_utf8() { ELLIPSIS.len_utf8() } else { 0 };
    text.truncate(text.floor_char_boundary(limit - mark));
    if mark > 0 {
        text.push(ELLIPSIS);
    }
    // A cut text may still own a megabyte of memory.
    text.shrink_to_fit();
    text
}

/// Does the same for bytes that need not be UTF-8. The limit holds for the converted text, which can be three times as
/// long.
pub fn clip_lossy(bytes: &[u8], limit: usize) -> String {
    // Each byte becomes at least one byte, except for a character that is cut in two. So four bytes more than the
    // limit are enough.
    let part = &bytes[..bytes.len().min(limit.saturating_add(4))];
    clip(String::from_utf8_lossy(part).into_owned(), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        let check = |text: &str, limit, expected: &str| {
            assert_eq!(clip(text.to_owned(), limit), expected, "{text} in {limit}");
            assert!(expected.len() <= limit);
        };
        check("", 0, "");
        check("abc", 3, "abc");
        check("abcd", 3, "…");
        check("abcdef", 5, "ab…");
        check("aéééé", 6, "aé…");
        check("éé", 3, "…");
        check("abc", 2, "ab");
        check("é", 1, "");
    }

    #[test]
    fn bytes_are_counted_after_their_conversion() {
        let clipped = clip_lossy(&[0xff; 400_000], 1024);
        assert!(clipped.len() <= 1024 && clipped.ends_with("\u{fffd}…"), "{} bytes", clipped.len());
        assert!(clipped.capacity() <= 2048, "{} bytes are kept", clipped.capacity());
        assert_eq!(clip_lossy(b"plain", 5), "plain");
        assert_eq!(clip_lossy(b"plain!", 5), "pl…");
        // The conversion cuts the last character off, and not the limit.
        assert_eq!(clip_lossy("abcd€€€".as_bytes(), 5), "ab…");
        for length in 0..20 {
            let text = "€".repeat(length);
            for limit in 3..40 {
                assert_eq!(clip_lossy(text.as_bytes(), limit), clip(text.clone(), limit), "{length} in {limit}");
            }
        }
    }
}
