//! Ports of a run that the host may connect to: `--publish 3000`, `--publish 8080:3000`.

use core::fmt;
use core::num::NonZeroU16;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A port of the host's loopback address that leads to a port inside a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublishedPort {
    /// The port on 127.0.0.1 of the host.
    pub host: NonZeroU16,
    /// The port inside the run.
    pub inside: NonZeroU16,
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host == self.inside {
            return self.inside.fmt(f);
        }
        write!(f, "{}:{}", self.host, self.inside)
    }
}

impl FromStr for PublishedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |part: &str| {
            part.parse::<NonZeroU16>().map_err(|_| {
                format!("`{text}` is not a port; write a number such as 3000, or HOST_PORT:PORT such as 8080:3000")
            })
        };
        match text.split_once(':') {
            None => port(text).map(|both| Self { host: both, inside: both }),
            Some((host, inside)) => Ok(Self { host: port(host)?, inside: port(inside)? }),
        }
    }
}

convert_by_text!(PublishedPort);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_and_written_alike() {
        for text in ["1", "3000", "65535", "8080:3000"] {
            assert_eq!(text.parse::<PublishedPort>().unwrap().to_string(), text);
        }
        assert_eq!("3000:3000".parse::<PublishedPort>().unwrap().to_string(), "3000");
        for text in
            ["", "0", "0:3000", "65536", "x", "1:2:3", ":3000", "3000:", "127.0.0.1:80", "-1", " 1"]
        {
            assert!(text.parse::<PublishedPort>().is_err(), "{text}");
        }
    }
}
