//! The additions for policies of the cluster: the authorizer, and the objects
//! that mutations build.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use modgate_cel::{
    Access, Action, Activation, Arena, Authorization, Authorizer, Env, Opaque, Program, Type, Val,
};
use modgate_value::Budget;

/// Allows what is done to pods, and knows one service account that may do more.
#[derive(Debug)]
struct Pods;

impl Authorizer for Pods {
    fn decide(&self, action: &Action<'_>) -> Result<Access, String> {
        let written = format!(
            "{:?} {} {}{}/{}/{} {}/{} {} {}",
            action.service_account,
            action.verb,
            action.path,
            action.group,
            action.resource,
            action.subresource,
            action.namespace,
            action.name,
            action.field_selector,
            action.label_selector
        );
        let allowed = action.resource == "pods" || action.service_account.is_some();
        let error = (action.verb == "fail").then(|| "no answer".to_owned());
        match action.verb {
            "unanswered" => Err("the authorizer is away".to_owned()),
            _ => Ok(Access { allowed, reason: written, error }),
        }
    }
}

struct Request {
    authorizer: Val<'static>,
    resource: Val<'static>,
}

impl Activation for Request {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "authorizer" => Some(self.authorizer),
            "authorizer.requestResource" => Some(self.resource),
            _ => None,
        }
    }
}

fn request() -> Request {
    let leaked = |value| Val::Opaque(Box::leak(Box::new(Opaque::Authorization(value))));
    let action = Action { resource: "pods", namespace: "n", name: "x", ..Action::default() };
    Request {
        authorizer: leaked(Authorization::of(&Pods, "", None)),
        resource: leaked(Authorization::of_resource(&Pods, action)),
    }
}

fn env() -> Env {
    Env::new()
        .with("authorizer", Type::Plain("kubernetes.authorization.Authorizer"))
        .with("authorizer.requestResource", Type::Plain("kubernetes.authorization.ResourceCheck"))
        .with_patches()
}

/// The value as JSON, or the error; and the cost.
fn evaluate(text: &str) -> (String, u64) {
    let program = match Program::compile(text, &env()) {
        Ok(program) => program,
        Err(error) => return (error.to_string(), 0),
    };
    let (request, arena, budget) = (request(), Arena::new(), Budget::unlimited());
    match program.eval(&request, &arena, &budget, 10_000_000) {
        Ok((value, cost)) => {
            (value.to_json().map_or_else(|e| e.to_string(), |v| v.to_json()), cost)
        }
        Err(error) => (error.to_string(), 0),
    }
}

#[test]
fn the_authorizer() {
    for (text, value, cost) in [
        ("authorizer.group('').resource('pods').check('get').allowed()", "true", 350_004),
        ("authorizer.group('').resource('secrets').check('get').allowed()", "false", 350_004),
        (
            "authorizer.group('').resource('secrets').check('fail').error()",
            "\"no answer\"",
            350_004,
        ),
        (
            "authorizer.group('').resource('secrets').check('unanswered').allowed()",
            "the authorizer is away",
            0,
        ),
        ("authorizer.path('/healthz').check('get').errored()", "false", 350_003),
        ("authorizer.path(' ').check('get').errored()", "path must not be empty", 0),
        (
            "authorizer.group('').resource('').check('get').errored()",
            "resource must not be empty",
            0,
        ),
        (
            "authorizer.serviceAccount('a', 'b').group('g').resource('r').subresource('s')\
             .namespace('n').name('x').check('get').reason()",
            "\"Some((\\\"a\\\", \\\"b\\\")) get g/r/s n/x  \"",
            350_008,
        ),
        (
            "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
            "Invalid service account name",
            0,
        ),
        (
            "authorizer.serviceAccount('a.b', 'b').path('/').check('get').allowed()",
            "Invalid service account namespace",
            0,
        ),
        ("authorizer.requestResource.check('get').reason()", "\"None get /pods/ n/x  \"", 350_002),
        // A list, and for four characters one part of text and two requirements.
        (
            "authorizer.group('').resource('pods').labelSelector('a=b,').check('get').allowed()",
            "true",
            350_115,
        ),
    ] {
        assert_eq!(evaluate(text), (value.to_owned(), cost), "{text}");
    }
}

#[test]
fn objects_and_patches() {
    for (text, value) in [
        (
            "Object{spec: Object.spec{replicas: 1 + 2, ?paused: optional.none()}}",
            r#"{"spec":{"replicas":3}}"#,
        ),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'x'}]",
            r#"[{"op":"add","path":"/metadata/labels/a~1b~0c","value":"x"}]"#,
        ),
        ("Object{a: 1} == Object{a: 1}", "true"),
        ("Object{a: 1} == Object{a: 2}", "false"),
        ("true ? [JSONPatch{op: 'remove', path: '/a'}] : []", r#"[{"op":"remove","path":"/a"}]"#),
    ] {
        assert_eq!(evaluate(text).0, value, "{text}");
    }
    assert!(evaluate("JSONPatch{op: 1}").0.contains("expected type of field 'op' is 'string'"));
    assert!(evaluate("JSONPatch{other: 1}").0.contains("undefined field 'other'"));
    assert!(evaluate("Objects{}").0.contains("undeclared reference to 'Objects'"));
    let plain = Program::compile("Object{}", &Env::new()).expect_err("only mutations build");
    assert!(plain.to_string().contains("undeclared reference to 'Object'"), "{plain}");
    let plain = Program::compile("jsonpatch.escapeKey('a')", &Env::new()).expect_err("as above");
    assert!(plain.to_string().contains("undeclared reference"), "{plain}");
}

#[test]
fn names_of_types_are_paths() {
    let program = Program::compile(
        "Object{spec: Object.spec{template: Object.wrong{}, list: [Object.spec.list{}]}}",
        &env(),
    )
    .expect("it compiles");
    assert_eq!(program.ty(), &Type::apply_configuration());
    let (request, arena, budget) = (request(), Arena::new(), Budget::unlimited());
    let (value, _) = program.eval(&request, &arena, &budget, 1000).expect("a value");
    let problem = "unexpected type name \"Object.wrong\", expected \"Object.spec.template\", which \
                   matches field name path from root Object type";
    assert_eq!(value.misnamed(), [problem]);
}
