//! Random CEL for templates of Kubernetes' own language.

use serde_json::{Value, json};

use super::{
    objects::{LABELS, WORDS},
    random::Random,
    tables,
};

/// The `source` of a template's CEL code: variables, match conditions and validations.
pub(crate) fn source(random: &mut Random) -> Value {
    let mut names = Vec::new();
    let mut variables = Vec::new();
    for at in 0..random.below(3) {
        let text = random.chance(50);
        let value = if text { self::text(random, 2, &names) } else { boolean(random, 2, &names) };
        variables.push(json!({"name": format!("x{at}"), "expression": value}));
        names.push((format!("variables.x{at}"), text));
    }
    let validations = (0..=random.below(2)).map(|_| {
        let mut validation = json!({"expression": boolean(random, 3, &names)});
        if random.chance(50) {
            validation["message"] = json!("not as it should be");
        }
        if random.chance(50) {
            validation["messageExpression"] = json!(text(random, 2, &names));
        }
        validation
    });
    let validations: Value = validations.collect();
    let mut source = json!({"validations": validations});
    if !variables.is_empty() {
        source["variables"] = json!(variables);
    }
    if random.chance(20) {
        source["matchConditions"] =
            json!([{"name": "some", "expression": boolean(random, 1, &[])}]);
    }
    if random.chance(40) {
        source["failurePolicy"] = json!(random.pick(&["Fail", "Ignore"]));
    }
    source
}

type Names = [(String, bool)];

fn variable(random: &mut Random, names: &Names, text: bool) -> Option<String> {
    let fitting: Vec<&String> =
        names.iter().filter(|(_, is)| *is == text).map(|(name, _)| name).collect();
    if fitting.is_empty() { None } else { Some(fitting[random.below(fitting.len())].clone()) }
}

fn boolean(random: &mut Random, depth: usize, names: &Names) -> String {
    if random.chance(25)
        && let Some(name) = variable(random, names, false)
    {
        return name;
    }
    if depth == 0 {
        let label = random.pick(LABELS);
        return match random.below(6) {
            0 => format!("has(object.metadata.labels) && '{label}' in object.metadata.labels"),
            1 => format!("object.metadata.?labels[?'{label}'].hasValue()"),
            2 => "has(object.spec.hostNetwork)".to_owned(),
            3 => "object.spec.hostNetwork".to_owned(),
            4 => "has(object.spec) && has(object.spec.n)".to_owned(),
            _ => "request.operation == 'CREATE'".to_owned(),
        };
    }
    if random.chance(35) {
        return call(random, depth - 1, names, tables::CEL_BOOL);
    }
    let inner = |random: &mut Random| boolean(random, depth - 1, names);
    match random.below(13) {
        0 => format!("!({})", inner(random)),
        1 => format!("({}) && ({})", inner(random), inner(random)),
        2 => format!("({}) || ({})", inner(random), inner(random)),
        3 => format!(
            "{} {} {}",
            text(random, depth - 1, names),
            random.pick(&["==", "!=", "<"]),
            text(random, 0, names)
        ),
        4 => format!(
            "{}.{}({})",
            text(random, depth - 1, names),
            random.pick(&["startsWith", "endsWith", "contains"]),
            text(random, 0, names)
        ),
        5 => format!(
            "{}.matches('{}')",
            text(random, depth - 1, names),
            random.pick(&["^web", "[0-9]+$", "^$", ".*b", "a|b"])
        ),
        6 => format!(
            "{} {} {}",
            number(random, depth - 1, names),
            random.pick(&["==", "<", ">=", "!="]),
            number(random, 0, names)
        ),
        7 => format!(
            "{}.{}(c, {})",
            list(random),
            random.pick(&["all", "exists", "exists_one"]),
            element(random)
        ),
        8 => format!("({}) ? ({}) : ({})", inner(random), inner(random), inner(random)),
        9 => format!(
            "{} in {}",
            text(random, 0, names),
            random.pick(&["params.words", "['web', 'db']", "{'web': 1}"])
        ),
        10 => format!(
            "quantity({}).{}(quantity('1Gi'))",
            text(random, 0, names),
            random.pick(&["isLessThan", "isGreaterThan"])
        ),
        11 => format!("isQuantity({})", text(random, depth - 1, names)),
        _ => format!("dyn({}) == dyn({})", text(random, 0, names), number(random, 0, names)),
    }
}

