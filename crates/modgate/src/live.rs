//! `modgate why`, `modgate ui` and `modgate status`: a running modgate, asked through its live page.
//!
//! [`Page`] is one address of the page with a token; [`forward`] makes an address of a Pod, through
//! `kubectl port-forward`. Called as `kubectl-modgate`, the program is the plugin `kubectl modgate`.

mod api;
mod forward;
mod installation;
mod status;
mod ui;
mod why;

use std::path::PathBuf;

use modgate_cluster::remote::{Place, Remote};

use self::{
    api::Page,
    forward::Forwarded,
    installation::{Installation, Pod},
};
pub(crate) use self::{
    status::{EXAMPLES as STATUS_EXAMPLES, StatusArgs, run as status},
    ui::{EXAMPLES as UI_EXAMPLES, UiArgs, run as ui},
    why::{EXAMPLES as WHY_EXAMPLES, WhyArgs, run as why},
};

/// The address of a running modgate, and the user of requests to it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Kubeconfig of the cluster [default: the one kubectl uses]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace that modgate is installed in.
    #[arg(long, value_name = "NAMESPACE", default_value = "gatekeeper-system",
        value_parser = crate::args::namespace)]
    modgate_namespace: String,
    /// Port of the live page in Pods of modgate: `--ui-address` there.
    #[arg(long, value_name = "PORT", default_value_t = 8088)]
    modgate_port: u16,
    /// Bearer token for the live page [default: the one of the kubeconfig, else one of the ServiceAccount]
    #[arg(long, value_name = "TOKEN", env = "MODGATE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// ServiceAccount in modgate's namespace whose token is used where the kubeconfig has none, as with
    /// client certificates.
    #[arg(long, value_name = "NAME", default_value = "modgate-viewer",
        value_parser = crate::args::namespace)]
    service_account: String,
    /// Address of the live page, instead of a Pod: for a modgate on this machine.
    #[arg(long, value_name = "URL")]
    address: Option<String>,
}

/// Pages that stay reachable for as long as this lives.
struct Pages {
    pages: Vec<Page>,
    _forwarded: Vec<Forwarded>,
}

/// The Pods that receive requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The one that leads, which has the audits; else the first that is ready.
    Leader,
    /// All that are ready: each knows its own decisions.
    All,
}

impl ConnectionArgs {
    /// The namespace that kubectl would use; `default` for an address, which belongs to no kubeconfig.
    fn namespace(&self) -> anyhow::Result<String> {
        if self.address.is_some() {
            return Ok("default".to_owned());
        }
        let env = |name: &str| std::env::var(name).ok();
        let place = Place::find(self.kubeconfig.as_deref(), self.context.as_deref(), &env);
        Ok(Remote::connect(&place)?.namespace().to_owned())
    }

    /// The pages of the Pods that are wanted, or of the one address.
    fn pages(&self, wanted: Wanted) -> anyhow::Result<Pages> {
        if let Some(address) = &self.address {
            let page = Page::new(address, String::new(), self.token.clone())?;
            return Ok(Pages { pages: vec![page], _forwarded: Vec::new() });
        }
        let installation = Installation::find(self)?;
        let token = installation.token(self)?;
        let pods = installation.pods(wanted);
        let mut forwarded = Vec::new();
        for Pod { name, .. } in &pods {
            forwarded.push(Forwarded::start(self, name, None)?);
        }
        let pages = pods.iter().zip(&mut forwarded).map(|(pod, forwarded)| {
            let address = forwarded.address()?;
            Page::new(&address, pod.name.clone(), Some(token.clone()))
        });
        let pages = pages.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Pages { pages, _forwarded: forwarded })
    }
}
