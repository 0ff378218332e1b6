//! Facts that are known before a program runs change neither its values nor, for the worse, its
//! steps.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code, helpers included"
)]

use modgate_rego::{
    Capabilities, Error, GroupId, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module, specialize, specialize_for,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};

/// The value of `t.violation` and the steps that it takes.
fn evaluate(program: &Program, violation: GroupId, input: &Json) -> (String, u64) {
    outcome(program, violation, input).expect("a value")
}

/// The same, or the error of the evaluation.
fn outcome(program: &Program, violation: GroupId, input: &Json) -> Result<(String, u64), Error> {
    within(Limits::UNLIMITED, program, violation, input).map(|(text, steps, _)| (text, steps))
}

/// The same within limits, and the bytes that it takes.
fn within(
    limits: Limits,
    program: &Program,
    violation: GroupId,
    input: &Json,
) -> Result<(String, u64, u64), Error> {
    let (arena, budget) = (Arena::new(), Budget::new(limits, &Frozen));
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let found = eval::document(program, violation, context)?;
    let text = found.expect("a set").to_text(&Budget::unlimited()).expect("text");
    Ok((text, budget.steps_spent(), budget.bytes_spent()))
}

/// The value and the steps of the program as it was written, and specialized.
fn both(policy: &str) -> [(String, u64); 2] {
    let input = Json::from_json(
        br#"{"parameters": {"most": 2}, "review": {
            "a": [{"name": "x", "size": 3}, {"name": "y", "size": 1}],
            "b": [{"name": "z", "size": 5}], "c": {"d": {"name": "w", "size": 9}}, "n": 7,
            "e": [{"name": "v", "size": 4}], "f": [{"name": "u", "size": 4}]}}"#,
    )
    .expect("JSON");
    let text = format!("package t\n{policy}");
    let module = parse_module("policy", &text, RegoVersion::V1);
    let module = module.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
    let program = Program::compile(&[module], &Capabilities::default());
    let program = program.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
    let violation = program.group(&["t", "violation"]).expect("a rule");
    let parameters = input.get("parameters").expect("parameters");
    let budget = Budget::unlimited();
    let special = specialize(&program, "parameters", parameters, &budget);
    let alone = specialize_for(violation, &program, ("parameters", parameters), &budget);
    let [program, special, alone] =
        [&program, &special, &alone].map(|program| evaluate(program, violation, &input));
    assert_eq!(alone, special, "without what {policy} does not need");
    [program, special]
}

const GENERAL: &str = r#"
general contains {"msg": msg, "field": field} if {
    part := input.review[field][_]
    part.size > input.parameters.most
    msg := sprintf("%v of %v", [part.name, field])
}
general contains {"msg": msg, "field": field} if {
    part := input.review[field][key]
    not part.color
    msg := sprintf("%v: %v", [key, part.name])
}
"#;

#[test]
fn members_that_no_rule_asks_for_are_not_computed() {
    let asked = r#"
violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "c"}]
violation contains msg if general[{"msg": msg, "field": "missing"}]
general contains {"msg": "fixed", "field": "a"} if input.review.n > 6
general contains {"msg": "other", "field": "b"} if input.review.n > 6
"#;
    let [(plain, before), (special, after)] = both(&format!("{asked}{GENERAL}"));
    assert_eq!(plain, special);
    assert_eq!(special, r#"{"0: x", "1: y", "d: w", "fixed", "w of c", "x of a"}"#);
    assert!(2 * after < before, "{after} steps instead of {before}");
}

#[test]
fn members_that_another_set_takes_are_not_made() {
    let taken = r#"
violation contains {"text": msg} if general[{"msg": msg, "field": "a"}]
violation contains {"text": msg} if { input.review.n == 7; general[{"msg": msg, "field": "b"}] }
general contains {"msg": msg, "field": field} if {
    part := input.review[field][_]
    part.size > 1
    msg := sprintf("%v of %v", [part.name, field])
}
general contains {"msg": msg, "field": field} if {
    part := input.review[field][_]
    part.size > input.parameters.most
    msg := sprintf("large: %v", [part.name])
}
"#;
    let direct = r#"
violation contains {"text": msg} if {
    part := input.review.a[_]
    part.size > 1
    msg := sprintf("%v of %v", [part.name, "a"])
}
violation contains {"text": msg} if {
    part := input.review.a[_]
    part.size > input.parameters.most
    msg := sprintf("large: %v", [part.name])
}
violation contains {"text": msg} if {
    input.review.n == 7
    part := input.review.b[_]
    part.size > 1
    msg := sprintf("%v of %v", [part.name, "b"])
}
violation contains {"text": msg} if {
    input.review.n == 7
    part := input.review.b[_]
    part.size > input.parameters.most
    msg := sprintf("large: %v", [part.name])
}
"#;
    let [(plain, _), (special, steps)] = both(taken);
    assert_eq!(plain, special);
    assert_eq!(both(direct)[1], (special, steps), "as if the rules were written there");
}

