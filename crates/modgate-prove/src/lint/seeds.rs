//! Objects to start from: given ones, usual ones, invented ones.

use std::collections::BTreeSet;

use modgate_engine::{
    Review,
    api::{admission::AdmissionReview, meta::Operation},
};
use modgate_value::{Str, Value};

use super::{
    Options, Subject,
    probe::{Prober, Request, Verdict},
};
use crate::{
    generate::Generator,
    minimise::minimised_within,
    objects::{
        KINDS, images,
        pods::{List, containers, named, workload},
        possible::as_sent,
    },
    value::{self, Step, paths, removed, replaced},
};

/// Objects that are invented for a policy.
const INVENTED: usize = 150;
/// Decisions to make one object smaller.
const TRIES: usize = 150;

/// Examples that a policy denies and admits.
pub(super) struct Seeds {
    /// Objects whose creation it denies, each for another reason, as small as they can be.
    pub(super) denied: Vec<Value>,
    /// Objects whose creation it admits.
    pub(super) admitted: Vec<Value>,
    /// Containers that are likely to be admitted.
    pub(super) containers: Vec<Value>,
    /// Texts that the policy mentions.
    pub(super) texts: Vec<String>,
}

impl Seeds {
    /// The admitted objects of the kind of another one.
    pub(super) fn of_kind<'s>(&'s self, object: &'s Value) -> impl Iterator<Item = &'s Value> {
        self.admitted.iter().filter(|seed| {
            ["apiVersion", "kind"].iter().all(|member| seed.get(member) == object.get(member))
        })
    }

    pub(super) fn collect(
        prober: &mut Prober<'_>,
        subject: &Subject<'_>,
        options: Options,
    ) -> Self {
        let mut generator = Generator::new(options.seed, subject.documents);
        let texts: Vec<String> = generator.texts().map(ToString::to_string).collect();
        let hardened = hardened(&texts, subject.parameters);
        let mut seeds = Self {
            denied: Vec::new(),
            admitted: Vec::new(),
            containers: hardened.clone(),
            texts: texts.clone(),
        };
        let mut known = BTreeSet::new();
        let given = subject.seeds.iter().filter_map(created);
        let usual = usual(&texts, &hardened);
        let invented = (0..INVENTED).map(|_| generator.object());
        for object in given.chain(usual).chain(invented).map(as_sent) {
            if prober.left() < options.budget / 3 || seeds.denied.len() == super::MAX_OFFENCES {
                break;
            }
            if !prober.takes(&object) {
                continue;
            }
            match prober.ask(&Request::create(object.clone())) {
                Verdict::Denied(_) => {
                    let small = minimised_within(&object, TRIES, |object| {
                        prober.denies(&Request::create(object.clone()))
                    });
                    if known.insert(signature(&small)) {
                        seeds.denied.push(small);
                    }
                }
                Verdict::Admitted => {
                    for container in containers(&object, List::Containers) {
                        if seeds.containers.len() < 2 * hardened.len() {
                            seeds.containers.insert(0, container);
                        }
                    }
                    if seeds.admitted.len() < 50 {
                        seeds.admitted.push(object);
                    }
                }
                Verdict::Undecided => {}
            }
        }
        seeds
    }
}

/// The object of a seed, if the seed is an object or its creation.
pub(super) fn created(seed: &Value) -> Option<Value> {
    if !AdmissionReview::is_review(seed) {
        return Some(seed.clone());
    }
    let review = Review::parse(seed).ok()?;
    let request = review.request();
    (request.operation == Operation::Create).then(|| request.object.clone())?
}

/// The form of an offending object: its kind and its members, whatever their values.
fn signature(object: &Value) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for path in paths(object) {
        let keys: Vec<Step> =
            path.iter().filter(|step| matches!(step, Step::Key(_))).cloned().collect();
        if !matches!(path.first(), Some(Step::Key(key)) if key == "metadata") {
            names.insert(value::written(&keys));
        }
    }
    let kind = object.get("kind").map(Value::to_json).unwrap_or_default();
    kind + &names.into_iter().collect::<Vec<_>>().join(",")
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

