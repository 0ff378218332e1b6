//! Upgrading and removing what is installed.

use super::{
    catalog::Catalog,
    cluster::Cluster,
    install::{Done, Installation, Installed, is_managed},
};

/// A policy in another version than the catalog's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionChange {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// The upgraded policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Upgraded {
    pub(super) upgraded: Vec<VersionChange>,
    pub(super) already_current: Vec<String>,
    pub(super) not_installed: Vec<String>,
    pub(super) not_found: Vec<String>,
    /// The policy that failed, and why; nothing is done after it.
    pub(super) failed: Option<(String, String)>,
}

/// The removed policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uninstalled {
    pub(super) uninstalled: Vec<String>,
    pub(super) not_found: Vec<String>,
    pub(super) not_managed: Vec<String>,
}

/// Installed policies whose version differs from the catalog's.
pub(super) fn upgradable(installed: &[Installed], catalog: &Catalog) -> Vec<VersionChange> {
    let change = |policy: &Installed| {
        let latest = catalog.policy(&policy.name)?;
        (latest.version != policy.version).then(|| VersionChange {
            name: policy.name.clone(),
            from: policy.version.clone(),
            to: latest.version.clone(),
        })
    };
    installed.iter().filter_map(change).collect()
}

/// Installs the catalog's versions, each with the constraint of its bundle, up to the first that
/// fails (`fix-upgrade-errors`: a failed installation is a failed upgrade).
pub(super) fn upgrade(
    installation: &Installation<'_>,
    catalog: &Catalog,
    installed: &[Installed],
    names: &[String],
) -> Upgraded {
    let mut done = Upgraded::default();
    for name in names {
        let Some(present) = installed.iter().find(|policy| policy.name == *name) else {
            done.not_installed.push(name.clone());
            continue;
        };
        let Some(latest) = catalog.policy(name) else {
            done.not_found.push(name.clone());
            continue;
        };
        if present.version == latest.version {
            done.already_current.push(name.clone());
            continue;
        }
        let bundle = Some(present.bundle.as_str()).filter(|bundle| !bundle.is_empty());
        if let Err(error) = installation.one(latest, bundle, &mut Done::default()) {
            done.failed = Some((name.clone(), error.to_string()));
            break;
        }
        done.upgraded.push(VersionChange {
            name: name.clone(),
            from: present.version.clone(),
            to: latest.version.clone(),
        });
    }
    done
}

