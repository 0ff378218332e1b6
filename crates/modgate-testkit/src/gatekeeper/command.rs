//! Runs `gator` command lines in this process, and compares texts in which parts may vary.

use std::{collections::BTreeMap, ffi::OsString, io::Read, path::Path};

use anyhow::{Context as _, Result};
use modgate_gator::Io;
use modgate_value::{
    Value,
    regex::{GoRegex, quote_meta},
};

/// The output of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `gator` with these arguments in a folder; without `stdin` it is a character device.
pub(crate) fn gator(
    args: &[&str],
    directory: &Path,
    stdin: Option<&[u8]>,
    env: &BTreeMap<String, String>,
) -> Ran {
    let args: Vec<OsString> =
        std::iter::once("gator").chain(args.iter().copied()).map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut stdin = stdin;
    let mut io = Io {
        stdin: stdin.as_mut().map(|stdin| stdin as &mut dyn Read),
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory,
        env: &|name| env.get(name).cloned(),
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code, stdout: text(stdout), stderr: text(stderr) }
}

/// The arguments of a case.
pub(crate) fn arguments(list: &[Value]) -> Result<Vec<&str>> {
    list.iter().map(|arg| arg.as_str().context("an argument is not a text")).collect()
}

/// Placeholders for text that varies, and patterns of that text.
const VARYING: [(&str, &str); 5] = [
    ("<duration>", r"[0-9.]+[a-zµ]+"),
    ("<timestamp>", r"[0-9][0-9/:T. Z-]*"),
    ("<uuid>", r"[0-9a-f-]{36}"),
    ("<n>", r"[0-9][0-9.,]*"),
    ("<library text>", r"(?s:.+?)"),
];

/// Whether a text is the recorded one, but for what varies.
pub(crate) fn is_like(recorded: &str, got: &str) -> Result<bool> {
    if recorded == got {
        return Ok(true);
    }
    let mut pattern = quote_meta(recorded);
    for (mark, text) in VARYING {
        pattern = pattern.replace(&quote_meta(mark), text);
    }
    let pattern = GoRegex::new(&format!(r"\A(?:{pattern})\z"))
        .with_context(|| format!("a recorded text makes no pattern: {recorded:?}"))?;
    Ok(pattern.is_match(got))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_texts() {
        for (recorded, got, expected) in [
            ("a.b <owner>", "a.b <owner>", true),
            ("a.b", "axb", false),
            ("ok\t<duration>\n", "ok\t0.012s\n", true),
            ("ok\t<duration>\n", "ok\t\n", false),
            ("e: <library text>\n", "e: x\ny\n", true),
            ("e: <library text>\n", "e: \n", false),
        ] {
            assert_eq!(
                is_like(recorded, got).expect("a pattern"),
                expected,
                "{recorded:?} {got:?}"
            );
        }
    }
}
