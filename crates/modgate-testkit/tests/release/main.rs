//! `cargo xtask dist`, run on small programs: all of a release but the compiler. What it writes is read by the
//! tools that people read it with: tar, sha256sum, OpenSSL, Helm. `MODGATE_RELEASE=FOLDER` checks a release of the
//! real program in the same way.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

mod registry;
mod standin;

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use modgate_testkit::{
    cluster::{build, helm::Helm},
    corpus, program,
};
use modgate_value::{Value, yaml};
use tempfile::TempDir;

const IMAGE: &str = "registry.example.com/team/modgate";
const BASE: &str = "https://releases.example.com/v0.1.0";
const SOURCE: &str = "https://git.example.com/modgate";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A folder with what a release is made from.
struct Inputs(TempDir);

impl Inputs {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (arch, bytes) in [("amd64", standin::amd64()), ("arm64", standin::arm64())] {
            fs::write(folder.path().join(arch), bytes).expect("written");
        }
        let papers = folder.path().join("papers");
        let script = "#!/bin/sh\ncase \"$*\" in\n'completion man .') echo page > modgate.1 ;;\n\
                      'completion '*) echo \"script for $2\" ;;\n*) exit 1 ;;\nesac\n";
        fs::write(&papers, script).expect("written");
        fs::set_permissions(&papers, fs::Permissions::from_mode(0o755)).expect("executable");
        let made = rcgen::generate_simple_self_signed(vec!["ca.test".to_owned()]).expect("made");
        fs::write(folder.path().join("ca"), made.cert.pem()).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// The arguments of a release of the stand-ins.
    fn arguments(&self, out: &str) -> Vec<String> {
        let binary = |arch: &str| format!("--binary={arch}={}", self.path(arch));
        vec![
            binary("amd64"),
            binary("arm64"),
            format!("--documented-by={}", self.path("papers")),
            format!("--ca-certificates={}", self.path("ca")),
            format!("--out={}", self.path(out)),
            "--allow-dirty".to_owned(),
        ]
    }

    /// A private key, as OpenSSL makes one; `None` without OpenSSL.
    fn key(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let path = self.path(name);
        let mut openssl = Command::new("openssl");
        let output = openssl.arg("genpkey").args(arguments).args(["-out", &path]).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(path)
    }
}

/// The task, as it is typed. The time of the release is not that of a commit, as the test may run without Git.
fn dist(arguments: &[String]) -> Output {
    Command::new(program::task().expect("xtask builds"))
        .arg("dist")
        .args(arguments)
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .current_dir(corpus::repository())
        .output()
        .expect("xtask runs")
}

