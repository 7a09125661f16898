//! A real Kubernetes for tests: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as upstream wrote them,
//! built from the modules in `testbed/`, started in a few seconds and gone without a trace afterwards.
//!
//! ```no_run
//! use tesela_testbed::{Binaries, Cluster, Release};
//!
//! # fn main() -> anyhow::Result<()> {
//! let cluster = Cluster::start(&Binaries::find(Release::Newest)?)?;
//! println!("{}", cluster.kubectl().call(&["get", "--raw", "/version"])?);
//! # Ok(())
//! # }
//! ```
//!
//! A cluster lives as long as its [`Cluster`]. When the process that holds it dies, killed too, the cluster ends all the
//! same: `reaper.sh` waits for that beside it.
//!
//! For tests and `xtask` alone; it is never shipped. Linux.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a testbed starts programs, waits for them, keeps their files and tells of long work; it is never shipped"
)]

mod api;
mod binaries;
mod cgroups;
mod cluster;
mod control_plane;
mod hollow;
mod http;
mod keeper;
mod kubectl;
mod network;
mod node;
mod program;
mod release;
mod run;
mod wait;

pub use self::api::{Api, Patch, Rejection};
pub use self::binaries::{Binaries, NodeBinaries, cache, cluster_policy_crd};
pub use self::cluster::Cluster;
pub use self::hollow::Hollow;
pub use self::kubectl::{Kubectl, Refused};
pub use self::node::Node;
pub use self::release::Release;
pub use self::wait::until;
