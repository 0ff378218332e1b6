//! The verbs over the public library: its 49 suites, and its policies against 400 mixed objects.
//!
//! Needs upstream's files; without them nothing is measured, and it says so.

#![allow(clippy::expect_used, clippy::print_stderr, reason = "a benchmark")]

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use modgate_gator::Io;

fn main() {
    divan::main();
}

/// The public library, where it is.
fn library() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = env::var_os("MODGATE_CONFORMANCE").map(PathBuf::from);
    let mut folders = named.into_iter().chain([repository.join("../shared/conformance")]);
    let found = folders.find(|folder| folder.join("gatekeeper-library/library").is_dir());
    if found.is_none() {
        eprintln!("the public library is not here; set MODGATE_CONFORMANCE");
    }
    found.map(|folder| folder.join("gatekeeper-library/library"))
}

fn gator(folder: &Path, args: &[&str]) -> (u8, usize) {
    let args: Vec<OsString> = ["gator"].iter().chain(args).map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder,
        env: &|_| None,
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    (code, stdout.len())
}

#[divan::bench]
fn verify_the_library(bencher: divan::Bencher<'_, '_>) {
    let Some(library) = library() else { return };
    bencher.bench(|| {
        let (code, _) = gator(&library, &["verify", "./..."]);
        assert_eq!(code, 0);
    });
}

#[divan::bench]
fn test_400_objects(bencher: divan::Bencher<'_, '_>) {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    policies(&library, folder.path());
    fs::write(folder.path().join("objects.yaml"), objects(400)).expect("a file");
    bencher.bench(|| {
        let (code, printed) = gator(folder.path(), &["test", "-f", "."]);
        assert_eq!(code, 1);
        assert!(printed > 0);
    });
}

/// Every template of the library, and the constraint of its first sample.
fn policies(library: &Path, to: &Path) {
    let mut count = 0;
    for group in ["general", "pod-security-policy"] {
        for entry in fs::read_dir(library.join(group)).expect("a group") {
            let policy = entry.expect("a policy").path();
            let Ok(template) = fs::read(policy.join("template.yaml")) else { continue };
            fs::write(to.join(format!("template-{count}.yaml")), template).expect("a file");
            let mut samples: Vec<PathBuf> = fs::read_dir(policy.join("samples"))
                .expect("samples")
                .filter_map(|sample| Some(sample.ok()?.path().join("constraint.yaml")))
                .filter(|constraint| constraint.is_file())
                .collect();
            samples.sort();
            if let Some(sample) = samples.first() {
                fs::copy(sample, to.join(format!("template-{count}-constraint.yaml")))
                    .expect("a file");
            }
            count += 1;
        }
    }
    assert_eq!(count, 49);
}

/// Objects of five kinds in turn.
fn objects(count: usize) -> String {
    let mut out = String::new();
    let pod = "{containers: [{name: app, image: 'nginx:1.27', resources: {limits: {cpu: 100m, memory: \
               64Mi}}, securityContext: {runAsUser: 1000}}, {name: side, image: 'registry.local/side', \
               ports: [{containerPort: 80, hostPort: 80}]}], volumes: [{name: v, hostPath: {path: /x}}]}";
    for number in 0..count {
        let metadata =
            format!("metadata: {{name: o{number}, namespace: default, labels: {{app: a}}}}");
        let _ = match number % 5 {
            0 => writeln!(out, "---\napiVersion: v1\nkind: Pod\n{metadata}\nspec: {pod}"),
            1 => writeln!(
                out,
                "---\napiVersion: apps/v1\nkind: Deployment\n{metadata}\nspec: {{replicas: 3, template: \
                 {{metadata: {{labels: {{app: a}}}}, spec: {pod}}}}}"
            ),
            2 => writeln!(
                out,
                "---\napiVersion: v1\nkind: Service\n{metadata}\nspec: {{type: NodePort, selector: \
                 {{app: a{number}}}, ports: [{{port: 80}}]}}"
            ),
            3 => writeln!(
                out,
                "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\n{metadata}\nspec: {{rules: \
                 [{{host: h{number}.example.com}}]}}"
            ),
            _ => writeln!(out, "---\napiVersion: v1\nkind: ConfigMap\n{metadata}\ndata: {{a: b}}"),
        };
    }
    out
}
