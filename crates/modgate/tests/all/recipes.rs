//! The files that users copy into their pipelines (`action.yml`, `templates/modgate.yml`,
//! `.pre-commit-hooks.yaml`), run in a copy of `examples/repository` as the pipelines run them,
//! with a release that a folder holds.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use modgate_testkit::corpus;
use modgate_value::{Value, yaml};
use tempfile::TempDir;

/// The repository of a user, and the release that is published for it.
struct Place {
    folder: TempDir,
    key: Option<String>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["repository", "release", "temp", "programs"] {
            fs::create_dir(folder.path().join(name)).expect(name);
        }
        let examples = corpus::repository().join("examples/repository/.");
        let to = folder.path().join("repository");
        assert!(ran(Command::new("cp").arg("-r").arg(examples).arg(to)).status.success());
        let mut place = Self { folder, key: None };
        let release = place.path("release");
        // The archive has the program under its name; here it is a script that calls ours, as that is large.
        let program = release.join("modgate");
        let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_modgate"));
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        place.shell(
            "cd release && for arch in amd64 arm64; do tar -czf modgate-0.1.0-linux-$arch.tar.gz modgate; done \
             && rm modgate && sha256sum *.gz > SHA256SUMS",
        );
        let key = "cd release && openssl genpkey -algorithm ed25519 -out ../key \
                   && openssl pkey -in ../key -pubout -out ../key.pub \
                   && openssl pkeyutl -sign -inkey ../key -rawin -in SHA256SUMS -out SHA256SUMS.sig";
        if ran(Command::new("openssl").arg("version")).status.success() {
            place.shell(key);
            place.key = Some(fs::read_to_string(place.path("key.pub")).expect("a key"));
        } else {
            eprintln!("skipped: no OpenSSL to sign with");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shell(&self, script: &str) {
        let output = ran(Command::new("sh").args(["-euc", script]).current_dir(self.folder.path()));
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn url(&self) -> String {
        format!("file://{}", self.path("release").display())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path("repository").join(name)).unwrap_or_default()
    }
}

fn ran(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn documents(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(corpus::repository().join(name)).expect(name);
    yaml::load(&text).expect(name).into_iter().map(|it| it.value).collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(|list| &**list).unwrap_or_default()
}

/// The value of an input: the user's, or its default.
fn input(inputs: &Value, given: &[(&str, &str)], name: &str) -> String {
    let declared = inputs.get(name).unwrap_or_else(|| panic!("no input `{name}` is declared"));
    let user = given.iter().find(|(key, _)| *key == name);
    user.map_or_else(|| text(declared, "/default").to_owned(), |(_, value)| (*value).to_owned())
}

/// Runs the steps of the action with these inputs; the exit code of the first that fails, and what was printed.
fn action(place: &Place, given: &[(&str, &str)]) -> (i32, String) {
    let action = &documents("action.yml")[0];
    let inputs = action.get("inputs").expect("inputs");
    for (name, _) in given {
        assert!(inputs.get(name).is_some(), "{name}");
    }
    let mut said = String::new();
    let files = ["path", "output"].map(|name| place.path(&format!("temp/github-{name}")));
    for file in &files {
        fs::write(file, "").expect("written");
    }
    for step in list(action, "/runs/steps") {
        let script = text(step, "/run");
        assert!(!script.contains("${{"), "an input in a script can contain commands");
        assert_eq!(text(step, "/shell"), "bash");
        match text(step, "/if") {
            "" => {}
            "inputs.base-url != ''" if input(inputs, given, "base-url").is_empty() => continue,
            "inputs.base-url != ''" => {}
            other => panic!("a condition that this test does not know: {other}"),
        }
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        for (name, value) in step.get("env").and_then(Value::as_object).expect("env").iter() {
            let value = value.as_str().expect("text");
            let name_of = value.strip_prefix("${{ inputs.").and_then(|it| it.strip_suffix(" }}"));
            bash.env(name.as_str(), input(inputs, given, name_of.expect(value)));
        }
        let added = fs::read_to_string(&files[0]).expect("read");
        let path = added.lines().rev().collect::<Vec<_>>().join(":");
        let path = format!("{path}:{}", env::var("PATH").expect("PATH"));
        let output = ran(bash
            .env("PATH", path)
            .env("RUNNER_TEMP", place.path("temp"))
            .env("GITHUB_PATH", &files[0])
            .env("GITHUB_OUTPUT", &files[1])
            .env("NO_COLOR", "1")
            .current_dir(place.path("repository")));
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return (output.status.code().unwrap_or(-1), said);
        }
    }
    (0, said)
}

/// Runs the script of the component, with the variables that it sets.
fn component(place: &Place, given: &[(&str, &str)]) -> (i32, String) {
    let [head, jobs] = &documents("templates/modgate.yml")[..] else { panic!("two documents") };
    let inputs = head.pointer("/spec/inputs").expect("inputs");
    let (name, job) = jobs.as_object().expect("jobs").iter().next().expect("a job");
    let filled = |text: &str| {
        let mut parts = text.split("$[[ inputs.");
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once(" ]]").expect("an input");
            all.push_str(&input(inputs, given, name));
            all.push_str(rest);
        }
        all
    };
    assert_eq!(filled(name.as_str()), "policies");
    let mut shell = Command::new("sh");
    for (name, value) in job.get("variables").and_then(Value::as_object).expect("variables").iter()
    {
        shell.env(name.as_str(), filled(value.as_str().expect("text")));
    }
    let [script] = list(job, "/script") else { panic!("one script") };
    let script = script.as_str().expect("text");
    assert!(!script.contains("$[["), "an input in a script can contain commands");
    let output =
        ran(shell.args(["-c", script]).env("NO_COLOR", "1").current_dir(place.path("repository")));
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    for report in ["/artifacts/reports/junit/0", "/artifacts/reports/junit/1"] {
        let report = text(job, report);
        assert!(report.starts_with("modgate-"), "{report}");
    }
    (output.status.code().unwrap_or(-1), said.concat())
}

