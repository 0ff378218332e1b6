//! Every flag of the originals, and its treatment.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path};

use clap::{CommandFactory as _, Parser as _};
use modgate_cluster::Operation;
use modgate_server::ServeConfig;

use super::{Args, Verb, go};
use crate::args::{Program, ServeArgs};

/// The treatment of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It means what it meant.
    Means,
    /// It is accepted, and asks for nothing here.
    Nothing,
    /// It is refused with a sentence that begins so, or contains that.
    Refused(&'static str),
}

use Fate::{Means, Nothing, Refused};

/// Gatekeeper's flags (spec `gatekeeper-validation`, 7.1 and 9.5; `gatekeeper-mutation…`, 4.4 and 6.1),
/// each with an example.
const GATEKEEPER: &[(&str, Fate)] = &[
    ("--operation=webhook", Means),
    ("--operation=audit,status", Means),
    ("--operation=x", Refused("operation x is not a valid operation: ")),
    ("--port=8443", Means),
    ("--host=127.0.0.1", Means),
    ("--cert-dir=/certs", Means),
    ("--cert-service-name=s", Means),
    ("--disable-cert-rotation", Means),
    ("--tls-min-version=1.3", Means),
    ("--tls-min-version=2", Refused("invalid TLS version. Must be one of: 1.0, 1.1, 1.2, or 1.3")),
    ("--client-ca-name=ca.crt", Means),
    ("--client-cn-name=kube-apiserver", Means),
    ("--validating-webhook-configuration-name=v", Means),
    ("--mutating-webhook-configuration-name=m", Means),
    ("--additional-validating-webhook-configs-to-rotate-certs=a,b", Means),
    ("--additional-mutating-webhook-configs-to-rotate-certs=a,b", Means),
    ("--health-addr=:9090", Means),
    ("--enable-tls-healthcheck", Means),
    ("--shutdown-delay=10", Means),
    ("--max-serving-threads=-1", Means),
    ("--log-denies", Means),
    ("--emit-admission-events", Means),
    ("--admission-events-involved-namespace", Means),
    ("--log-stats-admission", Means),
    ("--enable-admission-violation-export", Means),
    ("--disable-enforcementaction-validation", Means),
    ("--exempt-namespace=gatekeeper-system", Means),
    ("--exempt-namespace-prefix=kube-", Means),
    ("--exempt-namespace-suffix=-system", Means),
    ("--disable-opa-builtin={http.send}", Means),
    ("--enable-referential-rules=false", Means),
    ("--enable-k8s-native-validation", Means),
    ("--default-k8s-native-validation-failure-policy=Ignore", Means),
    ("--default-k8s-native-validation-failure-policy=x", Refused("possible values: Fail, Ignore")),
    ("--default-create-vap-for-templates=false", Means),
    ("--default-create-vap-binding-for-constraints=false", Means),
    ("--default-wait-for-vapb-generation=30", Means),
    ("--sync-vap-enforcement-scope", Means),
    ("--audit-interval=60", Means),
    ("--constraint-violations-limit=20", Means),
    ("--audit-chunk-size=500", Means),
    ("--audit-from-cache", Means),
    ("--audit-match-kind-only", Means),
    ("--api-cache-dir=/tmp/audit", Nothing),
    ("--emit-audit-events", Means),
    ("--audit-events-involved-namespace", Means),
    ("--log-stats-audit", Means),
    ("--enable-violation-export", Means),
    ("--audit-connection=audit-connection", Means),
    ("--audit-channel=audit-channel", Means),
    ("--readiness-retries=0", Means),
    ("--readiness-retries=-1", Means),
    ("--metrics-backend=prometheus", Means),
    ("--metrics-backend=stackdriver", Refused("nothing is sent to Stackdriver")),
    ("--prometheus-port=8888", Means),
    ("--otlp-endpoint=http://collector:4318", Means),
    ("--otlp-metric-interval=10s", Means),
    ("--stackdriver-metric-interval=10s", Nothing),
    ("--stackdriver-only-when-available", Nothing),
    ("--metrics-addr=0", Means),
    ("--log-level=DEBUG", Means),
    ("--log-level-key=severity", Means),
    ("--log-level-encoder=capital", Means),
    ("--log-file=/tmp/log", Means),
    ("--enable-pprof", Nothing),
    ("--pprof-port=6060", Nothing),
    ("--debug-use-fake-pod", Nothing),
    ("--enable-remote-cluster", Refused("statuses are written to the cluster that is governed")),
    ("--enable-remote-cluster=false", Means),
    ("--kubeconfig=/tmp/config", Means),
    ("--enable-external-data=false", Means),
    ("--external-data-provider-response-cache-ttl=3m", Means),
    (
        "--external-data-provider-response-cache-ttl=-1s",
        Refused("invalid value for external-data-provider-response-cache-ttl: -1s"),
    ),
    ("--enable-generator-resource-expansion", Means),
    ("--log-mutations", Means),
    ("--mutation-annotations", Means),
    ("--enable-mutation", Nothing),
    ("--logtostderr", Nothing),
    ("--v=4", Nothing),
    ("--vmodule=a=1", Nothing),
    ("--alsologtostderr", Nothing),
    ("--stderrthreshold=2", Nothing),
    ("--log_dir=/tmp", Nothing),
    ("--log_backtrace_at=a:1", Nothing),
];

