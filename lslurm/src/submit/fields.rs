//! Fields in the names of files.

/// Translates the name of a file for output or input. Slurm keeps unknown fields as they are, and knows some that Limo
/// does not.
pub fn file_name(name: &str, is_array: bool) -> String {
    if name.contains('\\') {
        // A backslash stands for no fields at all.
        return name.replace('\\', "").replace('%', "%%");
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        out += before;
        let letters = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let width = &after[..after.len() - letters.len()];
        let Some(letter) = letters.chars().next() else {
            out += "%%";
            out += width;
            return out;
        };
        rest = &letters[letter.len_utf8()..];
        match letter {
            '%' => out += "%%",
            'j' | 'A' | 'x' | 'u' | 'N' => out += &format!("%{width}{letter}"),
            'J' => out += &format!("%{width}j"),
            'a' if is_array => out += &format!("%{width}a"),
            'a' => out += "4294967294",
            // The batch script is the first task, on the first node.
            'n' | 't' => out += "0",
            's' => out += "batch",
            other => out += &format!("%%{width}{other}"),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_sbatch() {
        let check = |name: &str, expected: &str| assert_eq!(file_name(name, true), expected);
        check("d/%5j-%J_%x.%u.out", "d/%5j-%j_%x.%u.out");
        check("%A_%a-%N", "%A_%a-%N");
        check("100%%-%q-%3q-%t%n.%s", "100%%-%%q-%%3q-00.batch");
        check("100%", "100%%");
        check("100%5", "100%%5");
        check("\\%j", "%%j");
        assert_eq!(file_name("%A_%a", false), "%A_4294967294");
    }
}
