//! Tasks of the repository: `cargo xtask generate [--check]`.

mod cli_reference;
mod profiles;
mod reference;
mod schema;

use std::path::Path;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate"] => generate(&root, false),
        ["generate", "--check"] => generate(&root, true),
        _ => bail!("usage: cargo xtask generate [--check]"),
    }
}

/// Writes everything that is generated, or with `check` says what is stale.
fn generate(root: &Path, check: bool) -> Result<()> {
    profiles::generate(root, check)?;
    schema::generate(root, check)?;
    reference::generate(root, check)?;
    cli_reference::generate(root, check)
}
