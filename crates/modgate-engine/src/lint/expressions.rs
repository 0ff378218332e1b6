//! Fields of objects that CEL expressions misspell, in conditions and in what they build.

use modgate_cel::{
    ast::{Expr, Kind, Literal, Macro},
    parse,
};
use modgate_value::{
    Value,
    diag::Span,
    near,
    regex::{self, Slashes},
};

use super::{
    patterns::{self, Compared, Spelled},
    places::{self, Fault, Objects, Pointer, Step, What},
    reads::{Known, Path, Root},
    types::shown,
};
use crate::{Code, constraint::place_of_name as after};

/// How many places a value may have; of more nothing is known.
const MAX_PLACES: usize = 16;

/// How many parts of all expressions of a policy are looked at.
const MAX_PARTS: usize = 4_000;

/// How many mistakes of a policy are reported.
const MAX_FOUND: usize = 20;

/// An expression of a policy.
#[derive(Debug, Clone)]
pub(crate) struct Part<'t> {
    /// The field that has it.
    pub(crate) field: String,
    /// The expression.
    pub(crate) text: &'t str,
    /// The variable that it defines for those behind it.
    pub(crate) variable: Option<&'t str>,
}

/// The expressions of lists in a value, by list and member. Those of `variables` define variables.
pub(super) fn parts<'v>(value: &'v Value, field: &str, lists: &[(&str, &[&str])]) -> Vec<Part<'v>> {
    let mut parts = Vec::new();
    for (list, members) in lists {
        let items = value.get(list).and_then(Value::as_array);
        for (at, item) in items.into_iter().flat_map(|items| items.iter()).enumerate() {
            let name = item.get("name").and_then(Value::as_str);
            for member in *members {
                let Some(text) = item.get(member).and_then(Value::as_str) else { continue };
                let field = format!("{field}.{list}[{at}].{member}");
                parts.push(Part { field, text, variable: name.filter(|_| *list == "variables") });
            }
        }
    }
    parts
}

/// Something that is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpressionFinding {
    pub(crate) code: Code,
    /// The number of the part.
    pub(crate) part: usize,
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// The places that a value may come from; `None` where that is not known.
type Places<'e> = Option<Vec<Path<'e>>>;

/// The policy that has the expressions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner<'p> {
    /// One of the cluster's own policies.
    Policy,
    /// A template, whose parameters have this schema. It has warnings of its own about the members of every object and
    /// about names of parameters.
    Template(Option<&'p Value>),
}

/// Everything about the expressions of one policy, about these objects.
pub(crate) fn lint(
    parts: &[Part<'_>],
    objects: &Objects<'_>,
    owner: Owner<'_>,
) -> Vec<ExpressionFinding> {
    // What does not parse is an error.
    let parsed: Vec<Option<Expr>> = parts.iter().map(|part| parse(part.text).ok()).collect();
    let (is_template, parameters) = match owner {
        Owner::Policy => (false, None),
        Owner::Template(schema) => (true, schema),
    };
    let mut variables = Vec::new();
    if is_template {
        variables.push(("anyObject", Some(vec![Path::of(Root::Object)]), true));
        variables.push(("params", Some(vec![Path::of(Root::Parameters)]), true));
    }
    let mut lints = Lints {
        objects,
        known: Known { objects, parameters },
        is_template,
        part: 0,
        text: "",
        names: Vec::new(),
        variables,
        left: MAX_PARTS,
        found: Vec::new(),
    };
    for (index, (part, expression)) in parts.iter().zip(&parsed).enumerate() {
        let Some(expression) = expression else { continue };
        (lints.part, lints.text) = (index, part.text);
        lints.visit(expression);
        if let Some(name) = part.variable {
            let (places, is_plain) = (lints.places(expression), lints.is_plain(expression));
            lints.variables.push((name, places, is_plain));
        }
    }
    lints.found
}

struct Lints<'e> {
    objects: &'e Objects<'e>,
    known: Known<'e, 'e>,
    is_template: bool,
    part: usize,
    text: &'e str,
    /// The names of macros, innermost last.
    names: Vec<(&'e str, Places<'e>, bool)>,
    variables: Vec<(&'e str, Places<'e>, bool)>,
    left: usize,
    found: Vec<ExpressionFinding>,
}

impl<'e> Lints<'e> {
    fn push(&mut self, code: Code, span: Span, message: String, help: Option<String>) {
        self.found.push(ExpressionFinding { code, part: self.part, span, message, help });
    }

