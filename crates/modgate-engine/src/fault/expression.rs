//! CEL: the fields that an expression which does not hold reads.

use modgate_value::{
    Value,
    pointer::{below, unescape},
};

use super::{
    Step, choose, refs,
    text::{literal, name},
    walk,
};

/// How deep variables may name one another.
const MAX_LEVELS: usize = 8;
/// The reads of one expression.
const MAX_READS: usize = 200;
/// The elements of lists that are tried for one expression.
const MAX_TRIED: usize = 200;
/// The macros that hold, or do not, for one element of a list.
const MACROS: [(&str, bool); 3] = [(".all(", true), (".exists(", false), (".filter(", false)];

/// Whether an expression holds; an error if it fails, none if it does not compile.
pub(crate) type Holds<'h> = dyn Fn(&str) -> Option<Result<bool, ()>> + 'h;

/// The field at fault of an expression that is false. `variable` has the text of a variable.
pub(crate) fn failed<'t>(
    text: &'t str,
    variable: &dyn Fn(&str) -> Option<&'t str>,
    object: &Value,
    holds: &Holds<'_>,
) -> Option<String> {
    let mut search = Search { variable, object, holds, reads: Vec::new(), tried: 0 };
    search.visit(text, 0);
    choose(&search.reads).map(str::to_owned)
}

struct Search<'s, 't> {
    variable: &'s dyn Fn(&str) -> Option<&'t str>,
    object: &'s Value,
    holds: &'s Holds<'s>,
    reads: Vec<String>,
    tried: usize,
}

