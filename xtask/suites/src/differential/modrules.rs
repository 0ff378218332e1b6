//! Random ModRules, with the objects that they refer to, and requests about objects.

use serde_json::{Value, json};

use super::{
    Program,
    objects::{self, LABELS, NAMESPACES, WORDS},
    random::Random,
    selects,
};

/// `modgate review`.
pub(crate) const REVIEW: &str = "review";
/// The annotation that names the Node of a Pod.
const NODE_NAME: &str = "ref.kubemod.io/nodename";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Rules, their references, and some requests.
pub(crate) fn program(random: &mut Random) -> Program {
    // Most rules and requests meet in one Namespace.
    let home = random.pick(NAMESPACES);
    let mut documents: Vec<Value> =
        (0..=random.below(5)).map(|at| rule(random, at, home)).collect();
    for name in NAMESPACES {
        let mut metadata = json!({"name": name, "labels": objects::labels(random)});
        if random.chance(30) {
            metadata["annotations"] = json!({LAST_APPLIED: "{}", "note": random.pick(WORDS)});
        }
        documents.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
    }
    documents.push(json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-a", "uid": "u", "labels": {"zone": random.pick(WORDS), "a.b/c": "d"}},
        "spec": {"list": ["b"]},
        "status": {"capacity": {"cpu": "4"}, "phase": "x", "n": 1}}));
    documents.extend((0..=random.below(5)).map(|at| request(random, at, home)));
    Program { verb: REVIEW, documents }
}

// ---- requests ----

