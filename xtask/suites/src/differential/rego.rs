//! Random Rego: templates that mostly compile and mostly find something.
//!
//! An expression is made for a type, from the variables in scope, so that most programs are well
//! typed; one in some is not, and then the refusals are compared.

use std::fmt::Write as _;

use super::{
    objects::{IMAGES, LABELS, WORDS},
    random::Random,
    tables,
};

/// The types expressions are made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Number,
    List,
    Any,
}

/// A policy under construction.
struct Policy<'r> {
    random: &'r mut Random,
    /// Written as Rego v1.
    modern: bool,
    /// Variables of the body that is being written.
    variables: Vec<(String, Type)>,
    /// How many variables were named.
    named: usize,
    /// Helper functions of one parameter, with what they give.
    functions: Vec<(String, Type)>,
    /// Helper sets.
    sets: Vec<String>,
}

/// The text of a policy for a template.
pub(crate) fn policy(random: &mut Random, modern: bool) -> String {
    let mut policy = Policy {
        random,
        modern,
        variables: Vec::new(),
        named: 0,
        functions: Vec::new(),
        sets: Vec::new(),
    };
    let mut text = String::from("package generated\n\n");
    if modern && policy.random.chance(20) {
        text.push_str("import rego.v1\n\n");
    } else if !modern && policy.random.chance(25) {
        text.push_str("import future.keywords.in\nimport future.keywords.every\n\n");
    }
    for _ in 0..policy.random.below(4) {
        let helper = policy.helper();
        text.push_str(&helper);
    }
    for _ in 0..=policy.random.below(2) {
        let rule = policy.violation();
        text.push_str(&rule);
    }
    text
}

