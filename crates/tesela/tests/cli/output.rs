//! Rules of all output: streams, colour, characters, closed pipes.

use std::process::Stdio;

use crate::harness::{command, run, told};

#[test]
fn colour_only_where_it_is_asked_for() {
    let escapes = |words: &[&str]| run(words).stdout.contains('\u{1b}');
    assert!(!escapes(&["layouts", "a30-24gb"]), "standard output is no terminal");
    assert!(escapes(&["layouts", "a30-24gb", "--color", "always"]));
    assert!(!escapes(&["layouts", "a30-24gb", "--color", "always", "--format", "json"]));
}

#[test]
fn colour_adds_nothing_to_what_is_said() {
    let words = ["plan", "cluster.json", "needs.yaml", "--prices", "prices.yaml"];
    let plain = run(&words).stdout;
    let coloured = run(&[&words[..], &["--color", "always"]].concat()).stdout;
    let mut parts = coloured.split('\u{1b}');
    let mut bare = parts.next().unwrap().to_owned();
    bare.extend(parts.map(|part| part.split_once('m').unwrap().1));
    let trimmed = bare.lines().map(|l| format!("{}\n", l.trim_end())).collect::<String>();
    assert_eq!(trimmed, plain);
}

#[test]
fn ascii_means_ascii() {
    for words in [
        &["layouts", "a30-24gb"][..],
        &["pack", "--product", "h100-sxm-80gb", "--profiles", "1g.10gb=9,3g.40gb=2"],
        &["plan", "cluster.json", "needs.yaml", "--prices", "prices.yaml"],
        &["plan", "fleet.yaml", "too-much.yaml"],
        &["lint", "plugin.yaml", "parted.yaml"],
    ] {
        let told = run(&[words, &["--ascii"]].concat());
        let strange = told.stdout.chars().filter(|c| !c.is_ascii()).collect::<String>();
        assert_eq!(strange, "", "{told}");
    }
}

#[test]
fn tables_keep_to_the_width() {
    for width in [80, 100, 140] {
        for words in [
            &["plan", "cluster.json", "needs.yaml", "--prices", "prices.yaml"][..],
            &["plan", "cluster.json"],
            &["plan", "fleet.yaml", "too-much.yaml"],
            &["layouts", "h100-sxm-80gb"],
            &["lint", "plugin.yaml", "parted.yaml"],
        ] {
            let told = run(&[words, &["--width", &width.to_string()]].concat());
            for line in told.stdout.lines().filter(|l| l.chars().count() > width) {
                // A word that cannot be broken may stand out: a command, a tile row of many kinds.
                assert!(!line.trim().contains(' ') || line.contains('×'), "{width}: {line}");
            }
        }
    }
}

#[test]
fn whoever_stops_reading_has_read_enough() {
    let words = ["layouts", "h100-sxm-80gb", "--all", "--format", "json"];
    let mut command = command(&words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let told = told(&words, child.wait_with_output().unwrap());
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let words = ["layouts", "a30-24gb"];
    let mut command = command(&words);
    command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    let told = told(&words, command.spawn().unwrap().wait_with_output().unwrap());
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains("standard output cannot be written"), "{told}");
}

#[test]
fn names_from_files_do_not_steer_the_terminal() {
    let demand = "apiVersion: tesela.dev/v1alpha1\nkind: Demand\nspec:\n  tenants:\n  - {name: \"a\\e[31mb\", namespaces: [x]}\n  workloads:\n  - {name: w, namespace: x}\n";
    let told = crate::harness::run_with(&["plan", "-", "fleet.yaml"], demand.as_bytes());
    assert!(!told.stdout.contains('\u{1b}') && !told.stderr.contains('\u{1b}'), "{told}");
}
