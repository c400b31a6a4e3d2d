//! Tokens with which machines join: one line each, with the number, the hash of the secret, the role, the name or `-`,
//! and the end in seconds since 1970. A used token is removed before its certificate is signed.

use std::time::{Duration, SystemTime};

use limo_identity::{CertifiedRole, Fingerprint, JoinToken, SecretHash, TokenId};

use crate::directory::{Directory, lines, seconds, write};
use crate::error::DirectoryError;
use crate::issued::Issued;

pub(crate) const TOKENS_FILE: &str = "tokens";

/// Most tokens that are neither used nor expired.
pub const TOKENS_LIMIT: usize = 1000;

/// Word for a token without a name.
const ANY_NAME: &str = "-";

/// Role and name for which a token is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Role of the certificate.
    pub role: CertifiedRole,
    /// Name of the certificate; without one, the joining machine chooses a name without a valid certificate.
    pub name: Option<String>,
}

/// A stored token.
#[derive(Debug, Clone)]
struct StoredToken {
    id: TokenId,
    hash: SecretHash,
    admission: Admission,
    until: u64,
}

impl StoredToken {
    fn line(&self) -> String {
        let Self { id, hash, admission: Admission { role, name }, until } = self;
        format!("{id} {hash} {role} {} {until}\n", name.as_deref().unwrap_or(ANY_NAME))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (id, hash) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let role = words.next()?.parse().ok()?;
        let name = Some(words.next()?).filter(|name| *name != ANY_NAME).map(str::to_owned);
        let until = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Self { id, hash, admission: Admission { role, name }, until })
    }
}

impl Directory {
    fn tokens(&self) -> Result<Vec<StoredToken>, DirectoryError> {
        let path = self.file(TOKENS_FILE);
        let parsed = |line: String| {
            StoredToken::parse(&line).ok_or_else(|| DirectoryError::Line { path: path.clone(), line: line.clone() })
        };
        lines(&path)?.into_iter().map(parsed).collect()
    }

    fn write_tokens(&self, tokens: &[StoredToken]) -> Result<(), DirectoryError> {
        write(&self.file(TOKENS_FILE), 0o600, &tokens.iter().map(StoredToken::line).collect::<String>())
    }

    /// Makes a token that is valid for `life`, and stores its hash.
    ///
    /// # Errors
    /// If there are too many, the kernel gives no random numbers, or the file cannot be written.
    pub fn make_token(
        &self,
        authority: Fingerprint,
        admission: Admission,
        (life, now): (Duration, SystemTime),
    ) -> Result<JoinToken, DirectoryError> {
        let token = JoinToken::new(authority)?;
        let _lock = self.lock()?;
        let mut tokens = self.tokens()?;
        tokens.retain(|token| seconds(now) < token.until);
        if tokens.len() >= TOKENS_LIMIT {
            return Err(DirectoryError::TooManyTokens);
        }
        let until = seconds(now).saturating_add(life.as_secs());
        tokens.push(StoredToken { id: token.id(), hash: token.hash(), admission, until });
        self.write_tokens(&tokens)?;
        Ok(token)
    }

    /// Uses up a token for a machine that wants this role and this name. A wrong role or name does not use it up.
    ///
    /// # Errors
    /// If the token is unknown, used, or expired; if it is for another role or name; or if it has no name and the name
    /// belongs to another machine.
    pub fn use_token(
        &self,
        token: &JoinToken,
        (role, name): (CertifiedRole, &str),
        now: SystemTime,
    ) -> Result<(), DirectoryError> {
        let _lock = self.lock()?;
        let mut tokens = self.tokens()?;
        let is_same = |stored: &StoredToken| stored.id == token.id() && stored.hash.is(&token.hash());
        let place = tokens.iter().position(is_same).ok_or(DirectoryError::UnknownToken)?;
        let StoredToken { admission, until, .. } = tokens.swap_remove(place);
        if until <= seconds(now) {
            return Err(DirectoryError::ExpiredToken);
        }
        if admission.role != role {
            return Err(DirectoryError::OtherRole { expected: admission.role, found: role });
        }
        match admission.name {
            Some(expected) if expected != name => {
                return Err(DirectoryError::OtherName { expected, found: name.to_owned() });
            }
            Some(_) => {}
            None => self.check_free((role, name), now)?,
        }
        self.write_tokens(&tokens)
    }

