//! The costs of calls, in Kubernetes' units.
//!
//! The figures are those of cel-go (`interpreter/runtimecost.go`, and the trackers of its list and
//! set extensions) and of Kubernetes (`pkg/cel/library/cost.go`). Where the original knows a cost
//! by overload, it applies only if the checker found exactly one overload that fits; otherwise the
//! call costs 1.

use crate::{error::Result, functions::Overload, heap::Heap, library::Opaque, value::Val};

/// The costs of building a list, a map and a message.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const MESSAGE: u64 = 40;

/// How a call's cost follows from its arguments and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallCost {
    /// 1
    One,
    /// A tenth of the first argument's size, times this, rounded up.
    Traverse(u8),
    /// A fifth of the result's size.
    Result,
    /// By the size of the first argument, texts by a tenth of their bytes.
    Deep,
    /// The second argument's size.
    Search,
    /// A tenth of the smaller of two.
    Compare,
    /// A tenth of both together.
    Concatenate,
    /// The product of a tenth of each.
    Contains,
    /// A tenth of a text and its end, times a quarter of a pattern.
    Pattern,
    /// As a pattern of the length that stands for a named format.
    Format,
    /// The size of the result and what building it costs.
    Build,
    /// The size of the first argument by the depth of flattening, and what building costs.
    Flatten,
    /// Each element of the argument of this number with each other, and what building costs.
    Pairwise(u8),
    /// The product of two sizes, times this.
    Product(u8),
    /// An authorization.
    Check,
    /// The most requirements of a selector.
    Selector,
    /// An address in a network; `text` if it has to be read first.
    ContainsIp {
        text: bool,
    },
    ContainsCidr {
        text: bool,
    },
}

/// The cost of calls of `function`; `overload` is the only one that fits, if there is only one.
pub(crate) fn call(function: &str, overload: Option<&Overload>) -> CallCost {
    let arg = |index: usize| overload.and_then(|overload| overload.arg(index));
    let texts = |cost| match arg(0) {
        Some("string" | "bytes") => cost,
        _ => CallCost::One,
    };
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => CallCost::Deep,
        "url"
        | "jsonpatch.escapeKey"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => CallCost::Traverse(1),
        "replace" | "split" | "ip.isCanonical" => CallCost::Traverse(2),
        "ip" => CallCost::Traverse(1),
        "join" => CallCost::Result,
        "find" | "findAll" => CallCost::Pattern,
        "containsIP" => CallCost::ContainsIp { text: arg(1) == Some("string") },
        "containsCIDR" => CallCost::ContainsCidr { text: arg(1) == Some("string") },
        "validate" => CallCost::Format,
        "check" => CallCost::Check,
        "fieldSelector" | "labelSelector" => CallCost::Selector,
        _ if overload.is_none() => CallCost::One,
        "startsWith" | "endsWith" | "strings.quote" | "format" => CallCost::Traverse(1),
        "string" if arg(0) == Some("bytes") => CallCost::Traverse(1),
        "bytes" if arg(0) == Some("string") => CallCost::Traverse(1),
        "@in" if arg(1).is_some_and(|range| range.starts_with('L')) => CallCost::Search,
        "_<_" | "_<=_" | "_>_" | "_>=_" => texts(CallCost::Compare),
        "_+_" => texts(CallCost::Concatenate),
        "matches" if overload.is_some_and(|overload| overload.member) => CallCost::Pattern,
        "contains" => CallCost::Contains,
        "slice" | "lists.range" | "reverse" => CallCost::Build,
        "flatten" => CallCost::Flatten,
        "distinct" | "sort" => CallCost::Pairwise(0),
        "@sortByAssociatedKeys" => CallCost::Pairwise(1),
        "sets.contains" | "sets.intersects" => CallCost::Product(1),
        "sets.equivalent" => CallCost::Product(2),
        _ => CallCost::One,
    }
}

