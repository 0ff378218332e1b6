//! Kubernetes' structural schemas: the OpenAPI v3 schemas of custom resources.
//!
//! A [`Schema`] is decoded once ([`Schema::from_value`]), checked once ([`Schema::problems`]) and
//! then asked about values as often as needed: [`Schema::validate`], [`Schema::unknown_fields`],
//! [`Schema::fill_defaults`]. Errors are [`FieldError`]s with the API server's own words and field
//! paths, because they are what users of custom resources know
//! (`apiextensions-apiserver/pkg/apiserver/{schema,validation}` and
//! `kube-openapi/pkg/validation/validate`). Where those walk a Go map and so report in random
//! order, we report in the order of the names.
//!
//! # Limits
//!
//! - A schema nests at most [`MAX_SCHEMA_DEPTH`] levels.
//! - Rules of `x-kubernetes-validations` are checked for their form and neither compiled nor
//!   evaluated: of all readers of a constraint only the API server evaluates them.
//! - `x-kubernetes-list-type` is checked in schemas, not enforced on values, as in Gatekeeper.

mod checks;
mod clean;
mod decode;
mod defaults;
mod error;
mod formats;
mod legacy;
pub mod names;
mod path;
mod prune;
mod structural;
mod validate;

use std::sync::{Arc, OnceLock};

use modgate_value::{Number, Str, Value, regex};

pub use self::{
    clean::clean,
    error::{FieldError, aggregate},
    legacy::{UnsupportedItems, preserve_unknown_fields},
};

/// How deep schemas may nest; Kubernetes' own stay below a fifth of this.
pub const MAX_SCHEMA_DEPTH: usize = 100;

/// A decoded schema, a node of the tree or all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// `type`; empty when not given.
    kind: Str,
    description: bool,
    title: bool,
    default: Option<Value>,
    nullable: bool,
    format: Str,
    maximum: Option<Number>,
    exclusive_maximum: bool,
    minimum: Option<Number>,
    exclusive_minimum: bool,
    multiple_of: Option<Number>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<Pattern>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    unique_items: bool,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    required: Vec<Str>,
    enumeration: Vec<Value>,
    items: Option<Items>,
    /// Sorted by name; shared between schemas that differ elsewhere.
    properties: Vec<(Str, Arc<Schema>)>,
    additional_properties: Option<Additional>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    preserve_unknown_fields: Option<bool>,
    embedded_resource: bool,
    int_or_string: bool,
    list_type: Option<Str>,
    list_map_keys: Vec<Str>,
    map_type: Option<Str>,
    validations: Vec<Rule>,
    unsupported: Unsupported,
}

/// `items`.
#[derive(Debug, Clone, PartialEq)]
enum Items {
    One(Box<Schema>),
    /// One schema per position, which CRDs may not have.
    Many(Vec<Schema>),
}

/// `additionalProperties`.
#[derive(Debug, Clone, PartialEq)]
enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// `pattern`, compiled; that of a schema of our own only when a value is held against it.
#[derive(Debug, Clone)]
struct Pattern {
    text: Str,
    regex: OnceLock<Result<regex::GoRegex, regex::Error>>,
}

impl Pattern {
    /// Without an allowance, the pattern is one of our own.
    fn new(text: Str, patterns: Option<&regex::Allowance>) -> Self {
        let regex = OnceLock::new();
        if let Some(patterns) = patterns {
            regex.get_or_init(|| patterns.compile(&text));
        }
        Self { text, regex }
    }

    fn regex(&self) -> &Result<regex::GoRegex, regex::Error> {
        self.regex.get_or_init(|| regex::GoRegex::new(&self.text))
    }

    /// Why it is no pattern. Those of our own are.
    fn error(&self) -> Option<&regex::Error> {
        self.regex.get()?.as_ref().err()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// One entry of `x-kubernetes-validations`, as far as its form is checked.
#[derive(Debug, Clone, Default, PartialEq)]
struct Rule {
    rule: Str,
    message: Str,
    message_expression: Str,
    reason: Option<Str>,
    field_path: Str,
}

/// Keywords that JSON Schema has and CRDs may not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Unsupported {
    id: bool,
    schema: bool,
    reference: bool,
    additional_items: bool,
    pattern_properties: bool,
    definitions: bool,
    dependencies: bool,
}

impl Schema {
    /// The schema of one property.
    pub fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.properties.get(at).map(|(_, schema)| &**schema)
    }

    /// This schema with the property at `path` added or replaced; what is not on the path is
    /// shared. Parents that are missing are made, with nothing else in them.
    #[must_use]
    pub fn with_property(&self, path: &[&str], schema: Self) -> Self {
        let Some((name, below)) = path.split_first() else { return schema };
        let found = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name));
        let mut changed = self.clone();
        let inside = self.property(name).cloned().unwrap_or_default();
        let entry = (Str::from(*name), Arc::new(inside.with_property(below, schema)));
        match found {
            Ok(at) => drop(changed.properties.splice(at..=at, [entry])),
            Err(at) => changed.properties.insert(at, entry),
        }
        changed
    }

    /// The schema of list elements.
    fn item(&self) -> Option<&Self> {
        match &self.items {
            Some(Items::One(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of members that are no properties.
    fn additional(&self) -> Option<&Self> {
        match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    fn preserves(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }
}