impl<'t> Search<'_, 't> {
    /// Adds what a text reads: first its variables, then its fields, then those of the elements at fault.
    fn visit(&mut self, text: &'t str, level: usize) {
        if level > MAX_LEVELS {
            return;
        }
        let all = refs(text);
        for found in &all {
            if let ("variables", Some(Step::Member(name))) = (found.root, found.steps.first())
                && *name != "anyObject"
                && let Some(text) = (self.variable)(name)
            {
                self.visit(text, level + 1);
            }
        }
        for found in &all {
            if let Some(pointer) = self.place(found.root, &found.steps, level)
                && self.reads.len() < MAX_READS
            {
                self.reads.push(pointer);
            }
        }
        for (marker, wanted) in MACROS {
            for (at, _) in text.match_indices(marker) {
                self.elements(text, at, marker, wanted, level);
            }
        }
    }

    /// The pointer of the field of a reference.
    fn place(&self, root: &str, steps: &[Step<'t>], level: usize) -> Option<String> {
        let names = |steps: &[Step<'t>]| -> Vec<&'t str> {
            let known = steps.iter().map_while(|step| match step {
                Step::Member(name) | Step::Index(name) => Some(*name),
                Step::Variable(_) => None,
            });
            known.collect()
        };
        match (root, steps) {
            ("object", steps) | ("variables", [Step::Member("anyObject"), steps @ ..]) => {
                walk(self.object, "", names(steps).into_iter())
            }
            ("variables", [Step::Member(name), rest @ ..]) if level < MAX_LEVELS => {
                let text = (self.variable)(name)?.trim();
                let inner = refs(text);
                let [inner] = inner.as_slice() else { return None };
                let is_whole = inner.start == 0 && inner.end == text.len();
                let base = is_whole.then(|| self.place(inner.root, &inner.steps, level + 1))??;
                walk(self.object, &base, names(rest).into_iter())
            }
            _ => None,
        }
    }

    /// Adds the first element for which a macro comes out as it must not, and what the macro reads of it.
    fn elements(&mut self, text: &'t str, at: usize, marker: &str, wanted: bool, level: usize) {
        let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
        let Some(body) = behind.get(marker.len()..) else { return };
        let item = name(body);
        let Some(body) = body.get(item.len()..).and_then(|it| it.trim_start().strip_prefix(','))
        else {
            return;
        };
        let Some(body) = inside(body).filter(|_| !item.is_empty()) else { return };
        for list in self.lists(receiver(before), level) {
            let Some(Value::Array(items)) = self.object.pointer(&list) else { continue };
            for index in 0..items.len() {
                self.tried += 1;
                if self.tried > MAX_TRIED {
                    return;
                }
                let element = below(&list, &index.to_string());
                let call = if wanted { "all" } else { "exists" };
                let tried = format!("[{}].{call}({item}, {body})", written(&element));
                match (self.holds)(&tried) {
                    None => return,
                    Some(Ok(held)) if held == wanted => continue,
                    Some(Err(())) if !wanted => continue,
                    Some(_) => {}
                }
                self.reads.push(element.clone());
                for found in refs(body).iter().filter(|found| found.root == item) {
                    let names = found.steps.iter().map_while(|step| match step {
                        Step::Member(name) | Step::Index(name) => Some(*name),
                        Step::Variable(_) => None,
                    });
                    self.reads.extend(walk(self.object, &element, names));
                }
                return;
            }
        }
    }

    /// The lists of the object that a text names.
    fn lists(&self, text: &'t str, level: usize) -> Vec<String> {
        let mut found = Vec::new();
        for it in refs(text) {
            match self.place(it.root, &it.steps, level) {
                Some(pointer) => found.push(pointer),
                None => {
                    if let ("variables", Some(Step::Member(name))) = (it.root, it.steps.first())
                        && level < MAX_LEVELS
                        && let Some(text) = (self.variable)(name)
                    {
                        found.extend(self.lists(text, level + 1));
                    }
                }
            }
        }
        found.truncate(MAX_READS);
        found
    }
}

/// The operand in front of a method call, at the end of a text.
fn receiver(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices().rev() {
        match character {
            ')' | ']' => depth += 1,
            '(' | '[' if depth > 0 => depth -= 1,
            '(' | '[' => return text.get(at + 1..).unwrap_or_default(),
            _ if depth > 0 => {}
            it if it.is_ascii_alphanumeric() || "_.?".contains(it) => {}
            it => return text.get(at + it.len_utf8()..).unwrap_or_default(),
        }
    }
    text
}

/// The text up to the bracket that ends a call.
fn inside(text: &str) -> Option<&str> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(rest) = text.get(at..) {
        let character = rest.chars().next()?;
        match character {
            '"' | '\'' => {
                at += literal(rest, character);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => return text.get(..at),
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += character.len_utf8();
    }
    None
}

/// A pointer as CEL writes it.
fn written(pointer: &str) -> String {
    let mut text = "object".to_owned();
    for segment in pointer.split('/').skip(1) {
        let name = unescape(segment);
        match name.parse::<usize>() {
            Ok(index) => text.push_str(&format!("[{index}]")),
            Err(_) => text.push_str(&format!("[{}]", Value::from(&*name).to_json())),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, holds: &Holds<'_>) -> Option<String> {
        let object = r#"{"kind": "Pod", "spec": {"replicas": 7, "hostPID": true, "containers":
            [{"image": "a"}, {"image": "b", "ports": []}]}}"#;
        let object = Value::from_json(object.as_bytes()).expect("JSON");
        let variable = |name: &str| match name {
            "containers" => Some("object.spec.containers"),
            "all" => Some("object.spec.containers + object.spec.initContainers.orValue([])"),
            "replicas" => Some(" variables.anyObject.spec.replicas "),
            "loop" => Some("variables.loop + 1"),
            _ => None,
        };
        failed(text, &variable, &object, holds)
    }

    #[test]
    fn fields_of_expressions() {
        let second = |text: &str| Some(Ok(text.contains("[1]") == text.contains("].exists(")));
        for (text, expected) in [
            ("object.spec.replicas <= 5", Some("/spec/replicas")),
            ("object.kind != 'Pod' || !has(object.spec.hostPID)", Some("/spec/hostPID")),
            ("variables.replicas < 5", Some("/spec/replicas")),
            ("has(object.spec.runtimeClassName)", Some("/spec")),
            ("object.spec.containers.all(c, c.image == 'a')", Some("/spec/containers/1/image")),
            ("!variables.all.exists(c, size(c.ports) == 0)", Some("/spec/containers/1/ports")),
            ("size((variables.containers).filter(c, f(c))) == 0", Some("/spec/containers/1")),
            ("variables.loop < 5", None),
            ("params.x == 1", None),
            ("object.spec.containers.all(c, c.image == 'a'", Some("/spec/containers")),
        ] {
            assert_eq!(found(text, &second).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_element_that_cannot_be_tried_is_none() {
        let text = "object.spec.containers.all(c, c.image == 'a')";
        assert_eq!(found(text, &|_| None).as_deref(), Some("/spec/containers"));
    }
}
