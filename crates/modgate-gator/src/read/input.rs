//! Reads objects as the other verbs of modgate do: with their places, patterns and exclusions, and with
//! everything that is wrong with files and policies. gator's own reading is [`read`](crate::read).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    rc::Rc,
};

use modgate_engine::EngineConfig;
use modgate_policies::{
    check,
    manifest::{self, FileError, Manifest},
    paths::{self, Exclude},
};
use modgate_report::Report;
use modgate_value::diag::{Diagnostic, Source};

use crate::{
    Io, VerbFailure,
    args::ImageArgs,
    finding,
    flags::CheckArgs,
    read::{self, Origin, Resource},
};

/// Everything that was read.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) resources: Vec<Resource>,
    /// The same objects with their positions.
    pub(crate) manifests: Vec<Manifest>,
    /// The texts that they are from.
    pub(crate) sources: Vec<Source>,
    /// The findings about files, then about policies.
    pub(crate) findings: Vec<Diagnostic>,
    files: BTreeSet<PathBuf>,
    /// Notes about files that are left out.
    notes: Vec<String>,
}

impl Input {
    /// Reads files, images and standard input, and checks the policies among the objects.
    ///
    /// # Errors
    ///
    /// When a pattern does not parse or matches nothing, an image cannot be pulled, or there is no
    /// input at all.
    pub(crate) fn read(
        filenames: &[String],
        patterns: &[String],
        images: &ImageArgs,
        config: &EngineConfig,
        io: &mut Io<'_>,
    ) -> Result<Self, VerbFailure> {
        let mut input = Self::default();
        let failed = |error: paths::PathError| VerbFailure::error(error.to_string());
        let exclude = Exclude::new(patterns).map_err(failed)?;
        let named: Vec<PathBuf> = filenames.iter().map(PathBuf::from).collect();
        let mut reads_stdin = false;
        for path in &named {
            if manifest::is_stdin(path) {
                reads_stdin = true;
                continue;
            }
            let shown = |file: &Path| {
                let below = file.strip_prefix(io.directory).unwrap_or(file);
                if path.is_absolute() { file.to_owned() } else { below.to_owned() }
            };
            let is_address = path.to_str().is_some_and(|text| text.contains("://"));
            let path = if is_address { path.clone() } else { io.directory.join(path) };
            let found = paths::expanded(std::slice::from_ref(&path), &exclude).map_err(failed)?;
            for file in found {
                let is_named = file == path;
                input.path(&file, is_named, &shown);
            }
        }
        for image in &images.images {
            if images.plain_http {
                let quoted = modgate_value::gofmt::quote(image);
                io.note(&format!("WARNING: pulling {quoted} over plain HTTP"));
            }
            let folder = read::pulled(image, images, io)
                .map_err(|error| VerbFailure::error(format!("pulling image: {error}")))?;
            let shown = |file: &Path| {
                let below = file.strip_prefix(folder.path()).unwrap_or(file);
                Path::new(image).join(below)
            };
            input.path(folder.path(), true, &shown);
        }
        input.findings.extend(paths::unmatched(patterns, named.iter()));
        match io.stdin.as_deref_mut() {
            Some(stdin) => match read::read_limited(stdin) {
                Ok(text) => input.text(Source::new("<stdin>", text), Origin::Stdin),
                Err(error) => input.findings.push(Diagnostic::error(format!("<stdin>: {error}"))),
            },
            None if reads_stdin => {
                input.findings.push(Diagnostic::error("there is nothing on standard input"));
            }
            None => {}
        }
        if input.resources.is_empty() && input.findings.is_empty() {
            return Err(VerbFailure::error(
                "no objects were read; give files or folders with `-f`, or pipe objects in",
            ));
        }
        input.findings.extend(check(&input.manifests, &input.sources, config));
        Ok(input)
    }

    /// The files left out, for people.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The document and the text of a resource, by its number.
    pub(crate) fn origin(&self, index: usize) -> Option<(&Manifest, &Source)> {
        let manifest = self.manifests.get(index)?;
        let source = self.sources.iter().find(|it| *it.name == *manifest.origin.as_str())?;
        Some((manifest, source))
    }

    fn path(&mut self, path: &Path, is_named: bool, shown: &dyn Fn(&Path) -> PathBuf) {
        let listing = match manifest::files(path) {
            Ok(listing) => listing,
            Err(error) => return self.fail(error, shown),
        };
        for problem in listing.problems {
            self.fail(problem, shown);
        }
        for file in listing.files {
            let name = shown(&file);
            let skipped = paths::is_of_a_tool(&file).filter(|_| !is_named || file != path);
            if let Some(what) = skipped {
                self.notes.push(format!("note: `{}` is {what}, skipped", name.display()));
                continue;
            }
            // A file that several paths reach is read once.
            if !self.files.insert(file.clone()) {
                continue;
            }
            match manifest::read_file(&file) {
                Ok(source) => {
                    let path = name.display().to_string();
                    let source = Source { name: path.as_str().into(), ..source };
                    self.text(source, Origin::File { path, image: None });
                }
                Err(error) => self.fail(error, shown),
            }
        }
    }

    /// A file or folder that cannot be read, named as the user knows it.
    fn fail(&mut self, error: FileError, shown: &dyn Fn(&Path) -> PathBuf) {
        self.findings.push(error.shown(shown).into());
    }

    fn text(&mut self, source: Source, origin: Origin) {
        let (manifests, findings) = manifest::parse(&source);
        let origin = Rc::new(origin);
        self.findings.extend(findings);
        for manifest in manifests {
            self.resources.push(Resource::new(manifest.object.clone(), &origin));
            self.manifests.push(manifest);
        }
        self.sources.push(source);
    }
}

/// The objects for a verb, if nothing is wrong with files and policies; `report` gets what is.
pub(crate) fn checked(
    filenames: &[String],
    images: &ImageArgs,
    args: &CheckArgs,
    report: &mut Report,
    io: &mut Io<'_>,
) -> Result<Vec<Resource>, VerbFailure> {
    let input = Input::read(filenames, &args.exclude, images, &EngineConfig::default(), io)?;
    let notes = input.notes().iter().filter(|_| !args.quiet);
    notes.for_each(|note| io.note(note));
    match finding::diagnostics(input.findings, args.strict, args.quiet, report, io) {
        true => Ok(input.resources),
        false => Err(VerbFailure::silent(2)),
    }
}
