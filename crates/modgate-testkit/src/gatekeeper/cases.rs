//! `gatekeeper/cases.json`: command lines over Gatekeeper's own fixtures.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use modgate_value::{Value, yaml};

use super::{
    command::{Ran, arguments, gator, is_like},
    oci::Registry,
};
use crate::{
    corpus::{self, CorpusFile, Roots},
    decision,
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, roots: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["license", "origin", "conventions", "unit", "acceptance"]);
    // Gatekeeper's own files, which are not in this repository.
    let fixtures = roots
        .find_folder("gatekeeper/test")
        .and_then(|folder| folder.parent().and_then(|folder| folder.canonicalize().ok()));
    // Shared by all cases, whose order counts.
    let scratch = tempfile::tempdir()?;
    let mut registry = None;
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let id = members.text("id")?;
        members.notes(&["upstreamTest", "note"]);
        let case = match members.text("kind")? {
            "scenario" => {
                members.notes(&["steps", "flags", "provider"]);
                Case { id: format!("{id} (scenarios.rs)"), verdict: elsewhere(id)? }
            }
            "cli" => {
                members.notes(&["requires"]);
                let verdict = match &fixtures {
                    Some(root) => {
                        let registry = match &mut registry {
                            Some(registry) => registry,
                            none => none.insert(Registry::start(root)?),
                        };
                        Session { root, scratch: scratch.path(), registry }
                            .check(&members)
                            .with_context(|| id.to_owned())?
                    }
                    None => {
                        members.notes(&CLI_MEMBERS);
                        Verdict::Skipped
                    }
                };
                Case { id: id.to_owned(), verdict }
            }
            other => bail!("`{id}` is of the unknown kind `{other}`"),
        };
        cases.push(case);
        members.finish()?;
    }
    top.finish()
}

/// Runs the scenarios on a real API server, and names each of them.
const SCENARIOS: &str = "tests/e2e/tests/scenarios.rs";

/// A scenario needs a cluster, so it is exempt here, if that test has it.
fn elsewhere(id: &str) -> Result<Verdict> {
    let path = corpus::repository().join(SCENARIOS);
    let test = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(match test.contains(&format!("{id:?}")) {
        true => Verdict::Exempt,
        false => Verdict::Failed {
            expected: format!("{SCENARIOS} to run {id:?}"),
            got: "a test that does not name it".to_owned(),
        },
    })
}

const CLI_MEMBERS: [&str; 7] =
    ["args", "stdin", "env", "asserted", "measured", "decision", "expect"];

struct Session<'s> {
    /// Gatekeeper's files; commands run here.
    root: &'s Path,
    scratch: &'s Path,
    /// Where images are pulled from.
    registry: &'s Registry,
}

