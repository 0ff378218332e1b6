//! OPA's compliance corpus.

use std::{fs, path::Path};

use modgate_rego::{ast::RegoVersion, parser};
use modgate_value::Value;

#[test]
fn every_module_parses() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/opa");
    let Ok(entries) = fs::read_dir(&dir) else { return };
    let mut failed = 0;
    let mut total = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let document = Value::from_json(&fs::read(&path).unwrap()).unwrap();
        let cases = document.get("cases").unwrap_or(&document).as_array().unwrap();
        for case in cases.iter() {
            let note = case.get("note").and_then(Value::as_str).unwrap();
            for module in
                case.get("modules").and_then(Value::as_array).into_iter().flat_map(|m| m.iter())
            {
                total += 1;
                if let Err(errors) =
                    parser::parse_module("test.rego", module.as_str().unwrap(), RegoVersion::V1)
                {
                    failed += 1;
                    println!("{note}: {}", errors[0].with_excerpt());
                }
            }
            let modules: Vec<_> = case.get("modules").and_then(Value::as_array).into_iter().flat_map(|m| m.iter()).enumerate().filter_map(|(i,m)| parser::parse_module(&format!("test-{i}.rego"), m.as_str().unwrap(), RegoVersion::V1).ok()).collect();
            match modgate_rego::ir::Program::compile(&modules, &Default::default()) {
                Ok(program) => {
                    if let Err(errors) = program.query(case.get("query").and_then(Value::as_str).unwrap(), RegoVersion::V1, &Default::default()) {
                        println!("Q {note}: {}", errors[0].with_excerpt());
                    }
                }
                Err(errors) => println!("C {note}: {}", errors[0].with_excerpt()),
            }
            let query = case.get("query").and_then(Value::as_str).unwrap();
            if let Err(errors) = parser::parse_query(query, RegoVersion::V1) {
                failed += 1;
                println!("{note}: {}", errors[0].with_excerpt());
            }
        }
    }
    println!("{failed} of {total} fail");
    let text = fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/languages/rego.json"),
    )
    .unwrap();
    let document = Value::from_json(&text).unwrap();
    for case in document.get("cases").unwrap().as_array().unwrap().iter() {
        let id = case.get("id").and_then(Value::as_str).unwrap();
        let result = case.get("result").and_then(Value::as_str).unwrap();
        let parsed = parser::parse_module(
            "t.rego",
            case.get("src").and_then(Value::as_str).unwrap(),
            RegoVersion::V0,
        );
        match parsed {
            Ok(_) if result.starts_with("PARSEERR") => println!("{id}: parsed; {result}"),
            Err(errors) if !result.starts_with("PARSEERR") => {
                println!("{id}: {}", errors[0].with_excerpt())
            }
            Err(errors) => println!(
                "OK {id}: {result}\n   {}",
                errors.iter().map(|e| e.with_excerpt()).collect::<Vec<_>>().join("\n")
            ),
            _ => {}
        }
    }
    assert_eq!(failed, 0);
}
