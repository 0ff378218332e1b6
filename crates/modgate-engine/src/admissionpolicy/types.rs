//! The types of objects, as far as merging needs them: which lists and maps are merged and which
//! are replaced as a whole (`structured-merge-diff/schema`, `kube-openapi/pkg/schemaconv`).
//!
//! Those of Kubernetes' own kinds are a table that was recorded from an API server; those of
//! custom resources are read from their CustomResourceDefinitions.

mod decode;
mod derive;
mod enums;
mod quantity;
mod shape;
mod stored;
mod unknown;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use modgate_api::{kinds, meta::split_api_version};
use modgate_value::{Str, Value};

pub use self::shape::{ScalarShape, Shape};
pub(crate) use self::unknown::Unknown;

/// How deep the schema of a custom resource is read.
const MAX_SCHEMA_DEPTH: usize = 100;

/// The allowed types of a value. Several of the three for values of any type.
#[derive(Debug, Clone, Default)]
pub(super) struct Atom {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) element: Reference,
    /// Replaced as a whole.
    pub(super) atomic: bool,
    /// The members that tell elements apart; none for a set of scalars.
    pub(super) keys: Vec<Str>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Map {
    pub(super) fields: BTreeMap<Str, Field>,
    /// The type of members that are no fields; `None` where there may be none.
    pub(super) element: Option<Reference>,
    pub(super) atomic: bool,
    /// Of a custom resource: the API server drops members that are no fields, also where merging admits
    /// them.
    pub(super) prunes: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) ty: Reference,
    /// Of a field that tells elements of a list apart, and of every field of a custom resource.
    pub(super) default: Option<Value>,
    /// Of a custom resource: whether it may be null.
    pub(super) nullable: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Reference {
    /// A type by its name; `Some` where the field says itself whether it is atomic.
    Named(Str, Option<bool>),
    Inline(Arc<Atom>),
}

/// A type, with what its field says of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Resolved<'t> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<&'t List>,
    pub(super) map: Option<&'t Map>,
    pub(super) atomic: Option<bool>,
}

/// The types of all kinds that are known.
#[derive(Debug, Clone, Default)]
pub struct Types {
    /// By `apiVersion` and kind.
    kinds: BTreeMap<(Str, Str), Reference>,
    named: Arc<BTreeMap<&'static str, Named>>,
}

/// A named type. It is read at its first use: of hundreds a run needs a few.
#[derive(Debug)]
struct Named {
    /// The text behind its name in the table.
    text: &'static str,
    atom: OnceLock<Atom>,
}

impl Named {
    fn atom(&self) -> &Atom {
        self.atom.get_or_init(|| of_words(self.text))
    }
}

/// Any value, replaced as a whole.
static ATOMIC: LazyLock<Atom> = LazyLock::new(|| anything(true));

/// Any value, whose maps are merged.
static DEDUCED: LazyLock<Atom> = LazyLock::new(|| anything(false));

const UNTYPED: &str = "*";
const GUESSED: &str = "?";

fn anything(atomic: bool) -> Atom {
    let named = |name: &str| Reference::Named(name.into(), None);
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(List { element: named(UNTYPED), atomic: true, keys: Vec::new() }),
        map: Some(Map {
            fields: BTreeMap::new(),
            element: Some(named(if atomic { UNTYPED } else { GUESSED })),
            atomic,
            prunes: false,
        }),
    }
}

/// The table: `@ apiVersion kind type` for a kind, `name type` and `name {} field=type …` for types.
/// A type is `s`, `n`, `b` or `u` for texts, numbers, booleans and any scalar, `[]T`, `[=]T` and
/// `[key,key]T` for atomic lists, sets and lists by keys, `{}T` and `{!}T` for maps and atomic maps,
/// `*`, `?` and `%` for any value, or a name, with `!` or `.` in front where the field says that it
/// is atomic or is not. After `~` stands a default.
const BUILTIN: &str = include_str!("types/builtin.txt");

static KUBERNETES: LazyLock<Types> = LazyLock::new(|| Types::read(BUILTIN));

impl Types {
    /// Whether an API server of Kubernetes 1.36 may serve a kind: all but those of Kubernetes' own groups
    /// that do not exist, or are served in other versions only.
    pub(super) fn may_have(&self, api_version: &str, kind: &str) -> bool {
        let (group, _) = split_api_version(api_version);
        let Some(known) = kinds::of_group(group) else { return true };
        let is_it = |other: &str| split_api_version(other).0 == group;
        let mut versions = self.kinds.keys().filter(|(other, name)| name == kind && is_it(other));
        match versions.next() {
            None => known.contains(&kind),
            Some((first, _)) => {
                first == api_version || versions.any(|(other, _)| other == api_version)
            }
        }
    }

