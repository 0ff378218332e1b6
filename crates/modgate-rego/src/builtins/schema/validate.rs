//! Holding a document against a schema.

use modgate_value::{Budget, Number, Value as Json, gofmt, json};

use super::{
    super::BuiltinError,
    compile::{Additional, Dependency, Id, Items, Part, Schema},
    format,
};
use crate::number::Num;

/// Something that does not fit.
pub(super) struct Problem {
    /// The place in the document, names and indexes between dots; `(Root)` for the whole.
    pub(super) field: String,
    /// The kind of problem, for machines.
    pub(super) kind: &'static str,
    /// The message, for people.
    pub(super) description: String,
}

/// Problems, and how close the document came to having none: of several schemas of which none
/// fits, the problems of the closest are reported.
#[derive(Default)]
struct Report {
    problems: Vec<Problem>,
    score: i64,
    /// Bytes of problems that have not been charged yet.
    unpaid: usize,
}

impl Report {
    fn add(&mut self, at: &str, kind: &'static str, description: impl Into<String>) {
        let field = at.strip_prefix("(Root).").unwrap_or(at).to_owned();
        let description = description.into();
        self.unpaid += size_of::<Problem>() + field.len() + description.len();
        self.problems.push(Problem { field, kind, description });
        self.score -= 2;
    }

    fn merge(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.score += other.score;
        self.unpaid += other.unpaid;
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

type Result<T> = std::result::Result<T, BuiltinError>;

/// How deep document and references may nest; a schema that refers to itself never ends.
const MAX_NESTING: usize = 400;

struct Validator<'s> {
    schema: &'s Schema,
    budget: &'s Budget<'s>,
    depth: usize,
}

impl Schema {
    /// The problems of `document`.
    ///
    /// # Errors
    ///
    /// When the budget is spent, or document and references nest too deep.
    pub(super) fn validate(&self, document: &Json, budget: &Budget<'_>) -> Result<Vec<Problem>> {
        let mut validator = Validator { schema: self, budget, depth: 0 };
        let mut report = Report::default();
        validator.check(0, document, "(Root)", &mut report)?;
        Ok(report.problems)
    }
}

/// `integer` or `number` for numbers, JSON's name otherwise.
fn type_of(node: &Json) -> &'static str {
    match node {
        Json::Number(number) if is_integer(number) => "integer",
        other => other.type_name(),
    }
}

fn is_integer(number: &Number) -> bool {
    matches!(num(&number.to_string()).to_integer(), Ok(Some(_)))
}

fn num(text: &str) -> Num<'_> {
    Num::from_text(text)
}

