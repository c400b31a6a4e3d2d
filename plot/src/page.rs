//! The HTML document around plots: its style, and the rule that it loads and runs nothing.

use super::escaped;

const STYLE: &str = include_str!("page.css");

/// Makes a page. `body` is HTML, and follows the title.
pub fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_its_title_and_loads_nothing() {
        let page = page("a <script>", "<p>b</p>\n");
        assert!(
            page.contains("<title>a &lt;script&gt;</title>") && page.contains("<h1>a &lt;script&gt;</h1>\n<p>b</p>")
        );
        assert!(page.contains("default-src 'none'") && !page.contains("<script"), "{page}");
    }
}
