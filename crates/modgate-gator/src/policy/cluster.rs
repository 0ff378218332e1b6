//! What is asked of a cluster.

use modgate_value::Value;

/// A cluster, as far as installing policies needs it. Errors are texts for people.
pub(super) trait Cluster {
    /// Whether it serves ConstraintTemplates.
    fn has_templates(&self) -> Result<bool, String>;

    /// All ConstraintTemplates.
    fn templates(&self) -> Result<Vec<Value>, String>;

    /// One of them, if it exists.
    fn template(&self, name: &str) -> Result<Option<Value>, String>;

    /// Creates or replaces a ConstraintTemplate.
    fn put_template(&self, template: &Value) -> Result<(), String>;

    /// Deletes a ConstraintTemplate.
    fn delete_template(&self, name: &str) -> Result<(), String>;

    /// Waits, for at most 120 s, until a template's `status.created` is true and its constraints
    /// of this kind are served.
    fn wait_for(&self, template: &str, kind: &str) -> Result<(), String>;

    /// A constraint, if it exists.
    fn constraint(&self, kind: &str, name: &str) -> Result<Option<Value>, String>;

    /// Creates or replaces a constraint.
    fn put_constraint(&self, constraint: &Value) -> Result<(), String>;
}

/// Reaches the cluster that the environment names.
///
/// There is no client yet (issue 6): every verb that needs a cluster says so and fails.
pub(super) fn connect(_: &dyn Fn(&str) -> Option<String>) -> Result<Box<dyn Cluster>, String> {
    Err("this version cannot reach clusters; `install --dry-run`, `search`, `update` and \
         `generate-catalog` need none"
        .to_owned())
}
