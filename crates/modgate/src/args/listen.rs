//! Where to listen, under our names, Gatekeeper's and KubeMod's (spec `gatekeeper-validation`, 9.1,
//! 9.3 and 9.5; `kubemod`, 7.6).

use modgate_server::{Addresses, RequestLimits};

use super::{compat::CompatArgs, program::Program};

/// Where to listen.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// HTTPS address of every route; `:PORT` listens on all addresses of the machine
    /// [default: :9443]
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["host", "port"])]
    address: Option<String>,
    /// Port of the HTTPS address.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Host of the HTTPS address; all addresses of the machine if empty.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Plain HTTP address of the dry-run API, off unless given. KubeMod's was :8081.
    #[arg(long, value_name = "ADDRESS")]
    webapp_addr: Option<String>,
    /// Plain HTTP address of `/healthz` and `/readyz`, off unless given. Gatekeeper's was :9090.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "operator_health_probe_addr")]
    health_addr: Option<String>,
    /// The same flag under KubeMod's name. KubeMod's was :8083.
    #[arg(long, value_name = "ADDRESS")]
    operator_health_probe_addr: Option<String>,
    /// Plain HTTP port of `/metrics`, off unless given. Gatekeeper's was 8888.
    #[arg(long, value_name = "PORT", conflicts_with = "operator_metrics_addr")]
    prometheus_port: Option<u16>,
    /// Plain HTTP address of `/metrics`, under KubeMod's name. KubeMod's was :8082.
    #[arg(long, value_name = "ADDRESS")]
    operator_metrics_addr: Option<String>,
    /// The same flag under the usual name of Kubernetes controllers; 0 is off.
    #[arg(long, value_name = "ADDRESS",
        conflicts_with_all = ["operator_metrics_addr", "prometheus_port"])]
    metrics_addr: Option<String>,
    /// Address of the live page, off unless given, such as 127.0.0.1:8088: plain HTTP on the loopback
    /// interface, otherwise HTTPS. It shows policies, decisions and health, and changes nothing; in a
    /// cluster, users need a token and the ClusterRole `modgate-viewer`.
    #[arg(long, value_name = "ADDRESS")]
    ui_address: Option<String>,
    /// Maximum size of a review; a larger one is denied. In bytes, or with Ki or Mi
    /// [default: 37Mi, the largest an API server sends]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_body_size: Option<usize>,
    /// Maximum size of all reviews in progress together. In bytes, or with Ki or
    /// Mi [default: 64Mi]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bodies_size: Option<usize>,
    /// Maximum nesting of a review; a deeper one is denied [default: 10000, as deep as an API
    /// server reads]
    #[arg(long, value_name = "LEVELS")]
    max_body_depth: Option<usize>,
}

impl ListenArgs {
    /// The addresses to listen on. If the program is called by the name of an original, that
    /// program's addresses are the defaults.
    pub(crate) fn addresses(&self, compat: &CompatArgs, program: Program) -> Addresses {
        let is_manager = program == Program::Manager;
        let manager = |address: &str| is_manager.then(|| address.to_owned());
        let operator = |address: &str| compat.operator.then(|| address.to_owned());
        let port = |port: u16| format!(":{port}");
        Addresses {
            webhooks: self.webhooks(compat, program),
            health: self
                .health_addr
                .clone()
                .or_else(|| self.operator_health_probe_addr.clone())
                .or_else(|| manager(":9090"))
                .or_else(|| operator(":8083"))
                .filter(|address| is_on(address)),
            metrics: self
                .operator_metrics_addr
                .clone()
                .or_else(|| self.metrics_addr.clone().filter(|it| !is_manager || is_on(it)))
                .or_else(|| self.prometheus_port.map(port))
                .or_else(|| manager(":8888"))
                .or_else(|| operator(":8082"))
                .filter(|address| is_on(address)),
            dry_run: self
                .webapp_addr
                .clone()
                .or_else(|| compat.webapp.then(|| ":8081".to_owned()))
                .filter(|address| is_on(address)),
            ui: self.ui_address.clone().filter(|address| is_on(address)),
        }
    }

    /// Sets the bounds on requests. One body never has more room than all.
    pub(crate) fn apply(&self, limits: &mut RequestLimits) {
        limits.all_bodies_bytes = self.max_bodies_size.unwrap_or(limits.all_bodies_bytes);
        limits.max_depth = self.max_body_depth.unwrap_or(limits.max_depth);
        let one = self.max_body_size.unwrap_or(limits.body_bytes);
        limits.body_bytes = one.min(limits.all_bodies_bytes);
    }

    fn webhooks(&self, compat: &CompatArgs, program: Program) -> String {
        if compat.is_webapp_only(program) {
            return String::new();
        }
        if let Some(address) = &self.address {
            return address.clone();
        }
        let host = self.host.as_deref().unwrap_or_default();
        let port = self.port.unwrap_or(if program == Program::Manager { 443 } else { 9443 });
        if host.contains(':') && !host.starts_with('[') {
            return format!("[{host}]:{port}");
        }
        format!("{host}:{port}")
    }
}

/// A size above 0.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number = number.parse::<usize>().ok();
    let size = number.and_then(|number| number.checked_mul(1 << shift)).filter(|size| *size > 0);
    size.ok_or_else(|| "expected a number of bytes above 0, such as `65536` or `64Mi`".to_owned())
}

/// The address by which Kubernetes' controllers are configured not to listen.
fn is_on(address: &str) -> bool {
    !matches!(address, "" | "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("1", Some(1)),
            ("2Ki", Some(2048)),
            ("64Mi", Some(64 << 20)),
            ("1Gi", Some(1 << 30)),
            ("0", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
        for text in ["", "Mi", "-1", "1.5Mi", "1Ti", "99999999999999999999Mi"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
