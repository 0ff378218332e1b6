//! The file of a generated object: where a person edits it.

use modgate_value::{Value, yaml};

/// The annotation that kustomize adds with `buildMetadata: [originAnnotations]`.
const KUSTOMIZE: [&str; 3] = ["metadata", "annotations", "config.kubernetes.io/origin"];

/// The file that the generator of an object names, if one does.
///
/// Helm writes a comment `# Source: chart/templates/x.yaml` above each document: `before` is the text
/// up to the document. kustomize adds an annotation.
pub fn generated_from<'t>(object: &'t Value, before: &'t str) -> Option<String> {
    of_annotation(object).or_else(|| of_comment(before))
}

fn of_comment(before: &str) -> Option<String> {
    let above = before.lines().rev().take_while(|line| line.starts_with('#') || line.is_empty());
    let mut found = above.filter_map(|line| line.strip_prefix("# Source: "));
    found.next().map(str::trim).filter(|file| !file.is_empty()).map(str::to_owned)
}

/// The annotation is YAML text. With `repo`, the path is one of another repository.
fn of_annotation(object: &Value) -> Option<String> {
    let origin = yaml::value(object.path(&KUSTOMIZE)?.as_str()?).ok()?;
    if origin.get("repo").is_some() {
        return None;
    }
    origin.get("path")?.as_str().filter(|path| !path.is_empty()).map(str::to_owned)
}
