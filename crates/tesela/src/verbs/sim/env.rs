//! `tesela sim env`: what sets a shell up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nvml_sim::environment::MACHINE;

use crate::cli::sim::SimEnv;
use crate::failure::{Failure, Outcome};
use crate::io;
use crate::printer::Printer;
use crate::table::words::shell;

/// The name programs load the library by.
const SONAME: &str = "libnvidia-ml.so.1";
/// Names of the emulated library: as it is installed, and as cargo builds it.
const NAMES: [&str; 2] = [SONAME, "libnvml_sim.so"];

/// Checks the machine file, gives the library its name, and prints what sets the shell up.
///
/// # Errors
/// A wrong machine file, no library.
pub(super) fn run(words: &SimEnv, printer: &Printer) -> Result<Outcome, Failure> {
    let settings = settings(&words.machine, words.library.as_deref())?;
    let machine = text(settings.machine.as_os_str())?;
    let folder = text(settings.folder.as_os_str())?;
    let lines = format!(
        "export {MACHINE}={}\nexport LD_LIBRARY_PATH={}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n",
        shell(&machine),
        shell(&folder)
    );
    printer.text(lines.as_bytes())?;
    Ok(Outcome::Done)
}

/// What programs need to find an emulated node.
pub(super) struct Settings {
    /// The machine file, absolute.
    pub(super) machine: PathBuf,
    /// The folder in which the library has its name.
    pub(super) folder: PathBuf,
}

/// Checks the machine file, and gives the library its name in a folder beside it.
///
/// # Errors
/// As [`run`].
pub(super) fn settings(machine: &Path, library: Option<&Path>) -> Result<Settings, Failure> {
    super::node(machine)?;
    let machine = io::absolute(machine)?;
    let library = match library {
        Some(file) => io::absolute(file)?,
        None => beside_program()?,
    };
    let mut folder = machine.as_os_str().to_owned();
    folder.push(".lib");
    let folder = PathBuf::from(folder);
    io::link(&folder.join(SONAME), &library)?;
    Ok(Settings { machine, folder })
}

/// The library beside this program, or in the folder for libraries of an installation.
fn beside_program() -> Result<PathBuf, Failure> {
    let program = io::program()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let folders = [folder.to_owned(), folder.join("../lib/tesela"), folder.join("../lib")];
    let all = folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    let found = all.into_iter().find(|file| file.is_file());
    let missing = || {
        Failure::program(format!("the emulated library is not in {}", folder.display()))
            .hint("build it with `cargo build --release -p nvml-sim`, or name it with --library FILE")
    };
    io::absolute(&found.ok_or_else(missing)?)
}

/// A path that a shell can be told.
fn text(path: &std::ffi::OsStr) -> Result<String, Failure> {
    let text = path.to_owned().into_string();
    text.map_err(|path: OsString| {
        Failure::input(format!("{}: is no UTF-8, which a shell needs", path.display()))
    })
}
