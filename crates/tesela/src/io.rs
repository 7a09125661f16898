//! The only place that opens files and standard input, and that writes files.
//!
//! Standard output and standard error belong to [`crate::printer`].

use std::fs;
use std::io::{self, BufReader, IsTerminal as _, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// The largest document of ours or of NVIDIA's that is read (DESIGN 4, YAML above 16 MiB is refused).
pub(crate) const MOST_BYTES: u64 = 16 << 20;

/// An open input.
pub(crate) struct Input {
    /// As the user called it; `-` for standard input.
    pub(crate) name: String,
    /// Its bytes, buffered.
    pub(crate) reader: Box<dyn Read>,
}

/// Opens a file, or standard input for `-`.
///
/// # Errors
/// When it is a folder, is not there, may not be read, or standard input is a terminal.
#[expect(clippy::disallowed_methods, reason = "this is the module that opens files and standard input")]
pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
    let name = path.display().to_string();
    if name == "-" {
        if io::stdin().is_terminal() {
            return Err(Failure::input("-: standard input is the terminal, nothing is piped in")
                .hint("pipe something in, such as: kubectl get nodes,pods -A -o json | tesela plan -"));
        }
        return Ok(Input { name, reader: Box::new(BufReader::with_capacity(1 << 16, io::stdin())) });
    }
    let refuse = |error: io::Error| unreadable(&name, &error);
    let file = fs::File::open(path).map_err(refuse)?;
    if file.metadata().map_err(refuse)?.is_dir() {
        return Err(Failure::input(format!("{name}: is a folder, not a file"))
            .hint(format!("name the files in it, such as {}", path.join("*.yaml").display())));
    }
    Ok(Input { name, reader: Box::new(BufReader::with_capacity(1 << 16, file)) })
}

/// The length of a file; `None` for standard input and for what is no file.
pub(crate) fn length_of(path: &Path) -> Option<u64> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    file.filter(|_| path.as_os_str() != "-").map(|file| file.len())
}

/// The names of the files in a folder, in bytewise order; `None` when the path is no folder.
///
/// # Errors
/// When the folder may not be read.
pub(crate) fn files_in(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    if !path.is_dir() || path.as_os_str() == "-" {
        return Ok(None);
    }
    let refuse = |error: io::Error| unreadable(&path.display().to_string(), &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(refuse)? {
        let file = entry.map_err(refuse)?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(Some(files))
}

/// The names in a folder of the node, in bytewise order; none where it is not there or may not be read.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>();
    names.sort();
    names
}

/// The beginning of a small file of the node, such as one under /proc; `None` where it cannot be read.
#[expect(clippy::disallowed_methods, reason = "this is the module that opens files")]
pub(crate) fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(4096).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What is wrong when a file cannot be opened or read.
pub(crate) fn unreadable(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::input(format!("{name}: there is no such file")),
        io::ErrorKind::PermissionDenied => Failure::input(format!("{name}: no permission to read it"))
            .hint("run as a user who may read it, or pipe it in and name it `-`"),
        io::ErrorKind::IsADirectory => Failure::input(format!("{name}: is a folder, not a file")),
        _ => Failure::input(format!("{name}: cannot be read: {error}")),
    }
}

/// Reads all of an input.
///
/// # Errors
/// When it holds more than [`MOST_BYTES`], or reading fails.
pub(crate) fn read_all(input: Input) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let Input { name, reader } = input;
    reader.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&name, &error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::input(format!(
            "{name}: is larger than 16 MiB, which no document of this kind is"
        )));
    }
    Ok(bytes)
}

/// What to do when a file to be written exists with other content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Refuse.
    Keep,
    /// Replace it.
    Replace,
}

/// Writes a file as a whole or not at all. A file that already has this content is left alone.
///
/// # Errors
/// When another file is in the way and may not be replaced, or writing fails.
pub(crate) fn write(path: &Path, text: &str, existing: Existing) -> Result<(), Failure> {
    if existing == Existing::Keep {
        refuse_to_replace(path, text)?;
    }
    put(path, text, false)
}

/// A file to be written into a folder.
pub(crate) struct NewFile {
    /// Relative to the folder.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
    /// Whether it is a program.
    pub(crate) executable: bool,
}

