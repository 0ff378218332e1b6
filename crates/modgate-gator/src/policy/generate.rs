//! `policy generate-catalog`: a catalog from a folder of policies.

use std::{collections::BTreeMap, fs, path::Path};

use modgate_api::meta::ObjectExt as _;
use modgate_value::{Value, yaml};

use super::{
    catalog::{API_VERSION, Bundle, Catalog, KIND, Policy, list, write_private},
    install::SOURCE,
};
use crate::{
    files::{os_text, walk},
    print::{self, Layout, Node, Style},
};

/// The source of a catalog.
pub(super) struct Source<'s> {
    /// The folder above `library`.
    pub(super) folder: &'s Path,
    /// That folder as messages name it.
    pub(super) shown: &'s str,
    pub(super) name: &'s str,
    pub(super) version: &'s str,
    pub(super) bundles: Option<&'s Path>,
    pub(super) base_url: &'s str,
    pub(super) now: String,
}

/// Makes the catalog.
pub(super) fn generate(source: &Source<'_>) -> Result<Catalog, String> {
    let library = source.folder.join("library");
    if !library.exists() {
        return Err(format!("library directory not found at {}/library", source.shown));
    }
    let mut templates = Vec::new();
    walk(&library, "library", 0, &mut |path| {
        if path.ends_with("/template.yaml") {
            templates.push(path);
        }
    })
    .map_err(|error| format!("walking library directory: {error}"))?;
    let mut policies = Vec::new();
    for path in templates {
        let policy = policy(source.folder, &path).map_err(|error| {
            format!(
                "walking library directory: parsing template at {}/{path}: {error}",
                source.shown
            )
        })?;
        policies.extend(policy);
    }
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    let bundles = match source.bundles {
        Some(path) => {
            let bundles =
                bundles_of(path).map_err(|error| format!("loading bundles file: {error}"))?;
            assign(&bundles, &mut policies);
            bundles
        }
        None => derived(&policies),
    };
    let base = source.base_url.trim_end_matches('/');
    if !base.is_empty() {
        let prefix = |path: &mut String| {
            if !path.is_empty() && !path.starts_with("http") {
                *path = format!("{base}/{path}");
            }
        };
        for policy in &mut policies {
            prefix(&mut policy.template_path);
            policy.bundle_constraints.values_mut().for_each(prefix);
        }
    }
    Ok(Catalog {
        name: source.name.to_owned(),
        version: source.version.to_owned(),
        updated_at: source.now.clone(),
        repository: SOURCE.to_owned(),
        bundles,
        policies,
    })
}

/// The policy of a template file; `None` if the file is not a template.
fn policy(folder: &Path, path: &str) -> Result<Option<Policy>, String> {
    let text = fs::read_to_string(folder.join(path))
        .map_err(|error| format!("reading template file: {}", os_text(&error)))?;
    let template = yaml::value(&text).map_err(|error| format!("parsing template YAML: {error}"))?;
    if template.get("kind").and_then(Value::as_str) != Some("ConstraintTemplate") {
        return Ok(None);
    }
    let annotation =
        |key: &str| template.path(&["metadata", "annotations", key]).and_then(Value::as_str);
    let version = match annotation("metadata.gatekeeper.sh/version") {
        Some(version) if version.starts_with('v') => version.to_owned(),
        Some(version) => format!("v{version}"),
        None => "v1.0.0".to_owned(),
    };
    let bundles: Vec<String> = annotation("metadata.gatekeeper.sh/bundle")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|bundle| !bundle.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(Some(Policy {
        name: template.name().to_owned(),
        version,
        description: annotation("description").unwrap_or_default().to_owned(),
        category: category(path),
        bundle_constraints: constraints(folder, path, &bundles),
        template_path: path.to_owned(),
        documentation_url: annotation("policy.gatekeeper.sh/docs").unwrap_or_default().to_owned(),
        bundles,
    }))
}

/// The folder below `library`.
fn category(path: &str) -> String {
    let folder = path.split('/').nth(1).unwrap_or("general").replace([' ', '_'], "-");
    if folder == "pod-security-policy" { "pod-security".to_owned() } else { folder }
}

/// The sample constraint for each bundle: one from a folder that is named like it, or the first.
fn constraints(folder: &Path, path: &str, bundles: &[String]) -> BTreeMap<String, String> {
    let samples = path.trim_end_matches("template.yaml").to_owned() + "samples";
    let mut found: Vec<(String, String)> = Vec::new();
    let entries = fs::read_dir(folder.join(&samples)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let file = ["constraint.yaml", "constraint.yml"]
            .map(|file| format!("{samples}/{name}/{file}"))
            .into_iter()
            .find(|file| folder.join(file).is_file());
        if let Some(file) = file.filter(|file| is_constraint(&folder.join(file))) {
            found.push((name.to_lowercase(), file));
        }
    }
    let Some((_, first)) = found.first() else { return BTreeMap::new() };
    bundles
        .iter()
        .map(|bundle| {
            let word = bundle.rsplit('-').next().unwrap_or(bundle).to_lowercase();
            let named = found.iter().find(|(name, _)| name.contains(&word));
            (bundle.clone(), named.map_or(first, |(_, file)| file).clone())
        })
        .collect()
}

