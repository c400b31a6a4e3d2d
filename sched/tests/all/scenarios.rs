//! Runs every story in `scenarios/`: the events are above the line `---`, their effects below. `UPDATE_SCENARIOS=1`
//! rewrites the lower part, which must then be checked by hand.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::story::{Story, clock};
use limo_model::{Money, Time};

/// Runs a story; returns its report.
pub fn run(text: &str) -> String {
    let mut story = play(text);
    let sums = story.world.core.sums();
    let shown = |cost: Option<Money>| cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string());
    let energy = sums.bill.energy();
    let [cost, start_now] = [sums.jobs_cost, sums.jobs_start_now_cost].map(shown);
    let _ = writeln!(story.out, "total energy={energy} cost={cost} start-now={start_now}");
    story.out
}

/// Runs a story to its end.
pub fn play(text: &str) -> Story {
    let mut story = Story::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("")).filter(|line| !line.trim().is_empty());
    let mut happenings: Vec<(Time, Vec<&str>)> = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0].split_once(':') {
            Some((hour, _)) if hour.chars().all(|c| c.is_ascii_digit()) => {
                happenings.push((clock(words[0]), words[1..].to_vec()));
            }
            _ => story.set_up(&words),
        }
    }
    let mut happenings = happenings.into_iter().peekable();
    let mut rounds = 0;
    loop {
        let told = happenings.peek().map(|(at, _)| *at);
        let Some(at) = [told, story.world.next()].into_iter().flatten().min() else { break };
        story.step(at);
        while let Some((_, words)) = happenings.next_if(|(when, _)| *when <= at) {
            story.happen(&words);
        }
        story.settle();
        rounds += 1;
        assert!(rounds < 10_000, "the story does not end:\n{}", story.out);
    }
    story
}

fn check(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a scenario");
    let (told, expected) = text.split_once("---\n").expect("a line `---`");
    assert!(told.starts_with("# "), "{}: a scenario opens with its guarantee", path.display());
    let got = run(told);
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        std::fs::write(path, format!("{told}---\n{got}")).expect("written");
        return;
    }
    assert_eq!(got, expected, "{}", path.display());
}

/// Returns the stories, by name.
pub fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
fn every_story_ends_as_it_says() {
    let files = files();
    files.iter().for_each(|path| check(path));
    assert!(files.len() >= 20, "only {} scenarios", files.len());
}
