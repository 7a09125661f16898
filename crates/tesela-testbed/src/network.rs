//! The network namespace of a cluster with nodes: its ports, bridges and addresses are nobody else's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::keeper::Keeper;
use crate::program::Program;
use crate::run::Run;
use crate::wait::until;

/// A network namespace, as long as the program that holds it lives.
pub(crate) struct Network {
    holder: Program,
    /// The kernel's file of the namespace.
    file: PathBuf,
}

impl Network {
    /// Makes it, with loopback up and an address for each node on it: a kubelet refuses 127.x, and this kernel may lack
    /// other interfaces without a cable.
    pub(crate) fn start(run: &Run, keeper: &Keeper, nodes: usize) -> Result<Self> {
        let ready = run.folder().join("network.ready");
        let mut script = "ip link set lo up".to_owned();
        for index in 0..nodes {
            script.push_str(&format!(" && ip address add {}/32 dev lo", address(index)));
        }
        script.push_str(" && : >\"$0\" && exec sleep infinity");
        let mut words = run.command(Path::new("unshare"));
        words.args(["--net", "--", "sh", "-c", &script]).arg(&ready);
        let mut holder = Program::start(keeper, run.folder(), "network", words)?;
        until("the network namespace", Duration::from_secs(30), |_| {
            holder.check()?;
            Ok(ready.exists().then_some(()))
        })?;
        let file = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
        Ok(Self { holder, file })
    }

    /// The kernel's file of the namespace, for `nsenter --net`. `ip netns exec` would hide the cgroups.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.holder.check()
    }
}

/// A command inside a network namespace, or where we are.
pub(crate) fn command(network: Option<&Path>, program: &Path) -> Command {
    match network {
        None => Command::new(program),
        Some(file) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={}", file.display())).arg("--").arg(program);
            command
        }
    }
}

/// The address of a node.
pub(crate) fn address(index: usize) -> String {
    format!("10.88.{}.1", index + 1)
}

/// The addresses of a node's pods.
pub(crate) fn pod_network(index: usize) -> String {
    format!("10.89.{}.0/24", index + 1)
}