fn is_constraint(path: &Path) -> bool {
    let object = fs::read_to_string(path).ok().and_then(|text| yaml::value(&text).ok());
    let api_version = object.as_ref().and_then(|object| object.get("apiVersion")?.as_str());
    api_version.is_some_and(|version| version.starts_with("constraints.gatekeeper.sh/"))
}

fn bundles_of(path: &Path) -> Result<Vec<Bundle>, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        format!("reading bundles file: open {}: {}", path.display(), os_text(&error))
    })?;
    let value = yaml::value(&text).map_err(|error| format!("parsing bundles YAML: {error}"))?;
    Ok(list(&value, "bundles").map(Bundle::of).collect())
}

/// Sets the bundles of each policy.
fn assign(bundles: &[Bundle], policies: &mut [Policy]) {
    for policy in policies {
        let of = bundles.iter().filter(|bundle| bundle.policies.contains(&policy.name));
        let of: Vec<String> = of.map(|bundle| bundle.name.clone()).collect();
        if !of.is_empty() {
            policy.bundles = of;
        }
    }
}

/// The bundles that policies name, by name.
fn derived(policies: &[Policy]) -> Vec<Bundle> {
    let mut by_name: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for policy in policies {
        for bundle in &policy.bundles {
            by_name.entry(bundle).or_default().push(policy.name.clone());
        }
    }
    by_name
        .into_iter()
        .map(|(name, policies)| Bundle {
            name: name.clone(),
            description: format!("Policy bundle: {name}"),
            inherits: String::new(),
            policies,
        })
        .collect()
}

/// Checks a catalog before it is written.
pub(super) fn validate(catalog: &Catalog) -> Result<(), String> {
    for (text, what) in [(&catalog.name, "name"), (&catalog.version, "version")] {
        if text.is_empty() {
            return Err(format!("missing metadata.{what}"));
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for Policy { name, version, template_path, .. } in &catalog.policies {
        if name.is_empty() {
            return Err("policy missing name".to_owned());
        }
        if names.contains(&name.as_str()) {
            return Err(format!("duplicate policy name: {name}"));
        }
        names.push(name);
        if template_path.is_empty() {
            return Err(format!("policy {name} missing templatePath"));
        }
        if !is_version(version) {
            return Err(format!("policy {name} has invalid version: {version}"));
        }
    }
    for bundle in &catalog.bundles {
        if bundle.name.is_empty() {
            return Err("bundle missing name".to_owned());
        }
        if let Some(policy) = bundle.policies.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("bundle {} references non-existent policy: {policy}", bundle.name));
        }
    }
    Ok(())
}

/// `v1.2.3-pre.1+build`, the `v` and what follows the numbers optional.
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = text.split_once('+').map_or((text, None), |(text, it)| (text, Some(it)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(text, it)| (text, Some(it)));
    let word = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
    };
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    numbers.split('.').count() == 3
        && numbers.split('.').all(digits)
        && pre.is_none_or(word)
        && build.is_none_or(word)
}

/// Writes a catalog.
pub(super) fn write(catalog: &Catalog, path: &Path, shown: &str) -> Result<(), String> {
    let text = format!(
        "# Policy catalog, made by `gator policy generate-catalog` at {}.\n{}",
        catalog.updated_at,
        print::yaml(&node(catalog), Style::V2, Layout::Block)
    );
    write_private(path, &text).map_err(|error| format!("writing catalog file: {shown}: {error}"))
}

