//! Reading a schema.

use std::collections::BTreeMap;

use modgate_value::{
    Budget, Number, Object, Value as Json, pointer,
    regex::{DEFAULT_SIZE_LIMIT, GoRegex, Uncompiled},
};

use super::super::BuiltinError;

/// A schema ready to validate with: parts that name one another by number.
pub(super) struct Schema {
    pub(super) parts: Vec<Part>,
}

/// Number of a part; the first is the schema itself.
pub(super) type Id = usize;

/// The schema of additional members or elements.
#[derive(Default)]
pub(super) enum Additional {
    #[default]
    Anything,
    Nothing,
    Fitting(Id),
}

/// A demand that the presence of a member makes on its object.
pub(super) enum Dependency {
    Members(Vec<String>),
    Schema(Id),
}

/// The schemas of the elements of an array.
#[derive(Default)]
pub(super) enum Items {
    #[default]
    Anything,
    All(Id),
    Positional(Vec<Id>),
}

/// One schema within the schema.
#[derive(Default)]
pub(super) struct Part {
    /// `true` or `false` instead of a schema.
    pub(super) pass: Option<bool>,
    pub(super) reference: Option<Id>,
    pub(super) types: Vec<&'static str>,
    pub(super) properties: BTreeMap<String, Id>,
    pub(super) additional_properties: Additional,
    pub(super) pattern_properties: Vec<(GoRegex, Id)>,
    pub(super) property_names: Option<Id>,
    pub(super) dependencies: BTreeMap<String, Dependency>,
    pub(super) items: Items,
    pub(super) additional_items: Additional,
    pub(super) contains: Option<Id>,
    pub(super) multiple_of: Option<Number>,
    pub(super) minimum: Option<Number>,
    pub(super) exclusive_minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_maximum: Option<Number>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) pattern: Option<GoRegex>,
    pub(super) format: String,
    pub(super) min_properties: Option<usize>,
    pub(super) max_properties: Option<usize>,
    pub(super) required: Vec<String>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) unique_items: bool,
    pub(super) constant: Option<Json>,
    pub(super) choices: Vec<Json>,
    pub(super) one_of: Vec<Id>,
    pub(super) any_of: Vec<Id>,
    pub(super) all_of: Vec<Id>,
    pub(super) not: Option<Id>,
    pub(super) condition: Option<Id>,
    pub(super) then: Option<Id>,
    pub(super) otherwise: Option<Id>,
}

/// The types there are, in the order OPA names them.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "number", "null", "object", "string"];

/// Which keywords count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    /// No draft is named: all keywords of any, each in whatever form it has.
    Hybrid,
}

struct Compiler<'s> {
    root: &'s Json,
    draft: Draft,
    parts: Vec<Part>,
    /// Parts that references lead to.
    references: BTreeMap<String, Id>,
    depth: usize,
    budget: &'s Budget<'s>,
}

/// How deep schemas may nest, references followed.
const MAX_NESTING: usize = 200;

type Result<T> = std::result::Result<T, BuiltinError>;

fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(BuiltinError::failed(message))
}

fn invalid_type<T>(expected: &str, given: &str) -> Result<T> {
    fail(format!("Invalid type. Expected: {expected}, given: {given}"))
}

impl Schema {
    /// Reads `schema`.
    ///
    /// # Errors
    ///
    /// gojsonschema's message, or that the budget is spent.
    pub(super) fn compile(schema: &Json, budget: &Budget<'_>) -> Result<Self> {
        let declared = schema.get("$schema").and_then(Json::as_str).unwrap_or_default();
        let draft = match declared.trim_end_matches('#') {
            "http://json-schema.org/draft-04/schema" => Draft::Four,
            "http://json-schema.org/draft-06/schema" => Draft::Six,
            "http://json-schema.org/draft-07/schema" => Draft::Seven,
            _ => Draft::Hybrid,
        };
        let mut compiler = Compiler {
            root: schema,
            draft,
            parts: Vec::new(),
            references: BTreeMap::new(),
            depth: 0,
            budget,
        };
        if !matches!(schema, Json::Object(_) | Json::Bool(_)) {
            return fail("schema is invalid");
        }
        compiler.part(schema)?;
        Ok(Self { parts: compiler.parts })
    }
}

impl<'s> Compiler<'s> {
    /// Reads a schema and gives its number.
    fn part(&mut self, node: &'s Json) -> Result<Id> {
        let id = self.reserve()?;
        self.fill(id, node)?;
        Ok(id)
    }