/// Members that compare equal are not the same, and which is kept depends on what was made first.
#[test]
fn members_with_numbers_that_another_set_takes_are_those_that_it_had() {
    for more in ["", r#"violation contains "many" if count(general) > 3"#] {
        let policy = r#"
violation contains size if general[{"size": size, "field": "b"}]
violation contains size if general[{"size": size, "field": "a"}]
general contains {"size": 1.0, "field": "a"} if input.review.n > 6
general contains {"size": size, "field": field} if {
    size := input.review[field][_].size
    size < input.parameters.most
}
"#;
        let [(plain, _), (special, _)] = both(&format!("{policy}{more}"));
        assert_eq!(plain, special, "{more}");
    }
}

#[test]
fn sets_that_are_asked_in_other_ways_are_computed_once() {
    for asked in [
        // As a whole, too.
        r#"violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains "many" if count(general) > 3"#,
        // For many fields.
        r#"violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "b"}]
violation contains msg if general[{"msg": msg, "field": "c"}]
violation contains msg if general[{"msg": msg, "field": "e"}]
violation contains msg if general[{"msg": msg, "field": "f"}]"#,
        // For what is not a text.
        r#"violation contains msg if general[{"msg": msg, "field": 1}]"#,
        r#"violation contains member if { some member in general; member.field == "b" }"#,
        r#"violation contains field if general[{"msg": "z of b", "field": field}]"#,
    ] {
        let [(plain, before), (special, after)] = both(&format!("{asked}\n{GENERAL}"));
        assert_eq!(plain, special, "{asked}");
        assert!(after <= before + 20, "{asked}: {after} steps instead of {before}");
    }
}

#[test]
fn rules_that_begin_with_something_else_keep_their_set() {
    let [(plain, before), (special, after)] = both(
        r#"
violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "b"}]
general contains {"msg": msg, "field": field} if {
    sum([part.size | part := input.review[_][_]]) > input.parameters.most
    part := input.review[field][_]
    msg := part.name
}
general contains {"msg": msg, "field": field} if {
    some field in ["a", "b"]
    some msg, _ in {"m": 1}
}
"#,
    );
    assert_eq!(plain, special);
    assert!(after <= before + 20, "{after} steps instead of {before}");
}

