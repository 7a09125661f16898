//! The API server without kubectl's start-up time: plain HTTP through `kubectl proxy` on a unix socket.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::http::ask;

/// A client with the administrator's rights.
#[derive(Clone, Debug)]
pub struct Api {
    socket: PathBuf,
}

/// A kind of patch.
#[derive(Clone, Copy, Debug)]
pub enum Patch {
    /// RFC 7396.
    Merge,
    /// Kubernetes' own, which merges lists by key.
    Strategic,
}

/// The API server's refusal.
#[derive(Debug)]
pub struct Rejection {
    /// The HTTP status, such as 404 or 409.
    pub status: u16,
    /// What was asked, and the message.
    pub told: String,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.told, self.status)
    }
}

impl std::error::Error for Rejection {}

impl Api {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// The object or list at a path such as `/api/v1/nodes`.
    ///
    /// # Errors
    /// [`Rejection`] when the API server refuses.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None)
    }

    /// Creates an object in the collection at a path.
    ///
    /// # Errors
    /// [`Rejection`] when the API server refuses.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.call("POST", path, Some(("application/json", &serde_json::to_vec(object)?)))
    }

    /// Changes an object.
    ///
    /// # Errors
    /// [`Rejection`] when the API server refuses.
    pub fn patch(&self, path: &str, kind: Patch, patch: &Value) -> Result<Value> {
        let kind = match kind {
            Patch::Merge => "application/merge-patch+json",
            Patch::Strategic => "application/strategic-merge-patch+json",
        };
        self.call("PATCH", path, Some((kind, &serde_json::to_vec(patch)?)))
    }

    /// Deletes an object, with options such as `{"gracePeriodSeconds": 0}`.
    ///
    /// # Errors
    /// [`Rejection`] when the API server refuses.
    pub fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        self.call("DELETE", path, Some(("application/json", &serde_json::to_vec(options)?)))
    }

    /// Gives every event of a collection to `see`, those that are there first, until that answers `false` or the
    /// connection ends.
    ///
    /// # Errors
    /// When the API server refuses, or an event is no JSON.
    pub fn watch(&self, path: &str, mut see: impl FnMut(&Value) -> bool) -> Result<()> {
        let path = format!("{path}{}watch=1", if path.contains('?') { '&' } else { '?' });
        let mut answer = ask(&self.socket, "GET", &path, None)?;
        if answer.status != 200 {
            let mut text = String::new();
            answer.body.read_to_string(&mut text)?;
            return Err(Rejection { status: answer.status, told: format!("GET {path}: {text}") }.into());
        }
        for line in answer.body.lines() {
            // The API server's end cuts the connection; that is no event.
            let Ok(line) = line else { break };
            if !see(&serde_json::from_str(&line).with_context(|| format!("no event: {line}"))?) {
                break;
            }
        }
        Ok(())
    }

    fn call(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Value> {
        let mut answer = ask(&self.socket, method, path, body)?;
        let mut text = String::new();
        answer.body.read_to_string(&mut text).with_context(|| format!("{method} {path}"))?;
        let value = serde_json::from_str::<Value>(&text);
        if (200..300).contains(&answer.status) {
            return value.with_context(|| format!("{method} {path}: no JSON: {text}"));
        }
        let message = value.ok().and_then(|value| value["message"].as_str().map(str::to_owned));
        Err(Rejection {
            status: answer.status,
            told: format!("{method} {path}: {}", message.unwrap_or(text)),
        }
        .into())
    }
}
