//! The commands and policies of the documentation, run as a reader would: in a copy of `examples/repository`, with
//! the files of the page. `modgate_corpus::pages` has the markers by which a page names files and outputs.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use modgate_testkit::{
    corpus,
    pages::{self, Block, Marker},
};
use tempfile::TempDir;

/// A folder in which the commands of a page run.
struct Reader {
    folder: TempDir,
    path: String,
}

/// The output of a command, results and errors in their order, as a terminal shows them.
struct Done {
    code: Option<i32>,
    out: String,
}

impl Reader {
    /// A copy of the repository of the examples with the files of the page.
    fn new(blocks: &[Block]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = corpus::repository();
        copy(&root.join(pages::FOLDER), folder.path());
        copy(&root.join("examples"), &folder.path().join("examples"));
        for (name, from) in pages::STAND_INS {
            fs::copy(folder.path().join(from), folder.path().join(name)).expect(name);
        }
        for block in blocks {
            if let Some(name) = block.file() {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().expect("a folder")).expect(name);
                fs::write(path, &block.text).expect(name);
            }
        }
        let programs = folder.path().join(".programs");
        fs::create_dir(&programs).expect("a folder");
        symlink(env!("CARGO_BIN_EXE_modgate"), programs.join("modgate")).expect("a link");
        let path = format!("{}:{}", programs.display(), env::var("PATH").expect("PATH"));
        let reader = Self { folder, path };
        // Comparisons read the branch `main`.
        let set_up = "git init -q -b main && git add policies && \
                      git -c user.name=x -c user.email=x@example.com commit -qm x";
        assert_eq!(reader.run(set_up).code, Some(0));
        reader
    }

    fn run(&self, command: &str) -> Done {
        let output = Command::new("bash")
            .args(["-o", "pipefail", "-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .expect("a shell");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        Done { code: output.status.code(), out }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file");
        }
    }
}

/// The pages with their blocks.
fn all() -> BTreeMap<PathBuf, Vec<Block>> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(corpus::repository().join(&path)).expect("a page");
        let blocks =
            pages::blocks(&text).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        (path, blocks)
    };
    pages::paths().expect("pages").into_iter().map(read).collect()
}

/// A command as it runs here, if it is one of modgate's.
fn ours(command: &str) -> Option<String> {
    let command = command.replace("cargo run --release -- ", "modgate ");
    let mut words = command.split_whitespace();
    (words.next() == Some("modgate")).then(|| command.clone())
}

/// Why no test runs a command of a block.
fn excused<'a>(block: &'a Block, command: &str) -> Option<&'a str> {
    block.markers.iter().find_map(|marker| match marker {
        Marker::NotRun { part: None, reason } => Some(reason.as_str()),
        Marker::NotRun { part: Some(part), reason } => {
            command.contains(part).then_some(reason.as_str())
        }
        _ => None,
    })
}

/// Whether a text has these lines; `…` stands for any characters, and alone on a line for any lines.
fn fits(expected: &[&str], found: &[&str]) -> bool {
    match expected {
        [] => found.is_empty(),
        ["…", rest @ ..] => (0..=found.len()).any(|skip| fits(rest, &found[skip..])),
        [line, rest @ ..] => found
            .split_first()
            .is_some_and(|(first, others)| is_like(line, first) && fits(rest, others)),
    }
}

