//! KubeMod's contexts: the table of spec `kubemod.md` 4.3, and the quirks Q-23, Q-45, Q-46, Q-48.

#![allow(clippy::expect_used, reason = "a test")]

use modgate_template::{
    Data, Env, Isolated, KeyPart, PatchContext, RejectContext, Template, preprocess,
};
use modgate_value::{Budget, Value};

const TARGET: &str = r#"{
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "w"}},
    "spec": {
        "nul": null, "str": "text", "n": 7, "big": 1000000,
        "list": ["a", "b", "c"], "map": {"k": "v"}, "m": {"x": 1}
    }
}"#;

/// The output, or the error without its place.
fn render(text: &str, selected: Option<&str>) -> Result<String, String> {
    let target = Value::from_json(TARGET.as_bytes()).expect("target");
    let selected = selected.map(|json| Value::from_json(json.as_bytes()).expect(json));
    let context = PatchContext {
        target: &target,
        namespace: "ns",
        selected_item: selected.as_ref(),
        select_key_parts: &[KeyPart::Index(3), KeyPart::Key("key")],
    };
    render_with(text, context)
}

fn render_with<'a>(text: &str, data: impl Into<Data<'a>>) -> Result<String, String> {
    let template = Template::parse("x", text).map_err(|error| error.to_string())?;
    let budget = Budget::unlimited();
    let env = Env { budget: &budget, host: &Isolated };
    template.render(data, &env).map_err(|error| {
        let message = error.to_string();
        message.split_once(">: ").map(|(_, rest)| rest.to_owned()).unwrap_or(message)
    })
}

fn check(text: &str, expected: &str) {
    assert_eq!(render(&preprocess(text), None).as_deref(), Ok(expected), "{text}");
}

fn check_error(text: &str, expected: &str) {
    assert_eq!(render(&preprocess(text), None), Err(expected.to_owned()), "{text}");
}

