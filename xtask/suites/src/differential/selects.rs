//! Random `select` expressions: paths of every form, filters, functions and operators.

use super::{
    objects::{IMAGES, LABELS, WORDS},
    random::Random,
};

/// Paths that most objects of [`super::objects`] have.
const PATHS: &[&str] = &[
    ".kind",
    ".apiVersion",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.labels",
    ".metadata.labels.app",
    ".metadata.labels.team",
    ".metadata.labels[\"example.com/tier\"]",
    ".metadata.annotations",
    ".spec",
    ".spec.containers",
    ".spec.containers[*].image",
    ".spec.containers[*].name",
    ".spec.containers[*].resources.limits.memory",
    ".spec.containers[0].image",
    ".spec.template.spec.containers",
    ".spec.template.spec.containers[*].image",
    ".spec.hostNetwork",
    ".spec.volumes[*].hostPath.path",
    ".spec.replicas",
    ".spec.ports[*].port",
    ".spec.n",
    ".spec.list",
    ".data",
    ".rules[*].verbs",
    ".syntheticRefs.namespace.metadata.labels.team",
    ".syntheticRefs.node.metadata.labels.zone",
    ".syntheticRefs",
];
const MEMBERS: &[&str] = &[
    "name",
    "image",
    "labels",
    "metadata",
    "containers",
    "ports",
    "containerPort",
    "hostPort",
    "spec",
    "limits",
    "memory",
    "privileged",
    "n",
    "text",
    "list",
    "deep",
    "missing",
    "port",
    "length",
];
/// Members of containers, as filters look at them.
const INNER: &[&str] = &[
    ".name",
    ".image",
    ".ports",
    ".ports[*].containerPort",
    ".securityContext.privileged",
    ".securityContext.runAsUser",
    ".resources.limits.cpu",
    ".missing",
    ".port",
    "",
];
const FUNCTIONS: &[&str] = &["isDefined", "isUndefined", "isEmpty", "isNotEmpty", "length"];
const PATTERNS: &[&str] =
    &["^web", "nginx", "[0-9]+$", "", "a|b", "^$", "(?i)WEB", "\\\\.io/", "^[^:]+$", "x{2,3}"];

/// The expression of a criterion: mostly a path, now and then any expression.
pub(crate) fn criterion(random: &mut Random) -> String {
    match random.below(10) {
        0..=5 => path(random, "$", 2),
        _ => expression(random, "$", 3),
    }
}

/// The expression of an operation of a patch: a path.
pub(crate) fn operation(random: &mut Random) -> String {
    match random.below(6) {
        0 => "$.spec.containers[*]".to_owned(),
        1 => format!("$.spec.containers[? {}]", filter(random, 1)),
        2 => "$.metadata.labels.*".to_owned(),
        3 => "$.spec.containers[*].ports[*]".to_owned(),
        _ => path(random, "$", 2),
    }
}

/// A path from `root`; filters in it are at most `depth` deep.
fn path(random: &mut Random, root: &str, depth: usize) -> String {
    let mut path = root.to_owned();
    if root == "@" {
        path.push_str(random.pick(INNER));
        if random.chance(15) {
            step(random, &mut path, depth);
        }
        return path;
    }
    if random.chance(92) {
        path.push_str(random.pick(PATHS));
    }
    let steps = if random.chance(45) { 1 + random.below(3) } else { 0 };
    for _ in 0..steps {
        step(random, &mut path, depth);
    }
    path
}

fn step(random: &mut Random, path: &mut String, depth: usize) {
    let member = random.pick(MEMBERS);
    let label = random.pick(LABELS);
    path.push_str(&match random.below(16) {
        0..=3 => format!(".{member}"),
        4 => format!("[\"{label}\"]"),
        5 => "[*]".to_owned(),
        6 => ".*".to_owned(),
        7 => format!("[{}]", random.below(4)),
        8 => format!("[{}, {}]", random.below(3), random.below(3)),
        9 => format!("[\"{member}\", \"{label}\"]"),
        10 => format!(
            "[{}:{}]",
            random.pick(&["", "0", "1", "-2"]),
            random.pick(&["", "1", "2", "5", "-1", "3:2", ":-1", "-3:-1"])
        ),
        11 => format!("..{member}"),
        12 => format!("..[\"{member}\"]"),
        13 => random
            .pick(&["[-1]", "..*", "[length(@) - 1]", "[\"a.b/c\"]", "[app]"])
            .to_owned()
            .to_owned(),
        _ if depth > 0 => format!("[? {}]", filter(random, depth - 1)),
        _ => "[0]".to_owned(),
    });
}

fn filter(random: &mut Random, depth: usize) -> String {
    match random.below(8) {
        0 => format!("@.name == \"c{}\"", random.below(3)),
        1 => format!("{}(@{})", random.pick(FUNCTIONS), random.pick(INNER)),
        2 => "@.securityContext.privileged == true".to_owned(),
        3 => path(random, "@", depth),
        _ => expression(random, "@", depth),
    }
}

/// An expression at most `depth` operators deep.
fn expression(random: &mut Random, root: &str, depth: usize) -> String {
    if depth == 0 {
        return operand(random, root);
    }
    let root = if random.chance(15) { "$" } else { root };
    let inner = |random: &mut Random| expression(random, root, depth - 1);
    match random.below(14) {
        0..=3 => {
            let operator = random.pick(&["==", "!=", "==", "<", "<=", ">", ">="]);
            format!("{} {operator} {}", path(random, root, depth - 1), operand(random, root))
        }
        4 => format!(
            "{} {} \"{}\"",
            path(random, root, depth - 1),
            random.pick(&["=~", "=~", "!~"]),
            random.pick(PATTERNS)
        ),
        5 => {
            let list = [operand(random, root), operand(random, root)].join(", ");
            format!("{} in [{list}]", path(random, root, depth - 1))
        }
        6 => format!("{} in {}", operand(random, root), path(random, root, depth - 1)),
        7 => format!("{}({})", random.pick(FUNCTIONS), path(random, root, depth - 1)),
        8 => format!(
            "{}({}) {} {}",
            random.pick(&["length", "length", "date"]),
            path(random, root, depth - 1),
            random.pick(&["==", ">", "<"]),
            random.below(4)
        ),
        9 => format!("!{}({})", random.pick(FUNCTIONS), path(random, root, depth - 1)),
        10 => {
            format!("({}) {} ({})", inner(random), random.pick(&["&&", "||", "&&"]), inner(random))
        }
        11 => format!(
            "{} {} {}",
            inner(random),
            random.pick(&["+", "-", "*", "/", "%", "??", "**", "&", "|", "^"]),
            operand(random, root)
        ),
        12 => format!("({}) ? {} : {}", inner(random), inner(random), operand(random, root)),
        _ => format!("!({})", inner(random)),
    }
}

fn operand(random: &mut Random, root: &str) -> String {
    match random.below(10) {
        0 | 1 => format!("\"{}\"", random.pick(WORDS)),
        2 => format!("\"{}\"", random.pick(IMAGES)),
        3 => random.pick(&["0", "1", "2.5", "80", "1e3", "- 1"]).to_owned().to_owned(),
        4 => random.pick(&["true", "false", "null", "undefined", "kind"]).to_owned().to_owned(),
        5 => format!("`{}`", random.pick(WORDS)),
        6 => format!("\"c{}\"", random.below(3)),
        _ => path(random, root, 0),
    }
}
