//! Writes the functions that the emulated driver exports and does not have, from `data/functions.tsv`, and names the
//! library as programs look for it.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "a build script reads and writes files")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=data/functions.tsv");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    let table = std::fs::read_to_string("data/functions.tsv")?;
    let mut code = String::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns = line.split('\t').collect::<Vec<_>>();
        let [name, .., answer] = columns[..] else {
            return Err(format!("no row of the table: {line}").into());
        };
        match answer {
            "full" => {}
            "-" => write!(
                code,
                "/// Not supported.\n#[unsafe(no_mangle)]\npub(crate) extern \"C\" fn {name}() -> \
                 crate::live::Reply {{ crate::live::not_supported() }}\n\n"
            )?,
            other => return Err(format!("{name}: the answer is `full` or `-`, not {other:?}").into()),
        }
    }
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("unsupported.rs"), code)?;
    Ok(())
}
