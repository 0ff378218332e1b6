//! Generated objects: of Kubernetes' own kinds, with members that their types have and texts
//! that policies mention.

use std::collections::BTreeSet;

use modgate_engine::{
    Review,
    admissionpolicy::{ScalarShape, Shape, Types},
    api::meta::Operation,
};
use modgate_value::{Str, Value, format_smolstr};

use crate::{
    objects::{KINDS, possible::Possible},
    side::step,
    value,
};

/// Texts that objects have anyway.
const TEXTS: [&str; 24] = [
    "nginx",
    "nginx:latest",
    "nginx:1.27",
    "registry.example/team/app:1.0",
    "ubuntu",
    "default",
    "web",
    "app",
    "owner",
    "team-a",
    "Always",
    "IfNotPresent",
    "Never",
    "RuntimeDefault",
    "Unconfined",
    "NET_ADMIN",
    "SYS_ADMIN",
    "ALL",
    "LoadBalancer",
    "NodePort",
    "ClusterIP",
    "/var/lib",
    "system:unauthenticated",
    "*",
];

const NUMBERS: [i64; 10] = [0, 1, 2, 3, 10, 80, 443, 1000, 8080, 65_535];
const QUANTITIES: [&str; 8] = ["0", "1", "100m", "500m", "2", "64Mi", "1Gi", "4Gi"];
const NAMESPACES: [&str; 5] = ["default", "shop", "kube-system", "team-a", "prod"];

/// Objects that are invented for one that an API server takes.
const DRAWS: usize = 8;
/// How deep members are invented.
const DEPTH: usize = 6;

/// Invents objects; the same seed gives the same ones.
#[derive(Debug, Clone)]
pub struct Generator {
    state: u64,
    texts: Vec<Str>,
    count: u64,
}

