//! README and docs tell the truth: what they say the program prints is what it prints, and links lead somewhere.
//!
//! A block that begins with ```` ```console ```` holds commands after `$ ` and their output. A line `…` stands for any
//! lines left out. Commands run in the root of the repository, with the program just built.
//!
//! With `UPDATE_README=1` the pages are written anew: each paragraph that is shown becomes the one of the real output
//! that begins alike, up to the first digit; the first of a block becomes the first. Read the difference.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the program, read pages, and are told by the environment to renew them"
)]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LEFT_OUT: &str = "…";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Markdown files at the root, under `docs` and in the folders of `examples`, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![root(), root().join("docs"), root().join("examples")];
    let examples = std::fs::read_dir(root().join("examples")).unwrap();
    folders.extend(examples.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    let listed = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = listed.map(|entry| entry.unwrap().path());
    let pages = paths.filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut pages =
        pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect::<Vec<_>>();
    pages.sort();
    pages
}

/// A page cut at its fences: text and blocks in turns, each block with its kind.
enum Piece<'a> {
    Text(&'a str),
    Block { kind: &'a str, line: usize, body: Vec<&'a str> },
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        match line.strip_prefix("```") {
            Some(kind) => {
                let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
                found.push(Piece::Block { kind, line: index + 1, body });
            }
            None => found.push(Piece::Text(line)),
        }
    }
    found
}

/// The words behind `tesela` of each program in a pipe that we can run.
fn programs(command: &str) -> Option<Vec<Vec<&str>>> {
    let each = command.split(" | ").map(|one| {
        let own = one.strip_prefix("tesela ");
        let rest = own.or_else(|| one.strip_prefix("cargo run --release -p tesela -- "))?;
        (!rest.contains(['|', '>', '\'', '"', '*', '$'])).then(|| rest.split_whitespace().collect())
    });
    each.collect()
}

/// What a pipe prints. Folders after `--out` are made in a place of our own, which the output does not show.
fn run(programs: &[Vec<&str>]) -> Result<String, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let mut text = String::new();
    for words in programs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tesela"));
        command.current_dir(root()).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (index, word) in words.iter().enumerate() {
            if index > 0 && words[index - 1] == "--out" {
                let _ = std::fs::remove_dir_all(place.join(word));
                command.arg(place.join(word));
            } else {
                command.arg(word);
            }
        }
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = std::mem::take(&mut text);
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let out = child.wait_with_output().unwrap();
        // A program that reads no input may close it before all is written.
        let _ = writer.join().unwrap();
        if !matches!(out.status.code(), Some(0 | 3)) {
            return Err(format!("{}\n{}", out.status, String::from_utf8_lossy(&out.stderr)));
        }
        text = String::from_utf8(out.stdout).unwrap();
    }
    Ok(text.replace(&format!("{}/", place.display()), ""))
}

/// Whether the output is as shown.
fn shows(shown: &[&str], output: &str) -> bool {
    let lines = output.lines().map(str::trim_end).collect::<Vec<_>>();
    let parts = shown.split(|line| *line == LEFT_OUT).collect::<Vec<_>>();
    let (mut at, last) = (0, parts.len() - 1);
    for (index, part) in parts.into_iter().enumerate() {
        let fits = |start: usize| {
            let end = start + part.len();
            let found = lines.get(start..end).is_some_and(|found| found == part);
            found && (index < last || end == lines.len())
        };
        let mut starts = if index > 0 { at..=lines.len() } else { at..=at };
        let Some(start) = starts.find(|start| fits(*start)) else { return false };
        at = start + part.len();
    }
    true
}

/// What is shown, with each paragraph as the output has it now.
fn renewed(shown: &[&str], output: &str) -> Vec<String> {
    let paragraphs = output.split("\n\n").map(|one| one.trim_end_matches('\n')).collect::<Vec<_>>();
    let key = |line: &str| line.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default().to_owned();
    let mut new = Vec::new();
    let mut inside = false;
    for (index, line) in shown.iter().enumerate() {
        if line.is_empty() || *line == LEFT_OUT {
            new.push((*line).to_owned());
            inside = false;
        } else if !inside {
            let alike =
                paragraphs.iter().find(|one| key(one.lines().next().unwrap_or_default()) == key(line));
            let found = if index == 0 { paragraphs.first() } else { alike };
            new.extend(found.unwrap_or(line).lines().map(|line| line.trim_end().to_owned()));
            inside = true;
        }
    }
    new
}

