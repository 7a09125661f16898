//! A cluster that runs.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::api::Api;
use crate::binaries::{Binaries, NodeBinaries};
use crate::control_plane::ControlPlane;
use crate::keeper::Keeper;
use crate::kubectl::Kubectl;
use crate::network::{self, Network};
use crate::node::{Node, Site};
use crate::program::Program;
use crate::run::Run;
use crate::wait::until;

/// The socket of `kubectl proxy`.
const SOCKET: &str = "api.sock";

/// A cluster that runs, and ends when this is dropped or its process dies.
pub struct Cluster {
    // Dropped in this order.
    nodes: Vec<Node>,
    proxy: Program,
    plane: ControlPlane,
    network: Option<Network>,
    _keeper: Keeper,
    run: Run,
    took: Duration,
}

impl Cluster {
    /// Starts a control plane, without nodes, and waits until pods can be created.
    ///
    /// # Errors
    /// When a program does not start, ends, or is not ready in time; with the end of its log.
    pub fn start(binaries: &Binaries) -> Result<Self> {
        Self::begin(binaries, None)
    }

    /// Starts a control plane and so many nodes, `n1`, `n2`, …, and waits until all are Ready. Takes root.
    ///
    /// All of it is in a network namespace of its own: [`Self::command`] is how another program gets there.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn with_nodes(binaries: &Binaries, machines: &NodeBinaries, count: usize) -> Result<Self> {
        Self::begin(binaries, Some((machines, count)))
    }

    fn begin(binaries: &Binaries, nodes: Option<(&NodeBinaries, usize)>) -> Result<Self> {
        let begin = Instant::now();
        let run = Run::begin()?;
        let keeper = Keeper::start()?;
        let count = nodes.map_or(0, |(_, count)| count);
        let network = nodes.is_some().then(|| Network::start(&run, &keeper, count)).transpose()?;
        let file = network.as_ref().map(Network::file);
        let mut plane = ControlPlane::start(&run, &keeper, binaries, file, count)?;
        let mut started = Vec::new();
        if let (Some((machines, _)), Some(network)) = (nodes, file) {
            let site = Site { run: &run, keeper: &keeper, network, binaries, machines };
            for (index, config) in plane.nodes.iter().enumerate() {
                started.push(site.start(index, config)?);
            }
        }
        let proxy = proxy(&run, &keeper, binaries, file, &mut plane)?;
        let mut cluster =
            Self { nodes: started, proxy, plane, network, _keeper: keeper, run, took: Duration::ZERO };
        let api = cluster.api();
        cluster.nodes.iter_mut().try_for_each(|node| node.wait(&api))?;
        cluster.took = begin.elapsed();
        Ok(cluster)
    }

    /// How long the start took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// kubectl with the administrator's rights.
    pub fn kubectl(&self) -> &Kubectl {
        &self.plane.kubectl
    }

    /// The API with the administrator's rights, without kubectl's start-up time.
    pub fn api(&self) -> Api {
        Api::new(&self.run.folder().join(SOCKET))
    }

    /// A kubeconfig with the administrator's rights.
    pub fn config(&self) -> &Path {
        &self.plane.config
    }

    /// The run's folder: logs, keys, sockets. It goes with the cluster, unless `TESELA_TESTBED_KEEP` is set.
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// The nodes.
    pub fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The kernel's file of its network namespace, where it has one.
    pub fn network(&self) -> Option<&Path> {
        self.network.as_ref().map(Network::file)
    }

    /// A command with `KUBECONFIG`, in the cluster's network namespace where it has one.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = network::command(self.network(), program);
        command.env("KUBECONFIG", self.config());
        command
    }

    /// # Errors
    /// When one of the programs has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.network.as_mut().map_or(Ok(()), Network::check)?;
        self.proxy.check()?;
        self.plane.check()?;
        self.nodes.iter_mut().try_for_each(Node::check)
    }
}

/// `kubectl proxy` on a unix socket.
fn proxy(
    run: &Run,
    keeper: &Keeper,
    binaries: &Binaries,
    network: Option<&Path>,
    plane: &mut ControlPlane,
) -> Result<Program> {
    let socket = run.folder().join(SOCKET);
    let mut words = run.command_in(network, &binaries.program("kubectl"));
    words.arg("proxy").arg(format!("--unix-socket={}", socket.display()));
    words.env("KUBECONFIG", &plane.config);
    let mut proxy = Program::start(keeper, run.folder(), "proxy", words)?;
    let api = Api::new(&socket);
    until("the API through kubectl's proxy", Duration::from_secs(60), |seen| {
        plane.check()?;
        proxy.check()?;
        match api.get("/version") {
            Ok(_) => Ok(Some(())),
            Err(error) => {
                *seen = format!("{error:#}");
                Ok(None)
            }
        }
    })?;
    Ok(proxy)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nodes first: they hold the network namespace, and their containers' files are in the run's folder.
        self.nodes.iter_mut().for_each(Node::kill);
        self.proxy.kill();
    }
}
