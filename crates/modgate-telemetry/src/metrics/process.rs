//! `process_…`, read when asked for; silent where there is no `/proc`.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::catalog::{Catalog, Descriptor, MetricType, Origin};

const CPU: Descriptor = Descriptor {
    name: "process_cpu_seconds_total",
    kind: MetricType::Counter,
    labels: &[],
    help: "User and system processor time of the process",
    origin: Origin::Process,
};
const MAX_FDS: Descriptor = gauge("process_max_fds", "Files the process may have open");
const OPEN_FDS: Descriptor = gauge("process_open_fds", "Files the process has open");
const RESIDENT: Descriptor =
    gauge("process_resident_memory_bytes", "Resident memory of the process");
const VIRTUAL: Descriptor = gauge("process_virtual_memory_bytes", "Virtual memory of the process");
const STARTED: Descriptor =
    gauge("process_start_time_seconds", "When the process started, in Unix seconds");
const THREADS: Descriptor = gauge("process_threads", "Threads of the process");

const ALL: [&Descriptor; 7] = [&CPU, &MAX_FDS, &OPEN_FDS, &RESIDENT, &VIRTUAL, &STARTED, &THREADS];

const fn gauge(name: &'static str, help: &'static str) -> Descriptor {
    Descriptor { name, kind: MetricType::Gauge, labels: &[], help, origin: Origin::Process }
}

pub(super) fn register(catalog: &mut Catalog) {
    catalog.registry.register_collector(Box::new(Process));
    catalog.describe(&ALL);
}

#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for descriptor in ALL {
            let Some(figure) = figure(descriptor) else { continue };
            let encode = |encoder: &mut DescriptorEncoder<'_>, metric: &dyn EncodeMetric| {
                let of_type = metric.metric_type();
                let descriptor = encoder.encode_descriptor(
                    descriptor.family(),
                    descriptor.help,
                    None,
                    of_type,
                )?;
                metric.encode(descriptor)
            };
            if descriptor.kind == MetricType::Counter {
                encode(&mut encoder, &ConstCounter::new(figure))?;
            } else {
                encode(&mut encoder, &ConstGauge::new(figure))?;
            }
        }
        Ok(())
    }
}

/// Linux counts in USER_HZ, which is 100 on every architecture it runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

fn figure(descriptor: &Descriptor) -> Option<f64> {
    match descriptor.name {
        name if name == CPU.name => Some((stat(11)? + stat(12)?) / TICKS_PER_SECOND),
        name if name == MAX_FDS.name => {
            let limits = fs::read_to_string("/proc/self/limits").ok()?;
            let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
            soft.split_whitespace().next()?.parse().ok()
        }
        name if name == OPEN_FDS.name => {
            // One of them is the folder being read.
            let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
            Some(f64::from(u32::try_from(count).ok()?))
        }
        name if name == RESIDENT.name => Some(status("VmRSS:")? * 1024.0),
        name if name == VIRTUAL.name => Some(status("VmSize:")? * 1024.0),
        name if name == THREADS.name => status("Threads:"),
        name if name == STARTED.name => {
            let stat_of_all = fs::read_to_string("/proc/stat").ok()?;
            let booted = stat_of_all.lines().find_map(|line| line.strip_prefix("btime "))?;
            Some(booted.trim().parse::<f64>().ok()? + stat(19)? / TICKS_PER_SECOND)
        }
        _ => None,
    }
}

/// A field of `/proc/self/stat`, counted from the state of the process.
fn stat(index: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(index)?.parse().ok()
}

/// A figure of `/proc/self/status`; those with a unit are in KiB.
fn status(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let figure = status.lines().find_map(|line| line.strip_prefix(key))?;
    figure.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn figures_of_this_process() {
        for (descriptor, least, most) in [
            (&CPU, 0.0, 1e6),
            (&MAX_FDS, 4.0, 1e12),
            (&OPEN_FDS, 3.0, 1e6),
            (&RESIDENT, 1e5, 1e12),
            (&VIRTUAL, 1e5, 1e15),
            (&STARTED, 1.6e9, 1e10),
            (&THREADS, 1.0, 1e5),
        ] {
            let found = figure(descriptor).expect(descriptor.name);
            assert!((least..=most).contains(&found), "{}: {found}", descriptor.name);
        }
    }
}