impl Validator<'_> {
    fn charge(&self, at: &str) -> Result<()> {
        self.budget.spend(1)?;
        Ok(self.budget.allocate(at.len())?)
    }

    /// Problems of `node` under one schema alone.
    fn alone(&mut self, id: Id, node: &Json, at: &str) -> Result<Report> {
        let mut report = Report::default();
        self.check(id, node, at, &mut report)?;
        Ok(report)
    }

    fn check(&mut self, id: Id, node: &Json, at: &str, report: &mut Report) -> Result<()> {
        self.charge(at)?;
        let schema = self.schema;
        let Some(part) = schema.parts.get(id) else { return Ok(()) };
        if let Some(pass) = part.pass {
            if !pass {
                report.add(at, "false", "False always fails validation");
            }
            return Ok(());
        }
        if self.depth >= MAX_NESTING {
            return Err(BuiltinError::failed("document or schema nests too deep"));
        }
        self.depth += 1;
        let result = match part.reference {
            Some(target) => self.check(target, node, at, report),
            None => self.check_part(part, node, at, report),
        };
        self.depth -= 1;
        self.budget.allocate(std::mem::take(&mut report.unpaid))?;
        result
    }

    fn check_part(
        &mut self,
        part: &Part,
        node: &Json,
        at: &str,
        report: &mut Report,
    ) -> Result<()> {
        let given = type_of(node);
        let fits =
            part.types.contains(&given) || given == "integer" && part.types.contains(&"number");
        if !part.types.is_empty() && !fits {
            let expected = match part.types.as_slice() {
                [one] => (*one).to_owned(),
                many => format!("[{}]", many.join(",")),
            };
            let description = format!("Invalid type. Expected: {expected}, given: {given}");
            report.add(at, "invalid_type", description);
            return Ok(());
        }
        self.combine(part, node, at, report)?;
        match node {
            Json::Number(number) => check_number(part, number, at, report)?,
            Json::String(text) => self.check_string(part, text, at, report)?,
            Json::Array(items) => self.check_array(part, items, at, report)?,
            Json::Object(_) => self.check_object(part, node, at, report)?,
            _ => {}
        }
        self.check_common(part, node, at, report)?;
        if let Json::Object(members) = node {
            for (name, id) in &part.properties {
                if let Some(member) = members.get(name) {
                    self.check(*id, member, &format!("{at}.{name}"), report)?;
                }
            }
        }
        report.score += 1;
        Ok(())
    }

    /// `anyOf`, `oneOf`, `allOf`, `not`, `dependencies` and `if`.
    fn combine(&mut self, part: &Part, node: &Json, at: &str, report: &mut Report) -> Result<()> {
        if !part.any_of.is_empty() {
            let (valid, closest) = self.count_valid(&part.any_of, node, at, true)?;
            if valid == 0 {
                let description = "Must validate at least one schema (anyOf)";
                report.add(at, "number_any_of", description);
                report.merge(closest);
            }
        }
        if !part.one_of.is_empty() {
            let (valid, closest) = self.count_valid(&part.one_of, node, at, false)?;
            if valid != 1 {
                let description = "Must validate one and only one schema (oneOf)";
                report.add(at, "number_one_of", description);
                if valid == 0 {
                    report.merge(closest);
                }
            }
        }
        let mut all_valid = true;
        for id in &part.all_of {
            let one = self.alone(*id, node, at)?;
            all_valid &= one.is_valid();
            report.merge(one);
        }
        if !all_valid {
            report.add(at, "number_all_of", "Must validate all the schemas (allOf)");
        }
        if let Some(id) = part.not
            && self.alone(id, node, at)?.is_valid()
        {
            report.add(at, "number_not", "Must not validate the schema (not)");
        }
        for (name, wanted) in &part.dependencies {
            if node.get(name).is_none() {
                continue;
            }
            match wanted {
                Dependency::Members(names) => {
                    for missing in names.iter().filter(|name| node.get(name).is_none()) {
                        let description = format!("Has a dependency on {missing}");
                        report.add(at, "missing_dependency", description);
                    }
                }
                Dependency::Schema(id) => self.check(*id, node, at, report)?,
            }
        }
        if let Some(condition) = part.condition {
            let holds = self.alone(condition, node, at)?.is_valid();
            let (branch, kind, description) = if holds {
                (part.then, "condition_then", r#"Must validate "then" as "if" was valid"#)
            } else {
                (part.otherwise, "condition_else", r#"Must validate "else" as "if" was not valid"#)
            };
            if let Some(branch) = branch {
                let found = self.alone(branch, node, at)?;
                if !found.is_valid() {
                    report.add(at, kind, description);
                    report.merge(found);
                }
            }
        }
        report.score += 1;
        Ok(())
    }

    /// How many of `ids` fit, or whether one does, and the report of the closest that does not.
    fn count_valid(
        &mut self,
        ids: &[Id],
        node: &Json,
        at: &str,
        one_is_enough: bool,
    ) -> Result<(usize, Report)> {
        let mut valid = 0;
        let mut closest: Option<Report> = None;
        for id in ids {
            let report = self.alone(*id, node, at)?;
            if report.is_valid() {
                valid += 1;
                if one_is_enough {
                    break;
                }
            } else if closest.as_ref().is_none_or(|best| report.score > best.score) {
                closest = Some(report);
            }
        }
        Ok((valid, closest.unwrap_or_default()))
    }

    fn check_common(
        &mut self,
        part: &Part,
        node: &Json,
        at: &str,
        report: &mut Report,
    ) -> Result<()> {
        let place = at.strip_prefix("(Root).").unwrap_or(at);
        if let Some(constant) = &part.constant
            && constant != node
        {
            let description = format!("{place} does not match: {}", shown(constant));
            report.add(at, "const", description);
        }
        self.budget.spend(part.choices.len() as u64)?;
        if !part.choices.is_empty() && !part.choices.contains(node) {
            let choices: Vec<String> = part.choices.iter().map(shown).collect();
            let choices = choices.join(", ");
            self.budget.allocate(choices.len())?;
            let description = format!("{place} must be one of the following: {choices}");
            report.add(at, "enum", description);
        }
        if let Some(text) = node.as_str() {
            self.budget.spend(text.len() as u64)?;
            if !format::fits(&part.format, text, self.budget)? {
                let description = format!("Does not match format '{}'", part.format);
                report.add(at, "format", description);
            }
        }
        report.score += 1;
        Ok(())
    }

    fn check_string(&self, part: &Part, text: &str, at: &str, report: &mut Report) -> Result<()> {
        self.budget.spend(text.len() as u64)?;
        let length = text.chars().count();
        if let Some(min) = part.min_length.filter(|min| length < *min) {
            let description = format!("String length must be greater than or equal to {min}");
            report.add(at, "string_gte", description);
        }
        if let Some(max) = part.max_length.filter(|max| length > *max) {
            let description = format!("String length must be less than or equal to {max}");
            report.add(at, "string_lte", description);
        }
        if let Some(pattern) = part.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let description = format!("Does not match pattern '{}'", pattern.as_str());
            report.add(at, "pattern", description);
        }
        report.score += 1;
        Ok(())
    }

    fn check_array(
        &mut self,
        part: &Part,
        items: &[Json],
        at: &str,
        report: &mut Report,
    ) -> Result<()> {
        for (index, item) in items.iter().enumerate() {
            let id = match &part.items {
                Items::Anything => break,
                Items::All(id) => Some(*id),
                Items::Positional(ids) => match (ids.get(index), &part.additional_items) {
                    (Some(id), _) => Some(*id),
                    (None, _) if ids.is_empty() => None,
                    (None, Additional::Fitting(id)) => Some(*id),
                    (None, Additional::Nothing) => {
                        let description = "No additional items allowed on array";
                        report.add(at, "array_no_additional_items", description);
                        break;
                    }
                    (None, Additional::Anything) => None,
                },
            };
            if let Some(id) = id {
                self.check(id, item, &format!("{at}.{index}"), report)?;
            }
        }
        if let Some(min) = part.min_items.filter(|min| items.len() < *min) {
            let description = format!("Array must have at least {min} items");
            report.add(at, "array_min_items", description);
        }
        if let Some(max) = part.max_items.filter(|max| items.len() > *max) {
            let description = format!("Array must have at most {max} items");
            report.add(at, "array_max_items", description);
        }
        if part.unique_items {
            self.check_unique(items, at, report)?;
        }
        if let Some(id) = part.contains {
            let mut closest: Option<Report> = None;
            let mut found = false;
            for (index, item) in items.iter().enumerate() {
                let one = self.alone(id, item, &format!("{at}.{index}"))?;
                found = one.is_valid();
                if found {
                    break;
                }
                if closest.as_ref().is_none_or(|best| one.score > best.score) {
                    closest = Some(one);
                }
            }
            if !found {
                report.add(at, "contains", "At least one of the items must match");
                report.merge(closest.unwrap_or_default());
            }
        }
        report.score += 1;
        Ok(())
    }

    /// Reports each element that equals an earlier one, with the nearest of those.
    fn check_unique(&self, items: &[Json], at: &str, report: &mut Report) -> Result<()> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        let rounds = u64::from(items.len().checked_ilog2().unwrap_or(0)) + 1;
        self.budget.spend((items.len() as u64).saturating_mul(rounds))?;
        order.sort_by(|a, b| items.get(*a).cmp(&items.get(*b)).then(a.cmp(b)));
        let mut repeated: Vec<(usize, usize)> = order
            .windows(2)
            .filter_map(|pair| match pair {
                [a, b] if items.get(*a) == items.get(*b) => Some((*b, *a)),
                _ => None,
            })
            .collect();
        repeated.sort_unstable();
        for (later, earlier) in repeated {
            self.charge(at)?;
            let description = format!("array items[{earlier},{later}] must be unique");
            report.add(at, "unique", description);
        }
        Ok(())
    }

    fn check_object(
        &mut self,
        part: &Part,
        node: &Json,
        at: &str,
        report: &mut Report,
    ) -> Result<()> {
        let Json::Object(members) = node else { return Ok(()) };
        if let Some(min) = part.min_properties.filter(|min| members.len() < *min) {
            let description = format!("Must have at least {min} properties");
            report.add(at, "array_min_properties", description);
        }
        if let Some(max) = part.max_properties.filter(|max| members.len() > *max) {
            let description = format!("Must have at most {max} properties");
            report.add(at, "array_max_properties", description);
        }
        for name in &part.required {
            self.charge(at)?;
            if members.contains_key(name) {
                report.score += 1;
            } else {
                report.add(at, "required", format!("{name} is required"));
            }
        }
        for (name, member) in members {
            let described = part.properties.contains_key(name.as_str());
            let below = format!("{at}.{name}");
            let mut matched = false;
            for (pattern, id) in &part.pattern_properties {
                self.budget.spend(name.len() as u64)?;
                if pattern.is_match(name) {
                    matched = true;
                    self.check(*id, member, &below, report)?;
                }
            }
            report.score += i64::from(matched);
            match &part.additional_properties {
                _ if described || matched => {}
                Additional::Anything => {}
                Additional::Nothing => {
                    let description = format!("Additional property {name} is not allowed");
                    report.add(at, "additional_property_not_allowed", description);
                }
                Additional::Fitting(id) => self.check(*id, member, &below, report)?,
            }
        }
        if let Some(id) = part.property_names {
            for name in members.keys() {
                let found = self.alone(id, &Json::String(name.clone()), at)?;
                if !found.is_valid() {
                    let description = format!("Property name of \"{name}\" does not match");
                    report.add(at, "invalid_property_name", description);
                    report.merge(found);
                }
            }
        }
        report.score += 1;
        Ok(())
    }
}

