//! An installation as values of modgate's chart (`deploy/chart/values.yaml`): its flags, and
//! what is carried over of its objects.
//!
//! The chart says some flags itself, as its ports, rights and webhook configurations have to agree with
//! them; for others it has values; the rest goes into `args`.

use std::collections::{BTreeMap, BTreeSet};

use modgate_value::{Object, Value};

use crate::{
    carry::{Carried, default},
    flags::{Fate, Flag},
    places::{Place, place},
};

/// The Secret that Gatekeeper mounts as its folder of certificates.
const CERTIFICATE: &str = "gatekeeper-webhook-server-cert";

/// Flags that change nothing, and are left out without a word.
const SILENT: [&str; 1] = ["logtostderr"];

/// Flags that may be given more than once; of others the last one would count.
const REPEATED: [&str; 2] = ["disable-opa-builtin", "metrics-backend"];

/// Values of the chart that take the place of flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    /// By path, such as `logs.denies`.
    by_path: BTreeMap<String, Value>,
    /// Flags to which different Deployments give different values; the first one is taken.
    pub(crate) unlike: BTreeSet<String>,
}

impl Values {
    /// Of the flags that are taken; `home` is the namespace modgate goes to, which is exempt anyway.
    pub(crate) fn of(flags: &[Flag], home: &str) -> Self {
        let mut values = Self::default();
        let mut args: Vec<(&str, &str)> = Vec::new();
        for Flag { flag, fate, .. } in flags {
            if !matches!(fate, Fate::Same | Fate::Differs { .. }) {
                continue;
            }
            let plain = flag.trim_start_matches('-');
            let (name, value) = match plain.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (plain, None),
            };
            let text = value.unwrap_or_default();
            match place(name) {
                Some(Place::Chart) => {}
                Some(Place::Switch(path)) => {
                    let is_on = !matches!(text, "false" | "False" | "FALSE" | "f" | "F" | "0");
                    values.set(name, path, is_on.into());
                }
                Some(Place::Number(path)) => match text.parse::<i64>() {
                    Ok(number) => values.set(name, path, number.into()),
                    Err(_) => args.push((name, flag)),
                },
                Some(Place::Text(path)) => values.set(name, path, text.into()),
                Some(Place::List(path)) => {
                    for element in text.split(',').filter(|it| !it.is_empty() && *it != home) {
                        values.add(path, element);
                    }
                }
                Some(Place::ClientAuthorities) if text.is_empty() => {}
                Some(Place::ClientAuthorities) => {
                    values.set(name, "clientAuth.enabled", true.into());
                    values.set(name, "clientAuth.secret", CERTIFICATE.into());
                    values.set(name, "clientAuth.key", text.into());
                }
                None if SILENT.contains(&name) => {}
                None => args.push((name, flag)),
            }
        }
        for (name, flag) in args {
            let is_given = |given: &Value| {
                let given = given.as_str().unwrap_or_default().trim_start_matches('-');
                given.split('=').next() == Some(name)
            };
            let known = values.by_path.get("args").and_then(Value::as_array);
            let mut known = known.into_iter().flat_map(|known| known.iter());
            match REPEATED.contains(&name) || !known.any(is_given) {
                true => values.add("args", flag),
                false => values.note_unlike("args", name, &flag.into()),
            }
        }
        values
    }

    fn set(&mut self, name: &str, path: &str, value: Value) {
        if self.by_path.get(path).is_some_and(|known| *known != value) {
            self.unlike.insert(format!("--{name}"));
        }
        self.by_path.entry(path.to_owned()).or_insert(value);
    }

    /// Adds what values of Gatekeeper's chart say, where no flag does.
    pub(crate) fn translate(&mut self, by_path: BTreeMap<String, Value>) {
        for (path, value) in by_path {
            let own = match (path.as_str(), self.by_path.get(&path).and_then(Value::as_array)) {
                ("args", Some(known)) => {
                    let more = value.as_array().into_iter().flatten();
                    let more = more.filter(|it| !known.iter().any(|known| known == *it));
                    known.iter().chain(more).cloned().collect::<Vec<_>>().into()
                }
                (_, Some(_)) => continue,
                (_, None) => value,
            };
            self.by_path.entry(path).and_modify(|it| *it = own.clone()).or_insert(own);
        }
    }

    /// Adds what is carried over of objects.
    pub(crate) fn carry(&mut self, carried: &[Carried]) {
        for Carried { value, is, .. } in carried {
            self.by_path.insert(value.clone(), is.clone());
        }
    }

    /// Whether audits go on in a Deployment of their own.
    pub(crate) fn is_split(&self) -> bool {
        self.by_path.get(SPLIT).and_then(Value::as_bool) == Some(true)
    }

    fn note_unlike(&mut self, path: &str, name: &str, value: &Value) {
        let known = self.by_path.get(path).and_then(Value::as_array);
        if !known.is_some_and(|known| known.iter().any(|known| known == value)) {
            self.unlike.insert(format!("--{name}"));
        }
    }

    fn add(&mut self, path: &str, element: &str) {
        let known = self.by_path.entry(path.to_owned()).or_insert_with(|| Value::from(Vec::new()));
        let mut elements: Vec<Value> =
            known.as_array().into_iter().flat_map(|it| it.iter().cloned()).collect();
        if elements.iter().all(|known| known.as_str() != Some(element)) {
            elements.push(element.into());
        }
        *known = elements.into();
    }

    /// As Helm takes them on its command line: path and JSON, joined by `=`. Whether the audit is apart is
    /// said when there is one.
    pub(crate) fn settings(&self) -> impl Iterator<Item = String> {
        let said = self.by_path.iter().filter(|(path, _)| *path != SPLIT);
        said.map(|(path, value)| format!("{path}={}", value.to_json()))
    }

    /// As a file of values has them; an empty object if there are none.
    pub(crate) fn document(&self) -> Value {
        let mut document = Object::default();
        for (path, value) in &self.by_path {
            let keys: Vec<&str> = path.split('.').collect();
            insert(&mut document, &keys, value.clone());
        }
        document.into()
    }
}