#[test]
fn single_members_are_found_in_sets_that_were_split() {
    let [(plain, _), (special, _)] = both(
        r#"
violation contains "x" if names["x"]
violation contains "big" if names[{"of": "w", "size": 9}]
violation contains "none" if not names.none
violation contains name if { some part in input.review.a; name := names[part.name] }
names contains name if {
    some part in input.review.a
    part.size > 0
    name := part.name
}
names contains {"of": name, "size": size} if {
    some part in input.review.c
    size := part.size
    name := part.name
}
"#,
    );
    assert_eq!(plain, special);
    assert_eq!(special, r#"{"big", "none", "x", "y"}"#);
}

#[test]
fn small_functions_give_what_their_calls_give() {
    let [(plain, _), (special, _)] = both(
        r#"
violation contains part.name if { some part in input.review.a; is_big(part) }
violation contains sprintf("not %v", [part.name]) if { some part in input.review.a; not is_big(part) }
violation contains sprintf("odd %v", [part.name]) if { some part in input.review.a; odd(part, "name") }
violation contains sprintf("no color %v", [part.name]) if { some part in input.review.a; missing(part, "color") }
violation contains sprintf("no name %v", [part]) if { some part in input.review.a; missing(part, "name") }
violation contains sprintf("size %v", [size]) if { some part in input.review.a; size := size_of(part) }
violation contains "pair" if pair([1, input.review.n])
violation contains "not pair" if not pair([2, input.review.n])
violation contains "some" if some_big(input.review.a)
violation contains "names" if [name_of(part) | some part in input.review.a] == ["x", "y"]
violation contains "every" if every part in input.review.a { has_name(part, part.name) }
violation contains "else" if limited(input.review.n)
violation contains "twice" if { is_big(input.review.a[0]); is_big(input.review.b[0]) }
violation contains "false" if not gives_false(input.review)
violation contains "undefined" if { part := input.review.a[0]; not size_of(part.none) }
is_big(part) if part.size > input.parameters.most
is_big(part) if { part.name == "y"; input.review.n == 8 }
odd(part, field) if { part[field] == "x"; input.parameters.most == 2 }
missing(of, field) if not of[field]
missing(of, field) if of[field] == ""
size_of(part) := part.size
pair([1, n]) if n > 6
some_big(parts) if { some part in parts; part.size > 2 }
name_of(part) := name if { name := part.name }
has_name(part, name) if { part.name == name; is_big({"size": 9}) }
limited(n) if { n > 100 } else if { n == 7 }
gives_false(x) := x.none == 1
gives_false(x) := false if x.n == 7
"#,
    );
    assert_eq!(plain, special);
    for found in
        ["\"x\"", "not y", "odd x", "no color x", "size 3", "pair", "some", "else", "twice"]
    {
        assert!(special.contains(found), "{found}: {special}");
    }
}

#[test]
fn calls_of_small_functions_take_no_more_steps() {
    for policy in [
        "violation contains part.name if { some part in input.review.a; has(part, \"name\") }\nhas(x, y) if x[y]",
        "violation contains part.name if { some part in input.review.a; not no(part, \"name\") }\nno(x, y) if \
         not x[y]\nno(x, y) if x[y] == 1",
        "violation contains part.name if { some part in input.review.a; no(part, \"name\") }\nno(x, y) if \
         not x[y]\nno(x, y) if x[y] == \"x\"\nno(x, y) if x[y] == \"y\"",
        "violation contains part.name if { some part in input.review.a; get(part, \"size\") > 1 }\nget(x, y) := x[y]",
    ] {
        let [(plain, before), (special, after)] = both(policy);
        assert_eq!(plain, special);
        assert!(after <= before, "{policy}: {after} steps instead of {before}");
    }
}

#[test]
fn rules_that_begin_alike_give_what_each_gives() {
    let alike = r#"
violation contains msg if {
    some part in input.review.a
    size := part.size
    size > 2
    msg := sprintf("%v is big", [part.name])
}
violation contains msg if {
    some other in input.review.a
    extent := other.size
    not extent > 2
    msg := sprintf("%v is small", [other.name])
}
violation contains {"msg": msg, "kind": "plain"} if {
    some part in input.review.a
    msg := sprintf("%v", [part.name])
}
violation contains msg if {
    some part in input.review.a
    size := part.size
    size > input.parameters.most
    msg := sprintf("%v is bigger", [part.name])
}
violation contains msg if {
    some part in input.review.a
    size := part.size
    size > input.parameters.most
    some other in input.review.b
    msg := sprintf("%v and %v", [part.name, other.name])
}
violation contains "fixed" if { some part in input.review.b; part.size == 5 }
"#;
    let [(plain, before), (special, after)] = both(alike);
    assert_eq!(plain, special);
    assert_eq!(
        special,
        r#"{"fixed", "x and z", "x is big", "x is bigger", "y is small", {"kind": "plain", "msg": "x"}, {"kind": "plain", "msg": "y"}}"#
    );
    assert!(after + 10 < before, "{after} steps instead of {before}");
}

#[test]
fn of_equal_members_the_first_is_kept() {
    // The order in which members are found decides between `1` and `1.0`.
    let [(plain, _), (special, _)] = both(
        r#"
violation contains member if { some part in input.review.a; part.size == 1; member := {"n": 1.0, "of": part.name} }
violation contains member if { some part in input.review.a; part.size == 3; member := {"n": 3.0, "of": part.name} }
violation contains member if { some part in input.review.a; member := {"n": part.size, "of": part.name} }
violation contains member if { some part in input.review.a; part.size > input.parameters.most; member := {"n": 3.00, "of": part.name} }
"#,
    );
    assert_eq!(plain, special);
    assert!(special.contains("1.0") && special.contains("3.0"), "{special}");
}

#[test]
fn rules_of_functions_that_begin_alike_agree_as_they_did() {
    let [(plain, before), (special, after)] = both(
        r#"
violation contains {"of": part.name, "size": of(part), "first": first(part.name), "is": is(part), "case": case(part.name)} if {
    some part in input.review.a
}
violation contains {"in": part.name, "size": of(part), "parts": parts} if {
    some part in input.review.b
    parts := [found | some other in input.review.a; found := first(other.name)]
}
of(part) := size if { is_object(part); count(part) > 1; part.size > 2; size := part.size }
of(part) := size if { is_object(part); count(part) > 1; part.size <= 2; size := part.size * 10 }
of(part) := size if { is_object(part); count(part) > 5; size := 0 }
of(part) := 0 if not is_object(part)
first(name) := found if {
    is_string(name)
    some part in input.review.a
    part.name == name
    found := count(part)
}
first(name) := found if { is_string(name); count(name) > 1; found := count(name) + count(name) }
first(name) := found if { is_string(name); name == "x"; found := 2.0 }
is(part) if { is_number(part.size); part.size > 2 }
is(part) if { is_number(part.size); part.name == "y" }
case(name) := "a" if { is_string(name); startswith(name, "x") }
case(name) := "b" if { is_string(name); not startswith(name, "x") }
"#,
    );
    assert_eq!(plain, special);
    assert!(after < before, "{after} steps instead of {before}");
}

#[test]
fn functions_whose_rules_disagree_fail_as_they_did() {
    let text = r#"package t
violation contains of("x")
of(name) := 1 if { is_string(name); count(name) > 0 }
of(name) := 2 if { is_string(name); count(name) > 0; startswith(name, input.review.start) }
"#;
    let module = parse_module("policy", text, RegoVersion::V1).expect("a module");
    let program = Program::compile(&[module], &Capabilities::default()).expect("a program");
    let violation = program.group(&["t", "violation"]).expect("a rule");
    let special = specialize(&program, "parameters", &Json::Null, &Budget::unlimited());
    for (start, fails) in [("x", true), ("y", false)] {
        let input = format!(r#"{{"parameters": null, "review": {{"start": "{start}"}}}}"#);
        let input = Json::from_json(input.as_bytes()).expect("JSON");
        for program in [&program, &special] {
            let found = outcome(program, violation, &input);
            assert_eq!(found.is_err(), fails, "{start}");
        }
    }
}

#[test]
fn members_from_functions_are_found_by_key() {
    let [(plain, _), (special, _)] = both(
        r#"
violation contains "x" if sizes[3]
violation contains "named" if named["x"]
sizes contains size if { some part in input.review.a; size := of(part) }
named contains name if { some part in input.review.a; name := called(part); name == part.name }
of(part) := size if size := part.size
called(part) := name if { name := part.name; name == part.name }
"#,
    );
    assert_eq!(plain, special);
    assert_eq!(special, r#"{"named", "x"}"#);
}

#[test]
fn rules_over_constants_are_taken_apart() {
    let [(plain, before), (special, after)] = both(
        r#"
violation contains {"msg": msg} if {
    field := ["name", "size", "none", "most"][_]
    part := input.review.a[_]
    msg := wrong(field, part)
}
violation contains names[_]
violation contains "w" if names.w
violation contains "x" if names.x
names contains name if { name := ["w", "v"][_]; input.review.c[_].name == name }
wrong(field, part) := msg if { field == "name"; msg := sprintf("name %v", [part.name]) }
wrong(field, part) := msg if { field == "most"; part.size > input.parameters[field]; msg := sprintf("size %v", [part.size]) }
wrong(field, part) := msg if { field == "none"; not is_object(part); msg := "none" }
"#,
    );
    assert_eq!(plain, special);
    assert!(after < before, "{after} steps instead of {before}");
}

#[test]
fn conditions_over_constants_are_taken_apart() {
    let [(plain, before), (special, after)] = both(
        r#"
violation contains {"msg": part.name, "known": known} if {
    some part in input.review.a
    not any_of(part.name, ["a*", "b*", "c", "d"])
    not any_of(part.name, ["a*", "y", "c", "d"])
    known := [other | other := input.review.a[_].name; any_of(other, ["x*", "x", "y"])]
}
violation contains "never" if any_of("f", ["a*", "b*"])
violation contains "always" if any_of("f", ["a*", "f*"])
violation contains "else" if { some part in input.review.b; kind(part) == "other" }
violation contains {"unlisted": name} if { name := input.review[_][_].name; not listed(name) }
listed(name) if { name == ["x", "z", "w", "7"][_] }
any_of(name, patterns) if { pattern := patterns[_]; endswith(pattern, "*"); startswith(name, trim_suffix(pattern, "*")) }
any_of(name, patterns) if { pattern := patterns[_]; not endswith(pattern, "*"); name == pattern }
kind(part) := "known" if { name := ["x", "y", "v"][_]; part.name == name } else := "other"
"#,
    );
    assert_eq!(plain, special);
    assert!(2 * after < before, "{after} steps instead of {before}");
}

/// `sprintf` prints lists, sets and objects as text, whatever the verb.
#[test]
fn known_values_are_printed_as_they_were() {
    let verbs = [
        "%v: %v",
        "%v: %d",
        "%v: %s",
        "%v: %q",
        "%v: %T",
        "%v: %60v|",
        "%v: %-60v|",
        "%v: %.3v",
        "%v: %x",
        "%[2]v of %[1]v",
        "%v",
        "%v %v %v",
        "%v: %+v",
        "%v: %#v",
        "%v: %t",
    ];
    let values = [
        r#"[input.parameters.most, "x\"é", null, 1.5, {"a": [true], "b": set()}]"#,
        r#"{input.parameters.most, "a", 1.0}"#,
        r#"{"most": input.parameters.most}"#,
        "array.slice([input.parameters.most], 1, 1)",
        "{x | x := input.parameters.most; x > 5}",
        "input.parameters.most",
        "input.parameters.most > 1",
        r#"["fixed"]"#,
    ];
    for value in values {
        for verb in verbs {
            let policy = format!(
                "value := {value}\nviolation contains sprintf(\"{verb}\", [part.name, value]) if \
                 some part in input.review.a"
            );
            let [plain, special] = both(&policy);
            assert_eq!(plain.0, special.0, "{policy}");
            assert!(plain.1 >= special.1, "{policy}");
        }
    }
}

/// A format that stands in the policy is read ahead, one that comes with the review is not: the text, what it takes
/// and which budgets are too small for it are the same.
#[test]
fn formats_that_are_known_print_as_others_do() {
    let values = [
        "input.review.text",
        "input.review.int",
        "input.review.float",
        "input.review.one",
        "input.review.big",
        "input.review.none",
        "input.review.yes",
        "input.review.list",
        "input.review.object",
        "input.review.empty",
        "{input.review.int, input.review.text}",
        "base64.decode(input.review.bytes)",
        "[base64.decode(input.review.bytes)]",
    ];
    let review = Json::from_json(
        br#"{"text": "a\"b", "int": -7, "float": 1.5, "one": 1.0, "big": 12345678901234567890123,
            "none": null, "yes": true, "empty": {}, "bytes": "/w==", "list": [1, "x", {"a": []}],
            "object": {"k": "v", "n": {"m": 2}}, "name": "name", "other": {"a": ["b"]}}"#,
    );
    let review = review.expect("JSON").as_object().cloned().expect("an object");
    for verb in ["%v", "%s", "%d", "%q", "%5v"] {
        let format = format!("<{verb}> of %v: %s");
        let mut review = review.clone();
        review.insert("format", format.as_str().into());
        let members = [("parameters", Json::Null), ("review", Json::from(review))];
        let input: Json = members.into_iter().collect();
        for value in values {
            let [known, unknown] = [format!("{format:?}"), "input.review.format".into()].map(|format| {
                let text = format!(
                    "package t\nviolation contains sprintf({format}, [{value}, input.review.name, \
                     input.review.other])"
                );
                let module = parse_module("policy", &text, RegoVersion::V1).expect("a module");
                let program = Program::compile(&[module], &Capabilities::default());
                let program = program.unwrap_or_else(|errors| panic!("{text}: {}", errors[0]));
                let violation = program.group(&["t", "violation"]).expect("a rule");
                let parameters = ("parameters", &Json::Null);
                let budget = Budget::unlimited();
                (specialize_for(violation, &program, parameters, &budget), violation)
            });
            let run = |(program, violation): &(Program, GroupId), limits| {
                within(limits, program, *violation, &input)
            };
            let [(text, steps, bytes), (other, more, same)] =
                [&known, &unknown].map(|program| run(program, Limits::UNLIMITED).expect("a value"));
            let what = format!("{format} {value}");
            // The format itself takes a step.
            assert_eq!((&text, steps + 1, bytes), (&other, more, same), "{what}");
            for limit in 0..steps + 2 {
                let [one, two] =
                    [(&known, limit), (&unknown, limit + 1)].map(|(program, steps)| {
                        run(program, Limits { steps, ..Limits::UNLIMITED }).is_ok()
                    });
                assert_eq!(one, two, "{what}: {limit} steps");
            }
            for bytes in (0..2 * bytes).step_by(7) {
                let [one, two] = [&known, &unknown]
                    .map(|program| run(program, Limits { bytes, ..Limits::UNLIMITED }).is_ok());
                assert_eq!(one, two, "{what}: {bytes} bytes");
            }
        }
    }
}
