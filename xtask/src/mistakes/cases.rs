//! Cases from files: bases that are right, and one change each that makes them wrong.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_value::{Value, diag::Location, yaml};

/// The file with the expectations of the review's cases, which are not among ours.
const REVIEWED: &str = "reviewed.yaml";

/// One mistake, and what should be said of it.
#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) command: String,
    /// `file:line:column` of the mistake.
    pub(super) place: Option<String>,
    pub(super) code: Option<String>,
    /// Text of the advice.
    pub(super) hint: Option<String>,
    /// Other texts that must be there.
    pub(super) says: Vec<String>,
    pub(super) exit: Option<i32>,
    /// How many messages there may be.
    pub(super) most: Option<usize>,
    /// Whether there is no mistake, and nothing may be said.
    pub(super) clean: bool,
}

/// The members that a case may have beside its files.
const MEMBERS: [&str; 13] = [
    "id", "base", "file", "from", "to", "files", "run", "code", "hint", "says", "exit", "most",
    "clean",
];

impl Case {
    fn expect(&mut self, entry: &Value) -> Result<()> {
        let members = entry.as_object().context("a case is an object")?;
        for key in members.keys() {
            let known = MEMBERS.contains(&key.as_str()) || key == "place";
            ensure!(known, "`{}`: unknown member `{key}`", self.id);
        }
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        self.code = text("code");
        self.hint = text("hint");
        self.place = self.place.take().or_else(|| text("place"));
        self.says = texts(entry, "says").into_iter().map(str::to_owned).collect();
        let number = |key: &str| entry.get(key).and_then(Value::as_i64);
        self.exit = number("exit").and_then(|code| i32::try_from(code).ok());
        self.most = number("most").and_then(|most| usize::try_from(most).ok());
        self.clean = entry.get("clean") == Some(&Value::Bool(true));
        Ok(())
    }
}

/// A member that is one text or a list of them.
fn texts<'e>(entry: &'e Value, key: &str) -> Vec<&'e str> {
    match entry.get(key) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(text) => text.as_str().into_iter().collect(),
        None => Vec::new(),
    }
}

/// Our own cases: every YAML file of the folder but the expectations of the review's.
pub(super) fn own(folder: &Path) -> Result<Vec<Case>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        if is_yaml && path.file_name().is_some_and(|name| name != REVIEWED) {
            paths.push(path);
        }
    }
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let group = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = read(&path)?;
        cases.extend(of_file(&group, &file).with_context(|| path.display().to_string())?);
    }
    let mut ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair.first() == pair.last());
    ensure!(twice.is_none(), "two cases have the same id: {twice:?}");
    Ok(cases)
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(yaml::value(&text)?)
}

fn of_file(group: &str, file: &Value) -> Result<Vec<Case>> {
    let entries = file.get("cases").and_then(Value::as_array).context("no `cases`")?;
    entries.iter().map(|entry| of_entry(group, file, entry)).collect()
}

fn of_entry(group: &str, file: &Value, entry: &Value) -> Result<Case> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let name = text("id").context("a case has no `id`")?;
    let mut case = Case { id: format!("{group}/{name}"), ..Case::default() };
    let id = case.id.clone();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for from in [file.get("common"), base(file, entry)?, entry.get("files")].into_iter().flatten() {
        for (name, text) in from.as_object().context("files are an object")? {
            let text = text.as_str().with_context(|| format!("`{id}`: file `{name}`"))?;
            files.insert(name.to_string(), text.to_owned());
        }
    }
    let (from, to) = (texts(entry, "from"), texts(entry, "to"));
    ensure!(from.len() == to.len(), "`{id}` has `from` and `to` of different lengths");
    for (from, to) in from.into_iter().zip(to) {
        change(&mut files, from, to, text("file")).with_context(|| id.clone())?;
    }
    for (name, text) in &mut files {
        if let Some(start) = text.find('«') {
            ensure!(case.place.is_none(), "`{id}` marks two places");
            let Location { line, column } = Location::of(text, start);
            case.place = Some(format!("{name}:{line}:{column}"));
            *text = text.replacen('«', "", 1).replacen('»', "", 1);
        }
        ensure!(!text.contains(['«', '»']), "`{id}`: a mark is left");
    }
    case.files = files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    let run = text("run").or_else(|| file.get("run")?.as_str());
    case.command = run.with_context(|| format!("`{id}` has no `run`"))?.to_owned();
    case.expect(entry)?;
    Ok(case)
}

fn base<'f>(file: &'f Value, entry: &Value) -> Result<Option<&'f Value>> {
    let Some(name) = entry.get("base").and_then(Value::as_str) else { return Ok(None) };
    let base = file.get("bases").and_then(|bases| bases.get(name));
    base.map(Some).with_context(|| format!("there is no base `{name}`"))
}

/// Makes the mistake: the one occurrence of `from`, in whichever file has it, becomes `to`.
fn change(
    files: &mut BTreeMap<String, String>,
    from: &str,
    to: &str,
    file: Option<&str>,
) -> Result<()> {
    let mut found = files
        .iter_mut()
        .filter(|(name, text)| file.is_none_or(|file| file == *name) && text.contains(from));
    let (Some((_, text)), None) = (found.next(), found.next()) else {
        bail!("`{from}` is not in exactly one file");
    };
    ensure!(text.matches(from).count() == 1, "`{from}` is there more than once");
    *text = text.replacen(from, to, 1);
    Ok(())
}

/// The review's cases: its files and commands, our expectations.
pub(super) fn reviewed(ours: &Path, folder: &Path) -> Result<Vec<Case>> {
    let expected = read(&ours.join(REVIEWED))?;
    let expected = expected.as_object().context("expectations are an object")?;
    let mut common = BTreeMap::new();
    take(folder, folder, false, &mut common)?;
    let mut cases = Vec::new();
    for (id, entry) in expected {
        let mut case = Case { id: id.to_string(), files: common.clone(), ..Case::default() };
        let own = folder.join(id.as_str());
        if own.is_dir() {
            take(folder, &own, true, &mut case.files)?;
        }
        let command = entry.get("run").and_then(Value::as_str).map(str::to_owned);
        case.command = match command {
            Some(command) => {
                for other in ["g00", "e00", "u00", "s00"] {
                    take(folder, &folder.join(other), true, &mut case.files)?;
                }
                command
            }
            None => format!("modgate review -f {id} pod.yaml"),
        };
        case.expect(entry)?;
        cases.push(case);
    }
    Ok(cases)
}

/// The files of a folder, named from `root`.
fn take(
    root: &Path,
    folder: &Path,
    all: bool,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let is_object = path.file_name().is_some_and(|name| name == "pod.yaml");
        if path.is_file() && (all || is_object) {
            let name = path.strip_prefix(root)?.display().to_string();
            files.insert(name, fs::read(&path)?);
        }
    }
    Ok(())
}
