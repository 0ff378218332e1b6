//! Installing: from a catalog into a cluster.

use std::time::{SystemTime, UNIX_EPOCH};

use modgate_value::{
    Object, Value,
    gotime::{Time, Zone},
    yaml,
};

use super::{
    catalog::{Catalog, Policy},
    cluster::Cluster,
    fetch::Fetcher,
};

const MANAGED_BY: &str = "gatekeeper.sh/managed-by";
const BUNDLE: &str = "gatekeeper.sh/bundle";
const POLICY_SOURCE: &str = "gatekeeper.sh/policy-source";
const POLICY_VERSION: &str = "gatekeeper.sh/policy-version";
const INSTALLED_AT: &str = "gatekeeper.sh/installed-at";

/// The recorded source, for every catalog.
pub(super) const SOURCE: &str = "https://github.com/open-policy-agent/gatekeeper-library";

/// A policy in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) name: String,
    pub(super) version: String,
    /// Empty when it was not installed with one.
    pub(super) bundle: String,
    pub(super) installed_at: String,
}

/// A policy to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: String,
    /// The bundle that includes it; without one no constraint is installed.
    pub(super) bundle: Option<String>,
}

/// How to install.
pub(super) struct Installation<'i> {
    /// `None` when nothing is to be done.
    pub(super) cluster: Option<&'i dyn Cluster>,
    pub(super) fetcher: &'i Fetcher,
    /// Overrides the action of constraints.
    pub(super) action: Option<&'i str>,
    /// The recorded time.
    pub(super) now: String,
}

/// The installed policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) installed: Vec<String>,
    pub(super) skipped: Vec<String>,
    /// The policy that failed, and why; nothing is done after it.
    pub(super) failed: Option<(String, String)>,
    /// The conflicting object, if that is the reason.
    pub(super) conflict: Option<String>,
    pub(super) templates: usize,
    pub(super) constraints: usize,
}

/// Why a policy is not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InstallError {
    #[error(
        "{kind} '{name}' already exists but is not managed by gator (expected label \
         'gatekeeper.sh/managed-by: gator' and annotation 'gatekeeper.sh/policy-source')"
    )]
    Conflict { kind: String, name: String },
    #[error("{0}")]
    Other(String),
}

/// The current time, in the recorded format.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    Time::at_unix(seconds, Zone::utc()).format("2006-01-02T15:04:05Z07:00")
}

/// The policies of bundles, then single ones; each once.
pub(super) fn wanted(
    catalog: &Catalog,
    bundles: &[String],
    policies: &[String],
) -> Result<Vec<Wanted>, String> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut add = |name: String, bundle: Option<&String>| {
        if !wanted.iter().any(|known| known.name == name) {
            wanted.push(Wanted { name, bundle: bundle.cloned() });
        }
    };
    for bundle in bundles {
        for name in catalog.bundle_policies(bundle)? {
            add(name, Some(bundle));
        }
    }
    for name in policies {
        add(name.clone(), None);
    }
    Ok(wanted)
}

