//! `gator policy`: published templates and constraints, found in a catalog and installed into a
//! cluster (7.9).
//!
//! Everything that reads or changes a cluster goes through [`Cluster`], which the binary implements;
//! everything else works without one.

mod args;
mod catalog;
mod cluster;
mod fetch;
mod generate;
mod install;
mod report;
mod upgrade;

pub(crate) use self::args::{Misuse, PolicyVerb};
pub use self::cluster::{Cluster, Connect, no_cluster};
use self::{
    args::{
        GenerateArgs, InstallArgs, ListArgs, SearchArgs, UninstallArgs, UpdateArgs, UpgradeArgs,
    },
    catalog::{Catalog, Home},
    fetch::Fetcher,
    install::Installation,
    report::Format,
};
use crate::{Io, VerbFailure};

/// Exit code if the cluster fails.
const CLUSTER: u8 = 2;
/// Exit code if an object exists that gator did not install.
const CONFLICT: u8 = 3;
/// Exit code if only a part succeeded.
const PARTIAL: u8 = 4;

/// Runs a verb.
pub(crate) fn run(verb: &PolicyVerb, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let connect = io.connect;
    match verb {
        PolicyVerb::Update(args) => update(args, connect, io),
        PolicyVerb::Search(args) => search(args, io),
        PolicyVerb::List(args) => list(args, connect, io),
        PolicyVerb::Install(args) => install(args, connect, io),
        PolicyVerb::Uninstall(args) => uninstall(args, connect, io),
        PolicyVerb::Upgrade(args) => upgrade(args, connect, io),
        PolicyVerb::GenerateCatalog(args) => generate(args, io),
    }
    .map(|()| 0)
}

fn update(args: &UpdateArgs, connect: Connect, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let format = Format::of(&args.output)?;
    let url = fetch::catalog_url(io.env);
    io.note(&format!("Fetching catalog from {url}..."));
    if args.insecure {
        io.note(
            "Warning: --insecure flag set, allowing plain HTTP (not recommended for production)",
        );
    }
    let fetcher = Fetcher::new(&url, args.insecure);
    let text = fetcher.catalog().map_err(|error| match error {
        fetch::FetchError::PlainHttp => {
            VerbFailure::error(format!("{error}; use --insecure to override (not recommended)"))
        }
        error => VerbFailure::error(format!("fetching catalog: {error}")),
    })?;
    let catalog = Catalog::parse(&text)
        .map_err(|error| VerbFailure::error(format!("parsing catalog: {error}")))?;
    let home = Home::of(io.env).map_err(initializing)?;
    home.save(&text, &url)
        .map_err(|error| VerbFailure::error(format!("saving catalog to cache: {error}")))?;
    let installed = connect(io.env).and_then(|cluster| install::installed(&*cluster));
    let upgradable = upgrade::upgradable(&installed.unwrap_or_default(), &catalog);
    io.print(&report::updated(&catalog, &upgradable, format))
}

fn search(args: &SearchArgs, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let query = args.query.first().map(|query| query.to_lowercase()).unwrap_or_default();
    let home = Home::of(io.env).map_err(initializing)?;
    let catalog = match home.catalog() {
        Ok(catalog) => catalog,
        Err(_) => {
            let fetcher = Fetcher::new(&fetch::catalog_url(io.env), false);
            let fetched = fetcher.catalog().map_err(|error| format!("fetching catalog: {error}"));
            fetched
                .and_then(|text| Catalog::parse(&text))
                .map_err(|error| not_loaded(&error, io))?
        }
    };
    let bundle = match args.bundle.as_deref().filter(|bundle| !bundle.is_empty()) {
        Some(bundle) => Some(catalog.bundle_policies(bundle).map_err(VerbFailure::error)?),
        None => None,
    };
    let category = args.category.as_deref().filter(|category| !category.is_empty());
    let found: Vec<_> = catalog
        .policies
        .iter()
        .filter(|policy| bundle.as_ref().is_none_or(|bundle| bundle.contains(&policy.name)))
        .filter(|policy| {
            category
                .is_none_or(|category| policy.category.to_lowercase() == category.to_lowercase())
        })
        .filter(|policy| {
            policy.name.to_lowercase().contains(&query)
                || policy.description.to_lowercase().contains(&query)
        })
        .collect();
    let format = Format::of(&args.output)?;
    io.print(&report::found(&found, format))
}

