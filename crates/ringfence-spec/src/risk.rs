//! Potential harm of a call: one word on each record, for people who read thousands of them. Decides nothing: rules
//! refuse calls, and the jail confines them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Potential harm of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Little: it reads, computes, or writes where it is meant to.
    Low,
    /// Some: it fetches, installs, deletes, or could not be read to the end.
    Medium,
    /// Much: it takes privileges, destroys widely, or runs fetched code.
    High,
}

impl Risk {
    /// All of them, from little to much.
    pub const ALL: &'static [Self] = &[Self::Low, Self::Medium, Self::High];

    /// The word in records and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Risk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|risk| risk.word() == text)
            .ok_or_else(|| format!("`{text}` is not a risk; choose low, medium, high"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_out_and_come_back() {
        for risk in Risk::ALL {
            assert_eq!(risk.word().parse(), Ok(*risk));
            assert_eq!(serde_json::to_string(risk).unwrap(), format!("\"{risk}\""));
        }
        assert!("extreme".parse::<Risk>().unwrap_err().contains("low, medium, high"));
        assert!(Risk::Low < Risk::High);
    }
}
