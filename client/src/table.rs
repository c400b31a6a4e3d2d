//! Text tables. Columns are aligned with spaces, two between them; the last column is not padded.

use crate::screen::{Screen, Tint};

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Cells begin in one column: for text.
    Left,
    /// Cells end in one column: for numbers of one unit.
    Right,
    /// A number with its unit, such as `0.210 kWh` under `3600.0 J`: numbers end in one column, and units begin in one.
    Figure,
}

/// Width of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// As wide as the cells.
    Natural,
    /// As wide as the cells, but down to this many columns on a narrow screen.
    GivesWay(usize),
    /// This many columns; longer cells are truncated.
    Exactly(usize),
}

/// Table that is being filled.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Align, Room)>,
    rows: Vec<Row>,
    has_titles: bool,
}

#[derive(Debug, Clone)]
struct Row {
    cells: Vec<String>,
    /// Index and colour of the coloured cell.
    tint: Option<(usize, Tint)>,
}

impl Table {
    /// Makes an empty table with these titles; columns are as wide as their cells.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        let columns = columns.iter().map(|(title, align)| (*title, *align, Room::Natural)).collect();
        Self { columns, rows: Vec::new(), has_titles: true }
    }

    /// Omits the line of titles.
    pub fn without_titles(&mut self) {
        self.has_titles = false;
    }

    /// Sets the width of a column; the first has the number 0.
    pub fn room(&mut self, column: usize, room: Room) {
        if let Some(column) = self.columns.get_mut(column) {
            column.2 = room;
        }
    }

    /// Adds a row. Missing cells are empty; control characters are escaped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| plain(&cell)).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row { cells, tint: None });
    }

    /// Colours a cell of the last row, on screens with colours.
    pub fn tint(&mut self, column: usize, tint: Tint) {
        if let Some(row) = self.rows.last_mut() {
            row.tint = Some((column, tint));
        }
    }

    /// Renders the table, titles first, each line with its line break.
    pub fn render(&self) -> String {
        self.render_for(&Screen::PLAIN)
    }

    /// Renders the table for a screen: in colour, and with columns that give way to its width.
    pub fn render_for(&self, screen: &Screen) -> String {
        let titles = self.columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
        let titles = Row { cells: titles, tint: None };
        let mut rows = self.rows.clone();
        let figures = self.columns.iter().enumerate().filter(|(_, (_, align, _))| *align == Align::Figure);
        figures.for_each(|(column, _)| align_numbers(&mut rows, column));
        let lines: Vec<&Row> = self.has_titles.then_some(&titles).into_iter().chain(&rows).collect();
        let widths = self.widths(&lines, screen.width);
        lines.iter().map(|row| self.line(row, &widths, screen.colour)).collect()
    }

    fn widths(&self, lines: &[&Row], screen: Option<usize>) -> Vec<usize> {
        let needs = |column: usize| lines.iter().map(|row| length(&row.cells[column])).max().unwrap_or(0);
        let columns = self.columns.iter().enumerate();
        let width = |(column, (.., room)): (usize, &(_, _, Room))| match room {
            Room::Exactly(width) => *width,
            _ => needs(column),
        };
        let mut widths: Vec<usize> = columns.map(width).collect();
        let gaps = 2 * widths.len().saturating_sub(1);
        while let Some(screen) = screen
            && widths.iter().sum::<usize>() + gaps > screen
        {
            let least = |column: usize| match self.columns[column].2 {
                Room::GivesWay(least) => least,
                _ => usize::MAX,
            };
            // The widest column shrinks first, so that columns end up alike.
            let gives = (0..widths.len()).filter(|column| widths[*column] > least(*column));
            let Some(column) = gives.max_by_key(|column| widths[*column]) else { break };
            widths[column] -= 1;
        }
        widths
    }

    fn line(&self, row: &Row, widths: &[usize], colour: bool) -> String {
        let last = widths.len().saturating_sub(1);
        let mut line = String::new();
        for (column, (cell, &width)) in row.cells.iter().zip(widths).enumerate() {
            let cell = cut(cell, width);
            let pad = " ".repeat(width - length(&cell));
            let shown = match row.tint {
                Some((tinted, tint)) if colour && tinted == column => tint.paint(&cell),
                _ => cell,
            };
            line += &match self.columns[column].1 {
                Align::Left | Align::Figure => shown + &pad,
                Align::Right => pad + &shown,
            };
            if column < last {
                line += "  ";
            }
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}

/// Pads the cells of a column on the left, so that their first words end in one place.
fn align_numbers(rows: &mut [Row], column: usize) {
    let number = |row: &Row| row.cells[column].split(' ').next().map_or(0, length);
    let widest = rows.iter().map(number).max().unwrap_or(0);
    for row in rows {
        let pad = widest - number(row);
        row.cells[column].insert_str(0, &" ".repeat(pad));
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Truncates `text` to this many columns and marks the cut with `…`.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect()
}

/// Escapes control characters in `text`, so that a job's name cannot control the terminal.
pub fn plain(text: &str) -> String {
    escaped(text, steers)
}

/// Escapes control characters in a text of several lines and with tabs.
pub fn plain_lines(text: &str) -> String {
    escaped(text, |c| steers(c) && c != '\n' && c != '\t')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Returns true for characters that may move the cursor, are invisible, or change the direction of the following text.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `-` for values that are unknown or do not apply.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Formats watts or joules, marked if emulated hardware models them.
pub fn marked(figure: impl std::fmt::Display, emulated: bool) -> String {
    if emulated { format!("{figure} emulated") } else { figure.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("ID", Align::Right), ("NAME", Align::Left), ("REASON", Align::Left)]);
        table.row(["7".into(), "häuser".into(), "band".into()]);
        table.row(["12345".into(), "x\x1b[31m".into()]);
        table
    }

    #[test]
    fn columns_align() {
        let expected = "   ID  NAME         REASON\n    7  häuser       band\n12345  x\\u{1b}[31m\n";
        assert_eq!(table().render(), expected);
    }

    #[test]
    fn figures_align_at_their_units() {
        let mut table = Table::new(&[("ENERGY", Align::Figure), ("NAME", Align::Left)]);
        for energy in ["3600.0 J", "0.210 kWh emulated", "-"] {
            table.row([energy.into(), "cg".into()]);
        }
        let expected =
            "ENERGY               NAME\n3600.0 J             cg\n 0.210 kWh emulated  cg\n     -               cg\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn columns_give_way_to_a_narrow_screen() {
        let mut table = table();
        table.room(1, Room::GivesWay(5));
        let check = |width, expected: &str| {
            let screen = Screen { width: Some(width), ..Screen::PLAIN };
            assert_eq!(table.render_for(&screen), expected, "{width}");
        };
        check(26, &table.render());
        check(21, "   ID  NAME    REASON\n    7  häuser  band\n12345  x\\u{1…\n");
        // A column does not shrink below its minimum, nor at the cost of the other columns.
        check(5, "   ID  NAME   REASON\n    7  häus…  band\n12345  x\\u{…\n");
    }

    #[test]
    fn a_column_of_fixed_width_truncates_its_cells() {
        let mut table = table();
        table.room(0, Room::Exactly(3));
        table.room(2, Room::Exactly(8));
        table.without_titles();
        assert_eq!(table.render(), "  7  häuser       band\n12…  x\\u{1b}[31m\n");
    }

    #[test]
    fn colour_does_not_change_the_layout() {
        let mut table = table();
        table.tint(0, Tint::Bad);
        assert!(!table.render().contains('\x1b'));
        let screen = Screen { colour: true, ..Screen::PLAIN };
        let expected = table.render().replace("12345", "\x1b[31m12345\x1b[0m");
        assert_eq!(table.render_for(&screen), expected);
    }
}
