//! KubeMod's webhook behind a program of its packages, and `modgate review`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use modgate_testkit::modrules::{self, Answered};
use serde_json::{Value, json};

use super::{
    Desk, Program, go_build, modrules as random_rules,
    peers::{Answer, Original},
    random::Random,
    render, root,
};

/// How often the original answers: what it takes from a Go map comes in any order.
const TIMES: usize = 4;

/// Builds our program of KubeMod's packages. Its module is KubeMod's own `go.mod`, so that the versions
/// are KubeMod's, with the checkout in the place of KubeMod's module.
pub(crate) fn build(checkout: &Path) -> Result<PathBuf> {
    const MODULE: &str = "github.com/kubemod/kubemod";
    let checkout = fs::canonicalize(checkout).context("find the checkout of KubeMod")?;
    let read = |name: &str| {
        fs::read_to_string(checkout.join(name))
            .with_context(|| format!("{} is no checkout of KubeMod", checkout.display()))
    };
    let module = read("go.mod")?;
    ensure!(
        module.lines().any(|line| line.trim() == format!("module {MODULE}")),
        "{} is no checkout of KubeMod",
        checkout.display()
    );
    let mut lines: Vec<String> = module
        .lines()
        .map(|line| match line.split_whitespace().next() {
            Some("module") => "module modgate/tests/differential/kubemod".to_owned(),
            // The program needs this version of the language.
            Some("go") => "go 1.22".to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    lines.push(format!("require {MODULE} v0.0.0"));
    lines.push(format!("replace {MODULE} => {}", serde_json::to_string(&checkout)?));
    let folder = root().join("target/differential/kubemod-module");
    fs::create_dir_all(&folder).context("make a folder")?;
    fs::write(folder.join("go.mod"), format!("{}\n", lines.join("\n")))?;
    fs::write(folder.join("go.sum"), read("go.sum")?)?;
    fs::copy(root().join("tests/differential/kubemod/main.go"), folder.join("main.go"))
        .context("copy the program")?;
    go_build(&folder, "kubemod", &["-mod=mod"])
}

/// Where rules and requests are handed over.
pub(crate) struct Kubemod {
    original: Original,
    binary: PathBuf,
    folder: PathBuf,
    counts: BTreeMap<String, u64>,
}

/// The documents of a program by what they are for.
struct Parts {
    rules: Vec<Value>,
    cluster: Vec<Value>,
    requests: Vec<Value>,
}

impl Kubemod {
    /// `peer` answers as the original, `binary` is modgate; programs are written into `folder`.
    pub(crate) fn new(peer: &Path, binary: &Path, folder: &Path) -> Self {
        Self {
            original: Original::new(peer),
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            counts: BTreeMap::new(),
        }
    }

    fn note(&mut self, ids: &[&str]) {
        for id in ids {
            self.count(&format!("answers that differ by {id}"));
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// The answers of `modgate review` to the requests, or its refusal of the rules.
    fn review(&self, parts: &Parts) -> Result<Result<Vec<Value>, Answer>> {
        let write = |name: &str, documents: &[Value]| -> Result<PathBuf> {
            let path = self.folder.join(name);
            fs::write(&path, render(documents)).context("write the program")?;
            Ok(path)
        };
        let reviews: Vec<Value> = parts
            .requests
            .iter()
            .map(|request| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))
            .collect();
        let output = Command::new(&self.binary)
            .args(["review", "-o", "json", "--modrule-resource", "*", "-f"])
            .arg(write("rules.yaml", &parts.rules)?)
            .arg("--objects")
            .arg(write("cluster.yaml", &parts.cluster)?)
            .arg(write("reviews.yaml", &reviews)?)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run {}", self.binary.display()))?;
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(0 | 1) => {
                let mut results: Vec<Value> =
                    serde_json::from_slice(&output.stdout).context("the answer of `review`")?;
                // Warnings about the rules are in the list, too.
                results.retain(|result| !result["operation"].is_null());
                ensure!(results.len() == parts.requests.len(), "{} answers", results.len());
                Ok(Ok(results))
            }
            Some(2) => Ok(Err(Answer::Refused(stderr))),
            _ => Ok(Err(Answer::Failed(stderr))),
        }
    }
}

impl Desk for Kubemod {
    fn program(&self, random: &mut Random) -> Program {
        random_rules::program(random)
    }

    fn ask(&mut self, _: &'static str, documents: &[Value]) -> Result<(Answer, Answer)> {
        let parts = Parts::of(documents);
        // A program made small must not become one that no cluster would send.
        if !parts.are_complete() || parts.rules.is_empty() || parts.requests.is_empty() {
            return Ok((Answer::Found(Vec::new()), Answer::Found(Vec::new())));
        }
        let question = json!({
            "clusterNamespace": "kubemod-system", "modRules": parts.rules, "objects": parts.cluster,
            "requests": parts.requests, "times": TIMES,
        });
        let original = match self.original.ask(&question)? {
            Ok(answer) => answer,
            Err(answer) => return Ok((answer, Answer::Found(Vec::new()))),
        };
        let ours = self.review(&parts)?;
        let outcomes = original["ruleOutcomes"].as_array().cloned().unwrap_or_default();
        if !outcomes.is_empty() || ours.is_err() {
            return self.refusals(&parts, &outcomes, ours);
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let results = ours.unwrap_or_default();
        for (at, (request, ours)) in parts.requests.iter().zip(results).enumerate() {
            let answers = original["responses"][at].as_array().cloned().unwrap_or_default();
            let (theirs, ours) = self.compare(&parts, request, &answers, &ours)?;
            left.push(json!({"request": at, "answer": theirs}));
            right.push(json!({"request": at, "answer": ours}));
        }
        Ok((Answer::Found(left), Answer::Found(right)))
    }

    fn counts(&self) -> Vec<(String, u64)> {
        self.counts.iter().map(|(id, count)| (id.clone(), *count)).collect()
    }
}

impl Kubemod {
    /// One side refuses a rule, or both do.
    fn refusals(
        &mut self,
        parts: &Parts,
        outcomes: &[Value],
        ours: Result<Vec<Value>, Answer>,
    ) -> Result<(Answer, Answer)> {
        let texts = ["decodeError", "validationError", "storeError"];
        let theirs: Vec<&str> = outcomes
            .iter()
            .flat_map(|it| texts.iter().filter_map(|key| it[*key].as_str()))
            .collect();
        let original = match theirs.as_slice() {
            [] => Answer::Found(Vec::new()),
            texts => Answer::Refused(texts.join("\n")),
        };
        let ours = match ours {
            Ok(_) => Answer::Found(Vec::new()),
            Err(answer) => answer,
        };
        let rules: Vec<String> = parts.rules.iter().map(Value::to_string).collect();
        let outcomes: Vec<String> = outcomes.iter().map(Value::to_string).collect();
        match modrules::decided_rules(&rules, &outcomes)? {
            Some(ids) if !matches!(ours, Answer::Failed(_)) => {
                self.note(&ids);
                let refused = Answer::Refused("as decided".to_owned());
                Ok((refused.clone(), refused))
            }
            _ => Ok((original, ours)),
        }
    }

    /// The answers to one request, equal where a decision prescribes ours.
    fn compare(
        &mut self,
        parts: &Parts,
        request: &Value,
        answers: &[Value],
        ours: &Value,
    ) -> Result<(Value, Value)> {
        let allowed = ours["allowed"] == true;
        let object = if allowed { plain(&ours["object"]) } else { Value::Null };
        let mine = json!({"allowed": allowed, "code": ours["code"], "reason": ours["reason"], "object": object});
        let answers: Vec<Value> = answers.iter().map(plain).collect();
        let known: Vec<Value> = answers
            .iter()
            .map(|it| match it["broken"].as_str() {
                Some(how) => json!({"broken": how}),
                None => json!({"allowed": it["allowed"], "code": it["code"], "reason": it["reason"], "object": it["object"]}),
            })
            .map(|it| plain(&it))
            .collect();
        let mine = plain(&mine);
        if known.contains(&mine) {
            self.count(match (allowed, ours["reason"].as_str()) {
                (false, _) => "equal answers, denied",
                (true, Some("patched ok")) => "equal answers, patched",
                _ => "equal answers, left alone",
            });
            return Ok((mine.clone(), mine));
        }
        let rules: Vec<String> = parts.rules.iter().map(Value::to_string).collect();
        let cluster: Vec<String> = parts.cluster.iter().map(Value::to_string).collect();
        let answered = Answered {
            allowed,
            code: ours["code"].as_i64().unwrap_or_default(),
            reason: ours["reason"].as_str().unwrap_or_default().to_owned(),
            object: allowed.then(|| ours["object"].to_string()),
            failed: ours["failures"].as_array().is_some_and(|failures| !failures.is_empty()),
        };
        let ids = modrules::decided(&rules, &request.to_string(), &cluster, &answered)?;
        if !ids.is_empty() {
            self.note(&ids);
            let decided = json!({"decided": ids});
            return Ok((decided.clone(), decided));
        }
        let theirs = known.into_iter().next().unwrap_or_default();
        Ok((theirs, mine))
    }
}

impl Parts {
    /// Whether everything has what the API server requires.
    fn are_complete(&self) -> bool {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let rules = self.rules.iter().all(|rule| {
            let metadata = &rule["metadata"];
            is_text(&rule["apiVersion"])
                && is_text(&metadata["name"])
                && is_text(&metadata["namespace"])
        });
        let requests = self.requests.iter().all(|request| {
            let object = subject(request);
            is_text(&request["operation"])
                && is_text(&request["kind"]["kind"])
                && request["kind"]["kind"] == object["kind"]
                && is_text(&object["metadata"]["name"])
        });
        rules && requests
    }

    fn of(documents: &[Value]) -> Self {
        let mut parts = Self { rules: Vec::new(), cluster: Vec::new(), requests: Vec::new() };
        for document in documents {
            match document["kind"].as_str() {
                Some("ModRule") => parts.rules.push(document.clone()),
                Some("AdmissionReview") => parts.requests.push(document["request"].clone()),
                _ => parts.cluster.push(document.clone()),
            }
        }
        // What a Namespace that is missing does is not asked here.
        for request in &parts.requests {
            let name = &request["namespace"];
            let is_it = |it: &Value| it["kind"] == "Namespace" && it["metadata"]["name"] == *name;
            if name.as_str().is_some_and(|name| !name.is_empty())
                && !parts.cluster.iter().any(is_it)
            {
                parts.cluster.push(
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
                );
            }
        }
        parts
    }
}

/// The object of the request.
fn subject(request: &Value) -> &Value {
    &request[if request["operation"] == "DELETE" { "oldObject" } else { "object" }]
}

/// The value with every number as a 64-bit float, the only numbers that KubeMod's patches know.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), |it| json!(it)),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, it)| (key.clone(), plain(it))).collect()
        }
        other => other.clone(),
    }
}