fn set(container: &Value, path: &[&str], with: impl Into<Value>) -> Value {
    let path: Vec<Step> = path.iter().copied().map(Step::from).collect();
    replaced(container, &path, with.into())
}

/// Containers with everything that policies usually ask for, with the images that texts mention.
pub(super) fn hardened(texts: &[String], parameters: &[Str]) -> Vec<Value> {
    let amounts = || object([("cpu", "100m".into()), ("memory", "64Mi".into())]);
    let probe = || object([("tcpSocket", object([("port", Value::from(8080_i64))]))]);
    let all: Value = [Value::from("ALL")].into_iter().collect();
    let context = object([
        ("allowPrivilegeEscalation", false.into()),
        ("capabilities", object([("drop", all)])),
        ("privileged", false.into()),
        ("readOnlyRootFilesystem", true.into()),
        ("runAsNonRoot", true.into()),
        ("runAsUser", Value::from(1000_i64)),
        ("seccompProfile", object([("type", "RuntimeDefault".into())])),
    ]);
    let resources = object([("limits", amounts()), ("requests", amounts())]);
    let container = object([
        ("name", "web".into()),
        ("image", "registry.example/app:1.0".into()),
        ("resources", resources),
        ("securityContext", context),
        ("livenessProbe", probe()),
        ("readinessProbe", probe()),
    ]);
    let images = images::mentioned(texts, parameters);
    images.iter().map(|image| set(&container, &["image"], image.as_str())).collect()
}

/// Pods that many policies deny, and good ones.
pub(super) fn usual<'t>(
    texts: &'t [String],
    hardened: &'t [Value],
) -> impl Iterator<Item = Value> + 't {
    let plain = |image: &str| object([("name", "web".into()), ("image", image.into())]);
    let mut found: Vec<Value> = Vec::new();
    found.extend(hardened.iter().cloned());
    found.extend([plain("nginx"), plain("evil.example/app:latest")]);
    let first = hardened.first().cloned().unwrap_or_else(|| plain("nginx"));
    // An API server refuses privileges for containers that must not get any.
    let first = removed(&first, &["securityContext".into(), "allowPrivilegeEscalation".into()]);
    let flags = ["privileged", "allowPrivilegeEscalation"];
    found.extend(flags.map(|flag| set(&first, &["securityContext", flag], true)));
    let is_name = |character: char| character.is_ascii_uppercase() || character == '_';
    let words = texts.iter().flat_map(|text| text.split(|character| !is_name(character)));
    let capabilities: BTreeSet<&str> = words.filter(|word| word.len() > 2).collect();
    for capability in capabilities.into_iter().take(12) {
        let add: Value = [Value::from(capability)].into_iter().collect();
        found.push(set(&first, &["securityContext", "capabilities", "add"], add));
    }
    let pod = |container: Value| {
        let spec = object([("containers", [named(&container, "web")].into_iter().collect())]);
        let metadata = object([("name", "web".into()), ("namespace", "default".into())]);
        object([
            ("apiVersion", "v1".into()),
            ("kind", "Pod".into()),
            ("metadata", metadata),
            ("spec", spec),
        ])
    };
    let pods: Vec<Value> = found.into_iter().map(pod).collect();
    let workloads: Vec<Value> = pods
        .iter()
        .rev()
        .take(8)
        .flat_map(|pod| {
            let spec = pod.get("spec").cloned().unwrap_or_default();
            let kinds = KINDS.iter().filter(|(_, _, template)| !template.is_empty());
            kinds
                .map(|(api_version, kind, _)| workload(api_version, kind, &spec, &"default".into()))
                .collect::<Vec<_>>()
        })
        .collect();
    pods.into_iter().chain(workloads)
}
