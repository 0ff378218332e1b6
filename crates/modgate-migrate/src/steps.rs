//! How to switch, command by command.
//!
//! The order is what keeps objects guarded all the time and patched once. modgate stands in
//! Gatekeeper's place behind Gatekeeper's Service, where each request reaches one of the two; and
//! ModRules' webhook configurations have the names of KubeMod's, so that each moves in one write.
//! `docs/migration.md` describes the same at length, and a test carries it out under load
//! (`tests/e2e/tests/switch.rs`).

use std::collections::BTreeSet;

use modgate_api::meta::split_api_version;
use modgate_value::Value;
use serde::Serialize;

use crate::{
    installation::{GATEKEEPER, Installation, Original, PARTS, Workload, is_kept, is_of, release},
    object::{InstalledObject, is_policy, text},
    values::Values,
};

/// One step of the switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The action.
    pub title: String,
    /// Why, and what to mind.
    pub why: String,
    /// Shell commands, one after the other; none where it depends on how modgate is installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Where the webhook configurations are kept for the way back.
const BACKUP: &str = "webhooks-before.yaml";

/// Where those are kept that are left when some are switched already: the first file stays as it is.
const BACKUP_OF_REST: &str = "webhooks-left.yaml";

/// The chart, from the root of the repository.
const CHART: &str = "deploy/chart";

/// All steps; none if nothing of the originals is there.
///
/// `file` holds the values, if they are not given one by one.
pub(crate) fn steps(
    installation: &Installation<'_>,
    values: &Values,
    file: Option<&str>,
) -> Vec<Step> {
    if installation.originals().is_empty() {
        return Vec::new();
    }
    let all = [
        keep(installation),
        hands_off(installation),
        beside(installation, values, file),
        stop(installation, Original::Gatekeeper),
        switch(installation),
        verify(installation),
        stop(installation, Original::KubeMod),
        rest(installation, values),
        remove(installation),
        forget(installation),
        stays(installation),
        back(installation),
    ];
    all.into_iter().flatten().collect()
}

/// Where modgate goes: into Gatekeeper's place, wherever that is.
pub(crate) fn home<'f>(installation: &Installation<'f>) -> &'f str {
    let namespaces = installation.namespaces(Original::Gatekeeper);
    namespaces.into_iter().next().unwrap_or("gatekeeper-system")
}

fn step(title: &str, why: impl Into<String>, commands: Vec<String>) -> Option<Step> {
    Some(Step { title: title.to_owned(), why: why.into(), commands })
}

/// A word that a shell takes as it is, whatever an object is called.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// `kind/name`, as kubectl takes it.
fn reference(found: &InstalledObject) -> String {
    word(&format!("{}/{}", found.kind().to_lowercase(), found.name()))
}

/// The configurations that move, and those that have.
fn taken_over(installation: &Installation<'_>) -> Vec<String> {
    let all = installation.configurations().chain(installation.switched()).map(|(found, _)| found);
    all.filter(|found| Installation::is_taken_over(found)).map(reference).collect()
}

/// Whether some configurations are switched of an original that could still have them back.
fn is_begun(installation: &Installation<'_>) -> bool {
    installation
        .switched()
        .any(|(_, original)| installation.workloads.iter().any(|it| it.original == original))
}

fn keep(installation: &Installation<'_>) -> Option<Step> {
    let mut commands = Vec::new();
    let configurations: Vec<String> =
        installation.configurations().map(|(found, _)| reference(found)).collect();
    let is_begun = is_begun(installation);
    if !configurations.is_empty() {
        let file = if is_begun { BACKUP_OF_REST } else { BACKUP };
        commands.push(format!(
            "kubectl get {} -o yaml | sed -E '/^ +(resourceVersion|uid|generation|\
             creationTimestamp): /d' > {file}",
            configurations.join(" ")
        ));
    }
    if is_begun {
        let why = format!(
            "they are the way back. {BACKUP} of the first time has those that are switched already"
        );
        let title = "Back up the webhook configurations that are left";
        return (!commands.is_empty()).then(|| step(title, why, commands)).flatten();
    }
    let kinds: BTreeSet<String> =
        installation.objects.iter().filter(|found| is_policy(found)).map(resource).collect();
    if !kinds.is_empty() {
        let kinds: Vec<String> = kinds.into_iter().collect();
        commands.push(format!("kubectl get {} -A -o yaml > policies-before.yaml", kinds.join(",")));
    }
    step(
        "Back up",
        "the webhook configurations are the way back, the policies are your own",
        commands,
    )
}