/// KubeMod's flags (spec `kubemod`, 7.6).
const KUBEMOD: &[(&str, Fate)] = &[
    ("-operator", Means),
    ("-webapp", Means),
    ("-webapp-addr=:8081", Means),
    ("-operator-metrics-addr=:8082", Means),
    ("-operator-health-probe-addr=:8083", Means),
    ("-cluster-modrules-namespace=kubemod-system", Means),
    ("-enable-leader-election", Nothing),
    ("-enable-dev-mode-log", Means),
    ("-kubeconfig=/tmp/config", Means),
    ("-master=http://x", Refused("give `--kubeconfig` a file that names the server")),
];

fn parse(line: &[&str]) -> Result<ServeArgs, String> {
    let args = line.iter().map(OsString::from).collect();
    match Args::try_parse_from(go::rewritten(args)).map_err(|error| error.to_string())?.verb {
        Verb::Serve(args) => Ok(*args),
        other => Err(format!("not `serve`: {other:?}")),
    }
}

/// The refusals, or the notes about flags without effect.
fn tried(line: &[&str]) -> Result<usize, String> {
    let args = parse(line)?;
    args.compat.check().map_err(|error| error.to_string())?;
    Ok(args.compat.notes().len())
}

fn name(flag: &str) -> &str {
    flag.trim_start_matches('-').split('=').next().unwrap_or_default()
}

