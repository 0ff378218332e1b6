//! Errors with their causes.

use std::{
    error::Error,
    fmt,
    io::{self, ErrorKind},
    iter,
};

/// An error with its causes on one line, each once. Where no connection came about, what happened and what to
/// do about it instead: the caller names the address.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(words) = causes(self.0).find_map(in_words) {
            return f.write_str(words);
        }
        let mut text = String::new();
        for cause in causes(self.0) {
            let cause = cause.to_string();
            // The number says nothing that the text does not.
            let cause = cause.split(" (os error ").next().unwrap_or_default();
            if text.contains(cause) {
                continue;
            }
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(cause);
        }
        f.write_str(&text)
    }
}

/// An error and its causes.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        error.source()
    })
}

/// A failure of a connection in words.
fn in_words(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let error = error.downcast_ref::<io::Error>()?;
    Some(match error.kind() {
        ErrorKind::ConnectionRefused => {
            "connection refused: nothing listens at this address; check the address, and that the server runs"
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "there is no route to this address; check the address and the network"
        }
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            "the other side closed the connection"
        }
        _ if error.to_string().contains("failed to lookup address information") => {
            "no address is known for this host; check its name and the DNS"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] io::Error);

    #[test]
    fn causes_in_words() {
        let of = |kind, text: &'static str| io::Error::new(kind, text);
        for (error, expected) in [
            (
                Outer("client error", of(ErrorKind::InvalidData, "bad record")),
                "client error: bad record",
            ),
            (Outer("bad record", of(ErrorKind::InvalidData, "bad record")), "bad record"),
            (
                Outer("client error", io::Error::from_raw_os_error(13)),
                "client error: Permission denied",
            ),
            (
                Outer("client error", io::Error::from_raw_os_error(111)),
                "connection refused: nothing listens at this address; check the address, and that the server runs",
            ),
            (
                Outer(
                    "client error",
                    of(ErrorKind::Other, "failed to lookup address information: x"),
                ),
                "no address is known for this host; check its name and the DNS",
            ),
        ] {
            assert_eq!(Chain(&error).to_string(), expected);
        }
        let alone = of(ErrorKind::ConnectionReset, "reset");
        assert_eq!(Chain(&alone).to_string(), "the other side closed the connection");
    }
}