    /// Whether an API server of Kubernetes 1.36 may serve a version of a group: of Kubernetes' own groups
    /// those that the table has.
    pub(super) fn may_serve(&self, group: &str, version: &str) -> bool {
        let mut versions = self.kinds.keys().map(|(version, _)| split_api_version(version));
        kinds::of_group(group).is_none() || versions.any(|it| it == (group, version))
    }

    /// Those of Kubernetes 1.36.
    pub fn kubernetes() -> &'static Self {
        &KUBERNETES
    }

    fn read(table: &'static str) -> Self {
        let (mut kinds, mut named) = (BTreeMap::new(), BTreeMap::new());
        for line in table.lines() {
            let Some((name, text)) = line.split_once(' ') else { continue };
            if name != "@" {
                named.insert(name, Named { text, atom: OnceLock::new() });
                continue;
            }
            let mut words = text.split(' ');
            if let (Some(version), Some(kind), Some(ty)) =
                (words.next(), words.next(), words.next())
            {
                let ty = Reference::Named(ty.into(), None);
                kinds.insert((version.into(), kind.into()), ty);
            }
        }
        Self { kinds, named: Arc::new(named) }
    }

    /// Adds the kinds of a CustomResourceDefinition, in place of what it defined before.
    pub fn define(&mut self, definition: &Value) {
        self.undefine(definition);
        let Some((group, kind)) = defined(definition) else { return };
        let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
        for version in versions.into_iter().flat_map(|versions| versions.iter()) {
            let Some(name) = version.get("name").and_then(Value::as_str) else { continue };
            let schema = version.path(&["schema", "openAPIV3Schema"]);
            let mut atom = schema.map(|schema| of_schema(schema, false, 0)).unwrap_or_default();
            if let Some(map) = &mut atom.map {
                embedded(map);
            }
            let key = (modgate_value::format_smolstr!("{group}/{name}"), kind.into());
            self.kinds.insert(key, Reference::Inline(Arc::new(atom)));
        }
    }

    /// Takes out the kinds of a CustomResourceDefinition.
    pub fn undefine(&mut self, definition: &Value) {
        let Some((group, kind)) = defined(definition) else { return };
        let is_it = |version: &str| split_api_version(version).0 == group;
        self.kinds.retain(|(version, known), ty| {
            known != kind || !is_it(version) || matches!(ty, Reference::Named(..))
        });
    }

    /// The type of a kind.
    pub(super) fn of(&self, api_version: &str, kind: &str) -> Option<&Reference> {
        self.kinds.get(&(api_version.into(), kind.into()))
    }

    /// `apiVersion` and kind of all.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &(Str, Str)> {
        self.kinds.keys()
    }

    /// Whether the kind is known in this version.
    pub fn has(&self, api_version: &str, kind: &str) -> bool {
        self.of(api_version, kind).is_some()
    }

    /// Whether the kind is one of Kubernetes' own.
    pub(super) fn is_builtin(&self, api_version: &str, kind: &str) -> bool {
        matches!(self.of(api_version, kind), Some(Reference::Named(..)))
    }

    pub(super) fn resolve<'t>(&'t self, reference: &'t Reference) -> Resolved<'t> {
        let (atom, atomic) = match reference {
            Reference::Named(name, atomic) => match name.as_str() {
                UNTYPED => (&*ATOMIC, None),
                GUESSED => (&*DEDUCED, None),
                name => match self.named.get(name) {
                    Some(named) => (named.atom(), *atomic),
                    None => return Resolved::default(),
                },
            },
            Reference::Inline(atom) => (&**atom, None),
        };
        Resolved { scalar: atom.scalar, list: atom.list.as_ref(), map: atom.map.as_ref(), atomic }
    }
}

/// The group and the kind that a CustomResourceDefinition defines.
fn defined(definition: &Value) -> Option<(&str, &str)> {
    let text = |path: &[&str]| definition.path(path).and_then(Value::as_str);
    Some((text(&["spec", "group"])?, text(&["spec", "names", "kind"])?))
}

impl Resolved<'_> {
    /// Whether lists or maps of this type are replaced as a whole.
    pub(super) fn is_atomic(&self, itself: bool) -> bool {
        self.atomic.unwrap_or(itself)
    }
}

/// A named type of the table.
fn of_words(text: &str) -> Atom {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    if !matches!(first, "{}" | "{!}") {
        return written(first);
    }
    let fields = words.filter_map(|word| {
        let (field, ty) = word.split_once('=')?;
        let (ty, default) = match ty.split_once('~') {
            Some((ty, default)) => (ty, Value::from_json(default.as_bytes()).ok()),
            None => (ty, None),
        };
        let field_type = Field { ty: reference(ty), default, nullable: false };
        Some((Str::from(field), field_type))
    });
    let map = Map { fields: fields.collect(), atomic: first == "{!}", ..Map::default() };
    Atom { map: Some(map), ..Atom::default() }
}

