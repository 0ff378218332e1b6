//! Catalogs of policies, and the saved one.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use modgate_value::{Value, yaml};

use crate::files::os_text;

/// The version of catalogs and of JSON output.
pub(super) const API_VERSION: &str = "gator.gatekeeper.sh/v1alpha1";
/// The kind of a catalog.
pub(super) const KIND: &str = "PolicyCatalog";

/// Maximum depth of inheritance among bundles.
const MAX_INHERITANCE: usize = 10;

/// Policies, and bundles of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) updated_at: String,
    pub(super) repository: String,
    pub(super) bundles: Vec<Bundle>,
    pub(super) policies: Vec<Policy>,
}

/// Policies that belong together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) inherits: String,
    pub(super) policies: Vec<String>,
}

/// A template, and constraints for bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) category: String,
    pub(super) template_path: String,
    /// Path of a constraint, by the bundle it is for.
    pub(super) bundle_constraints: BTreeMap<String, String>,
    pub(super) documentation_url: String,
    pub(super) bundles: Vec<String>,
}

impl Catalog {
    /// Reads a catalog.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value = yaml::value(text).map_err(|error| format!("parsing catalog YAML: {error}"))?;
        let wrong = |what: &str| format!("parsing catalog YAML: {what}");
        if value.as_object().is_none() && !value.is_null() {
            return Err(wrong("the catalog is not an object"));
        }
        if string(&value, "apiVersion").is_empty() {
            return Err("catalog missing apiVersion".to_owned());
        }
        let kind = string(&value, "kind");
        if kind != KIND {
            return Err(format!("invalid catalog kind: expected {KIND}, got {kind}"));
        }
        let metadata = value.get("metadata").cloned().unwrap_or_default();
        let name = string(&metadata, "name");
        if name.is_empty() {
            return Err("catalog missing metadata.name".to_owned());
        }
        Ok(Self {
            name,
            version: string(&metadata, "version"),
            updated_at: string(&metadata, "updatedAt"),
            repository: string(&metadata, "repository"),
            bundles: list(&value, "bundles").map(Bundle::of).collect(),
            policies: list(&value, "policies").map(Policy::of).collect(),
        })
    }

    /// The policy of that name; of several the last.
    pub(super) fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.iter().rfind(|policy| policy.name == name)
    }

    fn bundle(&self, name: &str) -> Result<&Bundle, String> {
        let found = self.bundles.iter().rfind(|bundle| bundle.name == name);
        found.ok_or_else(|| format!("bundle not found: {name}"))
    }

    /// The policies of a bundle: those of its ancestors first.
    pub(super) fn bundle_policies(&self, name: &str) -> Result<Vec<String>, String> {
        let mut chain: Vec<&Bundle> = Vec::new();
        let mut next = name;
        while !next.is_empty() || chain.is_empty() {
            let bundle = self.bundle(next)?;
            if chain.iter().any(|seen| seen.name == bundle.name) {
                return Err(format!("circular inheritance detected in bundle: {}", bundle.name));
            }
            if chain.len() >= MAX_INHERITANCE {
                return Err(format!(
                    "bundle inheritance exceeds maximum depth of {MAX_INHERITANCE}"
                ));
            }
            chain.push(bundle);
            next = &bundle.inherits;
        }
        let mut names: Vec<String> = Vec::new();
        for name in chain.iter().rev().flat_map(|bundle| &bundle.policies) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Ok(names)
    }
}

impl Bundle {
    pub(super) fn of(value: &Value) -> Self {
        Self {
            name: string(value, "name"),
            description: string(value, "description"),
            inherits: string(value, "inherits"),
            policies: strings(value, "policies"),
        }
    }
}

