//! Libraries that are missing, are none, or are old.

#![allow(clippy::disallowed_methods, reason = "tests build and load libraries")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tesela_model::driver::{Code, GpuDriver};
use tesela_nvml::{OpenError, Search, Session};

/// A library of these C functions.
fn library(name: &str, code: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, file) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&source, code).unwrap();
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&file).arg(&source).status();
    assert!(status.unwrap().success(), "a C compiler builds the library");
    file
}

const START: &str = "int nvmlInit_v2(void) { return 0; }\nint nvmlShutdown(void) { return 0; }\n\
                     int nvmlDeviceGetHandleByUUID(const char *u, void **d) { return 6; }\n";

#[test]
fn a_missing_library_is_told_with_what_was_tried() {
    let refusal = Session::open(&Search::DriverRoot("/no/such/root".into())).err().unwrap();
    let OpenError::Library { tried } = &refusal else { panic!("{refusal}") };
    assert_eq!(tried.len(), 6);
    let text = refusal.to_string();
    assert!(text.contains("/no/such/root/usr/lib64/libnvidia-ml.so.1") && text.contains("install"), "{text}");
}

#[test]
fn a_library_that_is_no_nvml_is_refused() {
    let file = library("other", "int something(void) { return 0; }\n");
    let refusal = Session::open(&Search::File(file)).err().unwrap();
    assert!(matches!(refusal, OpenError::NotNvml { function: "nvmlInit_v2", .. }), "{refusal}");
}

#[test]
fn a_function_that_an_old_library_lacks_fails_alone() {
    let count = "int nvmlDeviceGetCount_v2(unsigned *n) { *n = 0; return 0; }\n";
    let session = Session::open(&Search::File(library("old", &(START.to_owned() + count)))).unwrap();
    assert_eq!(session.gpus().map(|gpus| gpus.len()), Ok(0));
    let refusal = session.versions().unwrap_err();
    let expected = ("nvmlSystemGetDriverVersion", Code::FunctionNotFound);
    assert_eq!((refusal.call.as_str(), refusal.code), expected);
}

#[test]
fn a_driver_that_does_not_start_says_what_to_do() {
    let code = START.replacen("return 0", "return 9", 1);
    let refusal = Session::open(&Search::File(library("stopped", &code))).err().unwrap();
    assert!(matches!(refusal, OpenError::Start { code: Code::DriverNotLoaded }));
    assert!(refusal.to_string().contains("modprobe nvidia"), "{refusal}");
}
