//! Policies, bindings and objects from a seed.

use modgate_value::{Value, yaml};

use super::{
    api::{Answer, Api},
    lasting, text, with,
};

/// The label that ties an object to the policies of its case.
pub(crate) const LABEL: &str = "case";

pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) resource: &'static str,
}

const CONFIG_MAP: Kind = Kind { api_version: "v1", kind: "ConfigMap", resource: "configmaps" };
const DEPLOYMENT: Kind =
    Kind { api_version: "apps/v1", kind: "Deployment", resource: "deployments" };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: &'static Kind,
    pub(crate) name: String,
    pub(crate) namespace: &'static str,
    pub(crate) operation: Operation,
    /// The object as it is sent.
    pub(crate) object: Value,
    pub(crate) policies: Vec<Value>,
}

impl Case {
    pub(crate) fn path(&self) -> String {
        let group = if self.kind.api_version == "v1" { "api" } else { "apis" };
        let Self { namespace, kind: Kind { api_version, resource, .. }, .. } = self;
        let place = match *namespace {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        format!("/{group}/{api_version}/{place}{resource}?dryRun=All")
    }

    fn path_of_object(&self) -> String {
        let (path, query) = self
            .path()
            .split_once('?')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("a query");
        format!("{path}/{}?{query}", self.name)
    }

    /// The object and the old object as admission sees them; makes the old one.
    pub(crate) fn before(&self, api: &mut Api) -> (Value, Value) {
        if self.operation == Operation::Create {
            let answer = api.send("POST", &self.path(), Some(&self.object));
            assert_eq!(answer.code, 201, "{}: {}", self.id, answer.body);
            return (answer.body, Value::Null);
        }
        let path = self.path().replace("?dryRun=All", "");
        let answer = api.send("POST", &path, Some(&self.object));
        assert_eq!(answer.code, 201, "{}: {}", self.id, answer.body);
        let stored = answer.body;
        match self.operation {
            Operation::Delete => (Value::Null, stored),
            _ => (self.changed(&stored), stored),
        }
    }

    fn changed(&self, stored: &Value) -> Value {
        with(stored, &["metadata", "labels", "changed"], Some("yes".into()))
    }

    pub(crate) fn send(&self, api: &mut Api, object: &Value) -> Answer {
        match self.operation {
            Operation::Create => api.send("POST", &self.path(), Some(&lasting(object))),
            Operation::Update => api.send("PUT", &self.path_of_object(), Some(object)),
            Operation::Delete => api.send("DELETE", &self.path_of_object(), None),
        }
    }
}

/// Numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).expect("small")
    }

    /// One in so many.
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

pub(crate) fn namespaces() -> Vec<Value> {
    [("diff-a", "prod"), ("diff-b", "dev")]
        .map(|(name, env)| {
            document(&format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{env: {env}}}}}}}"
            ))
        })
        .into()
}

pub(crate) fn params() -> Vec<Value> {
    [("diff-a", "one", 1), ("diff-a", "two", 2), ("diff-b", "one", 3)]
        .map(|(namespace, name, limit)| {
            document(&format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}, \
                 labels: {{tier: x}}}}, data: {{limit: '{limit}'}}}}"
            ))
        })
        .into()
}

/// Policies of both kinds that come last: the one that validates refuses what the other mutated.
pub(crate) fn sentinels() -> Vec<Value> {
    let matched = "matchConstraints: {objectSelector: {matchLabels: {case: sentinel}}, resourceRules: \
                   [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}";
    let policy = |kind: &str, rest: &str| {
        document(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: {kind}AdmissionPolicy, metadata: \
             {{name: sentinel}}, spec: {{{matched}, {rest}}}}}"
        ))
    };
    let binding = |kind: &str, rest: &str| {
        document(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: {kind}AdmissionPolicyBinding, \
             metadata: {{name: sentinel}}, spec: {{policyName: sentinel{rest}}}}}"
        ))
    };
    vec![
        policy(
            "Validating",
            "validations: [{expression: \"!('seen' in object.metadata.labels)\", message: mutated first}]",
        ),
        policy(
            "Mutating",
            "reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: \
             \"[JSONPatch{op: 'add', path: '/metadata/labels/seen', value: 'yes'}]\"}}]",
        ),
        binding("Validating", ", validationActions: [Deny]"),
        binding("Mutating", ""),
    ]
}

