//! Reading a case member by member, so that nothing in a file is silently ignored.

use std::cell::RefCell;

use anyhow::{Context as _, Result, bail};
use modgate_value::{Object, Value};

/// An object of a corpus file; [`Members::finish`] fails if a member was never asked for.
pub struct Members<'a> {
    object: &'a Object,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Members<'a> {
    /// The members of an object.
    ///
    /// # Errors
    ///
    /// When `value` is something else.
    pub fn of(value: &'a Value) -> Result<Self> {
        let object = value.as_object().context("expected an object")?;
        Ok(Self { object, asked: RefCell::new(Vec::new()) })
    }

    /// The member `key`, if there is one.
    pub fn optional(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().push(key);
        self.object.get(key)
    }

    /// The member `key`.
    ///
    /// # Errors
    ///
    /// When it is missing.
    pub fn required(&self, key: &'static str) -> Result<&'a Value> {
        self.optional(key).with_context(|| format!("member `{key}` is missing"))
    }

    /// The text `key`.
    ///
    /// # Errors
    ///
    /// When it is missing or something else.
    pub fn text(&self, key: &'static str) -> Result<&'a str> {
        self.required(key)?.as_str().with_context(|| format!("`{key}` is not a string"))
    }

    /// The text `key`, if there is one.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn optional_text(&self, key: &'static str) -> Result<Option<&'a str>> {
        let Some(value) = self.optional(key) else { return Ok(None) };
        Ok(Some(value.as_str().with_context(|| format!("`{key}` is not a string"))?))
    }

    /// The boolean `key`; false if it is missing.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn flag(&self, key: &'static str) -> Result<bool> {
        let Some(value) = self.optional(key) else { return Ok(false) };
        value.as_bool().with_context(|| format!("`{key}` is not a boolean"))
    }

    /// The list `key`.
    ///
    /// # Errors
    ///
    /// When it is missing or something else.
    pub fn list(&self, key: &'static str) -> Result<&'a [Value]> {
        Ok(self.required(key)?.as_array().with_context(|| format!("`{key}` is not a list"))?)
    }

    /// The elements of an optional list; none if it is missing.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn optional_list(&self, key: &'static str) -> Result<&'a [Value]> {
        let Some(value) = self.optional(key) else { return Ok(&[]) };
        Ok(value.as_array().with_context(|| format!("`{key}` is not a list"))?)
    }

    /// Members that only describe: read by people.
    pub fn notes(&self, keys: &[&'static str]) {
        self.asked.borrow_mut().extend(keys);
    }

    /// Fails if the object has members that were never read.
    ///
    /// # Errors
    ///
    /// Names the first such member.
    pub fn finish(self) -> Result<()> {
        let asked = self.asked.into_inner();
        if let Some(unknown) = self.object.keys().find(|key| !asked.contains(&key.as_str())) {
            bail!("member `{unknown}` is not one this suite knows");
        }
        Ok(())
    }
}
