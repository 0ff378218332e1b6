//! Named formats of texts.

use modgate_value::{
    gotime::{Zone, parse},
    regex::GoRegex,
};
use std::{fmt, sync::LazyLock};

use super::{Opaque, Table, url};
use crate::{
    error::{EvalError, Result},
    heap::Heap,
    value::Val,
};

/// A format that texts can be checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as they are called in expressions")]
#[non_exhaustive]
pub enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

use NamedFormat::{
    Byte, Date, Datetime, Dns1035Label, Dns1035LabelPrefix, Dns1123Label, Dns1123LabelPrefix,
    Dns1123Subdomain, Dns1123SubdomainPrefix, LabelValue, QualifiedName, Uri, Uuid,
};

/// As it is called in expressions.
const NAMES: [(&str, NamedFormat); 13] = [
    ("dns1123Label", Dns1123Label),
    ("dns1123Subdomain", Dns1123Subdomain),
    ("dns1035Label", Dns1035Label),
    ("qualifiedName", QualifiedName),
    ("dns1123LabelPrefix", Dns1123LabelPrefix),
    ("dns1123SubdomainPrefix", Dns1123SubdomainPrefix),
    ("dns1035LabelPrefix", Dns1035LabelPrefix),
    ("labelValue", LabelValue),
    ("uri", Uri),
    ("uuid", Uuid),
    ("byte", Byte),
    ("date", Date),
    ("datetime", Datetime),
];

impl fmt::Display for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, format)| format == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl NamedFormat {
    fn find(wanted: &str) -> Option<Self> {
        NAMES.iter().find(|(name, _)| *name == wanted).map(|(_, format)| *format)
    }

    /// The length of the pattern that checking costs as much as.
    pub(crate) fn pattern_size(self) -> u64 {
        match self {
            Dns1123Label | Dns1035Label | Dns1123LabelPrefix | Dns1035LabelPrefix => 30,
            Dns1123Subdomain | Dns1123SubdomainPrefix | QualifiedName => 60,
            LabelValue => 40,
            Uri => 1103,
            Uuid => 71,
            Byte => 84,
            Date | Datetime => 72,
        }
    }

    /// Whether `text` has this format.
    pub(super) fn holds(self, text: &str) -> bool {
        self.problems(text).is_empty()
    }

