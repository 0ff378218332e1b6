//! Whether a value is as its schema says.
//!
//! Every validator of a node runs, in a fixed order, so that one value may have several
//! errors. Validators count what they found right; of the alternatives of an `anyOf` or `oneOf`
//! that all fail, the errors of the one with the highest count are reported.

use modgate_value::{Array, Budget, Exhausted, Number, Object, Value, gofloat, gofmt};

use super::{
    Additional, FieldError, Schema,
    error::{Numbers, as_json, shown, shown_number},
    formats::Format,
    path::Path,
};

/// The largest integer JavaScript, and so Go's schema library, trusts a float to hold.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

impl Schema {
    /// The errors of `value`, in the order in which the API server finds them. `root` is the
    /// path of the value itself in the errors' paths; messages name paths from the value on.
    ///
    /// # Errors
    ///
    /// When it takes more than `budget`.
    pub fn validate(
        &self,
        value: &Value,
        root: &str,
        budget: &Budget<'_>,
    ) -> Result<Vec<FieldError>, Exhausted> {
        self.validate_as(value, root, Numbers::Floats, budget)
    }

    pub(super) fn validate_as(
        &self,
        value: &Value,
        root: &str,
        numbers: Numbers,
        budget: &Budget<'_>,
    ) -> Result<Vec<FieldError>, Exhausted> {
        let mut errors = Vec::new();
        Validator { root, numbers, budget }.node(self, value, &Path::Root(""), &mut errors)?;
        Ok(errors)
    }

    /// The types a value may have: `x-kubernetes-int-or-string` stands for two.
    fn types(&self, numbers: Numbers) -> &[&str] {
        if self.int_or_string && numbers == Numbers::Floats {
            return &["integer", "string"];
        }
        match self.kind.as_str() {
            "array" => &["array"],
            "boolean" => &["boolean"],
            "integer" => &["integer"],
            "number" => &["number"],
            "object" => &["object"],
            "string" => &["string"],
            _ => &[],
        }
    }

    /// `format`, unless it says nothing about the schema's type.
    fn effective_format(&self, numbers: Numbers) -> &str {
        // Defaults are checked against the schema as written, including unknown formats.
        if numbers == Numbers::Exact {
            return &self.format;
        }
        let known = match self.types(numbers) {
            [] | ["string"] | ["integer", "string"] => Format::named(&self.format).is_some(),
            ["integer"] => matches!(self.format.as_str(), "int32" | "int64"),
            ["number"] => matches!(self.format.as_str(), "float" | "double"),
            _ => false,
        };
        if known { &self.format } else { "" }
    }
}

struct Validator<'a> {
    root: &'a str,
    numbers: Numbers,
    budget: &'a Budget<'a>,
}

type Errors = Vec<FieldError>;