impl Session<'_> {
    fn check(&self, case: &Members<'_>) -> Result<Verdict> {
        let args = arguments(case.list("args")?)?;
        let args: Vec<String> = args.into_iter().map(|arg| self.registry.replaced(arg)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let stdin = case
            .optional_text("stdin")?
            .map(|name| fs::read(self.root.join(name)).with_context(|| name.to_owned()))
            .transpose()?;
        let mut env = BTreeMap::new();
        if let Some(variables) = case.optional("env") {
            for (name, value) in variables.as_object().context("`env`")? {
                let value = value.as_str().context("a variable is not a text")?;
                env.insert(name.to_string(), self.replaced(value));
            }
        }
        let run = |args: &[&str]| gator(args, self.root, stdin.as_deref(), &env);
        let got = run(&args);
        let asserted = case.optional("asserted").map(Members::of).transpose()?;
        if let Some(asserted) = asserted
            && let Some(missing) = self.missing(&asserted, &got)?
        {
            asserted.finish()?;
            case.notes(&["measured", "decision", "expect"]);
            return Ok(Verdict::Failed { expected: missing, got: shown(&got) });
        }
        let Some(measured) = case.optional("measured") else { return Ok(Verdict::Passed) };
        let measured = Members::of(measured)?;
        let recorded = Ran {
            code: exit_code(&measured)?,
            stdout: self.replaced(measured.text("stdout")?),
            stderr: self.replaced(measured.text("stderr")?),
        };
        measured.finish()?;
        let is_as_measured = is_as(&recorded, &got)?;
        let Some(id) = case.optional_text("decision")? else {
            return Ok(match is_as_measured {
                true => Verdict::Passed,
                false => Verdict::Failed { expected: shown(&recorded), got: shown(&got) },
            });
        };
        let known = decision::ALL.iter().find(|known| known.id == id);
        let known = known.with_context(|| format!("`{id}` is no decision"))?;
        let expect = Members::of(case.required("expect")?)?;
        let code = exit_code(&expect)?;
        // The one text by which a case refers to another command line.
        anyhow::ensure!(expect.text("stdout")? == "same text as without -o");
        expect.finish()?;
        let plain: Vec<&str> = match args.iter().position(|arg| *arg == "-o") {
            Some(at) => [args.get(..at), args.get(at + 2..)]
                .into_iter()
                .flatten()
                .flatten()
                .copied()
                .collect(),
            None => bail!("`-o` is missing"),
        };
        let required = Ran { code, ..run(&plain) };
        if required.stdout.is_empty() || is_as_measured || got != required {
            return Ok(Verdict::Failed { expected: shown(&required), got: shown(&got) });
        }
        Ok(Verdict::Differs(vec![known]))
    }

    fn replaced(&self, text: &str) -> String {
        let root = self.root.to_string_lossy();
        text.replace("${ROOT_NOSLASH}", root.trim_start_matches('/'))
            .replace("${ROOT}", &root)
            .replace("${TMP}", &self.scratch.to_string_lossy())
    }

    /// The part that upstream's own test would miss.
    fn missing(&self, asserted: &Members<'_>, got: &Ran) -> Result<Option<String>> {
        if asserted.optional("exitCode").is_some() && exit_code(asserted)? != got.code {
            return Ok(Some(format!("exit code {}", exit_code(asserted)?)));
        }
        for (key, text) in [("stdoutContains", &got.stdout), ("stderrContains", &got.stderr)] {
            for part in asserted.optional_list(key)? {
                let part = part.as_str().context("a part is not a text")?;
                if !text.contains(&self.registry.replaced(part)) {
                    return Ok(Some(format!("{key} {part:?}")));
                }
            }
        }
        if let Some(name) = asserted.optional_text("stdoutContainsFile")? {
            let part = fs::read_to_string(self.root.join(name)).with_context(|| name.to_owned())?;
            if !got.stdout.contains(part.trim_end()) {
                return Ok(Some(format!("standard output to contain {name}")));
            }
        }
        if let Some(format) = asserted.optional_text("stdoutIs")? {
            anyhow::ensure!(format == "json", "unknown format `{format}`");
            if Value::from_json(got.stdout.as_bytes()).is_err() {
                return Ok(Some("JSON on standard output".to_owned()));
            }
        }
        if let Some(messages) = asserted.optional("yamlResultMsg") {
            let results = yaml::value(&got.stdout)?;
            for (index, message) in messages.as_object().context("`yamlResultMsg`")? {
                let result =
                    results.as_array().and_then(|all| all.get(index.parse::<usize>().ok()?));
                if result.and_then(|result| result.path(&["result", "msg"])) != Some(message) {
                    return Ok(Some(format!("result {index} with {}", message.to_json())));
                }
            }
        }
        Ok(None)
    }
}

fn exit_code(members: &Members<'_>) -> Result<u8> {
    let code = members.required("exitCode")?.as_i64();
    code.and_then(|code| u8::try_from(code).ok()).context("`exitCode` is no exit code")
}

fn is_as(recorded: &Ran, got: &Ran) -> Result<bool> {
    Ok(recorded.code == got.code
        && is_like(&recorded.stdout, &got.stdout)?
        && is_like(&recorded.stderr, &got.stderr)?)
}

fn shown(ran: &Ran) -> String {
    let Ran { code, stdout, stderr } = ran;
    format!("exit code {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
}
