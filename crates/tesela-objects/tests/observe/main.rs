//! `kubectl get nodes,pods -A -o json` → fleet, demand, findings.

#![expect(clippy::unwrap_used, reason = "a test may fail by panic")]

mod build;
mod findings;
mod inputs;
mod nodes;
mod properties;
mod series;
mod snapshot;
mod workloads;
