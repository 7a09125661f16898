//! `data/cloud-prices.yaml` of tesela-model → `src/cloud/builtin.rs`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

const SOURCE: &str = "crates/tesela-model/data/cloud-prices.yaml";
const TARGET: &str = "crates/tesela-model/src/cloud/builtin.rs";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema_version: u32,
    lists: Vec<List>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    provider: String,
    region: String,
    currency: String,
    as_of: String,
    source: String,
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    name: String,
    product: String,
    gpus: u32,
    gpu_memory_mib: Option<u64>,
    hourly: String,
}

/// Writes the lists, or with `check` fails when the committed ones are stale. `root` is the repository's.
///
/// # Errors
/// When the data file cannot be read, an entry is malformed, or the lists are stale.
#[expect(clippy::disallowed_methods, reason = "xtask writes what is generated")]
pub(crate) fn generate(root: &Path, check: bool) -> Result<()> {
    let text = std::fs::read_to_string(root.join(SOURCE)).with_context(|| format!("cannot read {SOURCE}"))?;
    let wanted = render(&text).with_context(|| format!("in {SOURCE}"))?;
    let target = root.join(TARGET);
    if std::fs::read_to_string(&target).unwrap_or_default() == wanted {
        return Ok(());
    }
    if check {
        bail!("{TARGET} is stale: run `cargo xtask generate` and commit the result");
    }
    std::fs::write(&target, wanted).with_context(|| format!("cannot write {TARGET}"))
}

fn render(text: &str) -> Result<String> {
    let document: Document = serde_saphyr::from_str(text)?;
    ensure!(document.schema_version == 1, "schema_version is {}, not 1", document.schema_version);
    let mut out = format!(
        "//! Generated from `{SOURCE}` by `cargo xtask generate`. Do not edit.\n\n\
         use super::{{CloudInstance, CloudList, Provider}};\nuse crate::quantity::{{Mib, Micros}};\n\n\
         #[rustfmt::skip]\npub(super) static LISTS: &[CloudList] = &[\n"
    );
    for list in &document.lists {
        let provider = match list.provider.as_str() {
            "aws" => "Aws",
            "azure" => "Azure",
            other => bail!("provider `{other}` is not aws or azure"),
        };
        writeln!(out, "    CloudList {{")?;
        writeln!(out, "        provider: Provider::{provider},\n        region: {:?},", list.region)?;
        writeln!(out, "        currency: {:?},\n        as_of: {:?},", list.currency, list.as_of)?;
        writeln!(out, "        source: {:?},\n        instances: &[", list.source)?;
        for instance in &list.instances {
            let Instance { name, product, gpus, gpu_memory_mib, hourly } = instance;
            ensure!(*gpus > 0, "{name} has no GPUs");
            let hourly = micros(hourly).with_context(|| format!("price of {name}"))?;
            let memory = gpu_memory_mib.map_or("None".to_owned(), |m| format!("Some(Mib({m}))"));
            writeln!(
                out,
                "            CloudInstance {{ name: {name:?}, product: {product:?}, gpus: {gpus}, gpu_memory: {memory}, \
                 hourly: Micros({hourly}) }},"
            )?;
        }
        writeln!(out, "        ],\n    }},")?;
    }
    out.push_str("];\n");
    Ok(out)
}

/// `21.957642` → 21957642.
fn micros(text: &str) -> Result<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    ensure!(fraction.len() <= 6, "`{text}` has more than six decimals");
    let value: i64 =
        format!("{whole}{fraction:0<6}").parse().with_context(|| format!("`{text}` is no amount"))?;
    ensure!(value > 0, "`{text}` is not above 0");
    Ok(value)
}