/// Each command of a console block with the lines shown below it.
fn commands<'a>(place: &str, body: &'a [&'a str]) -> Vec<(&'a str, &'a [&'a str])> {
    let starts = (0..body.len()).filter(|i| body[*i].starts_with("$ ")).collect::<Vec<_>>();
    assert_eq!(starts.first(), Some(&0), "{place}: a console block begins with `$ ` and a command");
    let ends = starts.iter().skip(1).copied().chain([body.len()]);
    starts.iter().zip(ends).map(|(start, end)| (&body[*start][2..], &body[start + 1..end])).collect()
}

#[test]
fn shown_outputs_are_real() {
    let update = std::env::var_os("UPDATE_README").is_some();
    let mut ran = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        let mut page = String::new();
        for piece in pieces(&text) {
            match piece {
                Piece::Text(line) => writeln!(page, "{line}").unwrap(),
                Piece::Block { kind, body, .. } if kind != "console" => {
                    writeln!(page, "```{kind}\n{}\n```", body.join("\n")).unwrap();
                }
                Piece::Block { line, body, .. } => {
                    let place = format!("{}:{line}", path.file_name().unwrap().to_string_lossy());
                    writeln!(page, "```console").unwrap();
                    for (command, shown) in commands(&place, &body) {
                        let Some(programs) = programs(command) else {
                            panic!("{place}: cannot run `{command}`")
                        };
                        let output = run(&programs).unwrap_or_else(|e| panic!("{place}: `{command}`: {e}"));
                        if !shows(shown, &output) {
                            wrong.push(format!("{place}: `{command}` prints\n{output}"));
                        }
                        ran.extend(programs.iter().map(|words| words[0].to_owned()));
                        writeln!(page, "$ {command}\n{}", renewed(shown, &output).join("\n")).unwrap();
                    }
                    writeln!(page, "```").unwrap();
                }
            }
        }
        if update && page != text {
            std::fs::write(path, page).unwrap();
        }
    }
    assert!(update || wrong.is_empty(), "not as shown (UPDATE_README=1 renews):\n{}", wrong.join("\n"));
    for verb in ["plan", "pack", "layouts", "estimate", "lint", "render"] {
        assert!(ran.contains(verb), "no page shows what `tesela {verb}` prints");
    }
}

#[test]
fn what_is_left_out_is_marked() {
    let output = "a\nb\nc\nd\n";
    for right in ["a|b|c|d", "a|…|d", "…|b|…|d", "a|b|…", "…|d", "…"] {
        assert!(shows(&right.split('|').collect::<Vec<_>>(), output), "{right}");
    }
    for wrong in ["a|b", "a|c|…", "b|…", "a|…|c", "…|c|b|…", "a|…|x|…"] {
        assert!(!shows(&wrong.split('|').collect::<Vec<_>>(), output), "{wrong}");
    }
}

#[test]
fn paragraphs_are_renewed_by_their_beginning() {
    let output = "Today 5\nmore\n\nFindings (3)\nx\ny\n\nProof\nz\n";
    let shown = ["Today 4", "", "…", "Proof", "old", "older", "…"];
    assert_eq!(renewed(&shown, output), ["Today 5", "more", "", "…", "Proof", "z", "…"]);
}

#[test]
fn the_readme_sets_up_with_two_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let pieces = pieces(&readme);
    let shell = pieces.iter().find_map(|piece| match piece {
        Piece::Block { kind: "sh", body, .. } => Some(body),
        _ => None,
    });
    let [main, test] = shell.unwrap()[..] else { panic!("{shell:?}") };
    assert!(programs(main).is_some(), "{main}");
    assert!(ci.trim_end().ends_with(&format!("exec {test}")), "{test}");
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for (path, text) in pages() {
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let (file, _) = target.split_once('#').unwrap_or((target, ""));
            let elsewhere = target.contains("://") || file.is_empty();
            if !elsewhere && !path.parent().unwrap().join(file).exists() {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
