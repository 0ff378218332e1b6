//! Fields of Kubernetes' own kinds that a template's Rego misspells: those of `input.review.object`, and of what
//! variables, rules and functions take out of it.

use std::collections::{BTreeMap, BTreeSet};

use modgate_rego::ast::{Body, Expr, ExprKind, HeadKind, Module, Rule, Span, Term, TermKind};
use modgate_value::{
    Value, near,
    regex::{self, Slashes},
};

use super::{
    patterns::{self, Compared, Spelled},
    places::{self, Fault, Objects, Step, What},
    reads::{Known, Path, Root},
    types::shown,
};
use crate::{Code, constraint::counts};

mod formats;

/// Something that is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegoFinding {
    pub(super) code: Code,
    /// The bytes of the module's text.
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// How often rules that lead to other ones are looked at again.
const ROUNDS: usize = 4;

/// How many places a term may stand for; of more nothing is known.
const MAX_PLACES: usize = 16;

/// How many terms of a module are looked at.
const MAX_TERMS: usize = 4_000;

/// How many mistakes of a module are reported.
const MAX_FOUND: usize = 20;

/// The places that a term may stand for; `None` where that is not known.
type Places<'m> = Option<Vec<Path<'m>>>;

/// The variables of a rule.
type Variables<'m> = BTreeMap<&'m str, Places<'m>>;

/// The result of the rules of one name: the members of a set, or a value.
#[derive(Debug, Clone, PartialEq)]
struct RuleValues<'m> {
    is_set: bool,
    places: Places<'m>,
}

/// Everything about one module, about these objects; `parameters` is the schema of what constraints set.
pub(super) fn lint<'m>(
    module: &'m Module,
    parameters: Option<&'m Value>,
    objects: &'m Objects<'m>,
) -> Vec<RegoFinding> {
    let mut found = Vec::new();
    let known = Known { objects, parameters };
    let paths = Paths::of(module, known, true);
    // Without defaults both are the same.
    let has_defaults = module.rules.iter().any(has_default);
    let without_defaults = has_defaults.then(|| Paths::of(module, known, false));
    let plain = without_defaults.as_ref().unwrap_or(&paths);
    let mut left = MAX_TERMS;
    for rule in &module.rules {
        contradictions(rule, &mut found);
        let variables = paths.variables(rule);
        let own = has_defaults.then(|| plain.variables(rule));
        let plainly = own.as_ref().unwrap_or(&variables);
        let bindings = bindings_of(rule);
        rule.visit_terms(&mut |term| {
            left = left.saturating_sub(1);
            if left > 0 && found.len() < MAX_FOUND {
                paths.check(term, &variables, &mut found);
                plain.check_types(term, plainly, &bindings, &mut found);
            }
        });
    }
    found
}

/// Whether a rule is the default of its name, or reads a member that may be a default instead.
fn has_default(rule: &Rule) -> bool {
    let mut found = rule.default;
    rule.visit_terms(&mut |term| {
        if let TermKind::Call(operator, arguments) = &term.kind {
            found |= member_of(operator, arguments).is_some();
        }
    });
    found
}

struct Paths<'m> {
    module: &'m Module,
    known: Known<'m, 'm>,
    /// Whether the place of a value counts that may be a default instead. A default has a type of its own.
    with_defaults: bool,
    rules: BTreeMap<&'m str, RuleValues<'m>>,
    /// The places that all calls of a function pass as an argument, by its number.
    arguments: BTreeMap<(&'m str, usize), Places<'m>>,
}

impl<'m> Paths<'m> {
    fn of(module: &'m Module, known: Known<'m, 'm>, with_defaults: bool) -> Self {
        let (rules, arguments) = (BTreeMap::new(), BTreeMap::new());
        let mut paths = Self { module, known, with_defaults, rules, arguments };
        // The functions of a library are called from other modules, too.
        let is_library = module.package.first().is_some_and(|name| name == "lib");
        for _ in 0..ROUNDS {
            let arguments = if is_library { BTreeMap::new() } else { paths.passed() };
            let is_same = arguments == paths.arguments;
            paths.arguments = arguments;
            let rules = paths.outcomes();
            // The next round would come to the same.
            if is_same && rules == paths.rules {
                break;
            }
            paths.rules = rules;
        }
        paths
    }

