//! No template takes more than its budget or its thread's stack, and none panics.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::{cell::Cell, time::Duration};

use modgate_corpus::CountingClock;
use modgate_template::{Env, Functions, Host, Isolated, Refused, RenderError, Template};
use modgate_value::{Budget, Limits, Value, budget::Frozen};

const LIMITS: Limits = Limits { steps: 200_000, bytes: 4 << 20, time: Duration::MAX };

/// Randomness that runs on forever.
struct Counter(Cell<u8>);

impl Host for Counter {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_secs(1_700_000_000))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            self.0.set(self.0.get().wrapping_mul(73).wrapping_add(41));
            *byte = self.0.get();
        }
        Ok(())
    }

    fn resolve_host(&self, _: &str) -> Result<Option<String>, Refused> {
        Ok(None)
    }
}

fn data() -> Value {
    let text = r#"{"n": 3, "s": "text", "l": [1, "a", null, {"b": []}], "m": {"k": {"d": 1}}}"#;
    Value::from_json(text.as_bytes()).expect("data")
}

fn render(text: &str, limits: Limits, host: &dyn Host) -> Result<Vec<u8>, RenderError> {
    let template = Template::parse("x", text).expect(text);
    let budget = Budget::new(limits, &Frozen);
    template.render_bytes(&data(), &Env { budget: &budget, host })
}

#[test]
fn endless_work_ends_at_the_budget() {
    for text in [
        r#"{{ repeat 1000000000 "x" }}"#,
        r#"{{ repeat 9223372036854775807 "xx" }}"#,
        "{{ until 1000000000 }}",
        "{{ untilStep 0 9223372036854775807 1 }}",
        "{{ seq 1 1000000000 }}",
        "{{ range 1000000000 }}{{ end }}",
        "{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}",
        r#"{{ indent 1000000000 "x" }}"#,
        r#"{{ nindent 9223372036854775807 "x" }}"#,
        r#"{{ printf "%1000000d" 1 | repeat 1000 }}"#,
        r#"{{ printf "%*d" 1000000 1 | repeat 100 }}"#,
        r#"{{ $s := "x" }}{{ range until 64 }}{{ $s = cat $s $s }}{{ end }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = concat $l $l }}{{ end }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ $l }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ deepCopy $l }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ deepEqual $l $l }}"#,
        r#"{{ $l := list 1 }}{{ range until 64 }}{{ $l = list $l $l }}{{ end }}{{ printf "%v" $l }}"#,
        r#"{{ $d := dict }}{{ range $i := until 1000000 }}{{ $_ := set $d (toString $i) $d }}{{ end }}"#,
        r#"{{ regexReplaceAll "" (repeat 3000 "x") (repeat 3000 "y") }}"#,
        r#"{{ replace "" (repeat 3000 "y") (repeat 3000 "x") }}"#,
        r#"{{ join (repeat 3000 "y") (until 3000) }}"#,
        r#"{{ wrapWith 1 (repeat 3000 "y") (repeat 3000 "x") }}"#,
        r#"{{ genPrivateKey "rsa" }}"#,
        r#"{{ genPrivateKey "dsa" }}"#,
        r#"{{ genCA "x" 1 }}"#,
        r#"{{ bcrypt "x" }}"#,
        "{{ randAlphaNum 1000000000 }}",
        "{{ randBytes 9223372036854775807 }}",
        r#"{{ define "t" }}{{ . }}{{ range until 100 }}{{ template "t" (repeat 100 "x") }}{{ end }}{{ end }}{{ range 1000 }}{{ repeat 10000 "x" }}{{ end }}"#,
    ] {
        let error = render(text, LIMITS, &Counter(Cell::new(0))).expect_err(text);
        assert!(matches!(error, RenderError::Exhausted { .. }), "{text}: {error}");
    }
}

/// The error names the memory that `derivePassword` needs, which no ModRule has; the function gives back what it takes.
#[test]
fn derived_passwords_need_more_memory_than_a_modrule_has() {
    let text = r#"{{ range until 3 }}{{ derivePassword 1 "pin" "p" "u" "s" }}{{ end }}"#;
    let within = |bytes| {
        render(text, Limits { bytes, ..Limits::UNLIMITED }, &Isolated).map_err(|it| it.to_string())
    };
    let error = within(16 << 20).expect_err(text);
    let needs = "derivePassword needs 33554432 bytes of memory, and 167";
    assert!(error.contains(needs) && error.contains(" bytes are left of the budget"), "{error}");
    assert_eq!(within(33 << 20).expect(text).len(), 3 * 4);
}

#[test]
fn depth_ends_at_its_limit() {
    for text in [
        r#"{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}"#,
        r#"{{ define "t" }}{{ if true }}{{ with (dict "a" (list 1)) }}{{ range .a }}{{ template "t" . }}{{ end }}{{ end }}{{ end }}{{ end }}{{ template "t" . }}"#,
        r#"{{ define "t" }}{{ with (print (print (print (print (print 1))))) }}{{ template "t" . }}{{ end }}{{ end }}{{ template "t" . }}"#,
        r#"{{ $l := list }}{{ range until 10000 }}{{ $l = list $l }}{{ end }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ printf "%v" $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ mustToJson $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ mustDeepCopy $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "self" (list $d) }}{{ deepEqual $d (deepCopy $d) }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "a" $d }}{{ $e := dict }}{{ $_ := set $e "a" $e }}{{ merge $d $e }}"#,
    ] {
        let error = render(text, LIMITS, &Isolated).expect_err(text);
        assert!(matches!(error, RenderError::Failed { .. }), "{text}: {error}");
        let message = error.to_string();
        assert!(
            message.contains("nested levels") || message.contains("template depth"),
            "{message}"
        );
    }
}