    /// Checks that no machine has a valid certificate of this role and name.
    fn check_free(&self, (role, name): (CertifiedRole, &str), now: SystemTime) -> Result<(), DirectoryError> {
        let is_same = |issued: &Issued| issued.identity.role() == role && issued.identity.name() == name;
        let all = self.issued()?;
        match all.iter().any(|(issued, is_revoked)| is_same(issued) && issued.is_valid(seconds(now)) && !is_revoked) {
            true => Err(DirectoryError::NameInUse { role, name: name.to_owned() }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use limo_identity::KeyRequest;

    use super::*;
    use crate::Wish;

    const HOUR: Duration = Duration::from_secs(3600);
    const NODE: CertifiedRole = CertifiedRole::Node;

    fn directory() -> (tempfile::TempDir, Directory, Fingerprint) {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = Directory::new(dir.path().join("tls"));
        let authority = directory.init(None, SystemTime::now()).expect("made");
        let fingerprint = Fingerprint::of(authority.certificate()).expect("a certificate");
        (dir, directory, fingerprint)
    }

    fn admission(name: Option<&str>) -> Admission {
        Admission { role: NODE, name: name.map(str::to_owned) }
    }

    fn refused(result: Result<(), DirectoryError>) -> String {
        result.expect_err("refused").to_string()
    }

    #[test]
    fn a_token_is_used_once_for_its_role_and_its_name_before_its_end() {
        let (_dir, directory, fingerprint) = directory();
        let now = SystemTime::now();
        let token = directory.make_token(fingerprint, admission(Some("n1")), (HOUR, now)).expect("a token");
        let text = std::fs::read_to_string(directory.file(TOKENS_FILE)).expect("stored");
        let secret = token.to_string().rsplit('.').next().expect("a part").to_owned();
        assert!(text.contains(&token.id().to_string()) && !text.contains(&secret), "{text}");
        let user = directory.use_token(&token, (CertifiedRole::User, "n1"), now);
        assert_eq!(refused(user), "the token is for the role node, not for user");
        assert_eq!(refused(directory.use_token(&token, (NODE, "n2"), now)), "the token is for the name n1, not for n2");
        let forged: JoinToken =
            token.to_string().replace(&secret, &"0".repeat(40)).parse().expect("the form of a token");
        assert!(refused(directory.use_token(&forged, (NODE, "n1"), now)).starts_with("the token is unknown"));
        assert_eq!(refused(directory.use_token(&token, (NODE, "n1"), now + HOUR)), "the token has expired");
        directory.use_token(&token, (NODE, "n1"), now).expect("good");
        assert!(refused(directory.use_token(&token, (NODE, "n1"), now)).starts_with("the token is unknown"));
    }

    #[test]
    fn a_token_without_a_name_does_not_give_the_name_of_another_machine() {
        let (dir, directory, fingerprint) = directory();
        let (now, authority) = (SystemTime::now(), dir.path().join("tls"));
        let master = Wish { role: CertifiedRole::Master, name: "m1", life: None };
        let made = Directory::new(authority);
        // The authority is opened by the certificate of the master.
        let key = limo_identity::Authority::new(limo_model::ClusterId([1; 16]), now).expect("an authority");
        made.issue(&key, master, made.path(), now).expect("issued");
        let request = KeyRequest::new().expect("a key");
        let wish = Wish { role: NODE, name: "n1", life: Some(HOUR) };
        let (issued, _) = made.sign(&key, request.request(), wish, now).expect("signed");
        let token = directory.make_token(fingerprint, admission(None), (HOUR * 3, now)).expect("a token");
        assert_eq!(refused(directory.use_token(&token, (NODE, "n1"), now)), "node/n1 has a valid certificate");
        directory.use_token(&token, (NODE, "n2"), now).expect("a free name");
        let token = directory.make_token(fingerprint, admission(None), (HOUR * 3, now)).expect("a token");
        // One second after its end.
        directory.use_token(&token, (NODE, "n1"), now + HOUR + Duration::from_secs(1)).expect("it has expired");
        let token = directory.make_token(fingerprint, admission(None), (HOUR, now)).expect("a token");
        directory.revoke(&[issued.serial]).expect("revoked");
        directory.use_token(&token, (NODE, "n1"), now).expect("it is revoked");
    }

    #[test]
    fn the_number_of_tokens_is_bounded_and_expired_ones_do_not_count() {
        let (_dir, directory, fingerprint) = directory();
        let now = SystemTime::now();
        let make = |now| directory.make_token(fingerprint, admission(None), (HOUR, now)).map(drop);
        make(now).expect("the first");
        let one = directory.tokens().expect("readable").remove(0);
        directory.write_tokens(&vec![one; TOKENS_LIMIT - 1]).expect("written");
        make(now).expect("the last");
        let error = make(now).expect_err("too many").to_string();
        assert_eq!(error, "there are 1000 tokens that are neither used nor expired, which is the limit");
        make(now + HOUR).expect("all others have expired");
        assert_eq!(directory.tokens().expect("readable").len(), 1);
    }
}
