//! Which parts of a document a program can look at.
//!
//! The result is never too small: a part that is not among [`Reads`] can be taken out of the
//! document, and no evaluation comes to another result. It may be too much. References are followed
//! through variables and into the arguments of functions; a value that goes anywhere else (a
//! built-in, a comparison, a result) counts as looked at in full.

use std::collections::{BTreeMap, BTreeSet};

use modgate_value::{Object, Str, Value};

use crate::ir::{
    Base, Body, Call, Callee, Collect, ConstId, GroupId, Leaf, Operand, Pattern, Program, Ref,
    Rule, Slot, Source, StmtKind, Term, WithValue,
};

/// Parts of a document, as a tree of keys. By default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Everything from here on.
    all: bool,
    named: BTreeMap<Str, Reads>,
    /// The reads below every key, and below every element of an array.
    each: Option<Box<Reads>>,
}

impl Reads {
    /// The whole document.
    pub fn everything() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// The reads below these keys, and nothing else.
    pub fn below(keys: &[&str], reads: Self) -> Self {
        keys.iter().rev().fold(reads, |below, key| Self {
            named: BTreeMap::from([((*key).into(), below)]),
            ..Self::default()
        })
    }

    /// Whether it is the whole document.
    pub fn is_everything(&self) -> bool {
        self.all
    }

    /// The reads below a key; `None` if the key is not looked up.
    pub fn step(&self, key: &str) -> Option<Self> {
        if self.all {
            return Some(Self::everything());
        }
        join(self.named.get(key).into_iter().chain(self.each.as_deref()))
    }

    /// The reads below some key; `None` if none is looked up.
    pub fn any_step(&self) -> Option<Self> {
        if self.all {
            return Some(Self::everything());
        }
        join(self.named.values().chain(self.each.as_deref()))
    }

    /// Reads what `other` does, too.
    pub fn merge(&mut self, other: &Self) {
        if self.all || other.all {
            *self = Self::everything();
            return;
        }
        for (key, below) in &other.named {
            self.named.entry(key.clone()).or_default().merge(below);
        }
        if let Some(below) = &other.each {
            self.each.get_or_insert_default().merge(below);
        }
    }

    /// Whether everything `other` reads is read. May say no where the answer is yes.
    pub fn covers(&self, other: &Self) -> bool {
        if self.all || other.all {
            return self.all;
        }
        let covers = |below: Option<Self>, other: &Self| below.is_some_and(|it| it.covers(other));
        other.named.iter().all(|(key, other)| covers(self.step(key), other))
            && other.each.iter().all(|other| covers(self.each.as_deref().cloned(), other))
    }

    /// The document without what is not read.
    pub fn keep(&self, value: &Value) -> Value {
        if self.all {
            return value.clone();
        }
        match value {
            Value::Object(members) => {
                let kept: Vec<(Str, Value)> = members
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), self.keep_member(key, value)?)))
                    .collect();
                Object::from_entries(kept).into()
            }
            Value::Array(elements) => match self.any_step() {
                Some(below) => elements.iter().map(|element| below.keep(element)).collect(),
                None => Value::from(Vec::new()),
            },
            scalar => scalar.clone(),
        }
    }

    fn keep_member(&self, key: &str, value: &Value) -> Option<Value> {
        match (self.named.get(key), &self.each) {
            (None, None) => None,
            (Some(below), None) => Some(below.keep(value)),
            (None, Some(below)) => Some(below.keep(value)),
            (Some(_), Some(_)) => self.step(key).map(|below| below.keep(value)),
        }
    }

    fn add(&mut self, path: &[Step], whole: bool) {
        if self.all {
            return;
        }
        match path {
            [] if whole => *self = Self::everything(),
            [] => {}
            [Step::Key(key), rest @ ..] => {
                self.named.entry(key.clone()).or_default().add(rest, whole);
            }
            [Step::Each, rest @ ..] => self.each.get_or_insert_default().add(rest, whole),
        }
    }
}

fn join<'r>(parts: impl Iterator<Item = &'r Reads>) -> Option<Reads> {
    parts.fold(None, |joined, part| {
        let mut joined = joined.unwrap_or_default();
        joined.merge(part);
        Some(joined)
    })
}

impl Program {
    /// The parts of the base document `data.<root>` that any of the rules can read.
    pub fn reads(&self, root: &str) -> Reads {
        reads(self, Root::Data(root))
    }

    /// The parts of `input` that any of the rules can read.
    pub fn input_reads(&self) -> Reads {
        reads(self, Root::Input)
    }
}

