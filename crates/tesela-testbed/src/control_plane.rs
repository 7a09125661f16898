//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.
//!
//! What each flag is for, where it is not plain: heartbeats of made-up nodes would need a writer, so
//! `--node-monitor-grace-period` is a day. `--use-service-account-credentials` would cost six seconds at each start, so the
//! controllers share one administrator. Without fsync etcd loses data in a power cut, which a test does not outlive.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::binaries::Binaries;
use crate::keeper::Keeper;
use crate::kubectl::Kubectl;
use crate::node::node_name;
use crate::program::Program;
use crate::run::{Run, secret};
use crate::wait::until;

/// How long each part may take to come up, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct ControlPlane {
    pub(crate) kubectl: Kubectl,
    pub(crate) config: PathBuf,
    /// The kubeconfig of each node's kubelet.
    pub(crate) nodes: Vec<PathBuf>,
    programs: Vec<Program>,
}

/// Somebody who may talk to the API server.
struct User {
    name: String,
    group: &'static str,
    token: String,
    /// What its kubeconfig is called.
    file: String,
}

impl User {
    /// A row of the token file: token, name, a number, groups.
    fn line(&self, number: usize) -> String {
        format!("{},{},{number},\"{}\"\n", self.token, self.name, self.group)
    }
}

/// Administrator, controllers and scheduler, then the kubelets.
fn users(nodes: usize) -> Result<Vec<User>> {
    let user = |name: &str, group: &'static str, file: &str| -> Result<User> {
        Ok(User { name: name.to_owned(), group, token: secret(16)?, file: file.to_owned() })
    };
    let mut users = vec![
        user("admin", "system:masters", "admin")?,
        // Without the group its quota and node controllers are silently forbidden to work.
        user("system:kube-controller-manager", "system:masters", "controller-manager")?,
        user("system:kube-scheduler", "", "scheduler")?,
    ];
    for index in 0..nodes {
        let name = node_name(index);
        users.push(user(&format!("system:node:{name}"), "system:nodes", &name)?);
    }
    Ok(users)
}

impl ControlPlane {
    /// Starts it, in a network namespace or where we are. `nodes`: how many nodes may join.
    pub(crate) fn start(
        run: &Run,
        keeper: &Keeper,
        binaries: &Binaries,
        network: Option<&Path>,
        nodes: usize,
    ) -> Result<Self> {
        let start = Start { run, keeper, binaries, network };
        let [etcd, peer, api] = ports()?;
        let users = users(nodes)?;
        let lines = users.iter().enumerate().map(|(index, user)| user.line(index)).collect::<String>();
        let tokens_file = run.keep("tokens.csv", &lines)?;
        let key = start.service_account_key()?;

        let mut programs = vec![start.etcd(etcd, peer)?];
        programs.push(start.api_server(api, etcd, &tokens_file, &key)?);
        // Its own certificate signs itself; it is there once the server listens.
        let certificate = run.folder().join("certificates/apiserver.crt");
        until("the API server's certificate", LIMIT, |_| {
            check(&mut programs)?;
            Ok(certificate.exists().then_some(()))
        })?;
        let mut configs = Vec::new();
        for user in &users {
            let file = format!("{}.kubeconfig", user.file);
            configs.push(run.keep(&file, &kubeconfig(api, &certificate, &user.token))?);
        }
        let [admin, manager, scheduler, nodes @ ..] = &configs[..] else { anyhow::bail!("three users") };
        let kubectl = Kubectl::new(&binaries.program("kubectl"), admin, network);
        until("/readyz of the API server", LIMIT, |seen| {
            check(&mut programs)?;
            match kubectl.call(&["get", "--raw", "/readyz"]) {
                Ok(_) => Ok(Some(())),
                Err(error) => {
                    *seen = error.to_string();
                    Ok(None)
                }
            }
        })?;
        programs.push(start.controller_manager(manager, &key, &certificate)?);
        programs.push(start.scheduler(scheduler)?);
        let mut plane = Self { kubectl, config: admin.clone(), nodes: nodes.to_vec(), programs };
        plane.wait_for_default_account()?;
        Ok(plane)
    }