/// Writes files into a folder, each as a whole or not at all. Nothing is written when one of them is in the way.
/// Files of the folder that are not among them are left alone.
///
/// # Errors
/// When a name leads out of the folder, another file is in the way and may not be replaced, or writing fails.
pub(crate) fn write_folder(folder: &Path, files: &[NewFile], existing: Existing) -> Result<(), Failure> {
    for file in files {
        if !file.path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Failure::program(format!(
                "{}: leads out of {}",
                file.path.display(),
                folder.display()
            )));
        }
        if existing == Existing::Keep {
            refuse_to_replace(&folder.join(&file.path), &file.text)?;
        }
    }
    for file in files {
        put(&folder.join(&file.path), &file.text, file.executable)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this is the module that reads files")]
fn refuse_to_replace(path: &Path, text: &str) -> Result<(), Failure> {
    match fs::read(path) {
        Ok(found) if found == text.as_bytes() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(Failure::input(format!(
            "{}: exists and has another content; it was not touched",
            path.display()
        ))
        .hint("name another place, or replace it with --force")),
        Err(error) => Err(unwritable(path, &error)),
    }
}

/// A file beside the target is written in full and then takes its name, so that nobody ever sees half of it.
#[expect(clippy::disallowed_methods, reason = "this is the module that writes files")]
fn put(path: &Path, text: &str, executable: bool) -> Result<(), Failure> {
    let refuse = |error: io::Error| unwritable(path, &error);
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(refuse)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = fs::File::create(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            if executable {
                make_executable(&file)?;
            }
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        // The half-written file is ours; that it cannot be removed changes nothing about the failure.
        let _ = fs::remove_file(&part);
        unwritable(path, &error)
    })
}

/// Mode 0755, where files have modes.
fn make_executable(file: &fs::File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::program(format!("{}: cannot be written: {error}", path.display()))
}

/// A path that does not depend on the folder this program runs in.
///
/// # Errors
/// When there is nothing at it.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|error| unreadable(&path.display().to_string(), &error))
}

/// This program's own file, links followed.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let told = std::env::current_exe().and_then(fs::canonicalize);
    told.map_err(|error| Failure::program(format!("this program's own file cannot be found: {error}")))
}

/// Makes a symbolic link, and its folder; another link of that name is replaced, another file is not.
///
/// # Errors
/// When a file is in the way, or it cannot be made.
#[expect(clippy::disallowed_methods, reason = "this is the module that writes files")]
pub(crate) fn link(path: &Path, target: &Path) -> Result<(), Failure> {
    let refuse = |error: io::Error| unwritable(path, &error);
    if fs::read_link(path).is_ok_and(|found| found == target) {
        return Ok(());
    }
    if path.is_symlink() {
        fs::remove_file(path).map_err(refuse)?;
    } else if path.exists() {
        return Err(Failure::input(format!("{}: is in the way and no link of ours", path.display()))
            .hint("move it away"));
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(refuse)?;
    }
    std::os::unix::fs::symlink(target, path).map_err(refuse)
}

/// Whether this program runs as root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Where the loader looks for libraries first, if anywhere.
#[expect(clippy::disallowed_methods, reason = "a convention of the loader, not a setting of ours")]
pub(crate) fn library_path() -> Option<std::ffi::OsString> {
    std::env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty())
}

/// What the environment says about colour and width, and nothing else of it.
pub(crate) struct Environment {
    /// `NO_COLOR` is set and not empty (no-color.org).
    pub(crate) no_color: bool,
    /// `TERM` is `dumb`.
    pub(crate) dumb: bool,
    /// `COLUMNS`, where it is a number.
    pub(crate) columns: Option<usize>,
}

/// Reads the three variables.
#[expect(clippy::disallowed_methods, reason = "conventions of terminals, not settings of ours")]
pub(crate) fn environment() -> Environment {
    let value = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    Environment {
        no_color: value("NO_COLOR").is_some(),
        dumb: value("TERM").is_some_and(|v| v == "dumb"),
        columns: value("COLUMNS").and_then(|v| v.to_str().and_then(|v| v.trim().parse().ok())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_not_to_read_is_told() {
        let told = |kind: io::ErrorKind| unreadable("a.json", &io::Error::from(kind)).to_string();
        assert!(
            told(io::ErrorKind::PermissionDenied)
                .starts_with("error: a.json: no permission to read it\nhint: ")
        );
        assert_eq!(told(io::ErrorKind::NotFound), "error: a.json: there is no such file\n");
        assert!(told(io::ErrorKind::TimedOut).contains("a.json: cannot be read: "));
    }

    #[test]
    fn no_file_leads_out_of_the_folder() {
        for path in ["../x", "/x", "a/../../x", "."] {
            let file = NewFile { path: path.into(), text: String::new(), executable: false };
            let refusal = write_folder(Path::new("no-such-folder"), &[file], Existing::Replace);
            assert!(refusal.is_err_and(|f| f.to_string().contains("leads out of")), "{path}");
        }
    }
}