impl Validator<'_> {
    /// Adds what is wrong with `value`; the count of what is right.
    fn node(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        self.budget.spend(1)?;
        let types = schema.types(self.numbers);
        let format = schema.effective_format(self.numbers);
        if value.is_null() {
            let accepted = types.is_empty() || schema.nullable;
            if !accepted {
                self.wrong_type(path, &types.join(","), "null", errors)?;
            }
            self.enumeration(schema, value, path, errors)?;
            return Ok(accepted.into());
        }
        let mut right = 0;
        if !types.is_empty() || !format.is_empty() {
            right += 1 + self.kind(types, format, value, path, errors)?;
        }
        right += 1 + self.junctors(schema, value, path, errors)?;
        match value {
            Value::String(text) => {
                right += 1;
                self.text(schema, text, path, errors)?;
                if let Some(known) = Format::named(format) {
                    right += 1;
                    self.budget.spend(text.len() as u64)?;
                    if !known.admits(text) {
                        self.wrong_type(path, format, text, errors)?;
                    }
                }
            }
            Value::Number(number) => {
                self.number(schema, types, format, number, path, errors)?;
                right += 2;
            }
            Value::Array(items) => right += 2 + self.list(schema, items, path, errors)?,
            _ => {}
        }
        self.enumeration(schema, value, path, errors)?;
        right += 1;
        if let Value::Object(members) = value {
            right += 1 + self.object(schema, members, path, errors)?;
        }
        Ok(right + 1)
    }

    /// Adds an error whose message names `path`.
    fn push(&self, error: FieldError, errors: &mut Errors) -> Result<(), Exhausted> {
        self.budget.allocate(error.path.len() + error.problem.len())?;
        errors.push(error);
        Ok(())
    }

    /// Where an error about `path` is reported.
    fn place(&self, path: &Path<'_>) -> String {
        let below = path.to_string();
        match below.strip_prefix('.').unwrap_or(&below) {
            "" => self.root.to_owned(),
            below => format!("{}.{below}", self.root),
        }
    }

    fn invalid(
        &self,
        path: &Path<'_>,
        shown: &str,
        message: &str,
        errors: &mut Errors,
    ) -> Result<(), Exhausted> {
        let message = format!("{path} in body {message}");
        self.push(FieldError::invalid_shown(&self.place(path), shown, &message), errors)
    }

    /// An error that Kubernetes does not connect to a field.
    fn anywhere(&self, message: &str, errors: &mut Errors) -> Result<(), Exhausted> {
        self.push(FieldError::invalid(&self.root, "", message), errors)
    }

    fn wrong_type(
        &self,
        path: &Path<'_>,
        expected: &str,
        actual: &str,
        errors: &mut Errors,
    ) -> Result<(), Exhausted> {
        let actual = gofmt::quote(actual);
        let message = format!("must be of type {expected}: {actual}");
        self.invalid(path, &actual, &message, errors)
    }

    /// The type, or the count 0.
    fn kind(
        &self,
        types: &[&str],
        format: &str,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let (actual, actual_format) = match value {
            Value::Number(number) if self.integer(number).is_some() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            other => (other.type_name(), ""),
        };
        let fits = types.contains(&actual)
            || (actual == "integer" && types.contains(&"number"))
            || (actual == "number"
                && types.contains(&"integer")
                && value.as_number().is_some_and(|number| is_integral(number.as_f64())));
        let is_sequence = matches!(value, Value::String(_) | Value::Array(_));
        let is_format_for_others = !format.is_empty() && actual_format != format;
        if is_format_for_others && !is_sequence && !fits {
            self.wrong_type(path, format, actual_format, errors)?;
            return Ok(0);
        }
        // Texts and, oddly, lists are left to the format where there is one.
        let is_numeric = types.contains(&"number") || types.contains(&"integer");
        if (!format.is_empty() && is_sequence && !is_numeric) || fits {
            return Ok(1);
        }
        self.wrong_type(path, &types.join(","), actual, errors)?;
        Ok(0)
    }

    /// The integer Go holds the number as, if it does.
    fn integer(&self, number: &Number) -> Option<i64> {
        let is_integer = self.numbers == Numbers::Exact && number.is_integer_text();
        is_integer.then(|| number.as_i64()).flatten()
    }

    fn alternative(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
    ) -> Result<(u64, Errors), Exhausted> {
        let mut errors = Vec::new();
        let right = self.node(schema, value, path, &mut errors)?;
        Ok((right, errors))
    }

    fn junctors(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let mut right = 1;
        if !schema.any_of.is_empty() {
            right += self.any_of(&schema.any_of, value, path, errors)?;
        }
        if !schema.one_of.is_empty() {
            right += self.one_of(&schema.one_of, value, path, errors)?;
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for clause in &schema.all_of {
                let (count, found) = self.alternative(clause, value, path)?;
                right += count;
                valid += usize::from(found.is_empty());
                errors.extend(found);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.junctor(path, &format!("validate all the schemas (allOf){none}"), errors)?;
            }
        }
        if let Some(not) = &schema.not
            && self.alternative(not, value, path)?.1.is_empty()
        {
            self.junctor(path, "not validate the schema (not)", errors)?;
        }
        Ok(right)
    }

    fn junctor(&self, path: &Path<'_>, must: &str, errors: &mut Errors) -> Result<(), Exhausted> {
        let message = format!("{} must {must}", gofmt::quote(&path.to_string()));
        self.anywhere(&message, errors)
    }

    fn any_of(
        &self,
        clauses: &[Schema],
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let mut best: Option<(u64, Errors)> = None;
        for clause in clauses {
            let (count, found) = self.alternative(clause, value, path)?;
            if found.is_empty() {
                return Ok(count);
            }
            if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, found));
            }
        }
        self.junctor(path, "validate at least one schema (anyOf)", errors)?;
        let (count, found) = best.unwrap_or_default();
        errors.extend(found);
        Ok(count)
    }

    fn one_of(
        &self,
        clauses: &[Schema],
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let mut best: Option<(u64, Errors)> = None;
        let mut valid: Vec<u64> = Vec::new();
        for clause in clauses {
            let (count, found) = self.alternative(clause, value, path)?;
            if found.is_empty() {
                valid.push(count);
            } else if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, found));
            }
        }
        let found = match valid.as_slice() {
            [count] => return Ok(*count),
            [] => "Found none valid".to_owned(),
            several => format!("Found {} valid alternatives", several.len()),
        };
        self.junctor(path, &format!("validate one and only one schema (oneOf). {found}"), errors)?;
        let (count, found) = best.filter(|_| valid.is_empty()).unwrap_or_default();
        errors.extend(found);
        Ok(count)
    }

    /// The first of length and pattern that is wrong.
    fn text(
        &self,
        schema: &Schema,
        text: &str,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<(), Exhausted> {
        if schema.max_length.is_none() && schema.min_length.is_none() && schema.pattern.is_none() {
            return Ok(());
        }
        self.budget.spend(text.len() as u64)?;
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(limit) = schema.max_length.filter(|limit| length > *limit) {
            return self.push(FieldError::too_long(&self.place(path), limit), errors);
        }
        if let Some(limit) = schema.min_length.filter(|limit| length < *limit) {
            let message = format!("should be at least {limit} chars long");
            return self.invalid(path, &gofmt::quote(text), &message, errors);
        }
        if let Some(pattern) = &schema.pattern {
            let message = match pattern.regex() {
                Ok(regex) if regex.is_match(text) => return Ok(()),
                Ok(_) => format!("should match '{}'", pattern.text),
                Err(error) => {
                    format!("should match '{}, but pattern is invalid: {error}'", pattern.text)
                }
            };
            return self.invalid(path, &gofmt::quote(text), &message, errors);
        }
        Ok(())
    }

    fn number(
        &self,
        schema: &Schema,
        types: &[&str],
        format: &str,
        number: &Number,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<(), Exhausted> {
        let range = Range::of(types, format);
        let out_of_range = |what: &str, errors: &mut Errors| {
            self.anywhere(&format!("{what} value must be of type {range} in {path}"), errors)
        };
        let data = number.as_f64();
        let integer = self.integer(number);
        let value = shown_number(number, self.numbers);
        if !range.holds(data) && integer.is_none_or(|_| range == Range::Int32) {
            out_of_range("Checked", errors)?;
        }
        // Go compares an integer with the integer part of a bound, if the bound's type allows.
        let read = |bound: &Number| {
            let (bound, fits) = (bound.as_f64(), range.holds(bound.as_f64()));
            match integer.filter(|_| fits) {
                Some(_) => (bound.trunc(), gofloat::plain(bound.trunc()), fits),
                None => (bound, gofloat::general(bound), fits),
            }
        };
        if let Some((factor, named, fits)) = schema.multiple_of.as_ref().map(read) {
            if !fits {
                out_of_range("MultipleOf", errors)?;
            }
            if factor <= 0.0 {
                let detail =
                    format!("factor MultipleOf declared for {path} must be positive: {named}");
                let error = FieldError::invalid_shown(&self.place(path), &named, &detail);
                self.push(error, errors)?;
            } else if !is_multiple(data, factor) {
                let message = format!("should be a multiple of {named}");
                self.invalid(path, &value, &message, errors)?;
            }
        }
        let bounds = [
            ("Minimum boundary", &schema.minimum, schema.exclusive_minimum, -1.0, "greater"),
            ("Maximum boundary", &schema.maximum, schema.exclusive_maximum, 1.0, "less"),
        ];
        for (what, bound, exclusive, sign, than) in bounds {
            let Some((limit, named, fits)) = bound.as_ref().map(read) else { continue };
            if !fits {
                out_of_range(what, errors)?;
            }
            if sign * data > sign * limit || (exclusive && sign * data >= sign * limit) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let message = format!("should be {than} than{or_equal} {named}");
                self.invalid(path, &value, &message, errors)?;
            }
        }
        Ok(())
    }

    fn list(
        &self,
        schema: &Schema,
        items: &Array,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let mut right = 0;
        if let Some(schema) = schema.item() {
            for (index, item) in items.iter().enumerate() {
                right += self.node(schema, item, &path.index(index), errors)?;
            }
        }
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = schema.min_items.filter(|limit| size < *limit) {
            let message = format!("should have at least {limit} items");
            self.invalid(path, &size.to_string(), &message, errors)?;
        }
        if let Some(limit) = schema.max_items.filter(|limit| size > *limit) {
            self.push(FieldError::too_many(&self.place(path), items.len(), limit), errors)?;
        }
        Ok(right)
    }

    fn enumeration(
        &self,
        schema: &Schema,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<(), Exhausted> {
        let allowed = &schema.enumeration;
        if allowed.is_empty() {
            return Ok(());
        }
        self.budget.spend(allowed.len() as u64)?;
        // Null is never found, even where it is listed.
        if !value.is_null() && allowed.iter().any(|allowed| is_same(value, allowed)) {
            return Ok(());
        }
        let supported = allowed.iter().map(|allowed| match allowed {
            Value::String(text) => text.to_string(),
            other => as_json(other),
        });
        let error =
            FieldError::unsupported(&self.place(path), &shown(value, self.numbers), supported);
        self.push(error, errors)
    }

    fn object(
        &self,
        schema: &Schema,
        members: &Object,
        path: &Path<'_>,
        errors: &mut Errors,
    ) -> Result<u64, Exhausted> {
        let mut right = 0;
        let size = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(limit) = schema.min_properties.filter(|limit| size < *limit) {
            let message = format!("should have at least {limit} properties");
            self.invalid(path, &size.to_string(), &message, errors)?;
        }
        if let Some(limit) = schema.max_properties.filter(|limit| size > *limit) {
            self.push(FieldError::too_many(&self.place(path), members.len(), limit), errors)?;
        }
        if let Some(additional) = &schema.additional_properties {
            for (name, member) in members {
                self.budget.spend(1)?;
                if schema.property(name).is_some() {
                    continue;
                }
                match additional {
                    Additional::Allowed(true) => {}
                    Additional::Allowed(false) => {
                        let detail = format!("{path}.{name} in body is a forbidden property");
                        let error = FieldError::invalid(&self.place(path), name, &detail);
                        self.push(error, errors)?;
                    }
                    Additional::Schema(schema) => {
                        right += self.node(schema, member, &path.child(name), errors)?;
                    }
                }
            }
        }
        self.budget.spend(schema.properties.len() as u64)?;
        for (name, property) in &schema.properties {
            if let Some(member) = members.get(name) {
                right += self.node(property, member, &path.property(name), errors)?;
            }
        }
        for name in &schema.required {
            self.budget.spend(1)?;
            if !members.contains_key(name) {
                let place = self.place(&path.child(name));
                self.push(FieldError::required(&place, ""), errors)?;
            }
        }
        Ok(right)
    }
}

/// Whether a value is one of an enumeration: by value, except that Go converts a number to the type
/// of the one it compares with, so that 1.5 is found where 1 is listed.
fn is_same(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Number(value), Value::Number(allowed)) if allowed.is_integer_text() => {
            value == allowed
                || Number::from_f64(value.as_f64().trunc()).is_some_and(|whole| whole == *allowed)
        }
        _ => value == allowed,
    }
}