fn is_like(expected: &str, found: &str) -> bool {
    let mut parts = expected.trim_end().split('…');
    let Some(mut rest) = found.trim_end().strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Runs what a page shows. What is wrong, in words.
fn problems(page: &Path, blocks: &[Block]) -> Vec<String> {
    let mut wrong = Vec::new();
    let shows_output =
        |block: &Block| block.markers.iter().any(|it| matches!(it, Marker::Output(_)));
    if !blocks.iter().any(|block| block.language == "sh" || shows_output(block)) {
        return wrong;
    }
    let reader = Reader::new(blocks);
    let mut last: Option<(String, Done)> = None;
    for block in blocks {
        let at = format!("{}:{}", page.display(), block.line);
        if block.language == "sh" {
            for command in block.commands() {
                let Some(command) = ours(&command) else { continue };
                if excused(block, &command).is_some() {
                    continue;
                }
                if ["modgate serve", "modgate playground"].iter().any(|it| command.starts_with(it))
                {
                    wrong.push(format!("{at}: `{command}` does not end: say that it is not run"));
                    continue;
                }
                let done = reader.run(&command);
                let is_tested = command.starts_with("modgate verify") && !command.contains("-min");
                if !matches!((done.code, is_tested), (Some(0), _) | (Some(1), false)) {
                    wrong.push(format!("{at}: `{command}`: {:?}\n{}", done.code, done.out));
                }
                last = Some((command, done));
            }
        }
        for marker in &block.markers {
            let Marker::Output(command) = marker else { continue };
            if let Some(command) = command {
                last = Some((command.clone(), reader.run(command)));
            }
            let Some((command, done)) = &last else {
                wrong.push(format!("{at}: there is no command before this output"));
                continue;
            };
            let expected: Vec<&str> = block.text.lines().collect();
            let found: Vec<&str> = done.out.lines().collect();
            if !fits(&expected, &found) {
                wrong.push(format!(
                    "{at}: `{command}` prints:\n{}instead of:\n{}",
                    done.out, block.text
                ));
            }
        }
    }
    wrong
}

#[test]
fn commands_of_the_documentation_run_as_shown() {
    let mut wrong = Vec::new();
    for (page, blocks) in all() {
        wrong.extend(problems(&page, &blocks));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Each block that shows commands, outputs or policies is run, or gives a reason why not.
#[test]
fn every_example_of_the_documentation_is_run() {
    let (mut run, mut wrong) = (0, Vec::new());
    for (page, blocks) in all() {
        for block in &blocks {
            let is_run = block.markers.iter().any(|it| !matches!(it, Marker::File(_)));
            let must_run = match block.language.as_str() {
                "text" | "" => true,
                // Policies open in the playground.
                "yaml" => pages::is_policy(&block.text),
                _ => false,
            };
            run += usize::from(is_run);
            if must_run && !is_run {
                wrong.push(format!("{}:{}: nothing runs this block", page.display(), block.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 30, "only {run} blocks");
}

/// The examples that the site opens in the playground load, and decide.
#[test]
fn examples_for_the_playground_have_results() {
    let mut count = 0;
    for (page, blocks) in all() {
        for block in &blocks {
            let Some(parts) = block.run() else { continue };
            count += 1;
            let at = format!("{}:{}", page.display(), block.line);
            let folder = tempfile::tempdir().expect("a folder");
            let mut arguments = vec!["explain".to_owned(), "--all".to_owned()];
            let mut add = |flag: &str, name: &str, text: &str| {
                let path = folder.path().join(name);
                fs::write(path, text).expect(name);
                arguments.extend(
                    [flag.to_owned(), name.to_owned()].into_iter().filter(|it| !it.is_empty()),
                );
            };
            for (part, names) in parts {
                let flag = match part.as_str() {
                    "policies" => "-f",
                    "object" => "",
                    "namespace" | "params" | "inventory" => "--objects",
                    other => panic!("{at}: the test knows no part `{other}`"),
                };
                for (index, name) in names.iter().enumerate() {
                    let text = pages::file(&blocks, name)
                        .unwrap_or_else(|error| panic!("{at}: {error:#}"));
                    add(flag, &format!("{part}-{index}.yaml"), &text);
                }
            }
            if block.language == "yaml" {
                let flag = if pages::is_policy(&block.text) { "-f" } else { "" };
                add(flag, "block.yaml", &block.text);
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let done = super::program::modgate(folder.path(), &arguments);
            let errors = super::program::errors(&done);
            let is_fine = matches!(done.status.code(), Some(0 | 1))
                && !["error", "warning"].iter().any(|word| errors.contains(word));
            assert!(is_fine, "{at}: {arguments:?}: {errors}");
            let out = super::program::out(&done);
            assert!(out.lines().count() > 1, "{at}: no policy has a result:\n{out}");
        }
    }
    assert!(count > 10, "only {count} examples");
}

#[test]
fn outputs_with_gaps() {
    for (expected, found, is_equal) in [
        ("a\nb", "a\nb", true),
        ("a", "a\nb", false),
        ("…\nb", "a\na\nb", true),
        ("a\n…", "a", true),
        ("a…c", "abc", true),
        ("a…c", "abcd", false),
        ("a … s, … s", "a 1 s, 2 s", true),
    ] {
        let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
        assert_eq!(fits(&lines(expected), &lines(found)), is_equal, "{expected:?} {found:?}");
    }
}
