//! `lprof workload`: exit codes, standard output and standard error.

use std::fs;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn lprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lprof"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `lprof` with a file of `content`, whose path replaces the argument FILE.
fn on_file(arguments: &[&str], content: &[u8]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("workload");
    fs::write(&file, content).unwrap();
    let file = file.to_str().unwrap();
    let arguments: Vec<&str> = arguments.iter().map(|word| if *word == "FILE" { file } else { word }).collect();
    let mut output = lprof(&arguments).output().unwrap();
    output.stdout = text(&output.stdout).replace(file, "FILE").into_bytes();
    output.stderr = text(&output.stderr).replace(file, "FILE").into_bytes();
    output
}

#[test]
fn check_counts_packages_and_names_the_first_error() {
    let good = on_file(&["workload", "check", "FILE"], b"# two\n0:3\nabc5:0\n");
    assert_eq!((good.status.code(), text(&good.stdout).as_str()), (Some(0), "FILE: 2 packages, 3 bytes of content\n"));
    let cut = on_file(&["workload", "check", "FILE"], b"# two\n0:3\nab");
    let expected = "lprof: FILE: line 3, byte 10: the file ends after 2 of the 3 bytes of this package\n";
    assert_eq!((cut.status.code(), text(&cut.stderr).as_str()), (Some(1), expected));
    let large = on_file(&["workload", "check", "--max-package", "2", "FILE"], b"0:3\nabc");
    assert!(text(&large.stderr).contains("larger than 2 bytes; --max-package raises the limit"), "{large:?}");
    let missing = lprof(&["workload", "check", "no such file"]).output().unwrap();
    assert_eq!(text(&missing.stderr), "lprof: cannot open no such file: No such file or directory (os error 2)\n");
}

#[test]
fn show_tells_the_figures_of_a_file() {
    // A matrix of dimension 16 has 2600 operations by Equation (4.1), and 2/3 of 4096 floating-point operations.
    let file = [b"5:1024\n".as_slice(), &[0; 1024], b"7:1024\n", &[0; 1024]].concat();
    let shown = on_file(&["workload", "show", "FILE"], &file);
    let expected = "packages   2
content    2.05 kB, from 1.02 kB to 1.02 kB each
last due   0.000012 s
dimension  16.0 in the mean, if these are matrices
op         2.60 kOp each, 5.20 kOp in all (limo-2018, Equation 4.1)
flop       2.73 kFLOP each, 5.46 kFLOP in all (2/3 n^3)
";
    assert_eq!(text(&shown.stdout), expected);
    let json = on_file(&["workload", "show", "--json", "FILE"], b"0:3\nabc");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["schema"], &json["packages"], &json["lud"]), (&1.into(), &1.into(), &Value::Null));
}

#[test]
fn show_tells_the_figures_of_a_recipe() {
    let shown = |seed| lprof(&["workload", "show", "--json", "m64_i200", "--seed", seed]).output().unwrap().stdout;
    let json: Value = serde_json::from_slice(&shown("4")).unwrap();
    // 221,000 / 3 matrices of 2.547 MOp, within the noise of one sample.
    let (count, op) = (json["packages"].as_f64().unwrap(), json["lud"]["mean_op"].as_f64().unwrap());
    assert!((count / 73_667.0 - 1.0).abs() < 0.02 && (op / 2.547e6 - 1.0).abs() < 0.02, "{json}");
    assert_eq!(shown("4"), shown("4"));
    assert_ne!(shown("4"), shown("5"));
}

/// The begin of a workload on standard output. Generation streams: closing the pipe ends it.
fn begin(seed: &str) -> Vec<u8> {
    let mut generate = lprof(&["workload", "generate", "m16_i10", "--seed", seed]);
    let mut generate = generate.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begin = vec![0; 1_000_000];
    generate.stdout.take().unwrap().read_exact(&mut begin).unwrap();
    let output = generate.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "lprof: cannot write to standard output: Broken pipe (os error 32)\n");
    begin
}

#[test]
fn generate_streams_equal_bytes_for_equal_seeds() {
    let first = begin("1");
    assert!(first.starts_with(b"# m16_i10 of limo-2018, Table 4.3, with seed 1: matrices of little-endian f32\n0:"));
    assert!(first == begin("1") && first != begin("2"));
}

#[test]
fn generate_refuses_other_names() {
    let output = lprof(&["workload", "generate", "m16"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("is not one of the twenty workloads: use m16, m64"), "{output:?}");
}