/// `Kind.version.group`, as kubectl takes it.
fn resource(found: &InstalledObject) -> String {
    let (group, version) = split_api_version(found.text(&["apiVersion"]));
    word(&format!("{}.{version}.{group}", found.kind()))
}

fn hands_off(installation: &Installation<'_>) -> Option<Step> {
    let mut commands = Vec::new();
    for found in installation.objects {
        let is_renewal = found.kind() == "CronJob"
            && found.name() == "kubemod-crt-cron-job"
            && found.object.path(&["spec", "suspend"]).and_then(Value::as_bool) != Some(true);
        if is_renewal {
            commands.push(format!(
                "kubectl -n {} patch cronjob {} --type merge -p '{{\"spec\":{{\"suspend\":true}}}}'",
                word(found.namespace()),
                word(found.name())
            ));
        }
    }
    for workload in &installation.workloads {
        if workload.original != Original::Gatekeeper
            || workload.is_stopped()
            || workload.has_flag("disable-cert-rotation")
        {
            continue;
        }
        let (namespace, name) = (word(workload.found.namespace()), word(workload.found.name()));
        commands.push(format!(
            "kubectl -n {namespace} patch deployment {name} --type json -p '{}'",
            without_rotation(workload)
        ));
        commands.push(format!("kubectl -n {namespace} rollout status deployment {name}"));
    }
    if commands.is_empty() {
        return None;
    }
    step(
        "Keep the originals from renewing certificates",
        "both write their own CA into the webhook configurations of these names, which would make \
         modgate unreachable. They go on serving with the certificates they have",
        commands,
    )
}