fn made(arguments: &[String]) -> String {
    let output = dist(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs a tool; what it prints.
fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn digest(path: &Path) -> String {
    let folder = path.parent().expect("a folder");
    let text = run("sha256sum", &[&path.display().to_string()], folder);
    text.split(' ').next().expect("a digest").to_owned()
}

fn read_json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Value::from_json(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(|list| &**list).unwrap_or_default()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|it| it.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

/// A file of a release, by how its name ends.
fn file(release: &Path, end: &str) -> PathBuf {
    release.join(format!("modgate-{VERSION}{end}"))
}

/// An unpacked layout; every blob has the digest that its name says.
struct Layout(TempDir);

impl Layout {
    fn unpack(tar: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        run("tar", &["-xf", &tar.display().to_string()], folder.path());
        let layout = read_json(&folder.path().join("oci-layout"));
        assert_eq!(text(&layout, "/imageLayoutVersion"), "1.0.0");
        let blobs = folder.path().join("blobs/sha256");
        for name in names(&blobs) {
            assert_eq!(digest(&blobs.join(&name)), name);
        }
        Self(folder)
    }

    fn index(&self) -> Value {
        read_json(&self.0.path().join("index.json"))
    }

    /// The blob that a descriptor is of, with the size that it says.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let digits = text(descriptor, "/digest").strip_prefix("sha256:").expect("a digest");
        let path = self.0.path().join("blobs/sha256").join(digits);
        let size = i64::try_from(fs::metadata(&path).expect(digits).len()).expect("small");
        assert_eq!(descriptor.get("size").and_then(Value::as_i64), Some(size));
        path
    }

    fn json(&self, descriptor: &Value) -> Value {
        read_json(&self.blob(descriptor))
    }
}

/// Runs the program of an image with nothing else in its root, as far as this machine can.
fn answer(root: &Path, arch: &str, arguments: &[&str]) -> Option<String> {
    let here = if env::consts::ARCH == "x86_64" { "amd64" } else { "arm64" };
    let own = root.join("modgate").display().to_string();
    let root = root.display().to_string();
    let mut commands = Vec::new();
    if arch == here {
        let mut jailed = Command::new("unshare");
        jailed.args(["--user", "--map-root-user", "chroot", &root, "/modgate"]).args(arguments);
        commands.push(jailed);
        let mut jailed = Command::new("chroot");
        jailed.args([root.as_str(), "/modgate"]).args(arguments);
        commands.push(jailed);
        let mut plain = Command::new(&own);
        plain.args(arguments);
        commands.push(plain);
    } else {
        let emulator = if arch == "arm64" { "qemu-aarch64-static" } else { "qemu-x86_64-static" };
        let mut emulated = Command::new(emulator);
        emulated.arg(&own).args(arguments);
        commands.push(emulated);
    }
    let mut answers = commands
        .iter_mut()
        .filter_map(|command| command.current_dir(&root).env("LC_ALL", "C").output().ok());
    answers
        .find(|output| !output.stdout.is_empty())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The image: its platforms, what it runs, as whom, and what is in it. Returns the digest of the image.
fn check_image(release: &Path, answers: &str) -> String {
    let layout = Layout::unpack(&file(release, "-image.oci.tar"));
    let index = layout.index();
    let [named] = list(&index, "/manifests") else { panic!("one name: {index}") };
    let tag = text(named, "/annotations/org.opencontainers.image.ref.name");
    assert_eq!(tag, VERSION);
    let image = layout.json(named);
    let platforms: Vec<String> = list(&image, "/manifests")
        .iter()
        .map(|it| it.get("platform").map(Value::to_json).unwrap_or_default())
        .collect();
    assert_eq!(
        platforms,
        [
            r#"{"architecture":"amd64","os":"linux"}"#,
            r#"{"architecture":"arm64","os":"linux","variant":"v8"}"#
        ]
    );
    for descriptor in list(&image, "/manifests") {
        let arch = text(descriptor, "/platform/architecture");
        let manifest = layout.json(descriptor);
        let config = layout.json(manifest.get("config").expect("a config"));
        assert_eq!((text(&config, "/architecture"), text(&config, "/os")), (arch, "linux"));
        assert_eq!(text(&config, "/config/User"), "65532:65532");
        let json = |pointer: &str| config.pointer(pointer).map(Value::to_json).unwrap_or_default();
        assert_eq!(json("/config/Entrypoint"), r#"["/modgate"]"#);
        assert_eq!(json("/config/Cmd"), r#"["serve"]"#);
        assert!(json("/config/Env").contains("MIMALLOC_PURGE_DELAY=0"));
        let ports = r#"{"8081/tcp":{},"8443/tcp":{},"8888/tcp":{},"9090/tcp":{}}"#;
        assert_eq!(json("/config/ExposedPorts"), ports);
        let [layer] = list(&manifest, "/layers") else { panic!("one layer: {manifest}") };
        let layer = layout.blob(layer);
        let plain = layer.with_extension("tar");
        let unzip = format!("gzip -dc '{}' > '{}'", layer.display(), plain.display());
        run("sh", &["-c", &unzip], Path::new("/"));
        assert_eq!(json("/rootfs/diff_ids"), format!(r#"["sha256:{}"]"#, digest(&plain)));
        check_files(&plain, release, arch, answers);
    }
    text(named, "/digest").to_owned()
}

/// The files of an image, their owners, and that its program runs.
fn check_files(tar: &Path, release: &Path, arch: &str, answers: &str) {
    let root = tempfile::tempdir().expect("a folder");
    let tar = tar.display().to_string();
    let listed = run("tar", &["-tvf", &tar, "--numeric-owner"], root.path());
    // Mode, owner, size, date, time, name.
    let entries: Vec<(&str, &str, String)> = listed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0], words[1], words[5..].join(" "))
        })
        .collect();
    for (mode, owner, name) in &entries {
        assert_eq!(*owner, "0/0", "{name}");
        // Neither set-uid nor writable by others.
        assert!(["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"].contains(mode), "{mode}");
    }
    let found: Vec<&str> = entries.iter().map(|(.., name)| name.as_str()).collect();
    assert_eq!(
        found,
        [
            "etc/",
            "etc/ssl/",
            "etc/ssl/certs/",
            "etc/ssl/certs/ca-certificates.crt",
            "modgate",
            "gator -> modgate",
            "kubemod -> modgate",
            "manager -> modgate"
        ]
    );
    run("tar", &["-xf", &tar], root.path());
    let authorities = root.path().join("etc/ssl/certs/ca-certificates.crt");
    let authorities = fs::read_to_string(authorities).expect("authorities");
    assert!(authorities.contains("-----BEGIN CERTIFICATE-----"));
    // The archive for people has the same program.
    let unpacked = tempfile::tempdir().expect("a folder");
    let archive = file(release, &format!("-linux-{arch}.tar.gz")).display().to_string();
    run("tar", &["-xzf", &archive], unpacked.path());
    assert_eq!(digest(&unpacked.path().join("modgate")), digest(&root.path().join("modgate")));
    assert_eq!(
        names(unpacked.path()),
        ["LICENSE", "THIRD-PARTY.txt", "completions", "man", "modgate"].map(str::to_owned).into()
    );
    let scripts = ["_modgate", "_modgate.ps1", "modgate.bash", "modgate.elv", "modgate.fish"];
    assert_eq!(names(&unpacked.path().join("completions")), scripts.map(str::to_owned).into());
    assert!(names(&unpacked.path().join("man/man1")).contains("modgate.1"));
    match answer(root.path(), arch, &["version"]) {
        Some(said) => assert!(said.contains(answers), "{arch}: {said}"),
        None => eprintln!("skipped: nothing here runs programs for {arch}"),
    }
}

/// Every file is in the list of digests, every digest in the provenance is that of a file or an artefact.
fn check_digests(release: &Path, image: &str) -> Value {
    let sums = fs::read_to_string(release.join("SHA256SUMS")).expect("digests");
    run("sha256sum", &["--check", "--strict", "SHA256SUMS"], release);
    let listed: BTreeSet<String> =
        sums.lines().map(|line| line.split_once("  ").expect(line).1.to_owned()).collect();
    let all = names(release);
    for name in all.difference(&listed) {
        assert!(name.ends_with(".sig") || name == "SHA256SUMS", "{name} has no digest");
    }

    let statement = read_json(&file(release, ".provenance.json"));
    assert_eq!(text(&statement, "/_type"), "https://in-toto.io/Statement/v1");
    assert_eq!(text(&statement, "/predicateType"), "https://slsa.dev/provenance/v1");
    let mut subjects = BTreeSet::new();
    for subject in list(&statement, "/subject") {
        let (name, digits) = (text(subject, "/name"), text(subject, "/digest/sha256"));
        if release.join(name).is_file() {
            assert_eq!(digest(&release.join(name)), digits, "{name}");
        } else if name != "chart" {
            assert_eq!(format!("sha256:{digits}"), image, "{name}");
        }
        subjects.insert(name.to_owned());
    }
    for end in ["-linux-amd64.tar.gz", "-linux-arm64.tar.gz", "-image.oci.tar", ".tgz", ".cdx.json"]
    {
        assert!(subjects.contains(&format!("modgate-{VERSION}{end}")), "{end}: {subjects:?}");
    }
    let bill = read_json(&file(release, ".cdx.json"));
    assert_eq!(text(&bill, "/bomFormat"), "CycloneDX");
    assert!(list(&bill, "/components").len() > 100);
    statement
}

/// Helm reads the chart from the file and from a registry that serves the layout, and finds the image in it.
fn check_chart(release: &Path, image: &str, helm: &Helm) {
    let chart = file(release, ".tgz");
    let render = |chart: &Path, more: &[&str]| {
        let output = helm
            .command()
            .args(["template", "modgate", "--namespace", "gatekeeper-system"])
            .args(more)
            .arg(chart)
            .output()
            .expect("helm");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let published = render(&chart, &[]);
    let reference = format!("image: {IMAGE}@{image}\n");
    // The Deployment, and the Pod of `helm test`.
    assert_eq!(published.matches(&reference).count(), 2);
    // In all else it is the chart of the repository.
    let own = render(
        &Helm::chart(),
        &["--set", &format!("image.repository={IMAGE},image.digest={image}")],
    );
    assert!(published == own, "the packaged chart renders other objects");
    let manifest = fs::read_to_string(file(release, ".yaml")).expect("a manifest");
    assert_eq!(manifest.matches(&reference).count(), 1);
    assert_eq!(manifest.matches("image: ").count(), 1);
    assert!(succeeds(helm.command().args(["lint", "--strict"]).arg(&chart)), "helm lint");

    let shown = helm.command().args(["show", "chart"]).arg(&chart).output().expect("helm");
    let shown = yaml::value(&String::from_utf8_lossy(&shown.stdout)).expect("YAML");
    assert_eq!((text(&shown, "/home"), text(&shown, "/sources/0")), (SOURCE, SOURCE));
    let images = text(&shown, "/annotations/artifacthub.io~1images");
    assert_eq!(images, format!("- name: modgate\n  image: {IMAGE}@{image}\n"));

    let layout = Layout::unpack(&file(release, "-chart.oci.tar"));
    let server = registry::Registry::serve(layout.0.path()).expect("a registry");
    let pulled = tempfile::tempdir().expect("a folder");
    let address = format!("oci://{}/modgate", server.address());
    let output = helm
        .command()
        .args(["pull", &address, "--version", VERSION, "--plain-http", "--destination"])
        .arg(pulled.path())
        .output()
        .expect("helm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pulled = pulled.path().join(format!("modgate-{VERSION}.tgz"));
    assert_eq!(digest(&pulled), digest(&chart));
}

/// The statements of the plugin manifest about each archive are true.
fn check_plugin(release: &Path) {
    let plugin = fs::read_to_string(release.join("modgate-krew.yaml")).expect("a plugin");
    let plugin = yaml::value(&plugin).expect("YAML");
    assert_eq!(text(&plugin, "/kind"), "Plugin");
    assert_eq!(text(&plugin, "/spec/version"), format!("v{VERSION}"));
    assert_eq!(text(&plugin, "/spec/homepage"), SOURCE);
    let platforms = list(&plugin, "/spec/platforms");
    assert_eq!(platforms.len(), 2);
    for platform in platforms {
        let arch = text(platform, "/selector/matchLabels/arch");
        let name = format!("modgate-{VERSION}-linux-{arch}.tar.gz");
        assert_eq!(text(platform, "/uri"), format!("{BASE}/{name}"));
        assert_eq!(text(platform, "/sha256"), digest(&release.join(&name)));
        let listed = run("tar", &["-tzf", &name], release);
        for file in list(platform, "/files") {
            assert!(listed.lines().any(|line| line == text(file, "/from")), "{file}");
        }
        assert!(
            list(platform, "/files").iter().any(|it| text(it, "/to") == text(platform, "/bin"))
        );
    }
}

/// OpenSSL verifies every signature by the command that the notes give, and no changed file.
fn check_signatures(release: &Path, command: &str) {
    let notes = fs::read_to_string(release.join("RELEASE_NOTES.md")).expect("notes");
    let shown = command.replace("FILE", "SHA256SUMS");
    assert!(notes.contains(&shown), "{notes}");
    let verify = |name: &str| {
        let command = command.replace("FILE", name);
        succeeds(Command::new("sh").args(["-c", &command]).current_dir(release))
    };
    let all = names(release);
    let signed: Vec<&str> = all.iter().filter_map(|name| name.strip_suffix(".sig")).collect();
    assert!(signed.contains(&"SHA256SUMS") && signed.len() > 9, "{signed:?}");
    for name in signed {
        assert!(verify(name), "{name}");
        let path = release.join(name);
        let bytes = fs::read(&path).expect(name);
        fs::write(&path, [bytes.as_slice(), b" "].concat()).expect("written");
        assert!(!verify(name), "{name} is verified, though it was changed");
        fs::write(&path, bytes).expect("written");
    }
    // The envelope signs the statement in the encoding of DSSE.
    let envelope = read_json(&file(release, ".intoto.jsonl"));
    let decode = |text: &str, to: &str| {
        let command = format!("printf %s '{text}' | base64 -d > '{to}'");
        run("sh", &["-c", &command], release);
    };
    decode(text(&envelope, "/payload"), "envelope");
    let payload = fs::read(release.join("envelope")).expect("a payload");
    let statement = Value::from_json(&payload).expect("JSON");
    assert_eq!(statement, read_json(&file(release, ".provenance.json")));
    let kind = text(&envelope, "/payloadType");
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend(payload);
    fs::write(release.join("envelope"), signed).expect("written");
    decode(text(&envelope, "/signatures/0/sig"), "envelope.sig");
    assert!(verify("envelope"), "the envelope's signature");
    fs::remove_file(release.join("envelope")).expect("removed");
    fs::remove_file(release.join("envelope.sig")).expect("removed");
}

const ED25519: &str =
    "openssl pkeyutl -verify -pubin -inkey modgate.pub -rawin -in FILE -sigfile FILE.sig";
const P256: &str = "openssl dgst -sha256 -verify modgate.pub -signature FILE.sig FILE";

#[test]
fn a_release_is_complete_and_its_bytes_are_the_same_again() {
    let inputs = Inputs::new();
    let key = inputs.key("key", &["-algorithm", "ed25519"]);
    let arguments = |out: &str| {
        let mut all = inputs.arguments(out);
        all.extend([
            format!("--image={IMAGE}"),
            format!("--base-url={BASE}/"),
            format!("--source={SOURCE}"),
            "--builder=https://ci.example.com/runner".to_owned(),
        ]);
        all.extend(key.iter().map(|key| format!("--key={key}")));
        all
    };
    let said = made(&arguments("first"));
    made(&arguments("second"));
    let (first, second) =
        (PathBuf::from(inputs.path("first")), PathBuf::from(inputs.path("second")));
    assert_eq!(names(&first), names(&second));
    for name in names(&first) {
        let [one, other] = [&first, &second].map(|it| fs::read(it.join(&name)).expect("read"));
        assert!(one == other, "{name} differs between two runs");
        assert!(said.contains(&format!("/{name}\n")), "{name} is not printed: {said}");
    }
    let image = check_image(&first, standin::SAID);
    assert!(said.contains(&format!("{IMAGE}: {image}\n")), "{said}");
    let statement = check_digests(&first, &image);
    let definition = "/predicate/buildDefinition";
    let dependencies = list(&statement, &format!("{definition}/resolvedDependencies"));
    let given = |it: &&Value| text(it, "/name").ends_with("built elsewhere");
    assert_eq!(dependencies.iter().filter(given).count(), 2, "{statement}");
    let is_dirty =
        statement.pointer(&format!("{definition}/externalParameters/sourceHasUncommittedChanges"));
    let names_commit = dependencies.iter().any(|it| !text(it, "/digest/gitCommit").is_empty());
    assert_eq!(is_dirty.and_then(Value::as_bool), Some(!names_commit), "{statement}");
    let builder = text(&statement, "/predicate/runDetails/builder/id");
    assert_eq!(builder, "https://ci.example.com/runner");
    check_plugin(&first);
    if key.is_some() {
        check_signatures(&first, ED25519);
    } else {
        eprintln!("skipped: no OpenSSL to make a key with");
    }
    if build::has_go() {
        check_chart(&first, &image, &build::helm().expect("Helm"));
    } else {
        eprintln!("skipped: no Go to build Helm with");
    }
    // No link of the notes leads nowhere.
    let notes = fs::read_to_string(first.join("RELEASE_NOTES.md")).expect("notes");
    for link in notes.split("](").skip(1) {
        assert!(link.starts_with("https://"), "{}", link.split(')').next().unwrap_or_default());
    }
    assert!(notes.contains(&image));
}

/// With the least that it needs; and with the other kind of key.
#[test]
fn what_a_release_lacks_is_told() {
    let inputs = Inputs::new();
    let said = made(&inputs.arguments("least"));
    for note in ["no manifest for kubectl", "no plugin manifest", "not signed"] {
        assert!(said.contains(&format!("note: {note}")), "{said}");
    }
    let least = PathBuf::from(inputs.path("least"));
    assert!(!names(&least).iter().any(|it| it.ends_with(".sig") || it.ends_with("krew.yaml")));
    let image = check_image(&least, standin::SAID);
    check_digests(&least, &image);
    let curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let Some(key) = inputs.key("p256", &curve) else {
        eprintln!("skipped: no OpenSSL to make a key with");
        return;
    };
    let mut arguments = inputs.arguments("signed");
    arguments.push(format!("--key={key}"));
    made(&arguments);
    check_signatures(Path::new(&inputs.path("signed")), P256);
}

/// Nothing is written where something is wrong.
#[test]
fn what_makes_no_release() {
    let inputs = Inputs::new();
    let dynamic = env::current_exe().expect("this test").display().to_string();
    for (change, expected) in [
        (vec![format!("--binary=amd64={dynamic}")], "needs a dynamic linker"),
        (vec![format!("--binary=arm64={}", inputs.path("amd64"))], "is not for arm64"),
        (vec!["--binary=riscv=x".to_owned()], "write amd64=FILE or arm64=FILE"),
        (
            vec![format!("--binary=amd64={0}", inputs.path("amd64")); 2],
            "a processor is named twice",
        ),
        (vec!["--target=x86_64-unknown-linux-gnu".to_owned()], "a release has programs for"),
        (vec!["--image=r.example.com/m:1".to_owned()], "without a tag and a digest"),
        (vec![format!("--key={}", inputs.path("papers"))], "is not PEM"),
        (vec![format!("--ca-certificates={}", inputs.path("papers"))], "no bundle of certificates"),
        (vec![format!("--out={}", inputs.0.path().display())], "is not empty"),
    ] {
        let name = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
        let changed = name(&change[0]);
        let mut arguments = inputs.arguments("none");
        let replaces_programs = changed == "--target" || changed == "--binary";
        arguments
            .retain(|it| name(it) != changed && !(replaces_programs && name(it) == "--binary"));
        arguments.extend(change);
        let output = dist(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        let none = Path::new(&inputs.path("none")).to_owned();
        assert!(!none.exists() || names(&none).is_empty(), "{arguments:?}");
    }
}

/// A release of the real program: the same checks, and the first command of the README in an empty root.
#[test]
fn a_release_of_the_real_program() {
    let Some(release) = env::var_os("MODGATE_RELEASE").map(PathBuf::from) else {
        eprintln!("skipped: MODGATE_RELEASE names no release");
        return;
    };
    let image = check_image(&release, &format!("modgate {VERSION}"));
    check_digests(&release, &image);
    let readme = fs::read_to_string(corpus::repository().join("README.md")).expect("README.md");
    let command = "review -f examples/gatekeeper examples/gatekeeper/objects/large.yaml";
    let (_, after) = readme.split_once(&format!("{command}\n")).expect("its first command");
    let expected = after.split_once("```text\n").expect("its output").1;
    let expected = expected.split("```").next().expect("its output");
    for arch in ["amd64", "arm64"] {
        let root = tempfile::tempdir().expect("a folder");
        let archive = file(&release, &format!("-linux-{arch}.tar.gz")).display().to_string();
        run("tar", &["-xzf", &archive, "modgate"], root.path());
        let examples = corpus::repository().join("examples").display().to_string();
        run("cp", &["-r", &examples, "."], root.path());
        let arguments: Vec<&str> = command.split(' ').collect();
        let Some(said) = answer(root.path(), arch, &arguments) else {
            eprintln!("skipped: nothing here runs programs for {arch}");
            continue;
        };
        assert_eq!(said, expected, "{arch}");
    }
}
