//! Upstream's own mutators on upstream's own objects: the `mutation/` examples of Gatekeeper's
//! library, and those of its demonstrations. Where the files are not there the tests say so and
//! skip, except under `CI=true` beside them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code, helpers included"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use modgate_engine::{
    api::{meta::Operation, mutations::Mutator},
    matching::Source,
    mutation::{CompiledMutator, MutationRequest, MutationSystem, NoProviders, Options},
};
use modgate_testkit::{Roots, corpus};
use modgate_value::{Budget, Value, yaml};

/// The folder below a corpus; `None`, said aloud, where upstream's files are not there.
fn upstream(folder: &str) -> Option<PathBuf> {
    let found = Roots::discover().find_folder(folder);
    if found.is_none() {
        let shared = corpus::repository().join("../shared/conformance").is_dir();
        let must = env::var("CI").is_ok_and(|ci| ci == "true") && shared;
        assert!(!must, "`{folder}` is missing");
        eprintln!("skipped: `{folder}` is not here; set {} to have it", corpus::VARIABLE);
    }
    found
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a readable file");
    let documents = yaml::load(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    documents.into_iter().map(|document| document.value).filter(|it| !it.is_null()).collect()
}

fn system(files: &[PathBuf]) -> MutationSystem {
    let documents = files.iter().flat_map(|file| documents(file));
    let compiled: Vec<_> = documents
        .filter(Mutator::is_mutator)
        .map(|mutator| {
            let compiled = CompiledMutator::compile(&mutator, Options::default());
            Arc::new(compiled.unwrap_or_else(|error| panic!("{error}: {mutator}")))
        })
        .collect();
    assert!(!compiled.is_empty(), "no mutators in {files:?}");
    let system = MutationSystem::new(compiled);
    assert!(system.conflicts().is_empty(), "{:?}", system.conflicts());
    system
}

/// The object in namespace `default` after mutation, if that changes it. A second run never does.
fn mutate(system: &MutationSystem, object: &Value) -> Option<Value> {
    let namespace = yaml::value("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    let namespace = namespace.expect("a Namespace");
    let run = |object: &Value| {
        let budget = Budget::unlimited();
        let request = MutationRequest {
            shard: 0,
            object,
            namespace: Some(&namespace),
            operation: Some(Operation::Create),
            source: Some(Source::Original),
            username: "",
            annotate: false,
            run_id: &String::new,
            providers: &NoProviders,
            budget: &budget,
        };
        system.mutate(&request).unwrap_or_else(|error| panic!("{error}: {object}")).object
    };
    let mutated = run(object)?;
    assert_eq!(run(&mutated), None, "{object}");
    Some(mutated)
}

fn check(files: &[PathBuf], object: &Path, expected: &[(&str, &str)]) {
    let object = documents(object).into_iter().next().expect("an object");
    let mutated = mutate(&system(files), &object);
    if expected.is_empty() {
        assert_eq!(mutated, None, "{files:?}");
        return;
    }
    let mutated = mutated.unwrap_or_else(|| panic!("{files:?} change nothing"));
    for (pointer, value) in expected {
        let value = Value::from_json(value.as_bytes()).expect(value);
        assert_eq!(mutated.pointer(pointer), Some(&value), "{files:?} {pointer}");
    }
}

#[test]
fn examples_of_the_library() {
    let Some(library) = upstream("gatekeeper-library/mutation/pod-security-policy") else { return };
    let context = "/spec/containers/0/securityContext";
    let mut known = 0;
    for (file, object, expected) in [
        (
            "selinux/samples/mutation.yaml",
            "selinux/samples/default-selinux/example.yaml",
            vec![("/seLinuxOptions/type", r#""svirt_lxc_net_t""#)],
        ),
        (
            "read-only-root-filesystem/samples/mutation.yaml",
            "read-only-root-filesystem/samples/read-only-root-filesystem/example.yaml",
            vec![("/readOnlyRootFilesystem", "true")],
        ),
        (
            "allow-privilege-escalation/samples/mutation.yaml",
            "allow-privilege-escalation/samples/default-allow-privilege-escalation/example.yaml",
            vec![("/allowPrivilegeEscalation", "false")],
        ),
        (
            "capabilities/samples/mutation-assign.yaml",
            "capabilities/samples/default-add-capabilities/example.yaml",
            vec![("/capabilities/add", r#"["NEW_CAPABILITY"]"#)],
        ),
        (
            "capabilities/samples/mutation-modifyset.yaml",
            "capabilities/samples/default-add-capabilities/example.yaml",
            vec![("/capabilities/add", r#"["NEW_CAPABILITY"]"#)],
        ),
        (
            "seccomp/samples/mutation.yaml",
            "seccomp/samples/default-seccomp/example.yaml",
            vec![("//seccompProfile/type", r#""RuntimeDefault""#)],
        ),
        (
            "users/samples/mutation-runAsUser.yaml",
            "users/samples/users/example.yaml",
            vec![("/runAsUser", "1000")],
        ),
        (
            "users/samples/mutation-runAsGroup.yaml",
            "users/samples/users/example.yaml",
            vec![("/runAsGroup", "2000")],
        ),
        (
            "users/samples/mutation-mustRunAsNonRoot.yaml",
            "users/samples/users/example.yaml",
            vec![("/runAsNonRoot", "true")],
        ),
        (
            "users/samples/mutation-mustRunAsNonRoot.yaml",
            "users/samples/users/example-nomutation.yaml",
            vec![],
        ),
        (
            "users/samples/mutation-fsGroup.yaml",
            "users/samples/users/example.yaml",
            vec![("//fsGroup", "3000")],
        ),
        (
            "users/samples/mutation-supplementalGroups.yaml",
            "users/samples/users/example.yaml",
            vec![("//supplementalGroups", "[3000]")],
        ),
    ] {
        // Of the container, or after `//` of the Pod.
        let expected: Vec<(String, &str)> = expected
            .into_iter()
            .map(|(below, value)| match below.strip_prefix('/') {
                Some(rest) if rest.starts_with('/') => {
                    (format!("/spec/securityContext{rest}"), value)
                }
                _ => (format!("{context}{below}"), value),
            })
            .collect();
        let expected: Vec<(&str, &str)> =
            expected.iter().map(|(pointer, value)| (pointer.as_str(), *value)).collect();
        check(&[library.join(file)], &library.join(object), &expected);
        known += 1;
    }
    assert_eq!(known, 12);
    // None is left out, and all of them, but for the two of one name, live together.
    let mut files = Vec::new();
    mutation_files(&library, &mut files);
    assert_eq!(files.len(), 11, "{files:?}");
    files.retain(|file| !file.ends_with("mutation-assign.yaml"));
    let object = library.join("users/samples/users/example.yaml");
    check(
        &files,
        &object,
        &[
            ("/spec/containers/0/securityContext/runAsUser", "1000"),
            ("/spec/securityContext/fsGroup", "3000"),
        ],
    );
}

fn mutation_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if path.is_dir() {
            mutation_files(&path, found);
        } else if name.is_some_and(|name| name.starts_with("mutation")) {
            found.push(path);
        }
    }
}

#[test]
fn demonstrations() {
    let Some(root) = upstream("gatekeeper/demo/mutation") else { return };
    let root = root.join("../..");
    let image = "/spec/containers/0/image";
    check(
        &[root.join("demo/mutation/assignimagedemo.yaml")],
        &root.join("demo/mutation/pod.yaml"),
        &[(image, r#""mycompany.registry.io/nginx""#)],
    );
    let mutators = root.join("test/bats/tests/mutations");
    check(
        &[mutators.join("assign_image.yaml")],
        &mutators.join("nginx_pod.yaml"),
        &[(image, r#""foocorp.org/nginx@sha256:abcde67890123456789abc345678901a""#)],
    );
    check(
        &[mutators.join("k8sownerlabel_assignmetadata.yaml")],
        &mutators.join("mutate_cm.yaml"),
        &[("/metadata/labels/owner", r#""gatekeeper""#)],
    );
    let address = mutators.join("k8sexternalip_assign.yaml");
    let service = mutators.join("mutate_svc.yaml");
    check(std::slice::from_ref(&address), &service, &[("/spec/externalIPs", "[]")]);
    // A ModifySet without an operation merges.
    check(
        &[address, mutators.join("dummy_modifyset.yaml")],
        &service,
        &[("/spec/foo", r#"["1", "2", "3"]"#)],
    );
    // Scaffolds, which name no location.
    for (file, error) in [
        ("assign", "empty path"),
        ("assignmetadata", "invalid location for assignmetadata assignmetadata-sample: "),
    ] {
        let path = root.join(format!("config/samples/mutations_v1alpha1_{file}.yaml"));
        let document = documents(&path).into_iter().next().expect("a document");
        let refused = CompiledMutator::compile(&document, Options::default());
        assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(error));
    }
}

/// The examples of `docs/mutation.md` load, and change a Pod that has none of their fields.
#[test]
fn examples_of_the_documentation() {
    let text = fs::read_to_string(corpus::repository().join("docs/mutation.md")).expect("docs");
    let blocks: Vec<&str> = text
        .split("```")
        .filter_map(|block| block.strip_prefix("yaml\n"))
        .filter(|block| ["add-proxy", "no-root"].iter().any(|name| block.contains(name)))
        .collect();
    assert_eq!(blocks.len(), 2);
    let compiled = blocks.iter().map(|block| {
        let mutator = yaml::value(block).expect(block);
        let compiled = CompiledMutator::compile(&mutator, Options::default());
        Arc::new(compiled.unwrap_or_else(|error| panic!("{error}: {block}")))
    });
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, \
               spec: {securityContext: {runAsUser: 0}, containers: [{name: c}]}}";
    let mutated = mutate(&MutationSystem::new(compiled), &yaml::value(pod).expect("a Pod"));
    let mutated = mutated.expect("both apply");
    assert_eq!(mutated.pointer("/spec/securityContext/runAsUser"), Some(&Value::from(1000)));
    assert_eq!(mutated.pointer("/spec/containers/1/name"), Some(&Value::from("proxy")));
}