pub(crate) fn sentinel() -> Value {
    document(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: sentinel, labels: {case: sentinel}}}",
    )
}

fn document(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn cases(seed: u64, count: u64) -> Vec<Case> {
    (0..count).map(|index| case(&mut Random(seed.wrapping_mul(1_000_003) ^ index), index)).collect()
}

fn case(random: &mut Random, index: u64) -> Case {
    let id = format!("c{index}");
    let deployment = random.one_in(2);
    let kind = if deployment { &DEPLOYMENT } else { &CONFIG_MAP };
    let namespace = if random.one_in(4) { "diff-b" } else { "diff-a" };
    let name = format!("{}-{index}", random.pick(&["web", "api", "x1"]));
    let operation = match random.below(8) {
        0 => Operation::Update,
        1 => Operation::Delete,
        _ => Operation::Create,
    };
    let team = random.pick(&["", ", team: red", ", team: blue"]);
    let notes = random.pick(&["", ", annotations: {k: v, 'a.b/c': e}"]);
    let metadata = format!("{{name: {name}, labels: {{case: {id}{team}}}{notes}}}");
    let rest = if deployment {
        let extra = random.pick(&[
            "",
            ", env: [{name: A, value: old}, {name: B, value: b}]",
            ", ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}], args: [x]",
        ]);
        format!(
            "spec: {{replicas: {}, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: \
             {{a: b}}}}, spec: {{containers: [{{name: main, image: 'i:1'{extra}}}, {{name: second, \
             image: 'i:2'}}]}}}}}}",
            random.below(5)
        )
    } else {
        format!("data: {{a: '{}', b: text}}", random.below(5))
    };
    let object = document(&format!(
        "{{apiVersion: {}, kind: {}, metadata: {metadata}, {rest}}}",
        kind.api_version, kind.kind
    ));
    assert_eq!(text(&object, &["kind"]), kind.kind);
    let mutates = operation != Operation::Delete && random.one_in(2);
    let policies =
        if mutates { mutating(random, &id, kind) } else { validating(random, &id, kind) };
    Case { id, kind, name, namespace, operation, object, policies }
}

const CONDITIONS: [&str; 40] = [
    "true",
    "false",
    "object.metadata.name.startsWith('web')",
    "has(object.metadata.annotations) && 'k' in object.metadata.annotations",
    "object.metadata.labels['team'] == 'red'",
    "object.metadata.labels.team in ['red', 'green']",
    "object.metadata.labels[?'team'].orValue('none') != 'none'",
    "object.kind == 'ConfigMap'",
    "object.data.a == '1'",
    "object.missing.deeper == 'x'",
    "object.spec.replicas <= 2",
    "object.spec.template.spec.containers.all(c, c.image.contains(':1'))",
    "object.spec.template.spec.containers.exists(c, has(c.ports) && c.ports.exists(p, p.protocol == 'UDP'))",
    "request.operation == 'CREATE'",
    "request.namespace == 'diff-a' && request.dryRun",
    "request.resource.resource == 'configmaps' || request.kind.kind == 'Deployment'",
    "request.userInfo.groups.exists(g, g == 'system:masters')",
    "request.name.matches('^[a-z]+-[0-9]*[02468]$')",
    "namespaceObject.metadata.labels['env'] == 'prod'",
    "namespaceObject.metadata.name == request.namespace && namespaceObject.status.phase == 'Active'",
    "oldObject == null",
    "oldObject != null && oldObject.metadata.name == request.name",
    "authorizer.group('').resource('pods').namespace('diff-a').check('create').allowed()",
    "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()",
    "authorizer.group('').resource('').check('get').allowed()",
    "quantity('1Mi').compareTo(quantity('2Mi')) < 0",
    "int('x') == 1",
    "'abc'.substring(5) == ''",
    "[1, 2][3] == 1",
    "1 / (size(object.metadata.name) - size(object.metadata.name)) == 1",
    "lists.range(3000).all(i, lists.range(3000).all(j, i + j >= 0))",
    "object.metadata.name == 'none' || object.missing == 1",
    "lists.range(-1).size() == 0",
    "has(object.metadata.`labels`)",
    "double(object.metadata.name == 'web' ? '1' : 'NaN') < 2.0",
    "timestamp('2020-01-01T1:00:00Z') < timestamp('2020-01-01T01:00:00,5Z')",
    "timestamp(object.metadata.name) == timestamp('2020-01-01T00:00:00Z')",
    "string(request.requestResource.version) == request.resource.version",
    "semver('1.2.3').isLessThan(semver('1.10.0')) && ip('10.0.0.1').family() == 4",
    "format.named('dns1123Label').value().validate(object.metadata.name).hasValue() == false",
];

const MESSAGES: [&str; 10] = [
    "'the name is ' + object.metadata.name",
    "string(object.missing.text)",
    "'  '",
    "'two\\nlines'",
    "'  with space around it  '",
    "'%s in %s'.format([object.kind, request.namespace])",
    "string(object.spec.replicas) + ' replicas'",
    "lists.range(2000).map(i, 'xxx').join('')",
    "'<&>\\\"' + namespaceObject.metadata.name",
    "authorizer.path('/').check('get').reason()",
];

const VALUES: [&str; 8] = [
    "'name ' + object.metadata.name",
    "null",
    "''",
    "string(object.missing.text)",
    "object.kind == 'ConfigMap' ? 'a map' : null",
    "string(size(object.metadata.labels))",
    "lists.range(6000).map(i, 'xyz').join('')",
    "request.userInfo.username + ' in ' + namespaceObject.metadata.labels.env",
];

/// The parts that policies of both kinds have, and what their expressions may add.
struct Head {
    spec: Value,
    more: Vec<&'static str>,
    params: bool,
}

fn head(random: &mut Random, id: &str, kind: &Kind, mutating: bool) -> Head {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    let operations = if mutating {
        "[CREATE, UPDATE]"
    } else {
        random.pick(&["['*']", "[CREATE, UPDATE, DELETE]"])
    };
    let version = random.pick(&[version, "*"]);
    let resource = random.pick(&[kind.resource, kind.resource, "*", "*/*"]);
    let scope = random.pick(&["", ", scope: Namespaced", ", scope: '*'"]);
    let selector = random.pick(&[
        "",
        "",
        ", namespaceSelector: {matchLabels: {env: prod}}",
        ", namespaceSelector: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}",
    ]);
    let excluded = random.pick(&[
        "",
        "",
        ", excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: [secrets]}]",
        ", excludeResourceRules: [{apiGroups: ['apps'], apiVersions: ['*'], operations: [UPDATE], resources: ['*']}]",
    ]);
    let matched = format!(
        "{{objectSelector: {{matchLabels: {{case: {id}}}}}, resourceRules: [{{apiGroups: ['{group}'], \
         apiVersions: ['{version}'], operations: {operations}, resources: ['{resource}']{scope}}}]\
         {selector}{excluded}}}"
    );
    let mut spec = document(&format!("{{matchConstraints: {matched}}}"));
    let failure = random.pick(&["Fail", "Fail", "Ignore"]);
    spec = with(&spec, &["failurePolicy"], Some(failure.into()));
    let mut more = Vec::new();
    if random.one_in(3) {
        let variables = [
            ("short", "object.metadata.name.size() < 6"),
            ("broken", "object.missing.deeper"),
            ("twice", "[variables.short, variables.short]"),
        ];
        let list = variables.map(|(name, text)| {
            [("name", Value::from(name)), ("expression", text.into())]
                .into_iter()
                .collect::<Value>()
        });
        spec = with(&spec, &["variables"], Some(list.into_iter().collect()));
        more.extend(["variables.short", "variables.broken == 1", "variables.twice.all(t, t)"]);
    }
    let params = random.one_in(3);
    if params {
        let kind = match random.below(8) {
            0 => "{apiVersion: example.com/v1, kind: Nope}",
            1 => "{apiVersion: v1, kind: Namespace}",
            _ => "{apiVersion: v1, kind: ConfigMap}",
        };
        spec = with(&spec, &["paramKind"], Some(document(kind)));
        more.extend([
            "params == null",
            "params.data.limit == '1'",
            "params != null && params.metadata.name == 'one'",
        ]);
    }
    if random.one_in(3) {
        let count = random.below(2) + 1;
        let conditions = (0..count).map(|index| {
            [
                ("name", Value::from(format!("n{index}"))),
                ("expression", random.pick(&CONDITIONS).into()),
            ]
            .into_iter()
            .collect::<Value>()
        });
        spec = with(&spec, &["matchConditions"], Some(conditions.collect()));
    }
    Head { spec, more, params }
}

fn named(kind: &str, name: &str, spec: Value) -> Value {
    let metadata: Value = [("name", Value::from(name))].into_iter().collect();
    [
        ("apiVersion", Value::from("admissionregistration.k8s.io/v1")),
        ("kind", kind.into()),
        ("metadata", metadata),
        ("spec", spec),
    ]
    .into_iter()
    .collect()
}

fn binding(random: &mut Random, policy: &str, params: bool) -> Value {
    let mut spec: Value = [("policyName", Value::from(policy))].into_iter().collect();
    if params && !random.one_in(6) {
        let reference = random.pick(&[
            "name: one",
            "name: one",
            "name: absent",
            "selector: {matchLabels: {tier: x}}",
            "selector: {matchLabels: {tier: none}}",
            "selector: {matchExpressions: [{key: tier, operator: Exists}]}",
            "name: one, namespace: diff-b",
            "name: diff-a",
        ]);
        let missing = random.pick(&["Allow", "Deny"]);
        let reference = document(&format!("{{{reference}, parameterNotFoundAction: {missing}}}"));
        spec = with(&spec, &["paramRef"], Some(reference));
    }
    let matched = random.pick(&[
        "",
        "",
        "",
        "{namespaceSelector: {matchLabels: {env: prod}}}",
        "{objectSelector: {matchLabels: {team: red}}}",
        "{matchPolicy: Exact, resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE], \
         resources: ['*']}]}",
    ]);
    if !matched.is_empty() {
        spec = with(&spec, &["matchResources"], Some(document(matched)));
    }
    spec
}

fn validating(random: &mut Random, id: &str, kind: &Kind) -> Vec<Value> {
    let Head { mut spec, more, params } = head(random, id, kind, false);
    let pool: Vec<&str> = CONDITIONS
        .iter()
        .copied()
        .chain(more.iter().copied().cycle().take(more.len() * 4))
        .collect();
    let count = random.below(3) + 1;
    let mut validations: Vec<Value> = Vec::new();
    for _ in 0..count {
        let expression = random.pick(&pool);
        let mut validation: Value = [("expression", Value::from(expression))].into_iter().collect();
        if random.one_in(2) {
            let message = random.pick(&["a message", "  spaces  ", "<&>"]);
            validation = with(&validation, &["message"], Some(message.into()));
        }
        if random.one_in(2) {
            let text = random.pick(&MESSAGES);
            validation = with(&validation, &["messageExpression"], Some(text.into()));
        }
        if random.one_in(2) {
            let reason = random.pick(&[
                "Forbidden",
                "Forbidden",
                "Invalid",
                "Invalid",
                "RequestEntityTooLarge",
                "RequestEntityTooLarge",
                "Unauthorized",
            ]);
            validation = with(&validation, &["reason"], Some(reason.into()));
        }
        validations.push(validation);
    }
    spec = with(&spec, &["validations"], Some(validations.into()));
    if random.one_in(3) {
        let annotation = |random: &mut Random, key: &str| -> Value {
            [("key", Value::from(key)), ("valueExpression", random.pick(&VALUES).into())]
                .into_iter()
                .collect()
        };
        let list: Value =
            ["first", "second"].map(|key| annotation(random, key)).into_iter().collect();
        spec = with(&spec, &["auditAnnotations"], Some(list));
    }
    let policy = format!("p-{id}");
    let mut documents = vec![named("ValidatingAdmissionPolicy", &policy, spec)];
    let actions =
        ["[Deny]", "[Deny]", "[Deny]", "[Deny, Audit]", "[Warn]", "[Warn, Audit]", "[Audit]"];
    // One audit annotation about failures only: which one it is when there are more is chance.
    let count = if random.one_in(4) { 2 } else { 1 };
    for index in 0..count {
        let mut spec = binding(random, &policy, params);
        let actions = if count == 1 && validations_once(&documents[0]) {
            random.pick(&actions)
        } else {
            random.pick(&["[Deny]", "[Warn]"])
        };
        spec = with(&spec, &["validationActions"], Some(document(actions)));
        documents.push(named("ValidatingAdmissionPolicyBinding", &format!("b-{id}-{index}"), spec));
    }
    documents
}

/// Whether a policy is evaluated once: it has no parameters.
fn validations_once(policy: &Value) -> bool {
    policy.path(&["spec", "paramKind"]).is_none()
}

const CONFIGURATIONS: [&str; 9] = [
    "Object{metadata: Object.metadata{labels: {'added': 'yes'}}}",
    "Object{metadata: Object.metadata{annotations: {'name': object.metadata.name}}}",
    "Object{metadata: Object.metadata{finalizers: ['example.com/a', 'example.com/b']}}",
    "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{apiVersion: 'v1', \
     kind: 'Pod', name: 'p', uid: 'u'}]}}",
    "Object{}",
    "Object{metadata: Object.wrong{labels: {'a': 'b'}}}",
    "Object{metadata: Object.metadata{unknown: 'x'}}",
    "Object{metadata: Object.metadata{labels: {'a': object.missing}}}",
    "has(object.metadata.annotations) ? Object{} : Object{metadata: Object.metadata{annotations: {'none': 'yes'}}}",
];

const OF_CONFIG_MAPS: [&str; 4] = [
    "Object{data: {'c': 'new', 'a': 'changed'}}",
    "Object{immutable: true}",
    "Object{immutable: 'yes'}",
    "Object{data: {'count': object.data.a + 'x'}}",
];

const OF_DEPLOYMENTS: [&str; 14] = [
    "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}",
    "Object{spec: Object.spec{replicas: '3'}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{name: 'second', image: 'other:1'}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{name: 'side', image: 's:1'}, \
     Object.spec.template.spec.containers{name: 'main', image: 'm:1'}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, env: \
     [Object.spec.template.spec.containers.env{name: 'B', value: 'new'}, \
     Object.spec.template.spec.containers.env{name: 'C', value: 'c'}]})}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{name: 'main', ports: \
     [Object.spec.template.spec.containers.ports{containerPort: 80, name: 'http'}, \
     Object.spec.template.spec.containers.ports{containerPort: 81}]}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{name: 'main', args: ['a']}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{nodeSelector: {'a': 'b'}}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{tolerations: \
     [Object.spec.template.spec.tolerations{key: 'a', operator: 'Exists'}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{volumes: \
     [Object.spec.template.spec.volumes{name: 'v', emptyDir: Object.spec.template.spec.volumes.emptyDir{}}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{image: 'nameless'}]}}}}",
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
     [Object.spec.template.spec.containers{name: 'twice'}, Object.spec.template.spec.containers{name: 'twice'}]}}}}",
    "Object{spec: Object.spec{strategy: Object.spec.strategy{type: 'Recreate', rollingUpdate: null}}}",
    "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: \
     {'a': 'b', 'more': 'yes'}}, spec: Object.spec.template.spec{securityContext: \
     Object.spec.template.spec.securityContext{runAsNonRoot: true}}}}}",
];

