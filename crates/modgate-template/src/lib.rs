//! Go's `text/template` with Sprig's functions, as KubeMod offers them.
//!
//! [`Template::parse`] turns text into an immutable template; [`Template::render`] runs it over
//! [`Data`] within an [`Env`].

mod cx;
mod data;
mod env;
mod equal;
mod error;
mod exec;
mod funcs;
mod pki;
mod print;
mod semver;
mod syntax;
mod template;
mod text;
mod time;
mod unicode;
mod url;
mod val;

pub use data::{Data, KeyPart, PatchContext, RejectContext, preprocess};
pub use env::{Env, Host, Isolated, Refused};
pub use error::{ParseError, RenderError};
pub use template::{Functions, Template};
