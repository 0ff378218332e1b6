//! The fuzz targets, as ordinary functions.
//!
//! A target takes any bytes and must not panic; where two ways lead to the same result it checks
//! that they do. The targets live here so that tests replay every input that ever broke one
//! (`fuzz/regressions/<target>/`) and mutate the corpora a little on every run, without the fuzzer
//! being installed.
//!
//! Inputs of two parts (an expression and a document, a rule and an object) have a zero byte
//! between them.

mod cel;
mod mutate;
mod mutators;
mod policies;

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    panic,
    sync::{Mutex, Once, PoisonError},
};

use anyhow::Result;
pub use cel::{cel, cel_check};
use modgate_engine::EngineConfig;
use modgate_rego::{
    Capabilities, Program, RegoVersion,
    ast::Module,
    parse_module,
    value::{Arena, Heap},
};
use modgate_select::{Expr, PatchSelect, Shape, Val};
use modgate_template::{Data, Env, Isolated, Template};
use modgate_value::{Budget, Limits, Value, budget::Frozen, regex::GoRegex, yaml};

pub use self::{
    mutate::Mutations,
    mutators::{location, mutator, mutators},
    policies::policies,
};
use crate::{
    corpus::{self, Roots},
    kubemod,
};

/// A fuzz target.
pub struct Target {
    /// Its name, also of its folders below `fuzz/`.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
    /// Inputs to start from, taken from a document of a corpus.
    pub seeds: fn(&str, &Value, &mut Vec<Vec<u8>>),
}

/// All targets but those of the server, which `modgate_e2e::fuzz` adds.
pub const TARGETS: &[Target] = &[
    Target { name: "json", run: json, seeds: seeds_json },
    Target { name: "yaml", run: yaml_text, seeds: seeds_yaml },
    Target { name: "regex", run: regex, seeds: seeds_regex },
    Target { name: "select", run: select, seeds: seeds_select },
    Target { name: "template", run: template, seeds: seeds_template },
    Target { name: "patch", run: patch, seeds: seeds_patch },
    Target { name: "rego_parse", run: rego_parse, seeds: seeds_rego },
    Target { name: "rego_compile", run: rego_compile, seeds: seeds_rego },
    Target { name: "rego", run: rego, seeds: seeds_rego },
    Target { name: "cel", run: cel, seeds: cel::seeds },
    Target { name: "cel_check", run: cel_check, seeds: cel::seeds },
    Target { name: "location", run: location, seeds: mutators::seeds_location },
    Target { name: "mutator", run: mutator, seeds: mutators::seeds_mutator },
    Target { name: "mutators", run: mutators, seeds: mutators::seeds_mutators },
    Target { name: "policies", run: policies, seeds: policies::seeds },
];

/// The first panic of an input, of whatever thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

