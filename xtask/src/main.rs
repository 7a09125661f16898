//! Tasks of the repository: `cargo xtask generate [--check]`.

mod profiles;

use std::path::Path;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let words = std::env::args().skip(1).collect::<Vec<_>>();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate"] => profiles::generate(&root, false),
        ["generate", "--check"] => profiles::generate(&root, true),
        _ => bail!("usage: cargo xtask generate [--check]"),
    }
}
