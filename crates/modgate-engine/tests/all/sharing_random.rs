//! Random constraints in CEL share one review. The oracle is each constraint before it is in force, which shares nothing:
//! it finds and spends the same, and ends where its budget does.
//!
//! Templates take variables and expressions from one small pool: the same name stands for other texts, the same text
//! reads variables of other types, and parameters are alike but not equal.

use std::{cell::Cell, collections::BTreeMap, fmt::Write as _, sync::Arc};

use modgate_api::constraints::EnforcementPoint;
use modgate_engine::{
    PolicySource,
    constraint::{
        Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintOptions, Evaluation,
        Externals, Inventory, Store, TemplateOptions, Violation, review, review_each,
    },
    cost::Meter,
};
use modgate_rego::builtins::Isolated;
use modgate_value::{Budget, Limits, Value, budget::Frozen};
use proptest::prelude::*;

use super::support::Random;

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn random_constraints_find_and_pay_together_what_each_does_alone(seed in any::<u64>()) {
        let case = Case::new(seed);
        for request in &case.requests {
            case.compare(request)?;
        }
    }
}

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Members of parameters, and of objects.
const MEMBERS: [&str; 5] = ["s", "n", "l", "t", "d"];

/// What these members are, where they are: much of it alike.
const VALUES: [&str; 26] = [
    "1",
    "1.0",
    "\"1\"",
    "0",
    "-0",
    "-0.0",
    "true",
    "\"true\"",
    "null",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "[\"x\"]",
    "[\"x\",\"y\"]",
    "[\"y\",\"x\"]",
    "[1]",
    "[1.0]",
    "[\"1\"]",
    "[null]",
    "{\"s\":\"x\"}",
    "{\"s\":[\"x\"],\"n\":1}",
    "{\"n\":1.0}",
    "[{\"s\":\"x\"},{\"s\":\"y\"}]",
    "18446744073709551615",
    "2",
];

/// Large members: comparing and joining them takes a budget.
fn large(random: &mut Random) -> String {
    let item = random.one(&["1", "\"x\"", "{\"s\":\"x\"}"]);
    match random.below(4) {
        0 => format!("[{}]", vec![item; 40 + random.below(300)].join(",")),
        1 => format!("\"{}\"", "xy".repeat(40_000 + random.below(2) * 400)),
        2 => format!("\"{}\"", "xy".repeat(1 + random.below(40_000))),
        _ => format!("[{}]", vec!["[\"x\",\"y\"]"; 1 + random.below(200)].join(",")),
    }
}

fn member_value(random: &mut Random) -> String {
    if random.is(12) { large(random) } else { random.one(&VALUES).to_owned() }
}

/// A JSON object of these members.
fn object_of(random: &mut Random, members: &[&str]) -> String {
    let mut all = Vec::new();
    for member in members {
        if !random.is(3) {
            all.push(format!("\"{member}\":{}", member_value(random)));
        }
    }
    format!("{{{}}}", all.join(","))
}

/// An expression of about this type; most compile.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bool,
    Int,
    Text,
    List,
    Any,
}

const KINDS: [Kind; 5] = [Kind::Bool, Kind::Int, Kind::Text, Kind::List, Kind::Any];

/// Writes expressions that read the variables so far.
struct Writer<'r> {
    random: &'r mut Random,
    /// Whether they read `params`, the constraint, too.
    in_variable: bool,
    locals: Vec<&'static str>,
}