    /// No pod can be created before it is there.
    fn wait_for_default_account(&mut self) -> Result<()> {
        until("the default ServiceAccount", LIMIT, |seen| {
            self.check()?;
            let words =
                ["get", "serviceaccount", "default", "-n", "default", "--ignore-not-found", "-o", "name"];
            *seen = self.kubectl.call(&words)?;
            Ok((!seen.is_empty()).then_some(()))
        })
    }

    /// # Errors
    /// When one of the programs has ended, with the end of its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        check(&mut self.programs)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Clients before servers, so that no log ends in a flood of refused connections.
        self.programs.iter_mut().rev().for_each(Program::kill);
    }
}

fn check(programs: &mut [Program]) -> Result<()> {
    programs.iter_mut().try_for_each(Program::check)
}

/// What starting a component takes.
struct Start<'a> {
    run: &'a Run,
    keeper: &'a Keeper,
    binaries: &'a Binaries,
    network: Option<&'a Path>,
}

impl Start<'_> {
    fn component(&self, name: &str, flags: &[String]) -> Result<Program> {
        let mut command = self.run.command_in(self.network, &self.binaries.program(name));
        command.args(flags).current_dir(self.run.folder());
        Program::start(self.keeper, self.run.folder(), name, command)
    }

    fn folder(&self, name: &str) -> String {
        self.run.folder().join(name).display().to_string()
    }

    /// The key that service accounts' tokens are signed with.
    fn service_account_key(&self) -> Result<String> {
        let file = self.folder("service-account.key");
        let told = Command::new(self.binaries.multi()).args(["key", &file]).output();
        let told = told.context("cannot start the testbed's Kubernetes")?;
        ensure!(told.status.success(), "no key: {}", String::from_utf8_lossy(&told.stderr));
        Ok(file)
    }

    fn etcd(&self, port: u16, peer: u16) -> Result<Program> {
        let (client, peer) = (url("http", port), url("http", peer));
        let flags = [
            format!("--data-dir={}", self.folder("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync=true".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        self.component("etcd", &flags)
    }

    fn api_server(&self, port: u16, etcd: u16, tokens: &Path, key: &str) -> Result<Program> {
        let flags = [
            format!("--secure-port={port}"),
            format!("--etcd-servers={}", url("http", etcd)),
            format!("--cert-dir={}", self.folder("certificates")),
            format!("--token-auth-file={}", tokens.display()),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            // Where there is no route the server finds no address of its own.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
        ];
        self.component("kube-apiserver", &flags)
    }

    fn controller_manager(&self, config: &Path, key: &str, certificate: &Path) -> Result<Program> {
        let flags = [
            format!("--kubeconfig={}", config.display()),
            format!("--service-account-private-key-file={key}"),
            format!("--root-ca-file={}", certificate.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--node-monitor-grace-period=24h".to_owned(),
        ];
        self.component("kube-controller-manager", &flags)
    }

    fn scheduler(&self, config: &Path) -> Result<Program> {
        let flags = [
            format!("--kubeconfig={}", config.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            // With its default limit it binds 50 pods a second.
            "--kube-api-qps=2000".to_owned(),
            "--kube-api-burst=2000".to_owned(),
        ];
        self.component("kube-scheduler", &flags)
    }
}

fn url(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

/// Ports that are free now. Somebody may take one before its program does; that program then ends and says so.
fn ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A kubeconfig as JSON, which is YAML.
fn kubeconfig(port: u16, certificate: &Path, token: &str) -> String {
    let cluster = serde_json::json!({
        "server": url("https", port), "certificate-authority": certificate,
    });
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": "testbed", "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed"}}],
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_all_different() {
        let mut ports: [u16; 8] = ports().unwrap();
        ports.sort_unstable();
        assert!(ports.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
