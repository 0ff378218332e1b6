//! Every rule and every example of the two KubeMod READMEs has a scenario that runs it.
//!
//! The READMEs are upstream's and stay in the shared folder: where they are absent these tests say
//! so and skip, except under `CI=true` beside it.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code, helpers included"
)]

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use modgate_testkit::{Roots, corpus};
use modgate_value::{Value, yaml};

const READMES: [&str; 2] = ["000_7079ae290eb560f9.txt", "001_a162feb50796751e.txt"];

/// Each fenced example of the second README that is not a whole rule, by a line of it, and the
/// scenarios that run it; the first README's are the same but for one label (RM-48).
const FRAGMENTS: &[(&str, &[&str])] = &[
    ("- 'container-1'", &["AS-20"]),
    ("$.spec.template.spec.containers[*].name", &["RM-02", "RM-03", "RM-04"]),
    ("$.spec.template.spec.containers[*].ports[*].containerPort", &["AS-21", "RM-11"]),
    ("$.spec.template.spec.containers[*].ports[? @.containerPort == 8080]", &["AS-22"]),
    ("# Change all nginx containers' ports from 80 to 8080", &["AS-09", "RM-48"]),
    ("select: '$.spec.template.spec.containers[*].ports[? @.containerPort == 80]'", &["AS-10"]),
    ("- name: c4", &["AS-10"]),
    ("path: '/spec/template/spec/containers/#0/ports/#1/containerPort'", &["AS-10"]),
    ("value: '8080'", &["AS-23"]),
    ("value: hello", &["AS-23", "RM-51"]),
    ("value: '\"8080\"'", &["AS-23"]),
    ("value: 'false'", &["AS-23"]),
    ("value: '\"false\"'", &["AS-23"]),
    ("- --jaeger.tags=deployment.name={{ .Target.metadata.name }}", &["RM-50", "AS-06"]),
    ("image: jaegertracing/jaeger-agent:1.18.1", &["AS-23", "AS-06"]),
    ("select: '$.spec.containers[? @.image =~ \"their-repo/.+\"].image'", &["AS-11", "AS-24"]),
    ("- DELETE", &["RM-60", "AS-19"]),
    ("ref.kubemod.io/inject-node-ref: \"true\"", &["AS-28"]),
    ("[? isUndefined(@.securityContext)]", &["AS-14"]),
    ("[? isDefined(@.securityContext) && isEmpty(@.securityContext)]", &["AS-15"]),
    // Webhook configurations belong to the cluster's tests; nothing of it runs in the engine.
    ("- name: dragnet.kubemod.io", &[]),
    ("kubectl api-resources", &[]),
];

/// The statements of the READMEs without an example of their own, and the scenarios that hold them.
const STATEMENTS: &[(&str, &[&str])] = &[
    ("criteria items", &["RM-01", "RM-05", "RM-06", "RM-07", "RM-08", "RM-09", "RM-10"]),
    ("operations of a patch", &["RM-40", "RM-41", "RM-42", "RM-43", "RM-44", "RM-45", "RM-47"]),
    ("replace of a missing path fails", &["RM-52"]),
    ("path without select", &["RM-46"]),
    ("template context", &["RM-49", "AS-24"]),
    ("operation type", &["RM-60"]),
    ("execution tiers", &["RM-61", "AS-17"]),
    ("namespaced and cluster-wide resources", &["RM-62", "RM-63", "RM-64", "AS-26"]),
    ("several rules in one tier", &["RM-65"]),
    ("synthetic references", &["RM-70", "AS-16", "AS-25", "AS-27"]),
    ("idempotency", &["AS-12"]),
    ("declarative kubectl apply", &["RM-71"]),
    ("undefined", &["RM-20", "RM-21", "RM-22", "RM-23", "RM-24", "RM-25", "RM-26", "RM-35"]),
    ("boolean operators", &["RM-27", "RM-28"]),
    ("functions", &["RM-29", "RM-30", "RM-31", "RM-32", "RM-33", "RM-34"]),
];

