//! The pages that modgate shows in a browser.
//!
//! Their sources are TypeScript, in `ui/`. What `npm run build` makes of them is committed in `dist/`, so that
//! Cargo alone builds the binary; CI compares both. The crate does no IO: it puts data into a page.
//!
//! ```
//! use modgate_ui::Page;
//! use modgate_value::Value;
//!
//! let page = Page::new("audit", "1.2.3", Value::Null);
//! assert!(page.html().starts_with("<!doctype html>"));
//! ```

pub mod live;
pub mod playground;

use modgate_value::{
    Value,
    json::{self, Escape},
};

/// The page without data, and the place where they go.
const REPORT: &str = include_str!("../dist/report.html");
const DATA: &str = "@DATA@";

/// The result of a command as one HTML file, which loads nothing and needs no network.
#[derive(Debug, Clone)]
pub struct Page {
    /// The command, such as `audit`.
    pub command: &'static str,
    /// The version of modgate.
    pub version: &'static str,
    /// Arguments that name the policies, such as `-f`, `policies`: commands in the page repeat them.
    pub arguments: Vec<String>,
    /// The document of the command's `-o json`.
    pub document: Value,
    /// The policies, as `PolicyData` in `ui/src/report/page.ts`.
    pub policies: Vec<Value>,
    /// The objects, as `SubjectData` there; for `review` one for each result.
    pub subjects: Vec<Value>,
    /// The parts that the page leaves out, in sentences.
    pub omitted: Vec<String>,
}

impl Page {
    /// A page of a command's document alone.
    pub fn new(command: &'static str, version: &'static str, document: Value) -> Self {
        Self {
            command,
            version,
            arguments: Vec::new(),
            document,
            policies: Vec::new(),
            subjects: Vec::new(),
            omitted: Vec::new(),
        }
    }

    /// The file. Data cannot end the element that they stand in: `<` is written as an escape.
    pub fn html(self) -> String {
        let texts = |texts: Vec<String>| texts.into_iter().map(Value::from).collect::<Value>();
        let data: Value = [
            ("command", self.command.into()),
            ("modgate", self.version.into()),
            ("arguments", texts(self.arguments)),
            ("document", self.document),
            ("policies", self.policies.into()),
            ("subjects", self.subjects.into()),
            ("omitted", texts(self.omitted)),
        ]
        .into_iter()
        .collect();
        let (before, after) = REPORT.split_once(DATA).unwrap_or((REPORT, ""));
        let mut out = before.to_owned();
        json::write(&data, &mut out, Escape::Html);
        out.push_str(after);
        out
    }
}