/// A manifest that the policies of the example admit, in place of those that they deny.
fn only_good_manifests(place: &Place) {
    let manifests = place.path("repository/manifests");
    fs::remove_dir_all(&manifests).expect("removed");
    fs::create_dir(&manifests).expect("made");
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good, namespace: shop}\n";
    fs::write(manifests.join("good.yaml"), good).expect("written");
}

fn can_download() -> bool {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !has_curl {
        eprintln!("skipped: no curl");
    }
    has_curl
}

#[test]
fn the_github_action() {
    if !can_download() {
        return;
    }
    let place = Place::new();
    let url = place.url();
    let key = place.key.clone().unwrap_or_default();
    let (code, said) = action(&place, &[("base-url", &url), ("public-key", &key)]);
    assert_eq!(code, 1, "a manifest of the example is denied: {said}");
    assert!(said.contains("modgate-0.1.0-linux-") && said.contains(": OK"), "{said}");
    assert!(said.contains("::error file=manifests/"), "{said}");
    let sarif = Value::from_json(place.read("modgate.sarif").as_bytes()).expect("a report");
    assert!(!list(&sarif, "/runs/0/results").is_empty());
    let output = fs::read_to_string(place.path("temp/github-output")).expect("outputs");
    assert_eq!(output, "sarif=modgate.sarif\n");
    let (code, said) = action(&place, &[("base-url", &url), ("fail-on", "none")]);
    assert_eq!(code, 0, "{said}");

    only_good_manifests(&place);
    let several =
        [("base-url", url.as_str()), ("manifests", "manifests/good.yaml manifests/*.yaml")];
    for given in [&several[..1], &several[..]] {
        let (code, said) = action(&place, given);
        assert_eq!(code, 0, "{said}");
    }
    // Inputs are never commands.
    let (code, said) = action(&place, &[("base-url", &url), ("policies", "$(touch x); touch x")]);
    assert_eq!(code, 2, "{said}");
    assert!(!place.path("repository/x").exists());
    // A test of the policies that fails is not made up for by manifests that pass.
    place.shell(
        "find repository/policies -name '*.yaml' | xargs sed -i 's/violations: .*/violations: 77/'",
    );
    let (code, said) = action(&place, &several[..1]);
    assert_eq!(code, 1, "{said}");
}

