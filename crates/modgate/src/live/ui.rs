//! `modgate ui`: forwards the live page to this machine and opens it.

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

use anyhow::Result;

use super::{ConnectionArgs, Wanted, api::Page, forward::Forwarded, installation::Installation};
use crate::{exit::Exit, terminal::Terminal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Forward the live page of the cluster to this machine, and open it
  kubectl modgate ui

  # Print the address only, on a port that stays the same
  kubectl modgate ui --no-open --port 8088

Exit codes:
  0  the forwarding ended
  2  there is no modgate, no token, or no port; or kubectl failed, as when the Pod is gone";

/// Arguments of `modgate ui`.
#[derive(Debug, clap::Args)]
pub(crate) struct UiArgs {
    /// Port on this machine [default: any that is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only print the address.
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the verb until kubectl ends.
pub(crate) fn run(args: &UiArgs, terminal: &Terminal) -> Result<Exit> {
    let connection = &args.connection;
    if let Some(address) = &connection.address {
        // One that is not an address is refused, as `why` and `status` refuse it.
        Page::new(address, String::new(), connection.token.clone())?;
        show(args, &with_token(address, connection.token.as_deref()), terminal)?;
        return Ok(Exit::Success);
    }
    let installation = Installation::find(connection)?;
    let token = installation.token(connection)?;
    let Some(pod) = installation.pods(Wanted::Leader).into_iter().next() else {
        anyhow::bail!("there is no Pod of modgate");
    };
    let mut forwarded = Forwarded::start(connection, &pod.name, args.port)?;
    let address = forwarded.address()?;
    show(args, &with_token(&address, Some(&token)), terminal)?;
    terminal.note(format!("note: this is Pod {}; Ctrl-C ends the forwarding", pod.name));
    forwarded.wait()?;
    Ok(Exit::Success)
}

/// The text in front of the token.
const TOKEN: &str = "#token=";

/// The address with the token in its fragment, which browsers send to no server.
fn with_token(address: &str, token: Option<&str>) -> String {
    let address = address.trim_end_matches('/');
    match token {
        Some(token) => format!("{address}/{TOKEN}{token}"),
        None => format!("{address}/"),
    }
}

fn show(args: &UiArgs, address: &str, terminal: &Terminal) -> Result<()> {
    if args.no_open || !opened(address) {
        let mut out = io::stdout().lock();
        writeln!(out, "{address}")?;
        out.flush()?;
        if address.contains(TOKEN) {
            terminal.note("note: the address contains a token: do not share it");
        }
    }
    Ok(())
}

/// Has the system's browser open an address; returns whether there is one.
fn opened(address: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_in_the_fragment() {
        assert_eq!(with_token("http://127.0.0.1:1/", Some("t")), "http://127.0.0.1:1/#token=t");
        assert_eq!(with_token("http://127.0.0.1:1", None), "http://127.0.0.1:1/");
    }
}
