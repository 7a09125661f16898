//! Models as their files describe them: known answers from published facts, and files that lie.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]
#![expect(clippy::disallowed_methods, reason = "tests read their data")]

#[path = "model_files/bad_input.rs"]
mod bad_input;
#[path = "model_files/build.rs"]
mod build;
#[path = "model_files/configs.rs"]
mod configs;
#[path = "model_files/headers.rs"]
mod headers;
