//! `modgate explain CODE`: what the code of a warning means.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use modgate_engine::Code;
use modgate_value::near;

use crate::exit::Exit;

/// The answer to `modgate explain CODE`; `None` for every other command line.
pub(crate) fn answer() -> Option<ExitCode> {
    let line: Vec<String> =
        env::args_os().map(|arg| arg.into_string().unwrap_or_default()).collect();
    let [_, verb, name] = line.as_slice() else { return None };
    if verb != "explain" || Path::new(name).exists() {
        return None;
    }
    let code = Code::ALL.iter().find(|code| code.as_str() == name);
    let done = match code {
        Some(code) => writeln!(io::stdout(), "{}", page(*code)).map(|()| Exit::Success),
        None => {
            let help = near::did_you_mean(name, Code::ALL.iter().map(|code| code.as_str()))?;
            let text = format!("error: no warning has the code `{name}`\n  = help: {help}");
            writeln!(io::stderr(), "{text}").map(|()| Exit::BadInput)
        }
    };
    // A closed pipe is no error.
    Some(done.unwrap_or(Exit::Success).into())
}

fn page(code: Code) -> String {
    let words: Vec<&str> = code.explanation().split_whitespace().collect();
    let mut page = format!("{code}\n\n");
    let mut width = 0;
    for word in words {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            page.push('\n');
            width = 0;
        }
        if width > 0 {
            page.push(' ');
            width += 1;
        }
        page.push_str(word);
        width += length;
    }
    page + &format!(
        "\n\nAn annotation of the policy allows it: `modgate.sh/allow: {code} REASON`.\nSo does a comment in \
         the line: `# modgate: allow {code} REASON`."
    )
}

/// The longest line.
const WIDTH: usize = 80;