impl Target {
    /// Runs one input. A panic that the server turned into an answer fails it, too.
    ///
    /// # Errors
    ///
    /// The message of the panic.
    pub fn attempt(&self, input: &[u8]) -> Result<(), String> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let print = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                let mut first = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| info.to_string());
                print(info);
            }));
        });
        let attempt = panic::catch_unwind(|| (self.run)(input));
        let message = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (attempt, message) {
            (Ok(()), None) => Ok(()),
            (_, message) => Err(message.unwrap_or_else(|| "a panic without a message".to_owned())),
        }
    }

    /// Inputs to start from, out of every corpus there is.
    ///
    /// # Errors
    ///
    /// When a corpus cannot be read.
    pub fn seeds(&self, roots: &Roots) -> Result<Vec<Vec<u8>>> {
        let mut seeds = Vec::new();
        for file in corpus::files(roots)? {
            let known = ["languages/", "kubemod/", "gatekeeper/"];
            if known.iter().any(|folder| file.name.starts_with(folder))
                && file.name.ends_with(".json")
            {
                (self.seeds)(&file.name, &file.json()?, &mut seeds);
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        Ok(seeds)
    }

    /// At most 2,000 of the [`seeds`](Self::seeds), for a fuzzer: libFuzzer runs all of them before it
    /// changes one, and the recorded calls of functions alone are some ten thousands.
    ///
    /// # Errors
    ///
    /// When a corpus cannot be read.
    pub fn sample(&self, roots: &Roots) -> Result<Vec<Vec<u8>>> {
        Ok(sample(self.seeds(roots)?))
    }
}

/// Seeds of a [`Target::sample`].
const MAX_SEEDS: usize = 2_000;

/// The smallest inputs, ahead of them those with a word that no smaller one has: every function and keyword
/// is among them.
fn sample(mut seeds: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    seeds.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut words = BTreeSet::new();
    let (mut chosen, others): (Vec<_>, Vec<_>) = seeds.into_iter().partition(|seed| {
        let source = seed.split(|byte| *byte == 0).next().unwrap_or_default();
        let letters = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        let mut is_new = false;
        for word in source.split(|byte| !letters(byte)).filter(|word| word.len() <= MAX_WORD) {
            is_new |= words.insert(word.to_vec());
        }
        is_new
    });
    chosen.extend(others);
    chosen.truncate(MAX_SEEDS);
    chosen
}

/// Longer runs of letters are data.
const MAX_WORD: usize = 30;

/// The budget of one input; small, so that a slow input is a finding.
pub const LIMITS: Limits =
    Limits { steps: 100_000, bytes: 4 << 20, time: std::time::Duration::MAX };

fn halves(data: &[u8]) -> Option<(&str, &[u8])> {
    let at = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (first, second) = data.split_at_checked(at)?;
    Some((std::str::from_utf8(first).ok()?, second.get(1..).unwrap_or_default()))
}

/// JSON: what was read prints, and reads back as the same value.
pub fn json(data: &[u8]) {
    if let Ok(value) = Value::from_json(data) {
        let text = value.to_json();
        assert_eq!(Value::from_json(text.as_bytes()).ok().as_ref(), Some(&value), "{text}");
        let _ = modgate_value::gofmt::text(&value);
    }
}

/// YAML: strict reading accepts less than plain reading, and to the same end.
pub fn yaml_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let plain = yaml::value(text);
    if let Ok(strict) = yaml::value_strict(text) {
        assert_eq!(plain.as_ref().ok(), Some(&strict), "{text:?}");
    }
    let _ = yaml::load(text);
    if let Ok(value) = plain {
        json(value.to_json().as_bytes());
    }
}

/// Regular expressions: the ways of asking for a match agree, and ranges are text.
pub fn regex(data: &[u8]) {
    let Some((pattern, text)) = halves(data) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(regex) = GoRegex::with_size_limit(pattern, 1 << 20) else { return };
    let budget = Budget::unlimited();
    let Ok(found) = regex.find(text, &budget) else { return };
    assert_eq!(regex.is_match(text), found.is_some(), "{pattern:?} in {text:?}");
    let captures = regex.captures(text, &budget).ok().flatten();
    assert_eq!(captures.and_then(|groups| groups.get(0)), found, "{pattern:?}");
    if let Some(range) = found {
        assert!(text.get(range).is_some(), "{pattern:?} in {text:?}");
    }
    let _ = regex.replace_all(text, "<$0>");
    let _ = regex.split(text, Some(5), &budget);
    assert!(GoRegex::new(&modgate_value::regex::quote_meta(pattern)).is_ok(), "{pattern:?}");
}

/// Rego: whatever compiles is evaluated, every document of it, within its budget.
pub fn rego(data: &[u8]) {
    let Some((text, input)) = halves(data) else { return };
    let input = Value::from_json(input).ok();
    for version in [RegoVersion::V0, RegoVersion::V1] {
        let Ok(module) = parse_module("fuzz.rego", text, version) else {
            continue;
        };
        let Ok(program) = Program::compile(&[module], &Capabilities::default()) else { continue };
        let budget = Budget::new(LIMITS, &Frozen);
        for group in program.groups() {
            let arena = Arena::new();
            let context = modgate_rego::eval::Context {
                input: input.as_ref().map(modgate_rego::value::Value::json),
                data: None,
                heap: Heap::new(&arena, &budget),
                host: &modgate_rego::builtins::Isolated,
                strict_builtin_errors: false,
                tracer: None,
            };
            let value = modgate_rego::eval::document(&program, group, context);
            if let Ok(Some(value)) = value {
                let _ = value.to_text(&budget);
            }
        }
    }
}

