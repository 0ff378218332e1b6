//! The programs of a release: built here or given, and what each has to be.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_corpus::corpus;

/// A processor that a release has a program for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub(super) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// As images and archives name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust names it, with a libc that can be linked statically.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The number of the processor in an ELF header.
    fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }

    pub(super) fn of_target(target: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.target() == target)
    }

    /// The processor and the file of `ARCH=FILE`.
    pub(super) fn of_pair(text: &str) -> Option<(Self, &Path)> {
        let (arch, file) = text.split_once('=')?;
        Some((Self::of_name(arch)?, Path::new(file)))
    }

    /// That of this machine.
    fn here() -> Option<Self> {
        match env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

/// A program of the release.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) arch: Arch,
    pub(super) bytes: Vec<u8>,
    /// Whether it was built elsewhere.
    pub(super) is_given: bool,
    /// How often each piece ran, by which the compiler has optimised it.
    pub(super) counts: Option<Vec<u8>>,
}

impl Program {
    /// Builds it by `deploy/build`, optimised by a file of counts where there is one; `None` if that failed, and has said
    /// why.
    pub(super) fn build(arch: Arch, counts: Option<PathBuf>) -> Result<Option<Self>> {
        let mut build = Command::new(corpus::repository().join("deploy/build"));
        build.args(["--target", arch.target()]).env_remove("COUNT").env_remove("COUNTS");
        build.envs(counts.iter().map(|file| ("COUNTS", file)));
        if !build.status().context("cannot run deploy/build")?.success() {
            return Ok(None);
        }
        let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| corpus::repository().join("target"));
        let path = target.join(arch.target()).join("dist/modgate");
        let counts = counts.as_deref().map(read).transpose()?;
        let program = Self { arch, bytes: read(&path)?, is_given: false, counts };
        let found = folders_in(&program.bytes, &folders_of_this_machine());
        ensure!(
            found.is_empty(),
            "`{}` names folders of this machine ({}), so another machine builds other bytes",
            path.display(),
            found.join(", ")
        );
        let dates = dates_in(&program.bytes);
        ensure!(
            dates.is_empty(),
            "`{}` names when its C was compiled ({}), so each build has other bytes; delete `{}`, which was built \
             without SOURCE_DATE_EPOCH, and build again",
            path.display(),
            dates.join(", "),
            target.join(arch.target()).join("dist/build").display()
        );
        program.check(&path)?;
        Ok(Some(program))
    }

    /// Reads one that was built elsewhere, as `ARCH=FILE` says.
    pub(super) fn given(text: &str) -> Result<Self> {
        let (arch, path) = Arch::of_pair(text).with_context(|| {
            format!("`--binary {text}`: write amd64=FILE or arm64=FILE, the file a static program")
        })?;
        let program = Self { arch, bytes: read(path)?, is_given: true, counts: None };
        program.check(path)?;
        Ok(program)
    }

    /// An image has nothing but this file, so it must need nothing else, and be for its processor.
    fn check(&self, path: &Path) -> Result<()> {
        let elf = Elf::read(&self.bytes)
            .with_context(|| format!("`{}` is not a 64-bit ELF program", path.display()))?;
        ensure!(
            elf.machine == self.arch.machine(),
            "`{}` is not for {}: its ELF header has machine {}, and {} is {}",
            path.display(),
            self.arch.name(),
            elf.machine,
            self.arch.name(),
            self.arch.machine()
        );
        ensure!(
            !elf.is_dynamic,
            "`{}` needs a dynamic linker, which the image does not have; build it for {}",
            path.display(),
            self.arch.target()
        );
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// The parts of an ELF file that are needed.
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    machine: u16,
    /// Whether it names a dynamic linker.
    is_dynamic: bool,
}

impl Elf {
    fn read(bytes: &[u8]) -> Option<Self> {
        // Class 64 bits, little-endian.
        if bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let short = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (start, size, count) =
            (usize::try_from(long(32)?).ok()?, usize::from(short(54)?), usize::from(short(56)?));
        let mut is_dynamic = false;
        for number in 0..count {
            let at = start.checked_add(number * size)?;
            let kind = bytes.get(at..at.checked_add(4)?)?;
            // PT_INTERP
            is_dynamic |= u32::from_le_bytes(kind.try_into().ok()?) == 3;
        }
        Some(Self { machine: short(18)?, is_dynamic })
    }
}

