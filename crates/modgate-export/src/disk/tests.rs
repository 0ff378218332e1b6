use super::*;

fn line(id: u128) -> Line {
    Line { id, json: format!(r#"{{"violationId":"{id:032x}"}}"#) }
}

fn read(path: &Path) -> Vec<String> {
    fs::read_to_string(path).expect("read").lines().map(str::to_owned).collect()
}

#[test]
fn configurations() {
    let check = |json: &str, expected: &str| {
        let config = Value::from_json(json.as_bytes()).expect(json);
        let found = match DiskConfig::of(&config) {
            Ok(config) => format!("{} {}", config.path.display(), config.max_audit_results),
            Err(reason) => reason,
        };
        assert_eq!(found, expected, "{json}");
    };
    check(r#"{"path": "/tmp/violations/", "maxAuditResults": 3}"#, "/tmp/violations 3");
    check(r#"{"path": "a/./b", "maxAuditResults": 0}"#, "a/b 0");
    check("[]", "invalid config format, expected map[string]interface{}");
    check(r#"{"maxAuditResults": 3}"#, "missing or invalid 'path'");
    check(r#"{"path": "", "maxAuditResults": 3}"#, "invalid path: path cannot be empty");
    check(
        r#"{"path": "/a/../b", "maxAuditResults": 3}"#,
        "invalid path: path must not contain '..', dir traversal is not allowed",
    );
    check(
        r#"{"path": "/", "maxAuditResults": 3}"#,
        "invalid path: path must not be filesystem root",
    );
    check(
        r#"{"path": "./", "maxAuditResults": 3}"#,
        "invalid path: path must not resolve to the current working directory",
    );
    check(r#"{"path": "/a"}"#, "missing or invalid 'maxAuditResults'");
    check(r#"{"path": "/a", "maxAuditResults": -1}"#, "maxAuditResults cannot be negative");
    check(r#"{"path": "/a", "maxAuditResults": 1.5}"#, "maxAuditResults must be an integer");
    check(
        r#"{"path": "/a", "maxAuditResults": 6}"#,
        "maxAuditResults cannot be greater than the maximum allowed audit runs: 5",
    );
    let ttl = |ttl: &str| {
        format!(r#"{{"path": "/a", "maxAuditResults": 1, "closedConnectionTTL": {ttl}}}"#)
    };
    check(&ttl(r#""5m""#), "/a 1");
    check(&ttl("5"), "invalid ttl format: expected string");
    check(&ttl(r#""1s""#), "closedConnectionTTL 1s is too short, must be at least 1 minute");
    check(&ttl(r#""11m""#), "closedConnectionTTL 11m0s exceeds maximum allowed: 10m0s");
}

#[test]
fn an_audit_from_start_to_end() {
    let folder = tempfile::tempdir().expect("folder");
    let channel = folder.path().join("channel");
    let mut disk = Disk::new(channel.clone(), 2);
    for audit in 1..=4 {
        let audit = format!("2026-01-0{audit}T00:00:00Z");
        disk.start(&audit).expect("started");
        disk.write(&line(1)).expect("written");
        disk.write(&line(2)).expect("written");
        disk.finish(&audit).expect("finished");
    }
    let mut left: Vec<String> =
        files(&channel, "log").iter().map(|path| name(path).to_owned()).collect();
    left.sort();
    assert_eq!(left, ["2026-01-03T00_00_00Z.log", "2026-01-04T00_00_00Z.log"]);
    let lines = read(&channel.join("2026-01-04T00_00_00Z.log"));
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], r#"{"id":"2026-01-04T00:00:00Z","message":"audit is started"}"#);
    assert_eq!(lines[3], r#"{"id":"2026-01-04T00:00:00Z","message":"audit is completed"}"#);
}

#[test]
fn what_was_interrupted_goes_on() {
    let folder = tempfile::tempdir().expect("folder");
    let channel = folder.path().to_owned();
    let mut disk = Disk::new(channel.clone(), 5);
    disk.start("a").expect("started");
    (1..=3).for_each(|id| disk.write(&line(id)).expect("written"));
    drop(disk);
    // The process died while it wrote the third line.
    let path = channel.join("a.txt");
    let text = fs::read_to_string(&path).expect("read");
    fs::write(&path, &text[..text.len() - 9]).expect("written");

    let mut disk = Disk::new(channel.clone(), 5);
    disk.start("a").expect("started");
    (1..=4).for_each(|id| disk.write(&line(id)).expect("written"));
    disk.finish("a").expect("finished");
    let expected: Vec<String> = [r#"{"id":"a","message":"audit is started"}"#.to_owned()]
        .into_iter()
        .chain((1..=4).map(|id| line(id).json))
        .chain([r#"{"id":"a","message":"audit is completed"}"#.to_owned()])
        .collect();
    assert_eq!(read(&channel.join("a.log")), expected);
    // Exported again although it was complete.
    disk.start("a").expect("started");
    (1..=5).for_each(|id| disk.write(&line(id)).expect("written"));
    disk.finish("a").expect("finished");
    assert_eq!(read(&channel.join("a.log")).len(), 7);
}

#[test]
fn what_cannot_be_written_is_tried_again() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.txt");
    let mut disk = Disk::new(folder.path().to_owned(), 5);
    disk.start("a").expect("started");
    disk.write(&line(1)).expect("written");
    // A handle that cannot write stands for a disk without room, which takes half a line.
    let swap = |disk: &mut Disk, file: File| {
        std::mem::replace(&mut disk.run.as_mut().expect("running").file, file)
    };
    let good = swap(&mut disk, File::open(&path).expect("opened"));
    let error = disk.write(&line(2)).expect_err("no room").to_string();
    assert!(error.starts_with(&format!("cannot write `{}`: ", path.display())), "{error}");
    disk.write(&line(3)).expect_err("no room");
    (&good).write_all(b"{\"violationId\":").expect("half a line");
    drop(swap(&mut disk, good));
    disk.write(&line(4)).expect("there is room again");
    assert_eq!(read(&path)[1..], [1, 2, 3, 4].map(|id| line(id).json));
    // Right before the end.
    let good = swap(&mut disk, File::open(&path).expect("opened"));
    disk.write(&line(5)).expect_err("no room");
    drop(swap(&mut disk, good));
    disk.finish("a").expect("finished");
    let lines = read(&folder.path().join("a.log"));
    assert_eq!(lines[1..6], [1, 2, 3, 4, 5].map(|id| line(id).json));
    assert_eq!(lines.len(), 7, "{lines:?}");
}

#[test]
fn an_audit_that_is_not_written_as_a_whole_is_not_complete() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.txt");
    let mut disk = Disk::new(folder.path().to_owned(), 5);
    disk.start("a").expect("started");
    disk.run.as_mut().expect("running").file = File::open(&path).expect("opened");
    let long = |id| Line { id, json: format!("\"{}\"", "x".repeat(MAX_WAITING)) };
    disk.write(&line(1)).expect_err("no room");
    disk.write(&long(2)).expect_err("no room");
    disk.write(&long(3)).expect_err("no room");
    let error = disk.finish("a").expect_err("no room").to_string();
    assert_eq!(error, format!("3 lines of the audit `{}` could not be written", path.display()));
    assert!(path.exists(), "it is not complete");
    disk.start("b").expect("started");
    assert_eq!(read(&path.with_extension("log")).len(), 1, "what there was is kept");
}

#[test]
fn long_lines_are_ours_too() {
    let folder = tempfile::tempdir().expect("folder");
    let long = |id: u128| {
        let details = "x".repeat(MAX_LINE + 10);
        Line { id, json: format!(r#"{{"details":"{details}","violationId":"{id:032x}"}}"#) }
    };
    let write = |disk: &mut Disk| {
        disk.start("a").expect("started");
        for written in [line(1), long(2), line(3), long(4)] {
            disk.write(&written).expect("written");
        }
    };
    let mut disk = Disk::new(folder.path().to_owned(), 5);
    write(&mut disk);
    drop(disk);
    let path = folder.path().join("a.txt");
    let before = fs::metadata(&path).expect("there").len();
    let mut torn = OpenOptions::new().append(true).open(&path).expect("opened");
    torn.write_all(long(5).json.as_bytes()).expect("written");
    drop(torn);

    let mut disk = Disk::new(folder.path().to_owned(), 5);
    write(&mut disk);
    assert_eq!(fs::metadata(&path).expect("there").len(), before, "each stands there once");
    disk.finish("a").expect("finished");
    let lines = read(&path.with_extension("log"));
    let expected = [line(1), long(2), line(3), long(4)].map(|line| line.json);
    assert!(lines[1..5] == expected, "each is whole");
}

#[test]
fn what_is_put_away_keeps_its_last_line() {
    let folder = tempfile::tempdir().expect("folder");
    // The process died before it could rename the file.
    let text = format!("{}\n{}\n", line(1).json, message::frame("a", message::COMPLETED));
    fs::write(folder.path().join("a.txt"), &text).expect("written");
    Disk::new(folder.path().to_owned(), 5).start("b").expect("started");
    assert_eq!(fs::read_to_string(folder.path().join("a.log")).expect("read"), text);
}

#[test]
fn what_others_left_is_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let channel = folder.path().to_owned();
    let mut died = Disk::new(channel.clone(), 5);
    died.start("a").expect("started");
    died.write(&line(1)).expect("written");
    drop(died);
    let mut running = Disk::new(channel.clone(), 5);
    running.start("b").expect("started");
    assert!(channel.join("a.log").exists(), "closed");
    let mut second = Disk::new(channel.clone(), 5);
    second.start("c").expect("started");
    assert!(channel.join("b.txt").exists(), "locked");
    let error = Disk::new(channel.clone(), 5).start("b").expect_err("locked").to_string();
    assert!(error.ends_with("b.txt` is being written by another process"), "{error}");
    let error = second.start("a/b").expect_err("no name").to_string();
    assert_eq!(error, "audit ID must be a single path segment");
    let error = second.write(&line(1)).expect_err("not started").to_string();
    assert_eq!(error, "failed to write violation: no file provided");
}
