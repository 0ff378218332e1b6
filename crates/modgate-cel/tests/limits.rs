//! The limits of an evaluation: costs, budgets, depth.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use modgate_cel::{
    Activation, Arena, CompileError, CostLimits, Env, EvalError, Evaluation, Key, MAX_DEPTH,
    MAX_NESTING, MAX_SIZE, Memo, Program, Type, Val, VariableKey, VariableKeys, Variables,
};
use modgate_value::{Budget, Limits, Value, budget::Frozen};

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

fn object(text: &str) -> Object {
    Object(Value::from_json(text.as_bytes()).expect("JSON"))
}

fn env() -> Env {
    Env::new().with("object", Type::Dyn)
}

#[test]
fn limits_end_an_evaluation() {
    let object = object(r#"{"spec": {"list": [1, 2, 3]}}"#);
    let program = Program::compile("object.spec.list.all(x, x > 0)", &env()).expect("compiles");
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let (_, cost) = program.eval(&object, &arena, &budget, u64::MAX).expect("enough");
    assert!(program.eval(&object, &arena, &budget, cost).is_ok());
    assert_eq!(program.eval(&object, &arena, &budget, cost - 1).err(), Some(EvalError::Cost));
    let small = budget.child(Limits { steps: 3, ..Limits::UNLIMITED });
    let error = program.eval(&object, &arena, &small, u64::MAX).err();
    assert!(matches!(error, Some(EvalError::Exhausted(_))), "{error:?}");
}

#[test]
fn expressions_share_what_they_may_cost() {
    let object = object("{}");
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let mut variables = Variables::new();
    variables.add("three", "[1, 2, 3].map(x, x * 2)", &env()).expect("compiles");
    let text = "size(variables.three) == 3";
    let program = Program::compile(text, &variables.declare(&env())).expect("compiles");
    let limits = CostLimits { expression: 1_000, total: 1_000 };
    let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
    assert!(matches!(evaluation.evaluate(&program), Ok(Val::Bool(true))));
    let first = limits.total - evaluation.remaining();
    assert!(matches!(evaluation.evaluate(&program), Ok(Val::Bool(true))));
    let second = limits.total - evaluation.remaining() - first;
    assert!(first > second + 30, "the variable is paid for once: {first}, {second}");
    let tight = CostLimits { total: first - 1, ..limits };
    let evaluation = Evaluation::new(&object, &variables, &arena, &budget, tight);
    assert_eq!(evaluation.evaluate(&program).err(), Some(EvalError::OutOfBudget));
}

#[test]
fn what_others_came_to_is_paid_for_and_ends_where_it_would() {
    let objects =
        [5, 6, 2].map(|most| object(&format!("{{\"list\": [1, 2, 3], \"most\": {most}}}")));
    let mut variables = Variables::new();
    let few = "object.list.filter(x, x > object.most)";
    variables.add("few", few, &env()).expect("compiles");
    let between = "size(variables.few) + 1";
    variables.add("between", between, &variables.declare(&env())).expect("compiles");
    let env = variables.declare(&env());
    let program = Program::compile("variables.between == 1", &env).expect("compiles");
    let key = |number: u128| Key::new(number);
    // The first variable reads what differs, and nothing else does.
    let keys = [10, 11, 12].map(|value| {
        let variable = |name, value| VariableKey {
            name: key(name),
            value: key(value),
            exact: Key::NONE,
            keyed: false,
            common: false,
        };
        let keys = VariableKeys::new([variable(1, value), variable(2, 20)]);
        keys.expect("few").with_bottom(1)
    });
    let arena = Arena::new();
    let budgets = [(); 3].map(|()| Budget::unlimited());
    let limits = CostLimits { expression: 1_000, total: 1_000 };
    let begin = |at: usize, limits| {
        let (object, budget) = (objects.get(at)?, budgets.get(at)?);
        Some(Evaluation::new(object, &variables, &arena, budget, limits))
    };
    let (memo, rest) = (Memo::new(), key(30));
    for (at, keys) in keys.iter().enumerate() {
        let alone = begin(at, limits).expect("one");
        let expected = matches!(alone.evaluate(&program), Ok(Val::Bool(true)));
        let spent = |at: usize| budgets.get(at).map(|it| (it.steps_spent(), it.bytes_spent()));
        let before = spent(at).expect("one");
        let evaluation = begin(at, limits).expect("one").sharing(&memo, keys);
        match evaluation.alike(rest) {
            Some(found) => assert_eq!((at, found, expected), (1, 7, true)),
            None => {
                assert!(at != 1, "the first one came to the same");
                let found = evaluation.evaluate_shared(&program, key(40));
                assert_eq!(matches!(found, Ok(Val::Bool(true))), expected);
                evaluation.keep_alike(rest, 7);
            }
        }
        assert_eq!(evaluation.remaining(), alone.remaining());
        let (steps, bytes) = spent(at).expect("one");
        assert_eq!((steps, bytes), (2 * before.0, 2 * before.1), "{at}");
    }
    // With too little left, nothing is taken from others.
    let cost = limits.total
        - begin(1, limits).map_or(0, |it| {
            assert!(it.evaluate(&program).is_ok());
            it.remaining()
        });
    for (total, found) in [(cost, Some(7)), (cost - 1, None)] {
        let tight = begin(1, CostLimits { total, ..limits }).expect("one");
        let tight = tight.sharing(&memo, keys.get(1).expect("one"));
        assert_eq!(tight.alike(rest), found);
        if found.is_none() {
            let error = tight.evaluate_shared(&program, key(40)).err();
            assert_eq!(error, Some(EvalError::OutOfBudget));
        }
    }
}

#[test]
fn errors_of_variables_are_their_readers() {
    let object = object("{}");
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let mut variables = Variables::new();
    assert!(variables.add("broken", "nope", &env()).is_err());
    variables.add("failing", "object.missing", &env()).expect("compiles");
    let env = variables.declare(&env());
    for (text, expected) in [
        (
            "variables.broken == 1",
            "composited variable \"broken\" fails to compile: compilation failed: ERROR: \
             <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^",
        ),
        (
            "variables.failing == 1",
            "composited variable \"failing\" fails to evaluate: no such key: missing",
        ),
    ] {
        let program = Program::compile(text, &env).expect("compiles");
        let limits = CostLimits::VALIDATIONS;
        let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
        let error = evaluation.evaluate(&program).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
    let error = Program::compile("variables.other", &env).expect_err("no such variable");
    assert!(error.to_string().contains("undefined field 'other'"), "{error}");
}

#[test]
fn results_have_the_type_they_must_have() {
    let error = Program::compile_to(&Type::BOOL, "object.a", &env()).expect_err("dynamic");
    assert_eq!(error.to_string(), "must evaluate to bool but got dyn");
    let error = Program::compile("int('x')", &env()).expect_err("constant");
    assert_eq!(
        error.to_string(),
        "program instantiation failed: type conversion error from 'string' to 'int'"
    );
    assert!(matches!(error, CompileError::Constant(_)));
}

/// The limits of a webhook's evaluation, small enough for a test without optimization.
const BUDGET: Limits = Limits { steps: 2_000_000, bytes: 16 << 20, time: Duration::MAX };

fn ends(text: &str, object: &Object) -> EvalError {
    let program = Program::compile(text, &env()).expect(text);
    let (arena, budget) = (Arena::new(), Budget::new(BUDGET, &Frozen));
    match program.eval(object, &arena, &budget, 1_000_000) {
        Err(error @ (EvalError::Cost | EvalError::Exhausted(_))) => error,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn bombs_end_within_their_budget() {
    let object = object(&format!(
        r#"{{"list": [{}], "text": "{}"}}"#,
        vec!["1"; 1_000].join(","),
        "a".repeat(100_000)
    ));
    for text in [
        "object.list.all(a, object.list.all(b, object.list.all(c, a + b + c > 0)))",
        "object.list.map(a, object.list.map(b, object.list.map(c, a)))",
        "lists.range(9999999).size() > 0",
        "object.list.map(x, object.text.replace('a', object.text)).size() > 0",
        "object.text.replace('', object.text).size() > 0",
        "object.list.map(x, object.text + object.text).size() > 0",
        "object.list.map(x, object.text.split('')).size() > 0",
        "object.list.map(x, object.text.matches('(a|aa)*b')).size() > 0",
        "object.list.map(x, object.text.findAll('a')).size() > 0",
        "object.list.map(x, object.list.distinct()).size() > 0",
        "object.list.map(x, sets.contains(object.list, object.list)).size() > 0",
    ] {
        ends(text, &object);
    }
}

#[test]
fn values_that_share_their_parts_are_walked_within_the_budget() {
    let object = object("{}");
    let mut variables = Variables::new();
    variables.add("v0", "[object, object]", &env()).expect("compiles");
    for index in 1..64 {
        let text = format!("[variables.v{0}, variables.v{0}]", index - 1);
        variables.add(&format!("v{index}"), &text, &variables.declare(&env())).expect("compiles");
    }
    let env = variables.declare(&env());
    for text in ["variables.v63 == variables.v63", "variables.v63.sum() == 1"] {
        let Ok(program) = Program::compile(text, &env) else { continue };
        let (arena, budget) = (Arena::new(), Budget::new(BUDGET, &Frozen));
        let limits = CostLimits::VALIDATIONS;
        let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
        let error = evaluation.evaluate(&program).expect_err(text);
        assert!(matches!(error, EvalError::Exhausted(_)), "{error}");
    }
}

#[test]
fn variables_cannot_deepen_one_another_without_an_end() {
    let object = object("{}");
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let mut variables = Variables::new();
    variables.add("v0", "[object]", &env()).expect("compiles");
    let levels = 100;
    let count = 100;
    for index in 1..count {
        let text = format!("{}variables.v{}{}", "[".repeat(levels), index - 1, "]".repeat(levels));
        let env = variables.declare(&env());
        variables.add(&format!("v{index}"), &text, &env).expect("compiles");
    }
    let env = variables.declare(&env());
    let limits = CostLimits::VALIDATIONS;
    let programs: Vec<Program> = (0..count)
        .map(|index| {
            let text = format!("variables.v{index} == variables.v{index}");
            Program::compile(&text, &env).expect("compiles")
        })
        .collect();
    let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
    // One after the other, so that none is deep in the stack of another.
    let results: Vec<_> = programs.iter().map(|program| evaluation.evaluate(program)).collect();
    assert!(results.iter().take(5).all(Result::is_ok));
    assert!(results.iter().skip(6).all(Result::is_err));
    // And all at once.
    let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
    assert!(programs.last().is_some_and(|last| evaluation.evaluate(last).is_err()));
}

#[test]
fn depth_is_bounded() {
    let deep = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{}{middle}{}", open.repeat(count), close.repeat(count))
    };
    let nesting = usize::from(MAX_NESTING);
    for (open, middle, close) in
        [("(", "1", ")"), ("[", "", "]"), ("{1:", "1", "}"), ("true?1:", "1", ""), ("-!", "1", "")]
    {
        let error = Program::compile(&deep(open, middle, close, 5_000), &env());
        let error = error.expect_err("too deep").to_string();
        assert!(error.contains("recursion limit exceeded"), "{error}");
    }
    let object = object("{}");
    for text in [
        deep("[", "object", "]", nesting - 1),
        vec!["1"; usize::from(MAX_DEPTH) - 1].join("+"),
        format!("object{}", ".?a".repeat(usize::from(MAX_DEPTH) - 2)),
        vec!["true"; 8_000].join(" && "),
    ] {
        let program = Program::compile(&text, &env()).expect("compiles");
        let (arena, budget) = (Arena::new(), Budget::unlimited());
        assert!(program.eval(&object, &arena, &budget, 1_000_000).is_ok());
    }
    let long = format!("'{}'", "a".repeat(MAX_SIZE));
    assert!(Program::compile(&long, &env()).is_err());
}

/// Expressions that the original refuses are refused before memory is taken for them.
#[test]
fn what_is_too_large_is_refused() {
    let object = object("{}");
    for text in ["lists.range(1000000000000)", "lists.range(9223372036854775807)"] {
        let program = Program::compile(text, &env()).expect(text);
        let (arena, budget) = (Arena::new(), Budget::new(BUDGET, &Frozen));
        let error = program.eval(&object, &arena, &budget, 1_000_000).expect_err(text);
        assert!(error.to_string().contains("exceeds maximum allowed"), "{text}: {error}");
        assert!(budget.bytes_spent() < 1_000, "{text}");
    }
}

#[test]
fn an_expression_is_evaluated_within_its_limits() {
    use modgate_cel::Expression;

    let document = Value::from_json(br#"{"l": [1, 2, 3], "f": 1.5, "t": "x"}"#).expect("JSON");
    let inputs = [("object", &document)];
    let compile = |text: &str| Expression::compile(text, &["object"]).expect("compiles");
    for (text, expected) in [
        ("object", r#"{"f":1.5,"l":[1,2,3],"t":"x"}"#),
        ("object.l.map(x, x * 2)", "[2,4,6]"),
        (
            "{'a': dyn(object.t), 'b': dyn([dyn(18446744073709551615u), object.f])}",
            r#"{"a":"x","b":[18446744073709551615,1.5]}"#,
        ),
        ("object.?missing", "null"),
    ] {
        assert_eq!(compile(text).evaluate(&inputs).expect(text).to_json(), expected);
    }
    assert!(Expression::compile("other == 1", &["object"]).is_err());
    for text in ["quantity('1')", "b'a'", "double('NaN')", "{1: 2}", "object.nope"] {
        assert!(compile(text).evaluate(&inputs).is_err(), "{text}");
    }
    assert_eq!(compile("object.f == 1.5").holds(&inputs), Ok(true));
    assert!(compile("object.f").holds(&inputs).is_err());
    let bounded = compile("object.l.all(x, x > 0)").within(5, Limits::UNLIMITED);
    assert_eq!(bounded.holds(&inputs), Err(EvalError::Cost));
}
