//! Results as tables and JSON.

use std::fmt::Write as _;

use super::{
    catalog::{API_VERSION, Catalog, Policy},
    install::{Done, Installed},
    upgrade::{Uninstalled, Upgraded, VersionChange},
};
use crate::{
    VerbFailure,
    print::{self, Node, align},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
}

impl Format {
    pub(super) fn of(text: &str) -> Result<Self, VerbFailure> {
        match text {
            "" | "table" => Ok(Self::Table),
            "json" => Ok(Self::Json),
            _ => Err(VerbFailure::error(format!(
                "invalid output format: {text} (must be table or json)"
            ))),
        }
    }
}

/// Maximum bytes of a description in a table.
const DESCRIPTION: usize = 50;

type Members = Vec<(&'static str, Node)>;

/// Of `policy update`.
pub(super) fn updated(catalog: &Catalog, upgradable: &[VersionChange], format: Format) -> String {
    if format == Format::Json {
        let mut members = vec![
            ("catalogVersion", Node::text(catalog.version.as_str())),
            ("policyCount", count(catalog.policies.len())),
            ("bundleCount", count(catalog.bundles.len())),
        ];
        members.extend(changes("upgradable", upgradable));
        return result("UpdateResult", members);
    }
    let mut out = format!(
        "Updated catalog to version {} ({} policies, {} bundles)\n",
        catalog.version,
        catalog.policies.len(),
        catalog.bundles.len()
    );
    if !upgradable.is_empty() {
        let _ = writeln!(out, "\n{} policies have updates available:", upgradable.len());
        for VersionChange { name, from, to } in upgradable {
            let _ = writeln!(out, "  {name}  {from} → {to}");
        }
        out.push_str("\nRun 'gator policy upgrade --all' to upgrade.\n");
    }
    out
}

/// Of `policy search`.
pub(super) fn found(policies: &[&Policy], format: Format) -> String {
    if format == Format::Json {
        let entry = |policy: &&Policy| {
            Node::map([
                ("name", Node::text(policy.name.as_str())),
                ("version", Node::text(policy.version.as_str())),
                ("category", Node::text(policy.category.as_str())),
                ("description", Node::text(policy.description.as_str())),
            ])
        };
        let results = match policies {
            [] => Node::Value(Default::default()),
            _ => Node::List(policies.iter().map(entry).collect()),
        };
        return json(vec![("apiVersion", Node::text(API_VERSION)), ("results", results)]);
    }
    if policies.is_empty() {
        return "No policies found.\n".to_owned();
    }
    let mut out = "NAME\tVERSION\tCATEGORY\tDESCRIPTION\n".to_owned();
    for policy in policies {
        let Policy { name, version, category, description, .. } = policy;
        let _ = writeln!(out, "{name}\t{version}\t{category}\t{}", shortened(description));
    }
    align(&out)
}

fn shortened(description: &str) -> String {
    if description.len() <= DESCRIPTION {
        return description.to_owned();
    }
    let end = description.floor_char_boundary(DESCRIPTION - 3);
    format!("{}...", description.get(..end).unwrap_or_default())
}

/// Of `policy list`.
pub(super) fn installed(policies: &[Installed], format: Format) -> String {
    if format == Format::Json {
        let entry = |policy: &Installed| {
            let mut members = vec![
                ("name", Node::text(policy.name.as_str())),
                ("version", Node::text(policy.version.as_str())),
            ];
            for (key, text) in [("bundle", &policy.bundle), ("installedAt", &policy.installed_at)] {
                if !text.is_empty() {
                    members.push((key, Node::text(text.as_str())));
                }
            }
            map(members)
        };
        let policies = Node::List(policies.iter().map(entry).collect());
        return json(vec![("apiVersion", Node::text(API_VERSION)), ("policies", policies)]);
    }
    if policies.is_empty() {
        return "No policies installed.\n".to_owned();
    }
    let mut out = "NAME\tVERSION\tBUNDLE\tINSTALLED\n".to_owned();
    for Installed { name, version, bundle, installed_at } in policies {
        let bundle = if bundle.is_empty() { "-" } else { bundle };
        let date = installed_at.get(..10).unwrap_or(installed_at);
        let _ = writeln!(out, "{name}\t{version}\t{bundle}\t{date}");
    }
    align(&out)
}

/// Of `policy install`.
pub(super) fn done(done: &Done, catalog: &Catalog, dry_run: bool, format: Format) -> String {
    let version = |name: &str| catalog.policy(name).map_or("", |policy| policy.version.as_str());
    if format == Format::Json {
        let entry = |name: &String| {
            Node::map([("name", Node::text(name.as_str())), ("version", Node::text(version(name)))])
        };
        let mut members = Members::new();
        if !done.installed.is_empty() {
            members.push(("installed", Node::List(done.installed.iter().map(entry).collect())));
        }
        members.extend(names("skipped", &done.skipped));
        members.extend(failed(done.failed.as_ref()));
        members.push(("templatesInstalled", count(done.templates)));
        members.push(("constraintsInstalled", count(done.constraints)));
        members.push(("dryRun", Node::Value(dry_run.into())));
        return result("InstallResult", members);
    }
    let mut out = String::new();
    for name in &done.installed {
        let version = version(name);
        let _ = match dry_run {
            true => writeln!(out, "(dry-run) {name} {version}"),
            false => writeln!(out, "✓ {name} ({version}) installed"),
        };
    }
    for name in &done.skipped {
        let _ = writeln!(out, "- {name} (already installed at same version)");
    }
    write_failed(done.failed.as_ref(), &mut out);
    if done.failed.is_none() && !dry_run && done.templates > 0 {
        let Done { templates, constraints, .. } = done;
        let _ = writeln!(out, "\n✓ Installed {templates} templates, {constraints} constraints");
    }
    out
}

/// Of `policy uninstall`.
pub(super) fn uninstalled(done: &Uninstalled, dry_run: bool, format: Format) -> String {
    if format == Format::Json {
        let mut members = Members::new();
        members.extend(names("uninstalled", &done.uninstalled));
        members.extend(names("notFound", &done.not_found));
        members.extend(names("notManaged", &done.not_managed));
        members.push(("dryRun", Node::Value(dry_run.into())));
        return result("UninstallResult", members);
    }
    let mut out = String::new();
    for name in &done.uninstalled {
        let _ = match dry_run {
            true => writeln!(out, "{name}"),
            false => writeln!(out, "✓ {name} uninstalled"),
        };
    }
    for name in &done.not_found {
        let _ = writeln!(out, "- {name} (not found)");
    }
    for name in &done.not_managed {
        let _ = writeln!(out, "✗ {name} - not managed by gator");
    }
    out
}

/// Of `policy upgrade`.
pub(super) fn upgraded(done: &Upgraded, dry_run: bool, format: Format) -> String {
    if format == Format::Json {
        let mut members = Members::new();
        members.extend(changes("upgraded", &done.upgraded));
        members.extend(names("alreadyCurrent", &done.already_current));
        members.extend(names("notInstalled", &done.not_installed));
        members.extend(names("notFound", &done.not_found));
        members.extend(failed(done.failed.as_ref()));
        members.push(("dryRun", Node::Value(dry_run.into())));
        return result("UpgradeResult", members);
    }
    let mut out = String::new();
    if dry_run && !done.upgraded.is_empty() {
        let _ = writeln!(out, "==> Would upgrade {} policies:", done.upgraded.len());
    }
    for VersionChange { name, from, to } in &done.upgraded {
        let _ = match dry_run {
            true => writeln!(out, "{name} {from} -> {to}"),
            false => writeln!(out, "✓ {name} upgraded ({from} → {to})"),
        };
    }
    for (names, what) in [
        (&done.already_current, "already at latest version"),
        (&done.not_installed, "not installed"),
        (&done.not_found, "not found in catalog"),
    ] {
        for name in names {
            let _ = writeln!(out, "- {name} ({what})");
        }
    }
    write_failed(done.failed.as_ref(), &mut out);
    if done.upgraded.is_empty() && done.failed.is_none() {
        let _ = match done.not_found.len() {
            0 => writeln!(out, "\nAll policies are up to date."),
            count => {
                writeln!(out, "\nNo upgrades available. {count} policies not found in catalog.")
            }
        };
    }
    out
}

fn write_failed(failed: Option<&(String, String)>, out: &mut String) {
    if let Some((name, error)) = failed {
        let _ = writeln!(out, "✗ {name} - failed: {error}");
    }
}

fn failed(failed: Option<&(String, String)>) -> Option<(&'static str, Node)> {
    let (name, error) = failed?;
    let entry =
        Node::map([("name", Node::text(name.as_str())), ("error", Node::text(error.as_str()))]);
    Some(("failed", Node::List(vec![entry])))
}

/// A list of names, unless it is empty.
fn names(key: &'static str, names: &[String]) -> Option<(&'static str, Node)> {
    let list = || names.iter().map(|name| Node::text(name.as_str())).collect();
    (!names.is_empty()).then(|| (key, Node::List(list())))
}

fn changes(key: &'static str, changes: &[VersionChange]) -> Option<(&'static str, Node)> {
    let entry = |change: &VersionChange| {
        Node::map([
            ("name", Node::text(change.name.as_str())),
            ("fromVersion", Node::text(change.from.as_str())),
            ("toVersion", Node::text(change.to.as_str())),
        ])
    };
    (!changes.is_empty()).then(|| (key, Node::List(changes.iter().map(entry).collect())))
}

fn result(kind: &str, members: Members) -> String {
    json(vec![
        ("apiVersion", Node::text(API_VERSION)),
        ("kind", Node::text(kind)),
        ("result", map(members)),
    ])
}

fn json(members: Members) -> String {
    let mut out = String::new();
    print::json(&map(members), "  ", &mut out);
    out.push('\n');
    out
}

fn map(members: Members) -> Node {
    Node::Map(members.into_iter().map(|(key, node)| (key.into(), node)).collect())
}

fn count(count: usize) -> Node {
    Node::Value(i64::try_from(count).unwrap_or(i64::MAX).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn installations() {
        let catalog = Catalog {
            policies: vec![Policy {
                name: "a".to_owned(),
                version: "v1".to_owned(),
                ..Policy::default()
            }],
            ..Catalog::default()
        };
        let all = Done {
            installed: owned(&["a"]),
            skipped: owned(&["b"]),
            templates: 1,
            constraints: 2,
            ..Done::default()
        };
        assert_eq!(
            done(&all, &catalog, false, Format::Table),
            "✓ a (v1) installed\n- b (already installed at same version)\n\n\
             ✓ Installed 1 templates, 2 constraints\n"
        );
        let some = Done { failed: Some(("c".to_owned(), "no".to_owned())), ..all };
        assert_eq!(
            done(&some, &catalog, true, Format::Table),
            "(dry-run) a v1\n- b (already installed at same version)\n✗ c - failed: no\n"
        );
    }

    #[test]
    fn upgrades() {
        let change =
            VersionChange { name: "a".to_owned(), from: "v1".to_owned(), to: "v2".to_owned() };
        let all = Upgraded {
            upgraded: vec![change],
            already_current: owned(&["b"]),
            not_installed: owned(&["c"]),
            not_found: owned(&["d"]),
            failed: None,
        };
        let rest = "- b (already at latest version)\n- c (not installed)\n\
                    - d (not found in catalog)\n";
        assert_eq!(upgraded(&all, false, Format::Table), format!("✓ a upgraded (v1 → v2)\n{rest}"));
        assert_eq!(
            upgraded(&all, true, Format::Table),
            format!("==> Would upgrade 1 policies:\na v1 -> v2\n{rest}")
        );
        assert_eq!(
            upgraded(&Upgraded { upgraded: Vec::new(), ..all.clone() }, false, Format::Table),
            format!("{rest}\nNo upgrades available. 1 policies not found in catalog.\n")
        );
        assert_eq!(
            upgraded(&Upgraded::default(), false, Format::Table),
            "\nAll policies are up to date.\n"
        );
        let json = upgraded(&all, false, Format::Json);
        assert!(json.contains("\"fromVersion\": \"v1\""), "{json}");
    }

    #[test]
    fn removals() {
        let all = Uninstalled {
            uninstalled: owned(&["a"]),
            not_found: owned(&["b"]),
            not_managed: owned(&["c"]),
        };
        assert_eq!(
            uninstalled(&all, false, Format::Table),
            "✓ a uninstalled\n- b (not found)\n✗ c - not managed by gator\n"
        );
        assert!(uninstalled(&all, true, Format::Table).starts_with("a\n"));
    }

    #[test]
    fn lists() {
        assert_eq!(installed(&[], Format::Table), "No policies installed.\n");
        assert_eq!(
            installed(&[], Format::Json),
            "{\n  \"apiVersion\": \"gator.gatekeeper.sh/v1alpha1\",\n  \"policies\": []\n}\n"
        );
        let policy = Installed {
            name: "a".to_owned(),
            version: "v1".to_owned(),
            installed_at: "2026-01-02T03:04:05Z".to_owned(),
            ..Installed::default()
        };
        assert_eq!(
            installed(&[policy], Format::Table),
            "NAME  VERSION  BUNDLE  INSTALLED\na     v1       -       2026-01-02\n"
        );
    }
}
