//! The cluster that policies are installed into.

use modgate_value::Value;

/// A cluster, as far as installing policies needs it. Errors are texts for people; implementations
/// return them as they are shown.
pub trait Cluster {
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

    /// Waits, for at most 120 s each, until a template's `status.created` is true and its
    /// constraints of this kind are served.
    fn wait_for(&self, template: &str, kind: &str) -> Result<(), String>;

    /// A constraint, if it exists.
    fn constraint(&self, kind: &str, name: &str) -> Result<Option<Value>, String>;

    /// Creates or replaces a constraint.
    fn put_constraint(&self, constraint: &Value) -> Result<(), String>;
}

/// Connects to the cluster that the environment names.
pub type Connect = fn(env: &dyn Fn(&str) -> Option<String>) -> Result<Box<dyn Cluster>, String>;

/// A [`Connect`] that always fails.
///
/// # Errors
///
/// Always.
pub fn no_cluster(_: &dyn Fn(&str) -> Option<String>) -> Result<Box<dyn Cluster>, String> {
    Err("there is no cluster".to_owned())
}