#[test]
fn every_flag_of_the_originals() {
    let mut wrong = Vec::new();
    for (flag, fate) in GATEKEEPER.iter().chain(KUBEMOD) {
        // Two dashes or one, all the same.
        for flag in [format!("--{}", flag.trim_start_matches('-')), flag.replacen("--", "-", 1)] {
            let line = ["modgate", "serve", &flag];
            let is_so = match (tried(&line), fate) {
                (Ok(notes), Means) => notes == 0,
                (Ok(_), Nothing) => true,
                (Err(error), Refused(text)) => error.contains(text),
                _ => false,
            };
            if !is_so {
                wrong.push(format!("{flag}: {fate:?}, but {:?}", tried(&line)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_flag_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    let text = fs::read_to_string(path).expect("docs/flags.md");
    let documented: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `--")?.split(['`', '=']).next())
        .collect();
    let known: BTreeSet<&str> =
        GATEKEEPER.iter().chain(KUBEMOD).map(|(flag, _)| name(flag)).collect();
    assert_eq!(documented, known);
    let fate = |flag: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| `--{flag}`")));
        line.and_then(|line| line.split('|').nth(3)).unwrap_or_default().trim().to_owned()
    };
    for (flag, expected) in GATEKEEPER.iter().chain(KUBEMOD) {
        let fate = fate(name(flag));
        match expected {
            Nothing => assert!(fate.starts_with("nothing"), "{flag}: {fate}"),
            Means => assert!(!fate.is_empty() && !fate.starts_with("nothing"), "{flag}: {fate}"),
            Refused(_) => {}
        }
    }
}

/// As Gatekeeper's own manifests have them, and KubeMod's.
#[test]
fn command_lines_of_manifests() {
    for line in [
        "/manager --port=8443 --logtostderr --exempt-namespace=gatekeeper-system \
         --operation=webhook --operation=mutation-webhook --disable-opa-builtin={http.send}",
        "/manager --operation=audit --operation=status --operation=mutation-status \
         --operation=generate --logtostderr --disable-opa-builtin={http.send} \
         --disable-cert-rotation",
        "/kubemod -operator -webapp",
        "modgate serve --port 8443 -v=4 --logtostderr --operation=audit --operation=status",
        "modgate serve -operator -webapp -enable-dev-mode-log",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(tried(&words).is_ok(), "{line}: {:?}", tried(&words));
    }
}

#[test]
fn the_last_one_counts_and_lists_grow() {
    let args = parse(&[
        "/manager",
        "--port=1",
        "--port=2",
        "--log-denies=false",
        "--log-denies",
        "--operation=audit",
        "--operation",
        "status,webhook",
    ]);
    let args = args.expect("parses");
    let mut config = ServeConfig::new(
        modgate_policies::PolicyFiles { policies: Vec::new(), objects: Vec::new() },
        modgate_server::CertificateSource::SelfSigned { names: Vec::new() },
    );
    args.operations.apply(&mut config);
    let expected = [Operation::Audit, Operation::Status, Operation::Webhook].into_iter().collect();
    assert_eq!(config.operations, expected);
    let addresses = args.listen.addresses(&args.compat, Program::Manager);
    assert_eq!(addresses.webhooks, ":2");
}

#[test]
fn where_it_listens() {
    for (line, expected) in [
        ("modgate serve", [":9443", "", "", ""]),
        ("modgate serve --address 1.2.3.4:5", ["1.2.3.4:5", "", "", ""]),
        ("modgate serve --port 8443 --prometheus-port 8888", [":8443", "", ":8888", ""]),
        ("modgate serve --host ::1 --health-addr :1", ["[::1]:9443", ":1", "", ""]),
        ("modgate serve -operator -webapp", [":9443", ":8083", ":8082", ":8081"]),
        ("modgate serve --metrics-addr :1", [":9443", "", ":1", ""]),
        ("/manager", [":443", ":9090", ":8888", ""]),
        ("/manager --port 8443 --metrics-addr 0", [":8443", ":9090", ":8888", ""]),
        ("/manager --health-addr 0", [":443", "", ":8888", ""]),
        ("/kubemod -operator -webapp", [":9443", ":8083", ":8082", ":8081"]),
        ("/kubemod -operator -operator-metrics-addr :1", [":9443", ":8083", ":1", ""]),
        ("/kubemod -webapp", ["", "", "", ":8081"]),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let args = parse(&words).expect(line);
        let program = Program::of(Path::new(words[0]));
        let addresses = args.listen.addresses(&args.compat, program);
        let shown = [
            addresses.webhooks,
            addresses.health.unwrap_or_default(),
            addresses.metrics.unwrap_or_default(),
            addresses.dry_run.unwrap_or_default(),
        ];
        assert_eq!(shown, expected, "{line}");
    }
}

#[test]
fn kubemod_without_a_mode_does_nothing() {
    let idle = |line: &[&str]| {
        let program = Program::of(Path::new(line[0]));
        parse(line).expect("parses").compat.idle(program).is_some()
    };
    assert!(idle(&["/kubemod"]));
    assert!(!idle(&["/kubemod", "-webapp"]));
    assert!(!idle(&["modgate", "serve"]));
}

#[test]
fn arguments_are_consistent() {
    Args::command().debug_assert();
}