const PATCHES: [&str; 24] = [
    "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'x'}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations/x', value: 'y'}]",
    "[JSONPatch{op: 'test', path: '/metadata/labels/team', value: 'red'}, \
     JSONPatch{op: 'replace', path: '/metadata/labels/team', value: 'blue'}]",
    "[JSONPatch{op: 'remove', path: '/metadata/labels/team'}]",
    "[JSONPatch{op: 'replace', path: '/metadata/labels/absent', value: 'set'}]",
    "[JSONPatch{op: 'copy', from: '/metadata/labels/case', path: '/metadata/labels/copied'}]",
    "[JSONPatch{op: 'move', from: '/metadata/labels/team', path: '/metadata/labels/crew'}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'only': 'this'}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{only: 'that'}}]",
    "[JSONPatch{op: 'add', path: '/unknown', value: 'x'}]",
    "[JSONPatch{op: 'add', path: '/missing/deeper', value: 'x'}]",
    "[JSONPatch{op: 'remove', path: '/metadata/labels/absent'}]",
    "[JSONPatch{op: 'copy', path: '/metadata/labels/copied'}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': b'bytes', 'b': b'\\xff'}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 9007199254740993}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': duration('90m')}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 1.0 / 0.0}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {1: 'a'}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{a: b'x'}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{a: null}}]",
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{a: quantity('1')}}]",
    "[JSONPatch{op: 'twist', path: '/metadata/labels/team'}]",
    "object.metadata.name.startsWith('web') ? [JSONPatch{op: 'add', path: '/metadata/labels/web', value: 'yes'}] : []",
    "[JSONPatch{op: 'add', path: object.missing, value: 'x'}]",
];

