//! Binding of the tasks of a job to the cores of its allocation.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The CPUs of its job on a node that one of several tasks may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CpuBind {
    /// All of them.
    #[default]
    None,
    /// Cores of its own.
    Cores,
    /// Those in the sockets of its own cores.
    Sockets,
    /// Those in the NUMA nodes of its own cores.
    Numa,
}

/// An unknown binding.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not `none`, `cores`, `sockets` or `numa`")]
pub struct CpuBindError(String);

impl FromStr for CpuBind {
    type Err = CpuBindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "cores" => Ok(Self::Cores),
            "sockets" => Ok(Self::Sockets),
            "numa" => Ok(Self::Numa),
            other => Err(CpuBindError(other.chars().take(64).collect())),
        }
    }
}

impl fmt::Display for CpuBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Cores => "cores",
            Self::Sockets => "sockets",
            Self::Numa => "numa",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_survive_text() {
        for bind in [CpuBind::None, CpuBind::Cores, CpuBind::Sockets, CpuBind::Numa] {
            assert_eq!(bind.to_string().parse(), Ok(bind));
        }
        let error = "rank".parse::<CpuBind>().expect_err("unknown").to_string();
        assert_eq!(error, "`rank` is not `none`, `cores`, `sockets` or `numa`");
    }
}
