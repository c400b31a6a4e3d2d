//! Manual pages of the files of settings, made from docs/configuration.md: paragraphs, lists, blocks and tables of
//! Markdown as the macros `man` of roff.

use std::fmt::Write;

/// Returns the text of a section, without its heading. `None` if the document has no such section.
pub fn section<'a>(document: &'a str, title: &str) -> Option<&'a str> {
    let (_, text) = document.split_once(&format!("\n## {title}\n"))?;
    Some(text.split_once("\n## ").map_or(text, |(text, _)| text))
}

/// Returns the page of section 5 of a file in `/etc/limo`, with the text of its section in Markdown.
pub fn page(file: &str, description: &str, markdown: &str) -> String {
    let mut page = format!(".TH {} 5 \"\" Limo\n.SH NAME\n{file} \\- {description}\n", file.to_uppercase());
    let _ = write!(page, ".SH SYNOPSIS\n.I /etc/limo/{file}\n.SH DESCRIPTION\n");
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            page.push_str(".PP\n.EX\n");
            for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                let _ = writeln!(page, "{}", plain(line));
            }
            page.push_str(".EE\n");
        } else if line.starts_with('|') {
            let header = cells(line);
            // The line below the titles has only dashes.
            lines.next();
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                page.push_str(&entry(&header, &cells(row)));
            }
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = writeln!(page, ".IP \\(bu 2\n{}", text(item));
        } else if line.is_empty() {
            page.push_str(".PP\n");
        } else {
            let _ = writeln!(page, "{}", text(line.trim_start()));
        }
    }
    page
}

/// Returns a row of a table as a paragraph below its first cell. The last cell is the text; the others follow it with
/// their titles.
fn entry(header: &[String], row: &[String]) -> String {
    let ([first, between @ .., last], [_, titles @ .., _]) = (row, header) else { return String::new() };
    let mut entry = format!(".TP\n{}\n{}\n", text(first), text(last));
    for (title, cell) in titles.iter().zip(between) {
        let _ = writeln!(entry, ".br\n{}: {}", text(title), text(cell));
    }
    entry
}

fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    // `\|` is a bar within a cell.
    let parts = row.replace("\\|", "\u{1}");
    parts.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// Escapes text of a block.
fn plain(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// Returns a line with code in bold, and links as their text.
fn text(line: &str) -> String {
    let mut rest = line.replace("**", "");
    while let Some((before, link)) = rest.split_once("](") {
        let (Some((start, title)), Some((_, after))) = (before.rsplit_once('['), link.split_once(')')) else { break };
        rest = format!("{start}{title}{after}");
    }
    let parts = rest.split('`').map(|part| plain(part).trim_start_matches("\\&").to_owned());
    let mut out = String::new();
    for (index, part) in parts.enumerate() {
        out.push_str(match (index, index % 2) {
            (0, _) => "",
            (_, 0) => "\\fR",
            (_, _) => "\\fB",
        });
        out.push_str(&part);
    }
    if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_one() {
        let document = "# Title\n\n## one\n\nfirst\n\n## two\nsecond\n";
        assert_eq!(section(document, "one"), Some("\nfirst\n"));
        assert_eq!(section(document, "two"), Some("second\n"));
        assert_eq!(section(document, "three"), None);
    }

    #[test]
    fn markdown_becomes_roff() {
        let markdown = "See [the page](x.md#y) of `a-b`.\n\n- one\n\n| key | default | meaning |\n|---|---|---|\n\
                        | `k` | none | `a` \\| b |\n\n```\n.x = \"\\\"\n```\n";
        let expected = ".TH F.TOML 5 \"\" Limo\n.SH NAME\nf.toml \\- settings\n.SH SYNOPSIS\n.I /etc/limo/f.toml\n\
                        .SH DESCRIPTION\nSee the page of \\fBa\\-b\\fR.\n.PP\n.IP \\(bu 2\none\n.PP\n.TP\n\\fBk\\fR\n\
                        \\fBa\\fR | b\n.br\ndefault: none\n.PP\n.PP\n.EX\n\\&.x = \"\\e\"\n.EE\n";
        assert_eq!(page("f.toml", "settings", markdown), expected);
    }
}
