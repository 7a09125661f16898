//! Styled text, its width on a terminal, and wrapping.

/// What a piece of text is, not what it looks like. Each meaning also stands in the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Running text.
    #[default]
    Plain,
    /// A heading, or what to look at first.
    Strong,
    /// Said once and not important.
    Faint,
    /// Good news, and devices in use.
    Good,
    /// A warning.
    Warn,
    /// An error.
    Bad,
}

/// One line of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    spans: Vec<(Style, String)>,
}

impl Line {
    /// A line of plain text.
    pub(crate) fn plain(text: impl AsRef<str>) -> Self {
        Self::styled(Style::Plain, text)
    }

    /// A line of one style.
    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Self {
        let mut line = Self::default();
        line.push(style, text);
        line
    }

    /// Adds text at the end. Control characters become visible: a name from a file must not steer the terminal.
    pub(crate) fn push(&mut self, style: Style, text: impl AsRef<str>) {
        let text = text.as_ref();
        let clean = if text.chars().any(char::is_control) {
            text.chars()
                .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
                .collect()
        } else {
            text.to_owned()
        };
        match self.spans.last_mut() {
            Some((last, end)) if *last == style => end.push_str(&clean),
            _ if clean.is_empty() => {}
            _ => self.spans.push((style, clean)),
        }
    }

    /// Adds another line at the end.
    pub(crate) fn append(&mut self, other: &Self) {
        for (style, text) in &other.spans {
            self.push(*style, text);
        }
    }

    /// Adds blanks up to a width.
    pub(crate) fn pad_to(&mut self, width: usize) {
        let missing = width.saturating_sub(self.width());
        self.push(Style::Plain, " ".repeat(missing));
    }

    /// Columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| width(text)).sum()
    }

    /// Its pieces.
    pub(crate) fn spans(&self) -> &[(Style, String)] {
        &self.spans
    }

    /// Its text without styles.
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Lines from top to bottom, and the width they may take.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    width: usize,
    lines: Vec<Line>,
}

impl Page {
    /// An empty page for so many columns.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, lines: Vec::new() }
    }

    /// Columns a line may take.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Its lines.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Adds a line as it is.
    pub(crate) fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Adds an empty line, unless the page is empty or already ends with one.
    pub(crate) fn gap(&mut self) {
        if self.lines.last().is_some_and(|l| !l.spans.is_empty()) {
            self.lines.push(Line::default());
        }
    }

    /// Adds a heading with a gap above.
    pub(crate) fn heading(&mut self, text: &str) {
        self.gap();
        self.line(Line::styled(Style::Strong, text));
    }

    /// Adds text, wrapped, behind `first` on the first line and under its end on the others.
    pub(crate) fn paragraph(&mut self, first: &Line, text: &str, style: Style) {
        let indent = first.width();
        for (index, part) in wrap(text, self.width.saturating_sub(indent)).into_iter().enumerate() {
            let mut line = if index == 0 { first.clone() } else { Line::plain(" ".repeat(indent)) };
            line.push(style, part);
            self.line(line);
        }
    }

    /// Adds an item of a list: `- title: text`, wrapped under its first letter. The title may be empty.
    pub(crate) fn item(&mut self, title: &str, text: &str, style: Style) {
        let whole = if title.is_empty() { text.to_owned() } else { format!("{title}: {text}") };
        let bold = title.chars().count() + 1;
        for (index, part) in wrap(&whole, self.width.saturating_sub(2)).into_iter().enumerate() {
            let mut line = Line::plain(if index == 0 { "- " } else { "  " });
            let head = if index == 0 && !title.is_empty() { bold } else { 0 };
            line.push(Style::Strong, part.chars().take(head).collect::<String>());
            line.push(style, part.chars().skip(head).collect::<String>());
            self.line(line);
        }
    }

    /// Adds plain text, wrapped.
    pub(crate) fn say(&mut self, text: &str) {
        self.paragraph(&Line::default(), text, Style::Plain);
    }

    /// The page as plain text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|l| format!("{}\n", l.text().trim_end())).collect()
    }
}

/// Columns a text takes on a terminal: East Asian wide characters and pictures two, combining marks none.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// Breaks a text at blanks into lines of at most `width` columns. A longer word keeps a line of its own, whole:
/// a name or a command that is cut in two cannot be copied. No-break blanks hold and become plain ones.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ').filter(|w| !w.is_empty()) {
            if !line.is_empty() && width(&line) + 1 + width(word) > limit {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word.replace('\u{a0}', " "));
        }
        lines.push(line);
    }
    lines
}

/// Shortens names to at most `limit` columns, in the middle, so that different names stay different: where two
/// would become one, all keep as many characters as it takes.
pub(crate) fn shorten(names: &[&str], limit: usize) -> Vec<String> {
    let distinct = names.iter().copied().collect::<std::collections::BTreeSet<_>>();
    let longest = distinct.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let mut limit = limit.max(5);
    while limit < longest {
        let cut = distinct.iter().map(|n| cut_middle(n, limit)).collect::<std::collections::BTreeSet<_>>();
        if cut.len() == distinct.len() {
            break;
        }
        limit += 1;
    }
    names.iter().map(|n| cut_middle(n, limit)).collect()
}

/// The beginning and the end of a name, `…` between them. The end counts for more: that is where the generated
/// part of a name stands.
fn cut_middle(name: &str, limit: usize) -> String {
    let count = name.chars().count();
    if count <= limit {
        return name.to_owned();
    }
    let tail = limit / 2;
    let head = limit - 1 - tail;
    name.chars().take(head).chain(['…']).chain(name.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_files_cannot_steer_the_terminal() {
        assert_eq!(Line::plain("a\u{1b}[31mb\r").text(), "a\\u{1b}[31mb\\r");
    }

    #[test]
    fn lines_break_at_blanks_and_keep_long_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a nvidia.com/mig-1g.10gb b", 10), ["a", "nvidia.com/mig-1g.10gb", "b"]);
        assert_eq!(wrap("one 2\u{a0}two three", 8), ["one", "2 two", "three"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn shortened_names_stay_apart() {
        let names = ["inference-chat-east-7f9c", "inference-form-east-7f9c", "short"];
        let cut = shorten(&names, 12);
        assert_ne!(cut[0], cut[1]);
        assert!(cut.iter().all(|n| n.chars().count() < 24), "{cut:?}");
        assert_eq!(shorten(&["gpu-node-a-0001"], 9), ["gpu-…0001"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("模型"), 4);
        assert_eq!(width("e\u{301}"), 1);
    }
}