/// Which numbers a type and its format hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    Int32,
    /// Named with its format or without.
    Int64 {
        named: bool,
    },
    Float32,
    Any,
}

impl Range {
    fn of(types: &[&str], format: &str) -> Self {
        match (types, format) {
            (["integer"], "int32") => Self::Int32,
            (["integer"], format) => Self::Int64 { named: format == "int64" },
            (["number"], "float") => Self::Float32,
            _ => Self::Any,
        }
    }

    fn holds(self, number: f64) -> bool {
        match self {
            Self::Any => true,
            Self::Float32 => number.abs() <= f64::from(f32::MAX),
            Self::Int32 => {
                number.fract() == 0.0
                    && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)
            }
            // 2^63 itself is one too many.
            Self::Int64 { .. } => {
                number.fract() == 0.0
                    && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number)
            }
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Int32 => "integer with format int32",
            Self::Int64 { named: true } => "integer with format int64",
            Self::Int64 { named: false } => "integer (default format)",
            Self::Float32 => "number with format float",
            Self::Any => "number (default format)",
        })
    }
}

/// Whether a float counts as an integer: it is one that JSON holds exactly, or so near above one
/// that the difference may be an error of computation.
fn is_integral(number: f64) -> bool {
    if !(-MAX_EXACT..=MAX_EXACT).contains(&number) {
        return false;
    }
    let whole = number.trunc();
    let difference = (number - whole).abs();
    difference == 0.0 || (whole > 0.0 && difference / (number + whole) < 1e-9)
}

fn is_multiple(number: f64, factor: f64) -> bool {
    is_integral(if factor < 1.0 { 1.0 / factor * number } else { number / factor })
}