fn request(random: &mut Random, at: usize, home: &str) -> Value {
    let mut object = objects::object(random, at);
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let is_cluster_scoped = matches!(kind.as_str(), "ClusterRole" | "Namespace");
    if !object["metadata"]["namespace"].is_null() && random.chance(80) {
        object["metadata"]["namespace"] = json!(home);
    }
    decorate(random, &mut object, &kind);
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => namespace.to_owned(),
        None if kind == "Namespace" => {
            object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
        }
        None if is_cluster_scoped => String::new(),
        None => random.pick(NAMESPACES).to_owned(),
    };
    let operation =
        *random.pick(&[&"CREATE", &"CREATE", &"CREATE", &"UPDATE", &"UPDATE", &"DELETE"]);
    let api = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let mut request = json!({
        "uid": format!("uid-{at}"),
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": kind.to_lowercase() + "s"},
        "name": object["metadata"]["name"], "namespace": namespace, "operation": operation,
    });
    let before = if random.chance(50) { object.clone() } else { json!({"kind": kind}) };
    match operation {
        "DELETE" => request["oldObject"] = object,
        "UPDATE" => {
            request["oldObject"] = before;
            request["object"] = object;
        }
        _ => request["object"] = object,
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

/// Adds members to an object that the API server, kubectl and users add.
fn decorate(random: &mut Random, object: &mut Value, kind: &str) {
    if random.chance(15) {
        object["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
    }
    if random.chance(20) {
        let mut applied = object.clone();
        if random.chance(50)
            && let Some(members) = applied.as_object_mut()
        {
            members.remove(*random.pick(&[&"spec", &"data", &"metadata"]));
        }
        let text = match random.below(8) {
            0 => "not JSON".to_owned(),
            1 => "{}".to_owned(),
            2 => format!("{applied}\n"),
            3 => "{\"z\":1,\"spec\":{\"b\":\"<&>\",\"a\":1.50}}".to_owned(),
            _ => applied.to_string(),
        };
        object["metadata"]["annotations"][LAST_APPLIED] = json!(text);
    }
    if kind == "Pod" && random.chance(25) {
        object["metadata"]["annotations"][NODE_NAME] =
            json!(*random.pick(&[&"node-a", &"node-a", &""]));
    }
    if random.chance(10) {
        object["status"] = objects::tree(random, 2);
    }
}

// ---- rules ----

fn rule(random: &mut Random, at: usize, home: &str) -> Value {
    let is_patch = random.chance(78);
    let criteria: Value = (0..=random.below(2)).map(|_| criterion(random)).collect();
    let mut spec = json!({"type": if is_patch { "Patch" } else { "Reject" }, "match": criteria});
    if is_patch || random.chance(1) {
        spec["patch"] = (0..=random.below(2)).map(|_| operation(random)).collect();
    } else if random.chance(70) {
        spec["rejectMessage"] = json!(message(random));
    }
    if random.chance(30) {
        spec["executionTier"] = json!(*random.pick(&[&-5, &0, &3, &100, &-32767, &32766]));
    }
    if random.chance(30) {
        spec["admissionOperations"] = ["CREATE", "UPDATE", "DELETE"]
            .iter()
            .filter(|_| random.chance(60))
            .map(|it| json!(it))
            .collect();
    }
    let namespace = match random.below(10) {
        0..=4 => "kubemod-system",
        5..=8 => home,
        _ => random.pick(NAMESPACES),
    };
    if random.chance(if namespace == "kubemod-system" { 80 } else { 10 }) {
        let regex = random.pick(&[
            ".*",
            ".*",
            ".+",
            "^team-",
            "shop|default",
            "^$",
            "-",
            "",
            "[a-z]+-[0-9]",
        ]);
        spec["targetNamespaceRegex"] = json!(if random.chance(1) { "(" } else { regex });
    }
    json!({
        "apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
        "metadata": {"name": format!("{}-{at}", random.pick(&["zeta", "alpha", "m"])), "namespace": namespace},
        "spec": spec,
    })
}

fn criterion(random: &mut Random) -> Value {
    // Most rules should match, or nothing happens.
    if random.chance(45) {
        let select =
            random.pick(&["$.kind", "$.metadata.name", "$.metadata.labels", "$.spec", "$"]);
        return json!({"select": select});
    }
    let mut criterion = json!({"select": selects::criterion(random)});
    match random.below(6) {
        0 => criterion["matchValue"] = json!(text(random)),
        1 => criterion["matchValues"] = (0..random.below(4)).map(|_| json!(text(random))).collect(),
        2 => {
            let regex = random.pick(&[
                "^web", "nginx", ".", "", "[0-9]+$", "a|b", "<nil>", "^map", "true", "\\bdb\\b",
            ]);
            criterion["matchRegex"] = json!(if random.chance(1) { "a(" } else { regex });
        }
        _ => {}
    }
    if random.chance(25) {
        criterion["matchFor"] = json!(*random.pick(&[&"All", &"All", &"All", &"All", &"Any", &""]));
    }
    if random.chance(25) {
        criterion["negate"] = json!(true);
    }
    criterion
}

fn text(random: &mut Random) -> &'static str {
    match random.below(4) {
        0 => random.pick(objects::IMAGES),
        1 => random.pick(&[
            "Pod",
            "Deployment",
            "80",
            "1",
            "true",
            "<nil>",
            "map[]",
            "[]",
            "c0",
            "c1",
        ]),
        _ => random.pick(WORDS),
    }
}

const PATHS: &[&str] = &[
    "/metadata/labels/app",
    "/metadata/labels/new",
    "/metadata/labels/example.com~1tier",
    "/metadata/annotations/a~1b",
    "/metadata/annotations",
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
    "/metadata/labels",
    "/metadata/name",
    "/spec/hostNetwork",
    "/spec/containers/0/image",
    "/spec/containers/-1/image",
    "/spec/containers/-",
    "/spec/containers/-1",
    "/spec/containers/1",
    "/spec/containers/5",
    "/spec/initContainers/0/name",
    "/spec/new/deep/er",
    "/spec/new/2/x",
    "/spec/new/-",
    "/spec/n",
    "/spec/list/0",
    "/spec/list/-2",
    "/spec/deep/text",
    "/data/web",
    "/spec/replicas",
    "/syntheticRefs/x",
    "/syntheticRefs/namespace/metadata/labels/app",
    "/status",
    "spec/n",
    "/spec/a~1b~1c/x",
    "/spec/100%",
    "",
    "/",
];
const CAPTURING: &[&str] = &[
    "/spec/containers/#0/image",
    "/spec/containers/#0",
    "/spec/containers/#0/env/-",
    "/spec/containers/#0/ports/#1/hostPort",
    "/spec/containers/#0/securityContext/runAsUser",
    "/metadata/labels/#0",
    "/metadata/labels/x-#0",
    "/metadata/annotations/#0",
    "/spec/#0",
    "/spec/#0/#1",
    "/spec/list/#0",
    "/spec/new/#0/#0",
    "/#0",
    "/metadata/labels/#",
];

fn operation(random: &mut Random) -> Value {
    let op = *random.pick(&[&"add", &"add", &"add", &"add", &"replace", &"remove"]);
    let selects = random.chance(45);
    let paths = if selects && random.chance(80) { CAPTURING } else { PATHS };
    let path = random.pick(paths);
    let mut operation = json!({"op": op, "path": path});
    if selects {
        operation["select"] = json!(selects::operation(random));
    }
    if op != "remove" || random.chance(15) {
        operation["value"] = json!(value(random));
    }
    operation
}

const VALUES: &[&str] = &[
    "v",
    "8080",
    "\"8080\"",
    "{a: [1]}",
    "[1, two, {three: 3}]",
    "- x\n- y: 1\n",
    "null",
    "",
    "# nothing",
    "0x1F",
    "010",
    "yes",
    "1e3",
    "12345678901234567890",
    "a: 1\nb:\n  c: \"2\"\n",
    "|\n  two\n  lines\n",
    "{name: c0, image: \"nginx:1\"}",
    "@bad",
    "a: b: c",
    "'it''s'",
    "2001-01-01",
    "~",
    "*x",
    "<<: {a: 1}",
    "!!str 5",
];
const TEMPLATES: &[&str] = &[
    "{{ if .Target.spec.hostNetwork }}1{{ else }}zero{{ end }}",
    "{{ range $i, $c := .Target.spec.containers }}{{ $i }}:{{ $c.name }} {{ end }}",
    "{{ with .Target.metadata.labels }}{{ .app }}{{ end }}",
    "[{{ range .Target.spec.containers }}{{ .image | quote }},{{ end }}]",
    "{{ .#0 }}",
    "{{ .#0 }}-{{ .#1 }}",
    "v1.#0",
    "{{ add 1 .#0 }}",
    "{{ .SelectedItem.image }}",
    "{{ .SelectedItem.missing.deep }}",
    "{{ toJson .SelectedItem }}",
    "{{ $x := .Namespace }}{{ $x }}{{- /* note */ -}}",
    "{{ index .Target.spec.containers 0 }}",
    "{{ index .Target.metadata.labels \"app\" }}",
    "{{ len .Target.spec.containers }}",
    "{{ eq .Namespace \"shop\" }}",
    "{{ and .Target.kind .Namespace }}",
    "{{ .Target.metadata.labels }}",
    "{{ .Target.nope.deep }}",
    "{{ .Foo }}",
    "{{ define \"t\" }}<{{ . }}>{{ end }}{{ template \"t\" .Namespace }}",
    "{{ hasKey .Target.metadata \"labels\" }}",
    "{{ dict \"a\" 1 \"b\" .Namespace | toJson }}",
    "{{ list 1 2 3 | join \"-\" }}",
    "{{ range untilStep 0 6 2 }}{{ . }} {{ end }}",
    "{{ .Target.syntheticRefs.namespace.metadata.labels.team }}",
    "{{ .Target.syntheticRefs.node.metadata.labels.zone }}",
    "{{ toJson .Target.syntheticRefs.node.status }}",
    "{{ printf \"%05.1f|%q|%v|%T\" 3.14159 .Namespace .Target.spec.replicas .Target.spec.n }}",
    "{{ .Target.spec.replicas | int | mul 3 }}",
    "{{ fail \"no\" }}",
    "{{ unclosed",
];

fn value(random: &mut Random) -> String {
    match random.below(10) {
        0..=3 => random.pick(VALUES).to_owned(),
        4..=6 => {
            // One that does not parse is rare: it refuses the whole program.
            let last = if random.chance(1) { TEMPLATES.len() } else { TEMPLATES.len() - 1 };
            random.pick(&TEMPLATES[..last]).to_owned()
        }
        _ => format!("{{{{ {} }}}}", pipeline(random)),
    }
}

const SOURCES: &[&str] = &[
    ".Target.metadata.name",
    ".Namespace",
    ".Target.kind",
    ".SelectedItem",
    ".SelectedItem.image",
    ".SelectedItem.name",
    "(index .Target.spec.containers 0).image",
    ".Target.metadata.labels.app",
    ".Target.spec",
    ".Target.spec.replicas",
    ".Target.spec.n",
    ".Target.missing",
    "\"a-b_c.D\"",
    "3",
    "\"<no value>\"",
    "(list \"b\" \"a\" \"b\")",
    ".SelectKeyParts",
    ".#0",
];
/// Functions whose answer depends on their arguments alone.
const PIPED: &[&str] = &[
    "upper",
    "lower",
    "title",
    "untitle",
    "trim",
    "trimSuffix \"b\"",
    "trimPrefix \"web\"",
    "trimAll \"-\"",
    "nospace",
    "initials",
    "trunc 3",
    "trunc -2",
    "abbrev 6",
    "substr 0 3",
    "repeat 2",
    "replace \"-\" \".\"",
    "quote",
    "squote",
    "contains \"web\"",
    "hasPrefix \"we\"",
    "hasSuffix \"b\"",
    "snakecase",
    "camelcase",
    "kebabcase",
    "swapcase",
    "default \"none\"",
    "empty",
    "coalesce",
    "toString",
    "toJson",
    "toPrettyJson",
    "toRawJson",
    "int",
    "int64",
    "float64",
    "atoi",
    "b64enc",
    "b64dec",
    "b32enc",
    "sha1sum",
    "sha256sum",
    "adler32sum",
    "len",
    "kindOf",
    "typeOf",
    "kindIs \"string\"",
    "indent 2",
    "nindent 2",
    "cat \"x\"",
    "wrap 3",
    "splitList \"-\" | join \",\"",
    "split \"-\" | toJson",
    "splitn \"-\" 2 | toJson",
    "regexMatch \"^[a-z]+\"",
    "regexFind \"[a-z]+\"",
    "regexReplaceAll \"[a-z]\" \"x\"",
    "regexSplit \"-\" \"a-b\"",
    "add 1",
    "sub 5",
    "mul 2",
    "div 10",
    "mod 3",
    "max 2 3",
    "min 1",
    "ceil",
    "floor",
    "round 2",
    "first",
    "last",
    "rest",
    "uniq | toJson",
    "sortAlpha | join \"\"",
    "has \"a\"",
    "without \"a\" | toJson",
    "reverse | toJson",
    "until | toJson",
    "ternary \"y\" \"n\"",
    "urlParse | toJson",
    "semver",
    "semverCompare \">=1.0\"",
    "deepEqual 3",
    "base",
    "dir",
    "ext",
    "isAbs",
    "plural \"one\" \"many\"",
    "html",
    "js",
    "urlquery",
    "print",
    "println",
    "printf \"%s!\"",
    "printf \"%d\"",
    "not",
    "dig \"a\" \"b\" 1",
    "fromJson",
    "mustToJson",
    "duration",
    "toStrings | toJson",
    "compact | toJson",
    "append 4 | toJson",
    "seq",
];

fn pipeline(random: &mut Random) -> String {
    let mut text = random.pick(SOURCES).to_owned();
    for _ in 0..random.below(4) {
        text.push_str(" | ");
        text.push_str(random.pick(PIPED));
    }
    text
}

fn message(random: &mut Random) -> String {
    match random.below(6) {
        0 => random
            .pick(&[
                "",
                "no",
                "\"quoted\" and \\",
                "{{ .Nope }}",
                "two\nlines",
                "<{{ .Target.x.y }}>",
            ])
            .to_owned(),
        1 => format!("label {} of {{{{ .Target.metadata.labels }}}}", random.pick(LABELS)),
        2 => "{{ .Target.kind }} {{ .Target.metadata.name }} in {{ .Namespace }}".to_owned(),
        3 => "{{ range .Target.spec.containers }}{{ .image }} {{ end }}".to_owned(),
        _ => format!("{{{{ {} }}}}", pipeline(random)),
    }
}
