//! The flags of `policy`, verb by verb.

use clap::{Args, Subcommand};

use crate::{flags::GoBool as _, help};

/// The verbs of `gator policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Fetch the catalog of policies.
    #[command(args_override_self = true, after_help = help::POLICY_UPDATE)]
    Update(UpdateArgs),
    /// Find policies in the catalog by name or description.
    #[command(args_override_self = true, after_help = help::POLICY_SEARCH)]
    Search(SearchArgs),
    /// List the policies that gator installed into the cluster.
    #[command(args_override_self = true, after_help = help::POLICY_LIST)]
    List(ListArgs),
    /// Install policies, or bundles of policies with their constraints.
    #[command(args_override_self = true, after_help = help::POLICY_INSTALL)]
    Install(InstallArgs),
    /// Remove policies that gator installed.
    #[command(args_override_self = true, after_help = help::POLICY_UNINSTALL)]
    Uninstall(UninstallArgs),
    /// Upgrade installed policies to the versions of the catalog.
    #[command(args_override_self = true, after_help = help::POLICY_UPGRADE)]
    Upgrade(UpgradeArgs),
    /// Make a catalog from a folder of policies.
    #[command(args_override_self = true, after_help = help::POLICY_GENERATE)]
    GenerateCatalog(GenerateArgs),
}

/// Arguments of `policy update`.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Allow a catalog with an `http://` address.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(super) insecure: bool,
    /// Output format: `table` or `json`.
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(super) output: String,
    #[arg(hide = true)]
    pub(super) rest: Vec<String>,
}

/// Arguments of `policy search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Part of a name or description.
    #[arg(value_name = "QUERY")]
    pub(super) query: Vec<String>,
    /// Only policies of this category.
    #[arg(long, value_name = "CATEGORY", allow_hyphen_values = true)]
    pub(super) category: Option<String>,
    /// Only policies of this bundle.
    #[arg(long, value_name = "BUNDLE", allow_hyphen_values = true)]
    pub(super) bundle: Option<String>,
    /// Output format: `table` or `json`.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", allow_hyphen_values = true)]
    pub(super) output: String,
}

/// Arguments of `policy list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Output format: `table` or `json`.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", allow_hyphen_values = true)]
    pub(super) output: String,
    #[arg(hide = true)]
    pub(super) rest: Vec<String>,
}

/// The policies to act on, and the output format.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Policies by name.
    #[arg(value_name = "POLICY")]
    pub(super) policies: Vec<String>,
    /// All policies of a bundle; repeat for more, or separate them by commas.
    #[arg(
        long = "bundle",
        value_name = "BUNDLE",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(super) bundles: Vec<String>,
    /// Print the changes without making them.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(super) dry_run: bool,
    /// Output format: `table` or `json`.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", allow_hyphen_values = true)]
    pub(super) output: String,
}

/// Arguments of `policy install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Enforcement action of the constraints, instead of the bundle's: `deny`, `warn` or `dryrun`.
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(super) enforcement_action: String,
}

/// Arguments of `policy uninstall`.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
}

/// Arguments of `policy upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// All policies that are installed.
    #[arg(long, go_bool = Some(false), hide_possible_values = true, hide_default_value = true)]
    pub(super) all: bool,
    /// Enforcement action of the constraints: `deny`, `warn` or `dryrun`.
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(super) enforcement_action: String,
}

/// Arguments of `policy generate-catalog`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Folder that has the policies in its folder `library`.
    #[arg(long, value_name = "PATH", default_value = ".", allow_hyphen_values = true)]
    pub(super) library_path: String,
    /// File to write.
    #[arg(
        short,
        long,
        value_name = "PATH",
        default_value = "catalog.yaml",
        allow_hyphen_values = true
    )]
    pub(super) output: String,
    /// Name of the catalog.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "gatekeeper-library",
        allow_hyphen_values = true
    )]
    pub(super) name: String,
    /// Version of the catalog.
    #[arg(long, value_name = "VERSION", default_value = "v1.0.0", allow_hyphen_values = true)]
    pub(super) version: String,
    /// File with bundles, instead of those that the templates name.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(super) bundles: String,
    /// Prefix for the paths of files.
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub(super) base_url: String,
    /// Whether to check the catalog before it is written.
    #[arg(long, go_bool = Some(true), hide_possible_values = true)]
    pub(super) validate: bool,
    #[arg(hide = true)]
    pub(super) rest: Vec<String>,
}

/// An error in the arguments of a verb.
pub(crate) struct Misuse {
    pub(crate) verb: &'static str,
    pub(crate) text: String,
}

impl PolicyVerb {
    /// Checks the number of arguments.
    pub(crate) fn misused(&self, program: &str) -> Option<Misuse> {
        let (verb, rest) = match self {
            Self::Update(args) => ("update", &args.rest),
            Self::List(args) => ("list", &args.rest),
            Self::Search(args) if args.query.len() != 1 => {
                let text = format!("accepts 1 arg(s), received {}", args.query.len());
                return Some(Misuse { verb: "search", text });
            }
            Self::Search(_)
            | Self::Install(_)
            | Self::Uninstall(_)
            | Self::Upgrade(_)
            | Self::GenerateCatalog(_) => return None,
        };
        let word = rest.first()?;
        let text = format!("unknown command {word:?} for \"{program} policy {verb}\"");
        Some(Misuse { verb, text })
    }
}