impl Generator {
    /// A generator that knows the texts of these documents, usually policies: every text in them, and
    /// every quoted text in a program.
    pub fn new<'d>(seed: u64, documents: impl IntoIterator<Item = &'d Value>) -> Self {
        let mut texts: BTreeSet<Str> = TEXTS.into_iter().map(Str::from).collect();
        for document in documents {
            for path in value::paths(document) {
                let Some(text) = value::at(document, &path).and_then(Value::as_str) else {
                    continue;
                };
                texts.extend(mentioned(text));
            }
        }
        // Zero is the one state that a xorshift cannot leave.
        let state = step(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        Self { state, texts: texts.into_iter().collect(), count: 0 }
    }

    /// The texts it knows, sorted.
    pub fn texts(&self) -> impl Iterator<Item = &Str> {
        self.texts.iter()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = step(self.state);
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from((self.state >> 11) % bound).unwrap_or(0)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T], otherwise: T) -> T {
        let index = self.below(from.len());
        from.get(index).copied().unwrap_or(otherwise)
    }

    fn text(&mut self) -> Value {
        let index = self.below(self.texts.len());
        self.texts.get(index).cloned().unwrap_or_default().into()
    }

    /// A request: mostly creations, some updates and deletions.
    pub fn review(&mut self) -> Review {
        let object = self.object();
        self.review_of(object)
    }

    fn review_of(&mut self, object: Value) -> Review {
        match self.below(10) {
            0 => Review::of_object(object, Operation::Delete, "default"),
            1 | 2 => Review::of_object(object, Operation::Update, "default"),
            _ => Review::of_object(object, Operation::Create, "default"),
        }
    }

    /// As [`review`](Self::review), of an object that an API server takes as far as is known.
    pub fn request(&mut self) -> Review {
        let possible = Possible::kubernetes();
        let object = (0..DRAWS).find_map(|_| possible.repaired(&self.object()));
        let object = object.unwrap_or_else(|| {
            let kind = [("apiVersion", "v1"), ("kind", "ConfigMap")].into_iter();
            let object = kind.map(|(key, text)| (key, Value::from(text))).collect();
            set(&object, &["metadata", "name"], format_smolstr!("object-{}", self.count).into())
        });
        self.review_of(object)
    }

    /// An object that fits its kind.
    pub fn object(&mut self) -> Value {
        let at = if self.one_in(2) { 0 } else { self.below(KINDS.len()) };
        let (api_version, kind, template) = self.kind(at);
        self.count += 1;
        let mut object: Value = [("apiVersion", api_version), ("kind", kind)]
            .into_iter()
            .map(|(key, text)| (key, Value::from(text)))
            .collect();
        if let Some(shape) = Types::kubernetes().shape(api_version, kind) {
            for (name, field) in shape.fields() {
                if !matches!(name, "apiVersion" | "kind" | "metadata" | "status") {
                    let invented = self.invent(field, 1);
                    object = set(&object, &[name], invented);
                }
            }
        }
        object = set(&object, &["metadata"], self.metadata(api_version, kind));
        if kind == "Pod" {
            object = set(&object, &["spec"], self.pod_spec());
        } else if !template.is_empty() {
            let template: Vec<&str> = template.iter().copied().chain(["spec"]).collect();
            object = set(&object, &template, self.pod_spec());
        }
        object
    }

    fn kind(&self, at: usize) -> (&'static str, &'static str, &'static [&'static str]) {
        KINDS.get(at).copied().unwrap_or(("v1", "ConfigMap", &[]))
    }

    fn metadata(&mut self, api_version: &str, kind: &str) -> Value {
        let mut metadata: Value =
            [("name", format_smolstr!("object-{}", self.count).into())].into_iter().collect();
        let clustered = matches!(kind, "Namespace" | "ClusterRoleBinding");
        if !clustered && !api_version.is_empty() {
            let namespace = self.pick(&NAMESPACES, "default");
            metadata = set(&metadata, &["namespace"], namespace.into());
        }
        for member in ["labels", "annotations"] {
            let mut members = Vec::new();
            for _ in 0..self.below(4) {
                let (key, text) = (self.text(), self.text());
                members.push((Str::from(key.as_str().unwrap_or_default()), text));
            }
            if !members.is_empty() {
                metadata = set(&metadata, &[member], members.into_iter().collect());
            }
        }
        metadata
    }

    fn pod_spec(&mut self) -> Value {
        let shape = Types::kubernetes().shape("v1", "Pod").and_then(|pod| pod.member("spec"));
        let mut spec = shape.map(|shape| self.invent(shape, 2)).unwrap_or_default();
        let container = shape.and_then(|spec| spec.member("containers")?.element());
        for (list, least) in [("containers", 1), ("initContainers", 0), ("ephemeralContainers", 0)]
        {
            let mut containers = Vec::new();
            let count = if least == 1 || self.one_in(3) { 1 + self.below(2) } else { 0 };
            for index in 0..count {
                let mut made = container.map(|it| self.invent(it, 2)).unwrap_or_default();
                let name = format_smolstr!("{}-{index}", list.trim_end_matches("ontainers"));
                made = set(&made, &["name"], name.into());
                let image = self.text();
                containers.push(set(&made, &["image"], image));
            }
            spec = match containers.is_empty() {
                true => value::removed(&spec, &[list.into()]),
                false => set(&spec, &[list], containers.into()),
            };
        }
        spec
    }

    /// A value of a type. The deeper it is, the fewer members it has.
    fn invent(&mut self, shape: Shape<'_>, depth: usize) -> Value {
        if let Some(element) = shape.element() {
            // Elements with names must not be there twice.
            let most = if element.scalar().is_some() { 3 } else { 2 };
            let count = if depth > DEPTH { 0 } else { self.below(most) };
            return (0..count).map(|_| self.invent(element, depth + 1)).collect();
        }
        match shape.scalar() {
            Some(ScalarShape::Text) => return self.text(),
            Some(ScalarShape::Number) => return self.pick(&NUMBERS, 0).into(),
            Some(ScalarShape::Boolean) => return self.one_in(2).into(),
            Some(ScalarShape::Any) => return self.pick(&QUANTITIES, "1").into(),
            None => {}
        }
        let fields: Vec<_> = shape.fields().collect();
        let mut members: Vec<(Str, Value)> = Vec::new();
        for (name, field) in fields {
            if depth <= DEPTH && self.one_in(1 + depth) {
                members.push((name.into(), self.invent(field, depth + 1)));
            }
        }
        if members.is_empty()
            && let Some(values) = shape.values()
        {
            for _ in 0..self.below(3) {
                let key = self.text();
                members.push((key.as_str().unwrap_or_default().into(), self.invent(values, DEPTH)));
            }
        }
        members.into_iter().collect()
    }
}

fn set(object: &Value, path: &[&str], with: Value) -> Value {
    let path: Vec<value::Step> = path.iter().map(|key| (*key).into()).collect();
    value::replaced(object, &path, with)
}

/// The texts that a text mentions: itself if it is short, and what stands in quotes in it.
fn mentioned(text: &str) -> impl Iterator<Item = Str> + '_ {
    const LONGEST: usize = 80;
    let whole = (text.len() <= LONGEST && !text.contains('\n')).then_some(text);
    let quoted = text.split('"').skip(1).step_by(2);
    let quoted = quoted.chain(text.split('\'').skip(1).step_by(2));
    let quoted = quoted.filter(|text| text.len() <= LONGEST && !text.contains('\n'));
    whole.into_iter().chain(quoted).filter(|text| !text.is_empty()).map(Str::from)
}
