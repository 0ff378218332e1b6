//! The admission checks for ModRules themselves (1.4 and 1.5).

use modgate_api::modrule::{DEFAULT_MATCH_FOR, DEFAULT_OPERATIONS, ModRule};
use modgate_value::{DecodeError, MAX_DEPTH, Object, Value};

use super::compile::{CompiledModRule, FieldError, compile};
use crate::{
    EngineConfig, PolicyId, PolicySource, Problem,
    jsonpatch::{self, PatchOperation},
    lint,
};

/// A ModRule that must not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Denied {
    /// `status.code`: 400 for a member of the wrong type, 403 for anything else.
    pub code: u16,
    /// `status.reason`, the whole text.
    pub reason: String,
    /// The errors, field by field; empty for a member of the wrong type.
    pub errors: Vec<FieldError>,
}

/// The patch of the defaulting webhook: `matchFor` and `admissionOperations` where missing.
///
/// KubeMod's also drops nulls and adds empty members, which the API server does by itself.
///
/// # Errors
///
/// When a member has the wrong JSON type.
pub fn default_modrule(object: &Value) -> Result<Vec<PatchOperation>, Denied> {
    decode(object)?;
    let defaulted = with_defaults(object).unwrap_or_else(|| object.clone());
    Ok(jsonpatch::diff(object, &defaulted))
}

fn with_defaults(object: &Value) -> Option<Value> {
    let mut root = object.as_object()?.clone();
    let mut spec = root.get("spec")?.as_object()?.clone();
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if is_empty(spec.get("admissionOperations")) {
        let operations: Value = DEFAULT_OPERATIONS.into_iter().map(Value::from).collect();
        spec.insert("admissionOperations", operations);
    }
    if let Some(Value::Array(items)) = spec.get("match") {
        let items: Value = items
            .iter()
            .map(|item| match item {
                Value::Object(members) if is_empty(members.get("matchFor")) => {
                    let mut members: Object = members.clone();
                    members.insert("matchFor", DEFAULT_MATCH_FOR.into());
                    members.into()
                }
                other => other.clone(),
            })
            .collect();
        spec.insert("match", items);
    }
    root.insert("spec", spec.into());
    Some(root.into())
}

/// The validating webhook: accepts exactly what loads and returns the warnings to
/// show.
///
/// # Errors
///
/// When the rule would not load.
pub fn validate_modrule(object: &Value, config: &EngineConfig) -> Result<Vec<String>, Denied> {
    let rule = decode(object)?;
    let (_, mut warnings) = compile_or_deny(&rule, object, config)?;
    lint::retain(object, &mut warnings, 0);
    let warnings = warnings.into_iter().map(|problem| problem.to_string());
    Ok(warnings.chain(lint::warnings(object, &lint::Definitions::default())).collect())
}

fn decode(object: &Value) -> Result<ModRule, Denied> {
    // What reads policies recurses over them.
    if let Err(deep) = object.check_depth(MAX_DEPTH) {
        return Err(Denied { code: 400, reason: deep.to_string(), errors: Vec::new() });
    }
    ModRule::from_value(object).map_err(|DecodeError { path, message }| Denied {
        code: 400,
        reason: if path.is_empty() { message } else { format!("{path}: {message}") },
        errors: Vec::new(),
    })
}

/// Compiles a rule, or words what is wrong with it as KubeMod's webhook does.
pub(crate) fn compile_or_deny(
    rule: &ModRule,
    object: &Value,
    config: &EngineConfig,
) -> Result<(CompiledModRule, Vec<Problem>), Denied> {
    let id = PolicyId {
        group: modgate_api::modrule::GROUP.into(),
        kind: modgate_api::modrule::KIND.into(),
        namespace: rule.metadata.namespace.clone(),
        name: rule.metadata.name.clone(),
    };
    compile(rule, &id, &PolicySource::of_object(object.clone()), config).map_err(|errors| {
        let items: Vec<String> = errors.iter().map(FieldError::to_string).collect();
        let items = match items.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Denied {
            code: 403,
            reason: format!("ModRule.api.kubemod.io \"{}\" is invalid: {items}", id.name),
            errors,
        }
    })
}
