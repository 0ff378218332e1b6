use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::Instant,
};

use super::*;

pub(crate) const SHORT: Limits = Limits {
    delivery: Duration::from_millis(800),
    attempt: Duration::from_millis(400),
    pause: Duration::from_millis(50),
    audit: Duration::from_secs(60),
};

/// The reaction of a sidecar to a message.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Take,
    TakeSlowly,
    Refuse,
    Nothing,
}

/// A sidecar that does so, and remembers what it took.
pub(crate) struct Sidecar {
    pub(crate) url: String,
    pub(crate) taken: Arc<Mutex<Vec<String>>>,
}

impl Sidecar {
    pub(crate) fn start(does: impl Fn(&str) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (kept, does) = (Arc::clone(&taken), Arc::new(does));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, does) = (Arc::clone(&kept), Arc::clone(&does));
                thread::spawn(move || serve(stream.expect("a connection"), &kept, &*does));
            }
        });
        Self { url, taken }
    }
}

fn serve(
    mut stream: TcpStream,
    kept: &Mutex<Vec<String>>,
    does: &dyn Fn(&str) -> Does,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|it| it.split('\r').next());
        let mut body = vec![0; length.expect("a length").parse().expect("a number")];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8(body).expect("text");
        let does = does(&body);
        if matches!(does, Does::TakeSlowly) {
            thread::sleep(Duration::from_millis(20));
        }
        let answer = match does {
            Does::Nothing => continue,
            Does::Refuse => "413 Payload Too Large\r\ncontent-length: 0",
            Does::Take | Does::TakeSlowly => {
                kept.lock().expect("kept").push(body);
                "204 No Content"
            }
        };
        stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes())?;
    }
}

pub(crate) fn dapr(url: &str, limits: Limits) -> Dapr {
    let config = ExportConfig { sidecar: url.to_owned(), ..ExportConfig::default() };
    let settings = Value::from_json(br#"{"component": "c"}"#).expect("JSON");
    let mut dapr = Dapr::of(&settings, &config).expect("a driver");
    dapr.limits = limits;
    dapr
}

fn started(url: &str, limits: Limits) -> Dapr {
    let mut dapr = dapr(url, limits);
    dapr.start(Arc::new(|_, _| {})).expect("started");
    dapr
}

/// The results of the start and the end of an audit, and how long it took.
type Results = (Result<(), String>, Result<(), (u64, String)>, Duration);

/// Reports an audit with this many violations.
fn audit(dapr: &mut Dapr, violations: u32) -> Results {
    let began = Instant::now();
    let delivery = dapr.begin().expect("connected");
    let start = delivery.start("start".to_owned());
    (0..violations).for_each(|number| delivery.send(format!("violation {number}")));
    let end = delivery.finish("a", "end".to_owned());
    (start, end, began.elapsed())
}

#[test]
fn a_sidecar_that_does_not_answer_holds_up_no_audit() {
    let answers = Arc::new(AtomicBool::new(false));
    let does = Arc::clone(&answers);
    let sidecar = Sidecar::start(move |_| match does.load(Ordering::Relaxed) {
        true => Does::Take,
        false => Does::Nothing,
    });
    // The third audit is to arrive however busy the machine is.
    let limits =
        Limits { attempt: Duration::from_secs(2), delivery: Duration::from_secs(6), ..SHORT };
    let mut dapr = started(&sidecar.url, limits);
    for _ in 0..2 {
        let (start, end, took) = audit(&mut dapr, 100_000);
        let reason = "error publishing message to dapr: no answer before the deadline";
        assert_eq!(start.as_ref().map_err(String::as_str), Err(reason));
        let reason = "violations were not published: 100000 of 100000 of the audit a; the next \
                      one publishes those that are still there";
        assert_eq!(end, Err((100_000, reason.to_owned())));
        // All of them, one by one, would take more than an hour.
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
    // Nothing is left of that when it is back.
    answers.store(true, Ordering::Relaxed);
    let (start, end, _) = audit(&mut dapr, 1_000);
    assert_eq!((start, end), (Ok(()), Ok(())));
    let taken = sidecar.taken.lock().expect("taken");
    assert_eq!(taken.first().map(String::as_str), Some("start"));
    assert_eq!(taken.last().map(String::as_str), Some("end"));
    let mut found: Vec<_> = taken.iter().filter(|line| line.starts_with('v')).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1_000);
}

#[test]
fn what_is_refused_costs_nothing_else() {
    let sidecar = Sidecar::start(|body| match body {
        "violation 7" => Does::Refuse,
        _ => Does::Take,
    });
    let limits = Limits {
        delivery: Duration::from_secs(30),
        // What is late is sent again.
        attempt: Duration::from_secs(10),
        ..SHORT
    };
    let (start, end, took) = audit(&mut started(&sidecar.url, limits), 100);
    assert_eq!(start, Ok(()));
    assert_eq!(end.map_err(|(count, _)| count), Err(1));
    assert!(took < limits.delivery, "{took:?}");
    let taken = sidecar.taken.lock().expect("taken");
    assert_eq!(taken.len(), 100, "all but one, and no end");
    assert!(!taken.iter().any(|line| line == "end"), "not all of it is there");
}

#[test]
fn one_audit_has_so_much_time() {
    let sidecar = Sidecar::start(|_| Does::TakeSlowly);
    let limits = Limits {
        delivery: Duration::from_secs(30),
        attempt: Duration::from_secs(10),
        audit: Duration::from_millis(500),
        ..SHORT
    };
    let (start, end, took) = audit(&mut started(&sidecar.url, limits), 20_000);
    assert_eq!(start, Ok(()));
    let (unsent, _) = end.expect_err("not all");
    let taken = sidecar.taken.lock().expect("taken").len() - 1;
    assert_eq!(u64::try_from(taken).expect("few") + unsent, 20_000);
    // All of them would take 25 s.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn an_audit_can_be_given_up() {
    let sidecar = Sidecar::start(|body| match body {
        "start" => Does::Take,
        _ => Does::Nothing,
    });
    let limits =
        Limits { delivery: Duration::from_secs(60), attempt: Duration::from_millis(100), ..SHORT };
    let mut dapr = started(&sidecar.url, limits);
    let delivery = dapr.begin().expect("connected");
    delivery.start("start".to_owned()).expect("taken");
    let telling = thread::spawn(move || {
        let began = Instant::now();
        (0..1_000).for_each(|_| delivery.send("violation".to_owned()));
        assert_eq!(delivery.finish("a", "end".to_owned()).map_err(|it| it.0), Err(1_000));
        began.elapsed()
    });
    thread::sleep(Duration::from_millis(300));
    assert!(!telling.is_finished(), "it waits");
    dapr.abandon();
    let took = telling.join().expect("joined");
    assert!(took < Duration::from_secs(10), "{took:?}");
}
