//! A TCP balancer between a client and several servers, which can be cut.
//!
//! As in front of a Service, a connection stays with the server it was made to, a server that
//! leaves keeps the connections it has, and nothing is tried again.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A balancer on loopback; it ends with its process.
#[derive(Debug, Clone)]
pub struct Balancer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    made: Arc<AtomicUsize>,
    is_held: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    servers: Vec<SocketAddr>,
    is_cut: bool,
    /// Open connections, both sides of each.
    open: Vec<[TcpStream; 2]>,
}

impl Balancer {
    /// In front of these servers.
    ///
    /// # Errors
    ///
    /// When there is no port left.
    pub fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let state = State { servers: servers.to_vec(), ..State::default() };
        let balancer = Self {
            address: listener.local_addr()?,
            state: Arc::new(Mutex::new(state)),
            made: Arc::default(),
            is_held: Arc::default(),
        };
        let accepting = balancer.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client's connection is closed.
                let _ = accepting.connect(client);
            }
        });
        Ok(balancer)
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// New connections go to these servers from now on.
    pub fn set(&self, servers: &[SocketAddr]) {
        self.lock().servers = servers.to_vec();
    }

    /// Ends all connections and takes none until [`mend`](Self::mend).
    pub fn cut(&self) {
        let mut state = self.lock();
        state.is_cut = true;
        for stream in state.open.drain(..).flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Takes connections again.
    pub fn mend(&self) {
        self.lock().is_cut = false;
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// Keeps connections open and whatever comes on them to itself until [`mend`](Self::mend); what
    /// was kept of a connection that is [`cut`](Self::cut) meanwhile is lost.
    pub fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// Connections made to servers so far.
    pub fn connections(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, client: TcpStream) -> io::Result<()> {
        let chosen = {
            let state = self.lock();
            let turn = self.made.fetch_add(1, Ordering::Relaxed);
            let index = turn.checked_rem(state.servers.len());
            index.and_then(|index| state.servers.get(index)).copied().filter(|_| !state.is_cut)
        };
        let Some(server) = chosen else { return client.shutdown(Shutdown::Both) };
        let server = TcpStream::connect(server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut state = self.lock();
        state.open.retain(|[client, _]| client.peer_addr().is_ok());
        state.open.push([client.try_clone()?, server.try_clone()?]);
        drop(state);
        copy(client.try_clone()?, server.try_clone()?, Arc::clone(&self.is_held));
        copy(server, client, Arc::clone(&self.is_held));
        Ok(())
    }
}

/// Passes on what comes, and its end.
fn copy(mut from: TcpStream, mut to: TcpStream, is_held: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            while is_held.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            let passed = buffer.get(..length).unwrap_or_default();
            if to.write_all(passed).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends its name to each client.
    fn server(name: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let address = listener.local_addr().expect("address");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(name.as_bytes());
            }
        });
        address
    }

    fn ask(balancer: &Balancer) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(balancer.address()) {
            let _ = stream.read_to_string(&mut answer);
        }
        answer
    }

    #[test]
    fn servers_take_turns_until_it_is_cut() {
        let (one, two) = (server("one"), server("two"));
        let balancer = Balancer::start(&[one, two]).expect("balancer");
        let mut answers = [ask(&balancer), ask(&balancer)];
        answers.sort();
        assert_eq!(answers, ["one", "two"]);
        balancer.set(&[two]);
        assert_eq!(ask(&balancer), "two");
        balancer.cut();
        assert_eq!(ask(&balancer), "");
        balancer.mend();
        assert_eq!(ask(&balancer), "two");
        // None is left of those before.
        balancer.lock().open.clear();
        balancer.hold();
        let held = balancer.clone();
        let asked = thread::spawn(move || ask(&held));
        while balancer.lock().open.is_empty() {
            assert!(!asked.is_finished());
            thread::sleep(Duration::from_millis(1));
        }
        // Enough to see what is not held.
        thread::sleep(Duration::from_millis(50));
        assert!(!asked.is_finished());
        balancer.cut();
        balancer.mend();
        assert_eq!(asked.join().expect("asked"), "");
        assert_eq!(ask(&balancer), "two");
        balancer.set(&[]);
        assert_eq!(ask(&balancer), "");
    }
}
