//! The template itself.

use std::sync::Arc;

use modgate_value::regex::Allowance;

use modgate_value::Str;

use crate::{
    Data, Env, Functions, ParseError, Place, RenderError,
    coverage::Counts,
    exec,
    program::Program,
    reads,
    syntax::{self, Tree},
    text,
};

/// A parsed template: immutable, cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct Template {
    program: Arc<Program>,
    /// The coverage of renderings, if it is counted.
    counts: Option<Arc<Counts>>,
}

impl Template {
    /// Parses `text` with Sprig's functions; `name` appears in error messages.
    ///
    /// # Errors
    ///
    /// When the text is not a template, calls a function there is none of, or is too large or too
    /// deeply nested.
    pub fn parse(name: &str, text: &str) -> Result<Self, ParseError> {
        Self::parse_with(name, text, Functions::Sprig)
    }

    /// As [`Template::parse`]; the patterns that it spells out are paid from `patterns`. One for which too little
    /// is left is compiled by each rendering.
    ///
    /// # Errors
    ///
    /// As [`Template::parse`].
    pub fn parse_within(name: &str, text: &str, patterns: &Allowance) -> Result<Self, ParseError> {
        Self::parsed(name, text, Functions::Sprig, patterns)
    }

    /// Parses `text` with the chosen functions.
    ///
    /// # Errors
    ///
    /// As [`Template::parse`].
    pub fn parse_with(name: &str, text: &str, functions: Functions) -> Result<Self, ParseError> {
        Self::parsed(name, text, functions, &Allowance::default())
    }

    fn parsed(
        name: &str,
        text: &str,
        functions: Functions,
        patterns: &Allowance,
    ) -> Result<Self, ParseError> {
        let parsed = syntax::parse(name, text, functions, patterns)?;
        let mut impure: Vec<&'static str> = parsed
            .functions
            .iter()
            .filter(|function| function.impure)
            .map(|function| function.name)
            .collect();
        impure.sort_unstable();
        impure.dedup();
        let constant = parsed.trees.get(name).and_then(Tree::constant);
        let program = Program {
            name: name.into(),
            text: text.into(),
            trees: parsed.trees,
            constant: constant.map(String::into_boxed_str),
            impure: impure.into(),
            regexes: parsed.regexes,
        };
        Ok(Self { program: Arc::new(program), counts: None })
    }

    /// The same template, which counts what its renderings reach ([`places`](Self::places)). Without it, counting
    /// costs nothing.
    #[must_use]
    pub fn observed(self) -> Self {
        let counts = Some(Arc::new(Counts::of(&self.program)));
        Self { counts, ..self }
    }

    /// The places of the text in order, with what renderings reached so far; none unless the template is
    /// [observed](Self::observed).
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.counts.iter().flat_map(|counts| counts.places())
    }

    /// The name given at parse time.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// The output, if the template has no actions and so always renders the same text.
    pub fn as_constant(&self) -> Option<&str> {
        self.program.constant.as_deref()
    }

    /// The functions called anywhere in the template whose result depends on more than the data
    /// (spec `kubemod.md` Q-74): clock, randomness, keys, network. Sorted, without repeats.
    pub fn impure_functions(&self) -> &[&'static str] {
        &self.program.impure
    }

    /// The paths of fields that the template reads from its data, as far as it names them: `.Target.kind`
    /// as `["Target", "kind"]`.
    pub fn fields_read(&self) -> Vec<Vec<Str>> {
        reads::of_data(self.name(), &self.program.trees)
    }

    /// Renders over `data`.
    ///
    /// # Errors
    ///
    /// When an action fails, the budget runs out, or the output is not UTF-8.
    pub fn render<'d>(
        &self,
        data: impl Into<Data<'d>>,
        env: &Env<'_>,
    ) -> Result<String, RenderError> {
        let bytes = self.render_bytes(data, env)?;
        String::from_utf8(bytes).map_err(|_| RenderError::NotUtf8 { name: self.name().to_owned() })
    }

    /// Renders over `data` into text as Go's JSON writes it: each byte that is not part of a character is
    /// U+FFFD.
    ///
    /// # Errors
    ///
    /// When an action fails or the budget runs out.
    pub fn render_lossy<'d>(
        &self,
        data: impl Into<Data<'d>>,
        env: &Env<'_>,
    ) -> Result<String, RenderError> {
        self.render_bytes(data, env).map(|bytes| text::lossy(&bytes).into_owned())
    }

    /// Renders over `data` into bytes, which a few functions can make invalid as UTF-8.
    ///
    /// # Errors
    ///
    /// When an action fails or the budget runs out.
    pub fn render_bytes<'d>(
        &self,
        data: impl Into<Data<'d>>,
        env: &Env<'_>,
    ) -> Result<Vec<u8>, RenderError> {
        exec::run(&self.program, self.counts.as_deref(), data.into(), env)
    }
}
