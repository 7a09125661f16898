//! Columns that fit the page: hand-made, since what matters is which column gives way first.

use super::text::{Line, Page, Style, shorten, width, wrap};

/// How a column behaves when the page is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Never cut.
    Fixed,
    /// Never cut, flush right.
    Number,
    /// Cut in the middle, so that names stay different from each other.
    Name,
    /// Wrapped; goes below the rows that have it when hardly anything is left for it. Only the last column.
    Text,
}

/// Rows under a header.
pub(crate) struct Columns {
    header: Vec<(&'static str, Kind)>,
    rows: Vec<Vec<Line>>,
}

/// Blanks between two columns.
const GAP: &str = "  ";
/// A name column is never narrower than this.
const LEAST_NAME: usize = 14;
/// A text that needs more than one line and has less room than this goes below its rows.
const LEAST_TEXT: usize = 60;

impl Columns {
    /// Columns with these titles.
    pub(crate) fn new(header: &[(&'static str, Kind)]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<Line>) {
        debug_assert_eq!(cells.len(), self.header.len(), "a row has one cell for each column");
        self.rows.push(cells);
    }

    /// Puts the rows on a page. Columns in which no row has anything are left out.
    pub(crate) fn put(mut self, page: &mut Page) {
        self.drop_empty();
        let text = self.header.iter().position(|(_, kind)| *kind == Kind::Text);
        let mut widths = (0..self.header.len()).map(|c| self.natural(c)).collect::<Vec<_>>();
        let solid = |widths: &[usize]| -> usize {
            let solid = widths.iter().enumerate().filter(|(c, _)| Some(*c) != text);
            solid.map(|(_, width)| width + GAP.len()).sum()
        };
        // A name is never cut for the sake of the text: the text has a place below the row.
        let room = page.width().saturating_sub(solid(&widths));
        let below = text.filter(|t| room < LEAST_TEXT.min(widths[*t]));
        match text {
            Some(t) if below.is_none() => widths[t] = widths[t].min(room),
            _ => self.cut_names(&mut widths, page.width() + GAP.len(), &solid),
        }
        self.head(&widths, below, page);
        for (index, row) in self.rows.iter().enumerate() {
            self.put_row(row, &widths, below, page);
            // Rows that follow each other for the same reason are told it once.
            let text = |row: &[Line]| below.map(|c| row[c].text()).unwrap_or_default();
            let told = text(row);
            if !told.is_empty() && self.rows.get(index + 1).is_none_or(|next| text(next) != told) {
                page.paragraph(&Line::plain("    "), &told, Style::Faint);
            }
        }
    }

    fn drop_empty(&mut self) {
        let empty = |c: usize| self.rows.iter().all(|row| row[c].width() == 0);
        let keep = (0..self.header.len()).map(|c| !empty(c)).collect::<Vec<_>>();
        let mut flags = keep.iter();
        self.header.retain(|_| flags.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut flags = keep.iter();
            row.retain(|_| flags.next().copied().unwrap_or(true));
        }
    }

    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].width());
        cells.chain([width(self.header[column].0)]).max().unwrap_or(0)
    }

    /// Takes columns from the widest name until the row fits.
    fn cut_names(&mut self, widths: &mut [usize], limit: usize, solid: &dyn Fn(&[usize]) -> usize) {
        let names = |c: &usize| self.header[*c].1 == Kind::Name;
        let names = (0..self.header.len()).filter(names).collect::<Vec<_>>();
        let mut wanted = widths.to_vec();
        while solid(&wanted) > limit {
            let Some(widest) = names.iter().copied().max_by_key(|c| wanted[*c]) else {
                break;
            };
            if wanted[widest] <= LEAST_NAME {
                break;
            }
            wanted[widest] -= 1;
        }
        for c in names {
            if wanted[c] == widths[c] {
                continue;
            }
            let texts = self.rows.iter().map(|row| row[c].text()).collect::<Vec<_>>();
            let cut = shorten(&texts.iter().map(String::as_str).collect::<Vec<_>>(), wanted[c]);
            for (row, cut) in self.rows.iter_mut().zip(cut) {
                let style = row[c].spans().first().map(|(style, _)| *style).unwrap_or_default();
                row[c] = Line::styled(style, cut);
            }
            widths[c] = self.natural(c);
        }
    }

    fn head(&self, widths: &[usize], below: Option<usize>, page: &mut Page) {
        let mut line = Line::default();
        for (c, (title, kind)) in self.header.iter().enumerate().filter(|(c, _)| Some(*c) != below) {
            separate(&mut line);
            let missing = widths[c].saturating_sub(width(title));
            let (before, behind) = if *kind == Kind::Number { (missing, 0) } else { (0, missing) };
            line.push(Style::Faint, format!("{}{title}{}", " ".repeat(before), " ".repeat(behind)));
        }
        page.line(line);
    }

    fn put_row(&self, row: &[Line], widths: &[usize], below: Option<usize>, page: &mut Page) {
        let mut line = Line::default();
        let mut rest = Vec::new();
        for (c, cell) in row.iter().enumerate().filter(|(c, _)| Some(*c) != below) {
            separate(&mut line);
            match self.header[c].1 {
                Kind::Number => {
                    line.push(Style::Plain, " ".repeat(widths[c].saturating_sub(cell.width())));
                    line.append(cell);
                }
                Kind::Text if cell.width() > widths[c] => {
                    let style = cell.spans().first().map(|(style, _)| *style).unwrap_or_default();
                    let indent = line.width();
                    let mut parts = wrap(&cell.text(), widths[c]).into_iter();
                    line.push(style, parts.next().unwrap_or_default());
                    rest = parts.map(|part| (indent, style, part)).collect();
                }
                _ => {
                    let end = line.width() + widths[c];
                    line.append(cell);
                    line.pad_to(end);
                }
            }
        }
        page.line(line);
        for (indent, style, part) in rest {
            let mut line = Line::plain(" ".repeat(indent));
            line.push(style, part);
            page.line(line);
        }
    }
}

fn separate(line: &mut Line) {
    if line.width() > 0 {
        line.push(Style::Plain, GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize) -> String {
        let mut columns = Columns::new(&[
            ("name", Kind::Name),
            ("pods", Kind::Number),
            ("", Kind::Fixed),
            ("why", Kind::Text),
        ]);
        for (name, pods, why) in [("inference-of-the-night-shift-a", "1", "needs 9 GiB"), ("b", "1,200", "")]
        {
            columns.row(vec![Line::plain(name), Line::plain(pods), Line::default(), Line::plain(why)]);
        }
        let mut page = Page::new(width);
        columns.put(&mut page);
        page.text()
    }

    #[test]
    fn a_wide_page_shows_everything() {
        assert_eq!(
            table(80),
            "name                             pods  why\n\
             inference-of-the-night-shift-a      1  needs 9 GiB\n\
             b                               1,200\n"
        );
    }

    #[test]
    fn a_narrower_page_puts_the_text_below() {
        assert_eq!(
            table(44),
            "name                             pods\n\
             inference-of-the-night-shift-a      1\n\
             \u{20}   needs 9 GiB\n\
             b                               1,200\n"
        );
    }

    #[test]
    fn a_narrow_page_cuts_names_in_the_middle() {
        assert_eq!(
            table(25),
            "name                 pods\n\
             inferenc…t-shift-a      1\n\
             \u{20}   needs 9 GiB\n\
             b                   1,200\n"
        );
    }
}