/// A JSON patch that adds a flag to the container that is the program.
fn without_rotation(workload: &Workload<'_>) -> String {
    const FLAG: &str = "--disable-cert-rotation";
    let containers = workload.containers();
    let runs = |container: &Value| is_of(container, GATEKEEPER);
    // An image that was renamed.
    let is_called = |container: &Value| text(container, &["name"]) == "manager";
    let index = containers.iter().position(runs);
    let index = index.or_else(|| containers.iter().position(is_called)).unwrap_or_default();
    let args = containers.get(index).and_then(|container| container.get("args"));
    let path = format!("/spec/template/spec/containers/{index}/args");
    match args {
        Some(_) => format!(r#"[{{"op":"add","path":"{path}/-","value":"{FLAG}"}}]"#),
        None => format!(r#"[{{"op":"add","path":"{path}","value":["{FLAG}"]}}]"#),
    }
}

/// The step that makes the originals' objects part of modgate's release. Helm 4 applies on the server, where
/// the first writer of a field keeps it without this option.
const TAKE: &str = "--take-ownership --force-conflicts";

/// A command of Helm about modgate, and the wait for what it does.
fn helm(installation: &Installation<'_>, command: &str, settings: &[&str]) -> Vec<String> {
    let namespace = word(home(installation));
    let settings: String =
        settings.iter().map(|setting| format!(" --set {}", word(setting))).collect();
    vec![
        format!("helm {command} modgate {CHART} -n {namespace} {TAKE}{settings}"),
        format!("kubectl -n {namespace} rollout status deployment modgate"),
    ]
}

/// With the settings it has, but for what is set.
const UPGRADE: &str = "upgrade --reset-then-reuse-values";

fn beside(installation: &Installation<'_>, values: &Values, file: Option<&str>) -> Option<Step> {
    if installation.has_modgate() {
        return None;
    }
    let originals = installation.originals();
    let mut why = "it loads every policy and is not ready before. CRDs, audit, statuses and \
                   generated objects stay with the originals for now, and ModRules with KubeMod. \
                   Helm 3 has no `--force-conflicts`: leave it out there, in this and later steps"
        .to_owned();
    if originals.contains(&Original::Gatekeeper) {
        why.push_str(
            ". It goes into Gatekeeper's namespace, where its Config is, and behind its Service: \
             each request of Gatekeeper's webhooks now reaches one of the two",
        );
    }
    // ModRules come later, where there are any; without them, or without Gatekeeper's policies, their
    // webhooks and CRDs stay away.
    let is_only = |original| originals.len() == 1 && originals.contains(&original);
    let mut settings = vec!["image.repository=REGISTRY/modgate"];
    match is_only(Original::Gatekeeper) && !has_modrules(installation) {
        true => settings.push("profile=gatekeeper"),
        false => settings.push("kubemod.enabled=false"),
    }
    if is_only(Original::KubeMod) && !has_policies_of_gatekeeper(installation) {
        settings.push("profile=kubemod");
    }
    settings.push("operations={webhook,mutation-webhook}");
    if values.is_split() && file.is_some() {
        settings.push("split.enabled=false");
    }
    let mut commands = helm(installation, "upgrade --install --create-namespace", &settings);
    if let Some(install) = commands.first_mut() {
        match file {
            Some(file) => install.push_str(&format!(" --values {}", word(file))),
            None => {
                for setting in values.settings() {
                    install.push_str(&format!(" --set-json {}", word(&setting)));
                }
            }
        }
    }
    if !values.unlike.is_empty() {
        let unlike: Vec<&str> = values.unlike.iter().map(String::as_str).collect();
        why.push_str(&format!(
            ". The originals' Deployments do not agree on {}: here is what the first one says",
            unlike.join(", ")
        ));
    }
    step("Install modgate beside them", why, commands)
}

fn has_modrules(installation: &Installation<'_>) -> bool {
    installation.objects.iter().any(|it| it.group() == modgate_api::modrule::GROUP)
}

fn has_policies_of_gatekeeper(installation: &Installation<'_>) -> bool {
    let mut all = installation.objects.iter();
    all.any(|it| is_policy(it) && it.group() != modgate_api::modrule::GROUP)
}

fn switch(installation: &Installation<'_>) -> Option<Step> {
    let is_kubemods = |(found, original): (&InstalledObject, Original)| {
        original == Original::KubeMod && Installation::is_taken_over(found)
    };
    let is_done =
        installation.switched().any(is_kubemods) && !installation.configurations().any(is_kubemods);
    if is_done || !installation.originals().contains(&Original::KubeMod) {
        return None;
    }
    step(
        "Give ModRules to modgate",
        "the webhook configurations have the names of KubeMod's: each is replaced in one write, so \
         that a request is sent to one of the two and none to both. Never delete the old ones first",
        helm(installation, UPGRADE, &["kubemod.enabled=true"]),
    )
}

fn verify(installation: &Installation<'_>) -> Option<Step> {
    let moved = taken_over(installation);
    if moved.is_empty() {
        return None;
    }
    step(
        "See that modgate receives requests",
        "every line must name modgate's Service; then create an object that a policy refuses, with \
         `--dry-run=server`",
        vec![format!(
            "kubectl get {} -o jsonpath='{{range .items[*].webhooks[*]}}{{.name}}{{\" \"}}\
             {{.clientConfig.service.namespace}}/{{.clientConfig.service.name}}{{\"\\n\"}}{{end}}'",
            moved.join(" ")
        )],
    )
}

fn stop(installation: &Installation<'_>, original: Original) -> Option<Step> {
    let mut commands: Vec<String> = Vec::new();
    for (found, whose) in installation.configurations() {
        if whose == original && original == Original::KubeMod && !Installation::is_taken_over(found)
        {
            commands.push(format!("kubectl delete {}", reference(found)));
        }
    }
    let of = installation.workloads.iter().filter(|it| it.original == original);
    commands.extend(of.filter(|it| !it.is_stopped()).map(|workload| {
        let found = workload.found;
        let (namespace, name) = (word(found.namespace()), word(found.name()));
        format!("kubectl -n {namespace} scale deployment {name} --replicas=0")
    }));
    if commands.is_empty() {
        return None;
    }
    let why = match original {
        Original::Gatekeeper => {
            "modgate alone answers behind the Service. The Deployments stay, for the way back"
        }
        Original::KubeMod => "nothing calls it any more. The Deployment stays, for the way back",
    };
    step(&format!("Stop {original}, and leave it there"), why, commands)
}

fn rest(installation: &Installation<'_>, values: &Values) -> Option<Step> {
    if installation.modgate_does_all() {
        return None;
    }
    step(
        "Enable audit, status and CRD generation",
        "no other program audits, writes statuses and maintains the CRDs of constraints any more",
        helm(
            installation,
            UPGRADE,
            match values.is_split() {
                true => &["operations=null", "split.enabled=true"],
                false => &["operations=null"],
            },
        ),
    )
}

fn remove(installation: &Installation<'_>) -> Option<Step> {
    let mut commands = Vec::new();
    for original in installation.originals() {
        let namespaces = installation.namespaces(original);
        for workload in installation.workloads.iter().filter(|it| it.original == original) {
            commands.push(delete("deployment", workload.found.namespace(), workload.found.name()));
        }
        let left = installation.parts(original);
        commands
            .extend(left.map(|it| delete(&it.kind().to_lowercase(), it.namespace(), it.name())));
        // Secrets are not read, so it is unknown which exist.
        let secrets = PARTS.into_iter().filter(|part| part.0 == original && part.1 == "Secret");
        for (.., name) in secrets.filter(|part| !is_kept(part.1, part.3)) {
            commands.extend(namespaces.iter().map(|namespace| {
                format!("{} --ignore-not-found", delete("secret", namespace, name))
            }));
        }
    }
    if commands.is_empty() {
        return None;
    }
    step(
        "Remove what the originals leave behind, object by object",
        "never `kubectl delete -f` their manifests, and never `helm uninstall`: both take the \
         webhook configurations that modgate answers now, and CRDs with every policy in them",
        commands,
    )
}

fn delete(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("kubectl delete {kind} {}", word(name)),
        namespace => format!("kubectl -n {} delete {kind} {}", word(namespace), word(name)),
    }
}

fn forget(installation: &Installation<'_>) -> Option<Step> {
    let of_workloads = installation.workloads.iter().map(|workload| workload.found);
    let of_configurations = installation.configurations().map(|(found, _)| found);
    let originals = installation.originals().into_iter();
    let of_parts = originals.flat_map(|original| installation.parts(original));
    let releases: BTreeSet<(&str, &str)> =
        of_workloads.chain(of_configurations).chain(of_parts).filter_map(release).collect();
    if releases.is_empty() {
        return None;
    }
    let commands = releases
        .into_iter()
        .map(|(namespace, name)| {
            let selector = word(&format!("owner=helm,name={name}"));
            format!("kubectl -n {} delete secret -l {selector}", word(namespace))
        })
        .collect();
    step(
        "Let Helm forget the originals' releases",
        "this removes Helm's notes and nothing else; an uninstall would remove what is modgate's now",
        commands,
    )
}

fn stays(installation: &Installation<'_>) -> Option<Step> {
    let mut why = "the CRDs: every policy lives in one, and modgate uses them all".to_owned();
    for original in installation.originals() {
        for namespace in installation.namespaces(original) {
            let inside = installation
                .objects
                .iter()
                .filter(|found| is_policy(found) && found.namespace() == namespace);
            match inside.count() {
                0 => why.push_str(&format!(
                    "; namespace {namespace}, until you have seen that nothing in it is yours"
                )),
                1 => why.push_str(&format!("; namespace {namespace}, where a policy lives")),
                count => {
                    why.push_str(&format!("; namespace {namespace}, where {count} policies live"));
                }
            }
        }
    }
    step("What stays", why, Vec::new())
}

fn back(installation: &Installation<'_>) -> Option<Step> {
    let is_possible = is_begun(installation)
        || installation.configurations().any(|(found, _)| Installation::is_taken_over(found));
    if !is_possible {
        return None;
    }
    let mut commands = Vec::new();
    for workload in &installation.workloads {
        let found = workload.found;
        let replicas = found.object.path(&["spec", "replicas"]).and_then(Value::as_i64);
        let (namespace, name) = (word(found.namespace()), word(found.name()));
        // For one that is stopped already, the earlier number of replicas is unknown.
        let replicas = replicas.filter(|count| *count > 0).unwrap_or(1);
        commands
            .push(format!("kubectl -n {namespace} scale deployment {name} --replicas={replicas}"));
        commands.push(format!("kubectl -n {namespace} rollout status deployment {name}"));
    }
    commands.push(format!("kubectl replace -f {BACKUP}"));
    if is_begun(installation) && installation.configurations().next().is_some() {
        commands.push(format!("kubectl replace -f {BACKUP_OF_REST}"));
    }
    let namespace = word(home(installation));
    commands.push(format!("kubectl -n {namespace} scale deployment modgate --replicas=0"));
    step(
        "The way back, as long as nothing is removed",
        "start the originals, wait for them, put their webhook configurations back, each in one \
         write, and stop modgate last",
        commands,
    )
}
