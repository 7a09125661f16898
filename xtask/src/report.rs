//! `cargo xtask report`: the pages of `tesela plan --html` in a real browser. It fails without one.
//!
//! For each example and language, on screens 1280 and 400 pixels wide, the browser says how wide the page is: its body
//! must never scroll sideways, and the page's own policy must refuse nothing of it. Pictures are taken in both colour
//! schemes, and the twenty nodes of `examples/mixed-fleet` are printed: two A4 pages.
//!
//! `cargo xtask report --picture` draws the picture of docs/report.md.

pub(crate) mod browser;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use self::browser::{Browser, Scheme};
use crate::bench_observe::program;

/// Folder of an example and its inputs.
const EXAMPLES: [(&str, &[&str]); 3] = [
    ("mixed-fleet", &["cluster.json"]),
    ("agents-company", &["cluster.json", "demand.yaml", "fleet.yaml", "prices.yaml"]),
    ("regulated", &["cluster.json", "demand.yaml", "fleet.yaml"]),
];
/// The one with twenty nodes.
const TWENTY: &str = "mixed-fleet";
const LANGUAGES: [&str; 2] = ["en", "es"];
/// Screens, in pixels.
const WIDTHS: [u32; 2] = [1280, 400];
/// The picture of the docs, and how large it may be.
const PICTURE: &str = "docs/report.png";
const PICTURE_BYTES: usize = 200_000;

/// Runs the task with the words behind `report`.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<()> {
    let browser = Browser::find()?;
    let program = program(root, &[])?;
    let folder = root.join("target/report");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => EXAMPLES.iter().try_for_each(|example| check(root, &browser, &program, &folder, example)),
        ["--picture"] => picture(root, &browser, &program, &folder),
        _ => bail!("usage: cargo xtask report [--picture]"),
    }
}

/// The suite's step.
pub(crate) fn step(root: &Path) -> Result<()> {
    run(root, &[])
}

fn check(
    root: &Path,
    browser: &Browser,
    program: &str,
    folder: &Path,
    example: &(&str, &[&str]),
) -> Result<()> {
    let (name, _) = example;
    for language in LANGUAGES {
        let page = write(root, program, folder, example, language)?;
        let measured = with_ruler(&page)?;
        for width in WIDTHS {
            let told = browser.measure(&measured, width)?;
            ensure!(told.window == width, "the browser took {} pixels for a screen of {width}", told.window);
            ensure!(
                told.page <= width,
                "{}: {} pixels wide on a screen of {width}, so it scrolls sideways",
                page.display(),
                told.page
            );
            ensure!(told.tables >= 5 && told.tiles > 0, "{}: {told:?}", page.display());
        }
        println!("    {name}, {language}: no sideways scroll at {WIDTHS:?} pixels");
        if *name == TWENTY {
            pictures(browser, &page, language, folder)?;
            printed(browser, &page)?;
        }
    }
    Ok(())
}

/// The page of an example.
fn write(
    root: &Path,
    program: &str,
    folder: &Path,
    (name, inputs): &(&str, &[&str]),
    language: &str,
) -> Result<PathBuf> {
    let page = folder.join(format!("{name}-{language}.html"));
    let mut command = Command::new(program);
    command.arg("plan").args(*inputs).arg("--html").arg(&page).args(["--lang", language, "--force"]);
    let ended = command.current_dir(root.join("examples").join(name)).stdin(Stdio::null()).output()?;
    // 3: done in part, some pods do not fit.
    ensure!(
        matches!(ended.status.code(), Some(0 | 3)),
        "`tesela plan --html` on {name} ended with {}: {}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(page)
}

/// The page without its policy and with a script that tells its measures to whoever holds it.
fn with_ruler(page: &Path) -> Result<PathBuf> {
    const RULER: &str = "<script>addEventListener('load',()=>{const d=document,e=d.documentElement;\
        parent.postMessage([innerWidth,Math.max(e.scrollWidth,d.body.scrollWidth),\
        d.querySelectorAll('table').length,d.querySelectorAll('svg.t').length].join(' '),'*')})</script>";
    let text = std::fs::read_to_string(page)?;
    let (before, policy) = text.split_once("<meta http-equiv=").context("the page has no policy")?;
    let (_, after) = policy.split_once('>').context("the policy has no end")?;
    let measured = page.with_extension("measured.html");
    std::fs::write(&measured, format!("{before}{RULER}{after}"))?;
    Ok(measured)
}

/// Four pictures: both screens, light and dark. A page that looks alike in both schemes has none of them.
fn pictures(browser: &Browser, page: &Path, language: &str, folder: &Path) -> Result<()> {
    for width in WIDTHS {
        let mut seen = Vec::new();
        for scheme in [Scheme::Light, Scheme::Dark] {
            let file = folder.join(format!("{TWENTY}-{language}-{width}-{scheme:?}.png").to_lowercase());
            let picture = browser.picture(page, (width, 1600), scheme, &file)?;
            ensure!(png_width(&picture) == Some(width), "{}: is not {width} pixels wide", file.display());
            ensure!(picture.len() > 20_000, "{}: an empty page", file.display());
            seen.push(picture);
        }
        ensure!(seen[0] != seen[1], "{}: light and dark look alike", page.display());
    }
    Ok(())
}

fn printed(browser: &Browser, page: &Path) -> Result<()> {
    let file = page.with_extension("pdf");
    browser.print(page, &file)?;
    let told = browser::called("pdfinfo", Command::new("pdfinfo").arg(&file))?;
    let line = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    ensure!(line("Page size:").contains("A4"), "{}: {}", file.display(), line("Page size:"));
    ensure!(line("Pages:") == "2", "{}: {} pages for twenty nodes", file.display(), line("Pages:"));
    println!("    {}: 2 pages A4", file.display());
    Ok(())
}

/// The width that a PNG's header tells (PNG, 11.2.2).
fn png_width(bytes: &[u8]) -> Option<u32> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    Some(u32::from_be_bytes(header.get(8..12)?.try_into().ok()?))
}

fn picture(root: &Path, browser: &Browser, program: &str, folder: &Path) -> Result<()> {
    let page = write(root, program, folder, &EXAMPLES[1], "en")?;
    let file = root.join(PICTURE);
    let picture = browser.picture(&page, (1280, 860), Scheme::Light, &file)?;
    ensure!(picture.len() < PICTURE_BYTES, "{PICTURE}: {} bytes", picture.len());
    println!("{PICTURE}: written, {} bytes", picture.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_png_tells_its_width() {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(400u32.to_be_bytes());
        assert_eq!(png_width(&bytes), Some(400));
        assert_eq!(png_width(b"GIF89a"), None);
    }
}
