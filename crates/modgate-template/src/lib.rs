//! Go's `text/template` with Sprig's functions, as KubeMod offers them.
//!
//! [`Template::parse`] turns text into an immutable template; [`Template::render`] runs it over
//! [`Data`] within an [`Env`]. What a template does is what Go 1.27's `text/template` and Sprig
//! v3.2.2 do with the same data decoded by `encoding/json`: every JSON number is a `float64`, a
//! missing key is `<no value>`, a wrong type is an error. The law is spec `kubemod.md`, sections
//! 4.2 to 4.4 and appendix D; the proof are `conformance/languages/gotemplate.json` and
//! `sprig.json`.
//!
//! This crate deliberately does not read a clock, random numbers, the network or the
//! environment. Functions that need one ask the [`Host`], which may refuse;
//! [`Template::impure_functions`] names those a template calls.
//!
//! ```
//! use modgate_template::{Env, Isolated, PatchContext, Template, preprocess};
//! use modgate_value::{Budget, Value};
//!
//! let text = preprocess("{{ .SelectedItem | upper }}-{{ .#0 }}");
//! let template = Template::parse("spec.patch[0].value", &text)?;
//! let (target, item) = (Value::Null, Value::from("a"));
//! let context = PatchContext {
//!     target: &target,
//!     namespace: "default",
//!     selected_item: Some(&item),
//!     select_key_parts: &[modgate_template::KeyPart::Index(7)],
//! };
//! let env = Env { budget: &Budget::unlimited(), host: &Isolated };
//! assert_eq!(template.render(context, &env)?, "A-7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! Rendering spends its [`Budget`](modgate_value::Budget): a step for every node, call and element,
//! a byte for every byte of text and for the room lists and maps take, whether or not they reach
//! the output. Texts are at most 1 MiB long and nest at most 100 levels; 250 blocks, parentheses
//! and template calls may be open at once. Values nest at most
//! [`MAX_DEPTH`](modgate_value::MAX_DEPTH) levels and a few.
//!
//! # Differences
//!
//! Over some 200,000 generated templates compared with Go, these remain. What in Go depends on
//! chance or on memory: the order of `keys`, `values` and of a `range` over a changing map (here
//! sorted), addresses (here what is there), what lies between the length and the capacity of a
//! slice (here an error), the monotonic reading in `{{ now }}` (left out). `sortAlpha` sorts a copy
//! where Sprig sorts a list of strings in place. Most text functions see U+FFFD where a string is
//! not UTF-8. `printf` knows times, versions and complex numbers by their text only, and `%#v`
//! prints nil lists as empty ones. Keys of curves other than P-256 are not read.
//! Where Go panics or exhausts memory, here is an error.

mod coverage;
mod cx;
mod data;
mod env;
mod equal;
mod error;
mod exec;
mod fault;
mod funcs;
mod number;
mod pki;
mod print;
mod program;
mod reads;
mod semver;
mod syntax;
mod template;
mod text;
mod time;
mod unicode;
mod val;

pub use coverage::Place;
pub use data::{Data, KeyPart, PatchContext, RejectContext, offset_before, preprocess};
pub use env::{Env, Host, Isolated, Refused};
pub use error::{ParseError, RenderError};
pub use funcs::{Functions, function_names};
pub use template::Template;