    /// Checks an expression and everything in it. The parser bounds the depth.
    fn visit(&mut self, expression: &'e Expr) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.found.len() >= MAX_FOUND {
            return;
        }
        match &expression.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, field, .. } => {
                self.visit(operand);
                self.member(expression, after(self.text, expression.span, field));
            }
            Kind::Index { operand, index, .. } => {
                self.visit(operand);
                self.visit(index);
                self.member(expression, index.span);
            }
            Kind::Has(operand, field) => {
                self.visit(operand);
                let places = self.places(operand);
                let places = places.map(|all| with(all, Step::Member(field)));
                self.report(places, is_direct(operand), after(self.text, operand.span, field));
            }
            Kind::Call { function, target, args } => {
                target.iter().for_each(|target| self.visit(target));
                args.iter().for_each(|argument| self.visit(argument));
                self.compare(function, args);
                self.swapped(function, target.as_deref(), args);
                self.pattern(function, target.as_deref(), args);
                self.no_pattern(function, target.as_deref(), args);
                self.of_list(function, target.as_deref(), expression.span);
            }
            Kind::List(elements) => elements.iter().for_each(|it| self.visit(&it.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                self.visit(&entry.key);
                self.visit(&entry.value);
            }),
            Kind::Struct { name, fields } => {
                self.build(name, fields);
                fields.iter().for_each(|it| self.visit(&it.value));
            }
            Kind::Macro { which, target, names, args } => {
                self.visit(target);
                let places = self.places(target);
                let elements = match which {
                    Macro::OptMap | Macro::OptFlatMap => places,
                    _ => places.map(|all| with(all, Step::Any)),
                };
                let before = self.names.len();
                // Of two names the first is a key or a position.
                let mut all = names.iter().rev().map(String::as_str);
                let is_plain = self.is_plain(target);
                self.names.extend(all.next().map(|name| (name, elements, is_plain)));
                self.names.extend(all.map(|name| (name, None, false)));
                args.iter().for_each(|argument| self.visit(argument));
                self.names.truncate(before);
            }
        }
    }

    /// The root that a name refers to if no macro defines it.
    fn root(&self, name: &str) -> Option<Root> {
        match name {
            "object" | "oldObject" => Some(Root::Object),
            // Of the cluster's own policies it may be an object of any kind.
            "params" if self.is_template => Some(Root::Constraint),
            _ => None,
        }
    }

    /// The places that a value comes from.
    fn places(&self, expression: &'e Expr) -> Places<'e> {
        match &expression.kind {
            Kind::Literal(_) => Some(Vec::new()),
            Kind::List(elements) => elements.is_empty().then(Vec::new),
            Kind::Map(entries) => entries.is_empty().then(Vec::new),
            Kind::Ident(name) => {
                let known = self.names.iter().rev().find(|(known, ..)| known == name);
                match known {
                    Some((_, places, _)) => places.clone(),
                    None => Some(vec![Path::of(self.root(name)?)]),
                }
            }
            Kind::Select { operand, field, .. } => {
                if matches!(&operand.kind, Kind::Ident(name) if name == "variables") {
                    let mut known = self.variables.iter().rev();
                    return known.find(|(name, ..)| name == field)?.1.clone();
                }
                Some(with(self.places(operand)?, Step::Member(field)))
            }
            Kind::Index { operand, index, .. } => {
                let step = match &index.kind {
                    Kind::Literal(Literal::String(name)) => Step::Member(name),
                    _ => Step::Any,
                };
                Some(with(self.places(operand)?, step))
            }
            Kind::Macro { which: Macro::Filter, target, .. } => self.places(target),
            Kind::Call { function, target, args } => match (function.as_str(), args.as_slice()) {
                ("_?_:_", [_, left, right]) | ("_+_", [left, right]) => {
                    join(self.places(left)?, self.places(right)?)
                }
                ("orValue" | "or", [other]) => {
                    join(self.places(target.as_deref()?)?, self.places(other)?)
                }
                ("value", []) => self.places(target.as_deref()?),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a value is that of its places and nothing else: a default has a type of its own.
    fn is_plain(&self, expression: &'e Expr) -> bool {
        match &expression.kind {
            Kind::Ident(name) => {
                let known = self.names.iter().rev().find(|(known, ..)| known == name);
                known.map_or_else(|| self.root(name).is_some(), |(_, _, is_plain)| *is_plain)
            }
            Kind::Select { operand, field, .. } => {
                if matches!(&operand.kind, Kind::Ident(name) if name == "variables") {
                    let mut known = self.variables.iter().rev();
                    return known.find(|(name, ..)| name == field).is_some_and(|it| it.2);
                }
                self.is_plain(operand)
            }
            Kind::Index { operand, .. } => self.is_plain(operand),
            Kind::Macro { which: Macro::Filter, target, .. } => self.is_plain(target),
            Kind::Call { function, target, args } => match (function.as_str(), args.as_slice()) {
                ("_?_:_", [_, left, right]) => self.is_plain(left) && self.is_plain(right),
                ("value", []) => target.as_deref().is_some_and(|target| self.is_plain(target)),
                _ => false,
            },
            _ => false,
        }
    }

    /// The places of a value that has no other source.
    fn plain_places(&self, expression: &'e Expr) -> Vec<Path<'e>> {
        let places = if self.is_plain(expression) { self.places(expression) } else { None };
        places.unwrap_or_default()
    }

    fn member(&mut self, expression: &'e Expr, span: Span) {
        // A mistake in a variable is reported where it gets its value.
        if let Kind::Select { operand, .. } = &expression.kind
            && matches!(&operand.kind, Kind::Ident(name) if name == "variables")
        {
            return;
        }
        let places = self.places(expression);
        self.report(places, is_direct(expression), span);
    }

    /// Reports a last step that leads nowhere from every place.
    fn report(&mut self, places: Places<'e>, is_direct: bool, span: Span) {
        let places = places.unwrap_or_default();
        if self.is_template && is_direct {
            let is_reported = |path: &Path<'_>| {
                matches!(path.steps.as_slice(), [_] | [Step::Member("metadata"), _])
            };
            if places.iter().any(is_reported) {
                return;
            }
        }
        let mut faults = places
            .iter()
            .map(|path| self.known.fault(path).filter(|fault| fault.at + 1 == path.steps.len()));
        let is_parameter = places.iter().all(|path| path.root == Root::Parameters);
        let Some(Some(Fault { what, .. })) = faults.next() else { return };
        if !faults.all(|other| other.is_some_and(|other| other.what == what)) {
            return;
        }
        let code = if is_parameter { Code::UnknownParameter } else { Code::UnknownPath };
        let (message, help) = match &what {
            What::Misspelt(name, meant) if is_parameter => (
                format!("the template's schema has no `{name}` here, so no constraint can set it"),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::Misspelt(name, meant) => (
                format!("{} the field `{name}` here", self.objects.none_has()),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::OfList(name, _) => (
                format!("`{name}` is read from a list, so this always fails"),
                Some(match *name {
                    "length" | "size" | "count" => "write `size(list)`".to_owned(),
                    _ => "ask its elements: `list.all(x, …)` or `list.exists(x, …)`".to_owned(),
                }),
            ),
            What::OfScalar(name) => (
                format!("`{name}` is read from a text or a number, so this always fails"),
                matches!(*name, "length" | "size" | "count").then(|| "write `size(x)`".to_owned()),
            ),
            What::Key(..) | What::NoList => return,
        };
        self.push(code, span, message, help);
    }

    /// Texts that are near to one of the few values of the field that they are compared with.
    fn compare(&mut self, function: &str, args: &'e [Expr]) {
        let [left, right] = args else { return };
        if ORDERS.contains(&function) {
            self.quantities(left, right);
            return self.compare_types(&[(left, right), (right, left)], true);
        }
        let pairs: Vec<(&Expr, &Expr)> = match function {
            "_==_" | "_!=_" => vec![(left, right), (right, left)],
            "@in" | "_in_" => match &right.kind {
                Kind::List(elements) => elements.iter().map(|it| (left, &it.value)).collect(),
                _ => return,
            },
            _ => return,
        };
        self.compare_types(&pairs, false);
        for (member, value) in pairs {
            let Kind::Literal(Literal::String(text)) = &value.kind else { continue };
            let places = self.places(member).unwrap_or_default();
            let mut values = places.iter().map(|path| self.known.values(path));
            let Some(known) = values.next().flatten() else { continue };
            let is_same = |other: Option<Vec<&str>>| other.as_ref() == Some(&known);
            if known.contains(&text.as_str()) || !values.all(is_same) {
                continue;
            }
            if let Some(help) = near::did_you_mean(text, known.iter().copied()) {
                let message = places::never_has(text);
                self.push(Code::NeverMatches, value.span, message, Some(help));
            }
        }
    }

    /// A quantity in an order with a text: it is compared letter by letter.
    fn quantities(&mut self, left: &'e Expr, right: &'e Expr) {
        for (member, value) in [(left, right), (right, left)] {
            let Kind::Literal(Literal::String(_)) = &value.kind else { continue };
            let places = self.plain_places(member);
            if places.is_empty() || !places.iter().all(|path| self.known.is_quantity(path)) {
                continue;
            }
            let message = places::COMPARED_AS_TEXT.to_owned();
            self.push(Code::NeverMatches, value.span, message, Some(QUANTITY.to_owned()));
        }
    }

    /// A constant in which a text of the object is searched: the other way round is meant.
    fn swapped(&mut self, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) {
        let (Some(target), [sought], "endsWith" | "matches" | "startsWith") =
            (target, args, function)
        else {
            return;
        };
        let Kind::Literal(Literal::String(constant)) = &target.kind else { return };
        let places = self.places(sought).unwrap_or_default();
        if places.is_empty() || places.iter().any(|path| path.root != Root::Object) {
            return;
        }
        let message =
            format!("the operands of `{function}` are swapped: the text to search comes first");
        let help = format!("write `x.{function}({})`", Value::from(constant.as_str()).to_json());
        self.push(Code::NeverMatches, target.span, message, Some(help));
    }

    /// Values of another type than the field that they are compared with.
    fn compare_types(&mut self, pairs: &[(&'e Expr, &'e Expr)], is_order: bool) {
        for (member, value) in pairs {
            let Some(literal) = value_of(value) else { continue };
            let places = self.plain_places(member);
            let mut expected = places.iter().map(|path| self.known.never_is(path, &literal));
            let Some(Some(first)) = expected.next() else { continue };
            if !expected.all(|other| other.as_ref() == Some(&first)) {
                continue;
            }
            let is_quantity = places.iter().all(|path| self.known.is_quantity(path));
            let message = match is_order {
                true => {
                    format!(
                        "the field is {first}, so the comparison with {} fails",
                        shown(&literal)
                    )
                }
                false => places::never_equal(&first, &literal),
            };
            let help = match is_quantity {
                true => Some(QUANTITY.to_owned()),
                false => places::as_type(&first, &literal),
            };
            self.push(Code::NeverMatches, value.span, message, help);
        }
    }

    /// A pattern in slashes, of a field that has none.
    fn pattern(&mut self, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) {
        let (Some(target), [pattern], "matches") = (target, args, function) else { return };
        let Kind::Literal(Literal::String(text)) = &pattern.kind else { return };
        let places = self.places(target).unwrap_or_default();
        let is_plain = !places.is_empty() && places.iter().all(Path::has_no_slash);
        let is_wrong = match regex::slashes(text) {
            Slashes::Delimiters => true,
            Slashes::Perhaps => is_plain,
            Slashes::None => false,
        };
        if is_wrong {
            let help = Some(regex::without_slashes(text));
            self.push(Code::BadPattern, pattern.span, regex::IN_SLASHES.to_owned(), help);
        }
    }

    /// A pattern that is compared letter by letter.
    fn no_pattern(&mut self, function: &str, target: Option<&'e Expr>, args: &'e [Expr]) {
        let (compared, code, pairs) = match (function, target, args) {
            ("startsWith", Some(target), [it]) => {
                (Compared::Start, Code::BadPattern, vec![(target, it)])
            }
            ("endsWith", Some(target), [it]) => {
                (Compared::End, Code::BadPattern, vec![(target, it)])
            }
            ("contains", Some(target), [it]) => {
                (Compared::Part, Code::BadPattern, vec![(target, it)])
            }
            ("_==_" | "_!=_", None, [left, right]) => {
                (Compared::Whole, Code::NeverMatches, vec![(left, right), (right, left)])
            }
            _ => return,
        };
        for (value, literal) in pairs {
            let Kind::Literal(Literal::String(text)) = &literal.kind else { continue };
            let places = self.places(value).unwrap_or_default();
            let wrong = patterns::no_pattern(compared, text, &places, Spelled::Cel);
            if let Some((message, help)) = wrong {
                self.push(code, literal.span, message, Some(help));
            }
        }
    }

    /// Functions of texts that a list does not have.
    fn of_list(&mut self, function: &str, target: Option<&'e Expr>, span: Span) {
        let (Some(target), "contains" | "startsWith" | "endsWith" | "matches") = (target, function)
        else {
            return;
        };
        let before = self.text.get(..span.start).unwrap_or_default();
        let span = match before.rfind(function) {
            Some(at) => Span::new(at, at + function.len()),
            None => span,
        };
        let places = self.plain_places(target);
        let text = Value::from("");
        let mut expected = places.iter().map(|path| self.known.never_is(path, &text));
        if !places.is_empty() && expected.all(|it| it.as_deref() == Some("a list")) {
            let message =
                format!("`{function}` is for texts and this is a list, so it always fails");
            let help = match function {
                "contains" => "write `x in list`, or `list.exists(x, …)`".to_owned(),
                _ => format!("ask its elements: `list.exists(x, x.{function}(…))`"),
            };
            self.push(Code::NeverMatches, span, message, Some(help));
        }
    }

    /// The operation of JSON Patch, and its paths.
    fn patch(&mut self, fields: &'e [modgate_cel::ast::Field]) {
        for field in fields.iter().filter(|field| field.name == "op") {
            let Kind::Literal(Literal::String(op)) = &field.value.kind else { continue };
            if !OPERATIONS.contains(&op.as_str()) {
                let message = format!("JSON Patch has no operation `{op}`, so this always fails");
                let help = near::did_you_mean_or(op, &OPERATIONS, "the operations are");
                self.push(Code::UnknownValue, field.value.span, message, Some(help));
            }
        }
        let paths = fields.iter().filter(|field| ["from", "path"].contains(&field.name.as_str()));
        for field in paths {
            let Kind::Literal(Literal::String(path)) = &field.value.kind else { continue };
            let pointer = Pointer::parse(path);
            if let Some((code, message, help)) =
                pointer.and_then(|it| it.fault(self.objects, false))
            {
                self.push(code, field.value.span, message, help);
            }
        }
    }

    /// The fields of `Object.spec{…}`, which a MutatingAdmissionPolicy merges into the object.
    fn build(&mut self, name: &'e str, fields: &'e [modgate_cel::ast::Field]) {
        if name == "JSONPatch" {
            return self.patch(fields);
        }
        let mut names = name.split('.');
        if names.next() != Some("Object") {
            return;
        }
        let path: Vec<Step<'e>> = names.map(Step::Member).collect();
        for field in fields {
            let before = self.text.get(..field.span.start).unwrap_or_default();
            let span = match before.rfind(field.name.as_str()) {
                Some(at) => Span::new(at, at + field.name.len()),
                None => field.span,
            };
            let mut steps = path.clone();
            steps.push(Step::Member(&field.name));
            // A list and its elements have the same name.
            let (fault, values) = self.objects.within_lists(&steps);
            if let Some(Fault { at, what: What::Misspelt(name, meant) }) = fault
                && at + 1 == steps.len()
            {
                let message = format!("{} the field `{name}` here", self.objects.none_has());
                let help = Some(format!("did you mean `{meant}`?"));
                self.push(Code::UnknownPath, span, message, help);
            }
            if let (Kind::Literal(Literal::String(text)), Some(known)) = (&field.value.kind, values)
                && !known.contains(&text.as_str())
            {
                let help = near::did_you_mean_or(text, known, "the values are");
                let message = places::has_no_value(&field.name, text);
                self.push(Code::UnknownValue, field.value.span, message, Some(help));
            }
        }
    }
}

/// The advice about quantities.
const QUANTITY: &str = "write `quantity(x).isGreaterThan(quantity(\"1Gi\"))`";

/// The operations of JSON Patch.
const OPERATIONS: [&str; 6] = ["add", "copy", "move", "remove", "replace", "test"];

/// The operators of an order.
const ORDERS: [&str; 4] = ["_<_", "_<=_", "_>_", "_>=_"];

/// The value of a literal text, number or boolean.
fn value_of(expression: &Expr) -> Option<Value> {
    let Kind::Literal(literal) = &expression.kind else { return None };
    Some(match literal {
        Literal::String(text) => Value::from(text.as_str()),
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::from(*number),
        Literal::Double(number) => Value::from_json(number.to_string().as_bytes()).ok()?,
        _ => return None,
    })
}

/// Whether an expression is a path that starts with the object under review.
fn is_direct(expression: &Expr) -> bool {
    match &expression.kind {
        Kind::Ident(name) => ["object", "oldObject", "variables"].contains(&name.as_str()),
        Kind::Select { operand, .. } | Kind::Index { operand, .. } => is_direct(operand),
        _ => false,
    }
}

fn with<'e>(places: Vec<Path<'e>>, step: Step<'e>) -> Vec<Path<'e>> {
    places.into_iter().map(|path| path.with(&[step])).collect()
}

fn join<'e>(mut left: Vec<Path<'e>>, right: Vec<Path<'e>>) -> Places<'e> {
    left.extend(right);
    (left.len() <= MAX_PLACES).then_some(left)
}
