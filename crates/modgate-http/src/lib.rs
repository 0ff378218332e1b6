//! The one HTTP client of modgate: [`Client`] calls providers of external data, registries, catalogs,
//! sidecars and collectors.
//!
//! An exchange has a deadline and a largest size ([`Bounds`]). The client follows no redirects, reads no
//! proxy settings and retries nothing; callers that try again wait as [`Backoff`] says. [`Chain`] writes
//! an error with its causes.
//!
//! ```
//! use std::{error::Error, io};
//!
//! use modgate_http::Chain;
//!
//! let cause = io::Error::new(io::ErrorKind::TimedOut, "no answer");
//! let error: Box<dyn Error> = Box::new(io::Error::other(cause));
//! assert_eq!(Chain(&*error).to_string(), "no answer");
//! ```

mod backoff;
mod chain;
mod client;

pub use self::{
    backoff::Backoff,
    chain::Chain,
    client::{Bounds, Client, ClientError, ExchangeError, Incoming, Outgoing, Stage, Trust},
};