    fn reserve(&mut self) -> Result<Id> {
        self.budget.spend(64)?;
        self.budget.allocate(size_of::<Part>())?;
        self.parts.push(Part::default());
        Ok(self.parts.len() - 1)
    }

    fn set(&mut self, id: Id, part: Part) {
        if let Some(slot) = self.parts.get_mut(id) {
            *slot = part;
        }
    }

    fn fill(&mut self, id: Id, node: &'s Json) -> Result<()> {
        if self.depth >= MAX_NESTING {
            return fail("schema nests too deep");
        }
        self.depth += 1;
        let result = self.read(id, node);
        self.depth -= 1;
        result
    }

    fn read(&mut self, id: Id, node: &'s Json) -> Result<()> {
        if let (Json::Bool(pass), true) = (node, self.draft >= Draft::Six) {
            self.set(id, Part { pass: Some(*pass), ..Part::default() });
            return Ok(());
        }
        let Json::Object(map) = node else {
            return fail("Expected: Valid Schema, given: Invalid JSON");
        };
        let mut part = Part::default();
        for key in ["$id", "id", "title", "description"] {
            string(map, key)?;
        }
        if let Some(definitions) = map.get("definitions") {
            let Json::Object(definitions) = definitions else {
                return invalid_type("array of schemas", "definitions");
            };
            for definition in definitions.values() {
                if !is_schema(definition) {
                    return invalid_type("array of schemas", "definitions");
                }
                self.part(definition)?;
            }
        }
        if let Some(reference) = string(map, "$ref")? {
            part.reference = Some(self.reference(reference)?);
            self.set(id, part);
            return Ok(());
        }
        part.types = types(map)?;
        self.objects(map, &mut part)?;
        self.arrays(map, &mut part)?;
        self.numbers(map, &mut part)?;
        strings(map, &mut part, self.budget)?;
        part.min_properties = size(map, "minProperties")?;
        part.max_properties = size(map, "maxProperties")?;
        if part.min_properties > part.max_properties.or(Some(usize::MAX)) {
            return fail("minProperties cannot be greater than maxProperties");
        }
        for name in slice(map, "required")? {
            let Some(name) = name.as_str() else { return invalid_type("string", "required") };
            if part.required.iter().any(|known| known == name) {
                return fail("required items must be unique");
            }
            part.required.push(name.to_owned());
        }
        if self.draft >= Draft::Six {
            part.constant = map.get("const").cloned();
        }
        for choice in slice(map, "enum")? {
            self.budget.spend(part.choices.len() as u64)?;
            if part.choices.contains(choice) {
                return fail("enum items must be unique");
            }
            part.choices.push(choice.clone());
        }
        part.one_of = self.list(map, "oneOf")?;
        part.any_of = self.list(map, "anyOf")?;
        part.all_of = self.list(map, "allOf")?;
        part.not = self.single(map, "not")?;
        if self.draft >= Draft::Seven {
            part.condition = self.single(map, "if")?;
            part.then = self.single(map, "then")?;
            part.otherwise = self.single(map, "else")?;
        }
        self.set(id, part);
        Ok(())
    }