/// The value that gives audits a Deployment of their own.
const SPLIT: &str = "split.enabled";

/// The value of a file of values at a path, or the chart's default.
pub(crate) fn given(values: &Value, path: &str) -> Value {
    let keys: Vec<&str> = path.split('.').collect();
    values.path(&keys).cloned().unwrap_or_else(|| default(path))
}

fn insert(object: &mut Object, keys: &[&str], value: Value) {
    let Some((key, rest)) = keys.split_first() else { return };
    if rest.is_empty() {
        object.insert(*key, value);
        return;
    }
    let mut inner = object.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    insert(&mut inner, rest, value);
    object.insert(*key, inner.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Subject;
    use crate::places::PLACES;

    fn subject() -> Subject {
        let (kind, namespace) = ("Deployment".to_owned(), "home".to_owned());
        Subject { kind, namespace, name: "original".to_owned(), place: String::new() }
    }

    fn values(flags: &str) -> Values {
        let flag = |flag: &str| Flag {
            object: subject(),
            flag: flag.to_owned(),
            fate: match flag.starts_with("--no") {
                true => Fate::Refused { sentence: String::new() },
                false => Fate::Same,
            },
        };
        let flags: Vec<Flag> = flags.split_whitespace().map(flag).collect();
        Values::of(&flags, "home")
    }

    #[test]
    fn flags_have_their_places() {
        for (flags, expected) in [
            ("--port=8443 --operation=webhook --disable-cert-rotation --webapp", "{}"),
            ("--log-denies --log-mutations=false", r#"{"logs":{"denies":true,"mutations":false}}"#),
            (
                "--audit-interval=30 --log-level=DEBUG",
                r#"{"audit":{"interval":30},"logs":{"level":"DEBUG"}}"#,
            ),
            (
                "--exempt-namespace=home --exempt-namespace=a --exempt-namespace=b --exempt-namespace=a",
                r#"{"ignoreLabel":{"allowedNamespaces":["a","b"]}}"#,
            ),
            (
                "--client-ca-name=clients.crt --client-cn-name=api",
                r#"{"clientAuth":{"commonName":"api","enabled":true,"key":"clients.crt","secret":"gatekeeper-webhook-server-cert"}}"#,
            ),
            (
                "--additional-validating-webhook-configs-to-rotate-certs=a,b",
                r#"{"certificates":{"additionalConfigurations":{"validating":["a","b"]}}}"#,
            ),
            (
                "--disable-opa-builtin={http.send} --emit-audit-events --disable-opa-builtin=trace --nothing",
                r#"{"args":["--disable-opa-builtin={http.send}","--emit-audit-events","--disable-opa-builtin=trace"]}"#,
            ),
        ] {
            let values = values(flags);
            assert_eq!(values.document().to_json(), expected, "{flags}");
            assert!(values.unlike.is_empty(), "{flags}: {:?}", values.unlike);
        }
    }

    #[test]
    fn the_chart_has_these_places() {
        let chart = include_str!("../../../deploy/chart/templates/_refusals.tpl");
        // The translation puts nothing into `args` that the chart refuses.
        let refused = chart.lines().skip_while(|line| !line.ends_with("$own := dict"));
        let refused =
            refused.skip(1).map_while(|line| line.trim().strip_prefix('"')?.split_once('"'));
        let refused: Vec<&str> = refused.map(|(flag, _)| flag).collect();
        assert!(refused.contains(&"port") && refused.contains(&"webapp-addr"), "{refused:?}");
        for flag in refused {
            assert!(place(flag).is_some(), "{flag}");
        }
        let values = include_str!("../../../deploy/chart/values.yaml");
        let values = modgate_value::yaml::value(values).expect("YAML");
        for (flag, place) in PLACES {
            let path = match place {
                Place::Switch(path)
                | Place::Number(path)
                | Place::Text(path)
                | Place::List(path) => path,
                Place::ClientAuthorities => "clientAuth.secret",
                Place::Chart => continue,
            };
            let keys: Vec<&str> = path.split('.').collect();
            assert!(values.path(&keys).is_some(), "{flag}: {path}");
        }
    }

    #[test]
    fn deployments_that_do_not_agree() {
        let values = values("--log-level=INFO --x=1 --x=1 --y=1 --log-level=DEBUG --y=2");
        let settings: Vec<String> = values.settings().collect();
        assert_eq!(settings, [r#"args=["--x=1","--y=1"]"#, r#"logs.level="INFO""#]);
        assert_eq!(Vec::from_iter(&values.unlike), ["--log-level", "--y"]);
    }
}
