//! The files a suite refers to. Each is read, and each template compiled, once for all the tests
//! and threads of a run.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use modgate_api::{meta::GroupVersionKind, templates};
use modgate_engine::constraint::{CompiledTemplate, TemplateError};
use modgate_value::{Value, gofmt, yaml};

use super::open_error;
use crate::{
    files::join,
    policies::{Settings, is_template},
    read::{read_limited, what},
};

/// A policy that is another one during a run.
#[derive(Clone, Copy)]
pub(super) struct Replaced<'r> {
    /// Its file, without the leading slash.
    pub(super) path: &'r str,
    /// Its number among the objects of the file.
    pub(super) index: usize,
    /// The policy in its place.
    pub(super) object: &'r Value,
}

/// Files read so far.
pub(super) struct Files<'s> {
    settings: &'s Settings,
    replaced: Option<Replaced<'s>>,
    templates: Mutex<HashMap<String, Arc<Once<Arc<CompiledTemplate>>>>>,
}

/// Created by the first thread that needs it; the others wait.
type Once<T> = OnceLock<Result<T, String>>;

impl<'s> Files<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        Self { settings, replaced: None, templates: Mutex::default() }
    }

    /// Whether policies count what evaluations reach.
    pub(super) fn is_observed(&self) -> bool {
        self.settings.templates.observed
    }

    /// With another policy in the place of one.
    pub(super) fn replacing(self, replaced: Replaced<'s>) -> Self {
        Self { replaced: Some(replaced), ..self }
    }

    /// The first object of a file's text.
    pub(super) fn first(&self, path: &str, text: &str) -> Result<Value, String> {
        match self.replaced {
            Some(Replaced { path: known, index: 0, object }) if known == path => Ok(object.clone()),
            _ => first(text),
        }
    }

    /// Every object of a file.
    pub(super) fn objects(&self, path: &str) -> Result<Vec<Value>, String> {
        let mut objects = objects(path)?;
        if let Some(replaced) = self.replaced.filter(|replaced| replaced.path == path)
            && let Some(object) = objects.get_mut(replaced.index)
        {
            *object = replaced.object.clone();
        }
        Ok(objects)
    }

    /// The templates that were read, with their files.
    pub(super) fn templates(&self) -> Vec<(String, Arc<CompiledTemplate>)> {
        let templates = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        let read = templates.iter().filter_map(|(path, once)| {
            let template = once.get()?.as_ref().ok()?;
            Some((path.clone(), Arc::clone(template)))
        });
        read.collect()
    }

    /// The template in a file.
    pub(super) fn template(&self, path: &str) -> Result<Arc<CompiledTemplate>, String> {
        let Ok(mut templates) = self.templates.lock() else {
            return self.read_template(path);
        };
        let once = Arc::clone(templates.entry(path.to_owned()).or_default());
        drop(templates);
        once.get_or_init(|| self.read_template(path)).clone()
    }

    fn read_template(&self, path: &str) -> Result<Arc<CompiledTemplate>, String> {
        let quoted = gofmt::quote(path);
        let text = read(path)
            .map_err(|error| format!("reading ConstraintTemplate from {quoted}: {error}"))?;
        let resource = self.first(path, &text).map_err(|error| {
            format!("adding template: parsing ConstraintTemplate YAML from {quoted}: {error}")
        })?;
        if !is_template(&resource) {
            return Err(format!("path {quoted}: not a ConstraintTemplate"));
        }
        let kind = GroupVersionKind::of_object(&resource);
        if !templates::VERSIONS.contains(&kind.version.as_str()) {
            return Err(format!(
                "path {quoted}: adding template: no kind \"ConstraintTemplate\" is registered for \
             version \"{}/{}\"",
                kind.group, kind.version
            ));
        }
        self.settings.template(&resource).map_err(|error| match error {
            TemplateError::Decode(_) => format!("path {quoted}: adding template: {error}"),
            error => format!("adding template: {error}"),
        })
    }
}

/// A file below the folder of a suite; both without the leading slash.
pub(super) fn beside(folder: &str, name: &str) -> String {
    join(folder, name)
}

/// The text of a file; the error is Go's.
pub(super) fn read(path: &str) -> Result<String, String> {
    let file =
        fs::File::open(Path::new("/").join(path)).map_err(|error| open_error(path, &error))?;
    read_limited(&mut &file).map_err(|error| format!("read {path}: {error}"))
}

/// The first document of a text, which must be an object; an empty one if there is none.
pub(super) fn first(text: &str) -> Result<Value, String> {
    match yaml::documents_v3(text).next() {
        None => object(Value::Null),
        Some(document) => object(document.map_err(|error| error.to_string())?.value),
    }
}

fn object(value: Value) -> Result<Value, String> {
    match value {
        Value::Null => Ok(modgate_value::Object::default().into()),
        Value::Object(_) => Ok(value),
        other => Err(format!("a document is {}, not an object", what(&other))),
    }
}

/// Every object of a file; there must be one.
pub(super) fn objects(path: &str) -> Result<Vec<Value>, String> {
    let text = read(path)?;
    let mut objects = Vec::new();
    for document in yaml::documents_v3(&text) {
        let value = document.map_err(|error| error.to_string()).and_then(|document| {
            if document.value.is_null() { Ok(Value::Null) } else { object(document.value) }
        });
        match value {
            Ok(Value::Null) => {}
            Ok(value) => objects.push(value),
            Err(error) => {
                return Err(format!("reading {}: invalid yaml: {error}", gofmt::quote(path)));
            }
        }
    }
    if objects.is_empty() {
        return Err(format!(
            "missing objects: path {} defines no YAML objects",
            gofmt::quote(path)
        ));
    }
    Ok(objects)
}

/// The one object of a file.
pub(super) fn one_object(path: &str) -> Result<Value, String> {
    let mut objects = objects(path)?;
    match (objects.pop(), objects.len()) {
        (Some(object), 0) => Ok(object),
        (_, others) => Err(format!(
            "object file must contain exactly one object: {} defines {} objects",
            gofmt::quote(path),
            others + 1
        )),
    }
}
