//! `tesela sim run`: a program among the emulated driver's files.

use std::ffi::OsString;

use nvml_sim::environment::MACHINE;

use super::env;
use crate::cli::sim::SimRun;
use crate::failure::{Failure, Outcome};
use crate::{io, start};

/// Mounts what is there in the tree over the machine's own, for this process and what it starts, then becomes the
/// program. A file that the kernel does not have cannot be mounted over.
const SCRIPT: &str = r#"
set -e
tree=$1
shift
for path in proc/driver proc/modules proc/devices sys/bus/pci; do
  if [ -e "/$path" ]; then
    mount --bind "$tree/$path" "/$path"
  else
    echo "tesela: this kernel has no /$path, so programs do not find the emulated one" >&2
  fi
done
exec "$@"
"#;

/// Renders the files and becomes the program.
///
/// # Errors
/// A wrong machine file, no library, or no `unshare`.
pub(super) fn run(words: &SimRun) -> Result<Outcome, Failure> {
    let settings = env::settings(&words.machine, words.library.as_deref())?;
    let tree = super::node(&words.machine)?.render_tree().map_err(super::refused)?;
    let mut line: Vec<OsString> = vec!["unshare".into(), "--mount".into()];
    if !io::is_root() {
        line.push("--map-root-user".into());
    }
    line.extend(["--", "sh", "-c", SCRIPT, "tesela-sim-run"].map(OsString::from));
    line.push(tree.into());
    line.extend(words.program.iter().cloned());
    let mut path = settings.folder.into_os_string();
    if let Some(before) = io::library_path() {
        path.push(":");
        path.push(before);
    }
    let variables = [(MACHINE, settings.machine.into_os_string()), ("LD_LIBRARY_PATH", path)];
    let error = start::become_program(&line, &variables);
    Err(Failure::program(format!("unshare: cannot be started: {error}"))
        .hint("install util-linux, or use `tesela sim env` for programs that need no files of the driver"))
}