/// A release that was changed on the way is not run.
#[test]
fn changed_releases_are_not_run() {
    if !can_download() {
        return;
    }
    let place = Place::new();
    let url = place.url();
    for run in [action, component] {
        let (code, said) = run(&place, &[("base-url", &url), ("version", "9.9.9")]);
        assert!(code != 0 && !said.contains("PASS"), "{said}");
    }
    place.shell("cd release && for file in *.gz; do printf x >> $file; done");
    for run in [action, component] {
        let (code, said) = run(&place, &[("base-url", &url)]);
        assert!(code != 0 && said.contains("FAILED") && !said.contains("PASS"), "{said}");
    }
    // With digests that fit again only the signature tells.
    place.shell("cd release && sha256sum *.gz > SHA256SUMS");
    let Some(key) = &place.key else { return };
    for run in [action, component] {
        let (code, said) = run(&place, &[("base-url", &url), ("public-key", key)]);
        assert!(code != 0 && !said.contains(": OK") && !said.contains("PASS"), "{said}");
    }
}

/// Releases are for Linux; a runner with another system says so, and downloads nothing.
#[test]
fn runners_without_linux() {
    let folder = tempfile::tempdir().expect("a folder");
    let uname = folder.path().join("uname");
    fs::write(&uname, "#!/bin/sh\n[ \"$1\" = -s ] && echo Darwin || echo arm64\n")
        .expect("written");
    fs::set_permissions(&uname, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").expect("PATH"));
    let action = &documents("action.yml")[0];
    let [_, jobs] = &documents("templates/modgate.yml")[..] else { panic!("two documents") };
    let (_, job) = jobs.as_object().expect("jobs").iter().next().expect("a job");
    for (shell, script, variable) in [
        ("bash", text(action, "/runs/steps/0/run"), "BASE_URL"),
        ("sh", text(job, "/script/0"), "MODGATE_BASE_URL"),
    ] {
        let mut command = Command::new(shell);
        let output = ran(command
            .args(["-euc", script])
            .env("PATH", &path)
            .env(variable, "file:///nowhere")
            .current_dir(folder.path()));
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(2), "{variable}: {said}");
        let expected = "releases of modgate are for Linux, and this runner is Darwin";
        assert!(said.contains(expected), "{variable}: {said}");
    }
}

#[test]
fn the_gitlab_component() {
    if !can_download() {
        return;
    }
    let place = Place::new();
    let url = place.url();
    let key = place.key.clone().unwrap_or_default();
    let (code, said) = component(&place, &[("base-url", &url), ("public-key", &key)]);
    assert_eq!(code, 1, "a manifest of the example is denied: {said}");
    assert!(said.contains(": OK"), "{said}");
    for report in ["modgate-verify.xml", "modgate-audit.xml"] {
        assert!(place.read(report).contains("<testsuite"), "{report}");
    }
    let quality = Value::from_json(place.read("modgate-audit.json").as_bytes()).expect("a report");
    assert!(quality.as_array().is_some_and(|all| !all.is_empty()), "{quality}");
    let (code, said) = component(&place, &[("base-url", &url), ("fail-on", "none")]);
    assert_eq!(code, 0, "{said}");
}

