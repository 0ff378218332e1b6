//! Files of the chart that follow from others: the descriptions of its schema and its README from the
//! comments of `values.yaml`, and the flags that `args` may hold from the binary's help.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use modgate_testkit::corpus;
use modgate_value::{
    Object, Value,
    json::{Escape, write_pretty},
    yaml,
};

use super::Generated;

const CHART: &str = "deploy/chart";

/// Flags of the originals that help does not show and that need a value.
const HIDDEN: [(&str, &str); 8] = [
    ("api-cache-dir", "FOLDER"),
    ("log_backtrace_at", "PLACE"),
    ("log_dir", "FOLDER"),
    ("pprof-port", "PORT"),
    ("stackdriver-metric-interval", "DURATION"),
    ("stderrthreshold", "LEVEL"),
    ("v", "LEVEL"),
    ("vmodule", "LEVELS"),
];

/// Flags in the help of `modgate serve`, and those in the table of the originals' flags, as some are
/// hidden from help. `master` is refused by the binary.
pub(super) fn flags(help: &str) -> Result<Vec<Generated>> {
    let text = flag_lines(help, &read("docs/flags.md")?);
    Ok(vec![Generated { path: format!("{CHART}/files/flags.txt"), text }])
}

/// A line for each flag: its name, and if it needs a value, `=` and what help calls the value.
fn flag_lines(help: &str, originals: &str) -> String {
    let of_help = help.lines().filter_map(|line| {
        let line = line.strip_prefix("  ")?.trim_start();
        let line =
            line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |it| it.1);
        line.strip_prefix("--")
    });
    let of_table = originals.lines().filter_map(|line| line.strip_prefix("| `--"));
    let name = |rest: &str| -> String {
        rest.chars().take_while(|it| it.is_ascii_alphanumeric() || "-_".contains(*it)).collect()
    };
    let mut all: BTreeMap<String, String> =
        of_table.map(|rest| (name(rest), String::new())).collect();
    for (flag, value) in HIDDEN {
        if let Some(known) = all.get_mut(flag) {
            *known = value.to_owned();
        }
    }
    for rest in of_help {
        let flag = name(rest);
        let value = rest.strip_prefix(flag.as_str()).and_then(|it| it.strip_prefix(" <"));
        let value = value.and_then(|it| it.split('>').next()).unwrap_or_default().to_owned();
        all.insert(flag, value);
    }
    for not_one in ["help", "master", ""] {
        all.remove(not_one);
    }
    let line = |(flag, value): (String, String)| match value.as_str() {
        "" => format!("{flag}\n"),
        value => format!("{flag}={value}\n"),
    };
    all.into_iter().map(line).collect()
}

/// The schema with a description of every property, and the README.
pub(super) fn documents() -> Result<Vec<Generated>> {
    let values = read(&format!("{CHART}/values.yaml"))?;
    let defaults = yaml::value(&values).map_err(|error| anyhow::anyhow!("values.yaml: {error}"))?;
    let described = comments(&values);
    let path = format!("{CHART}/values.schema.json");
    let schema = Value::from_json(read(&path)?.as_bytes())?;
    let by_path: BTreeMap<&str, &str> =
        described.iter().map(|it| (it.path.as_str(), it.text.as_str())).collect();
    let schema = with_descriptions(&schema, "", &by_path)?;
    let mut text = String::new();
    write_pretty(&schema, &mut text, "  ", Escape::Minimal);
    text.push('\n');
    let readme = readme(&described, &schema, &defaults);
    Ok(vec![
        Generated { path, text },
        Generated { path: format!("{CHART}/README.md"), text: readme },
    ])
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(corpus::repository().join(path)).with_context(|| path.to_owned())
}

/// A key of `values.yaml` with the comment above it, which may be empty.
#[derive(Debug, PartialEq, Eq)]
struct Described {
    path: String,
    text: String,
}

/// Every key outside of lists, in the order of the file.
fn comments(values: &str) -> Vec<Described> {
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut list: Option<usize> = None;
    let (mut comment, mut all) = (Vec::new(), Vec::new());
    for line in values.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(text) = text.strip_prefix('#') {
            comment.push(text.trim());
            continue;
        }
        let lines = std::mem::take(&mut comment);
        if text.is_empty() || text.starts_with("- ") {
            list = (!text.is_empty()).then_some(indent).or(list);
            continue;
        }
        if list.is_some_and(|of| indent > of) {
            continue;
        }
        list = None;
        let Some((key, _)) = text.split_once(':') else { continue };
        open.retain(|(of, _)| *of < indent);
        open.push((indent, key.to_owned()));
        let path: Vec<&str> = open.iter().map(|(_, key)| key.as_str()).collect();
        all.push(Described { path: path.join("."), text: lines.join(" ") });
    }
    all
}

/// The comment above a key; keys that several webhooks have are described once, at `validation`.
fn comment_of<'c>(path: &str, comments: &BTreeMap<&str, &'c str>) -> Option<&'c str> {
    let key = path.rsplit('.').next().unwrap_or_default();
    let own = comments.get(path).filter(|text| !text.is_empty());
    let shared = ["validation", "mutation"]
        .into_iter()
        .find_map(|of| comments.get(format!("{of}.{key}").as_str()).filter(|it| !it.is_empty()));
    let is_webhook = ["mutation.", "kubemod.", "unifiedMutation."];
    own.or(shared.filter(|_| is_webhook.iter().any(|of| path.starts_with(of)))).copied()
}