/// A type as the table writes it.
fn reference(text: &str) -> Reference {
    match text {
        UNTYPED | GUESSED => Reference::Named(text.into(), None),
        "s" | "n" | "b" | "u" | "%" => Reference::Inline(Arc::new(written(text))),
        _ => match text.chars().next() {
            Some('[' | '{') => Reference::Inline(Arc::new(written(text))),
            Some('!') => Reference::Named(text.trim_start_matches('!').into(), Some(true)),
            Some('.') => Reference::Named(text.trim_start_matches('.').into(), Some(false)),
            _ => Reference::Named(text.into(), None),
        },
    }
}

fn written(text: &str) -> Atom {
    let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
    match text {
        "s" => return scalar(Scalar::Text),
        "n" => return scalar(Scalar::Numeric),
        "b" => return scalar(Scalar::Boolean),
        "u" => return scalar(Scalar::Any),
        "*" => return anything(true),
        "%" | "?" => return anything(false),
        _ => {}
    }
    if let Some((keys, element)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let list = List {
            element: reference(element),
            atomic: keys.is_empty(),
            keys: keys.split(',').filter(|key| !["", "="].contains(key)).map(Str::from).collect(),
        };
        return Atom { list: Some(list), ..Atom::default() };
    }
    if let Some((mark, element)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        let map = Map { element: Some(reference(element)), atomic: mark == "!", ..Map::default() };
        return Atom { map: Some(map), ..Atom::default() };
    }
    Atom::default()
}

/// The type that a schema of a custom resource describes. `open` where an outer schema preserves
/// unknown fields.
fn of_schema(schema: &Value, open: bool, depth: usize) -> Atom {
    let is = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    if depth > MAX_SCHEMA_DEPTH {
        return anything(false);
    }
    let open = open || is("x-kubernetes-preserve-unknown-fields");
    let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
    let kind = if is("x-kubernetes-int-or-string") { None } else { text("type") };
    match kind {
        Some("object") => {
            let mut map = map_of(schema, open, depth);
            if is("x-kubernetes-embedded-resource") {
                embedded(&mut map);
            }
            Atom { map: Some(map), ..Atom::default() }
        }
        Some("array") => Atom { list: Some(list_of(schema, open, depth)), ..Atom::default() },
        Some("integer" | "number") => scalar(Scalar::Numeric),
        Some("boolean") => scalar(Scalar::Boolean),
        Some("string") => match text("format") {
            None | Some("" | "byte") => scalar(Scalar::Text),
            Some(_) => scalar(Scalar::Any),
        },
        _ => Atom {
            scalar: Some(Scalar::Any),
            list: Some(list_of(schema, open, depth)),
            map: Some(map_of(schema, open, depth)),
        },
    }
}

fn map_of(schema: &Value, open: bool, depth: usize) -> Map {
    let guessed = || Some(Reference::Named(GUESSED.into(), None));
    let inner = |schema: &Value| Reference::Inline(Arc::new(of_schema(schema, open, depth + 1)));
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields: BTreeMap<_, _> = properties
        .into_iter()
        .flat_map(|properties| properties.iter())
        .map(|(name, schema)| {
            let default = schema.get("default").cloned();
            let nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
            (name.clone(), Field { ty: inner(schema), default, nullable })
        })
        .collect();
    let element = match schema.get("additionalProperties") {
        None if open || fields.is_empty() => guessed(),
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => guessed(),
        Some(schema) => Some(inner(schema)),
    };
    let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
    let preserves = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool);
    let is_closed = matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false)));
    Map { fields, element, atomic, prunes: is_closed && preserves != Some(true) }
}

fn list_of(schema: &Value, open: bool, depth: usize) -> List {
    let element = match schema.get("items") {
        Some(schema) => Reference::Inline(Arc::new(of_schema(schema, open, depth + 1))),
        None => Reference::Named(UNTYPED.into(), None),
    };
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys = keys.into_iter().flat_map(|keys| keys.iter());
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    List {
        element,
        atomic: !matches!(kind, Some("set" | "map")),
        keys: match kind {
            Some("map") => keys.filter_map(Value::as_str).map(Str::from).collect(),
            _ => Vec::new(),
        },
    }
}

/// The fields that every object has.
fn embedded(map: &mut Map) {
    for (name, ty) in [("apiVersion", "s"), ("kind", "s"), ("metadata", "meta.v1.ObjectMeta")] {
        map.fields.insert(name.into(), Field { ty: reference(ty), default: None, nullable: false });
    }
}
