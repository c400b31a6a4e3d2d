//! A variant of the measured command, for another unit of the machine.

use std::str::FromStr;

use thiserror::Error;

/// Command for a unit: `nvidia-h200=./lud-cuda 4096`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Hardware or name of the unit.
    pub hardware: String,
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
}

/// Reason why a variant was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VariantError {
    #[error("the variant `{0}` has no command: write HARDWARE=COMMAND, for example `gpu0=./lud-cuda 4096`")]
    Form(String),
    #[error("the variant `{0}` has a quote that is not closed")]
    Quote(String),
}

impl FromStr for Variant {
    type Err = VariantError;

    fn from_str(text: &str) -> Result<Self, VariantError> {
        let form = || VariantError::Form(text.to_owned());
        let (hardware, command) = text.split_once('=').ok_or_else(form)?;
        let argv = shell_words::split(command).map_err(|_| VariantError::Quote(text.to_owned()))?;
        if hardware.is_empty() || argv.is_empty() {
            return Err(form());
        }
        Ok(Self { hardware: hardware.to_owned(), argv })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_a_hardware_and_the_words_of_a_command() {
        let variant: Variant = "gpu0=./lud 'a b' --x=1".parse().expect("a variant");
        assert_eq!((variant.hardware.as_str(), variant.argv.join("|")), ("gpu0", "./lud|a b|--x=1".to_owned()));
        for text in ["gpu0", "=lud", "gpu0=", "gpu0= "] {
            assert_eq!(text.parse::<Variant>(), Err(VariantError::Form(text.to_owned())));
        }
        assert!(matches!("gpu0='a".parse::<Variant>(), Err(VariantError::Quote(_))));
    }
}