/// A document that is looked at.
#[derive(Clone, Copy)]
enum Root<'p> {
    /// `data.<name>`
    Data(&'p str),
    Input,
}

fn reads(program: &Program, root: Root<'_>) -> Reads {
    let mut analysis = Analysis { program, root, reads: Reads::default(), params: BTreeMap::new() };
    // Arguments that were not known when a function was looked at are the next time. Programs do not
    // recurse, so this ends after as many rounds as functions nest.
    loop {
        let before = analysis.params.clone();
        for rule in program.rules.iter() {
            analysis.rule(rule);
        }
        if analysis.params == before {
            return analysis.reads;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(Str),
    Each,
}

/// Where in the document a value may come from.
type Places = BTreeSet<Vec<Step>>;

/// Above this many places, or this many steps, a value counts as read in full.
const MAX_PLACES: usize = 32;
const MAX_STEPS: usize = 32;

struct Analysis<'p> {
    program: &'p Program,
    root: Root<'p>,
    reads: Reads,
    /// The arguments of functions.
    params: BTreeMap<GroupId, Vec<Places>>,
}

/// The possible values of one rule's variables.
type Slots = BTreeMap<Slot, Places>;

impl Analysis<'_> {
    fn rule(&mut self, rule: &Rule) {
        let mut slots = Slots::new();
        let given = self.params.get(&rule.group).cloned().unwrap_or_default();
        for (index, pattern) in rule.args.iter().enumerate() {
            let places = given.get(index).cloned().unwrap_or_default();
            self.pattern(pattern, places, &mut slots);
        }
        for branch in &rule.branches {
            self.body(&branch.body, &mut slots);
            let (Leaf::Value(term) | Leaf::Member(term)) = &branch.leaf;
            self.used(term, &slots);
        }
        for keyed in &rule.keyed {
            for pattern in &keyed.patterns {
                self.pattern(pattern, Places::new(), &mut slots);
            }
            self.body(&keyed.body, &mut slots);
        }
        for key in &rule.keys {
            self.used(key, &slots);
        }
    }

    fn body(&mut self, body: &Body, slots: &mut Slots) {
        for stmt in body {
            match &stmt.kind {
                // All that counts is whether it is `false`, and scalars are kept as they are.
                StmtKind::Test(source) => {
                    self.source(source, slots);
                }
                StmtKind::Match(source, pattern) => {
                    let places = self.source(source, slots);
                    self.pattern(pattern, places, slots);
                }
                StmtKind::Not(body) => self.body(body, slots),
                StmtKind::Any(bodies) | StmtKind::Each(bodies) => {
                    bodies.iter().for_each(|body| self.body(body, slots));
                }
                StmtKind::With(withs, body) => {
                    for with in withs {
                        if let WithValue::Term(term) = &with.value {
                            self.used(term, slots);
                        }
                    }
                    self.body(body, slots);
                }
                StmtKind::Every(every) => {
                    let domain = self.term(&every.domain, slots);
                    let members = self.extended(domain, &[Step::Each]);
                    self.pattern(&every.key, Places::new(), slots);
                    self.pattern(&every.value, members, slots);
                    self.body(&every.body, slots);
                }
            }
        }
    }

    fn source(&mut self, source: &Source, slots: &mut Slots) -> Places {
        match source {
            Source::Term(term) => self.term(term, slots),
            Source::Ref(reference) => self.reference(reference, slots),
            Source::Comprehension(comprehension) => {
                self.body(&comprehension.body, slots);
                match &comprehension.head {
                    Collect::Array(term) | Collect::Set(term) => self.used(term, slots),
                    Collect::Object(key, value) => {
                        self.used(key, slots);
                        self.used(value, slots);
                    }
                }
                Places::new()
            }
            Source::Call(call) => {
                self.call(call, slots);
                Places::new()
            }
        }
    }

    /// A function has read in full those of its arguments that it returns.
    fn call(&mut self, call: &Call, slots: &Slots) {
        match call.callee {
            // A function that stands in for another is not known by its calls.
            Callee::Function(group) if !self.program.replaces_functions => {
                for (index, term) in call.args.iter().enumerate() {
                    let places = self.term(term, slots);
                    let params = self.params.entry(group).or_default();
                    if params.len() <= index {
                        params.resize_with(index + 1, Places::new);
                    }
                    let Some(known) = params.get_mut(index) else { continue };
                    if known.union(&places).count() > MAX_PLACES {
                        self.whole(&places);
                    } else {
                        known.extend(places);
                    }
                }
            }
            Callee::Function(_) | Callee::Builtin(_) => {
                call.args.iter().for_each(|term| self.used(term, slots));
            }
        }
    }

    fn reference(&mut self, reference: &Ref, slots: &mut Slots) -> Places {
        let base = match &reference.base {
            Base::Term(term) => self.term(term, slots),
            Base::Input | Base::InputAt(_) => self.input(&reference.base),
            Base::Data { prefix, .. } => self.data(prefix),
        };
        let mut steps = Vec::new();
        for operand in &reference.path {
            steps.push(match operand {
                Operand::Key(Term::Const(id)) => self.step(*id),
                Operand::Key(term) => {
                    self.used(term, slots);
                    Step::Each
                }
                Operand::Each(pattern) => {
                    self.pattern(pattern, Places::new(), slots);
                    Step::Each
                }
            });
        }
        self.extended(base, &steps)
    }

    /// `with` may put another document in its place, which is then taken for this one.
    fn input(&mut self, base: &Base) -> Places {
        match (self.root, base) {
            (Root::Data(_), _) => Places::new(),
            (Root::Input, Base::Input) => [Vec::new()].into(),
            // A part of it in a program for some parameters.
            (Root::Input, _) => {
                self.reads = Reads::everything();
                Places::new()
            }
        }
    }

    fn data(&mut self, prefix: &[ConstId]) -> Places {
        let Root::Data(root) = self.root else { return Places::new() };
        let Some((first, rest)) = prefix.split_first() else {
            // All of `data`, or a part of it that is only known later.
            self.reads = Reads::everything();
            return Places::new();
        };
        match self.step(*first) {
            Step::Key(key) if key == root => {
                [rest.iter().map(|id| self.step(*id)).collect()].into()
            }
            _ => Places::new(),
        }
    }

    /// Places below others. That something is there counts, even if it is not looked at.
    fn extended(&mut self, base: Places, steps: &[Step]) -> Places {
        let mut places = Places::new();
        for mut path in base {
            path.extend_from_slice(steps);
            let is_long = path.len() > MAX_STEPS;
            self.reads.add(path.get(..MAX_STEPS).unwrap_or(&path), is_long);
            if !is_long {
                places.insert(path);
            }
        }
        places
    }

    fn pattern(&mut self, pattern: &Pattern, places: Places, slots: &mut Slots) {
        match pattern {
            Pattern::Any => {}
            Pattern::Bind(slot) => {
                let known = slots.entry(*slot).or_default();
                known.extend(places);
                if known.len() > MAX_PLACES {
                    let known = std::mem::take(known);
                    self.whole(&known);
                }
            }
            Pattern::Equal(term) => {
                self.whole(&places);
                self.used(term, slots);
            }
            Pattern::Array(elements) => {
                self.whole(&places);
                for element in elements {
                    self.pattern(element, Places::new(), slots);
                }
            }
            Pattern::Object(members) => {
                self.whole(&places);
                for (key, value) in members {
                    self.used(key, slots);
                    self.pattern(value, Places::new(), slots);
                }
            }
        }
    }

    /// Where a value comes from, if it is one of the document itself.
    fn term(&mut self, term: &Term, slots: &Slots) -> Places {
        match term {
            Term::Local(slot) => slots.get(slot).cloned().unwrap_or_default(),
            _ => {
                self.used(term, slots);
                Places::new()
            }
        }
    }

    /// Reads in full what a value is made of.
    fn used(&mut self, term: &Term, slots: &Slots) {
        match term {
            Term::Const(_) | Term::ConstSet(_) => {}
            Term::Local(slot) => {
                if let Some(places) = slots.get(slot) {
                    self.whole(places);
                }
            }
            Term::Array(terms) | Term::Set(terms) => {
                terms.iter().for_each(|term| self.used(term, slots));
            }
            Term::Object(members) => {
                for (key, value) in members {
                    self.used(key, slots);
                    self.used(value, slots);
                }
            }
        }
    }

    fn whole(&mut self, places: &Places) {
        for path in places {
            self.reads.add(path, true);
        }
    }

    fn step(&self, id: ConstId) -> Step {
        let constant = self.program.constants.get(id.0 as usize);
        match constant.and_then(Value::as_str) {
            Some(key) => Step::Key(key.into()),
            // Elements of arrays are not distinguished.
            None => Step::Each,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capabilities, ast::RegoVersion, parser::parse_module};

    fn program(text: &str) -> Program {
        let text = format!("package p\n{text}");
        let module = parse_module("p.rego", &text, RegoVersion::V0).expect("parses");
        Program::compile(&[module], &Capabilities::default()).expect("compiles")
    }

    /// Parts as paths, `*` for any key and `!` at the end of what is read in full.
    fn paths(reads: &Reads) -> Vec<String> {
        fn walk(reads: &Reads, path: &str, out: &mut Vec<String>) {
            if reads.all {
                return out.push(format!("{path}!"));
            }
            if reads.named.is_empty() && reads.each.is_none() && !path.is_empty() {
                out.push(path.to_owned());
            }
            let join = |key: &str| match path {
                "" => key.to_owned(),
                path => format!("{path}.{key}"),
            };
            for (key, below) in &reads.named {
                walk(below, &join(key), out);
            }
            if let Some(below) = &reads.each {
                walk(below, &join("*"), out);
            }
        }
        let mut out = Vec::new();
        walk(reads, "", &mut out);
        out
    }

    #[test]
    fn what_is_read() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(paths(&program(text).reads("inventory")), expected, "{text}");
        };
        check("v { input.data.inventory.a }", &[]);
        check("v { data.inventory.a.b }", &["a.b"]);
        check("v { not data.inventory.a[input.x].b }", &["a.*.b"]);
        check("v { data.other.inventory.a }", &[]);
        check("v[x] { x := data.inventory.a[_].b }", &["a.*.b!"]);
        check("v { x := data.inventory.a; x.b == 1; x.c[i].d == i }", &["a.b!", "a.c.*.d!"]);
        check("v { x := data.inventory.a[k]; k == 1 }", &["a.*"]);
        check("v { x := data.inventory.a; y := x.b; not y.c }", &["a.b.c"]);
        check("v { data.inventory.a[0].b == 1 }", &["a.*.b!"]);
        check("v { k := input.k; data.inventory.a[k].b == 1 }", &["a.*.b!"]);
        check("v { k := data.inventory.k; data.inventory.a[k].b == 1 }", &["a.*.b!", "k!"]);
        check("v { x := data.inventory.a; walk(x, [p, y]); p == y }", &["a!"]);
        check("v { x := data.inventory.a; object.get(x, \"b\", 1) == 2 }", &["a!"]);
        check("v { x := data.inventory.a; {\"b\": y} = x; y == 1 }", &["a!"]);
        check("v { x := data.inventory.a; y := [x.b]; y == input }", &["a.b!"]);
        check("v { x := data.inventory.a; input.r == x }", &["a!"]);
        check("v { count([1 | data.inventory.a[_].b == 1]) > 0 }", &["a.*.b!"]);
        check("v { count({x.b | x := data.inventory.a[_]}) > 0 }", &["a.*.b!"]);
        check("v { count({x | x := data.inventory.a[_]}) > 0 }", &["a.*!"]);
        check("v { x := data.inventory.a; v2 with input as x }\nv2 { input.z }", &["a!"]);
        check("v { data.inventory }", &[]);
        check("v { data[k].a; k == \"inventory\" }", &["!"]);
        check("v { x := data.inventory; x.a == 1 }", &["a!"]);
    }

    #[test]
    fn functions() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(paths(&program(text).reads("inventory")), expected, "{text}");
        };
        let same = "same(a, b) { a.name == b.name }\n";
        check(&format!("{same}v {{ same(data.inventory.x[_], input) }}"), &["x.*.name!"]);
        check(
            &format!("{same}v {{ same(data.inventory.x[_], data.inventory.y) }}"),
            &["x.*.name!", "y.name!"],
        );
        check("f(a) = a.b\nv { f(data.inventory.x).c == 1 }", &["x.b!"]);
        check("f(a) { g(a.b) }\ng(a) { a.c }\nv { f(data.inventory.x) }", &["x.b.c"]);
        check("g(a) { a.c == 1 }\nf(a) { g(a.b) }\nv { f(data.inventory.x) }", &["x.b.c!"]);
        check("f({\"a\": a}) { a }\nv { f(data.inventory.x) }", &["x!"]);
        check("f(\"a\") { true }\nv { f(data.inventory.x) }", &["x!"]);
        check("f(a) { a.b }\ng(a) { a.c }\nv { f(data.inventory.x) with f as g }", &["x!"]);
        check("all[x] { x := data.inventory.x[_] }\nv { all[x]; x.a == 1 }", &["x.*!"]);
        check("one = x { x := data.inventory.x }\nv { one.a == 1 }", &["x!"]);
        check("v { f(data.inventory.x) }\nf(a) { true } else { a.b }", &["x.b"]);
    }

    #[test]
    fn what_is_read_of_input() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(paths(&program(text).input_reads()), expected, "{text}");
        };
        check("v { data.inventory.a }", &[]);
        check("v { input.a.b }", &["a.b"]);
        check("v { input.a.b == 1 }", &["a.b!"]);
        check("v { x := input; x.a == 1; not x.b }", &["a!", "b"]);
        check("v { x := input.a; x[_].b == 1 }", &["a.*.b!"]);
        check("v { x := input.a[k]; k == 1 }", &["a.*"]);
        check("v[x] { x := input.a }", &["a!"]);
        check("v[x] { x := input }", &["!"]);
        check("v { input == 1 }", &["!"]);
        check("v { input[k]; k == 1 }", &["*"]);
        check("v { walk(input, [p, y]); p == y }", &["!"]);
        check("v { object.get(input.a, \"b\", 1) == 2 }", &["a!"]);
        check("v { data.inventory[input.a] }", &["a!"]);
        check("f(a) { a.b == 1 }\nv { f(input) }", &["b!"]);
        check("v { w with input as {\"c\": input.a} }\nw { input.c }", &["a!", "c"]);
        check("v { w with input.c as input.a }\nw { input.c }", &["a!", "c"]);
        check("v { count([1 | input.a[_] == 2]) == 1 }", &["a.*!"]);
        check("v { {\"a\": x} = input; x == 1 }", &["!"]);
        check("v { input.a[input.b] }", &["a.*", "b!"]);
    }

    #[test]
    fn every() {
        let text = "import future.keywords\nv { every x in data.inventory.a { x.b == 1 } }";
        assert_eq!(paths(&program(text).reads("inventory")), ["a.*.b!"]);
    }

    #[test]
    fn many_places_are_read_in_full() {
        let calls: String =
            (0..40).map(|n| format!("v {{ f(data.inventory.x{n:02}) }}\n")).collect();
        let found = paths(&program(&format!("f(a) {{ a.b == 1 }}\n{calls}")).reads("inventory"));
        assert_eq!(found.len(), 40);
        assert!(found[0].ends_with(".b!") && found[39].ends_with("39!"), "{found:?}");
    }

    #[test]
    fn what_is_kept() {
        let check = |text: &str, document: &str, expected: &str| {
            let document = Value::from_json(document.as_bytes()).expect(document);
            let kept = program(text).reads("inventory").keep(&document);
            assert_eq!(kept.to_json(), expected, "{text}");
        };
        let document = r#"{"a": [{"b": 1, "c": {"d": 2, "e": 3}}, {"b": 4}, 5], "f": {"g": 6}}"#;
        check("v { data.inventory.a[_].b }", document, r#"{"a":[{"b":1},{"b":4},5]}"#);
        check("v { data.inventory.a[_].c.d }", document, r#"{"a":[{"c":{"d":2}},{},5]}"#);
        check("v { data.inventory.f }", document, r#"{"f":{}}"#);
        check("v { data.inventory.f.g }", document, r#"{"f":{"g":6}}"#);
        check("v { x := data.inventory.f; x == 1 }", document, r#"{"f":{"g":6}}"#);
        check("v { x := data.inventory.f; x.h }", document, r#"{"f":{}}"#);
        check("v { x := data.inventory.a }", document, r#"{"a":[]}"#);
        check("v { data.inventory[k].g; k == 1 }", document, r#"{"a":[{},{},5],"f":{"g":6}}"#);
        check("v { input.x }", document, "{}");
    }

    #[test]
    fn more_and_less() {
        let of = |text: &str| program(&format!("v {{ {text} == 1 }}")).reads("inventory");
        for (larger, smaller, expected) in [
            ("data.inventory", "data.inventory.a", true),
            ("data.inventory.a", "data.inventory", false),
            ("data.inventory.a", "data.inventory.a.b", true),
            ("data.inventory[_].b", "data.inventory.a.b", true),
            ("data.inventory.a.b", "data.inventory[_].b", false),
            ("data.inventory.a", "data.inventory.b", false),
            ("data.inventory.a", "input.x", true),
            ("input.x", "data.inventory.a", false),
        ] {
            let (a, b) = (of(larger), of(smaller));
            assert_eq!(a.covers(&b), expected, "{larger} {smaller}");
            let mut both = b.clone();
            both.merge(&a);
            assert!(both.covers(&a) && both.covers(&b));
            assert_eq!(a.covers(&both), expected);
        }
    }
}