fn seeds() -> Option<PathBuf> {
    let beside = |folder: PathBuf| folder.join("../seeds");
    let named = env::var_os(corpus::VARIABLE).map(PathBuf::from).map(beside);
    let shared = corpus::repository().join("../shared/seeds");
    let found = named.into_iter().chain([shared.clone()]).find(|folder| folder.is_dir());
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(found.is_some() || !ci || !corpus::repository().join("../shared").is_dir());
    found
}

fn read(name: &str) -> Option<String> {
    let Some(folder) = seeds() else {
        eprintln!("the READMEs are not here; set {} beside them", corpus::VARIABLE);
        return None;
    };
    Some(fs::read_to_string(folder.join(name)).expect("a README"))
}

/// All scenarios of the corpora with their ids.
fn scenarios() -> Vec<Value> {
    let mut found = Vec::new();
    for file in corpus::files(&Roots::discover()).expect("corpora") {
        if file.name.starts_with("kubemod/") && file.name.ends_with(".json") {
            let document = file.json().expect("JSON");
            let list = document.get("scenarios").and_then(Value::as_array);
            found.extend(list.into_iter().flat_map(|list| list.iter().cloned()));
        }
    }
    found
}

fn ids() -> BTreeSet<String> {
    let scenarios = scenarios();
    let ids = scenarios.iter().filter_map(|scenario| scenario.get("id")?.as_str());
    ids.map(str::to_owned).collect()
}

/// The rules a README shows whole: from their `apiVersion` on, as far as the YAML goes.
fn whole_rules(readme: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    let mut lines = readme.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_end() != "apiVersion: api.kubemod.io/v1beta1" {
            continue;
        }
        let mut text = format!("{line}\n");
        let goes_on = |line: &&str| {
            line.is_empty()
                || line.starts_with(' ')
                || ["kind:", "metadata:", "spec:"].iter().any(|key| line.starts_with(key))
        };
        while let Some(line) = lines.next_if(goes_on) {
            text.push_str(line);
            text.push('\n');
        }
        rules.push(yaml::value(&text).expect(&text));
    }
    rules
}

#[test]
fn every_whole_rule_runs() {
    let scenarios = scenarios();
    let run: Vec<&Value> = scenarios
        .iter()
        .flat_map(|scenario| scenario.get("rules").and_then(Value::as_array))
        .flat_map(|rules| rules.iter())
        .filter_map(|rule| rule.get("spec"))
        .collect();
    for (name, expected) in READMES.into_iter().zip([6, 10]) {
        let Some(readme) = read(name) else { return };
        let mut covered = 0;
        for rule in whole_rules(&readme) {
            let spec = rule.get("spec").expect("a spec");
            // The anatomy of a rule, with nothing filled in.
            if spec.get("type").and_then(Value::as_str) == Some("...") {
                continue;
            }
            assert!(run.contains(&spec), "{name}: no scenario runs {rule}");
            covered += 1;
        }
        assert_eq!(covered, expected, "{name}");
    }
}

#[test]
fn every_fragment_runs() {
    let Some(readme) = read(READMES[1]) else { return };
    let ids = ids();
    for block in readme.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').expect("a fence with a line");
        if language == "bash" || body.contains("apiVersion: api.kubemod.io") {
            continue;
        }
        let listed = FRAGMENTS.iter().any(|(line, _)| body.contains(line));
        assert!(listed, "nothing runs this:\n{body}");
    }
    for (line, runs) in FRAGMENTS {
        assert!(readme.contains(line), "no example has `{line}`");
        for id in *runs {
            assert!(ids.contains(*id), "{line}: there is no scenario {id}");
        }
    }
}

#[test]
fn every_statement_runs() {
    let ids = ids();
    for (statement, runs) in STATEMENTS {
        for id in *runs {
            assert!(ids.contains(*id), "{statement}: there is no scenario {id}");
        }
    }
}