/// Deletes templates; their constraints go with them.
pub(super) fn uninstall(
    cluster: &dyn Cluster,
    names: &[String],
    dry_run: bool,
) -> Result<Uninstalled, String> {
    let mut done = Uninstalled::default();
    for name in names {
        let template =
            cluster.template(name).map_err(|error| format!("getting template: {error}"))?;
        match template {
            None => done.not_found.push(name.clone()),
            Some(template) if !is_managed(&template) => done.not_managed.push(name.clone()),
            Some(_) => {
                if !dry_run {
                    cluster
                        .delete_template(name)
                        .map_err(|error| format!("deleting template: {error}"))?;
                }
                done.uninstalled.push(name.clone());
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeMap, fs};

    use modgate_api::meta::ObjectExt as _;
    use modgate_value::Value;

    use super::*;
    use crate::policy::{fetch::Fetcher, install::wanted};

    /// A cluster in memory.
    #[derive(Default)]
    struct Fake {
        templates: RefCell<BTreeMap<String, Value>>,
        constraints: RefCell<BTreeMap<String, Value>>,
    }

    fn name(object: &Value) -> String {
        object.name().to_owned()
    }

    impl Cluster for Fake {
        fn has_templates(&self) -> Result<bool, String> {
            Ok(true)
        }

        fn templates(&self) -> Result<Vec<Value>, String> {
            Ok(self.templates.borrow().values().cloned().collect())
        }

        fn template(&self, name: &str) -> Result<Option<Value>, String> {
            Ok(self.templates.borrow().get(name).cloned())
        }

        fn put_template(&self, template: &Value) -> Result<(), String> {
            self.templates.borrow_mut().insert(name(template), template.clone());
            Ok(())
        }

        fn delete_template(&self, name: &str) -> Result<(), String> {
            self.templates.borrow_mut().remove(name);
            Ok(())
        }

        fn wait_for(&self, template: &str, _: &str) -> Result<(), String> {
            let known = self.templates.borrow().contains_key(template);
            known.then_some(()).ok_or_else(|| "waiting for template ready: no".to_owned())
        }

        fn constraint(&self, _: &str, name: &str) -> Result<Option<Value>, String> {
            Ok(self.constraints.borrow().get(name).cloned())
        }

        fn put_constraint(&self, constraint: &Value) -> Result<(), String> {
            self.constraints.borrow_mut().insert(name(constraint), constraint.clone());
            Ok(())
        }
    }

    /// Catalogs with policies `a` (in bundle `b`, with a constraint) and `c`, whose file is missing.
    fn catalog(version: &str) -> Catalog {
        Catalog::parse(&format!(
            "{{apiVersion: x, kind: PolicyCatalog, metadata: {{name: c}},\n\
             bundles: [{{name: b, policies: [a]}}],\n\
             policies: [{{name: a, version: {version}, templatePath: t.yaml, \
             bundleConstraints: {{b: c.yaml}}}}, {{name: c, version: {version}, templatePath: \
             no.yaml}}]}}"
        ))
        .expect("a catalog")
    }

    #[test]
    fn the_life_of_a_policy() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("t.yaml"), "kind: ConstraintTemplate\nmetadata: {name: a}\n")
            .expect("write");
        fs::write(
            folder.path().join("c.yaml"),
            "kind: A\nmetadata: {name: x}\nspec: {enforcementAction: deny}\n",
        )
        .expect("write");
        let origin = format!("file://{}/catalog.yaml", folder.path().display());
        let fetcher = Fetcher::new(&origin, false);
        let fake = Fake::default();
        let with = |action| Installation {
            cluster: Some(&fake as &dyn Cluster),
            fetcher: &fetcher,
            action,
            now: "2026-01-02T03:04:05Z".to_owned(),
        };
        let list = || crate::policy::install::installed(&fake).expect("a list");
        let action = || {
            let constraint = fake.constraint("A", "x").expect("asked").expect("is there");
            constraint
                .path(&["spec", "enforcementAction"])
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();

        let first = catalog("v1.0.0");
        let bundle = wanted(&first, &owned(&["b"]), &owned(&["a"])).expect("wanted");
        let done = with(Some("warn")).install(&first, &bundle);
        assert_eq!((done.templates, done.constraints, done.failed), (1, 1, None));
        assert_eq!(action().as_deref(), Some("warn"));
        let expected = Installed {
            name: "a".to_owned(),
            version: "v1.0.0".to_owned(),
            bundle: "b".to_owned(),
            installed_at: "2026-01-02T03:04:05Z".to_owned(),
        };
        assert_eq!(list(), [expected]);

        // Without a bundle, the same version needs no change.
        let alone = wanted(&first, &[], &owned(&["a"])).expect("wanted");
        let done = with(None).install(&first, &alone);
        assert_eq!((done.installed, done.skipped), (Vec::new(), owned(&["a"])));

        let second = catalog("v2.0.0");
        assert_eq!(upgradable(&list(), &second).len(), 1);
        let names = owned(&["a", "nope"]);
        let done = upgrade(&with(None), &second, &list(), &names);
        assert_eq!(done.upgraded[0].to, "v2.0.0");
        assert_eq!(done.not_installed, owned(&["nope"]));
        assert_eq!(action().as_deref(), Some("warn"), "what was decided stays");
        assert_eq!(list()[0].bundle, "b");
        let done = upgrade(&with(None), &second, &list(), &owned(&["a"]));
        assert_eq!(done.already_current, owned(&["a"]));

        // An installation that fails is an upgrade that fails.
        fs::remove_file(folder.path().join("t.yaml")).expect("remove");
        let third = catalog("v3.0.0");
        let done = upgrade(&with(None), &third, &list(), &owned(&["a"]));
        assert!(done.upgraded.is_empty());
        let (failed, why) = done.failed.expect("failed");
        assert_eq!(failed, "a");
        assert!(why.starts_with("fetching template: open "), "{why}");

        let done = uninstall(&fake, &names, false).expect("uninstalled");
        assert_eq!((done.uninstalled, done.not_found), (owned(&["a"]), owned(&["nope"])));
        assert!(list().is_empty());
    }

    #[test]
    fn what_is_not_ours_stays() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("t.yaml"), "metadata: {name: a}\n").expect("write");
        let origin = format!("file://{}/catalog.yaml", folder.path().display());
        let fetcher = Fetcher::new(&origin, false);
        let fake = Fake::default();
        let theirs = Value::from_json(br#"{"metadata": {"name": "a"}}"#).expect("object");
        fake.put_template(&theirs).expect("put");
        let catalog = catalog("v1.0.0");
        let installation = Installation {
            cluster: Some(&fake),
            fetcher: &fetcher,
            action: None,
            now: String::new(),
        };
        let names = ["a".to_owned()];
        let done = installation.install(&catalog, &wanted(&catalog, &[], &names).expect("wanted"));
        assert_eq!(
            done.conflict.as_deref(),
            Some(
                "ConstraintTemplate 'a' already exists but is not managed by gator (expected label \
                 'gatekeeper.sh/managed-by: gator' and annotation 'gatekeeper.sh/policy-source')"
            )
        );
        let done = uninstall(&fake, &names, false).expect("asked");
        assert_eq!(done.not_managed, names);
        assert_eq!(fake.template("a"), Ok(Some(theirs)));
    }
}