impl CallCost {
    /// The cost of one call; null stands for an argument or result that is an error.
    pub(crate) fn of(self, heap: Heap<'_>, args: &[Val<'_>], result: Val<'_>) -> Result<u64> {
        let arg = |index: usize| args.get(index).copied().unwrap_or(Val::Null);
        let size = |index: usize| size(arg(index));
        Ok(match self {
            Self::One => 1,
            Self::Traverse(times) => share(size(0) * u64::from(times), 0.1),
            Self::Result => share(self::size(result) * 2, 0.1),
            Self::Deep => deep(heap, arg(0))?,
            Self::Search => full_size(arg(1)),
            Self::Compare => share(full_size(arg(0)).min(full_size(arg(1))), 0.1),
            Self::Concatenate => share(full_size(arg(0)) + full_size(arg(1)), 0.1),
            Self::Contains => share(full_size(arg(0)), 0.1) * share(full_size(arg(1)), 0.1),
            Self::Pattern => share(size(0) + 1, 0.1) * share(size(1), 0.25),
            Self::Format => match arg(0) {
                Val::Opaque(Opaque::Format(format)) => {
                    share(size(1) + 1, 0.1) * share(format.pattern_size(), 0.25)
                }
                _ => 1,
            },
            Self::Build => 1 + LIST + self::size(result),
            Self::Flatten => {
                let depth = match arg(1) {
                    Val::Int(depth) => depth,
                    _ => 1,
                };
                // The original wraps around at a negative depth.
                let work = size(0).cast_signed().saturating_mul(depth);
                (1 + LIST).wrapping_add(work.cast_unsigned())
            }
            Self::Pairwise(index) => {
                let list = arg(usize::from(index));
                let count = self::size(list);
                let first = list.item(0);
                let square = count.saturating_mul(count);
                let texts = matches!(first, Some(Val::String(_) | Val::Bytes(_)));
                1 + LIST + if texts { floor(square, 2.1) } else { square.saturating_mul(2) }
            }
            Self::Product(times) => 1 + size(0).saturating_mul(size(1)) * u64::from(times),
            Self::Check => 350_000,
            // A list, reading the text, and a list and a structure for every two characters.
            Self::Selector => LIST + share(size(1), 0.1) + share(share(size(1), 0.5), 50.0),
            Self::ContainsIp { text } => {
                share(size(0) * 2, 0.1) + if text { share(size(1), 0.1) } else { 0 }
            }
            Self::ContainsCidr { text } => {
                let network = share(size(0) * 2, 0.1) + share(size(0), 0.1) + 1;
                network + if text { share(size(1), 0.1) } else { 0 }
            }
        })
    }
}

/// `==` or `!=` of two values.
pub(crate) fn equality(negated: bool, left: Val<'_>, right: Val<'_>) -> u64 {
    match (left, right) {
        (Val::Opaque(_), _) if !negated => 1,
        // Up to ten characters cost 1: most texts need not be counted.
        (Val::String(a), Val::String(b)) if a.len().min(b.len()) <= 10 => {
            u64::from(!a.is_empty() && !b.is_empty())
        }
        _ => share(full_size(left).min(full_size(right)), 0.1),
    }
}

/// The product, rounded up. (`f64::ceil` is a call of the C library on x86-64.)
#[expect(clippy::cast_precision_loss, reason = "the original computes with floats")]
#[expect(clippy::cast_possible_truncation, reason = "sizes are small")]
#[inline]
fn share(size: u64, factor: f64) -> u64 {
    let product = size.cast_signed() as f64 * factor;
    let whole = product as i64;
    whole.cast_unsigned() + u64::from((whole as f64) < product)
}

#[expect(clippy::cast_precision_loss, reason = "the original computes with floats")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are small")]
fn floor(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

fn size(value: Val<'_>) -> u64 {
    let size = match value {
        Val::Opaque(opaque) => opaque.size(),
        value => value.size(),
    };
    size.map_or(1, |size| size as u64)
}

/// The size, also of what an optional holds.
fn full_size(value: Val<'_>) -> u64 {
    match value {
        Val::Optional(Some(inner)) => full_size(*inner),
        value => size(value),
    }
}

fn deep(heap: Heap<'_>, value: Val<'_>) -> Result<u64> {
    heap.budget.spend(1)?;
    let mut sum = 0_u64;
    match value {
        Val::String(text) => sum = floor(text.len() as u64, 0.1),
        Val::Bytes(bytes) => sum = floor(bytes.len() as u64, 0.1),
        value if value.is_list() => {
            for item in value.items() {
                sum = sum.saturating_add(deep(heap.deeper()?, item)?);
            }
        }
        value if value.is_map() => {
            for index in 0..value.entries().unwrap_or(0) {
                let Some((key, value)) = value.entry(index) else { break };
                sum = sum.saturating_add(deep(heap.deeper()?, key)?);
                sum = sum.saturating_add(deep(heap.deeper()?, value)?);
            }
        }
        _ => sum = 1,
    }
    Ok(sum)
}
