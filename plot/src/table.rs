//! Tables as HTML. A cell may have a shade, so that a table of values is also a heat map; its value stays readable
//! without colours.

use std::fmt::Write as _;

use super::escaped;

/// Number of shades, from 0 to one less.
pub const SHADES: usize = 10;

/// Cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    shade: Option<usize>,
}

impl Cell {
    /// Makes a cell with a shade for `value`: the lowest at `least`, the highest at `most`.
    pub fn shaded(text: String, value: f64, (least, most): (f64, f64)) -> Self {
        let place = if most > least { (value - least) / (most - least) } else { 0.0 };
        Self { text, shade: Some(((place * SHADES as f64) as usize).min(SHADES - 1)) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, shade: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// A table with a caption. The first cell of a row is its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Caption.
    pub caption: String,
    /// Names of the columns, with units.
    pub head: Vec<String>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Returns the table as HTML.
    pub fn html(&self) -> String {
        let head: String = self.head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escaped(name))).collect();
        let mut html = format!(
            "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n",
            escaped(&self.caption)
        );
        for row in &self.rows {
            html.push_str("<tr>");
            for (at, Cell { text, shade }) in row.iter().enumerate() {
                let text = escaped(text);
                // Writing to a `String` cannot fail.
                let _ = match (at, shade) {
                    (0, _) => write!(html, "<th scope=\"row\">{text}</th>"),
                    (_, Some(shade)) => write!(html, "<td class=\"h{shade}\">{text}</td>"),
                    (_, None) => write!(html, "<td>{text}</td>"),
                };
            }
            html.push_str("</tr>\n");
        }
        html + "</tbody>\n</table></div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_shades_and_escaped_texts() {
        let shade = |value| Cell::shaded("x".to_owned(), value, (10.0, 20.0)).shade;
        // A tenth of the range for each shade; the highest value has the highest one.
        assert_eq!([10.0, 10.9, 11.1, 19.9, 20.0].map(shade), [Some(0), Some(0), Some(1), Some(9), Some(9)]);
        assert_eq!(Cell::shaded("x".to_owned(), 10.0, (10.0, 10.0)).shade, Some(0));
        let table = Table {
            caption: "a & b".to_owned(),
            head: vec!["<c>".to_owned(), "d (J)".to_owned()],
            rows: vec![
                vec!["\"e\"".into(), Cell::shaded("5".to_owned(), 20.0, (10.0, 20.0))],
                vec!["f".into(), "6".into()],
            ],
        };
        let expected = "<div class=\"scroll\"><table>\n<caption>a &amp; b</caption>\n\
            <thead><tr><th scope=\"col\">&lt;c&gt;</th><th scope=\"col\">d (J)</th></tr></thead>\n<tbody>\n\
            <tr><th scope=\"row\">&quot;e&quot;</th><td class=\"h9\">5</td></tr>\n\
            <tr><th scope=\"row\">f</th><td>6</td></tr>\n</tbody>\n</table></div>\n";
        assert_eq!(table.html(), expected);
    }
}