impl Policy<'_> {
    fn fresh(&mut self, of: Type) -> String {
        self.named += 1;
        let name = format!("v{}", self.named);
        self.variables.push((name.clone(), of));
        name
    }

    fn head(&self, head: &str, body: &str) -> String {
        let keyword = if self.modern { " if" } else { "" };
        format!("{head}{keyword} {{\n{body}}}\n\n")
    }

    fn helper(&mut self) -> String {
        self.variables.clear();
        let at = self.functions.len() + self.sets.len();
        match self.random.below(4) {
            0 => {
                let body = self.body(2);
                let member = self.expression(Type::Any, 1);
                let head =
                    if self.modern { format!("s{at} contains x") } else { format!("s{at}[x]") };
                let text = self.head(&head, &format!("{body}  x := {member}\n"));
                self.sets.push(format!("s{at}"));
                text
            }
            1 => {
                let of = self.any_type();
                let first = self.expression(of, 2);
                let body = self.body(1);
                let second = self.expression(of, 1);
                let mut text =
                    self.head(&format!("f{at}(_) = x"), &format!("{body}  x := {first}\n"));
                if self.random.chance(60) {
                    self.variables.clear();
                    let otherwise = if self.modern { "else = y if" } else { "else = y" };
                    text.truncate(text.trim_end().len());
                    let _ = write!(
                        text,
                        " {otherwise} {{\n  y := {}\n}}\n\n",
                        self.closed(&second, of)
                    );
                }
                self.functions.push((format!("f{at}"), of));
                text
            }
            2 => {
                self.variables.push(("p".to_owned(), Type::Any));
                let body = self.body(2);
                let text = self.head(&format!("f{at}(p)"), &body);
                self.functions.push((format!("f{at}"), Type::Any));
                text
            }
            _ => {
                let of = self.any_type();
                let value = self.expression(of, 1);
                let head = format!("f{at}(p) = y");
                let text = self.head(&head, &format!("  y := [p, {value}]\n"));
                self.functions.push((format!("f{at}"), Type::List));
                text
            }
        }
    }

    /// `text` where it needs no variable, else a literal: an `else` sees none of the body before it.
    fn closed(&mut self, text: &str, of: Type) -> String {
        let open = text.split(|c: char| !c.is_alphanumeric()).any(|word| {
            word.strip_prefix('v').is_some_and(|rest| rest.parse::<usize>().is_ok()) || word == "p"
        });
        if open { self.literal(of) } else { text.to_owned() }
    }

    fn violation(&mut self) -> String {
        self.variables.clear();
        let lines = 1 + self.random.below(4);
        let body = self.body(lines);
        let arguments: Vec<String> =
            (0..self.random.below(3)).map(|_| self.expression(Type::Any, 1)).collect();
        let verbs: Vec<&str> = arguments
            .iter()
            .map(|_| self.random.pick(&["%v", "%v", "%v", "%s", "%d", "%q"]))
            .collect();
        let message = format!(
            "  msg := sprintf(\"found {}\", [{}])\n",
            verbs.join(" "),
            arguments.join(", ")
        );
        let mut result = String::from("{\"msg\": msg");
        if self.random.chance(40) {
            let _ =
                write!(result, ", \"details\": {{\"found\": {}}}", self.expression(Type::Any, 1));
        }
        result.push('}');
        let head = if self.modern {
            format!("violation contains {result}")
        } else {
            format!("violation[{result}]")
        };
        self.head(&head, &format!("{body}{message}"))
    }

    fn body(&mut self, lines: usize) -> String {
        let mut body = String::new();
        for _ in 0..lines {
            let line = self.line();
            let _ = writeln!(body, "  {line}");
        }
        if body.is_empty() { "  true\n".to_owned() } else { body }
    }

    fn line(&mut self) -> String {
        match self.random.below(12) {
            0..=2 => {
                let of = self.any_type();
                let value = self.expression(of, 2);
                format!("{} := {value}", self.fresh(of))
            }
            3 | 4 => {
                let list = self.expression(Type::List, 1);
                let index = self.random.pick(&["_", "_", "0", "i"]);
                let name = self.fresh(Type::Any);
                if index == "i" {
                    let place = self.fresh(Type::Any);
                    format!("{name} := {}[{place}]", self.bound(&list))
                } else {
                    format!("{name} := {}[{index}]", self.bound(&list))
                }
            }
            5 => {
                let condition = self.condition();
                format!("not {condition}")
            }
            6 if self.modern => {
                let list = self.expression(Type::List, 1);
                let of = self.variables.len();
                self.variables.push(("e".to_owned(), Type::Any));
                let condition = self.condition();
                self.variables.truncate(of);
                format!("every e in {list} {{ {condition} }}")
            }
            7 if !self.sets.is_empty() => {
                let at = self.random.below(self.sets.len());
                let set = self.sets[at].clone();
                format!("{set}[{}]", self.fresh(Type::Any))
            }
            _ => self.condition(),
        }
    }

    /// A list that an index may stand behind.
    fn bound(&mut self, list: &str) -> String {
        let plain = list.chars().all(|c| c.is_alphanumeric() || "._[]\"/-".contains(c));
        if plain && !list.starts_with('[') && !list.contains("object.get") {
            list.to_owned()
        } else {
            self.place(&["spec.containers", "spec.template.spec.containers", "spec.list"])
        }
    }

    fn place(&mut self, places: &[&str]) -> String {
        format!("input.review.object.{}", self.random.pick(places))
    }

    fn condition(&mut self) -> String {
        match self.random.below(9) {
            0 => {
                let of = self.any_type();
                let operator = self.random.pick(&["==", "!=", "<", ">=", "=="]);
                format!("{} {operator} {}", self.expression(of, 1), self.expression(of, 1))
            }
            1 => {
                let name = self.random.pick(&["startswith", "endswith", "contains"]);
                format!(
                    "{name}({}, {})",
                    self.expression(Type::Text, 1),
                    self.expression(Type::Text, 0)
                )
            }
            2 => {
                let pattern =
                    self.random.pick(&["^web", ".*", "[0-9]+$", "^$", "(a|b)c?", "^[a-z-]+$"]);
                let name = self.random.pick(&["re_match", "regex.match"]);
                format!("{name}(`{pattern}`, {})", self.expression(Type::Text, 1))
            }
            3 => format!(
                "count({}) {} {}",
                self.expression(Type::List, 1),
                self.random.pick(&[">", "=="]),
                self.random.below(3)
            ),
            4 if !self.functions.is_empty() => {
                let at = self.random.below(self.functions.len());
                let name = self.functions[at].0.clone();
                format!("{name}({})", self.expression(Type::Any, 1))
            }
            5 => {
                let name = self.random.pick(&[
                    "is_string",
                    "is_number",
                    "is_object",
                    "is_array",
                    "is_null",
                    "is_boolean",
                ]);
                format!("{name}({})", self.expression(Type::Any, 1))
            }
            6 => format!(
                "glob.match(\"{}\", {}, {})",
                self.random.pick(&["*web*", "**", "a.*", "?eb"]),
                self.random.pick(&["[]", "null", "[\"/\"]"]),
                self.expression(Type::Text, 0)
            ),
            7 => self.place(&[
                "spec.hostNetwork",
                "spec.containers[_].securityContext.privileged",
                "metadata.labels.app",
                "spec.n",
            ]),
            _ => {
                let operator = self.random.pick(&["==", "<", ">", "!="]);
                format!(
                    "{} {operator} {}",
                    self.expression(Type::Number, 1),
                    self.expression(Type::Number, 1)
                )
            }
        }
    }

    fn any_type(&mut self) -> Type {
        [Type::Text, Type::Number, Type::List, Type::Any][self.random.below(4)]
    }

    fn literal(&mut self, of: Type) -> String {
        match of {
            Type::Text | Type::Any => {
                let pool = if self.random.chance(30) { IMAGES } else { WORDS };
                format!("\"{}\"", self.random.pick(pool))
            }
            Type::Number => self.random.pick(&["0", "1", "2.5", "-3", "1e3", "100"]).to_owned(),
            Type::List => self
                .random
                .pick(&["[]", "[1, \"a\"]", "[\"web\", \"db\"]", "{\"x\", 1}"])
                .to_owned(),
        }
    }

    fn expression(&mut self, of: Type, depth: usize) -> String {
        let known: Vec<String> = self
            .variables
            .iter()
            .filter(|(_, known)| *known == of || of == Type::Any)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && self.random.chance(45) {
            return known[self.random.below(known.len())].clone();
        }
        // A wrong type: the refusal, or that nothing is found, is compared.
        let of = if self.random.chance(2) { self.any_type() } else { of };
        if depth == 0 {
            return if self.random.chance(50) { self.literal(of) } else { self.reference(of) };
        }
        if self.random.chance(30) {
            return self.call(of, depth - 1);
        }
        match of {
            Type::Text => self.text(depth - 1),
            Type::Number => self.number(depth - 1),
            Type::List => self.list(depth - 1),
            Type::Any => match self.random.below(6) {
                0 => self.text(depth - 1),
                1 => self.number(depth - 1),
                2 => self.list(depth - 1),
                3 if !self.functions.is_empty() => {
                    let at = self.random.below(self.functions.len());
                    let name = self.functions[at].0.clone();
                    format!("{name}({})", self.expression(Type::Any, depth - 1))
                }
                _ => self.reference(Type::Any),
            },
        }
    }

    /// A call from the tables.
    fn call(&mut self, of: Type, depth: usize) -> String {
        let calls = match of {
            Type::Text => tables::REGO_TEXT,
            Type::Number => tables::REGO_NUMBER,
            Type::List => tables::REGO_LIST,
            Type::Any => tables::REGO_ANY,
        };
        let call = self.random.pick(calls);
        tables::fill(call, |of| match of {
            'T' => self.expression(Type::Text, depth),
            'N' => self.expression(Type::Number, depth),
            'L' => {
                let list = self.expression(Type::List, depth);
                self.bound(&list)
            }
            'P' => self.place(&["spec", "metadata.labels", "metadata", "data", "spec.deep"]),
            _ => self.expression(Type::Any, depth),
        })
    }

    fn reference(&mut self, of: Type) -> String {
        let label = self.random.pick(LABELS);
        match of {
            Type::Text => match self.random.below(6) {
                0 => format!("input.review.object.metadata.labels[\"{label}\"]"),
                1 => self.place(&[
                    "metadata.name",
                    "metadata.namespace",
                    "kind",
                    "spec.containers[_].image",
                    "spec.text",
                ]),
                2 => format!("input.parameters.{}", self.random.pick(&["text", "words[_]"])),
                3 => format!(
                    "object.get(input.review.object.metadata.labels, \"{label}\", \"none\")"
                ),
                4 => format!(
                    "input.review.{}",
                    self.random.pick(&["name", "namespace", "kind.kind", "kind.group"])
                ),
                _ => self.place(&["spec.containers[_].resources.limits.memory", "spec.type"]),
            },
            Type::Number => match self.random.below(3) {
                0 => "input.parameters.number".to_owned(),
                1 => self.place(&["spec.replicas", "spec.n", "spec.ports[_].port"]),
                _ => self.place(&["spec.containers[_].securityContext.runAsUser"]),
            },
            Type::List => match self.random.below(3) {
                0 => "input.parameters.words".to_owned(),
                1 => self.place(&[
                    "spec.containers",
                    "spec.initContainers",
                    "spec.list",
                    "spec.ports",
                ]),
                _ => "object.get(input.review.object.spec, \"initContainers\", [])".to_owned(),
            },
            Type::Any => match self.random.below(6) {
                0 => self.place(&[
                    "spec",
                    "metadata",
                    "spec.deep",
                    "metadata.labels",
                    "spec[_]",
                    "data",
                ]),
                1 => "input.parameters".to_owned(),
                2 => format!(
                    "object.get(input.review.object, [\"spec\", \"{}\"], null)",
                    self.random.pick(&["deep", "n", "containers"])
                ),
                3 => self.reference(Type::Text),
                4 => self.reference(Type::Number),
                _ => self.reference(Type::List),
            },
        }
    }

    fn text(&mut self, depth: usize) -> String {
        let inner = |policy: &mut Self| policy.expression(Type::Text, depth);
        match self.random.below(13) {
            0 => format!("lower({})", inner(self)),
            1 => format!("upper({})", inner(self)),
            2 => format!("concat(\"{}\", {})", self.random.pick(&["", ",", "/"]), self.words()),
            3 => format!(
                "replace({}, \"{}\", \"{}\")",
                inner(self),
                self.random.pick(&["e", "-", ""]),
                self.random.pick(&["", "X"])
            ),
            4 => format!("trim({}, \"{}\")", inner(self), self.random.pick(&["w", " -", "1"])),
            5 => format!(
                "substring({}, {}, {})",
                inner(self),
                self.random.below(3),
                self.random.pick(&["-1", "2", "0"])
            ),
            6 => format!(
                "sprintf(\"{}\", [{}])",
                self.random.pick(&["%v", "%s", "%d", "%5.1f", "%q", "%x"]),
                self.expression(Type::Any, depth)
            ),
            7 => format!("json.marshal({})", self.expression(Type::Any, depth)),
            8 => format!("type_name({})", self.expression(Type::Any, depth)),
            9 => format!(
                "{}({}, \"{}\")",
                self.random.pick(&["trim_prefix", "trim_suffix", "trim_left"]),
                inner(self),
                self.random.pick(&["web", "1"])
            ),
            10 => format!("base64.encode({})", inner(self)),
            11 => format!("strings.reverse({})", inner(self)),
            _ => self.reference(Type::Text),
        }
    }

    /// A list of texts, for `concat`.
    fn words(&mut self) -> String {
        match self.random.below(3) {
            0 => "input.parameters.words".to_owned(),
            1 => format!("[{}, {}]", self.expression(Type::Text, 0), self.literal(Type::Text)),
            _ => format!("sort({{x | x := {}}})", self.reference(Type::Text)),
        }
    }

    fn number(&mut self, depth: usize) -> String {
        let inner = |policy: &mut Self| policy.expression(Type::Number, depth);
        match self.random.below(11) {
            0..=2 => {
                let operator = self.random.pick(&["+", "-", "*", "/", "%"]);
                format!(
                    "{} {operator} {}",
                    self.reference(Type::Number),
                    self.literal(Type::Number)
                )
            }
            3 => format!("count({})", self.expression(Type::List, depth)),
            4 => format!("count({})", self.expression(Type::Text, depth)),
            5 => {
                format!("{}({})", self.random.pick(&["round", "ceil", "floor", "abs"]), inner(self))
            }
            6 => format!("to_number({})", self.expression(Type::Text, depth)),
            7 => format!(
                "{}([{}, {}])",
                self.random.pick(&["sum", "max", "min", "product"]),
                inner(self),
                self.literal(Type::Number)
            ),
            8 => format!("units.parse_bytes({})", self.expression(Type::Text, depth)),
            9 => format!(
                "indexof({}, {})",
                self.expression(Type::Text, depth),
                self.literal(Type::Text)
            ),
            _ => self.reference(Type::Number),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        match self.random.below(12) {
            0 => format!("[x | x := {}]", self.reference(Type::Any)),
            1 => format!("{{x | x := {}}}", self.reference(Type::Text)),
            2 => format!(
                "{{k: x | x := {}[k]}}",
                self.place(&["metadata.labels", "spec", "spec.containers"])
            ),
            3 => format!(
                "split({}, \"{}\")",
                self.expression(Type::Text, depth),
                self.random.pick(&["/", "", ":", "-"])
            ),
            4 => format!("sort({})", self.expression(Type::List, depth)),
            5 => format!(
                "array.concat({}, {})",
                self.reference(Type::List),
                self.reference(Type::List)
            ),
            6 => format!(
                "{{x | x := input.parameters.words[_]}} {} {{x | x := {}}}",
                self.random.pick(&["-", "&", "|"]),
                self.reference(Type::Text)
            ),
            7 => format!(
                "array.slice({}, {}, {})",
                self.reference(Type::List),
                self.random.below(3),
                self.random.below(4)
            ),
            8 => format!(
                "[{}, {}]",
                self.expression(Type::Any, depth),
                self.expression(Type::Any, depth)
            ),
            9 => format!("regex.find_n(`[a-z]+`, {}, -1)", self.expression(Type::Text, depth)),
            10 => format!("object.keys({})", self.place(&["metadata.labels", "spec"])),
            _ => self.reference(Type::List),
        }
    }
}
