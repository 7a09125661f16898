//! Machine files: a node with emulated GPUs, in YAML or JSON.
//!
//! ```yaml
//! gpus:
//!   - {product: h100-sxm-80gb, count: 8}
//!   - product: a100-40gb
//!     mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]
//!     processes: [{pid: 4321, name: python, memory_mib: 2000, instance: 0}]
//! ```
//!
//! Strict as our documents are, though without an envelope: what the simulated driver could not hold is refused here, at
//! its line, with the rule it breaks.

mod check;
pub(crate) mod wire;

use tesela_model::machine::Machine;
use tesela_model::product::ProductTable;

use self::wire::MachineSpec;
use crate::de::{self, Options, Place};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::tree;

const PLACES: &[Place] = &[
    at("answers", "in_use_after_destroy"),
    at("busy", "gpus[].processes[]"),
    at("clients", "gpus[]"),
    at("compute", "gpus[].mig[]"),
    at("compute", "gpus[].processes[]"),
    at("count", "gpus[]"),
    at("driver", "the top"),
    at("health", "gpus[]"),
    at("in_use_after_destroy", "the top"),
    at("instance", "gpus[].processes[]"),
    at("latency", "the top"),
    at("memory_mib", "gpus[].processes[]"),
    at("mig", "gpus[]"),
    at("milliseconds", "in_use_after_destroy"),
    at("passthrough", "gpus[]"),
    at("pci", "gpus[]"),
    at("pid", "gpus[].processes[]"),
    at("processes", "gpus[]"),
    at("product", "gpus[]"),
    at("profile", "gpus[].mig[]"),
    at("seed", "the top"),
    at("serial", "gpus[]"),
    at("start", "gpus[].mig[]"),
    at("uuid", "gpus[]"),
];

const fn at(field: &'static str, belongs: &'static str) -> Place {
    Place { field, belongs }
}

/// Reads a machine file. `name` is what messages call the text; products are those of the built-in table.
///
/// # Errors
/// Everything found wrong. Beside the rules of [`crate::tree`] and [`crate::de`]: `not-a-document`, `contradiction`,
/// `duplicate-name`, `invalid-value`, `unknown-product`, `no-placements`, `unknown-profile`, `impossible-layout`.
pub fn read_machine(name: &str, bytes: &[u8]) -> Result<Machine, Diagnostics> {
    let trees = tree::read_documents(name, bytes)?;
    let [tree] = trees.as_slice() else {
        let message = format!("a machine file holds one document, this one holds {}", trees.len());
        return Err(Diagnostic::error(name, "not-a-document", message)
            .fix("write `gpus:` and what is plugged in, such as `- {product: h100-sxm-80gb, count: 8}`")
            .into());
    };
    let spec: MachineSpec = de::from_tree(tree, Options { places: PLACES, ..Options::default() })?;
    check::machine(name, &spec, ProductTable::builtin())
}
