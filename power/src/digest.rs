//! Digest authentication over HTTP (RFC 7616) with SHA-256 and `qop=auth`, which Shelly's devices use. MD5 is refused.
//! Sends nothing: makes the text of a header.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::access::Login;

/// Challenge of a server, and the number of answers to it.
#[derive(Debug, Clone)]
pub struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    count: u32,
}

impl Challenge {
    /// Parses the value of `WWW-Authenticate`; `None` if it requires another method.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let fields = fields(rest)?;
        let field = |name: &str| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v.clone());
        let is_known = field("algorithm")?.eq_ignore_ascii_case("SHA-256")
            && field("qop")?.split(',').any(|way| way.trim().eq_ignore_ascii_case("auth"));
        let (realm, nonce) = (field("realm")?, field("nonce")?);
        is_known.then_some(Self { realm, nonce, opaque: field("opaque"), count: 0 })
    }

    /// Returns the value of `Authorization` for a request of `method` for `path`, with its query. `cnonce` is random
    /// letters and digits.
    pub fn answer(&mut self, login: &Login, (method, path): (&str, &str), cnonce: &str) -> String {
        // A server that has seen four billion answers to one nonce sends a new one.
        self.count = self.count.wrapping_add(1);
        let Self { realm, nonce, opaque, count } = &*self;
        let secret = hash(&format!("{}:{realm}:{}", login.user, login.password));
        let request = hash(&format!("{method}:{path}"));
        let response = hash(&format!("{secret}:{nonce}:{count:08x}:{cnonce}:auth:{request}"));
        let mut text = format!(
            "Digest username={}, realm={}, nonce={}, uri={}, algorithm=SHA-256, qop=auth, nc={count:08x}, \
             cnonce=\"{cnonce}\", response=\"{response}\"",
            quoted(&login.user),
            quoted(realm),
            quoted(nonce),
            quoted(path)
        );
        if let Some(opaque) = opaque {
            text += &format!(", opaque={}", quoted(opaque));
        }
        text
    }
}

/// Parses `a=b, c="d"` as pairs.
fn fields(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let (value, after) = match after.trim_start().strip_prefix('"') {
            Some(text) => unquoted(text)?,
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        found.push((key.trim().to_owned(), value));
        rest = after.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(found)
}

/// Returns the text before the closing quote, and the text after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7616, section 3.9.1.
    #[test]
    fn the_example_of_the_standard() {
        let header = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
                      nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                      opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let mut challenge = Challenge::parse(header).expect("a challenge");
        let login = Login { user: "Mufasa".into(), password: "Circle of Life".into() };
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = challenge.answer(&login, ("GET", "/dir/index.html"), cnonce);
        for part in [
            "response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\"",
            "username=\"Mufasa\"",
            "nc=00000001",
            "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
        ] {
            assert!(answer.contains(part), "{answer}");
        }
        assert!(challenge.answer(&login, ("GET", "/dir/index.html"), cnonce).contains("nc=00000002"));
    }

    #[test]
    fn other_challenges_are_refused() {
        let check = |header: &str, known: bool| assert_eq!(Challenge::parse(header).is_some(), known, "{header}");
        check("Digest realm=\"a\\\"b\", nonce=60d5, algorithm=SHA-256, qop=\"auth\"", true);
        check("digest qop=auth,algorithm=sha-256,nonce=\"1\",realm=\"a, b\"", true);
        check("Digest realm=\"a\", nonce=\"1\", algorithm=MD5, qop=\"auth\"", false);
        check("Digest realm=\"a\", nonce=\"1\", qop=\"auth\"", false);
        check("Digest realm=\"a\", nonce=\"1\", algorithm=SHA-256", false);
        check("Digest realm=\"a\", nonce=\"1\", algorithm=SHA-256, qop=\"auth-int\"", false);
        check("Digest realm=\"a, nonce=1, algorithm=SHA-256, qop=auth", false);
        check("Digest realm=\"a\" nonce=\"1\"", false);
        check("Basic realm=\"a\"", false);
        check("Digest", false);
    }
}
