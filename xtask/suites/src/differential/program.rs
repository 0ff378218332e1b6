//! Whole random programs: what stands in one file that `gator test` or `gator expand` reads.

use serde_json::{Value, json};

use super::{
    Program, cel,
    objects::{self, LABEL_WORDS, LABELS, WORDS},
    random::Random,
    rego,
};

/// `gator test`.
pub(crate) const TEST: &str = "test";
/// `gator expand`.
const EXPAND: &str = "expand";

/// A random program.
pub(crate) fn program(random: &mut Random) -> Program {
    let verb = if random.chance(20) { EXPAND } else { TEST };
    let mut documents = objects::documents(random);
    if verb == TEST {
        for at in 0..=random.below(2) {
            documents.push(template(random, at));
            for number in 0..=random.below(2) {
                documents.push(constraint(random, at, number));
            }
        }
    }
    if verb == EXPAND || random.chance(20) {
        documents.push(expansion(random));
        for at in 0..random.below(4) {
            documents.push(mutator(random, at));
        }
    }
    Program { verb, documents }
}

fn template(random: &mut Random, at: usize) -> Value {
    let name = format!("Rule{at}");
    let code = match random.below(10) {
        0..=3 => json!({"rego": rego::policy(random, false)}),
        4..=6 => json!({"code": [{"engine": "Rego",
            "source": {"version": "v1", "rego": rego::policy(random, true)}}]}),
        _ => json!({"code": [{"engine": "K8sNativeValidation", "source": cel::source(random)}]}),
    };
    let mut target = code;
    target["target"] = json!("admission.k8s.gatekeeper.sh");
    json!({
        "apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
        "metadata": {"name": name.to_lowercase()},
        "spec": {
            "crd": {"spec": {"names": {"kind": name}, "validation": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "text": {"type": "string"}, "number": {"type": "number"},
                    "words": {"type": "array", "items": {"type": "string"}}}}}}},
            "targets": [target],
        },
    })
}

fn constraint(random: &mut Random, at: usize, number: usize) -> Value {
    let mut spec = json!({});
    if random.chance(85) {
        let mut parameters = json!({"number": *random.pick(&[&1.0, &0.5, &3.0, &-2.0])});
        if random.chance(85) {
            parameters["text"] = json!(random.pick(WORDS));
        }
        if random.chance(85) {
            parameters["words"] = (0..random.below(4)).map(|_| json!(random.pick(WORDS))).collect();
        }
        spec["parameters"] = parameters;
    }
    if random.chance(70) {
        spec["match"] = objects::matching(random, WORDS);
    }
    if random.chance(35) {
        spec["enforcementAction"] =
            json!(random.pick(&["deny", "warn", "dryrun", "scoped", "other"]));
    }
    if spec["enforcementAction"] == "scoped" || random.chance(5) {
        spec["scopedEnforcementActions"] = json!([{
            "action": random.pick(&["deny", "warn"]),
            "enforcementPoints": [{"name": random.pick(&["gator.gatekeeper.sh", "*", "audit.gatekeeper.sh"])}]}]);
    }
    json!({"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": format!("Rule{at}"),
        "metadata": {"name": format!("rule-{at}-{number}")}, "spec": spec})
}

fn expansion(random: &mut Random) -> Value {
    let mut spec = json!({
        "applyTo": [{"groups": ["apps"], "versions": ["v1"], "kinds": ["Deployment"]}],
        "templateSource": random.pick(&["spec.template", "spec.template", "spec.missing"]),
        "generatedGVK": {"group": "", "version": "v1", "kind": "Pod"},
    });
    if random.chance(30) {
        spec["enforcementAction"] = json!(random.pick(&["warn", "deny", "dryrun"]));
    }
    json!({"apiVersion": "expansion.gatekeeper.sh/v1alpha1", "kind": "ExpansionTemplate",
        "metadata": {"name": "expand-deployments"}, "spec": spec})
}

fn mutator(random: &mut Random, at: usize) -> Value {
    let matching =
        if random.chance(60) { objects::matching(random, LABEL_WORDS) } else { json!({}) };
    let apply = json!([{"groups": [""], "versions": ["v1"], "kinds": ["Pod"]}]);
    let (kind, mut spec) = match random.below(4) {
        0 => (
            "AssignMetadata",
            json!({
                "location": format!("metadata.labels.\"{}\"", random.pick(LABELS)),
                "parameters": {"assign": value(random, true)},
            }),
        ),
        1 => (
            "ModifySet",
            json!({
                "location": random.pick(&["spec.containers[name: *].args", "spec.list", "spec.containers[name: c0].command"]),
                "parameters": {"operation": random.pick(&["merge", "prune"]), "values": {"fromList": ["--a", "--b"]}},
                "applyTo": apply,
            }),
        ),
        2 => (
            "AssignImage",
            json!({
                "location": "spec.containers[name: *].image",
                "parameters": {"assignDomain": random.pick(&["registry.example.com", "localhost:5000"]), "assignTag": ":2"},
                "applyTo": apply,
            }),
        ),
        _ => (
            "Assign",
            json!({
                "location": random.pick(&["spec.containers[name: *].imagePullPolicy", "spec.hostNetwork",
                    "spec.containers[name: c9].image", "spec.deep.er.value", "spec.volumes[name: v].emptyDir"]),
                "parameters": {"assign": value(random, false)},
                "applyTo": apply,
            }),
        ),
    };
    spec["match"] = matching;
    if random.chance(25) && kind == "Assign" {
        spec["parameters"]["pathTests"] = json!([{"subPath": "spec.containers", "condition": random.pick(&["MustExist", "MustNotExist"])}]);
    }
    json!({"apiVersion": "mutations.gatekeeper.sh/v1", "kind": kind,
        "metadata": {"name": format!("mutator-{at}")}, "spec": spec})
}

fn value(random: &mut Random, text: bool) -> Value {
    match random.below(4) {
        0 => json!({"fromMetadata": {"field": random.pick(&["name", "namespace"])}}),
        1 if !text => json!({"value": objects::tree(random, 2)}),
        _ => json!({"value": random.pick(WORDS)}),
    }
}
