//! Who else manages the GPUs of this node, by what can be seen on it.

use std::path::Path;

use crate::io::{beginning, names_in};

/// Another manager, and what shows that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manager {
    /// What it is.
    pub(crate) name: &'static str,
    /// What was seen.
    pub(crate) evidence: String,
}

/// Programs by the name of their file.
const PROGRAMS: [(&str, &str); 3] = [
    ("nvidia-mig-manager", "NVIDIA's MIG Manager"),
    ("nvidia-device-plugin", "NVIDIA's device plugin"),
    ("gpu-kubelet-plugin", "NVIDIA's DRA driver"),
];

/// Looks at the kubelet's folders and at the processes under a root.
pub(crate) fn managers(root: &Path) -> Vec<Manager> {
    let mut found = Vec::new();
    let sockets = root.join("var/lib/kubelet/device-plugins");
    for name in names_in(&sockets) {
        if name.starts_with("nvidia") && name.ends_with(".sock") {
            add(&mut found, "NVIDIA's device plugin", format!("its socket {}", sockets.join(name).display()));
        }
    }
    let dra = root.join("var/lib/kubelet/plugins/gpu.nvidia.com");
    if let Some(name) = names_in(&dra).into_iter().find(|name| name.ends_with(".sock")) {
        add(&mut found, "NVIDIA's DRA driver", format!("its socket {}", dra.join(name).display()));
    }
    let processes = root.join("proc");
    for pid in names_in(&processes).into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let program = beginning(&processes.join(&pid).join("cmdline")).and_then(|line| program(&line));
        let known = PROGRAMS.iter().find(|(file, _)| program.as_deref() == Some(*file));
        if let Some((file, name)) = known {
            add(&mut found, name, format!("process {pid} ({file})"));
        }
    }
    found
}

/// Each manager once, with the first that shows it.
fn add(found: &mut Vec<Manager>, name: &'static str, evidence: String) {
    if found.iter().all(|manager| manager.name != name) {
        found.push(Manager { name, evidence });
    }
}

/// The name of the file that a command line begins with.
fn program(line: &[u8]) -> Option<String> {
    let first = line.split(|b| *b == 0).next()?;
    let file = first.rsplit(|b| *b == b'/').next()?;
    String::from_utf8(file.to_vec()).ok().filter(|file| !file.is_empty())
}

/// The name of a process of the node.
pub(crate) fn process_name(root: &Path, pid: u32) -> Option<String> {
    let name = beginning(&root.join("proc").join(pid.to_string()).join("comm"))?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    (!name.is_empty()).then_some(name)
}
