//! Examples and exit codes of each verb, for `--help`. They name `modgate`; [`called`] puts the name
//! the program was called by in its place.

use clap::Command;

/// The commands of a program, with its name in their examples.
pub(crate) fn called(mut command: Command, program: &str) -> Command {
    if let Some(text) = command.get_after_help() {
        let text = text.to_string().replace("modgate ", &format!("{program} "));
        let text = text.replace("/_modgate", &format!("/_{program}"));
        command = command.after_help(text);
    }
    command.mut_subcommands(|verb| called(verb, program))
}

pub(crate) const TEST: &str = "\
Examples:
  # Evaluate manifests against constraints
  modgate test -f policies/ -f manifests/

  # Evaluate the output of a chart, with JSON for a script
  helm template shop | modgate test -f policies/ -o json

Exit codes:
  0  no object is denied; violations that warn or are a dry run are printed
  1  at least one object is denied
  2  the input is not valid (`gator`: 1)";

pub(crate) const VERIFY: &str = "\
Examples:
  # Run every suite in a folder and below it
  modgate verify policies/...

  # Print every case of one test
  modgate verify -v --run shop policies/suite.yaml

  # Run the suites again whenever a file changes
  modgate verify --watch policies/...

  # Write JUnit XML for a CI system, and text for the log
  modgate verify --require-tests -o junit=verify.xml -o text policies/...

  # Show the parts that no case reaches, and fail below 90 percent
  modgate verify --coverage-min 90 -o lcov=coverage.info -o text policies/...

  # List small changes of the policies that no case notices
  modgate verify --mutants policies/...

Exit codes:
  0  every case that ran passed
  1  a case failed, there is no test and --require-tests is on, or less is covered than
     --coverage-min or noticed than --mutants-min
  2  arguments or suites are not valid (`gator`: 1)";

pub(crate) const EXPAND: &str = "\
Examples:
  # Print the Pods of a Deployment after mutation
  modgate expand -n policies/ -n deployment.yaml

  # Write them to a file
  modgate expand -n policies/ -n manifests/ -f json -o expanded.json

Exit codes:
  0  everything is expanded
  1  never (`gator`: as 2)
  2  the input is not valid, or an object cannot be expanded";

pub(crate) const BENCH: &str = "\
Examples:
  # Measure all policies
  modgate bench -f policies/ -f manifests/ -e all

  # List the ten constraints with the highest cost
  modgate bench -f policies/ -f manifests/ -e rego --top 10

  # Write a page for a browser, and the table for the log
  modgate bench -f policies/ -f manifests/ -o html=bench.html -o table

  # Compare with an earlier run
  modgate bench -f policies/ -f manifests/ --save before.json
  modgate bench -f policies/ -f manifests/ --compare before.json --threshold 20

Exit codes:
  0  the measurement is complete, and not slower than --compare allows
  1  it is slower
  2  the input is not valid (`gator`: 1)";

pub(crate) const POLICY: &str = "\
Examples:
  # Search for policies about labels
  modgate policy update
  modgate policy search labels

  # Install a bundle that only warns
  modgate policy install --bundle pod-security-baseline --enforcement-action warn

Exit codes:
  0  success
  1  arguments or files are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  3  another program installed one of the objects
  4  only a part succeeded";

pub(crate) const POLICY_UPDATE: &str = "\
Examples:
  # Download the catalog of the public library
  modgate policy update

  # Download another catalog
  GATOR_CATALOG_URL=https://policies.example.com/catalog.yaml modgate policy update

Exit codes:
  0  success
  1  the catalog cannot be read";

pub(crate) const POLICY_SEARCH: &str = "\
Examples:
  # Search names and descriptions
  modgate policy search labels

  # List a category, with JSON for a script
  modgate policy search '' --category general -o json

Exit codes:
  0  success, also without a result
  1  arguments are not valid, or the catalog cannot be read";

pub(crate) const POLICY_LIST: &str = "\
Examples:
  # List the installed policies and their versions
  modgate policy list

Exit codes:
  0  success
  1  arguments are not valid, or the cluster refuses the request
  2  the cluster cannot be reached, or has no templates";

pub(crate) const POLICY_INSTALL: &str = "\
Examples:
  # Install one template
  modgate policy install k8srequiredlabels

  # Install a bundle with its constraints, first as a dry run
  modgate policy install --bundle pod-security-baseline --dry-run
  modgate policy install --bundle pod-security-baseline --enforcement-action warn

Exit codes:
  0  everything is installed
  1  arguments are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  3  another program installed one of the objects
  4  only a part is installed; run it again";

pub(crate) const POLICY_UNINSTALL: &str = "\
Examples:
  # Uninstall one template and its constraints
  modgate policy uninstall k8srequiredlabels

  # Print the objects that removing a bundle would delete
  modgate policy uninstall --bundle pod-security-baseline --dry-run

Exit codes:
  0  everything is removed
  1  arguments are not valid, or an object cannot be removed
  2  the cluster cannot be reached, or has no templates
  3  another program installed one of the objects, which is kept";

pub(crate) const POLICY_UPGRADE: &str = "\
Examples:
  # Upgrade everything that has a newer version, first as a dry run
  modgate policy upgrade --all --dry-run
  modgate policy upgrade --all

Exit codes:
  0  everything has the version of the catalog
  1  arguments are not valid, or the catalog cannot be read
  2  the cluster cannot be reached, or has no templates
  4  only a part was upgraded";

pub(crate) const POLICY_GENERATE: &str = "\
Examples:
  # Generate a catalog of a copy of the library
  modgate policy generate-catalog --library-path gatekeeper-library

  # Generate a catalog for another address
  modgate policy generate-catalog --name ours --version v2.0.0 \\
    --base-url https://policies.example.com/ -o catalog.yaml

Exit codes:
  0  the catalog is written
  1  arguments or policies are not valid";

pub(crate) const SYNC_TEST: &str = "\
Examples:
  # Check that everything these templates refer to is synced; kinds.yaml has the kinds of the cluster
  modgate sync test -n policies/ -n syncsets/ -n kinds.yaml

  # Check without the kinds of the cluster
  modgate sync test -f -n policies/ -n syncsets/

Exit codes:
  0  everything is synced
  1  a kind is not synced
  2  the input is not valid (`gator`: 1)";

pub(crate) const COMPLETION: &str = "\
Examples:
  # Load completions into the current shell
  source <(modgate completion bash)

  # Install completions for zsh
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
