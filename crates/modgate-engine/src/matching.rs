//! Match criteria: which objects a mutator or constraint applies to
//! (spec `gatekeeper-mutation…`, 1.3; `gatekeeper-validation`, section 5).
//!
//! [`Criteria::compile`] reads the block once, refusing what upstream only notices while a request
//! waits; [`Criteria::matches`] applies it to one [`Matchable`], and `Criteria::first_mismatch` names the
//! criterion that excluded it.

mod selector;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{matching as wire, meta::GroupVersionKind};
use modgate_value::{Str, Value};

pub use selector::{Selector, SelectorError};

/// Whether an object came from a user or was generated from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Sent to the API server.
    Original,
    /// Expanded from a workload.
    Generated,
}

/// Which sources are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceCriterion {
    All,
    Only(Source),
    Unknown(Str),
}

/// An object with everything that criteria look at.
#[derive(Debug, Clone, Copy)]
pub struct Matchable<'a> {
    /// The object.
    pub object: &'a Value,
    /// Its kind.
    pub kind: &'a GroupVersionKind,
    /// Its Namespace, if there is one and it is known.
    pub namespace: Option<&'a Value>,
    /// Where it came from; `None` when that is not known.
    pub source: Option<Source>,
}

/// A compiled match block.
#[derive(Debug, Clone)]
pub struct Criteria {
    kinds: Option<Vec<wire::Kinds>>,
    scope: Scope,
    namespaces: Vec<Wildcard>,
    excluded_namespaces: Vec<Wildcard>,
    label_selector: Option<Selector>,
    namespace_selector: Option<Selector>,
    name: Option<Wildcard>,
    source: SourceCriterion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
}

/// One criterion of a match block, in the order of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Criterion {
    /// `kinds`
    Kinds,
    /// `scope`
    Scope,
    /// `namespaces`
    Namespaces,
    /// `excludedNamespaces`
    ExcludedNamespaces,
    /// `labelSelector`
    LabelSelector,
    /// `namespaceSelector`
    NamespaceSelector,
    /// `name`
    Name,
    /// `source`
    Source,
}

impl Criterion {
    /// Every criterion, in the order of evaluation.
    pub const ALL: [Self; 8] = [
        Self::Kinds,
        Self::Scope,
        Self::Namespaces,
        Self::ExcludedNamespaces,
        Self::LabelSelector,
        Self::NamespaceSelector,
        Self::Name,
        Self::Source,
    ];

    /// The member of the match block.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kinds => "kinds",
            Self::Scope => "scope",
            Self::Namespaces => "namespaces",
            Self::ExcludedNamespaces => "excludedNamespaces",
            Self::LabelSelector => "labelSelector",
            Self::NamespaceSelector => "namespaceSelector",
            Self::Name => "name",
            Self::Source => "source",
        }
    }
}

/// A criterion could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// The object is in a namespace that is not known.
    #[error(
        "failed to run Match criteria: namespace selector for namespace-scoped object but missing \
         Namespace"
    )]
    MissingNamespace,
    /// `source` is none of the known ones.
    #[error("failed to run Match criteria: invalid source field {}", modgate_value::gofmt::quote(.0))]
    InvalidSource(String),
    /// `source` matters and the object's is not known.
    #[error("failed to run Match criteria: source field not specified for resource {0}")]
    UnknownSource(String),
}