const PATCHES_OF_DEPLOYMENTS: [&str; 8] = [
    "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: \
     Object.spec.template.spec.containers{name: 'last', image: 'l:1'}}]",
    "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]",
    "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/0/args', value: ['a', 'b']}]",
    "[JSONPatch{op: 'remove', path: '/spec/template/spec/containers/1'}]",
    "[JSONPatch{op: 'remove', path: '/spec/template/spec/containers/-1'}]",
    "[JSONPatch{op: 'remove', path: '/spec/template/spec/containers/7'}]",
    "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/x', value: 'a'}]",
    "[JSONPatch{op: 'add', path: '/spec/template/spec/tolerations', value: [{'key': 'a', 'operator': 'Exists'}]}]",
];

fn mutating(random: &mut Random, id: &str, kind: &Kind) -> Vec<Value> {
    let policy = format!("p-{id}");
    let mut documents = Vec::new();
    let count = if random.one_in(5) { 2 } else { 1 };
    let deployments = kind.kind == "Deployment";
    let Head { mut spec, params, .. } = head(random, id, kind, true);
    let mut mutations: Vec<Value> = Vec::new();
    for _ in 0..count {
        let mutation = if random.one_in(2) {
            let own: &[&str] = if deployments { &OF_DEPLOYMENTS } else { &OF_CONFIG_MAPS };
            let text =
                if random.one_in(3) { random.pick(&CONFIGURATIONS) } else { random.pick(own) };
            ("ApplyConfiguration", "applyConfiguration", text)
        } else {
            let own: &[&str] = if deployments { &PATCHES_OF_DEPLOYMENTS } else { &PATCHES };
            let text = if random.one_in(2) { random.pick(&PATCHES) } else { random.pick(own) };
            ("JSONPatch", "jsonPatch", text)
        };
        let (name, member, text) = mutation;
        let expression: Value = [("expression", Value::from(text))].into_iter().collect();
        mutations
            .push([("patchType", Value::from(name)), (member, expression)].into_iter().collect());
    }
    spec = with(&spec, &["mutations"], Some(mutations.into()));
    let again = random.pick(&["Never", "IfNeeded"]);
    spec = with(&spec, &["reinvocationPolicy"], Some(again.into()));
    documents.push(named("MutatingAdmissionPolicy", &policy, spec));
    let spec = binding(random, &policy, params);
    documents.push(named("MutatingAdmissionPolicyBinding", &format!("b-{id}"), spec));
    documents
}
