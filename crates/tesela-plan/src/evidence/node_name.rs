//! Which node a label means: exporters write the node's name, the host's, or that of their own pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tesela_model::fleet::Node;
use tesela_model::label;

/// Part of the names of the exporter's own pods, which is what it writes as `Hostname` where nobody told it the
/// node's name (`dcgm-exporter-x2x4z`, `nvidia-dcgm-exporter-x2x4z`, `release-dcgm-exporter-x2x4z`).
const EXPORTER: &str = "dcgm-exporter";

/// What a label says of where its series is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whence<'a> {
    /// From this node of the input.
    Here(&'a str),
    /// It does not say.
    Unsaid,
    /// From something that is no node of the input.
    Elsewhere,
}

/// Names under which nodes are known.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeNames<'a> {
    /// Whole names in small letters.
    whole: BTreeMap<String, &'a str>,
    /// First parts of names with a domain; `None` = of several nodes.
    first: BTreeMap<String, Option<&'a str>>,
}

impl<'a> NodeNames<'a> {
    pub(super) fn new(nodes: &'a [Node], others: impl Iterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        for node in nodes {
            names.add(&node.name, &node.name);
            if let Some(host) = node.labels.get(label::HOSTNAME) {
                names.add(host, &node.name);
            }
        }
        others.for_each(|name| names.know(name));
        names
    }

    /// Knows one more node.
    pub(super) fn know(&mut self, node: &'a str) {
        self.add(node, node);
    }

    fn add(&mut self, name: &str, node: &'a str) {
        let name = name.to_ascii_lowercase();
        if let Some(first) = first_part(&name) {
            let known = self.first.entry(first.to_owned()).or_insert(Some(node));
            *known = known.filter(|known| *known == node);
        }
        self.whole.entry(name).or_insert(node);
    }

    /// The node that a label means: by its whole name, or where one of the two lacks the domain by the part before.
    pub(super) fn whence(&self, label: Option<&str>) -> Whence<'a> {
        let Some(label) = label.filter(|l| !l.is_empty()) else { return Whence::Unsaid };
        let label = label.to_ascii_lowercase();
        let node = self.whole.get(&label).copied().or_else(|| match first_part(&label) {
            Some(first) => self.whole.get(first).copied(),
            None => self.first.get(&label).copied().flatten(),
        });
        match node {
            Some(node) => Whence::Here(node),
            None if label.contains(EXPORTER) => Whence::Unsaid,
            None => Whence::Elsewhere,
        }
    }
}

/// What stands before a name's domain; an address has none.
fn first_part(name: &str) -> Option<&str> {
    let (first, _) = name.split_once('.')?;
    (!first.is_empty() && name.parse::<IpAddr>().is_err()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_means_a_node_with_and_without_its_domain() {
        let nodes =
            ["n1", "n2.east.example", "twin.east.example", "twin.west.example", "10.0.0.1", "10.0.0.2"];
        let names = NodeNames::new(&[], nodes.into_iter());
        for (label, wanted) in [
            ("n1", Whence::Here("n1")),
            ("N1", Whence::Here("n1")),
            ("n1.east.example", Whence::Here("n1")),
            ("n2", Whence::Here("n2.east.example")),
            ("n2.east.example", Whence::Here("n2.east.example")),
            ("n2.west.example", Whence::Elsewhere),
            ("twin", Whence::Elsewhere),
            ("10", Whence::Elsewhere),
            ("10.0.0.2", Whence::Here("10.0.0.2")),
            ("n3", Whence::Elsewhere),
            ("nvidia-dcgm-exporter-x2x4z", Whence::Unsaid),
            ("", Whence::Unsaid),
        ] {
            assert_eq!(names.whence(Some(label)), wanted, "{label}");
        }
        assert_eq!(names.whence(None), Whence::Unsaid);
    }
}