/// The policies that gator installed, by name.
pub(super) fn installed(cluster: &dyn Cluster) -> Result<Vec<Installed>, String> {
    let mut all: Vec<Installed> = cluster
        .templates()?
        .iter()
        .filter(|template| is_managed(template))
        .map(|template| Installed {
            name: text(template, &["metadata", "name"]),
            version: text(template, &["metadata", "annotations", POLICY_VERSION]),
            bundle: text(template, &["metadata", "labels", BUNDLE]),
            installed_at: text(template, &["metadata", "annotations", INSTALLED_AT]),
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Whether gator installed an object.
pub(super) fn is_managed(object: &Value) -> bool {
    text(object, &["metadata", "labels", MANAGED_BY]) == "gator"
        && !text(object, &["metadata", "annotations", POLICY_SOURCE]).is_empty()
}

fn text(object: &Value, path: &[&str]) -> String {
    object.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Installation<'_> {
    /// Installs policies in order, up to the first that fails.
    pub(super) fn install(&self, catalog: &Catalog, wanted: &[Wanted]) -> Done {
        let mut done = Done::default();
        for Wanted { name, bundle } in wanted {
            let outcome = match catalog.policy(name) {
                Some(policy) => self.one(policy, bundle.as_deref(), &mut done),
                None => Err(InstallError::Other(format!("policy not found: {name}"))),
            };
            match outcome {
                Ok(true) => {
                    done.installed.push(name.clone());
                    done.templates += 1;
                }
                Ok(false) => done.skipped.push(name.clone()),
                Err(error) => {
                    let is_conflict = matches!(error, InstallError::Conflict { .. });
                    done.conflict = is_conflict.then(|| error.to_string());
                    done.failed = Some((name.clone(), error.to_string()));
                    break;
                }
            }
        }
        done
    }

    /// Returns whether there was something to install.
    pub(super) fn one(
        &self,
        policy: &Policy,
        bundle: Option<&str>,
        done: &mut Done,
    ) -> Result<bool, InstallError> {
        let other = |what: &str, error: String| InstallError::Other(format!("{what}: {error}"));
        let template = self.fetch(&policy.template_path, "template")?;
        let name = text(&template, &["metadata", "name"]);
        let mut is_there = false;
        if let Some(cluster) = self.cluster {
            let existing = cluster
                .template(&name)
                .map_err(|error| other("checking existing template", error))?;
            if let Some(existing) = existing {
                if !is_managed(&existing) {
                    let kind = "ConstraintTemplate".to_owned();
                    return Err(InstallError::Conflict { kind, name });
                }
                let version = text(&existing, &["metadata", "annotations", POLICY_VERSION]);
                is_there = version == policy.version;
            }
            if !is_there {
                let managed = self.managed(&template, &policy.version, bundle);
                cluster
                    .put_template(&managed)
                    .map_err(|error| other("installing template", error))?;
            }
        }
        let path = bundle.and_then(|bundle| policy.bundle_constraints.get(bundle));
        let path = path.filter(|path| !path.is_empty());
        if let Some(path) = path {
            self.constraint(policy, path, bundle, &name)?;
            done.constraints += 1;
        }
        Ok(!is_there || path.is_some())
    }

    fn constraint(
        &self,
        policy: &Policy,
        path: &str,
        bundle: Option<&str>,
        template: &str,
    ) -> Result<(), InstallError> {
        let other = |what: &str, error: String| InstallError::Other(format!("{what}: {error}"));
        let constraint = self.fetch(path, "constraint")?;
        let (kind, name) = (text(&constraint, &["kind"]), text(&constraint, &["metadata", "name"]));
        let Some(cluster) = self.cluster else { return Ok(()) };
        cluster.wait_for(template, &kind).map_err(InstallError::Other)?;
        let existing = cluster
            .constraint(&kind, &name)
            .map_err(|error| other("checking existing constraint", error))?;
        let mut action = self.action.map(str::to_owned);
        if let Some(existing) = existing {
            if !is_managed(&existing) {
                return Err(InstallError::Conflict { kind, name });
            }
            // An upgrade does not undo a decision of the user.
            let kept = text(&existing, &["spec", "enforcementAction"]);
            action = action.or_else(|| (!kept.is_empty()).then_some(kept));
        }
        let mut managed = self.managed(&constraint, &policy.version, bundle);
        if let Some(action) = action {
            managed = with(&managed, &["spec", "enforcementAction"], action.into());
        }
        cluster.put_constraint(&managed).map_err(|error| other("installing constraint", error))
    }

    fn fetch(&self, path: &str, what: &str) -> Result<Value, InstallError> {
        let failed =
            |doing: &str, error: String| InstallError::Other(format!("{doing} {what}{error}"));
        let content =
            self.fetcher.content(path).map_err(|error| failed("fetching", format!(": {error}")))?;
        let value =
            yaml::value(&content).map_err(|error| failed("parsing", format!(" YAML: {error}")))?;
        match value {
            Value::Object(_) => Ok(value),
            other => {
                let reason = format!(" YAML: expected an object, found {}", other.type_name());
                Err(failed("parsing", reason))
            }
        }
    }

    /// The object with the labels and annotations of an installed one.
    fn managed(&self, object: &Value, version: &str, bundle: Option<&str>) -> Value {
        let label = |object: &Value, key: &str, value: &str| {
            with(object, &["metadata", "labels", key], value.into())
        };
        let annotation = |object: &Value, key: &str, value: &str| {
            with(object, &["metadata", "annotations", key], value.into())
        };
        let mut object = label(object, MANAGED_BY, "gator");
        if let Some(bundle) = bundle {
            object = label(&object, BUNDLE, bundle);
        }
        object = annotation(&object, POLICY_VERSION, version);
        object = annotation(&object, POLICY_SOURCE, SOURCE);
        annotation(&object, INSTALLED_AT, &self.now)
    }
}

/// The object with a member set, containers made where they are missing.
fn with(object: &Value, path: &[&str], value: Value) -> Value {
    let Some((first, rest)) = path.split_first() else { return value };
    let mut members = object.as_object().cloned().unwrap_or_default();
    let member = members.get(first).cloned().unwrap_or_default();
    members.insert(*first, with(&member, rest, value));
    Object::into(members)
}