fn node(catalog: &Catalog) -> Node {
    let text = |text: &str| Value::from(text);
    let texts = |list: &[String]| list.iter().map(|item| text(item)).collect::<Value>();
    let mut bundles = Vec::new();
    for bundle in &catalog.bundles {
        let mut members = vec![
            ("name", text(&bundle.name)),
            ("description", text(&bundle.description)),
            ("policies", texts(&bundle.policies)),
        ];
        if !bundle.inherits.is_empty() {
            members.push(("inherits", text(&bundle.inherits)));
        }
        bundles.push(members.into_iter().collect::<Value>());
    }
    let mut policies = Vec::new();
    for policy in &catalog.policies {
        let mut members = vec![
            ("name", text(&policy.name)),
            ("version", text(&policy.version)),
            ("description", text(&policy.description)),
            ("category", text(&policy.category)),
            ("templatePath", text(&policy.template_path)),
        ];
        if !policy.bundle_constraints.is_empty() {
            let constraints = policy.bundle_constraints.iter();
            let constraints =
                constraints.map(|(bundle, path)| (bundle.as_str(), text(path))).collect();
            members.push(("bundleConstraints", constraints));
        }
        if !policy.documentation_url.is_empty() {
            members.push(("documentationUrl", text(&policy.documentation_url)));
        }
        if !policy.bundles.is_empty() {
            members.push(("bundles", texts(&policy.bundles)));
        }
        policies.push(members.into_iter().collect::<Value>());
    }
    let metadata: Value = [
        ("name", text(&catalog.name)),
        ("version", text(&catalog.version)),
        ("updatedAt", text(&catalog.updated_at)),
        ("repository", text(&catalog.repository)),
    ]
    .into_iter()
    .collect();
    Node::Value(
        [
            ("apiVersion", text(API_VERSION)),
            ("kind", text(KIND)),
            ("metadata", metadata),
            ("bundles", bundles.into()),
            ("policies", policies.into()),
        ]
        .into_iter()
        .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            fs::write(path, text).expect("write");
        }
        folder
    }

    fn catalog(folder: &Path, bundles: Option<&Path>, base_url: &str) -> Result<Catalog, String> {
        generate(&Source {
            folder,
            shown: "lib",
            name: "n",
            version: "v1.0.0",
            bundles,
            base_url,
            now: "2026-01-02T03:04:05Z".to_owned(),
        })
    }

    const TEMPLATE: &str = "kind: ConstraintTemplate\nmetadata:\n  name: a\n  annotations:\n    \
                            metadata.gatekeeper.sh/version: 1.2.0\n    \
                            metadata.gatekeeper.sh/bundle: pod-security-baseline, other\n    \
                            description: A policy.\n";
    const CONSTRAINT: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: A\n";

    #[test]
    fn a_library() {
        let folder = library(&[
            ("library/pod-security-policy/a/template.yaml", TEMPLATE),
            ("library/pod-security-policy/a/samples/a-first/constraint.yaml", CONSTRAINT),
            ("library/pod-security-policy/a/samples/b-baseline/constraint.yml", CONSTRAINT),
            ("library/pod-security-policy/a/samples/a-none/constraint.yaml", "kind: Pod\n"),
            (
                "library/some_things/b/template.yaml",
                "kind: ConstraintTemplate\nmetadata: {name: 0}\n",
            ),
            ("library/x/c/template.yaml", "kind: Kustomization\n"),
        ]);
        let made = catalog(folder.path(), None, "https://h/").expect("a catalog");
        assert_eq!(made.policies.len(), 2);
        let policy = made.policy("a").expect("a policy");
        assert_eq!((policy.version.as_str(), policy.category.as_str()), ("v1.2.0", "pod-security"));
        let samples = "https://h/library/pod-security-policy/a/samples";
        let constraints: Vec<_> =
            policy.bundle_constraints.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            constraints,
            [
                ("other", &*format!("{samples}/a-first/constraint.yaml")),
                ("pod-security-baseline", &*format!("{samples}/b-baseline/constraint.yml")),
            ]
        );
        let bundles: Vec<&str> = made.bundles.iter().map(|bundle| bundle.name.as_str()).collect();
        assert_eq!(bundles, ["other", "pod-security-baseline"]);
        assert_eq!(made.policies[0].category, "some-things");

        // The written catalog can be read.
        let path = folder.path().join("catalog.yaml");
        let made = catalog(folder.path(), None, "").expect("a catalog");
        write(&made, &path, "catalog.yaml").expect("written");
        let read = Catalog::parse(&fs::read_to_string(&path).expect("read"));
        assert_eq!(read, Ok(made));

        let bundles = folder.path().join("bundles.yaml");
        fs::write(&bundles, "bundles: [{name: mine, policies: [a]}]").expect("write");
        let made = catalog(folder.path(), Some(&bundles), "").expect("a catalog");
        assert_eq!(made.bundles.len(), 1);
        assert_eq!(made.policy("a").expect("a policy").bundles, ["mine"]);
    }

    #[test]
    fn no_library() {
        let folder = library(&[]);
        let error = catalog(folder.path(), None, "").expect_err("no library");
        assert_eq!(error, "library directory not found at lib/library");
    }

    #[test]
    fn validation() {
        let good = Catalog {
            name: "n".to_owned(),
            version: "v1".to_owned(),
            policies: vec![Policy {
                name: "a".to_owned(),
                version: "v1.0.0-rc.1+x".to_owned(),
                template_path: "t".to_owned(),
                ..Policy::default()
            }],
            ..Catalog::default()
        };
        let check = |change: &dyn Fn(&mut Catalog), expected: Result<(), &str>| {
            let mut catalog = good.clone();
            change(&mut catalog);
            assert_eq!(validate(&catalog), expected.map_err(str::to_owned));
        };
        check(&|_| {}, Ok(()));
        check(&|it| it.policies[0].name.clear(), Err("policy missing name"));
        check(&|it| it.policies.push(good.policies[0].clone()), Err("duplicate policy name: a"));
        check(&|it| it.policies[0].template_path.clear(), Err("policy a missing templatePath"));
        check(
            &|it| it.policies[0].version = "1.0".to_owned(),
            Err("policy a has invalid version: 1.0"),
        );
        check(&|it| it.bundles.push(Bundle::default()), Err("bundle missing name"));
        let bundle =
            Bundle { name: "b".to_owned(), policies: vec!["x".to_owned()], ..Bundle::default() };
        check(
            &|it| it.bundles.push(bundle.clone()),
            Err("bundle b references non-existent policy: x"),
        );
    }
}
