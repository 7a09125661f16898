//! What the program says about itself.

use crate::harness::{command, feed, folder, run, told};

#[test]
fn help_of_every_verb() {
    for verb in ["", "plan", "pack", "layouts", "estimate", "lint", "render", "mig", "sim", "completions"] {
        for flag in ["-h", "--help"] {
            let words = [verb, flag].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
            let help = run(&words);
            assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{help}");
            assert!(help.stdout.contains("Examples:"), "{help}");
            insta::assert_snapshot!(format!("help {verb}{flag}"), help);
        }
    }
}

#[test]
fn help_of_every_verb_of_sim() {
    for verb in ["env", "load", "fault", "reset", "show", "run"] {
        let help = run(&["sim", verb, "--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{help}");
        assert!(help.stdout.contains("Examples:"), "{help}");
        insta::assert_snapshot!(format!("help sim {verb}--help"), help);
    }
}

#[test]
fn the_examples_in_the_help_are_understood() {
    // Each line that calls the program is parsed: a word that clap does not know would exit with 2 and say "Usage".
    let folder = folder("help_examples");
    for verb in ["plan", "pack", "layouts", "estimate", "lint", "render", "mig", "sim", "completions"] {
        let help = run(&[verb, "--help"]).stdout;
        let examples = help.split("Examples:").nth(1).unwrap();
        let calls = examples.lines().filter_map(|line| line.split("tesela ").nth(1));
        let calls = calls.filter(|call| call.starts_with(verb)).collect::<Vec<_>>();
        assert!(!calls.is_empty(), "{verb}");
        for call in calls {
            let call = call.split(['|', '>']).next().unwrap();
            let words = words(call);
            let words = words.iter().map(String::as_str).collect::<Vec<_>>();
            let mut command = command(&words);
            // As in a shell that was set up for an emulated node.
            command.current_dir(&folder).env("TESELA_SIM", "node.yaml");
            let answer = told(&words, feed(command, b""));
            assert!(!answer.stderr.contains("Usage:"), "{answer}");
        }
    }
}

/// The words of a shell line, with single quotes.
fn words(call: &str) -> Vec<String> {
    let parts = call.trim().split('\'').enumerate();
    let parts = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.collect()
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = run(&["--version"]);
    assert_eq!(version.stdout, format!("tesela {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_words_the_help_is_shown_and_it_is_wrong_usage() {
    let nothing = run(&[]);
    nothing.refused(&["Usage: tesela", "layouts"]);
}

#[test]
fn usage_errors_exit_with_2_and_name_the_nearest_word() {
    run(&["pakc"]).refused(&["pakc", "pack"]);
    run(&["layouts", "a30-24gb", "--formt", "json"]).refused(&["--formt", "--format"]);
    run(&["layouts", "a30-24gb", "--format", "jsn"]).refused(&["jsn", "json"]);
    run(&["layouts"]).refused(&["PRODUCT"]);
    run(&["layouts", "a30-24gb", "--all", "--profiles", "1g.6gb"]).refused(&["--all", "--profiles"]);
    run(&["plan", "-", "--rows", "0"]).refused(&["--rows", "all"]);
    run(&["layouts", "a30-24gb", "--width", "3"]).refused(&["--width", "60"]);
}

#[cfg(unix)]
#[test]
fn as_a_plugin_of_kubectl_it_goes_by_that_name() {
    let folder = folder("kubectl_name");
    let link = folder.join("kubectl-tesela");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tesela"), &link).unwrap();
    for (words, usage) in
        [(&["-h"][..], "Usage: kubectl tesela "), (&["pack", "-h"], "Usage: kubectl tesela pack ")]
    {
        let mut command = std::process::Command::new(&link);
        command.args(words).env_clear();
        let help = told(words, feed(command, b""));
        assert!(help.stdout.contains(usage), "{help}");
    }
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0));
        for word in ["layouts", "write-demand", "fail-on"] {
            assert!(script.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
    let mut command = command(&["completions", "tcsh"]);
    command.env_clear();
    told(&["completions", "tcsh"], feed(command, b"")).refused(&["tcsh", "bash"]);
}
