//! Tables that are read without colour: columns aligned by spaces, two between them, the last one ragged.

/// How a column stands under its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table while it is filled.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty; what comes from users loses its control characters.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| plain(&cell)).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// The whole table, titles first, each line with its end.
    pub fn render(&self) -> String {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines().map(|cells| cells[column].chars().count()).max().unwrap_or(0))
            .collect();
        lines().map(|cells| self.line(cells, &widths)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded = cells.iter().zip(widths).zip(&self.columns).map(|((cell, &width), (_, align))| match align {
            Align::Left => format!("{cell:width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    }
}

/// `text` with its control characters escaped: a job's name must not be able to steer the terminal that shows it.
pub fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// `-` for what is not known or does not apply.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A figure in watts or joules, marked where it is modelled by emulated hardware.
pub fn marked(figure: impl std::fmt::Display, emulated: bool) -> String {
    if emulated { format!("{figure} emulated") } else { figure.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut table = Table::new(&[("ID", Align::Right), ("NAME", Align::Left), ("REASON", Align::Left)]);
        table.row(["7".into(), "häuser".into(), "band".into()]);
        table.row(["12345".into(), "x\x1b[31m".into()]);
        let expected = "   ID  NAME         REASON\n    7  häuser       band\n12345  x\\u{1b}[31m\n";
        assert_eq!(table.render(), expected);
    }
}