impl Criteria {
    /// Compiles a match block.
    ///
    /// # Errors
    ///
    /// A selector that Kubernetes would refuse.
    pub fn compile(block: &wire::Match) -> Result<Self, SelectorError> {
        let wildcards = |list: &Option<Vec<Str>>| -> Vec<Wildcard> {
            list.iter().flatten().map(|text| Wildcard::new(text)).collect()
        };
        let selector = |selector: &Option<wire::LabelSelector>| {
            selector.as_ref().map(Selector::compile).transpose()
        };
        Ok(Self {
            kinds: block.kinds.clone().filter(|kinds| !kinds.is_empty()),
            scope: match block.scope.as_deref() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::Any,
            },
            namespaces: wildcards(&block.namespaces),
            excluded_namespaces: wildcards(&block.excluded_namespaces),
            label_selector: selector(&block.label_selector)?,
            namespace_selector: selector(&block.namespace_selector)?,
            name: block.name.as_deref().filter(|name| !name.is_empty()).map(Wildcard::new),
            source: match block.source.as_deref().unwrap_or_default() {
                "" | "All" => SourceCriterion::All,
                "Original" => SourceCriterion::Only(Source::Original),
                "Generated" => SourceCriterion::Only(Source::Generated),
                other => SourceCriterion::Unknown(other.into()),
            },
        })
    }

    /// Whether every criterion holds.
    ///
    /// # Errors
    ///
    /// When one cannot be decided.
    pub fn matches(&self, subject: Matchable<'_>) -> Result<bool, MatchError> {
        self.first_mismatch(subject).map(|mismatch| mismatch.is_none())
    }

    /// The first criterion that excludes the subject; `None` when all hold.
    ///
    /// # Errors
    ///
    /// When a criterion before that cannot be decided.
    pub(crate) fn first_mismatch(
        &self,
        subject: Matchable<'_>,
    ) -> Result<Option<Criterion>, MatchError> {
        let facts = Facts::of(subject);
        if !self.admits_kind(subject.kind) {
            return Ok(Some(Criterion::Kinds));
        }
        let scope_holds = match self.scope {
            Scope::Any => true,
            Scope::Cluster => facts.is_namespace || !facts.has_namespace,
            Scope::Namespaced => !facts.is_namespace && facts.has_namespace,
        };
        if !scope_holds {
            return Ok(Some(Criterion::Scope));
        }
        if let Some(name) = facts.namespace_name {
            let any = |list: &[Wildcard]| list.iter().any(|wildcard| wildcard.matches(name));
            if !self.namespaces.is_empty() && !any(&self.namespaces) {
                return Ok(Some(Criterion::Namespaces));
            }
            if any(&self.excluded_namespaces) {
                return Ok(Some(Criterion::ExcludedNamespaces));
            }
        }
        if let Some(selector) = &self.label_selector
            && !selector.matches(labels(subject.object))
        {
            return Ok(Some(Criterion::LabelSelector));
        }
        if let Some(selector) = &self.namespace_selector {
            let holds = match subject.namespace {
                _ if facts.is_namespace => selector.matches(labels(subject.object)),
                Some(namespace) => selector.matches(labels(namespace)),
                None if facts.has_namespace => return Err(MatchError::MissingNamespace),
                None => true,
            };
            if !holds {
                return Ok(Some(Criterion::NamespaceSelector));
            }
        }
        if let Some(wildcard) = &self.name
            && !wildcard.matches_name(subject.object)
        {
            return Ok(Some(Criterion::Name));
        }
        match (&self.source, subject.source) {
            (SourceCriterion::All, _) => Ok(None),
            (SourceCriterion::Unknown(text), _) => Err(MatchError::InvalidSource(text.to_string())),
            (SourceCriterion::Only(_), None) => {
                Err(MatchError::UnknownSource(subject.object.name().to_owned()))
            }
            (SourceCriterion::Only(wanted), Some(source)) => {
                Ok((*wanted != source).then_some(Criterion::Source))
            }
        }
    }

    /// Whether an object of this kind can match, whatever else it says.
    pub fn admits_kind(&self, kind: &GroupVersionKind) -> bool {
        let admits = |list: &Option<Vec<Str>>, name: &Str| match list.as_deref() {
            None | Some([]) => true,
            Some(list) => list.iter().any(|entry| entry == "*" || entry == name),
        };
        self.kinds.as_ref().is_none_or(|kinds| {
            kinds.iter().any(|entry| {
                admits(&entry.api_groups, &kind.group) && admits(&entry.kinds, &kind.kind)
            })
        })
    }
}

impl Criteria {
    /// Whether labels of the object's Namespace are looked at.
    pub fn selects_namespaces(&self) -> bool {
        self.namespace_selector.is_some()
    }

    /// The names of the kinds that can match at all; `None` when any can.
    pub fn kind_names(&self) -> Option<std::collections::BTreeSet<Str>> {
        let mut names = std::collections::BTreeSet::new();
        for entry in self.kinds.as_ref()? {
            let kinds = entry.kinds.as_deref().filter(|kinds| !kinds.is_empty())?;
            if kinds.iter().any(|kind| kind == "*") {
                return None;
            }
            names.extend(kinds.iter().cloned());
        }
        Some(names)
    }
}

/// Facts about a subject that several criteria use.
struct Facts<'a> {
    is_namespace: bool,
    has_namespace: bool,
    /// The name that `namespaces` and `excludedNamespaces` look at.
    namespace_name: Option<&'a str>,
}

impl<'a> Facts<'a> {
    fn of(subject: Matchable<'a>) -> Self {
        let own = subject.object.namespace();
        let is_namespace = subject.kind.group.is_empty() && subject.kind.kind == "Namespace";
        let namespace_name = if is_namespace {
            Some(subject.object.name())
        } else if let Some(namespace) = subject.namespace {
            Some(namespace.name())
        } else {
            (!own.is_empty()).then_some(own)
        };
        Self {
            is_namespace,
            has_namespace: !own.is_empty() || subject.namespace.is_some(),
            namespace_name,
        }
    }
}

fn labels(object: &Value) -> Option<&modgate_value::Object> {
    object.path(&["metadata", "labels"]).and_then(Value::as_object)
}

/// A name with `*` at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wildcard {
    Exact(Str),
    Prefix(Str),
    Suffix(Str),
    Contains(Str),
}

impl Wildcard {
    pub(crate) fn new(text: &str) -> Self {
        // A single `*` is a prefix of nothing, hence everything.
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(rest), Some(_)) => {
                Self::Contains(rest.strip_suffix('*').unwrap_or_default().into())
            }
            (Some(rest), None) => Self::Suffix(rest.into()),
            (None, Some(rest)) => Self::Prefix(rest.into()),
            (None, None) => Self::Exact(text.into()),
        }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(text) => name == text,
            Self::Prefix(text) => name.starts_with(text.as_str()),
            Self::Suffix(text) => name.ends_with(text.as_str()),
            Self::Contains(text) => name.contains(text.as_str()),
        }
    }

    /// Against `metadata.name`, or the beginning that `metadata.generateName` gave it (MA-11).
    fn matches_name(&self, object: &Value) -> bool {
        // How a name of that beginning will end cannot be known.
        let beginning = matches!(self, Self::Prefix(_) | Self::Contains(_));
        self.matches(object.name())
            || beginning && self.matches(object.metadata("generateName").unwrap_or_default())
    }
}
