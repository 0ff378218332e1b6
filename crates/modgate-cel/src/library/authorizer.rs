//! The authorizer's functions: an expression builds a question step by step, and `check` asks it.

use std::fmt;

use modgate_value::Value;

use super::{NamedFormat, Opaque, Table};
use crate::{
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// Answers what expressions ask of `authorizer`.
pub trait Authorizer: fmt::Debug {
    /// Whether the action is allowed.
    ///
    /// # Errors
    ///
    /// When the authorizer gives no answer: the expression fails. An error that the authorizer itself
    /// answers with is [`Access::error`], which expressions can read.
    fn decide(&self, action: &Action<'_>) -> std::result::Result<Access, String>;
}

/// An action that an expression asks about. What the expression does not say is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Action<'a> {
    /// The user of the request; empty where that is not known.
    pub user: &'a str,
    /// `userInfo` of the request, which has the groups of the user.
    pub user_info: Option<&'a Value>,
    /// Namespace and name of the service account that acts; the user of the request if `None`.
    pub service_account: Option<(&'a str, &'a str)>,
    /// The verb.
    pub verb: &'a str,
    /// The path, for an action that is not on a resource.
    pub path: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// A selector by fields.
    pub field_selector: &'a str,
    /// A selector by labels.
    pub label_selector: &'a str,
}

/// The answer to an [`Action`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// Why it could not be decided.
    pub error: Option<String>,
}

/// A value that a chain of calls on `authorizer` gives.
#[derive(Debug, Clone, Copy)]
pub enum Authorization<'a> {
    /// `authorizer`
    Authorizer(Asked<'a>),
    /// `authorizer.path(…)`
    Path(Asked<'a>),
    /// `authorizer.group(…)`
    Group(Asked<'a>),
    /// `authorizer.group(…).resource(…)`
    Resource(Asked<'a>),
    /// `….check(…)`
    #[doc(hidden)]
    Decision { allowed: bool, reason: &'a str, error: Option<&'a str> },
}

/// A question, and the authorizer it is for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    authorizer: &'a dyn Authorizer,
    action: Action<'a>,
}

impl<'a> Authorization<'a> {
    /// The value of `authorizer` in the request of a user.
    pub fn of(authorizer: &'a dyn Authorizer, user: &'a str, info: Option<&'a Value>) -> Self {
        let action = Action { user, user_info: info, ..Action::default() };
        Self::Authorizer(Asked { authorizer, action })
    }

    /// The value of `authorizer.requestResource`.
    pub fn of_resource(authorizer: &'a dyn Authorizer, action: Action<'a>) -> Self {
        Self::Resource(Asked { authorizer, action })
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(_) => "kubernetes.authorization.PathCheck",
            Self::Group(_) => "kubernetes.authorization.GroupCheck",
            Self::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision { .. } => "kubernetes.authorization.Decision",
        }
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("path", |heap, args| match args {
        [authorizer, Val::String(path)] => match taken(*authorizer)? {
            Authorization::Authorizer(_) if path.trim().is_empty() => {
                failed("path must not be empty")
            }
            Authorization::Authorizer(asked) => {
                give(heap, Authorization::Path(asked.with(|action| action.path = path)))
            }
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("group", |heap, args| match args {
        [authorizer, Val::String(group)] => match taken(*authorizer)? {
            Authorization::Authorizer(asked) => {
                give(heap, Authorization::Group(asked.with(|action| action.group = group)))
            }
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("serviceAccount", |heap, args| match args {
        [authorizer, Val::String(namespace), Val::String(name)] => {
            let Authorization::Authorizer(asked) = taken(*authorizer)? else {
                return Err(EvalError::NoOverload);
            };
            heap.read(namespace.len().saturating_add(name.len()))?;
            if !NamedFormat::Dns1123Subdomain.holds(name) {
                return failed("Invalid service account name");
            }
            if !NamedFormat::Dns1123Label.holds(namespace) {
                return failed("Invalid service account namespace");
            }
            let asked = asked.with(|action| action.service_account = Some((namespace, name)));
            give(heap, Authorization::Authorizer(asked))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("resource", |heap, args| match args {
        [group, Val::String(resource)] => match taken(*group)? {
            Authorization::Group(_) if resource.trim().is_empty() => {
                failed("resource must not be empty")
            }
            Authorization::Group(asked) => {
                let asked = asked.with(|action| action.resource = resource);
                give(heap, Authorization::Resource(asked))
            }
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("subresource", |heap, args| narrowed(heap, args, |action, text| action.subresource = text)),
    ("namespace", |heap, args| narrowed(heap, args, |action, text| action.namespace = text)),
    ("name", |heap, args| narrowed(heap, args, |action, text| action.name = text)),
    ("fieldSelector", |heap, args| {
        narrowed(heap, args, |action, text| action.field_selector = text)
    }),
    ("labelSelector", |heap, args| {
        narrowed(heap, args, |action, text| action.label_selector = text)
    }),
    ("check", |heap, args| match args {
        [target, Val::String(verb)] => match taken(*target)? {
            Authorization::Path(asked) | Authorization::Resource(asked) => {
                let asked = asked.with(|action| action.verb = verb);
                let access = match asked.authorizer.decide(&asked.action) {
                    Ok(access) => access,
                    Err(error) => return failed(error),
                };
                let reason = heap.str(&access.reason)?;
                let error = access.error.map(|error| heap.str(&error)).transpose()?;
                let allowed = access.allowed;
                give(heap, Authorization::Decision { allowed, reason, error })
            }
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("allowed", |_, args| decision(args, |allowed, _, _| Val::Bool(allowed))),
    ("reason", |_, args| decision(args, |_, reason, _| Val::String(reason))),
    ("errored", |_, args| decision(args, |_, _, error| Val::Bool(error.is_some()))),
    ("error", |_, args| decision(args, |_, _, error| Val::String(error.unwrap_or_default()))),
];

impl<'a> Asked<'a> {
    fn with(mut self, set: impl FnOnce(&mut Action<'a>)) -> Self {
        set(&mut self.action);
        self
    }
}

fn taken(value: Val<'_>) -> Result<Authorization<'_>> {
    match value {
        Val::Opaque(Opaque::Authorization(value)) => Ok(*value),
        _ => Err(EvalError::NoOverload),
    }
}

fn give<'a>(heap: Heap<'a>, value: Authorization<'a>) -> Result<Val<'a>> {
    heap.opaque(Opaque::Authorization(value))
}

fn narrowed<'a>(
    heap: Heap<'a>,
    args: &[Val<'a>],
    set: impl FnOnce(&mut Action<'a>, &'a str),
) -> Result<Val<'a>> {
    match args {
        [resource, Val::String(text)] => match taken(*resource)? {
            Authorization::Resource(asked) => {
                give(heap, Authorization::Resource(asked.with(|action| set(action, text))))
            }
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }
}

fn decision<'a>(
    args: &[Val<'a>],
    read: impl FnOnce(bool, &'a str, Option<&'a str>) -> Val<'a>,
) -> Result<Val<'a>> {
    match args {
        [decision] => match taken(*decision)? {
            Authorization::Decision { allowed, reason, error } => Ok(read(allowed, reason, error)),
            _ => Err(EvalError::NoOverload),
        },
        _ => Err(EvalError::NoOverload),
    }
}