/// Select expressions: both ways of evaluating a criterion see the same values.
pub fn select(data: &[u8]) {
    let Some((text, document)) = halves(data) else { return };
    let document = Value::from_json(document).unwrap_or_default();
    if let Ok(select) = PatchSelect::parse(text) {
        let _ = select.items(&document, &Budget::new(LIMITS, &Frozen)).map(|items| items.len());
    }
    let Ok(expr) = Expr::parse(text) else { return };
    let _ = expr.lints();
    let value = expr.eval(&document, &Budget::new(LIMITS, &Frozen));
    let mut visited = Vec::new();
    let shape = expr.for_each_value(&document, &Budget::new(LIMITS, &Frozen), &mut |value| {
        visited.push(value.text().into_owned());
        ControlFlow::Continue(())
    });
    let (Ok(value), Ok(shape)) = (value, shape) else { return };
    let expected: Vec<String> = match (&value, shape) {
        (Val::Undefined | Val::Null, Shape::Absent) | (Val::Bool(_), Shape::Bool(_)) => Vec::new(),
        (Val::Array(list), Shape::List { .. }) => {
            let defined = list.iter().filter(|element| !element.is_undefined());
            defined.map(|element| element.text().into_owned()).collect()
        }
        (value, Shape::Single) => vec![value.text().into_owned()],
        (value, shape) => panic_with(text, &format!("{value:?} is seen as {shape:?}")),
    };
    assert_eq!(visited, expected, "{text}");
}

/// Templates: parse, render within a budget.
pub fn template(data: &[u8]) {
    let Some((text, document)) = halves(data) else { return };
    let document = Value::from_json(document).unwrap_or_default();
    let Ok(template) = Template::parse("fuzz", text) else { return };
    let budget = Budget::new(LIMITS, &Frozen);
    let env = Env { budget: &budget, host: &Isolated };
    let _ = template.render(Data::Value(&document), &env);
}

/// A rule and an object: whatever comes of it is consistent.
pub fn patch(data: &[u8]) {
    let Some((rule, object)) = halves(data) else { return };
    let Ok(rule) = yaml::value(rule) else { return };
    let Ok(object) = Value::from_json(object) else { return };
    let config =
        EngineConfig { request_limits: LIMITS, rule_limits: LIMITS, ..EngineConfig::default() };
    if let Err(error) = kubemod::try_rule(rule, &object, config) {
        panic_with("rule", &format!("{error:#}"));
    }
}

const VERSIONS: [RegoVersion; 2] = [RegoVersion::V0, RegoVersion::V1];

/// The parser of Rego: what is refused is refused at a place of the text.
pub fn rego_parse(data: &[u8]) {
    let Some((text, _)) = halves(data) else { return };
    for version in VERSIONS {
        if let Err(errors) = parse_module("fuzz", text, version) {
            assert!(!errors.is_empty(), "{text:?}");
            for error in errors {
                let inside = error.span.is_some_and(|span| span.start as usize <= text.len());
                assert!(inside, "{text:?}: {}", error.detailed());
            }
        }
        let _ = modgate_rego::parse_query(text, version);
    }
}

fn rego_modules(text: &str) -> impl Iterator<Item = Module> + use<'_> {
    VERSIONS.into_iter().filter_map(|version| parse_module("fuzz", text, version).ok())
}

/// The compiler of Rego: the same text gives the same errors.
pub fn rego_compile(data: &[u8]) {
    let Some((text, _)) = halves(data) else { return };
    for module in rego_modules(text) {
        let modules = [module];
        let errors = Program::compile(&modules, &Capabilities::default()).err();
        let again = Program::compile(&modules, &Capabilities::default()).err();
        assert_eq!(errors, again, "{text:?}");
        assert!(errors.is_none_or(|errors| !errors.is_empty()), "{text:?}");
    }
}

