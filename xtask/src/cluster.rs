//! `cargo xtask cluster --nodes N --pods M --seed S`: what `kubectl get nodes,pods -A -o json` prints of a large
//! made-up cluster, on standard output. For benchmarks: same arguments, same bytes.
//!
//! Objects are as large as real ones: images and conditions on nodes, managed fields, volumes, probes and
//! environment on pods, and kubectl's indentation. Memory does not grow with the number of pods.

mod node;
mod pod;

use std::io::{BufWriter, Write};

use anyhow::{Context as _, Result, bail};
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use self::node::{NODE_KINDS, Stock};

/// Size and seed of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    nodes: u64,
    pods: u64,
    seed: u64,
}

/// Runs the task with the words behind `cluster`.
#[expect(clippy::disallowed_methods, reason = "xtask writes to its own standard output")]
pub(crate) fn run(words: &[String]) -> Result<()> {
    let size = parse(words)?;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    write_cluster(size, &mut out)?;
    out.flush().context("writing the cluster")
}

/// Writes the cluster that the words ask for to a file.
pub(crate) fn write_to(file: &std::path::Path, words: &[String]) -> Result<()> {
    let size = parse(words)?;
    let created = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, created);
    write_cluster(size, &mut out)?;
    out.flush().with_context(|| format!("cannot write {}", file.display()))
}

fn parse(words: &[String]) -> Result<Size> {
    let mut size = Size { nodes: 5_000, pods: 50_000, seed: 1 };
    for pair in words.chunks(2) {
        let [flag, value] = pair else {
            bail!("usage: cargo xtask cluster [--nodes N] [--pods M] [--seed S]")
        };
        let value = value.parse().with_context(|| format!("{flag} {value}: a whole number is needed"))?;
        match flag.as_str() {
            "--nodes" => size.nodes = value,
            "--pods" => size.pods = value,
            "--seed" => size.seed = value,
            _ => bail!("unknown flag {flag}: --nodes, --pods and --seed are known"),
        }
    }
    if size.nodes == 0 {
        bail!("--nodes must be at least 1: pods run on nodes");
    }
    Ok(size)
}

/// Writes the list, one object after the other.
fn write_cluster(size: Size, out: &mut impl Write) -> Result<()> {
    let mut random = Random(size.seed);
    let mut stocks = Vec::new();
    out.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [")?;
    let mut first = true;
    for index in 0..size.nodes {
        let kind = &NODE_KINDS[usize::try_from(index % node::CYCLE)?.min(NODE_KINDS.len() - 1)];
        write_item(out, &node::object(index, kind, &mut random), &mut first)?;
        stocks.push(Stock::of(index, kind));
    }
    for index in 0..size.pods {
        write_item(out, &pod::object(index, &mut stocks, &mut random), &mut first)?;
    }
    out.write_all(
        b"\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n",
    )?;
    Ok(())
}

/// One item, indented as kubectl does.
fn write_item(out: &mut impl Write, object: &Value, first: &mut bool) -> Result<()> {
    let mut text = Vec::new();
    object.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    ")))?;
    let mut lead: &[u8] = if std::mem::take(first) { b"\n        " } else { b",\n        " };
    for line in text.split(|b| *b == b'\n') {
        out.write_all(lead)?;
        out.write_all(line)?;
        lead = b"\n        ";
    }
    Ok(())
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is at least 1.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// One of several, never empty.
    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(u64::try_from(choices.len()).unwrap_or(1))).unwrap_or(0);
        &choices[index]
    }

    /// A UUID's form.
    fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xFFFF,
            a & 0xFFF,
            b >> 52,
            b & 0xFFFF_FFFF_FFFF
        )
    }

    /// Lower-case letters and digits as pod names have them.
    fn word(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).map(|_| char::from(*self.one_of(LETTERS))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_json_and_the_same_twice() {
        let size = Size { nodes: 20, pods: 200, seed: 7 };
        let write = || {
            let mut out = Vec::new();
            write_cluster(size, &mut out).unwrap();
            out
        };
        let text = write();
        assert_eq!(text, write());
        let list: Value = serde_json::from_slice(&text).unwrap();
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 220);
        let bytes = text.len() / items.len();
        // What kubectl prints of a pod with its managed fields is 5 to 15 kB.
        assert!((4_000..16_000).contains(&bytes), "{bytes} bytes per object");
    }

    #[test]
    fn flags_are_read() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("--nodes 3 --seed 9")).unwrap(), Size { nodes: 3, pods: 50_000, seed: 9 });
        for wrong in ["--nodes", "--nodes x", "--what 3", "--nodes 0"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
