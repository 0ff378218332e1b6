//! The engine against the model, on generated rules and objects.

use modgate_value::Value;

use super::{
    harness::Loaded,
    model::{self, Answer, Request},
};

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below a usize")
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const OBJECTS: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"l":["a","b","c"],"m":{"x":1,"y/z":"q"}}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"web"}},"spec":{"l":[{"n":"a","p":[1,2]},{"n":"b"},null],"m":{}}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Pod\",\"spec\":{\"l\":[1]}}"}},"spec":{"l":[],"m":{"k":null}}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"ref.kubemod.io/nodename":"n1"}},"spec":{"l":["a"],"m":{}}}"#,
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"not JSON"}},"spec":{"l":["a"],"m":{}}}"#,
    r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"my-namespace"},"spec":{"l":[[1],[2]],"m":{"007":"b"}}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","managedFields":[{"manager":"m"}]},"spec":{"l":[true,false],"m":{"a\"b":1}}}"#,
];
const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","labels":{"zone":"a"}},"spec":{"l":["b"]},"status":{"capacity":{"cpu":"4"},"phase":"x"}}"#;
const SELECTS: &[&str] = &[
    "$.kind",
    "$.spec.l[*]",
    "$.spec.m.*",
    "$..n",
    "$.spec.l[? @ != \"b\"]",
    "$.spec.nope",
    "length($.spec.l) > 2",
    "$.metadata.labels.app",
    "$.spec.l[0]",
    "$.spec.l[*].p[*]",
    "$.syntheticRefs.namespace.metadata.name",
    "$.syntheticRefs.node.metadata.uid",
    "$.syntheticRefs.node.status.*",
];
const PATHS: &[&str] = &[
    "/spec/l/-1",
    "/spec/l/0",
    "/spec/l/#0",
    "/spec/m/#0",
    "/spec/m/k/x",
    "/spec/new/1/a",
    "/metadata/labels/a~1b",
    "/spec/l/2/x",
    "/spec/l/-",
    "/spec/l/9",
    "/metadata/annotations",
    "/syntheticRefs/x",
    "/syntheticRefs/node/metadata/labels/zone",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/spec/l/#0/p/#1",
    "/spec/m/a\"b",
    "spec/x",
    "/spec/x%v",
    "/spec/q/-2",
];
const VALUES: &[&str] = &[
    "v",
    "8080",
    "{a: [1]}",
    "{{ .SelectedItem }}",
    "{{ .#0 }}",
    "{{ .Target.metadata.name }}-x",
    "null",
    "{{ toJson .Target.spec }}",
    "{{ toJson .Target.syntheticRefs }}",
    "@bad",
    "{{ .Namespace }}",
    "{{ .Target.spec.l.x }}",
];
const OPERATIONS: &[&str] = &["CREATE", "UPDATE", "DELETE"];
const NAMESPACES: &[&str] = &["my-namespace", "kubemod-system", "other", "default", ""];

fn criterion(random: &mut Random) -> String {
    // Most rules should match, or nothing happens.
    if random.below(3) > 0 {
        return r#"{"select":"$.kind"}"#.to_owned();
    }
    let select = Value::from(random.one_of(SELECTS));
    let test = random.one_of(&[
        "",
        r#","matchValue":"Pod""#,
        r#","matchRegex":"a|b""#,
        r#","matchValues":["b","web"]"#,
    ]);
    let quantifier = random.one_of(&["", "", r#","matchFor":"All""#]);
    let negate = random.one_of(&["", "", r#","negate":true"#]);
    format!(r#"{{"select":{select}{test}{quantifier}{negate}}}"#)
}

fn operation(random: &mut Random) -> String {
    let op = random.one_of(&["add", "add", "replace", "remove"]);
    let path = Value::from(random.one_of(PATHS));
    let mut out = format!(r#"{{"op":"{op}","path":{path}"#);
    if random.below(2) == 0 {
        let paths = &SELECTS[..6];
        out.push_str(&format!(r#","select":{}"#, Value::from(random.one_of(paths))));
    }
    if op != "remove" || random.below(4) == 0 {
        out.push_str(&format!(r#","value":{}"#, Value::from(random.one_of(VALUES))));
    }
    out + "}"
}

fn list(random: &mut Random, most: usize, one: impl Fn(&mut Random) -> String) -> String {
    let elements: Vec<_> = (0..=random.below(most)).map(|_| one(random)).collect();
    format!("[{}]", elements.join(","))
}

fn rule(random: &mut Random, index: usize) -> Value {
    let body = if random.below(3) == 0 {
        let message = random.one_of(&["", r#""rejectMessage":"no {{ .Target.kind }}","#]);
        format!(r#"{message}"type":"Reject""#)
    } else {
        format!(r#""type":"Patch","patch":{}"#, list(random, 3, operation))
    };
    let tier = random.one_of(&["", "", r#","executionTier":-1"#, r#","executionTier":7"#]);
    let target = random.one_of(&["", "", r#","targetNamespaceRegex":".*""#]);
    let operations = random.one_of(&["", "", r#","admissionOperations":["DELETE","CREATE"]"#]);
    let namespace = random.one_of(&["my-namespace", "my-namespace", "kubemod-system", "other"]);
    let name = random.below(100);
    let criteria = list(random, 2, criterion);
    let text = format!(
        r#"{{"apiVersion":"api.kubemod.io/v1beta1","kind":"ModRule",
            "metadata":{{"name":"r{name}-{index}","namespace":"{namespace}"}},
            "spec":{{{body},"match":{criteria}{tier}{target}{operations}}}}}"#
    );
    Value::from_json(text.as_bytes()).expect(&text)
}

#[test]
fn the_engine_agrees_with_the_model() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let node = Value::from_json(NODE.as_bytes()).expect("a Node");
    let rounds = std::env::var("MODGATE_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok());
    let (mut patched, mut rejected, mut failed) = (0, 0, 0);
    for round in 0..rounds.unwrap_or(1500) {
        let rules: Vec<Value> =
            (0..=random.below(4)).map(|index| rule(&mut random, index)).collect();
        let object = Value::from_json(random.one_of(OBJECTS).as_bytes()).expect("an object");
        let operation = random.one_of(OPERATIONS);
        let deleted = operation == "DELETE";
        let request = Request {
            operation,
            namespace: random.one_of(NAMESPACES),
            object: (!deleted).then_some(&object),
            old_object: deleted.then_some(&object),
            cluster: if random.below(2) == 0 { std::slice::from_ref(&node) } else { &[] },
        };
        let required = model::answer_of_ours(&rules, &request);
        let got = Loaded::of(&rules).answer(&request);
        let agrees = got.as_ref().is_ok_and(|(got, _)| model::same_answer(got, &required));
        let got: Result<Answer, _> = got.map(|(got, _)| got);
        if let Ok(Answer::Decided(decided)) = &got {
            patched += usize::from(decided.reason == "patched ok");
            rejected += usize::from(!decided.allowed);
            failed += usize::from(decided.failed);
        }
        assert!(
            agrees,
            "round {round}: {request:?}\nrules {}\nengine {got:?}\nmodel {required:?}",
            Value::from(rules)
        );
    }
    let counts = [patched, rejected, failed];
    assert!(counts.iter().all(|count| *count >= 30), "{counts:?}: the inputs reach too little");
}