#[test]
fn the_table_of_value_templates() {
    check("{{ .Target.metadata.nope }}", "<no value>");
    check("{{ .Target.metadata.nope.deeper.still }}", "<no value>");
    check("{{ .Target.spec.nul }}", "<no value>");
    check("{{ .SelectedItem }}", "<no value>");
    check(r#"{{ index .Target.spec.m "zz" }}"#, "<no value>");
    check_error("{{ .Target.spec.nul.a }}", "nil pointer evaluating interface {}.a");
    check_error("{{ .Target.spec.str.a }}", "can't evaluate field a in type interface {}");
    check_error("{{ .Target.spec.n.a }}", "can't evaluate field a in type interface {}");
    check_error("{{ .Target.spec.list.a }}", "can't evaluate field a in type interface {}");
    check_error("{{ .Foo }}", "can't evaluate field Foo in type *core.PatchTemplateContext");
    check_error("{{ index .Target.spec.list 9 }}", "error calling index: index out of range: 9");
    check_error("{{ .#5 }}", "error calling index: index out of range: 5");
    check("{{ .Target.spec.n }} {{ .Target.spec.big }}", "7 1e+06");
    check("{{ .Target.spec.list }}", "[a b c]");
    check("{{ .Target.spec.map }}", "map[k:v]");
    check("{{ toJson .Target.spec.list }}", r#"["a","b","c"]"#);
    check_error(
        "{{ eq .Target.spec.n 7 }}",
        "error calling eq: incompatible types for comparison: float64 and int",
    );
    check("{{ eq .Target.spec.n 7.0 }} {{ eq (int .Target.spec.n) 7 }}", "true true");
    check(r#"{{ hasKey .Target.metadata "name" }}"#, "true");
    check("{{ .Namespace }} {{ .SelectKeyParts }}", "ns [3 key]");
}

#[test]
fn captured_keys() {
    check("{{ .#0 }}-{{ .#1 }}", "3-key");
    check("v1.#0", "v1(index .SelectKeyParts 0)");
    check("{{ add .#0 1 }}", "4");
}

#[test]
fn the_selected_item() {
    for (json, text, expected) in [
        (r#""x""#, "{{ .SelectedItem }}", "x"),
        ("1000000", "{{ .SelectedItem }}", "1e+06"),
        (
            r#"{"name": "c", "image": "i"}"#,
            "{{ .SelectedItem.name }}/{{ .SelectedItem.image }}",
            "c/i",
        ),
        ("null", "{{ .SelectedItem }}", "<no value>"),
        ("false", r#"{{ default "d" .SelectedItem }}"#, "d"),
    ] {
        assert_eq!(render(text, Some(json)).as_deref(), Ok(expected), "{text}");
    }
}

/// Spec Q-46, a superset: the original cannot pass bare `.Target` to these.
#[test]
fn bare_target_is_a_map_to_map_functions() {
    check(r#"{{ hasKey .Target "kind" }} {{ get .Target "kind" }}"#, "true Pod");
    check("{{ keys .Target | sortAlpha }}", "[kind metadata spec]");
    check(r#"{{ dig "metadata" "name" "none" .Target }}"#, "web");
    check(r#"{{ (pick .Target "kind").kind }} {{ len (omit .Target "spec") }}"#, "Pod 2");
}

/// `.Target` is a pointer to an interface in the original, and so always true and never empty.
#[test]
fn target_is_a_pointer() {
    check("{{ typeOf .Target }} {{ kindOf .Target }}", "*interface {} ptr");
    check("{{ if .Target }}yes{{ end }} {{ empty .Target }} {{ len .Target }}", "yes false 3");
    check("{{ with .Target }}{{ .kind }}{{ end }}", "Pod");
    check("{{ range $k, $v := .Target }}{{ $k }},{{ end }}", "kind,metadata,spec,");
    check_error("{{ first .Target }}", "error calling first: Cannot find first on type ptr");
}

/// Spec Q-45: a template's changes are its own, and within it everyone sees them.
#[test]
fn changes_stay_inside_the_template() {
    let target = Value::from_json(TARGET.as_bytes()).expect("target");
    let context = RejectContext { target: &target, namespace: "" };
    let text = concat!(
        r#"{{ $m := .Target.metadata }}{{ $_ := set $m "added" 1 }}"#,
        r#"{{ $_ := unset .Target.metadata.labels "app" }}"#,
        r#"{{ $_ := merge .Target.spec (dict "fresh" 2) }}"#,
        "{{ .Target.metadata.added }} {{ .Target.metadata.labels }} {{ .Target.spec.fresh }} ",
        "{{ hasKey $m \"added\" }} {{ toJson .Target.metadata }}",
    );
    let expected = r#"1 map[] 2 true {"added":1,"labels":{},"name":"web"}"#;
    assert_eq!(render_with(text, context).as_deref(), Ok(expected));
    assert_eq!(target, Value::from_json(TARGET.as_bytes()).expect("target"));
    // The next template starts from the data again.
    assert_eq!(
        render_with("{{ .Target.metadata }}", context).as_deref(),
        Ok("map[labels:map[app:w] name:web]")
    );
}

#[test]
fn reject_messages_have_fewer_fields() {
    let target = Value::from_json(TARGET.as_bytes()).expect("target");
    let context = RejectContext { target: &target, namespace: "my-ns" };
    assert_eq!(
        render_with("{{ .Namespace }}: not allowed {{ .Target.spec.list }}", context).as_deref(),
        Ok("my-ns: not allowed [a b c]")
    );
    assert!(render_with("{{ .SelectedItem }}", context).is_err());
}

#[test]
fn removed_functions_are_unknown() {
    for name in ["env", "expandenv", "toYaml", "lookup", "include", "tpl", "required"] {
        let error = Template::parse("x", &format!("{{{{ {name} \"a\" }}}}")).expect_err(name);
        assert_eq!(error.to_string(), format!("template: x:1: function \"{name}\" not defined"));
        assert_eq!(error.span, 3..3 + name.len());
    }
}

#[test]
fn functions_that_are_not_pure_are_listed() {
    let template = Template::parse(
        "x",
        r#"{{ uuidv4 }}{{ define "t" }}{{ now | date "2006" }}{{ now }}{{ end }}{{ upper "a" }}"#,
    )
    .expect("template");
    assert_eq!(template.impure_functions(), ["now", "uuidv4"]);
    let error = render("{{ uuidv4 }}", None).expect_err("no randomness");
    assert_eq!(error, "error calling uuidv4: templates have no access to randomness here");
    let error = render(r#"{{ getHostByName "a" }}"#, None).expect_err("no network");
    assert_eq!(error, "error calling getHostByName: templates have no access to the network here");
}

#[test]
fn constants_are_known() {
    let constant =
        |text: &str| Template::parse("x", text).expect(text).as_constant().map(str::to_owned);
    assert_eq!(constant("plain: text").as_deref(), Some("plain: text"));
    assert_eq!(constant("").as_deref(), Some(""));
    assert_eq!(constant("a {{- /* comment */ -}} b").as_deref(), Some("ab"));
    assert_eq!(constant(r#"x{{ define "t" }}{{ . }}{{ end }}y"#).as_deref(), Some("xy"));
    assert_eq!(constant("{{ 1 }}"), None);
}