fn check_number(part: &Part, number: &Number, at: &str, report: &mut Report) -> Result<()> {
    if let Some(multiple) = &part.multiple_of {
        let (value, step) = (number.to_string(), multiple.to_string());
        let (numerator, denominator) = num(&value).to_fraction()?;
        let (step_numerator, step_denominator) = num(&step).to_fraction()?;
        let remainder = (numerator * step_denominator) % (denominator * step_numerator);
        if remainder.sign() != num_bigint::Sign::NoSign {
            let description = format!("Must be a multiple of {}", limit(multiple));
            report.add(at, "multiple_of", description);
        }
    }
    if let Some(max) = part.maximum.as_ref().filter(|max| number > *max) {
        let description = format!("Must be less than or equal to {}", limit(max));
        report.add(at, "number_lte", description);
    }
    if let Some(max) = part.exclusive_maximum.as_ref().filter(|max| number >= *max) {
        report.add(at, "number_lt", format!("Must be less than {}", limit(max)));
    }
    if let Some(min) = part.minimum.as_ref().filter(|min| number < *min) {
        let description = format!("Must be greater than or equal to {}", limit(min));
        report.add(at, "number_gte", description);
    }
    if let Some(min) = part.exclusive_minimum.as_ref().filter(|min| number <= *min) {
        report.add(at, "number_gt", format!("Must be greater than {}", limit(min)));
    }
    report.score += 1;
    Ok(())
}

/// A bound as Go prints a `big.Float`: ten digits.
fn limit(number: &Number) -> String {
    let float = gofmt::Arg::Float(number.as_f64());
    gofmt::sprintf("%.10g", &[float], &Budget::unlimited()).unwrap_or_default()
}

/// A document as Go marshals it with its numbers as floats.
fn shown(value: &Json) -> String {
    fn floats(value: &Json) -> Json {
        match value {
            Json::Number(number) => {
                Number::from_f64(number.as_f64()).map_or(Json::Null, Json::Number)
            }
            Json::Array(items) => items.iter().map(floats).collect(),
            Json::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), floats(value))).collect()
            }
            other => other.clone(),
        }
    }
    let mut text = String::new();
    json::write(&floats(value), &mut text, json::Escape::Html);
    text
}
