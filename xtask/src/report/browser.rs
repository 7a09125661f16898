//! A Chromium without a window.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// Names it goes by.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Which colours a person prefers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scheme {
    Light,
    Dark,
}

/// What the browser says of a page.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) window: u32,
    /// As wide as one could scroll.
    pub(super) page: u32,
    pub(super) tables: u32,
    pub(super) tiles: u32,
}

pub(super) struct Browser {
    program: PathBuf,
}

/// Whether a program is on the search path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Whether all that the pages are looked at with is there.
pub(crate) fn is_there() -> bool {
    NAMES.iter().any(|name| on_path(name).is_some()) && on_path("pdfinfo").is_some()
}

impl Browser {
    pub(super) fn find() -> Result<Self> {
        let Some(program) = NAMES.iter().find_map(|name| on_path(name)) else {
            bail!(
                "no browser is there ({}): the pages of `tesela plan --html` cannot be looked at; on Debian: apt-get \
                 install chromium poppler-utils fonts-dejavu fonts-liberation",
                NAMES.join(", ")
            )
        };
        if on_path("pdfinfo").is_none() {
            bail!("pdfinfo is not there; on Debian: apt-get install poppler-utils")
        }
        Ok(Self { program })
    }

    /// With a profile of its own, so that nothing of the user's is read or written. Our own pages need no sandbox,
    /// which a container has no rights for.
    fn command(&self, profile: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.args(["--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking"]);
        command.args(["--enable-logging=stderr", "--log-level=0"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        command
    }

    fn call(&self, page: &Path, words: &[String]) -> Result<String> {
        let profile = page.with_extension("profile");
        let mut command = self.command(&profile);
        command.args(words).arg(format!("file://{}", page.display()));
        let told = called(&self.program.display().to_string(), &mut command);
        let _ = std::fs::remove_dir_all(&profile);
        told
    }

    /// A page that carries a ruler, in a frame of this width: a window is never as narrow as a telephone.
    pub(super) fn measure(&self, page: &Path, width: u32) -> Result<Measures> {
        let name = page.file_name().and_then(|name| name.to_str()).context("a page without a name")?;
        let frame = page.with_extension(format!("{width}.html"));
        let text = format!(
            "<!DOCTYPE html><iframe src='{name}' style='width:{width}px;height:900px;border:0'></iframe>\
             <script>onmessage=e=>document.documentElement.setAttribute('data-measured',e.data)</script>"
        );
        std::fs::write(&frame, text)?;
        let words = ["--dump-dom", "--window-size=1600,1000", "--virtual-time-budget=10000"];
        let page_text = self.call(&frame, &words.map(str::to_owned))?;
        let told = page_text.split("data-measured=\"").nth(1).and_then(|rest| rest.split('"').next());
        let told = told.with_context(|| format!("{}: the browser measured nothing", page.display()))?;
        let numbers = told.split(' ').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        match numbers[..] {
            [window, page, tables, tiles] => Ok(Measures { window, page, tables, tiles }),
            _ => bail!("{}: measured {told}", page.display()),
        }
    }

    pub(super) fn picture(
        &self,
        page: &Path,
        (width, height): (u32, u32),
        scheme: Scheme,
        file: &Path,
    ) -> Result<Vec<u8>> {
        let prefers = match scheme {
            Scheme::Dark => 0,
            Scheme::Light => 1,
        };
        let words = [
            format!("--screenshot={}", file.display()),
            format!("--window-size={width},{height}"),
            format!("--blink-settings=preferredColorScheme={prefers}"),
        ];
        self.call(page, &words)?;
        std::fs::read(file).with_context(|| format!("{}: the browser took no picture", page.display()))
    }

    pub(super) fn print(&self, page: &Path, file: &Path) -> Result<()> {
        let words = ["--no-pdf-header-footer".to_owned(), format!("--print-to-pdf={}", file.display())];
        self.call(page, &words).map(drop)
    }
}

/// Runs a program; its standard output. What a page's policy refuses is told on standard error.
pub(super) fn called(name: &str, command: &mut Command) -> Result<String> {
    let ended = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{name} ended with {}: {said}", ended.status);
    let refused = said.lines().find(|line| line.contains("Content Security Policy"));
    ensure!(refused.is_none(), "the page's policy refuses a part of it: {}", refused.unwrap_or_default());
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