    /// The part that a reference leads to.
    fn reference(&mut self, reference: &str) -> Result<Id> {
        if let Some(known) = self.references.get(reference) {
            return Ok(*known);
        }
        let own_id = self.root.get("$id").or_else(|| self.root.get("id")).and_then(Json::as_str);
        let base = own_id.unwrap_or_default().trim_end_matches('#');
        let fragment = match reference.split_once('#') {
            Some((document, fragment)) if document.is_empty() || document == base => fragment,
            None if !base.is_empty() && reference == base => "",
            _ => {
                return fail(format!(
                    "not available here: schemas are not fetched, and {reference} is another one"
                ));
            }
        };
        let root = self.root;
        let mut node = root;
        for segment in fragment.split('/').skip(1) {
            let segment = segment.replace("%25", "%");
            let segment = pointer::unescape(&segment);
            let next = match node {
                Json::Array(items) => segment.parse().ok().and_then(|at: usize| items.get(at)),
                other => other.get(&segment),
            };
            let Some(next) = next else { return fail(format!("Object has no key '{segment}'")) };
            node = next;
        }
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return fail(format!("Object has no key '{fragment}'"));
        }
        if !is_schema(node) {
            return fail("schema must be of type object");
        }
        let id = self.reserve()?;
        // Known before it is read, since it may refer to itself.
        self.references.insert(reference.to_owned(), id);
        self.fill(id, node)?;
        Ok(id)
    }

    fn objects(&mut self, map: &'s Object, part: &mut Part) -> Result<()> {
        if let Some(properties) = map.get("properties") {
            let Json::Object(properties) = properties else {
                return fail("properties must be of type object");
            };
            for (name, schema) in properties {
                part.properties.insert(name.to_string(), self.part(schema)?);
            }
        }
        part.additional_properties = self.additional(map, "additionalProperties")?;
        if let Some(patterns) = map.get("patternProperties") {
            let Json::Object(patterns) = patterns else {
                return invalid_type("valid schema", "patternProperties");
            };
            for (pattern, schema) in patterns {
                let Some(regex) = regex(pattern, self.budget)? else {
                    return fail(format!("Invalid regex pattern '{pattern}'"));
                };
                part.pattern_properties.push((regex, self.part(schema)?));
            }
        }
        if let (Some(names), true) = (map.get("propertyNames"), self.draft >= Draft::Six) {
            if !is_schema(names) {
                return invalid_type("valid schema", "patternProperties");
            }
            part.property_names = Some(self.part(names)?);
        }
        if let Some(dependencies) = map.get("dependencies") {
            const WRONG: &str = "dependency must be of type schema or Array Of Strings";
            let Json::Object(dependencies) = dependencies else {
                return fail("dependencies must be of type object");
            };
            for (name, wanted) in dependencies {
                let wanted = match wanted {
                    Json::Array(names) => {
                        let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                        let Some(names) = names.collect() else { return fail(WRONG) };
                        Dependency::Members(names)
                    }
                    schema if is_schema(schema) => Dependency::Schema(self.part(schema)?),
                    _ => return fail(WRONG),
                };
                part.dependencies.insert(name.to_string(), wanted);
            }
        }
        Ok(())
    }

    fn arrays(&mut self, map: &'s Object, part: &mut Part) -> Result<()> {
        part.items = match map.get("items") {
            None => Items::Anything,
            Some(Json::Array(schemas)) => {
                if !schemas.iter().all(is_schema) {
                    return invalid_type("valid schema/array of schemas", "items");
                }
                let parts: Result<Vec<Id>> =
                    schemas.iter().map(|schema| self.part(schema)).collect();
                Items::Positional(parts?)
            }
            Some(schema) if is_schema(schema) => Items::All(self.part(schema)?),
            Some(_) => return invalid_type("valid schema/array of schemas", "items"),
        };
        part.additional_items = self.additional(map, "additionalItems")?;
        part.min_items = size(map, "minItems")?;
        part.max_items = size(map, "maxItems")?;
        part.unique_items = match map.get("uniqueItems") {
            None => false,
            Some(Json::Bool(unique)) => *unique,
            Some(_) => return fail("uniqueItems must be of a boolean"),
        };
        if let (Some(schema), true) = (map.get("contains"), self.draft >= Draft::Six) {
            part.contains = Some(self.part(schema)?);
        }
        Ok(())
    }

    fn numbers(&self, map: &Object, part: &mut Part) -> Result<()> {
        if let Some(multiple) = map.get("multipleOf") {
            let Some(multiple) = multiple.as_number() else {
                return invalid_type("number", "multipleOf");
            };
            if *multiple <= Number::from(0) {
                return fail("multipleOf must be strictly greater than 0");
            }
            part.multiple_of = Some(multiple.clone());
        }
        part.minimum = number(map, "minimum")?;
        self.exclusive(map, "exclusiveMinimum", "minimum", &mut part.minimum)?
            .clone_into(&mut part.exclusive_minimum);
        part.maximum = number(map, "maximum")?;
        self.exclusive(map, "exclusiveMaximum", "maximum", &mut part.maximum)?
            .clone_into(&mut part.exclusive_maximum);
        Ok(())
    }

    /// An exclusive bound: in draft 4 a flag on the other, later a number of its own.
    fn exclusive(
        &self,
        map: &Object,
        key: &str,
        bound_key: &str,
        bound: &mut Option<Number>,
    ) -> Result<Option<Number>> {
        match (map.get(key), self.draft) {
            (None, _) => Ok(None),
            (Some(Json::Bool(exclusive)), Draft::Four | Draft::Hybrid) => {
                if bound.is_none() {
                    return fail(format!("{key} cannot be used without {bound_key}"));
                }
                Ok(if *exclusive { bound.take() } else { None })
            }
            (Some(Json::Number(number)), Draft::Six | Draft::Seven | Draft::Hybrid) => {
                Ok(Some(number.clone()))
            }
            (Some(_), Draft::Four) => invalid_type("boolean", key),
            (Some(_), Draft::Hybrid) => invalid_type("boolean/number", key),
            (Some(_), _) => invalid_type("number", key),
        }
    }

    fn additional(&mut self, map: &'s Object, key: &str) -> Result<Additional> {
        Ok(match map.get(key) {
            None | Some(Json::Bool(true)) => Additional::Anything,
            Some(Json::Bool(false)) => Additional::Nothing,
            Some(schema @ Json::Object(_)) => Additional::Fitting(self.part(schema)?),
            Some(_) => return invalid_type("boolean/valid schema", key),
        })
    }

    fn list(&mut self, map: &'s Object, key: &str) -> Result<Vec<Id>> {
        slice(map, key)?.iter().map(|schema| self.part(schema)).collect()
    }

    fn single(&mut self, map: &'s Object, key: &str) -> Result<Option<Id>> {
        match map.get(key) {
            None => Ok(None),
            Some(schema) if is_schema(schema) => self.part(schema).map(Some),
            Some(_) => fail(format!("{key} must be of an object")),
        }
    }
}