impl Writer<'_> {
    fn write(&mut self, kind: Kind, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        if depth == 0 || self.random.is(5) {
            return self.leaf(kind);
        }
        let text = match kind {
            Kind::Bool => self.condition(depth),
            Kind::Int => self.int(depth),
            Kind::Text => self.text(depth),
            Kind::List => self.list(depth),
            Kind::Any => self.any(depth),
        };
        match self.random.below(24) {
            0 => format!(
                "({} ? {text} : {})",
                self.write(Kind::Bool, depth),
                self.write(kind, depth)
            ),
            1 => format!("( {text} )"),
            2 => format!("({text} // said twice\n )"),
            _ => text,
        }
    }

    fn variable(&mut self) -> String {
        format!("variables.{}", self.random.one(&NAMES))
    }

    fn leaf(&mut self, kind: Kind) -> String {
        if self.random.is(3) {
            return match self.random.below(3) {
                0 if kind != Kind::Any => format!(
                    "{}({})",
                    if kind == Kind::Text { "string" } else { "dyn" },
                    self.variable()
                ),
                _ => self.variable(),
            };
        }
        if !self.locals.is_empty() && self.random.is(2) {
            let local = self.random.one(&self.locals.clone());
            return match kind {
                Kind::Any => local.to_owned(),
                Kind::Text => format!("string({local})"),
                Kind::Int => format!("int({local})"),
                Kind::Bool => format!("{local} == {}", self.write(Kind::Any, 1)),
                Kind::List => format!("[{local}]"),
            };
        }
        match kind {
            Kind::Bool => self
                .random
                .one(&[
                    "true",
                    "false",
                    "object == null",
                    "oldObject == null",
                    "namespaceObject == null",
                    "request.operation == \"UPDATE\"",
                    "variables.params == null",
                    "has(variables.params.s)",
                    "has(variables.anyObject.spec.l)",
                    "request.dryRun",
                    "variables.params.t",
                ])
                .to_owned(),
            Kind::Int => self
                .random
                .one(&[
                    "0",
                    "1",
                    "2",
                    "size(variables.params)",
                    "variables.params.n",
                    "9223372036854775807",
                ])
                .to_owned(),
            Kind::Text => self
                .random
                .one(&[
                    "\"x\"",
                    "\"1\"",
                    "\"\"",
                    "request.operation",
                    "request.name",
                    "variables.params.s",
                    "namespaceObject.metadata.name",
                    "variables.anyObject.metadata.name",
                    "string(variables.params)",
                ])
                .to_owned(),
            Kind::List => self
                .random
                .one(&[
                    "[]",
                    "[\"x\"]",
                    "variables.params.l",
                    "variables.anyObject.spec.l",
                    "object.spec.l",
                    "oldObject.spec.l",
                    "request.userInfo.groups",
                    "variables.?params.?l.orValue([])",
                ])
                .to_owned(),
            Kind::Any => self.any(1),
        }
    }

    fn any(&mut self, depth: usize) -> String {
        match self.random.below(10) {
            0 => format!("variables.params.{}", self.random.one(&MEMBERS)),
            1 => format!("variables.params[\"{}\"]", self.random.one(&MEMBERS)),
            2 => format!("variables.anyObject.spec.{}", self.random.one(&MEMBERS)),
            3 => format!("{}.{}", self.variable(), self.random.one(&MEMBERS)),
            4 => self
                .random
                .one(&[
                    "variables.params",
                    "variables.?params.?s",
                    "variables.params.?l[?0]",
                    "optional.of(variables.params)",
                    "quantity(string(variables.params.n))",
                    "duration(\"1h\")",
                    "b\"x\"",
                    "variables.anyObject",
                    "namespaceObject",
                ])
                .to_owned(),
            5 if self.in_variable => self
                .random
                .one(&["params.metadata.name", "params.spec.parameters", "params.spec"])
                .to_owned(),
            6 => format!("object.spec.{}", self.random.one(&MEMBERS)),
            7 if depth > 1 => format!(
                "{{\"s\": {}, \"n\": {}}}",
                self.write(Kind::Any, depth),
                self.write(Kind::Int, depth)
            ),
            8 if depth > 1 => {
                let kind = self.random.one(&KINDS);
                self.write(kind, depth)
            }
            9 => self
                .random
                .one(&["null", "dyn(1)", "dyn(\"1\")", "dyn(1.0)", "dyn([1])", "{\"s\": \"x\"}"])
                .to_owned(),
            _ => self.variable(),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.random.below(17) {
            0 => format!("{} == {}", self.write(Kind::Any, depth), self.write(Kind::Any, depth)),
            1 => format!(
                "{} != dyn({})",
                self.write(Kind::Text, depth),
                self.write(Kind::Any, depth)
            ),
            2 => format!("{} < {}", self.write(Kind::Int, depth), self.write(Kind::Int, depth)),
            3 => {
                format!("({} && {})", self.write(Kind::Bool, depth), self.write(Kind::Bool, depth))
            }
            4 => {
                format!("({} || {})", self.write(Kind::Bool, depth), self.write(Kind::Bool, depth))
            }
            5 => format!("!({})", self.write(Kind::Bool, depth)),
            6 => format!(
                "dyn({}) in {}",
                self.write(Kind::Any, depth),
                self.write(Kind::List, depth)
            ),
            7 | 8 => {
                let which = self.random.one(&["all", "exists", "exists_one"]);
                let list = self.sum(depth);
                let local = self.random.one(&["x", "y", "object", "variables"]);
                self.locals.push(local);
                let body = self.write(Kind::Bool, depth);
                self.locals.pop();
                format!("{list}.{which}({local}, {body})")
            }
            9 => format!(
                "{}.contains({})",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            10 => format!("has({}.{})", self.variable(), self.random.one(&MEMBERS)),
            11 => format!(
                "type({}) == {}",
                self.write(Kind::Any, depth),
                self.random.one(&["int", "double", "string", "list", "map", "null_type", "bool"])
            ),
            // Costs nearly all that one expression may.
            13 => format!(
                "variables.params.{}.contains(string(variables.params.{}).substring(0, 1000))",
                self.random.one(&MEMBERS),
                self.random.one(&MEMBERS)
            ),
            14 => format!(
                "quantity({}).isGreaterThan(quantity({}))",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            15 => format!(
                "timestamp({}) > timestamp(\"2026-01-01T00:00:00Z\")",
                self.write(Kind::Text, depth)
            ),
            12 => format!(
                "{}.matches({})",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            _ => format!("size({}) == {}", self.sum(depth), self.random.below(4)),
        }
    }

    /// A list, often of several that are joined.
    fn sum(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0 => {
                let count = 2 + self.random.below(3);
                let all: Vec<String> = (0..count).map(|_| self.variable()).collect();
                format!("({})", all.join(" + "))
            }
            1 => self.variable(),
            _ => self.write(Kind::List, depth),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        match self.random.below(7) {
            0 => format!("size({})", self.sum(depth)),
            1 => format!("size({})", self.write(Kind::Text, depth)),
            2 => format!("({} + {})", self.write(Kind::Int, depth), self.write(Kind::Int, depth)),
            3 => format!("({} / {})", self.write(Kind::Int, depth), self.write(Kind::Int, depth)),
            4 => format!("int({})", self.write(Kind::Any, depth)),
            5 => format!(
                "{}.indexOf({})",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            _ => format!("{}.map(x, size(string(x))).sum()", self.write(Kind::List, depth)),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.random.below(7) {
            0 => format!("({} + {})", self.write(Kind::Text, depth), self.write(Kind::Text, depth)),
            1 => format!("string({})", self.write(Kind::Any, depth)),
            2 => format!("{}.map(x, string(x)).join(\",\")", self.sum(depth)),
            3 => format!(
                "{}.substring(0, {})",
                self.write(Kind::Text, depth),
                self.write(Kind::Int, depth)
            ),
            4 => format!("{}[{}]", self.write(Kind::List, depth), self.write(Kind::Int, depth)),
            5 => format!(
                "{}.replace({}, {})",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            _ => format!("string({})", self.write(Kind::Int, depth)),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        match self.random.below(8) {
            0 | 1 => self.sum(depth),
            2 | 3 => {
                let which = self.random.one(&["map", "filter"]);
                let list = self.sum(depth);
                let local = self.random.one(&["x", "y"]);
                self.locals.push(local);
                let kind = if which == "filter" { Kind::Bool } else { Kind::Any };
                let body = self.write(kind, depth);
                self.locals.pop();
                format!("{list}.{which}({local}, {body})")
            }
            4 => format!("[{}, {}]", self.write(Kind::Any, depth), self.write(Kind::Any, depth)),
            5 => format!(
                "{}.split({})",
                self.write(Kind::Text, depth),
                self.write(Kind::Text, depth)
            ),
            6 => format!("lists.range({})", self.random.one(&[1, 3, 200, 2000])),
            _ => format!("dyn({})", self.write(Kind::Any, depth)),
        }
    }
}

/// Constraints of a few templates, and requests.
struct Case {
    store: Store,
    plain: Vec<CompiledConstraint>,
    requests: Vec<Request>,
    shown: String,
}

struct Request {
    admission: Admission,
    shown: String,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let random = &mut random;
        // What templates choose from: texts by what they come to.
        let mut pool: Vec<(Kind, String)> = Vec::new();
        for number in 0..18 {
            let kind = KINDS[number % KINDS.len()];
            let (in_variable, depth) = (random.is(4), 2 + random.below(3));
            let mut writer = Writer { random, in_variable, locals: Vec::new() };
            pool.push((kind, writer.write(kind, depth)));
        }
        let of = |random: &mut Random, kinds: &[Kind]| loop {
            let (kind, text) = &pool[random.below(pool.len())];
            if kinds.contains(kind) {
                return text.clone();
            }
        };
        let options = ConstraintOptions::default();
        let (mut store, mut plain, mut shown) = (Store::default(), Vec::new(), String::new());
        let mut parameters: Vec<String> = (0..6).map(|_| object_of(random, &MEMBERS)).collect();
        parameters.extend(["null", "[]", "\"x\"", "1"].map(str::to_owned));
        let mut sources: Vec<String> = Vec::new();
        for index in 0..2 + random.below(4) {
            let source = match sources.last() {
                Some(last) if random.is(4) => last.clone(),
                _ => {
                    let mut variables = Vec::new();
                    let mut names = NAMES.to_vec();
                    for _ in 0..random.below(NAMES.len() + 1) {
                        let name = names.remove(random.below(names.len()));
                        let text = of(random, &KINDS);
                        variables.push(format!(
                            "{{\"name\":\"{name}\",\"expression\":{}}}",
                            json(&text)
                        ));
                        // Names may be given twice.
                        if random.is(30) {
                            names.push(name);
                        }
                    }
                    let mut conditions = Vec::new();
                    if random.is(3) {
                        for number in 0..1 + random.below(2) {
                            let text = of(random, &[Kind::Bool]);
                            conditions.push(format!(
                                "{{\"name\":\"m{number}\",\"expression\":{}}}",
                                json(&text)
                            ));
                        }
                    }
                    let mut validations = Vec::new();
                    let most = if random.is(8) { 20 } else { 4 };
                    for _ in 0..1 + random.below(most) {
                        let text = match random.below(3) {
                            0 => "false".to_owned(),
                            _ => of(random, &[Kind::Bool]),
                        };
                        let message = match random.below(4) {
                            0 => String::new(),
                            1 => ",\"message\":\"said\"".to_owned(),
                            _ => format!(
                                ",\"messageExpression\":{}",
                                json(&of(random, &[Kind::Text]))
                            ),
                        };
                        validations.push(format!("{{\"expression\":{}{message}}}", json(&text)));
                    }
                    let policy = random.one(&[
                        "",
                        ",\"failurePolicy\":\"Fail\"",
                        ",\"failurePolicy\":\"Ignore\"",
                    ]);
                    format!(
                        "{{\"variables\":[{}],\"matchCondition\":[{}],\"validations\":[{}]{policy}}}",
                        variables.join(","),
                        conditions.join(","),
                        validations.join(",")
                    )
                }
            };
            sources.push(source.clone());
            let template = format!(
                "{{\"apiVersion\":\"templates.gatekeeper.sh/v1\",\"kind\":\"ConstraintTemplate\",\"metadata\":{{\"name\":\
                 \"probe{index}\"}},\"spec\":{{\"crd\":{{\"spec\":{{\"names\":{{\"kind\":\"Probe{index}\"}},\"validation\":\
                 {{\"legacySchema\":true}}}}}},\"targets\":[{{\"target\":\"admission.k8s.gatekeeper.sh\",\"code\":[{{\"engine\":\
                 \"K8sNativeValidation\",\"source\":{source}}}]}}]}}}}"
            );
            let _ = writeln!(shown, "{template}");
            let template =
                CompiledTemplate::compile(&value(&template), &TemplateOptions::default());
            let Ok(template) = template else { continue };
            let template = Arc::new(template);
            store.insert_template(Arc::clone(&template), &options);
            let most = if random.is(8) { 40 } else { 8 };
            for number in 0..6 + random.below(most) {
                let spec = match random.below(14) {
                    0 => String::new(),
                    1 => ",\"spec\":{}".to_owned(),
                    _ => {
                        let mut parts = Vec::new();
                        if !random.is(10) {
                            let at = random.below(parameters.len());
                            parts.push(format!("\"parameters\":{}", parameters[at]));
                        }
                        if random.is(4) {
                            parts.push("\"enforcementAction\":\"warn\"".to_owned());
                        }
                        format!(",\"spec\":{{{}}}", parts.join(","))
                    }
                };
                let constraint = format!(
                    "{{\"apiVersion\":\"constraints.gatekeeper.sh/v1beta1\",\"kind\":\"Probe{index}\",\"metadata\":{{\"name\":\
                     \"c{number}\"}}{spec}}}"
                );
                let constraint = value(&constraint);
                let source = PolicySource::of_object(constraint.clone());
                let alone =
                    CompiledConstraint::compile(&constraint, Arc::clone(&template), &options);
                let Ok(alone) = alone else { continue };
                let _ = writeln!(shown, "{}", constraint.to_json());
                store.insert_constraint(source, &options).expect("a constraint");
                plain.push(alone);
            }
        }
        let requests = (0..3).map(|_| request(random)).collect();
        Self { store, plain, requests, shown }
    }

    fn together(&self, backwards: bool) -> Vec<&CompiledConstraint> {
        let mut all: Vec<_> = self.store.constraints().map(AsRef::as_ref).collect();
        if backwards {
            all.reverse();
        }
        all
    }

    fn compare(&self, request: &Request) -> Result<(), TestCaseError> {
        let admission = &request.admission;
        let alone = each(self.plain.iter(), admission, Limits::UNLIMITED);
        let (mut steps, mut bytes) = (1, 1);
        for backwards in [false, true] {
            let together = each(self.together(backwards).into_iter(), admission, Limits::UNLIMITED);
            for (name, found) in &together {
                let expected = &alone[name];
                prop_assert!(
                    found == expected,
                    "{name:?}: {found:?}, alone {expected:?}\n{}\n{}",
                    self.shown,
                    request.shown
                );
                (steps, bytes) = (steps.max(found.1), bytes.max(found.2));
            }
            prop_assert_eq!(together.len(), alone.len());
        }
        let whole =
            found_of(self.plain.iter().collect(), admission, Limits::UNLIMITED, Limits::UNLIMITED);
        let limits = (0..8_u64).flat_map(|part| {
            let (spent_steps, spent_bytes) = (whole.1, whole.2);
            [
                (Limits { steps: steps * part / 8, ..Limits::UNLIMITED }, Limits::UNLIMITED),
                (Limits { bytes: bytes * part / 8, ..Limits::UNLIMITED }, Limits::UNLIMITED),
                (Limits { steps: (3 << part).min(steps), ..Limits::UNLIMITED }, Limits::UNLIMITED),
                (Limits { bytes: (30 << part).min(bytes), ..Limits::UNLIMITED }, Limits::UNLIMITED),
                (Limits::UNLIMITED, Limits { steps: spent_steps * part / 8, ..Limits::UNLIMITED }),
                (Limits::UNLIMITED, Limits { bytes: spent_bytes * part / 8, ..Limits::UNLIMITED }),
            ]
        });
        for (one, all) in limits {
            for backwards in [false, true] {
                let mut plain: Vec<_> = self.plain.iter().collect();
                let together = self.together(backwards);
                plain.sort_by_key(|it| {
                    together
                        .iter()
                        .position(|other| other.kind() == it.kind() && other.name() == it.name())
                });
                let expected = found_of(plain, admission, one, all).0;
                let found = found_of(together, admission, one, all).0;
                let differ =
                    found.iter().zip(&expected).find(|(found, expected)| found != expected);
                prop_assert!(
                    found == expected,
                    "{one:?} of {all:?}, backwards {backwards}: {differ:?}\n{}\n{}",
                    self.shown,
                    request.shown
                );
            }
        }
        Ok(())
    }
}

/// A request about an object that may be anything.
fn request(random: &mut Random) -> Request {
    let metadata = random.one(&[
        "\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"},",
        "\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{\"s\":\"x\"}},",
        "\"metadata\":{\"name\":\"p\"},",
        "",
    ]);
    let object = |random: &mut Random| {
        let spec = object_of(random, &MEMBERS);
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",{metadata}\"spec\":{spec}}}")
    };
    let (operation, objects) = match random.below(6) {
        0 => ("DELETE", format!(",\"object\":null,\"oldObject\":{}", object(random))),
        1 => ("UPDATE", format!(",\"object\":{},\"oldObject\":{}", object(random), object(random))),
        2 => (
            "CONNECT",
            ",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"PodExecOptions\",\"stdin\":true}"
                .to_owned(),
        ),
        _ => ("CREATE", format!(",\"object\":{},\"oldObject\":null", object(random))),
    };
    let more = random.one(&[
        "",
        ",\"dryRun\":true",
        ",\"userInfo\":{\"username\":\"u\",\"groups\":[\"x\",\"y\"]}",
    ]);
    let shown = format!(
        "{{\"uid\":\"1\",\"operation\":\"{operation}\",\"name\":\"p\",\"namespace\":\"n\",\"kind\":{{\"group\":\"\",\
         \"version\":\"v1\",\"kind\":\"Pod\"}}{objects}{more}}}"
    );
    let namespace =
        value("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"n\"}}");
    let namespace = (!random.is(3)).then_some(&namespace);
    let admission = Admission::of_request(&value(&shown), namespace).expect("a request");
    Request { admission, shown }
}

fn json(text: &str) -> String {
    Value::from(text).to_json()
}

fn value(text: &str) -> Value {
    Value::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What each constraint finds and spends, by its kind and its name.
fn each<'c>(
    constraints: impl Iterator<Item = &'c CompiledConstraint>,
    admission: &Admission,
    limits: Limits,
) -> BTreeMap<(String, String), (Vec<Violation>, u64, u64)> {
    let (inventory, budget) = (Inventory::default(), Budget::new(Limits::UNLIMITED, &Frozen));
    let evaluation = evaluation(&inventory, &budget, limits);
    let spent = || (budget.steps_spent(), budget.bytes_spent());
    let (before, mut all) = (Cell::new((0, 0)), BTreeMap::new());
    let begin = || before.set(spent());
    review_each(constraints, admission, evaluation, &mut Arena::new(), &begin, |found| {
        let (now, before) = (spent(), before.get());
        let key = (found.constraint.kind().to_string(), found.constraint.name().to_string());
        all.insert(key, (found.violations, now.0 - before.0, now.1 - before.1));
    });
    all
}

/// The violations of all, and the steps and bytes that they spend.
fn found_of(
    constraints: Vec<&CompiledConstraint>,
    admission: &Admission,
    limits: Limits,
    of_request: Limits,
) -> (Vec<Violation>, u64, u64) {
    let (inventory, budget) = (Inventory::default(), Budget::new(of_request, &Frozen));
    let evaluation = evaluation(&inventory, &budget, limits);
    let violations = review(constraints, admission, evaluation, &mut Arena::new());
    (violations, budget.steps_spent(), budget.bytes_spent())
}

fn evaluation<'a>(
    inventory: &'a Inventory,
    budget: &'a Budget<'a>,
    limits: Limits,
) -> Evaluation<'a> {
    Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Webhook,
        externals: Externals { inventory, host: &Isolated },
        budget,
        limits,
    }
}
