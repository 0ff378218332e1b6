//! Flags of records of requests.

use std::{path::PathBuf, time::Duration};

use modgate_traffic::{Rate, RecordConfig, Samples};
use modgate_value::gotime;

use super::listen::size;

/// The record of requests: its folder, its bounds, and the sample.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordArgs {
    /// Folder to record requests and answers in, as JSON lines that `compare` and `review` read. Data of
    /// Secrets and `managedFields` are left out. Only one process may record in a folder.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Maximum size of all files of the record; the oldest are removed. In bytes, or with Ki, Mi or Gi;
    /// at least 1Mi [default: 1Gi]
    #[arg(long, value_name = "SIZE", requires = "record", value_parser = total)]
    record_max_size: Option<u64>,
    /// Age at which a file of the record is removed [default: 168h]
    #[arg(long, value_name = "DURATION", requires = "record", value_parser = age)]
    record_max_age: Option<Duration>,
    /// Part of the requests to record, from 0 to 1.
    #[arg(long, value_name = "RATE", requires = "record", default_value = "1")]
    record_sample: Rate,
    /// Part of the requests of a namespace to record, such as `kube-system=0.01`; an empty name stands for
    /// objects in none; repeat for more.
    #[arg(long, value_name = "NAME=RATE", requires = "record", value_parser = named)]
    record_namespace: Vec<(String, Rate)>,
    /// Part of the requests to record in which this policy has a finding. The policy is named by kind, by
    /// name or by both, such as `K8sRequiredLabels=1` or `'K8sRequiredLabels owner=1'`. Precedes the rate of the
    /// namespace; repeat for more.
    #[arg(long, value_name = "NAME=RATE", requires = "record", value_parser = named)]
    record_policy: Vec<(String, Rate)>,
}

fn total(text: &str) -> Result<u64, String> {
    let bytes = u64::try_from(size(text)?).unwrap_or(u64::MAX);
    if bytes < 1 << 20 {
        return Err("expected at least 1Mi".to_owned());
    }
    Ok(bytes)
}

fn age(text: &str) -> Result<Duration, String> {
    let duration = gotime::Duration::parse(text)?;
    let nanoseconds = u64::try_from(duration.0).unwrap_or_default();
    let age = Duration::from_nanos(nanoseconds);
    if age < Duration::from_secs(60) {
        return Err("expected at least one minute, such as `24h`".to_owned());
    }
    Ok(age)
}

fn named(text: &str) -> Result<(String, Rate), String> {
    let (name, rate) = text
        .rsplit_once('=')
        .ok_or_else(|| "expected a name and a rate, such as `shop=0.1`".to_owned())?;
    Ok((name.to_owned(), rate.parse()?))
}

impl RecordArgs {
    /// Where requests are recorded, if anywhere.
    pub(crate) fn config(&self) -> Option<RecordConfig> {
        Some(RecordConfig {
            folder: self.record.clone()?,
            max_bytes: self.record_max_size.unwrap_or(RecordConfig::MAX_BYTES),
            max_age: self.record_max_age.unwrap_or(RecordConfig::MAX_AGE),
            samples: Samples {
                default: self.record_sample,
                namespaces: self.record_namespace.iter().cloned().collect(),
                policies: self.record_policy.iter().cloned().collect(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(total("1Gi"), Ok(1 << 30));
        assert!(total("1023Ki").is_err() && total("x").is_err());
        assert_eq!(age("24h"), Ok(Duration::from_secs(86_400)));
        assert!(age("59s").is_err() && age("-1h").is_err() && age("x").is_err());
        let half = "0.5".parse().expect("a rate");
        assert_eq!(named("=0.5"), Ok((String::new(), half)));
        assert_eq!(named("K8sLabels a=b=0.5"), Ok(("K8sLabels a=b".to_owned(), half)));
        assert!(named("shop").is_err() && named("shop=2").is_err());
    }
}
