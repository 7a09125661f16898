//! `kubectl get nodes,pods -A -o json` → fleet, demand, findings.

mod build;
mod nodes;
mod workloads;