    /// The results of all rules, as far as those of other rules are known so far.
    fn outcomes(&self) -> BTreeMap<&'m str, RuleValues<'m>> {
        let mut outcomes: BTreeMap<&str, RuleValues<'_>> = BTreeMap::new();
        for rule in self.module.rules.iter().filter(|it| !it.default || !self.with_defaults) {
            let [name] = rule.head.name.as_slice() else { continue };
            let Some(name) = name_of(Some(name)) else { continue };
            let variables = self.variables(rule);
            let (is_set, result) = match &rule.head.kind {
                HeadKind::Member(member) => (true, member),
                HeadKind::Value { value, .. } => (false, value),
            };
            let places = self.places(result, &variables).filter(|_| rule.els.is_empty());
            let outcome =
                outcomes.entry(name).or_insert(RuleValues { is_set, places: Some(Vec::new()) });
            add(&mut outcome.places, places);
        }
        outcomes
    }

    /// The places that the calls of functions pass as arguments, as far as the places of the
    /// arguments' parts are known so far.
    fn passed(&self) -> BTreeMap<(&'m str, usize), Places<'m>> {
        let functions: BTreeSet<&str> = self
            .module
            .rules
            .iter()
            .filter(|rule| rule.head.args.is_some() && rule.head.name.len() == 1)
            .filter_map(|rule| name_of(rule.head.name.first()))
            .collect();
        let mut passed = BTreeMap::new();
        let mut left = MAX_TERMS;
        for rule in &self.module.rules {
            let variables = self.variables(rule);
            rule.visit_terms(&mut |term| {
                left = left.saturating_sub(1);
                let TermKind::Call(operator, arguments) = &term.kind else { return };
                let function = called(operator).and_then(|name| functions.get(name));
                for (index, argument) in arguments.iter().enumerate() {
                    let Some(name) = function else { return };
                    let places = self.places(argument, &variables).filter(|_| left > 0);
                    let known = passed.entry((*name, index)).or_insert_with(|| Some(Vec::new()));
                    add_new(known, places);
                }
            });
        }
        passed
    }

    /// The places that the variables of a rule refer to. The order of expressions does not matter
    /// in Rego, so a second pass uses the results of the first.
    fn variables(&self, rule: &'m Rule) -> Variables<'m> {
        let bindings = bindings_of(rule);
        let mut known = Variables::new();
        for _ in 0..2 {
            let function = name_of(rule.head.name.first()).unwrap_or_default();
            let arguments = rule.head.args.iter().flatten().enumerate();
            let mut next: Variables<'_> = arguments
                .filter_map(|(index, it)| {
                    let passed = self.arguments.get(&(function, index)).cloned().flatten();
                    Some((name_of(Some(it))?, passed))
                })
                .collect();
            for Binding { name, term, element } in &bindings {
                let places = match element {
                    true => self.elements(term, &known),
                    false => self.places(term, &known),
                };
                add(next.entry(name).or_insert_with(|| Some(Vec::new())), places);
            }
            known = next;
        }
        self.keys(rule, &mut known);
        known
    }

    /// Variables that stand for the names of an object's members, as in `labels[key]`.
    fn keys(&self, rule: &'m Rule, known: &mut Variables<'m>) {
        let mut keys = Vec::new();
        rule.visit_terms(&mut |term| {
            let TermKind::Ref(parts) = &term.kind else { return };
            for (at, part) in parts.iter().enumerate().skip(1) {
                let Some(name) =
                    name_of(Some(part)).filter(|name| *name != "_" && !known.contains_key(name))
                else {
                    continue;
                };
                let before = parts.get(..at).unwrap_or_default();
                let places = self.of_reference(before, known).unwrap_or_default();
                let mut expected =
                    places.iter().map(|path| self.known.never_is(path, &Value::from(Vec::new())));
                if !places.is_empty() && expected.all(|it| it.as_deref() == Some("an object")) {
                    keys.push(name);
                }
            }
        });
        known.extend(keys.into_iter().map(|name| (name, Some(vec![Path::of(Root::Name)]))));
    }

    /// The places that a term refers to.
    fn places(&self, term: &'m Term, variables: &Variables<'m>) -> Places<'m> {
        match &term.kind {
            TermKind::Var(_) => self.of_reference(std::slice::from_ref(term), variables),
            TermKind::Ref(parts) => self.of_reference(parts, variables),
            TermKind::Call(operator, arguments) => {
                let Some((object, key)) = member_of(operator, arguments) else {
                    let function = self.rules.get(called(operator)?)?;
                    return function.places.clone().filter(|_| !function.is_set);
                };
                let object = match &object.kind {
                    TermKind::Var(_) if self.with_defaults => std::slice::from_ref(object),
                    TermKind::Ref(parts) if self.with_defaults => parts,
                    _ => return None,
                };
                Some(with(self.of_reference(object, variables)?, &[Step::Member(key)]))
            }
            _ => None,
        }
    }

    /// The places that the elements of a term refer to.
    fn elements(&self, term: &'m Term, variables: &Variables<'m>) -> Places<'m> {
        let name = match &term.kind {
            TermKind::Ref(parts) if parts.len() == 1 => name_of(parts.first()),
            _ => name_of(Some(term)),
        };
        let set = name.filter(|name| !variables.contains_key(name));
        match set.and_then(|name| self.rules.get(name)).filter(|outcome| outcome.is_set) {
            Some(set) => set.places.clone(),
            None => Some(with(self.places(term, variables)?, &[Step::Any])),
        }
    }

