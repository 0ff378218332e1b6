//! The command line, with gator's flags and error messages (7.1).

mod refusal;

use std::{ffi::OsString, path::Path};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    Io, VerbFailure,
    args::{ExpandArgs, SyncTestArgs, TestArgs, VerifyArgs},
    bench, expand, help, policy, sync, test, verify,
};

/// Test Kubernetes policies without a cluster: the command line of Gatekeeper, run by modgate.
#[derive(Debug, Parser)]
#[command(
    name = "gator",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "`modgate --version` prints the version."
)]
pub(crate) struct Root {
    #[command(subcommand)]
    verb: RootVerb,
}

#[derive(Debug, Subcommand)]
enum RootVerb {
    #[command(flatten)]
    Verb(Verb),
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    #[command(after_help = help::COMPLETION)]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// The verbs of gator, for the binary to embed.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Evaluate manifests against the constraints given with them, as `gator test`.
    #[command(args_override_self = true, after_help = help::TEST)]
    Test(Box<TestArgs>),
    /// Run test suites of policies.
    #[command(args_override_self = true, after_help = help::VERIFY)]
    Verify(Box<VerifyArgs>),
    /// Expand workloads with ExpansionTemplates and mutators.
    #[command(args_override_self = true, after_help = help::EXPAND)]
    Expand(Box<ExpandArgs>),
    /// Measure the latency and throughput of templates and constraints.
    #[command(args_override_self = true, after_help = help::BENCH)]
    Bench(Box<bench::BenchArgs>),
    /// Search published policies and install them into a cluster.
    #[command(after_help = help::POLICY)]
    Policy {
        /// The command.
        #[command(subcommand)]
        command: policy::PolicyVerb,
    },
    /// Check that the objects that templates refer to are synced.
    Sync {
        /// The command.
        #[command(subcommand)]
        command: SyncVerb,
    },
}

/// The verbs of `gator sync`.
#[derive(Debug, Subcommand)]
pub enum SyncVerb {
    /// Check that SyncSets and the Config hold the kinds that templates require.
    #[command(args_override_self = true, after_help = help::SYNC_TEST)]
    Test(SyncTestArgs),
}

/// Whether an argument of the binary is one of our verbs.
pub fn is_verb(argument: &str) -> bool {
    let command = Verb::augment_subcommands(clap::Command::new("gator"));
    command.get_subcommands().any(|verb| verb.get_name() == argument)
}

/// The program's name under which its output is exactly gator's.
const GATOR: &str = "gator";

/// The version of OPA whose behaviour our Rego has. The constraint framework is our own.
pub const OPA: &str = "v1.17.1";
const FRAMEWORKS: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Whether a command line is one of the program `gator`.
pub(crate) fn is_gator(args: &[OsString]) -> bool {
    let program = args.first().map(Path::new);
    program.is_none_or(|program| program.file_stem().is_none_or(|name| name == GATOR))
}

/// Reads a command line and runs its verb.
pub(crate) fn dispatch(args: &[OsString], io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let (program, rest) = args.split_first().map_or(("gator", &[][..]), |(first, rest)| {
        let name = Path::new(first).file_stem().and_then(|name| name.to_str());
        (name.unwrap_or("gator"), rest)
    });
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let help = command(program).render_help().to_string();
            return io.print(&help).map(|()| 0);
        }
        ["--version", ..] => return io.line(&version_line(program)).map(|()| 0),
        // Without a verb, it lists its verbs.
        ["policy"] => {
            let mut all = command(program);
            // Only a built command knows its parent.
            all.build();
            let policy = all.find_subcommand_mut("policy").map(|it| it.render_help().to_string());
            return io.print(&policy.unwrap_or_default()).map(|()| 0);
        }
        ["help", topic @ ..] if !refusal::is_topic(&command(program), topic) => {
            io.note(&refusal::unknown_topic(&mut command(program), topic));
            return Ok(if program == GATOR { 0 } else { 2 });
        }
        // Any other word after `sync` prints help, and is no error in gator.
        ["sync", next, ..]
            if matches!(*next, "test" | "-h" | "--help" | "help") || program != GATOR => {}
        ["sync", ..] => return io.line(&format!("Usage: {program} sync test")).map(|()| 0),
        _ => {}
    }
    let mut command = command(program);
    let parsed = command
        .try_get_matches_from_mut(std::iter::once(program).chain(words.iter().copied()))
        .and_then(|matches| Root::from_arg_matches(&matches));
    let root = match parsed {
        Ok(root) => root,
        Err(error) => return refusal::of_clap(&error, &command, program, &words, io),
    };
    let refuse = |path: &str, text: String| refusal::usage(&command, program, path, &text);
    let none = |path: &str, rest: &[String]| match rest.first() {
        Some(word) => {
            Err(refuse(path, format!("unknown command {word:?} for \"{program} {path}\"")))
        }
        None => Ok(()),
    };
    match root.verb {
        RootVerb::Version => version(program, io),
        RootVerb::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(program), program, &mut script);
            io.print(&String::from_utf8_lossy(&script)).map(|()| 0)
        }
        RootVerb::Verb(Verb::Test(mut args)) => {
            if program == GATOR {
                none("test", &args.rest)?;
            }
            args.filenames.append(&mut args.rest);
            test::run(&args, program == GATOR, io)
        }
        RootVerb::Verb(Verb::Verify(args)) => match args.paths.as_slice() {
            [_] => verify::run(&args, program == GATOR, io),
            [_, _, ..] if program != GATOR => verify::run(&args, false, io),
            [] if program != GATOR => Err(VerbFailure::error(
                "`verify` needs the path of a suite or folder, such as `tests/...`",
            )),
            paths => Err(refuse("verify", format!("accepts 1 arg(s), received {}", paths.len()))),
        },
        RootVerb::Verb(Verb::Expand(args)) => {
            none("expand", &args.rest)?;
            expand::run(&args, program == GATOR, io)
        }
        RootVerb::Verb(Verb::Bench(args)) => {
            none("bench", &args.rest)?;
            bench::run(&args, program == GATOR, io)
        }
        RootVerb::Verb(Verb::Policy { command }) => match command.misused(program) {
            Some(policy::Misuse { verb, text }) => Err(refuse(&format!("policy {verb}"), text)),
            None => policy::run(&command, io),
        },
        RootVerb::Verb(Verb::Sync { command: SyncVerb::Test(args) }) => {
            if program != GATOR
                && args.force_omit_gvk_manifest
                && let Some(file) = args.rest.first()
            {
                return Err(VerbFailure::plain(format!(
                    "`-f` is `--force-omit-gvk-manifest` of `sync test`; read files with `-n {file}`"
                )));
            }
            none("sync test", &args.rest)?;
            sync::run(&args, program == GATOR, io)
        }
    }
}

fn command(program: &str) -> clap::Command {
    let command = Root::command().bin_name(program.to_owned()).display_name(program.to_owned());
    help::called(command, program)
}

fn version_line(program: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{program} version {version} (Feature State: beta), opa/{OPA}, frameworks/{FRAMEWORKS}")
}

fn version(program: &str, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let version = env!("CARGO_PKG_VERSION");
    let built_for = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    io.line(&format!(
        "{program}: Gatekeeper's command line, on modgate\n\nVersion:      {version}\nFeature \
         State: beta\nOPA:          {OPA}\nFrameworks:   {FRAMEWORKS}\nPlatform:     {built_for}"
    ))
    .map(|()| 0)
}
