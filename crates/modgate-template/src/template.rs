//! The template itself.

use crate::{Data, Env, ParseError, RenderError};

/// A parsed template: immutable and shared between threads freely.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    text: String,
}

/// Which functions a template may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Functions {
    /// Go's own only.
    Builtin,
    /// Go's own and Sprig's generic ones, as KubeMod offers them (spec `kubemod.md`, appendix D).
    #[default]
    Sprig,
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

    /// Parses `text` with the chosen functions.
    ///
    /// # Errors
    ///
    /// As [`Template::parse`].
    pub fn parse_with(name: &str, text: &str, _functions: Functions) -> Result<Self, ParseError> {
        if text.contains("{{") {
            let message = "actions are not understood yet".to_owned();
            return Err(ParseError { name: name.to_owned(), line: 1, message, span: 0..0 });
        }
        Ok(Self { name: name.to_owned(), text: text.to_owned() })
    }

    /// The name given at parse time.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The output, if the template has no actions and so always renders the same text.
    pub fn as_constant(&self) -> Option<&str> {
        Some(&self.text)
    }

    /// The functions called anywhere in the template whose result depends on more than the data
    /// (spec `kubemod.md` Q-74): clock, randomness, keys, network. Sorted, without repeats.
    pub fn impure_functions(&self) -> &[&'static str] {
        &[]
    }

    /// Renders over `data`.
    ///
    /// # Errors
    ///
    /// When an action fails, the budget runs out, or the output is not UTF-8.
    pub fn render<'a>(
        &'a self,
        data: impl Into<Data<'a>>,
        env: &Env<'a>,
    ) -> Result<String, RenderError> {
        let bytes = self.render_bytes(data, env)?;
        String::from_utf8(bytes).map_err(|_| RenderError::NotUtf8 { name: self.name.clone() })
    }

    /// Renders over `data` into bytes, which a few functions can make invalid as UTF-8.
    ///
    /// # Errors
    ///
    /// When an action fails or the budget runs out.
    pub fn render_bytes<'a>(
        &'a self,
        _data: impl Into<Data<'a>>,
        _env: &Env<'a>,
    ) -> Result<Vec<u8>, RenderError> {
        Ok(self.text.clone().into_bytes())
    }
}
