//! The machine as policies may see it: time, randomness, names of hosts.

use std::{
    net::ToSocketAddrs as _,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use modgate_engine::{
    rego::builtins,
    template::{self, Refused},
};
use modgate_review::references::without_providers;
use modgate_value::{Clock, Value};
use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::ring;

/// This machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemHost;

impl Clock for SystemHost {
    fn now(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// The processor time of the calling thread. An evaluation stays on one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessorTime;

impl Clock for ProcessorTime {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        // Neither part is negative.
        Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
    }
}

/// How long a template waits for the address of a host.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent lookups, including those that have timed out.
const MAX_LOOKUPS: usize = 8;

/// The values of Sprig's impure functions: KubeMod offers them, so rules may rely on them.
impl template::Host for SystemHost {
    fn now(&self) -> Result<Duration, Refused> {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(|_| Refused::new("the clock stands before 1970"))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        ring::default_provider()
            .secure_random
            .fill(out)
            .map_err(|_| Refused::new("the system has no randomness to give"))
    }

    /// Asks the system's resolver, which cannot be given a deadline, from a thread that can be left
    /// behind.
    fn resolve_host(&self, name: &str) -> Result<Option<String>, Refused> {
        static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
        if UNDER_WAY.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKUPS {
            UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::new("too many host names are being looked up"));
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let name = name.to_owned();
        let lookup = move || {
            let found = (name.as_str(), 0).to_socket_addrs().ok();
            let address = found.and_then(|mut found| found.next());
            let _ = answer.send(address.map(|address| address.ip().to_string()));
            UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("resolve".to_owned()).spawn(lookup).is_err() {
            UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::new("the system has no thread to give"));
        }
        answered
            .recv_timeout(LOOKUP_TIMEOUT)
            .map_err(|_| Refused::new("the host name was not resolved in time"))
    }
}

/// The values of Rego's impure built-ins. There is no network for policies but through providers.
impl builtins::Host for SystemHost {
    fn now_ns(&self) -> Option<i64> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_nanos()).ok()
    }

    fn random(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        template::Host::random_bytes(self, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        without_providers(name, args)
    }
}

#[cfg(test)]
mod tests {
    use modgate_engine::template::Host as _;

    use super::*;

    /// It counts less than passes while the thread waits, and goes on while it works.
    #[test]
    fn processor_time_is_that_of_the_thread() {
        let (before, began) = (ProcessorTime.now(), Instant::now());
        thread::park_timeout(Duration::from_millis(50));
        let (spent, passed) = (ProcessorTime.now() - before, began.elapsed());
        assert!(spent < passed, "{spent:?} of {passed:?}");
        let mut number = 0_u64;
        while ProcessorTime.now() - before < spent + Duration::from_millis(1) {
            number = std::hint::black_box(number + 1);
        }
    }

    #[test]
    fn random_bytes_differ() {
        let mut bytes = [[0; 16]; 2];
        for each in &mut bytes {
            SystemHost.random_bytes(each).expect("randomness");
        }
        assert_ne!(bytes[0], bytes[1]);
    }

    #[test]
    fn no_provider_is_asked() {
        let keys: Value = vec![Value::from("k")].into();
        let question = [("provider", "p".into()), ("keys", keys)].into_iter().collect();
        let answer = builtins::Host::call(&SystemHost, "external_data", &[question]);
        assert_eq!(
            answer.expect("granted").expect("an object").get("system_error"),
            Some(
                &"provider p receives no query: only `modgate serve` sends queries to providers"
                    .into()
            )
        );
        assert_eq!(builtins::Host::call(&SystemHost, "http.send", &[]), None);
    }

    #[test]
    fn addresses_resolve_without_a_network() {
        assert_eq!(SystemHost.resolve_host("127.0.0.1"), Ok(Some("127.0.0.1".to_owned())));
    }
}
