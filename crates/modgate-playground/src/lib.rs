//! The engine of the playground: texts in, what `review -o json` and `explain -o json` print out.
//!
//! [`answer`] is the one function: a request as JSON, an answer as JSON. The page runs it as WebAssembly
//! (`modgate-playground-wasm`), tests run it natively. [`Playground`] answers many, and keeps the policies of some
//! requests, because a person changes one text after the other. It reads files from the request instead of folders,
//! and otherwise takes the same path as the command line: documents are sorted by
//! [`modgate_review::sorted`], decided by [`Snapshot::decide`](modgate_engine::Snapshot::decide), and written
//! by [`modgate_review::decision`]. Read [`Request`] and [`Answer`] first.
//!
//! What this crate deliberately does not do: IO. Time and the seed of random values are part of the request.
//!
//! ```
//! let answer = modgate_playground::answer(r#"{"policies": [], "objects": []}"#);
//! assert!(answer.contains("there is no policy"));
//! ```
//!
//! # Limits
//!
//! Evaluations have the budgets of the command line without those of time, because there is no clock: the
//! page ends a module that takes too long.

mod attributes;
mod coverage;
mod kept;
mod machine;
mod request;
mod run;

pub use self::{
    coverage::Reach,
    request::{Attributes, File, Request},
    run::{Answer, Mark, Subject},
};

/// Answers requests one after the other. Its answers do not depend on the requests before.
#[derive(Debug, Default)]
pub struct Playground {
    kept: kept::Kept,
}

impl Playground {
    /// One that has answered nothing.
    pub const fn new() -> Self {
        Self { kept: kept::Kept::new() }
    }

    /// Answers a request: an [`Answer`] as JSON, or `{"error": …}` if the request is none.
    pub fn answer(&mut self, request: &str) -> String {
        let answer = serde_json::from_str::<Request>(request)
            .map_err(|error| error.to_string())
            .and_then(|request| {
                let answer = run::run(&request, &mut self.kept);
                serde_json::to_string(&answer).map_err(|it| it.to_string())
            });
        answer.unwrap_or_else(|error| serde_json::json!({ "error": error }).to_string())
    }
}

/// Answers one request, as [`Playground::answer`] does.
pub fn answer(request: &str) -> String {
    Playground::new().answer(request)
}
