//! Runs the program and keeps all that it says.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A run of the program.
pub(crate) struct Run {
    words: String,
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// All of it, for snapshots.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ tesela {}", self.words)?;
        writeln!(f, "exit {}", self.code.map_or("by signal".into(), |c| c.to_string()))?;
        writeln!(f, "--- stdout\n{}--- stderr\n{}", self.stdout, self.stderr)
    }
}

impl Run {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert!(self.code == Some(0) || self.code == Some(3), "{self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// A refusal: exit code 2, nothing on standard output, and each of these on standard error.
    pub(crate) fn refused(&self, mentions: &[&str]) {
        assert_eq!(self.code, Some(2), "{self}");
        assert_eq!(self.stdout, "", "{self}");
        let said = self.stderr.to_lowercase();
        for mention in mentions {
            assert!(said.contains(&mention.to_lowercase()), "{mention:?} is not said: {self}");
        }
        assert!(!said.contains("panicked"), "{self}");
    }
}

/// The program with no settings of whoever runs the tests.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tesela"));
    command.args(words).current_dir(data()).env_clear();
    command
}

/// Runs the program in the folder of the test data, with nothing on standard input.
pub(crate) fn run(words: &[&str]) -> Run {
    run_with(words, b"")
}

/// Runs the program with a text on standard input.
pub(crate) fn run_with(words: &[&str], stdin: &[u8]) -> Run {
    told(words, feed(command(words), stdin))
}

/// Runs the program in a folder.
pub(crate) fn run_in(folder: &Path, words: &[&str]) -> Run {
    let mut command = command(words);
    command.current_dir(folder);
    told(words, feed(command, b""))
}

pub(crate) fn told(words: &[&str], output: Output) -> Run {
    Run {
        words: words.join(" "),
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command with a text on its standard input.
pub(crate) fn feed(mut command: Command, stdin: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let feeder = std::thread::spawn(move || {
        // A program that refuses early does not read to the end.
        let _ = pipe.write_all(&stdin);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

/// The folder of the test data.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// An empty folder of this test's own.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