/// Each hook passes and fails where its command does: run by pre-commit where it is installed, else as it would run it.
#[test]
fn the_hooks_of_pre_commit() {
    let place = Place::new();
    symlink(env!("CARGO_BIN_EXE_modgate"), place.path("programs/modgate")).expect("a link");
    let hooks = &documents(".pre-commit-hooks.yaml")[0];
    let ids: Vec<&str> =
        hooks.as_array().expect("hooks").iter().map(|it| text(it, "/id")).collect();
    assert_eq!(ids, ["modgate-verify", "modgate-audit", "modgate-fmt", "modgate-check"]);
    let has_it =
        Command::new("pre-commit").arg("--version").output().is_ok_and(|it| it.status.success());
    if !has_it {
        eprintln!("pre-commit is not installed: hooks are run without it");
    }
    let path = format!("{}:{}", place.path("programs").display(), env::var("PATH").expect("PATH"));
    let git = "git init -q . && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm x";
    fs::create_dir(place.path("hooks")).expect("made");
    let from = corpus::repository().join(".pre-commit-hooks.yaml");
    fs::copy(from, place.path("hooks/.pre-commit-hooks.yaml")).expect("copied");
    place.shell(&format!("cd hooks && {git}"));
    place.shell(&format!("cd repository && {git}"));
    let passes = |hook: &Value| {
        let mut command = if has_it {
            let mut command = Command::new("pre-commit");
            command.arg("try-repo").arg(place.path("hooks"));
            command.args([text(hook, "/id"), "--all-files", "--verbose"]);
            command.env("PRE_COMMIT_HOME", place.path("temp"));
            command
        } else {
            let arguments = list(hook, "/args").iter().map(|it| it.as_str().expect("text"));
            let words: Vec<&str> = text(hook, "/entry").split(' ').chain(arguments).collect();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        let output = ran(command.env("PATH", &path).current_dir(place.path("repository")));
        let said =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (output.status.success(), said.concat())
    };
    let result = |id: &str| {
        let hook = hooks.as_array().and_then(|all| all.iter().find(|it| text(it, "/id") == id));
        passes(hook.expect(id))
    };
    let is = |id: &str, expected: bool| {
        let (passed, said) = result(id);
        assert_eq!(passed, expected, "{id}: {said}");
    };
    is("modgate-verify", true);
    is("modgate-audit", false);
    is("modgate-check", false);
    is("modgate-fmt", true);
    only_good_manifests(&place);
    place.shell("cd repository && git add -A");
    is("modgate-audit", true);
    is("modgate-check", true);
    let spaced = "kind:    ConfigMap\napiVersion: v1\nmetadata:   {name: x}\n";
    fs::write(place.path("repository/policies/spaced.yaml"), spaced).expect("written");
    place.shell("cd repository && git add -A");
    is("modgate-fmt", false);
    place.shell(
        "cd repository && rm policies/spaced.yaml \
         && find policies -name '*.yaml' | xargs sed -i 's/violations: .*/violations: 77/' && git add -A",
    );
    is("modgate-verify", false);
}

/// The page names what there is.
#[test]
fn the_page_shows_inputs_that_exist() {
    let page = fs::read_to_string(corpus::repository().join("docs/ci.md")).expect("docs/ci.md");
    let action = &documents("action.yml")[0];
    let (_, example) = page.split_once("uses: OWNER/modgate@v0.1.0\n").expect("an example");
    let with = example.split("      - ").next().unwrap_or_default();
    let mut count = 0;
    for line in with.lines().filter_map(|line| line.strip_prefix("          ")) {
        if let Some((name, _)) = line.split_once(':') {
            assert!(action.pointer(&format!("/inputs/{name}")).is_some(), "{name}");
            count += 1;
        }
    }
    assert!(count >= 2, "{with}");
    let folder = Path::new("examples/repository");
    assert!(corpus::repository().join(folder).is_dir());
    let hooks = &documents(".pre-commit-hooks.yaml")[0];
    for hook in hooks.as_array().expect("hooks").iter() {
        assert!(page.contains(&format!("- id: {}\n", text(hook, "/id"))), "{}", text(hook, "/id"));
    }
    let head = &documents("templates/modgate.yml")[0];
    let (_, example) = page.split_once("/modgate@v0.1.0\n    inputs:\n").expect("an example");
    for line in example.lines().take_while(|line| line.starts_with("      ")) {
        let name = line.trim().split(':').next().unwrap_or_default();
        assert!(head.pointer(&format!("/spec/inputs/{name}")).is_some(), "{name}");
    }
}
