//! Examples and exit codes of each verb, for `--help`. They name `modgate`; [`called`] puts the name
//! the program was called by in its place.

use clap::Command;

/// The commands of a program, with its name in their examples.
pub(super) fn called(mut command: Command, program: &str) -> Command {
    if let Some(text) = command.get_after_help() {
        let text = text.to_string().replace("modgate ", &format!("{program} "));
        let text = text.replace("/_modgate", &format!("/_{program}"));
        command = command.after_help(text);
    }
    command.mut_subcommands(|verb| called(verb, program))
}

pub(crate) const TEST: &str = "\
Examples:
  # What do the policies among these manifests say of the others?
  modgate test -f policies/ -f manifests/

  # Of what a chart renders, for a script
  helm template shop | modgate test -f policies/ -o json

Exit codes:
  0  nothing is denied; what only warns or is a dry run is printed
  1  something is denied, or the input cannot be read";

pub(crate) const VERIFY: &str = "\
Examples:
  # Every suite in a folder and below it
  modgate verify policies/...

  # Every case, of one test only
  modgate verify -v --run shop policies/suite.yaml

  # For a CI system
  modgate verify -o junit policies/... > verify.xml

Exit codes:
  0  every case that ran passed, or there was none
  1  a case failed, or a suite cannot be read";

pub(crate) const EXPAND: &str = "\
Examples:
  # Which Pods come of this Deployment, after mutation?
  modgate expand -n policies/ -n deployment.yaml

  # Into a file
  modgate expand -n policies/ -n manifests/ -f json -o expanded.json

Exit codes:
  0  everything is expanded
  1  the input cannot be read, or something cannot be expanded";

pub(crate) const BENCH: &str = "\
Examples:
  # How long do these policies take, whatever they are written in?
  modgate bench -f policies/ -f manifests/ -e all

  # The ten constraints that cost most
  modgate bench -f policies/ -f manifests/ -e rego --top 10

  # Has it become slower since?
  modgate bench -f policies/ -f manifests/ --save before.json
  modgate bench -f policies/ -f manifests/ --compare before.json --threshold 20

Exit codes:
  0  it was measured, and is not slower than --compare allows
  1  it is slower, or something cannot be read or measured";

pub(crate) const POLICY: &str = "\
Examples:
  # What is there about labels?
  modgate policy update
  modgate policy search labels

  # A bundle, to warn only
  modgate policy install --bundle pod-security-baseline --enforcement-action warn

Exit codes:
  0  success
  1  arguments or files are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  3  something is there that this program did not install
  4  some of it was done, some was not";

pub(crate) const POLICY_UPDATE: &str = "\
Examples:
  # The catalog of the public library
  modgate policy update

  # Another one
  GATOR_CATALOG_URL=https://policies.example.com/catalog.yaml modgate policy update

Exit codes:
  0  success
  1  the catalog cannot be read";

pub(crate) const POLICY_SEARCH: &str = "\
Examples:
  # By name or description
  modgate policy search labels

  # All of a category, for a script
  modgate policy search '' --category general -o json

Exit codes:
  0  success, whether or not something was found
  1  arguments are not valid, or the catalog cannot be read";

pub(crate) const POLICY_LIST: &str = "\
Examples:
  # What is installed, in which version?
  modgate policy list

Exit codes:
  0  success
  1  arguments are not valid, or the cluster cannot be asked
  2  the cluster cannot be reached, or has no templates";

pub(crate) const POLICY_INSTALL: &str = "\
Examples:
  # One template
  modgate policy install k8srequiredlabels

  # A bundle with its constraints: what would be done, then to warn only
  modgate policy install --bundle pod-security-baseline --dry-run
  modgate policy install --bundle pod-security-baseline --enforcement-action warn

Exit codes:
  0  all of it is installed
  1  arguments are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  3  something is there that this program did not install
  4  some of it is installed, some is not: run it again";

pub(crate) const POLICY_UNINSTALL: &str = "\
Examples:
  # One template, and with it its constraints
  modgate policy uninstall k8srequiredlabels

  # A bundle: what would be removed?
  modgate policy uninstall --bundle pod-security-baseline --dry-run

Exit codes:
  0  none of it is installed any more
  1  arguments are not valid, or something cannot be removed
  2  the cluster cannot be reached, or has no templates
  3  something there was not installed by this program, and was left";

pub(crate) const POLICY_UPGRADE: &str = "\
Examples:
  # Everything that has a newer version: what is it, then do it
  modgate policy upgrade --all --dry-run
  modgate policy upgrade --all

Exit codes:
  0  all of it has the version of the catalog
  1  arguments are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  4  some of it was upgraded, some was not";

pub(crate) const POLICY_GENERATE: &str = "\
Examples:
  # From a copy of the library
  modgate policy generate-catalog --library-path gatekeeper-library

  # To be served from elsewhere
  modgate policy generate-catalog --name ours --version v2.0.0 \\
    --base-url https://policies.example.com/ -o catalog.yaml

Exit codes:
  0  the catalog is written
  1  arguments or policies are not valid";

pub(crate) const SYNC_TEST: &str = "\
Examples:
  # Is everything synced that these templates look at? kinds.yaml has the kinds of the cluster
  modgate sync test -n policies/ -n syncsets/ -n kinds.yaml

  # Whatever kinds the cluster has
  modgate sync test -f -n policies/ -n syncsets/

Exit codes:
  0  everything is synced
  1  something is not, or the input cannot be read";

pub(crate) const COMPLETION: &str = "\
Examples:
  # For this shell
  source <(modgate completion bash)

  # For every one
  modgate completion zsh > \"${fpath[1]}/_modgate\"";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Root;

    /// The verbs that do something, and their help.
    fn verbs(command: &Command, path: &str, found: &mut Vec<(String, String)>) {
        for verb in command.get_subcommands() {
            let path = format!("{path} {}", verb.get_name());
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            verbs(verb, &path, found);
            if !verb.has_subcommands() || !help.is_empty() {
                found.push((path, help));
            }
        }
    }

    #[test]
    fn every_verb_has_examples_that_parse_and_exit_codes() {
        let command = called(Root::command(), "kubectl-gator");
        let mut found = Vec::new();
        verbs(&command, "kubectl-gator", &mut found);
        assert!(found.len() > 12, "{found:?}");
        for (path, help) in found {
            if path.ends_with(" version") {
                continue;
            }
            assert!(help.starts_with("Examples:\n"), "{path}");
            let has_codes = help.contains("\n\nExit codes:\n  0  ") && help.contains("\n  1  ");
            assert!(has_codes || path.ends_with(" completion"), "{path}");
            assert!(!help.contains("modgate"), "{path}: {help}");
            let text = help.replace("\\\n", " ");
            let mut examples = text.lines().filter(|line| !line.starts_with("  #"));
            let parsed = examples.by_ref().filter_map(|line| line.split_once("kubectl-gator "));
            let mut count = 0;
            for (_, line) in parsed {
                let line = line.split([')', '>', '|']).next().unwrap_or_default();
                let words = line.split_whitespace().map(|word| word.trim_matches('\''));
                let words = std::iter::once("kubectl-gator").chain(words);
                if let Err(error) = command.clone().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
                count += 1;
            }
            assert!(count > 0, "{path}");
        }
    }
}