/// The schema, its properties described by comments, or as they are described already.
fn with_descriptions(schema: &Value, path: &str, comments: &BTreeMap<&str, &str>) -> Result<Value> {
    let Some(members) = schema.as_object() else { return Ok(schema.clone()) };
    let mut out = Object::default();
    for (key, value) in members.iter() {
        let value = match (key.as_str(), value.as_object()) {
            ("properties", Some(properties)) => {
                let mut described = Object::default();
                for (name, property) in properties.iter() {
                    let path = match path {
                        "" => name.to_string(),
                        path => format!("{path}.{name}"),
                    };
                    let mut property = with_descriptions(property, &path, comments)?
                        .as_object()
                        .cloned()
                        .unwrap_or_default();
                    if let Some(text) = comment_of(&path, comments) {
                        property.insert("description", text.into());
                    }
                    ensure!(
                        property.get("description").is_some(),
                        "values.yaml has no comment above `{path}`, and its schema no description"
                    );
                    described.insert(name.clone(), property.into());
                }
                described.into()
            }
            ("$defs", Some(all)) => {
                let mut defined = Object::default();
                for (name, schema) in all.iter() {
                    let path = format!("$defs.{name}");
                    defined.insert(name.clone(), with_descriptions(schema, &path, comments)?);
                }
                defined.into()
            }
            ("items", Some(_)) => with_descriptions(value, &format!("{path}[]"), comments)?,
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    Ok(out.into())
}

const INTRODUCTION: &str = "\
# modgate's chart

<!-- Written by `cargo xtask codegen` from values.yaml; do not edit. -->

Installs [modgate](../../README.md): webhooks, permissions, CRDs and, where asked for, monitoring. It needs
Helm 4, or 3.17 or newer, and Kubernetes 1.30 or newer. No image is published, so
[build one](../../docs/install.md#the-image) first.

```sh
helm install modgate deploy/chart --namespace gatekeeper-system --create-namespace \\
  --set image.repository=REGISTRY/modgate
helm test modgate --namespace gatekeeper-system --logs
```

The second command asks the Service for a review by each webhook, from a Pod of the same image, and prints what is wrong
if one does not answer within `test.timeout`.

[docs/install.md](../../docs/install.md) explains the choices, [docs/migration.md](../../docs/migration.md)
the switch from KubeMod and Gatekeeper: `modgate migrate --check --write-values values.yaml` writes the values
that keep an installation as it is. `ci/` of the repository holds sets of values that the tests render.

## Values

| Value | Default | Description |
| --- | --- | --- |
";

fn readme(described: &[Described], schema: &Value, defaults: &Value) -> String {
    let mut out = INTRODUCTION.to_owned();
    for Described { path, .. } in described {
        let keys: Vec<&str> = path.split('.').collect();
        let at: Vec<&str> = keys.iter().flat_map(|key| ["properties", key]).collect();
        // What is below a value of Kubernetes' own, such as `resources.limits`, is not ours to describe.
        let Some(property) = schema.path(&at) else { continue };
        let default = match property.get("properties").is_some() {
            true => String::new(),
            false => format!("`{}`", defaults.path(&keys).unwrap_or(&Value::Null).to_json()),
        };
        let text = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let cell = |text: &str| text.replace('|', "\\|");
        out.push_str(&format!("| `{path}` | {} | {} |\n", cell(&default), cell(text)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_what_they_need() {
        let help = "  -n, --namespace <NAME>\n          --strict\n      --log-denies[=<BOOL>]\n      \
                    --record-policy <NAME=RATE>\n  -h, --help\n";
        let originals =
            "| `--log-denies` | false |\n| `--v` | | nothing |\n| `--master` | | no |\n";
        assert_eq!(
            flag_lines(help, originals),
            "log-denies\nnamespace=NAME\nrecord-policy=NAME=RATE\nstrict\nv=LEVEL\n"
        );
    }

    #[test]
    fn comments_belong_to_the_key_below() {
        let values = "# Of nothing.\n\n# Two\n# lines.\na:\n  # Of b.\n  b: 1\n  c:\n    - # no\n      x: 1\n    - y: 2\n      z: 3\n  d: {}\n# Of e.\ne: []\n";
        let found: Vec<String> =
            comments(values).iter().map(|it| format!("{}={}", it.path, it.text)).collect();
        assert_eq!(found, ["a=Two lines.", "a.b=Of b.", "a.c=", "a.d=", "e=Of e."]);
    }

    #[test]
    fn a_property_without_a_description_is_named() {
        let schema = Value::from_json(br#"{"properties":{"a":{"properties":{"b":{}}}}}"#);
        let schema = schema.expect("JSON");
        let comments = BTreeMap::from([("a", "A.")]);
        let error = with_descriptions(&schema, "", &comments).expect_err("b").to_string();
        assert!(error.contains("`a.b`"), "{error}");
    }
}
