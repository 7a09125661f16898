//! A cluster that runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::api::Api;
use crate::binaries::Binaries;
use crate::control_plane::ControlPlane;
use crate::keeper::Keeper;
use crate::kubectl::Kubectl;
use crate::program::Program;
use crate::run::Run;
use crate::wait::until;

/// A cluster that runs, and ends when this is dropped or its process dies.
pub struct Cluster {
    // Dropped in this order.
    proxy: Program,
    plane: ControlPlane,
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
        let begin = Instant::now();
        let run = Run::begin()?;
        let keeper = Keeper::start()?;
        let mut plane = ControlPlane::start(&run, &keeper, binaries)?;
        let socket = run.folder().join("api.sock");
        let mut words = run.command(&binaries.program("kubectl"));
        words.arg("proxy").arg(format!("--unix-socket={}", socket.display()));
        words.env("KUBECONFIG", &plane.config);
        let mut proxy = Program::start(&keeper, run.folder(), "proxy", words)?;
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
        Ok(Self { proxy, plane, _keeper: keeper, run, took: begin.elapsed() })
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
        Api::new(&self.run.folder().join("api.sock"))
    }

    /// A kubeconfig with the administrator's rights.
    pub fn config(&self) -> &Path {
        &self.plane.config
    }

    /// The run's folder: logs, keys, sockets. It goes with the cluster, unless `TESELA_TESTBED_KEEP` is set.
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// # Errors
    /// When one of the programs has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.proxy.check()?;
        self.plane.check()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.proxy.kill();
    }
}