impl Policy {
    fn of(value: &Value) -> Self {
        let constraints = value.get("bundleConstraints").and_then(Value::as_object);
        let constraints = constraints.into_iter().flat_map(|all| all.iter());
        Self {
            name: string(value, "name"),
            version: string(value, "version"),
            description: string(value, "description"),
            category: string(value, "category"),
            template_path: string(value, "templatePath"),
            bundle_constraints: constraints
                .filter_map(|(bundle, path)| Some((bundle.to_string(), path.as_str()?.to_owned())))
                .collect(),
            documentation_url: string(value, "documentationUrl"),
            bundles: strings(value, "bundles"),
        }
    }
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flat_map(|list| list.iter())
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    list(value, key).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The folder of the saved catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home(PathBuf);

impl Home {
    /// `$GATOR_HOME`, or `gator` in the user's configuration; made if it is missing.
    pub(super) fn of(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let configuration = || {
            set("XDG_CONFIG_HOME").or_else(|| {
                let home = set("HOME")?;
                Some(match cfg!(target_os = "macos") {
                    true => home.join("Library").join("Application Support"),
                    false => home.join(".config"),
                })
            })
        };
        let folder = set("GATOR_HOME")
            .or_else(|| configuration().map(|folder| folder.join("gator")))
            .ok_or("cannot determine config directory: neither $GATOR_HOME nor $HOME is defined")?;
        fs::create_dir_all(&folder).map_err(|error| {
            format!("creating cache directory: mkdir {}: {}", folder.display(), os_text(&error))
        })?;
        Ok(Self(folder))
    }

    /// Saves a catalog and its source.
    pub(super) fn save(&self, text: &str, source: &str) -> Result<(), String> {
        write_private(&self.0.join("catalog.yaml"), text)?;
        write_private(&self.0.join("catalog.source"), &format!("{source}\n"))
    }

    /// The saved catalog.
    pub(super) fn catalog(&self) -> Result<Catalog, String> {
        match fs::read_to_string(self.0.join("catalog.yaml")) {
            Ok(text) => Catalog::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("no cached catalog found, run 'gator policy update' first".to_owned())
            }
            Err(error) => Err(format!("reading cached catalog: {}", os_text(&error))),
        }
    }

    /// The saved catalog and its source.
    pub(super) fn catalog_with_source(&self) -> Result<(Catalog, String), String> {
        let catalog = self.catalog()?;
        match fs::read_to_string(self.0.join("catalog.source")) {
            Ok(source) if source.trim().is_empty() => {
                Err("cached catalog source is empty, run 'gator policy update' first".to_owned())
            }
            Ok(source) => Ok((catalog, source.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("no cached catalog source found, run 'gator policy update' first".to_owned())
            }
            Err(error) => Err(format!("reading cached catalog source: {}", os_text(&error))),
        }
    }
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), String> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("open {}: {}", path.display(), os_text(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: gator.gatekeeper.sh/v1alpha1\nkind: PolicyCatalog\n\
                        metadata: {name: c}\n";

    #[test]
    fn what_is_no_catalog() {
        for (text, expected) in [
            ("", "catalog missing apiVersion"),
            ("apiVersion: x", "invalid catalog kind: expected PolicyCatalog, got "),
            ("{apiVersion: x, kind: Pod}", "invalid catalog kind: expected PolicyCatalog, got Pod"),
            ("{apiVersion: x, kind: PolicyCatalog}", "catalog missing metadata.name"),
            ("[]", "parsing catalog YAML: the catalog is not an object"),
        ] {
            assert_eq!(Catalog::parse(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn bundles_inherit() {
        let chain: String = (0..12)
            .map(|index| format!("- {{name: d{index}, inherits: d{}, policies: []}}\n", index + 1))
            .collect();
        let text = format!(
            "{HEAD}bundles:\n\
             - {{name: a, inherits: b, policies: [x, w]}}\n\
             - {{name: b, policies: [z, x]}}\n\
             - {{name: c, inherits: c, policies: []}}\n\
             - {{name: e, inherits: nope, policies: []}}\n{chain}"
        );
        let catalog = Catalog::parse(&text).expect("a catalog");
        let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        for (bundle, expected) in [
            ("a", names(&["z", "x", "w"])),
            ("b", names(&["z", "x"])),
            ("c", Err("circular inheritance detected in bundle: c")),
            ("e", Err("bundle not found: nope")),
            ("nope", Err("bundle not found: nope")),
            ("d0", Err("bundle inheritance exceeds maximum depth of 10")),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(catalog.bundle_policies(bundle), expected, "{bundle}");
        }
    }
}
