//! Patches: their operations, in order, with values from templates.

use std::cmp::Ordering;

use modgate_api::modrule::{ModRule, PatchOperation};
use modgate_select::{Key, KeyPart, PatchSelect};
use modgate_template::{Env, Functions, Isolated, PatchContext, Template, preprocess};
use modgate_value::{Budget, Value, json, pointer, yaml};

use super::{
    super::patching::{Defect, Fault, Operation, apply_all},
    Broken, Model, Original, Rule, State, annotation,
    rules::{matches, passes_bare_target},
    with_annotation, with_member,
};

impl Model<'_> {
    pub(super) fn patch(&self, rules: &[Rule], state: &mut State) -> Result<(), Broken> {
        for tier in self.tiers(rules, "Patch") {
            let start = state.document.clone();
            let matching = |rule: &&Rule| matches(&rule.rule, &self.seen_by(&rule.rule, &start));
            for rule in tier.into_iter().filter(matching) {
                if state.lost {
                    return Err(Broken("the request crashes"));
                }
                self.patch_one(&rule.rule, state)?;
            }
        }
        Ok(())
    }

    pub(super) fn patch_one(&self, rule: &ModRule, state: &mut State) -> Result<(), Broken> {
        let seen = self.seen_by(rule, &state.document);
        let Some(operations) = self.operations(rule, &seen)? else {
            state.failed = true;
            return Ok(());
        };
        let defects = [
            (Original::EscapedParent, Defect::EscapedParent),
            (Original::BelowNewNull, Defect::BelowNewNull),
            (Original::Padding, Defect::Padding),
        ];
        let defect = defects.into_iter().find(|(original, _)| self.like(*original));
        let defect = defect.map(|(_, defect)| defect);
        match apply_all(&seen, &operations, defect) {
            Ok(document) => {
                let references = |document: &Value| document.get("syntheticRefs").cloned();
                let untouched = references(&document) == references(&seen);
                state.document = match references(&state.document).filter(|_| untouched) {
                    Some(whole) => with_member(&document, &["syntheticRefs"], &whole),
                    None => document,
                };
            }
            Err(Fault::Crash) => return Err(Broken("the request crashes")),
            Err(Fault::DoesNotApply) => {
                state.failed = true;
                state.lost = self.like(Original::FailureSpreads);
                return Ok(());
            }
        }
        self.patch_annotation(&operations, state)
    }

    /// The same operations on the last-applied annotation (4.9).
    pub(super) fn patch_annotation(
        &self,
        operations: &[Operation],
        state: &mut State,
    ) -> Result<(), Broken> {
        let Some(text) = state.annotation.as_deref() else { return Ok(()) };
        let content = Value::from_json(text.as_bytes()).ok();
        let null = content.as_ref().is_some_and(Value::is_null);
        if self.like(Original::CrashesOnAnnotation) {
            let mut until_failure = operations.iter().take_while(|it| it.op != "replace");
            if text.is_empty() || null && until_failure.any(|it| it.op == "add") {
                return Err(Broken("the request crashes"));
            }
        }
        let only_removes = operations.iter().all(|it| it.op == "remove");
        let patched = match content {
            Some(content @ Value::Null) => only_removes.then_some(content),
            Some(content @ (Value::Object(_) | Value::Array(_))) => {
                apply_all(&content, operations, None).ok()
            }
            _ => None,
        };
        state.failed |= patched.is_none();
        state.annotation = patched.map(|document| {
            let mut text = String::new();
            json::write(&document, &mut text, json::Escape::Html);
            text
        });
        Ok(())
    }

    pub(super) fn restore_annotation(
        &self,
        object: &Value,
        state: &mut State,
    ) -> Result<(), Broken> {
        let (Some(_), Some(text)) = (annotation(object), state.annotation.clone()) else {
            return Ok(());
        };
        match with_annotation(&state.document, text.into()) {
            Some(document) => state.document = document,
            None if self.like(Original::CrashesOnAnnotation) => {
                return Err(Broken("the request crashes"));
            }
            // A rule removed all annotations, this one included.
            None => {}
        }
        Ok(())
    }

    /// A rule's operations; nothing if they cannot be calculated.
    pub(super) fn operations(
        &self,
        rule: &ModRule,
        document: &Value,
    ) -> Result<Option<Vec<Operation>>, Broken> {
        let mut operations = Vec::new();
        for template in &rule.spec.patch {
            let budget = Budget::unlimited();
            let select = template.select.as_deref().map(PatchSelect::parse);
            let Some(select) = select.transpose().ok() else { return Ok(None) };
            let mut items = match &select {
                None => vec![(Vec::new(), Value::Null)],
                Some(select) => match select.items(document, &budget) {
                    Ok(items) => items
                        .into_iter()
                        .filter_map(|item| Some((item.keys, item.value.to_json()?)))
                        .collect(),
                    Err(_) => return Ok(None),
                },
            };
            self.put_in_order(template, &mut items);
            for (keys, selected) in items {
                let path = match &select {
                    None => Some(path_of(template).to_owned()),
                    Some(_) => self.expand(path_of(template), &keys)?,
                };
                let Some(path) = path else { return Ok(None) };
                if self.like(Original::QuotesInterpreted) && path.contains(['"', '\\']) {
                    return Err(Broken("the operation is garbled"));
                }
                let Some(value) = self.value(template, document, &keys, &selected)? else {
                    return Ok(None);
                };
                operations.push(Operation { op: template.op.to_string(), path, value });
            }
        }
        Ok(Some(operations))
    }

    /// Document order, except from the back where an earlier operation would shift later ones
    ///
    pub(super) fn put_in_order(&self, template: &PatchOperation, items: &mut [(Vec<Key>, Value)]) {
        for original in self.original {
            if let Original::Rotated(by) = original {
                if !items.is_empty() {
                    items.rotate_left(by % items.len());
                }
                return;
            }
        }
        let last = path_of(template).rsplit('/').next().unwrap_or_default();
        let placeholder = last.strip_prefix('#').and_then(|digits| digits.parse::<usize>().ok());
        let captures_index = |(keys, _): &(Vec<Key>, Value)| {
            placeholder.is_some_and(|at| matches!(keys.get(at), Some(Key::Index(_))))
        };
        let from_the_back = template.op == "remove"
            || (template.op == "add" && !items.is_empty() && items.iter().all(captures_index));
        if from_the_back {
            items.sort_by(|(a, _), (b, _)| by_place(b, a));
        }
    }

    /// The path with its placeholders filled in (4.2); nothing for a placeholder without a key.
    pub(super) fn expand(&self, template: &str, keys: &[Key]) -> Result<Option<String>, Broken> {
        if self.like(Original::PercentInterpreted) && template.contains('%') {
            return Err(Broken("the path is garbled"));
        }
        let texts: Vec<String> = keys.iter().filter_map(|key| self.key_text(key)).collect();
        let mut path = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('#') {
            path.push_str(before);
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = after.split_at(digits);
            if number.is_empty() {
                path.push('#');
            } else {
                let key = number.parse::<usize>().ok().and_then(|at| texts.get(at));
                let Some(key) = key else { return Ok(None) };
                path.push_str(key);
            }
            rest = tail;
        }
        path.push_str(rest);
        Ok(Some(path))
    }

    pub(super) fn key_text(&self, key: &Key) -> Option<String> {
        let name = match key {
            Key::Index(index) => return Some(index.to_string()),
            Key::Name(name) => name,
        };
        if self.like(Original::KeysNormalised)
            && let Ok(number) = name.parse::<i64>()
        {
            return Some(number.to_string());
        }
        if self.like(Original::KeysUnescaped) {
            return (!name.is_empty() && !name.contains(['"', '[', ']'])).then(|| name.to_string());
        }
        Some(pointer::escape(name).into_owned())
    }

    /// The value of one operation for one item (4.3, 4.4).
    pub(super) fn value(
        &self,
        template: &PatchOperation,
        document: &Value,
        keys: &[Key],
        selected: &Value,
    ) -> Result<Option<Value>, Broken> {
        let text = template.value.as_deref().unwrap_or("null");
        if self.like(Original::BareTarget) && passes_bare_target(text) {
            return Err(Broken("the template fails"));
        }
        let parts: Vec<_> = keys
            .iter()
            .map(|key| match key.part() {
                KeyPart::Int(index) => modgate_template::KeyPart::Index(index),
                KeyPart::Text(name) => modgate_template::KeyPart::Key(name),
            })
            .collect();
        let context = PatchContext {
            target: document,
            namespace: self.store_namespace(),
            selected_item: template.select.as_ref().map(|_| selected),
            select_key_parts: &parts,
        };
        let text = preprocess(text);
        let Ok(template) = Template::parse_with(path_of(template), &text, Functions::Sprig) else {
            return Ok(None);
        };
        let budget = Budget::unlimited();
        let env = Env { budget: &budget, host: &Isolated };
        let rendered = template.render(context, &env);
        Ok(rendered.ok().and_then(|text| yaml::value(&text).ok()))
    }
}

/// Which of two selected places comes first: list elements by index, members by name.
pub(super) fn by_place(a: &[Key], b: &[Key]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (Key::Index(a), Key::Index(b)) => a.cmp(b),
            (Key::Index(_), Key::Name(_)) => Ordering::Less,
            (Key::Name(_), Key::Index(_)) => Ordering::Greater,
            (Key::Name(a), Key::Name(b)) => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// The path of an operation; the CRD's schema requires one.
pub(super) fn path_of(operation: &PatchOperation) -> &str {
    operation.path.as_deref().unwrap_or_default()
}
