//! Currency of a cluster. A label: amounts are never exchanged.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Currency that this process has agreed on.
static AGREED: OnceLock<Currency> = OnceLock::new();

/// Currency as a code of ISO 4217, three capital letters.
///
/// A process has one currency: the first that it reads in a setting, a file, an argument or its master's greeting. All
/// prices and amounts are in it, and another one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency([u8; 3]);

/// Reason why a currency is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum CurrencyError {
    #[error("`{text}` is not a currency: write its code, for example `EUR`")]
    NoCode { text: String },
    #[error("{found} is another currency than {agreed}: all prices and amounts of a cluster must be in one")]
    Other { found: Currency, agreed: Currency },
}

impl Currency {
    /// Currency of a process that has read none.
    pub const EUR: Self = Self(*b"EUR");

    /// Reads a code, and leaves open if it is the currency of this process.
    pub fn of_code(text: &str) -> Option<Self> {
        let code = <[u8; 3]>::try_from(text.as_bytes()).ok()?;
        code.iter().all(u8::is_ascii_uppercase).then_some(Self(code))
    }

    /// Returns the currency in the title of a column, such as `price_eur_per_mwh`.
    pub fn of_title(title: &str) -> Option<Self> {
        let code = title.strip_prefix("price_")?.strip_suffix("_per_mwh")?;
        let is_lower = code.bytes().all(|byte| byte.is_ascii_lowercase());
        is_lower.then(|| code.to_ascii_uppercase()).and_then(|code| Self::of_code(&code))
    }

    /// Returns the currency of this process.
    pub fn agreed() -> Self {
        *AGREED.get().unwrap_or(&Self::EUR)
    }

    /// Makes it the currency of this process, unless there is one.
    ///
    /// # Errors
    /// [`CurrencyError::Other`] if there is another one.
    pub fn agree(self) -> Result<(), CurrencyError> {
        let agreed = *AGREED.get_or_init(|| self);
        if agreed == self { Ok(()) } else { Err(CurrencyError::Other { found: self, agreed }) }
    }

    /// Returns the code.
    pub fn code(&self) -> &str {
        // It has only capital letters.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Default for Currency {
    fn default() -> Self {
        Self::EUR
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Agrees on the currency.
impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let currency = Self::of_code(text).ok_or_else(|| CurrencyError::NoCode { text: text.to_owned() })?;
        currency.agree()?;
        Ok(currency)
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_currency() {
        // Other tests of this process read amounts in EUR, too.
        assert_eq!("EUR".parse(), Ok(Currency::EUR));
        assert_eq!(Currency::agreed(), Currency::EUR);
        let other = "DKK".parse::<Currency>().map_err(|error| error.to_string());
        let expected = "DKK is another currency than EUR: all prices and amounts of a cluster must be in one";
        assert_eq!(other, Err(expected.to_owned()));
        assert_eq!(Currency::of_title("price_gbp_per_mwh"), Currency::of_code("GBP"));
        assert_eq!(Currency::of_title("price_GBP_per_mwh").or(Currency::of_title("price_per_mwh")), None);
        for text in ["eur", "EURO", "", "€"] {
            assert_eq!(text.parse::<Currency>(), Err(CurrencyError::NoCode { text: text.into() }));
        }
    }
}
