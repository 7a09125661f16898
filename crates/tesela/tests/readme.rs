//! README and docs tell the truth: what they say the program prints is what it prints, and links lead somewhere.
//!
//! A block that begins with ```` ```console ```` holds commands after `$ ` and their output. A line `…` stands for any
//! lines left out. Commands run in the root of the repository, with the program just built.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const LEFT_OUT: &str = "…";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Markdown files at the root and under `docs` and `examples`, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![root(), root().join("docs"), root().join("examples")];
    let examples = std::fs::read_dir(root().join("examples")).unwrap();
    folders.extend(examples.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
    let listed = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths =
        listed.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut pages =
        paths.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect::<Vec<_>>();
    pages.sort();
    pages
}

/// Fenced blocks of a kind, each with the line it begins on.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<(usize, Vec<&'a str>)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(opened) = line.strip_prefix("```") {
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            if opened == kind {
                found.push((index + 1, body));
            }
        }
    }
    found
}

/// The words behind `tesela` of a command that we can run.
fn words(command: &str) -> Option<Vec<&str>> {
    let rest = command
        .strip_prefix("cargo run --release -p tesela -- ")
        .or_else(|| command.strip_prefix("tesela "))?;
    (!rest.contains(['|', '>', '\'', '"', '*', '$'])).then(|| rest.split_whitespace().collect())
}

/// Whether the output is as shown.
fn shows(shown: &[&str], output: &str) -> bool {
    let lines = output.lines().map(str::trim_end).collect::<Vec<_>>();
    let parts = shown.split(|line| line.trim() == LEFT_OUT).collect::<Vec<_>>();
    let (mut at, last) = (0, parts.len() - 1);
    for (index, part) in parts.into_iter().enumerate() {
        let same = |start: usize| {
            let wanted = part.iter().map(|line| line.trim_end());
            lines.get(start..start + part.len()).is_some_and(|found| wanted.eq(found.iter().copied()))
        };
        let free = index > 0;
        let anchored_at_end = index == last;
        let ends = |start: &usize| !anchored_at_end || start + part.len() == lines.len();
        let starts = if free { at..=lines.len() } else { at..=at };
        let Some(start) = starts.filter(ends).find(|start| same(*start)) else { return false };
        at = start + part.len();
    }
    true
}

#[test]
fn shown_outputs_are_real() {
    let mut ran = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for (line, block) in blocks(&text, "console") {
            let place = format!("{}:{line}", path.file_name().unwrap().to_string_lossy());
            let starts = (0..block.len()).filter(|i| block[*i].starts_with("$ ")).collect::<Vec<_>>();
            assert_eq!(starts.first(), Some(&0), "{place}: a console block begins with `$ ` and a command");
            for (index, start) in starts.iter().enumerate() {
                let end = starts.get(index + 1).copied().unwrap_or(block.len());
                let command = block[*start].trim_start_matches("$ ");
                let Some(words) = words(command) else { panic!("{place}: cannot run `{command}`") };
                let out = Command::new(env!("CARGO_BIN_EXE_tesela"))
                    .args(&words)
                    .current_dir(root())
                    .env_clear()
                    .output()
                    .unwrap();
                assert!(matches!(out.status.code(), Some(0 | 3)), "{place}: `{command}` {out:?}");
                let output = String::from_utf8(out.stdout).unwrap();
                if !shows(&block[start + 1..end], &output) {
                    wrong.push(format!("{place}: `{command}` prints\n{output}"));
                }
                ran.insert(words.first().copied().unwrap_or_default().to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "not as shown:\n{}", wrong.join("\n"));
    for verb in ["plan", "pack", "layouts", "lint", "render"] {
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
fn the_readme_names_two_commands_that_exist() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let set_up = &blocks(&readme, "sh")[0].1;
    assert_eq!(set_up.len(), 2, "{set_up:?}");
    assert!(words(set_up[0]).is_some(), "{set_up:?}");
    assert!(ci.trim_end().ends_with(&format!("exec {}", set_up[1])), "{set_up:?}");
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
