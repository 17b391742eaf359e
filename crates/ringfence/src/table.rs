//! Tables for people. On a terminal: a header, aligned columns that fit its width, colours. In a pipe: no header, nothing cut,
//! one tab between two columns, so that `cut -f` and `while read` work.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::present;
use crate::style::{self, Look, Stream};

/// Spaces between two columns.
const GAP: usize = 2;

/// Narrowest width that a column is cut to.
const CUT_MIN: usize = 8;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    align: Align,
    /// True if its cells are cut where the terminal is too narrow.
    gives_way: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A column of words.
pub(crate) const fn column(name: &'static str) -> Column {
    Column { name, align: Align::Left, gives_way: false }
}

/// A column of numbers.
pub(crate) const fn numbers(name: &'static str) -> Column {
    Column { name, align: Align::Right, gives_way: false }
}

/// A column of long texts.
pub(crate) const fn texts(name: &'static str) -> Column {
    Column { name, align: Align::Left, gives_way: true }
}

/// A cell: its text, and how it looks on a terminal.
pub(crate) type Cell = (String, Option<Look>);

/// A cell without a look of its own.
pub(crate) fn cell(text: impl Into<String>) -> Cell {
    (text.into(), None)
}

/// Prints a table on stdout.
pub(crate) fn print(columns: &[Column], rows: &[Vec<Cell>]) {
    Table::new(columns).print(rows);
}

/// A table that is printed in parts: one header, and columns that keep their width.
pub(crate) struct Table<'a> {
    columns: &'a [Column],
    /// Widths of the parts so far; empty before the first.
    widths: Vec<usize>,
}

impl<'a> Table<'a> {
    /// A table of which nothing is printed yet.
    pub(crate) fn new(columns: &'a [Column]) -> Self {
        Self { columns, widths: Vec::new() }
    }

    /// Prints more rows on stdout.
    pub(crate) fn print(&mut self, rows: &[Vec<Cell>]) {
        let coloured = style::is_coloured(Stream::Stdout);
        present::text(&self.render(rows, style::terminal_width(), coloured));
    }

    /// More rows as text. `width` is that of a terminal.
    fn render(&mut self, rows: &[Vec<Cell>], width: Option<usize>, coloured: bool) -> String {
        let Some(width) = width else {
            let line = |row: &Vec<Cell>| {
                let cells: Vec<&str> = row.iter().map(|(text, _)| text.as_str()).collect();
                cells.join("\t") + "\n"
            };
            return rows.iter().map(line).collect();
        };
        if rows.is_empty() {
            return String::new();
        }
        let columns = self.columns;
        let header: Vec<Cell> =
            columns.iter().map(|c| (c.name.to_owned(), Some(Look::Heading))).collect();
        let is_first = self.widths.is_empty();
        self.widths.resize(columns.len(), 0);
        for row in std::iter::once(&header).chain(rows) {
            for (widest, (text, _)) in self.widths.iter_mut().zip(row) {
                *widest = text.width().max(*widest);
            }
        }
        fit(columns, &mut self.widths, width);
        let mut out = String::new();
        for row in is_first.then_some(&header).into_iter().chain(rows) {
            let mut line = String::new();
            for (n, (text, look)) in row.iter().enumerate() {
                let text = cut(text, self.widths[n]);
                let pad = " ".repeat(self.widths[n].saturating_sub(text.width()));
                let painted = match look {
                    Some(look) if coloured => style::painted(*look, &text),
                    _ => text,
                };
                match columns[n].align {
                    Align::Left => line.extend([painted.as_str(), &pad]),
                    Align::Right => line.extend([pad.as_str(), &painted]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Narrows the columns that give way, the widest first, until a line fits.
fn fit(columns: &[Column], widths: &mut [usize], width: usize) {
    let gaps = GAP * columns.len().saturating_sub(1);
    loop {
        let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let widest = (0..widths.len())
            .filter(|n| columns[*n].gives_way && widths[*n] > CUT_MIN)
            .max_by_key(|n| widths[*n]);
        let Some(n) = widest.filter(|_| excess > 0) else { return };
        widths[n] = widths[n].saturating_sub(excess).max(CUT_MIN);
    }
}

/// Cuts a text to a width, with an ellipsis where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut room = width.saturating_sub(1);
    for c in text.chars() {
        let n = c.width().unwrap_or(0);
        if n > room {
            break;
        }
        room -= n;
        out.push(c);
    }
    out + "…"
}

/// A number of bytes for people: 512, 1.5K, 20M, 3.2G.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut unit = 0;
    let mut scale = 1_u64;
    while bytes / scale >= 1024 && unit + 1 < UNITS.len() {
        unit += 1;
        scale *= 1024;
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
    if unit == 0 || tenths >= 100 {
        format!("{}{}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// A length of time for people: 5s, 3m, 2h, 4d.
pub(crate) fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m", s / 60),
        3600..86_400 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[column("ID"), numbers("SIZE"), texts("WHAT")];

    fn render(rows: &[Vec<Cell>], width: Option<usize>, coloured: bool) -> String {
        Table::new(COLUMNS).render(rows, width, coloured)
    }

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec![cell("a"), cell("1"), cell("short")],
            vec![
                cell("bcd"),
                cell("1200"),
                ("a longer text 漢字漢字漢字".to_owned(), Some(Look::Bad)),
            ],
        ]
    }

    #[test]
    fn a_terminal_gets_a_header_and_lines_that_fit_it() {
        let expected = "ID   SIZE  WHAT\na       1  short\nbcd  1200  a longer text 漢字漢字漢字\n";
        assert_eq!(render(&rows(), Some(80), false), expected);
        let narrow = render(&rows(), Some(30), false);
        assert_eq!(narrow, "ID   SIZE  WHAT\na       1  short\nbcd  1200  a longer text 漢字…\n");
        assert!(narrow.lines().all(|line| line.width() <= 30));
        assert_eq!(render(&[], Some(30), false), "");
    }

    #[test]
    fn later_parts_have_no_header_and_the_widths_of_the_first() {
        let mut table = Table::new(COLUMNS);
        table.render(&rows(), Some(80), false);
        assert_eq!(table.render(&rows()[..1], Some(80), false), "a       1  short\n");
        let wider = [vec![cell("b"), cell("12345"), cell("x")]];
        assert_eq!(table.render(&wider, Some(80), false), "b    12345  x\n");
        assert_eq!(table.render(&rows()[..1], Some(80), false), "a        1  short\n");
    }

    #[test]
    fn a_pipe_gets_tabs_and_everything() {
        let piped = render(&rows(), None, false);
        assert_eq!(piped, "a\t1\tshort\nbcd\t1200\ta longer text 漢字漢字漢字\n");
    }

    #[test]
    fn colours_take_no_room() {
        let coloured = render(&rows(), Some(80), true);
        assert!(
            coloured.starts_with("\u{1b}[1mID\u{1b}[0m   \u{1b}[1mSIZE\u{1b}[0m"),
            "{coloured:?}"
        );
        assert!(coloured.contains("\u{1b}[1;31ma longer"), "{coloured:?}");
    }

    #[test]
    fn sizes_and_ages_are_short() {
        let sizes = [(0, "0"), (1023, "1023"), (1024, "1.0K"), (1536, "1.5K"), (20 << 20, "20M")];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        for (ms, text) in [(0, "0s"), (59_999, "59s"), (60_000, "1m"), (7_200_000, "2h")] {
            assert_eq!(age(ms), text);
        }
        assert_eq!(age(3 * 86_400_000), "3d");
        assert_eq!(size(u64::MAX), "16777216T");
    }
}