#[test]
fn time_is_watched_while_keys_are_made() {
    let template = Template::parse("x", r#"{{ genPrivateKey "rsa" }}"#).expect("template");
    let clock = CountingClock::default();
    let limits = Limits { time: Duration::from_millis(5), ..Limits::UNLIMITED };
    let budget = Budget::new(limits, &clock);
    let host = Counter(Cell::new(0));
    let error = template.render(&data(), &Env { budget: &budget, host: &host }).expect_err("time");
    assert!(matches!(error, RenderError::Exhausted { .. }), "{error}");
}

#[test]
fn nesting_and_size_of_the_text_are_bounded() {
    let nested = |open: &str, inside: &str, close: &str, levels: usize| {
        format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
    };
    for levels in [10, 60, 200, 100_000] {
        for text in [
            nested("{{ if true }}", "x", "{{ end }}", levels),
            nested("{{ range .l }}", "x", "{{ end }}", levels),
            nested("{{ if false }}{{ else }}", "x", "{{ end }}", levels),
            format!("{{{{ {} }}}}", nested("(", "1", ")", levels)),
            format!("{{{{ print {} }}}}", nested("(print ", "1", ")", levels)),
            format!("{{{{ if true }}}}{}x{{{{ end }}}}", "{{ else if true }}".repeat(levels)),
            nested("{{ define \"a\" }}", "x", "{{ end }}", levels),
            nested("{{ block \"a\" . }}", "x", "{{ end }}", levels),
        ] {
            if let Ok(template) = Template::parse("x", &text) {
                assert!(levels < 200, "{} levels of {}", levels, &text[..20]);
                let budget = Budget::new(LIMITS, &Frozen);
                let _ = template.render(&data(), &Env { budget: &budget, host: &Isolated });
            }
        }
    }
    let error = Template::parse("x", &"x".repeat((1 << 20) + 1)).expect_err("too long");
    assert!(error.to_string().contains("longer than"), "{error}");
}

/// Small, fast and the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// Bytes that mean something to the lexer, or nothing anywhere.
const ODD: &[u8] = b"{}()|.\"`$ -:=,'\\0a\xE9\n";

fn corpus(name: &str) -> Vec<String> {
    let path = format!("{}/../../conformance/languages/{name}", env!("CARGO_MANIFEST_DIR"));
    let corpus = Value::from_json(&std::fs::read(&path).expect(&path)).expect(name);
    let cases = corpus.get("cases").and_then(Value::as_array).expect("cases").clone();
    let text = |case: &Value| case.get("template").and_then(Value::as_str).map(str::to_owned);
    cases.iter().filter_map(text).collect()
}

/// Recorded templates, cut, spliced and scrambled: none panics, none outlives its budget, and what
/// an error points at is inside the text.
#[test]
fn mutated_templates() {
    let mut seeds = corpus("gotemplate.json");
    seeds.extend(corpus("sprig.json"));
    let mut random = Random(0x5DEE_CE66_D1CE_5EED);
    let data = data();
    let limits = Limits { steps: 20_000, bytes: 1 << 20, time: Duration::MAX };
    let host = Counter(Cell::new(1));
    let mut parsed = 0;
    for _ in 0..20_000 {
        let mut text = seeds[random.below(seeds.len())].clone().into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len() + 1);
            match random.below(5) {
                0 => text.truncate(at),
                1 => text.insert(at, ODD[random.below(ODD.len())]),
                2 if at < text.len() => {
                    text.remove(at);
                }
                3 => {
                    let other = &seeds[random.below(seeds.len())];
                    let from = random.below(other.len());
                    text.splice(at..at, other.bytes().skip(from).take(random.below(30)));
                }
                _ => {
                    let until = (at + random.below(20)).min(text.len());
                    let piece = text[at..until].to_vec();
                    text.splice(at..at, piece);
                }
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        match Template::parse_with("x", &text, Functions::Sprig) {
            Ok(template) => {
                parsed += 1;
                let budget = Budget::new(limits, &Frozen);
                let env = Env { budget: &budget, host: &host };
                match template.render_bytes(&data, &env) {
                    Ok(output) => assert!(output.len() <= 1 << 20, "{text}"),
                    Err(RenderError::Failed { span, .. } | RenderError::Exhausted { span, .. }) => {
                        assert!(span.start <= span.end && span.end <= text.len(), "{text}");
                    }
                    Err(error) => panic!("{text}: {error}"),
                }
            }
            Err(error) => {
                assert!(text.get(error.span.clone()).is_some(), "{text}: {error:?}");
                assert!(error.line >= 1);
            }
        }
    }
    assert!(parsed > 2_000, "only {parsed} parsed");
}
