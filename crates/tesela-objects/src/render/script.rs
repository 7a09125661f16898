//! The scripts of a step.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::File;
use super::name::quoted;

/// Builds one script. Values of the plan enter quoted, as variables; the commands are ours.
pub(super) struct Script {
    text: String,
}

impl Script {
    /// A script that lies `depth` folders below the root. `what` is a comment of one line, ours.
    pub(super) fn new(depth: usize, stack_namespace: &str, what: &str) -> Self {
        let mut text = String::from("#!/usr/bin/env bash\n");
        let _ = writeln!(text, "# {what}");
        text.push_str("set -euo pipefail\ncd \"$(dirname \"$0\")\"\n");
        let _ = writeln!(text, ". {}lib.sh", "../".repeat(depth));
        let _ = writeln!(text, "STACK_NAMESPACE={}", quoted(stack_namespace));
        Self { text }
    }

    /// `NAME='value'`.
    pub(super) fn set(&mut self, name: &str, value: &str) -> &mut Self {
        let _ = writeln!(self.text, "{name}={}", quoted(value));
        self
    }

    /// A variable that holds one item per line.
    pub(super) fn list<T: AsRef<str>>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        let items: Vec<_> = items.into_iter().map(|i| i.as_ref().to_owned()).collect();
        self.set(name, &items.join("\n"))
    }

    /// Lines of ours.
    pub(super) fn run(&mut self, lines: &str) -> &mut Self {
        self.text.push_str(lines);
        self.text.push('\n');
        self
    }

    /// A line of ours with quoted arguments behind it.
    pub(super) fn call<T: AsRef<str>>(
        &mut self,
        command: &str,
        arguments: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        self.text.push_str(command);
        for argument in arguments {
            self.text.push(' ');
            self.text.push_str(&quoted(argument.as_ref()));
        }
        self.text.push('\n');
        self
    }

    /// The script as a file of a step.
    pub(super) fn file(&self, dir: &str, name: &str) -> File {
        File { path: format!("{dir}/{name}"), text: self.text.clone(), executable: true }
    }
}

/// `resource=amount`, one per line, in the order of `LC_ALL=C sort`; zeros left out. Amounts as the API server
/// prints them.
pub(super) fn amounts(amounts: &BTreeMap<String, u64>, zeros: bool) -> String {
    let mut lines: Vec<_> = amounts
        .iter()
        .filter(|(_, amount)| zeros || **amount > 0)
        .map(|(resource, amount)| format!("{resource}={}", quantity(*amount)))
        .collect();
    lines.sort();
    lines.join("\n")
}

/// A whole number in the canonical form of a Kubernetes quantity: 2000 is `2k`, 1500 stays.
fn quantity(amount: u64) -> String {
    let mut rest = amount;
    let mut suffix = "";
    for next in ["k", "M", "G", "T", "P", "E"] {
        if rest == 0 || !rest.is_multiple_of(1000) {
            break;
        }
        rest /= 1000;
        suffix = next;
    }
    format!("{rest}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_the_api_server_prints_them() {
        let map = BTreeMap::from([
            ("nvidia.com/gpu".to_owned(), 2000),
            ("nvidia.com/gpu.shared".to_owned(), 1500),
            ("nvidia.com/mig-1g.5gb".to_owned(), 0),
        ]);
        assert_eq!(amounts(&map, false), "nvidia.com/gpu.shared=1500\nnvidia.com/gpu=2k");
        assert!(amounts(&map, true).ends_with("nvidia.com/mig-1g.5gb=0"));
        assert_eq!(quantity(3_000_000), "3M");
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        let mut script = Script::new(1, "n", "x");
        script.set("A", "'; reboot; '").call("f", ["$(id)"]);
        assert!(script.text.ends_with("A=''\\''; reboot; '\\'''\nf '$(id)'\n"), "{}", script.text);
    }
}