/// A call from a table.
fn call(random: &mut Random, depth: usize, names: &Names, calls: &[&str]) -> String {
    let call = random.pick(calls);
    tables::fill(call, |of| match of {
        'T' => text(random, depth.min(1), names),
        'N' => number(random, depth.min(1), names),
        'B' => boolean(random, depth.min(1), names),
        'L' if depth > 0 => self::call(random, depth - 1, names, tables::CEL_LIST),
        'L' => "params.words".to_owned(),
        _ if depth > 0 => self::call(random, depth - 1, names, tables::CEL_ANY),
        _ => "object.spec".to_owned(),
    })
}

/// A condition of a container `c`.
fn element(random: &mut Random) -> String {
    random
        .pick(&[
            "c.image.startsWith('nginx')",
            "has(c.securityContext) && c.securityContext.privileged",
            "!c.securityContext.privileged",
            "c.?resources.?limits[?'memory'].orValue('0') == '2Gi'",
            "quantity(c.resources.limits.memory).isLessThan(quantity('1Gi'))",
            "c.name in params.words",
            "params.words.exists(w, c.image.contains(w))",
            "has(c.ports) && c.ports.all(p, p.hostPort > params.number)",
            "c.image.split(':').size() > 1",
        ])
        .to_owned()
}

fn list(random: &mut Random) -> String {
    random
        .pick(&[
            "object.spec.containers",
            "object.spec.containers",
            "(has(object.spec.containers) ? object.spec.containers : [])",
            "object.spec.?initContainers.orValue([])",
            "object.spec.template.spec.containers",
            "object.spec.containers.filter(f, has(f.ports))",
        ])
        .to_owned()
}

fn text(random: &mut Random, depth: usize, names: &Names) -> String {
    if random.chance(25)
        && let Some(name) = variable(random, names, true)
    {
        return name;
    }
    let word = random.pick(WORDS);
    let label = random.pick(LABELS);
    if depth == 0 {
        return match random.below(7) {
            0 | 1 => format!("'{word}'"),
            2 => "object.metadata.name".to_owned(),
            3 => format!("object.metadata.?labels[?'{label}'].orValue('none')"),
            4 => "params.text".to_owned(),
            5 => "object.kind".to_owned(),
            _ => format!("object.metadata.labels['{label}']"),
        };
    }
    if random.chance(30) {
        return call(random, depth - 1, names, tables::CEL_TEXT);
    }
    let inner = |random: &mut Random| text(random, depth - 1, names);
    match random.below(12) {
        0 => format!("{} + {}", inner(random), inner(random)),
        1 => format!(
            "{}.{}()",
            inner(random),
            random.pick(&["lowerAscii", "upperAscii", "trim", "reverse"])
        ),
        2 => format!(
            "{}.replace('{}', '{}')",
            inner(random),
            random.pick(&["e", "-", ""]),
            random.pick(&["", "X"])
        ),
        3 => format!("{}.substring({})", inner(random), random.below(4)),
        4 => format!(
            "{}.split('{}').join('{}')",
            inner(random),
            random.pick(&["/", "", "-"]),
            random.pick(&["", ","])
        ),
        5 => format!("string({})", number(random, depth - 1, names)),
        6 => format!("'%s is %d'.format([{}, {}])", inner(random), number(random, 0, names)),
        7 => format!("{}.map(c, c.{}).join(',')", list(random), random.pick(&["name", "image"])),
        8 => format!(
            "({}) ? {} : {}",
            boolean(random, depth - 1, names),
            inner(random),
            inner(random)
        ),
        9 => format!("{}.charAt({})", inner(random), random.below(3)),
        10 => format!("string({})", boolean(random, 0, names)),
        _ => format!("{}.find('[a-z]+')", inner(random)),
    }
}

fn number(random: &mut Random, depth: usize, names: &Names) -> String {
    if depth == 0 {
        return random
            .pick(&[
                "1",
                "0",
                "-3",
                "2.5",
                "params.number",
                "object.spec.replicas",
                "object.spec.n",
                "object.spec.containers.size()",
            ])
            .to_owned();
    }
    if random.chance(35) {
        return call(random, depth - 1, names, tables::CEL_NUMBER);
    }
    match random.below(6) {
        0 => format!("size({})", text(random, depth - 1, names)),
        1 => format!("{}.size()", list(random)),
        2 => format!("int({})", text(random, depth - 1, names)),
        3 => format!(
            "{} {} {}",
            number(random, depth - 1, names),
            random.pick(&["+", "-", "*", "/", "%"]),
            random.pick(&["1", "2", "0", "params.number"])
        ),
        4 => format!("{}.indexOf({})", text(random, depth - 1, names), text(random, 0, names)),
        _ => format!("double({})", number(random, depth - 1, names)),
    }
}
