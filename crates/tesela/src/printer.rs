//! The only place that writes to standard output and standard error.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;
use terminal_size::{Width, terminal_size_of};

use crate::cli::{Colour, Format, Global};
use crate::failure::Failure;
use crate::io::environment;
use crate::table::text::{Page, Style};

/// Width of tables where no terminal tells.
const WIDTH: usize = 100;

/// Writes results and messages the way the user asked for.
pub(crate) struct Printer {
    format: Format,
    colour: bool,
    ascii: bool,
    width: usize,
    /// Whether standard error is a terminal that can rewrite a line.
    progress: bool,
}

impl Printer {
    /// A printer for these options, this environment and these streams.
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns the standard streams")]
    pub(crate) fn new(global: &Global) -> Self {
        let environment = environment();
        let terminal = io::stdout().is_terminal();
        let colour = match global.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && !environment.no_color && !environment.dumb,
        };
        let width = global
            .width
            .map(usize::from)
            .or(environment.columns)
            .or_else(|| terminal_size_of(io::stdout()).map(|(Width(columns), _)| usize::from(columns)))
            .unwrap_or(WIDTH);
        let progress = io::stderr().is_terminal() && !environment.dumb;
        Self { format: global.format, colour, ascii: global.ascii, width: width.clamp(60, 1000), progress }
    }

    /// The form that results have.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints a result: the table for people, the data for programs.
    ///
    /// # Errors
    /// When standard output cannot be written, a closed pipe apart: whoever closed it has read enough.
    pub(crate) fn result<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&mut Page),
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(data),
            Format::Yaml => self.yaml(data),
            Format::Table => {
                let mut page = Page::new(self.width);
                table(&mut page);
                self.page(&page)
            }
        }
    }

    /// Prints a text as it is.
    ///
    /// # Errors
    /// As [`Printer::result`].
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn text(&self, text: &[u8]) -> Result<(), Failure> {
        out(|stream| stream.write_all(text))
    }

    /// Says something on standard error. A closed standard error is nobody's business.
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns the standard streams")]
    pub(crate) fn note(&self, text: &str) {
        self.progress("");
        let text = if self.ascii { ascii(text) } else { text.to_owned() };
        let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
    }

    /// Says what is going on, on a line that the next one replaces; an empty text clears it. Only on a terminal.
    #[expect(clippy::disallowed_methods, reason = "this is the module that owns the standard streams")]
    pub(crate) fn progress(&self, text: &str) {
        if self.progress {
            let end = if text.is_empty() { "" } else { " …" };
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K{text}{end}");
        }
    }

    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    fn json<T: Serialize>(&self, data: &T) -> Result<(), Failure> {
        out(|stream| {
            serde_json::to_writer_pretty(&mut *stream, data).map_err(io::Error::from)?;
            stream.write_all(b"\n")
        })
    }

    fn yaml<T: Serialize>(&self, data: &T) -> Result<(), Failure> {
        let text = serde_saphyr::to_string(data)
            .map_err(|error| Failure::program(format!("the result cannot be written as YAML: {error}")))?;
        self.text(text.as_bytes())
    }

    fn page(&self, page: &Page) -> Result<(), Failure> {
        out(|stream| {
            for line in page.lines() {
                let mut text = String::new();
                for (style, part) in line.spans() {
                    let code = if self.colour { sgr(*style) } else { "" };
                    let part = if self.ascii { ascii(part) } else { part.clone() };
                    if code.is_empty() {
                        text.push_str(&part);
                    } else {
                        text.extend([code, &part, "\u{1b}[0m"]);
                    }
                }
                writeln!(stream, "{}", text.trim_end())?;
            }
            Ok(())
        })
    }
}

/// Writes to standard output, buffered. A closed pipe is no failure.
#[expect(clippy::disallowed_methods, reason = "this is the module that owns the standard streams")]
fn out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut stream = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut stream).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::program(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

fn sgr(style: Style) -> &'static str {
    match style {
        Style::Plain => "",
        Style::Strong => "\u{1b}[1m",
        Style::Faint => "\u{1b}[2m",
        Style::Good => "\u{1b}[32m",
        Style::Warn => "\u{1b}[33m",
        Style::Bad => "\u{1b}[31m",
    }
}

/// The same text in ASCII, character by character, so that columns stay columns. Characters that are not ours
/// (a name in another script) stay as they are.
fn ascii(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '│' | '┃' | '▏' | '▕' => '|',
            '─' | '━' | '–' => '-',
            '┄' | '╌' => '.',
            '█' | '■' => '#',
            '□' => 'o',
            '░' => '%',
            '┆' => ':',
            '·' => '.',
            '…' => '~',
            '→' => '>',
            '×' => 'x',
            '÷' => '/',
            '≤' => '<',
            '≥' => '>',
            '−' => '-',
            '✓' => '+',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_keeps_the_width() {
        let text = "│1━│░░│ 4× → gpu…07";
        assert_eq!(ascii(text), "|1-|%%| 4x > gpu~07");
        assert!(ascii(text).is_ascii());
    }
}