    fn of_reference(&self, parts: &'m [Term], variables: &Variables<'m>) -> Places<'m> {
        let name = name_of(parts.first())?;
        let steps =
            |skipped: usize| -> Vec<Step<'m>> { parts.iter().skip(skipped).map(step).collect() };
        if name == "input" {
            return Some(vec![Path::of(Root::Input).with(&steps(1))]);
        }
        if let Some(places) = variables.get(name) {
            return Some(with(places.clone()?, &steps(1)));
        }
        let outcome = self.rules.get(name)?;
        let places = outcome.places.clone()?;
        match outcome.is_set {
            // The set itself is no place.
            true => (parts.len() > 1).then(|| with(places, &steps(2))),
            false => Some(with(places, &steps(1))),
        }
    }

    fn check(&self, term: &'m Term, variables: &Variables<'m>, found: &mut Vec<RegoFinding>) {
        match &term.kind {
            TermKind::Ref(parts) => {
                // The first step into a set is no step into what it holds.
                let is_set = name_of(parts.first()).is_some_and(|name| {
                    !variables.contains_key(name)
                        && self.rules.get(name).is_some_and(|it| it.is_set)
                });
                let own = parts.len().saturating_sub(if is_set { 2 } else { 1 });
                let is_direct = name_of(parts.first()) == Some("input");
                let places = self.of_reference(parts, variables).unwrap_or_default();
                let from_end = |count: usize| parts.iter().nth_back(count.saturating_sub(1));
                let span = |count| from_end(count).map(|it| it.span);
                self.report(&places, own, is_direct, span, found);
            }
            TermKind::Call(operator, arguments) => {
                if member_of(operator, arguments).is_some() {
                    let places = self.places(term, variables).unwrap_or_default();
                    let span = arguments.get(1).map(|it| it.span);
                    self.report(&places, 1, false, |_| span, found);
                }
                self.compare(operator, arguments, variables, found);
            }
            _ => {}
        }
    }

    /// Reports the step at which no kind goes on, if it is one of the `own` last steps of every place.
    fn report(
        &self,
        places: &[Path<'m>],
        own: usize,
        is_direct: bool,
        span: impl Fn(usize) -> Option<Span>,
        found: &mut Vec<RegoFinding>,
    ) {
        let faults: Option<Vec<(usize, Fault<'_>)>> = places
            .iter()
            .map(|path| self.known.fault(path).map(|fault| (path.steps.len() - fault.at, fault)))
            .collect();
        let Some(faults) = faults else { return };
        let Some((from_end, fault)) = faults.first() else { return };
        if !faults.iter().all(|(at, other)| at == from_end && other.what == fault.what)
            || *from_end > own
        {
            return;
        }
        // These have warnings of their own, because every object has metadata.
        let of_metadata = places
            .iter()
            .any(|path| fault.at == 1 && path.steps.first() == Some(&Step::Member("metadata")));
        let is_parameter = places.iter().all(|path| path.root == Root::Parameters);
        if is_direct && (fault.at == 0 || of_metadata) {
            return;
        }
        let Some(span) = span(*from_end) else { return };
        let (message, help) = match &fault.what {
            What::Misspelt(name, meant) if is_parameter => (
                format!("the template's schema has no `{name}` here, so no constraint can set it"),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::Misspelt(name, meant) => (
                format!(
                    "{} the field `{name}` here, so this is undefined",
                    self.known.objects.none_has()
                ),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::OfList(name, _) => (
                "this is a member of a list, so it is undefined".to_owned(),
                Some(format!("write `[_].{name}` for each element")),
            ),
            What::OfScalar(name) => {
                (format!("`{name}` is a member of a text or a number, so it is undefined"), None)
            }
            What::Key(..) | What::NoList => return,
        };
        if !found.iter().any(|known| known.span == span) {
            let code = if is_parameter { Code::UnknownParameter } else { Code::UnknownPath };
            found.push(RegoFinding { code, span, message, help });
        }
    }

    /// Checks the types of the values of a call.
    fn check_types(
        &self,
        term: &'m Term,
        variables: &Variables<'m>,
        bindings: &[Binding<'m>],
        found: &mut Vec<RegoFinding>,
    ) {
        if let TermKind::Call(operator, arguments) = &term.kind {
            self.compare_types(operator, arguments, variables, found);
            self.given(operator, arguments, found);
            self.swapped(operator, arguments, variables, found);
            self.pattern(operator, arguments, variables, found);
            self.no_pattern(operator, arguments, variables, found);
            self.format(operator, arguments, (variables, bindings), found);
        }
    }

    /// The type in words that a term has at all places that it refers to, if no value there has the
    /// type of this one.
    fn never_is(&self, term: &'m Term, variables: &Variables<'m>, value: &Value) -> Option<String> {
        let places = self.places(term, variables)?;
        let mut expected = places.iter().map(|path| self.known.never_is(path, value));
        let first = expected.next()??;
        expected.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// A comparison with a value of another type than the field.
    fn compare_types(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        variables: &Variables<'m>,
        found: &mut Vec<RegoFinding>,
    ) {
        let name = dotted(operator).unwrap_or_default();
        let ([left, right], true) = (arguments, COMPARISONS.contains(&name.as_str())) else {
            return;
        };
        for (member, value) in [(left, right), (right, left)] {
            let Some(literal) = value_of(value) else { continue };
            if ORDERS.contains(&name.as_str())
                && matches!(literal, Value::String(_))
                && self.is_quantity(member, variables)
            {
                found.push(RegoFinding {
                    code: Code::NeverMatches,
                    span: value.span,
                    message: places::COMPARED_AS_TEXT.to_owned(),
                    help: Some(UNITS.to_owned()),
                });
                continue;
            }
            let Some(expected) = self.never_is(member, variables, &literal) else { continue };
            let help = match expected.starts_with("a quantity") {
                true => Some(UNITS.to_owned()),
                false => places::as_type(&expected, &literal),
            };
            found.push(RegoFinding {
                code: Code::NeverMatches,
                span: value.span,
                message: places::never_equal(&expected, &literal),
                help,
            });
        }
    }

    /// Whether a term is a quantity, wherever it comes from.
    fn is_quantity(&self, term: &'m Term, variables: &Variables<'m>) -> bool {
        let places = self.places(term, variables).unwrap_or_default();
        !places.is_empty() && places.iter().all(|path| self.known.is_quantity(path))
    }

    /// A comparison of what a function gives with what it never gives: a text with a number, capitals with `lower`.
    fn given(&self, operator: &Term, arguments: &'m [Term], found: &mut Vec<RegoFinding>) {
        let operator = dotted(operator).unwrap_or_default();
        let [left, right, ..] = arguments else { return };
        let is_comparison = COMPARISONS.contains(&operator.as_str());
        let is_search = ["contains", "endswith", "startswith"].contains(&operator.as_str());
        for (call, value) in [(left, right), (right, left)] {
            let TermKind::Call(function, _) = &call.kind else { continue };
            let function = dotted(function).unwrap_or_default();
            let Some(literal) = text(value) else { continue };
            let (what, help) = match function.as_str() {
                name if NUMBERS.contains(&name) && is_comparison => {
                    ("a number", places::as_type("a number", &Value::from(literal)))
                }
                "lower" if literal.chars().any(char::is_uppercase) => {
                    ("no capital letters", Some(format!("write `\"{}\"`", literal.to_lowercase())))
                }
                "upper" if literal.chars().any(char::is_lowercase) => {
                    ("no small letters", Some(format!("write `\"{}\"`", literal.to_uppercase())))
                }
                _ => continue,
            };
            if is_comparison || is_search {
                let message = format!(
                    "`{function}` gives {what}, so the comparison with the text `{literal}` always has the same \
                     result"
                );
                found.push(RegoFinding {
                    code: Code::NeverMatches,
                    span: value.span,
                    message,
                    help,
                });
            }
        }
    }

    /// A constant in which a text of the object is searched: the other way round is meant.
    fn swapped(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        variables: &Variables<'m>,
        found: &mut Vec<RegoFinding>,
    ) {
        let name = dotted(operator).unwrap_or_default();
        let [first, second] = arguments else { return };
        let (searched, sought, order) = match name.as_str() {
            "startswith" | "endswith" => (first, second, "the text that is searched stands first"),
            "re_match" | "regex.match" => (second, first, "the pattern stands first"),
            _ => return,
        };
        let Some(constant) = text(searched) else { return };
        let places = self.places(sought, variables).unwrap_or_default();
        if places.is_empty() || places.iter().any(|path| path.root != Root::Object) {
            return;
        }
        let help = match name.as_str() {
            "startswith" | "endswith" => format!("write `{name}(x, \"{constant}\")`"),
            _ => format!("write `{name}(\"{constant}\", x)`"),
        };
        found.push(RegoFinding {
            code: Code::NeverMatches,
            span: searched.span,
            message: format!("the arguments of `{name}` are the wrong way round: {order}"),
            help: Some(help),
        });
    }

    /// A pattern in slashes, of a field that has none.
    fn pattern(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        variables: &Variables<'m>,
        found: &mut Vec<RegoFinding>,
    ) {
        let is_match = matches!(dotted(operator).as_deref(), Some("regex.match" | "re_match"));
        let ([pattern, value, ..], true) = (arguments, is_match) else { return };
        let Some(written) = text(pattern).filter(|it| regex::slashes(it) == Slashes::Perhaps)
        else {
            return;
        };
        let places = self.places(value, variables).unwrap_or_default();
        if !places.is_empty() && places.iter().all(Path::has_no_slash) {
            found.push(RegoFinding {
                code: Code::BadPattern,
                span: pattern.span,
                message: regex::IN_SLASHES.to_owned(),
                help: Some(regex::without_slashes(written)),
            });
        }
    }

    /// A pattern that is compared letter by letter.
    fn no_pattern(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        variables: &Variables<'m>,
        found: &mut Vec<RegoFinding>,
    ) {
        let [left, right, ..] = arguments else { return };
        let (compared, code) = match dotted(operator).as_deref() {
            Some("startswith") => (Compared::Start, Code::BadPattern),
            Some("endswith") => (Compared::End, Code::BadPattern),
            Some("contains") => (Compared::Part, Code::BadPattern),
            Some("equal" | "eq" | "neq") => (Compared::Whole, Code::NeverMatches),
            _ => return,
        };
        for (value, literal) in [(left, right), (right, left)] {
            let Some(written) = text(literal) else { continue };
            let places = self.places(value, variables).unwrap_or_default();
            let wrong = patterns::no_pattern(compared, written, &places, Spelled::Rego);
            if let Some((message, help)) = wrong {
                found.push(RegoFinding { code, span: literal.span, message, help: Some(help) });
            }
        }
    }

    /// A comparison with a text that is near to one of the few values of a field.
    fn compare(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        variables: &Variables<'m>,
        found: &mut Vec<RegoFinding>,
    ) {
        let is_comparison = matches!(dotted(operator).as_deref(), Some("equal" | "eq" | "neq"));
        let [left, right] = arguments else { return };
        for (member, value) in [(left, right), (right, left)] {
            let Some(written) = text(value).filter(|_| is_comparison) else { continue };
            let places = self.places(member, variables).unwrap_or_default();
            let mut values = places.iter().map(|path| self.known.values(path));
            let Some(known) = values.next().flatten() else { continue };
            if !values.all(|other| other.as_ref() == Some(&known)) || known.contains(&written) {
                continue;
            }
            let Some(help) = near::did_you_mean(written, known.iter().copied()) else { continue };
            found.push(RegoFinding {
                code: Code::NeverMatches,
                span: value.span,
                message: places::never_has(written),
                help: Some(help),
            });
        }
    }
}

/// All bindings of a rule.
fn bindings_of(rule: &Rule) -> Vec<Binding<'_>> {
    let mut bindings = Vec::new();
    bindings_of_body(&rule.body, &mut bindings);
    rule.els.iter().for_each(|branch| bindings_of_body(&branch.body, &mut bindings));
    rule.visit_terms(&mut |term| match &term.kind {
        TermKind::ArrayComprehension(_, body)
        | TermKind::SetComprehension(_, body)
        | TermKind::ObjectComprehension(_, body) => bindings_of_body(body, &mut bindings),
        _ => {}
    });
    bindings
}

/// A variable and what it is a value or, with `element`, an element of.
struct Binding<'m> {
    name: &'m str,
    term: &'m Term,
    element: bool,
}

/// The bindings of a body, and of those within it. The parser bounds the depth.
fn bindings_of_body<'m>(body: &'m Body, found: &mut Vec<Binding<'m>>) {
    for Expr { kind, .. } in body {
        match kind {
            ExprKind::Term(Term { kind: TermKind::Call(operator, arguments), .. }) => {
                let name = dotted(operator);
                let [left, right] = arguments.as_slice() else { continue };
                if !matches!(name.as_deref(), Some("assign" | "eq")) {
                    continue;
                }
                if let Some(name) = name_of(Some(left)) {
                    found.push(Binding { name, term: right, element: false });
                } else if let Some(name) = name_of(Some(right)) {
                    found.push(Binding { name, term: left, element: false });
                }
            }
            ExprKind::SomeIn { value, domain, .. } => {
                if let Some(name) = name_of(Some(value)) {
                    found.push(Binding { name, term: domain, element: true });
                }
            }
            ExprKind::Every { value, domain, body, .. } => {
                if let Some(name) = name_of(Some(value)) {
                    found.push(Binding { name, term: domain, element: true });
                }
                bindings_of_body(body, found);
            }
            ExprKind::Not(body) => bindings_of_body(body, found),
            ExprKind::Term(_) | ExprKind::Some(_) => {}
        }
    }
}

/// `object.get` with a literal key: the object and the key.
fn member_of<'m>(operator: &Term, arguments: &'m [Term]) -> Option<(&'m Term, &'m str)> {
    let [object, key, ..] = arguments else { return None };
    (dotted(operator).as_deref() == Some("object.get")).then_some((object, text(key)?))
}

/// Values of a rule's conditions that exclude each other: all of them have to hold.
fn contradictions(rule: &Rule, found: &mut Vec<RegoFinding>) {
    let mut known: BTreeMap<Vec<&str>, &Term> = BTreeMap::new();
    for Expr { kind, .. } in rule.body.iter().filter(|it| !it.negated && it.with.is_empty()) {
        let ExprKind::Term(Term { kind: TermKind::Call(operator, arguments), .. }) = kind else {
            continue;
        };
        let is_equal = matches!(dotted(operator).as_deref(), Some("equal" | "eq"));
        let ([left, right], true) = (arguments.as_slice(), is_equal) else { continue };
        for (member, value) in [(left, right), (right, left)] {
            let TermKind::Ref(parts) = &member.kind else { continue };
            let steps: Option<Vec<&str>> = parts.iter().skip(1).map(text).collect();
            let Some(steps) = steps.filter(|_| name_of(parts.first()) == Some("input")) else {
                continue;
            };
            let Some(wanted) = value_of(value) else { continue };
            let before = known.entry(steps).or_insert(value);
            let is_other = |other: &Value| match (other, &wanted) {
                (Value::String(other), Value::String(wanted)) => other != wanted,
                (Value::Number(other), Value::Number(wanted)) => other != wanted,
                _ => false,
            };
            let Some(other) = value_of(before).filter(is_other) else { continue };
            found.push(RegoFinding {
                code: Code::NeverMatches,
                span: value.span,
                message: format!(
                    "another line of this rule asks for {}, and all lines have to hold, so this never \
                     matches",
                    shown(&other)
                ),
                help: Some("write the rule twice, once for each value".to_owned()),
            });
        }
    }
}

/// The advice about quantities.
const UNITS: &str = "`units.parse(x)` and `units.parse_bytes(x)` make numbers of quantities";

/// Functions that give numbers.
const NUMBERS: [&str; 9] =
    ["abs", "ceil", "count", "floor", "product", "round", "sum", "to_number", "units.parse"];

/// The comparisons that are an order.
const ORDERS: [&str; 4] = ["gt", "gte", "lt", "lte"];

/// The comparisons of Rego.
const COMPARISONS: [&str; 7] = ["eq", "equal", "gt", "gte", "lt", "lte", "neq"];

/// The value of a literal text, number or boolean.
fn value_of(term: &Term) -> Option<Value> {
    Some(match &term.kind {
        TermKind::String(text) => Value::from(text.as_ref()),
        TermKind::Bool(value) => Value::Bool(*value),
        TermKind::Number(number) => Value::from_json(number.to_string().as_bytes()).ok()?,
        _ => return None,
    })
}

/// The name of a function of the same module.
fn called(operator: &Term) -> Option<&str> {
    match &operator.kind {
        TermKind::Ref(parts) if parts.len() == 1 => name_of(parts.first()),
        _ => name_of(Some(operator)),
    }
}

/// The name of a variable.
fn name_of(term: Option<&Term>) -> Option<&str> {
    match term.map(|term| &term.kind) {
        Some(TermKind::Var(name)) => Some(name),
        _ => None,
    }
}

/// A name such as `object.get`.
fn dotted(operator: &Term) -> Option<String> {
    match &operator.kind {
        TermKind::Var(name) => Some(name.to_string()),
        TermKind::Ref(parts) => {
            let names = parts.iter().skip(1).map(text);
            let names: Option<Vec<&str>> =
                [name_of(parts.first())].into_iter().chain(names).collect();
            Some(names?.join("."))
        }
        _ => None,
    }
}

fn text(term: &Term) -> Option<&str> {
    match &term.kind {
        TermKind::String(text) => Some(text),
        _ => None,
    }
}

fn step(term: &Term) -> Step<'_> {
    text(term).map_or(Step::Any, Step::Member)
}

fn with<'m>(places: Vec<Path<'m>>, steps: &[Step<'m>]) -> Vec<Path<'m>> {
    places.into_iter().map(|path| path.with(steps)).collect()
}

/// Joins what two definitions of a name stand for.
fn add<'m>(all: &mut Places<'m>, places: Places<'m>) {
    match (all.as_mut(), places) {
        (Some(known), Some(places)) if known.len() + places.len() <= MAX_PLACES => {
            known.extend(places)
        }
        _ => *all = None,
    }
}

/// As [`add`], each place once.
fn add_new<'m>(all: &mut Places<'m>, places: Places<'m>) {
    let fresh = places.map(|places| {
        let known = all.as_deref().unwrap_or_default();
        places.into_iter().filter(|place| !known.contains(place)).collect()
    });
    add(all, fresh);
}
