//! Every table in the documentation is valid.

use limo_feeds::config::FeedTables;
use serde::Deserialize;

const PRICES: &str = include_str!("../../../docs/prices.md");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    feed: FeedTables,
}

#[test]
fn the_examples_are_good() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "t\n").expect("written");
    let blocks: Vec<&str> = PRICES.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() > 8, "{} blocks", blocks.len());
    for block in blocks {
        let line = |line: &str| match line.strip_prefix("token_file") {
            Some(_) => format!("token_file = \"{}\"", token.path().display()),
            None => line.to_owned(),
        };
        let text = block.lines().map(line).collect::<Vec<_>>().join("\n");
        let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {block}"));
        let feeds = file.feed.build().unwrap_or_else(|error| panic!("{error}: {block}"));
        assert!(!feeds.is_empty(), "{block}");
    }
}