#[expect(clippy::panic, reason = "a finding of the fuzzer is a panic")]
fn panic_with(what: &str, why: &str) -> ! {
    panic!("{what}: {why}")
}

fn pair(first: &str, second: &str) -> Vec<u8> {
    [first.as_bytes(), second.as_bytes()].join(&0)
}

/// The members of a list in a document.
pub fn elements<'a>(document: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    document.get(key).and_then(Value::as_array).into_iter().flat_map(|list| list.iter())
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn seeds_json(_: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    let groups = elements(document, "groups").filter_map(|group| group.get("input"));
    let objects = elements(document, "scenarios").flat_map(|scenario| {
        elements(scenario, "requests").filter_map(|request| request.get("object"))
    });
    seeds.extend(groups.chain(objects).map(|value| value.to_json().into_bytes()));
}

fn seeds_yaml(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    let key = match name {
        "languages/yaml.json" => "yaml",
        "kubemod/probes/values.json" => "value",
        _ => return,
    };
    let texts = elements(document, "cases").filter_map(|case| text(case, key));
    seeds.extend(texts.map(|text| text.as_bytes().to_vec()));
}

fn seeds_regex(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name != "languages/regexp.json" {
        return;
    }
    let strings: Vec<&str> = elements(document, "strings").filter_map(Value::as_str).collect();
    let patterns = document.get("patterns").and_then(Value::as_object);
    for (index, pattern) in patterns.into_iter().flat_map(|map| map.keys()).enumerate() {
        let string = strings.get(index % strings.len().max(1)).copied().unwrap_or_default();
        seeds.push(pair(pattern, string));
    }
}

fn seeds_select(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name != "kubemod/probes/expressions.json" {
        return;
    }
    for group in elements(document, "groups") {
        let input = group.get("input").map(Value::to_json).unwrap_or_default();
        let expressions = elements(group, "cases").filter_map(|case| text(case, "expr"));
        seeds.extend(expressions.map(|expression| pair(expression, &input)));
    }
    for case in elements(document, "language_suite") {
        let input = case.get("input").map(Value::to_json).unwrap_or_default();
        seeds.extend(text(case, "expr").map(|expression| pair(expression, &input)));
    }
}

fn seeds_template(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name.starts_with("languages/") {
        let data = document.get("data").map(Value::to_json).unwrap_or_default();
        let templates = elements(document, "cases").filter_map(|case| text(case, "template"));
        seeds.extend(templates.map(|template| pair(template, &data)));
    }
}

fn seeds_rego(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if !name.starts_with("languages/rego") {
        return;
    }
    for case in elements(document, "cases") {
        let input = case.get("input").map(Value::to_json).unwrap_or_default();
        seeds.extend(text(case, "src").map(|source| pair(source, &input)));
        let modules = elements(case, "modules").filter_map(Value::as_str);
        seeds.extend(modules.map(|module| pair(module, &input)));
    }
}

fn seeds_patch(_: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    for scenario in elements(document, "scenarios") {
        let mut objects = elements(scenario, "requests").filter_map(|it| it.get("object"));
        let object = objects.next().map(Value::to_json).unwrap_or_default();
        seeds.extend(elements(scenario, "rules").map(|rule| pair(&rule.to_json(), &object)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_every_word() {
        let calls = (0..5_000).map(|index| format!("{{{{ upper {index} }}}}\0{{}}").into_bytes());
        let long = format!("{{{{ sha256sum \"{}\" }}}}\0rare", "1".repeat(500)).into_bytes();
        let sample = sample(calls.chain([long.clone()]).collect());
        assert_eq!(sample.len(), MAX_SEEDS);
        assert!(sample.contains(&long), "its function is in no other");
        assert!(sample.contains(&b"{{ upper 7 }}\0{}".to_vec()), "small");
    }
}