fn list(args: &ListArgs, connect: Connect, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let cluster = connect(io.env).map_err(no_client)?;
    if !has_gatekeeper(&*cluster)? {
        return Err(coded("gatekeeper CRDs not found in cluster", CLUSTER));
    }
    let installed = install::installed(&*cluster)
        .map_err(|error| VerbFailure::error(format!("listing policies: {error}")))?;
    if let Ok(catalog) = Home::of(io.env).and_then(|home| home.catalog()) {
        let count = upgrade::upgradable(&installed, &catalog).len();
        if count > 0 {
            io.note(&format!(
                "Hint: {count} policy(ies) have updates available. Run 'gator policy update' then \
                 'gator policy upgrade --all'.\n"
            ));
        }
    }
    let format = Format::of(&args.output)?;
    io.print(&report::installed(&installed, format))
}

fn install(args: &InstallArgs, connect: Connect, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let selection = &args.selection;
    if selection.bundles.is_empty() && selection.policies.is_empty() {
        let text = "specify policy name(s) or use --bundle to install a bundle";
        return Err(VerbFailure::error(text));
    }
    let action = action_of(&args.enforcement_action)?;
    if action.is_some() && selection.bundles.is_empty() {
        io.note(
            "Warning: --enforcement-action is ignored for template-only installs (no bundle \
             specified)",
        );
    }
    let format = Format::of(&selection.output)?;
    let home = Home::of(io.env).map_err(initializing)?;
    let (catalog, source) = home.catalog_with_source().map_err(|error| not_loaded(&error, io))?;
    let cluster = match selection.dry_run {
        true => None,
        false => Some(connect(io.env).map_err(no_client)?),
    };
    let wanted = install::wanted(&catalog, &selection.bundles, &selection.policies)
        .map_err(|error| VerbFailure::error(format!("resolving bundle policies: {error}")))?;
    if let Some(cluster) = &cluster {
        require_gatekeeper(&**cluster, io)?;
    }
    let fetcher = Fetcher::new(&source, false);
    let installation = Installation {
        cluster: cluster.as_deref(),
        fetcher: &fetcher,
        action: action.as_deref(),
        now: install::now(),
    };
    let done = installation.install(&catalog, &wanted);
    io.print(&report::done(&done, &catalog, selection.dry_run, format))?;
    if let Some(conflict) = &done.conflict {
        return Err(coded(&format!("installation incomplete: {conflict}"), CONFLICT));
    }
    if done.failed.is_some() {
        io.note("\nRe-run command to continue (already installed will be skipped).");
        let text = format!(
            "installation incomplete: {} of {} policies installed",
            done.installed.len(),
            wanted.len()
        );
        return Err(coded(&text, PARTIAL));
    }
    Ok(())
}

fn uninstall(args: &UninstallArgs, connect: Connect, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let selection = &args.selection;
    if selection.bundles.is_empty() && selection.policies.is_empty() {
        let text = "specify policy name(s) or use --bundle to uninstall a bundle";
        return Err(VerbFailure::error(text));
    }
    let format = Format::of(&selection.output)?;
    let mut names = selection.policies.clone();
    if !selection.bundles.is_empty() {
        let home = Home::of(io.env).map_err(initializing)?;
        let catalog = home.catalog().map_err(|error| not_loaded(&error, io))?;
        add_bundles(&mut names, &catalog, &selection.bundles)?;
    }
    let cluster = connect(io.env).map_err(no_client)?;
    if !selection.dry_run {
        require_gatekeeper(&*cluster, io)?;
    }
    let done =
        upgrade::uninstall(&*cluster, &names, selection.dry_run).map_err(VerbFailure::error)?;
    io.print(&report::uninstalled(&done, selection.dry_run, format))?;
    if !done.not_managed.is_empty() {
        let text = "uninstall failed: some policies are not managed by gator";
        return Err(coded(text, CONFLICT));
    }
    Ok(())
}