/// The documents that programs print about themselves.
#[derive(Debug)]
pub(super) struct Papers {
    /// File names and texts of completion scripts.
    pub(super) completions: Vec<(&'static str, Vec<u8>)>,
    /// File names and texts of manual pages, in order.
    pub(super) pages: Vec<(String, Vec<u8>)>,
}

impl Papers {
    /// Asks a program that runs here: the one that is named, or the one for this machine.
    pub(super) fn of(named: Option<&Path>, programs: &[Program]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // By its own name, as modgate answers to those of the originals' programs, too.
        let program = folder.path().join("modgate");
        if let Some(named) = named {
            fs::copy(named, &program).with_context(|| named.display().to_string())?;
        } else {
            let here = programs.iter().find(|it| Some(it.arch) == Arch::here());
            let here = here.context(
                "no program of this release runs on this machine, so nothing prints the completions and \
                 manual pages; name one that does with `--documented-by FILE`",
            )?;
            fs::write(&program, &here.bytes)?;
        }
        executable(&program)?;
        let pages = folder.path().join("man");
        fs::create_dir(&pages)?;
        let run = |arguments: &[&str]| -> Result<Vec<u8>> {
            let shown = arguments.join(" ");
            let output = Command::new(&program)
                .args(arguments)
                .current_dir(&pages)
                // Neither its width nor its language is that of this terminal.
                .env_clear()
                .output()
                .with_context(|| format!("cannot run `modgate {shown}`"))?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr);
                bail!("`modgate {shown}` failed: {}", stderr.trim());
            }
            Ok(output.stdout)
        };
        let mut completions = Vec::new();
        for (shell, file) in [
            ("bash", "modgate.bash"),
            ("elvish", "modgate.elv"),
            ("fish", "modgate.fish"),
            ("powershell", "_modgate.ps1"),
            ("zsh", "_modgate"),
        ] {
            let text = run(&["completion", shell])?;
            ensure!(!text.is_empty(), "`modgate completion {shell}` printed nothing");
            completions.push((file, text));
        }
        run(&["completion", "man", "."])?;
        let mut all = Vec::new();
        for entry in fs::read_dir(&pages)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            all.push((name, fs::read(entry.path())?));
        }
        ensure!(!all.is_empty(), "`modgate completion man .` wrote no manual page");
        all.sort();
        Ok(Self { completions, pages: all })
    }
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<()> {
    bail!("a release is made on Linux")
}

/// Folders that differ between machines, and that no program may name: the repository, the home of the user,
/// and those of Cargo and rustup.
fn folders_of_this_machine() -> Vec<String> {
    let variables = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR"];
    let mut folders: Vec<String> =
        variables.into_iter().filter_map(|name| env::var(name).ok()).collect();
    folders.extend(corpus::repository().to_str().map(str::to_owned));
    // Shorter ones, such as `/`, say nothing about a machine.
    folders.retain(|folder| folder.len() > 3);
    folders
}

/// Those of the folders that occur in a program as the beginning of a path.
fn folders_in(program: &[u8], folders: &[String]) -> Vec<String> {
    let occurs = |folder: &&String| {
        let start = format!("{}/", folder.trim_end_matches('/'));
        program.windows(start.len()).any(|window| window == start.as_bytes())
    };
    folders.iter().filter(occurs).cloned().collect()
}

/// The dates of compiling in a program, as `__DATE__` of C writes them, each a string of its own. Those of 1970 come from
/// `SOURCE_DATE_EPOCH` of deploy/build.
fn dates_in(program: &[u8]) -> Vec<String> {
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let date = |text: &[u8]| -> Option<String> {
        let text = str::from_utf8(text.strip_prefix(b"\0")?.strip_suffix(b"\0")?).ok()?;
        let month = text.get(..3)?;
        let day: u8 = text.get(3..6)?.strip_prefix(' ')?.trim_start().parse().ok()?;
        let year: u16 = text.get(6..)?.strip_prefix(' ')?.parse().ok()?;
        let is_date =
            MONTHS.split(' ').any(|it| it == month) && (1..=31).contains(&day) && year > 1970;
        is_date.then(|| text.to_owned())
    };
    // `Nov 27 2026` between two zeros.
    let mut found: Vec<String> = program.windows(13).filter_map(date).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_compiling_are_found() {
        let program =
            b"\0v%i (built on %s, %s)\0Nov 27 2026\x0018:41:49\0Jan  2 2027\0Jan  1 1970\0";
        assert_eq!(dates_in(program), ["Nov 27 2026", "Jan  2 2027"]);
        assert!(dates_in(b"\0Nov 27 2026 was\0Now 27 2026\0Nov 99 2026\0").is_empty());
    }

    #[test]
    fn folders_are_found_in_a_program() {
        let folders =
            ["/home/ann/src".to_owned(), "/home/ann/.cargo/".to_owned(), "/opt/x".to_owned()];
        let program = b"\0panicked at /home/ann/src/crates/a.rs\0/cargo/registry\0/opt/xy\0";
        assert_eq!(folders_in(program, &folders), ["/home/ann/src"]);
        assert!(folders_in(b"/src/crates/a.rs", &folders).is_empty());
    }

    /// An ELF header with program headers of these kinds.
    fn elf(machine: u16, kinds: &[u32]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).expect("few");
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn programs_are_static_and_for_their_processor() {
        let check = |arch, bytes| {
            let program = Program { arch, bytes, is_given: true, counts: None };
            program.check(Path::new("p")).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(check(Arch::Amd64, elf(62, &[1, 2])), Ok(()));
        assert_eq!(check(Arch::Arm64, elf(183, &[1])), Ok(()));
        for (arch, bytes, expected) in [
            (Arch::Amd64, elf(62, &[1, 3]), "needs a dynamic linker"),
            (Arch::Arm64, elf(62, &[1]), "has machine 62, and arm64 is 183"),
            (Arch::Amd64, b"#!/bin/sh\n".to_vec(), "is not a 64-bit ELF program"),
            (Arch::Amd64, elf(62, &[1])[..100].to_vec(), ""),
            // Headers that the file does not have.
            (Arch::Amd64, elf(62, &[1; 200])[..400].to_vec(), "is not a 64-bit ELF program"),
        ] {
            match check(arch, bytes) {
                Ok(()) => assert_eq!(expected, ""),
                Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}"),
            }
        }
    }
}
