//! The cluster that `gator policy` installs into.

use std::{
    thread,
    time::{Duration, Instant},
};

use modgate_cluster::remote::{Place, Remote, RemoteError, Resource};
use modgate_engine::api::{constraints, templates};
use modgate_gator::Cluster;
use modgate_value::Value;

/// How long a template may take to become a kind, and how often we look (7.9).
const CREATED_TIMEOUT: Duration = Duration::from_secs(120);
const INTERVAL: Duration = Duration::from_millis(500);

/// Connects to the cluster that the environment names: `KUBECONFIG`, the kubeconfig at home, or the
/// one this process runs in.
pub(super) fn connect(env: &dyn Fn(&str) -> Option<String>) -> Result<Box<dyn Cluster>, String> {
    let remote = Remote::connect(&Place::find(None, None, env)).map_err(|it| it.to_string())?;
    Ok(Box::new(RemoteCluster { remote, timeout: CREATED_TIMEOUT }))
}

struct RemoteCluster {
    remote: Remote,
    timeout: Duration,
}

impl RemoteCluster {
    /// Templates, in a version that is served.
    fn kind_of_templates(&self) -> Result<Resource, RemoteError> {
        let version = self.remote.group_version(templates::GROUP)?;
        let version = version.as_deref().unwrap_or("v1");
        Ok(Resource::of_cluster(templates::GROUP, version, "constrainttemplates"))
    }

    /// Polls until `is_so`, for as long as the timeout allows.
    fn wait(
        &self,
        what: &str,
        is_so: impl Fn() -> Result<bool, RemoteError>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let looked = is_so();
            if let Ok(true) = looked {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = looked.err().map(|error| format!(": {error}")).unwrap_or_default();
                let seconds = self.timeout.as_secs();
                return Err(format!("{what}: not so after {seconds} s{why}"));
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// Constraints of a kind.
fn kind_of_constraints(kind: &str) -> Resource {
    Resource::of_cluster(constraints::GROUP, "v1beta1", &kind.to_lowercase())
}

fn text(error: RemoteError) -> String {
    error.to_string()
}

impl Cluster for RemoteCluster {
    fn has_templates(&self) -> Result<bool, String> {
        let served = self.remote.resources(templates::GROUP).map_err(text)?;
        Ok(served.iter().any(|resource| resource.kind == templates::KIND))
    }

    fn templates(&self) -> Result<Vec<Value>, String> {
        self.kind_of_templates().and_then(|kind| self.remote.list(&kind)).map_err(text)
    }

    fn template(&self, name: &str) -> Result<Option<Value>, String> {
        self.kind_of_templates().and_then(|kind| self.remote.get(&kind, "", name)).map_err(text)
    }

    fn put_template(&self, template: &Value) -> Result<(), String> {
        // Sent in the version it is written in.
        let version = template.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let written = version.strip_prefix(templates::GROUP).and_then(|it| it.strip_prefix('/'));
        let kind = match written {
            Some(version) => Resource::of_cluster(templates::GROUP, version, "constrainttemplates"),
            None => self.kind_of_templates().map_err(text)?,
        };
        self.remote.put(&kind, template).map_err(text)
    }

    fn delete_template(&self, name: &str) -> Result<(), String> {
        let kind = self.kind_of_templates().map_err(text)?;
        self.remote.delete(&kind, "", name).map(|_| ()).map_err(text)
    }

    fn wait_for(&self, template: &str, kind: &str) -> Result<(), String> {
        self.wait("waiting for template ready", || {
            let template = self.remote.get(&self.kind_of_templates()?, "", template)?;
            let created = template.as_ref().and_then(|it| it.path(&["status", "created"]));
            Ok(created.and_then(Value::as_bool) == Some(true))
        })?;
        self.wait("waiting for constraint CRD", || {
            let served = self.remote.resources_of(constraints::GROUP, "v1beta1")?;
            Ok(served.iter().any(|resource| resource.kind == kind))
        })
    }

    fn constraint(&self, kind: &str, name: &str) -> Result<Option<Value>, String> {
        self.remote.get(&kind_of_constraints(kind), "", name).map_err(text)
    }

    fn put_constraint(&self, constraint: &Value) -> Result<(), String> {
        let kind = constraint.get("kind").and_then(Value::as_str).unwrap_or_default();
        self.remote.put(&kind_of_constraints(kind), constraint).map_err(text)
    }
}
