//! `lprof apps`: what works here, and what is missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs `lprof apps --json` with more environment. Returns the applications.
fn applications(environment: &[(&str, &Path)]) -> Vec<Value> {
    let mut apps = Command::new(env!("CARGO_BIN_EXE_lprof"));
    let output = apps.args(["apps", "--json"]).envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["schema"], 1);
    list["applications"].as_array().unwrap().clone()
}

fn missing(applications: &[Value], name: &str) -> String {
    let application = applications.iter().find(|application| application["name"] == name).unwrap();
    assert_eq!((&application["works"], &application["devices"]), (&false.into(), &Value::Array(Vec::new())));
    application["missing"].as_str().unwrap().to_owned()
}

#[test]
fn applications_on_processors_work_everywhere() {
    let applications = applications(&[]);
    for name in ["dummy", "lud-cpu", "lud-blas"] {
        let application = applications.iter().find(|application| application["name"] == name).unwrap();
        assert_eq!((&application["works"], &application["missing"]), (&true.into(), &Value::Null));
    }
}

#[test]
fn libraries_that_cannot_be_loaded_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("libOpenCL.so.1"), "junk").unwrap();
    let applications = applications(&[("LD_LIBRARY_PATH", dir.path())]);
    let opencl = "libOpenCL.so.1 cannot be loaded: install ocl-icd-libopencl1 of Debian or ocl-icd of Fedora";
    assert_eq!(missing(&applications, "lud-opencl"), opencl);
    // The others are not concerned.
    assert_eq!(applications.iter().filter(|application| application["works"] == true).count(), 3);
}

#[test]
fn a_library_without_drivers_is_told_from_none() {
    let dir = tempfile::tempdir().unwrap();
    let missing = missing(&applications(&[("OCL_ICD_VENDORS", dir.path())]), "lud-opencl");
    if missing.starts_with("libOpenCL.so.1") {
        return limo_requirements::skip(limo_requirements::Requirement::Program, &missing);
    }
    assert!(missing.starts_with("OpenCL has no driver with a device: install the driver of the GPU"), "{missing}");
}