    /// The problems of `text`.
    fn problems(self, text: &str) -> Vec<String> {
        match self {
            Dns1123Label => named(text, 63, is_label, label_problem(text)),
            Dns1123LabelPrefix => {
                let masked = masked(text);
                named(&masked, 63, is_label, label_problem(&masked))
            }
            Dns1123Subdomain => named(text, 253, is_subdomain, SUBDOMAIN),
            Dns1123SubdomainPrefix => named(&masked(text), 253, is_subdomain, SUBDOMAIN),
            Dns1035Label => named(text, 63, is_dns1035, DNS1035),
            Dns1035LabelPrefix => named(&masked(text), 63, is_dns1035, DNS1035),
            QualifiedName => qualified(text),
            LabelValue => {
                let mut problems = Vec::new();
                if text.len() > 63 {
                    problems.push("must be no more than 63 bytes".to_owned());
                }
                if !text.is_empty() && !is_name(text) {
                    problems.push(VALUE.to_owned());
                }
                problems
            }
            Uri => url::request_uri(text).err().into_iter().collect(),
            Uuid => unless(matches(&UUID, text), "does not match the UUID format"),
            Byte => unless(is_base64(text), "invalid base64"),
            Date => unless(is_date(text), "invalid date"),
            Datetime => unless(is_datetime(text), "invalid datetime"),
        }
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("validate", |heap, args| match args {
        [Val::Opaque(Opaque::Format(format)), Val::String(text)] => {
            heap.budget.spend(text.len() as u64)?;
            let found = heap.temporary(text.len() * 3, || Ok(format.problems(text)))?;
            let mut problems = Vec::new();
            for problem in found {
                problems.push(heap.text(&problem)?);
            }
            if problems.is_empty() {
                return Ok(Val::Optional(None));
            }
            let problems = heap.list(&problems)?;
            heap.some(problems)
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("format.named", |heap, args| match args {
        [Val::String(name)] => match NamedFormat::find(name) {
            Some(format) => {
                let format = heap.opaque(Opaque::Format(format))?;
                heap.some(format)
            }
            None => Ok(Val::Optional(None)),
        },
        _ => Err(EvalError::NoOverload),
    }),
    ("format.dns1123Label", |heap, _| the(heap, Dns1123Label)),
    ("format.dns1123Subdomain", |heap, _| the(heap, Dns1123Subdomain)),
    ("format.dns1035Label", |heap, _| the(heap, Dns1035Label)),
    ("format.qualifiedName", |heap, _| the(heap, QualifiedName)),
    ("format.dns1123LabelPrefix", |heap, _| the(heap, Dns1123LabelPrefix)),
    ("format.dns1123SubdomainPrefix", |heap, _| the(heap, Dns1123SubdomainPrefix)),
    ("format.dns1035LabelPrefix", |heap, _| the(heap, Dns1035LabelPrefix)),
    ("format.labelValue", |heap, _| the(heap, LabelValue)),
    ("format.uri", |heap, _| the(heap, Uri)),
    ("format.uuid", |heap, _| the(heap, Uuid)),
    ("format.byte", |heap, _| the(heap, Byte)),
    ("format.date", |heap, _| the(heap, Date)),
    ("format.datetime", |heap, _| the(heap, Datetime)),
];

fn the(heap: Heap<'_>, format: NamedFormat) -> Result<Val<'_>> {
    heap.opaque(Opaque::Format(format))
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                     or '-', and must start and end with an alphanumeric character (e.g. \
                     'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                         characters, '-' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                       start with an alphabetic character, and end with an alphanumeric character \
                       (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                       '[a-z]([-a-z0-9]*[a-z0-9])?')";

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                    start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  \
                    or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const KEY: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and \
                   must start and end with an alphanumeric character (e.g. 'MyName',  or \
                   'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain \
                   prefix and '/' (e.g. 'example.com/MyName')";

const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, \
                     '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

fn named(text: &str, most: usize, valid: impl Fn(&str) -> bool, problem: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > most {
        problems.push(format!("must be no more than {most} characters"));
    }
    if !valid(text) {
        problems.push(problem.to_owned());
    }
    problems
}

/// The problems of a text that is no label: a subdomain has dots too many.
fn label_problem(text: &str) -> &'static str {
    if is_subdomain(text) { "must not contain dots" } else { LABEL }
}

/// A prefix may end in a hyphen: the last two characters are taken for one that is valid.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest + "a"
        }
        _ => text.to_owned(),
    }
}

fn edged(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| edge(*first) && edge(*last))
        && bytes.iter().all(|byte| inner(*byte))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    edged(text, lower, |byte| lower(byte) || byte == b'-')
}

fn is_dns1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_name(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_alphanumeric();
    edged(text, edge, |byte| edge(byte) || b"-_.".contains(&byte))
}

fn qualified(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                let found = named(prefix, 253, is_subdomain, SUBDOMAIN);
                problems.extend(found.iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => return vec![KEY.to_owned()],
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(NAME.to_owned());
    }
    problems
}

type Pattern = LazyLock<Option<GoRegex>>;

static UUID: Pattern = LazyLock::new(|| {
    let pattern = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    GoRegex::new(pattern).ok()
});

static TIME: Pattern = LazyLock::new(|| {
    let pattern = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    GoRegex::new(pattern).ok()
});

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    let pads = text.len() - bare.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && pads <= 2
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_date(text: &str) -> bool {
    parse("2006-01-02", text, &Zone::utc()).is_ok()
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let number = |range| time.get(range).and_then(|part: &str| part.parse::<u8>().ok());
    is_date(date)
        && matches(&TIME, time)
        && number(0..2).is_some_and(|hour| hour <= 23)
        && number(3..5).is_some_and(|minute| minute <= 59)
        && number(6..8).is_some_and(|second| second <= 59)
}
