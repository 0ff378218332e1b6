//! The functions of Kubernetes' CEL environment.

mod authorizer;
mod convert;
mod earlier;
mod formats;
mod lists;
mod message;
mod net;
mod operators;
mod optional;
mod patterns;
pub(crate) mod printing;
mod quantity;
mod semver;
mod strings;
mod time;
mod url;

pub(crate) use lists::sorted_by;
pub(crate) use message::{Message, build as message};
pub(crate) use patterns::{loose, with_pattern};
pub(crate) use time::{
    duration_text, lenient as read_any_time, read_timestamp, timestamp, timestamp_text,
};

pub use authorizer::{Access, Action, Asked, Authorization, Authorizer};
pub use formats::NamedFormat;
pub use net::{Cidr, Ip};
pub use quantity::Quantity;
pub use semver::Semver;
pub use url::Url;

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    error::{EvalError, Result},
    heap::Heap,
    release::Release,
    value::Val,
};

/// A function. Arguments it cannot take are [`EvalError::NoOverload`].
pub(crate) type Native = for<'a> fn(Heap<'a>, &[Val<'a>]) -> Result<Val<'a>>;

type Table = &'static [(&'static str, Native)];

/// A value of one of Kubernetes' own types.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Opaque<'a> {
    /// A quantity of a resource.
    Quantity(Quantity<'a>),
    /// A semantic version.
    Semver(Semver<'a>),
    /// A URL.
    Url(Url<'a>),
    /// An address.
    Ip(Ip),
    /// A network.
    Cidr(Cidr),
    /// A format of texts.
    Format(NamedFormat),
    /// A question to the authorizer, or its answer.
    Authorization(Authorization<'a>),
}

impl Opaque<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorization(value) => value.type_name(),
        }
    }

    /// The size that costs are computed from.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Self::Ip(ip) => Some(ip.size()),
            Self::Cidr(cidr) => Some(cidr.size()),
            _ => None,
        }
    }

    /// The steps that comparing it takes.
    pub(crate) fn work(&self) -> u64 {
        match self {
            Self::Quantity(quantity) => quantity.length() as u64 / 16,
            Self::Semver(version) => version.length() as u64 / 16,
            Self::Url(url) => url.text().len() as u64 / 16,
            _ => 0,
        }
    }

    /// Whether two are equal; nothing if they are of different types.
    pub(crate) fn equal(&self, other: &Opaque<'_>) -> Option<bool> {
        Some(match (self, other) {
            (Self::Quantity(_), Opaque::Quantity(b)) if b.computed => return None,
            (Self::Quantity(a), Opaque::Quantity(b)) => a.compare(*b).is_eq(),
            (Self::Semver(a), Opaque::Semver(b)) => a.compare(b).is_eq(),
            (Self::Url(a), Opaque::Url(b)) => a.text() == b.text(),
            (Self::Ip(a), Opaque::Ip(b)) => a == b,
            (Self::Cidr(a), Opaque::Cidr(b)) => a == b,
            (Self::Format(a), Opaque::Format(b)) => a == b,
            _ => return None,
        })
    }
}

/// The implementation of the function `name`.
pub(crate) fn native(name: &str, release: Release) -> Option<Native> {
    let earlier = match release {
        Release::V0_26 => earlier::FUNCTIONS.iter().find(|(function, _)| *function == name),
        Release::V0_30 => None,
    };
    earlier.map(|(_, native)| *native).or_else(|| NATIVES.get(name).copied())
}

static NATIVES: LazyLock<HashMap<&'static str, Native>> = LazyLock::new(|| {
    let tables: [Table; 13] = [
        authorizer::FUNCTIONS,
        convert::FUNCTIONS,
        formats::FUNCTIONS,
        lists::FUNCTIONS,
        net::FUNCTIONS,
        operators::FUNCTIONS,
        optional::FUNCTIONS,
        patterns::FUNCTIONS,
        quantity::FUNCTIONS,
        semver::FUNCTIONS,
        strings::FUNCTIONS,
        time::FUNCTIONS,
        url::FUNCTIONS,
    ];
    tables.into_iter().flatten().copied().collect()
});

/// The error of a call when no overload fits its arguments.
pub(crate) fn no_overload(name: &str, args: &[Val<'_>]) -> EvalError {
    // cel-go hands these functions to the first operand if it has methods, and those name no function.
    let has_methods =
        matches!(args.first(), Some(Val::String(_) | Val::Duration(_) | Val::Timestamp(_)));
    if operators::FUNCTIONS.iter().any(|(operator, _)| *operator == name) {
        return match args.first() {
            Some(left) if has_methods || operators::takes(name, *left) => EvalError::NoOverload,
            _ => EvalError::Failed(format!("no such overload: {name}")),
        };
    }
    match (name, args) {
        ("size" | "matches", _) if !has_methods => {
            return EvalError::Failed(format!("no such overload: {name}"));
        }
        ("sort", [first]) if !has_methods && !first.is_list() => {
            return EvalError::Failed("no such overload: sort".to_owned());
        }
        ("contains" | "startsWith" | "endsWith" | "matches" | "size" | "sort", _) => {
            return EvalError::NoOverload;
        }
        ("@sortByAssociatedKeys", _) => {
            return EvalError::Failed(format!("no such overload: {name}"));
        }
        ("flatten", [first]) => {
            let name = match first.type_name() {
                "map" => "map(dyn, dyn)",
                "optional_type" => "optional_type(dyn)",
                name => name,
            };
            return EvalError::Failed(format!("no such overload: {name}.flatten()"));
        }
        ("flatten", [first, second]) => {
            let (first, second) = (first.type_name(), second.type_name());
            return EvalError::Failed(format!("no such overload: {first}.flatten({second})"));
        }
        _ => {}
    }
    let name = name.trim_start_matches('@');
    let types: Vec<_> = args.iter().map(|arg| arg.type_name()).collect();
    EvalError::Failed(format!("no such overload: {name}({})", types.join(", ")))
}