fn upgrade(args: &UpgradeArgs, connect: Connect, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let selection = &args.selection;
    if !args.all && selection.bundles.is_empty() && selection.policies.is_empty() {
        return Err(VerbFailure::error(
            "specify policy name(s), use --bundle, or use --all to upgrade all policies",
        ));
    }
    let action = action_of(&args.enforcement_action)?;
    let format = Format::of(&selection.output)?;
    let home = Home::of(io.env).map_err(initializing)?;
    let (catalog, source) = home.catalog_with_source().map_err(|error| not_loaded(&error, io))?;
    let cluster = connect(io.env).map_err(no_client)?;
    let mut names = selection.policies.clone();
    add_bundles(&mut names, &catalog, &selection.bundles)?;
    if !selection.dry_run {
        require_gatekeeper(&*cluster, io)?;
    }
    let installed = install::installed(&*cluster)
        .map_err(|error| VerbFailure::error(format!("listing installed policies: {error}")))?;
    if args.all {
        names = installed.iter().map(|policy| policy.name.clone()).collect();
    }
    let fetcher = Fetcher::new(&source, false);
    let installation = Installation {
        cluster: (!selection.dry_run).then_some(&*cluster),
        fetcher: &fetcher,
        action: action.as_deref(),
        now: install::now(),
    };
    let done = upgrade::upgrade(&installation, &catalog, &installed, &names);
    io.print(&report::upgraded(&done, selection.dry_run, format))?;
    if done.failed.is_some() {
        return Err(coded("upgrade incomplete: some policies failed to upgrade", PARTIAL));
    }
    Ok(())
}

fn generate(args: &GenerateArgs, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    let library = io.path(&args.library_path);
    let shown = crate::files::clean(&library.to_string_lossy());
    if !library.exists() {
        return Err(VerbFailure::error(format!("library path does not exist: {shown}")));
    }
    io.note(&format!("Scanning library at {shown}..."));
    let bundles = (!args.bundles.is_empty()).then(|| io.path(&args.bundles));
    let catalog = generate::generate(&generate::Source {
        folder: library.as_path(),
        shown: &shown,
        name: &args.name,
        version: &args.version,
        bundles: bundles.as_deref(),
        base_url: &args.base_url,
        now: install::now(),
    })
    .map_err(|error| VerbFailure::error(format!("generating catalog: {error}")))?;
    let bundles = match catalog.bundles.len() {
        0 => String::new(),
        count => format!(" and {count} bundles"),
    };
    io.note(&format!("Found {} policies{bundles}", catalog.policies.len()));
    if args.validate {
        generate::validate(&catalog)
            .map_err(|error| VerbFailure::error(format!("catalog validation failed: {error}")))?;
        io.note("Catalog validation passed");
    }
    generate::write(&catalog, &io.path(&args.output), &args.output)
        .map_err(|error| VerbFailure::error(format!("writing catalog: {error}")))?;
    io.note(&format!("Catalog written to {}", args.output));
    Ok(())
}

/// The action in the spelling of the engine (`fix-action-case`); `None` when there is none.
fn action_of(text: &str) -> Result<Option<String>, VerbFailure> {
    match text.to_lowercase().as_str() {
        "" => Ok(None),
        action @ ("deny" | "warn" | "dryrun") => Ok(Some(action.to_owned())),
        "scoped" => {
            Err(VerbFailure::error("'scoped' enforcement action is not supported in this release"))
        }
        _ => Err(VerbFailure::error(format!(
            "invalid enforcement action: {text} (must be deny, warn, or dryrun)"
        ))),
    }
}

fn add_bundles(
    names: &mut Vec<String>,
    catalog: &Catalog,
    bundles: &[String],
) -> Result<(), VerbFailure> {
    for bundle in bundles {
        for name in catalog.bundle_policies(bundle).map_err(VerbFailure::error)? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(())
}

fn has_gatekeeper(cluster: &dyn Cluster) -> Result<bool, VerbFailure> {
    cluster
        .has_templates()
        .map_err(|error| VerbFailure::error(format!("checking Gatekeeper installation: {error}")))
}

fn require_gatekeeper(cluster: &dyn Cluster, io: &mut Io<'_>) -> Result<(), VerbFailure> {
    if has_gatekeeper(cluster)? {
        return Ok(());
    }
    let text = "Gatekeeper CRDs not found in cluster.\nSee the installation guide: \
                https://open-policy-agent.github.io/gatekeeper/website/docs/install";
    io.note(text);
    Err(coded(text, CLUSTER))
}

fn coded(text: &str, code: u8) -> VerbFailure {
    VerbFailure { code, ..VerbFailure::error(text) }
}

fn initializing(error: String) -> VerbFailure {
    VerbFailure::error(format!("initializing cache: {error}"))
}

fn no_client(error: String) -> VerbFailure {
    VerbFailure::error(format!("creating Kubernetes client: {error}"))
}

fn not_loaded(error: &str, io: &mut Io<'_>) -> VerbFailure {
    io.note("\nRun 'gator policy update' to refresh the catalog.");
    VerbFailure::error(format!("loading catalog: {error}"))
}