fn is_schema(node: &Json) -> bool {
    matches!(node, Json::Bool(_) | Json::Object(_))
}

fn types(map: &Object) -> Result<Vec<&'static str>> {
    let mut types = Vec::new();
    let mut add = |name: &str| {
        let Some(known) = TYPES.into_iter().find(|known| *known == name) else {
            return fail(format!(
                "has a primitive type that is NOT VALID -- given: /{name}/ Expected valid values \
                 are:[{}]",
                TYPES.join(" ")
            ));
        };
        if types.contains(&known) {
            return fail(format!("{name} type is duplicated"));
        }
        types.push(known);
        Ok(())
    };
    match map.get("type") {
        None => {}
        Some(Json::String(name)) => add(name)?,
        Some(Json::Array(names)) => {
            for name in names {
                match name.as_str() {
                    Some(name) => add(name)?,
                    None => return invalid_type("type", "string/Array Of Strings"),
                }
            }
        }
        Some(_) => return invalid_type("type", "string/Array Of Strings"),
    }
    Ok(types)
}

/// The compiled pattern; `None` where it is invalid.
fn regex(pattern: &str, budget: &Budget<'_>) -> Result<Option<GoRegex>> {
    match GoRegex::within(pattern, DEFAULT_SIZE_LIMIT, budget) {
        Ok(regex) => Ok(Some(regex)),
        Err(Uncompiled::Invalid(_)) => Ok(None),
        Err(Uncompiled::Exhausted(exhausted)) => Err(exhausted.into()),
    }
}

fn strings(map: &Object, part: &mut Part, budget: &Budget<'_>) -> Result<()> {
    part.min_length = size(map, "minLength")?;
    part.max_length = size(map, "maxLength")?;
    if part.min_length > part.max_length.or(Some(usize::MAX)) {
        return fail("minLength cannot be greater than maxLength");
    }
    if let Some(pattern) = string(map, "pattern")? {
        part.pattern = regex(pattern, budget)?;
        if part.pattern.is_none() {
            return fail("pattern must be a valid regex");
        }
    }
    part.format = string(map, "format")?.unwrap_or_default().to_owned();
    Ok(())
}

fn string<'s>(map: &'s Object, key: &str) -> Result<Option<&'s str>> {
    match map.get(key) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.as_str())),
        Some(_) => invalid_type("string", key),
    }
}

fn slice<'s>(map: &'s Object, key: &str) -> Result<&'s [Json]> {
    match map.get(key) {
        None => Ok(&[]),
        Some(Json::Array(items)) => Ok(items),
        Some(_) => fail(format!("{key} must be of an array")),
    }
}

fn number(map: &Object, key: &str) -> Result<Option<Number>> {
    match map.get(key) {
        None => Ok(None),
        Some(Json::Number(number)) => Ok(Some(number.clone())),
        Some(_) => fail(format!("{key} must be of a number")),
    }
}

fn size(map: &Object, key: &str) -> Result<Option<usize>> {
    let Some(value) = map.get(key) else { return Ok(None) };
    let Some(int) = value.as_i64() else {
        return fail(format!("{key} must be of an integer"));
    };
    match usize::try_from(int) {
        Ok(size) => Ok(Some(size)),
        Err(_) => fail(format!("{key} must be greater than or equal to 0")),
    }
}
