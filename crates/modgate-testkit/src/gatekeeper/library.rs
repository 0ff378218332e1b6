//! The policies of the public Gatekeeper library, to be loaded all at once.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use modgate_value::{Value, yaml};

/// Templates and sample constraints of the library.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// The ConstraintTemplates, one per suite.
    pub templates: Vec<Value>,
    /// The constraints of all tests, each renamed `<name>-<number>`: many samples have one name.
    pub constraints: Vec<Value>,
}

/// The number of templates in the library.
const TEMPLATES: usize = 49;
const CONSTRAINTS: usize = 75;

/// The policies in the library's folder (see [`crate::rego::library::folder`]), suite by suite.
///
/// # Errors
///
/// When a file is missing, or there are not 49 templates and 75 constraints.
pub fn policies(library: &Path) -> Result<Policies> {
    let mut suites = Vec::new();
    for group in ["library/general", "library/pod-security-policy"] {
        let folder = library.join(group);
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path().join("suite.yaml");
            if path.is_file() {
                suites.push(path);
            }
        }
    }
    suites.sort();
    let mut templates = BTreeMap::new();
    let mut constraints = Vec::new();
    for suite in &suites {
        let folder = suite.parent().context("no folder")?;
        let suite = document(suite)?;
        for test in suite.get("tests").and_then(Value::as_array).context("no tests")?.iter() {
            let file = |key| test.get(key).and_then(Value::as_str).context("a test without files");
            let template = folder.join(file("template")?);
            if !templates.contains_key(&template) {
                templates.insert(template.clone(), document(&template)?);
            }
            let constraint = document(&folder.join(file("constraint")?))?;
            constraints.push(renamed(&constraint, constraints.len())?);
        }
    }
    let templates: Vec<Value> = templates.into_values().collect();
    ensure!(templates.len() == TEMPLATES, "{} templates, not {TEMPLATES}", templates.len());
    ensure!(constraints.len() == CONSTRAINTS, "{} constraints", constraints.len());
    Ok(Policies { templates, constraints })
}

fn renamed(constraint: &Value, number: usize) -> Result<Value> {
    let mut constraint = constraint.as_object().context("not an object")?.clone();
    let metadata = constraint.get("metadata").and_then(Value::as_object);
    let mut metadata = metadata.context("no metadata")?.clone();
    let name = metadata.get("name").and_then(Value::as_str).context("no name")?;
    let name = format!("{name}-{number}");
    metadata.insert("name", name.into());
    constraint.insert("metadata", metadata.into());
    Ok(constraint.into())
}

fn document(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    yaml::value(&text).with_context(|| path.display().to_string())
}
