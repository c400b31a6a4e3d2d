//! Rounds byte for byte: a digest of each story, and of random worlds under every policy. A change without effect on
//! decisions leaves them unchanged; the commit message states the reason for each line that differs.
//!
//! `UPDATE_GOLDEN=1` rewrites the files in `golden/`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use limo_model::{Digest, Preset};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::random::run::run_of;
use crate::random::{config, narrow_step, wide_step};
use crate::world::{Call, World};
use crate::{backfill, properties, scenarios};

/// Number of random worlds; each runs under every policy.
const WORLDS: u64 = 200;

/// Digests all rounds of a world, in order.
fn digest_of(world: &World) -> Digest {
    let rounds = world.calls.iter().filter_map(|call| match call {
        Call::Round(round) => Some(serde_json::to_vec(round).expect("a round is JSON")),
        _ => None,
    });
    rounds.fold(Digest::new(), |digest, round| digest.with(&round))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn is_updated() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares lines with those of a file, or writes the file.
fn check(name: &str, got: &str) {
    let path = folder().join(name);
    if is_updated() {
        std::fs::write(&path, got).expect("written");
        return;
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file");
    let differ = |(got, expected): &(&str, &str)| got != expected;
    let lines: Vec<_> = got.lines().zip(expected.lines()).filter(differ).collect();
    assert!(lines.is_empty(), "{} lines of {name} differ, the first of them: {:?}", lines.len(), lines[0]);
    assert_eq!(got.lines().count(), expected.lines().count(), "{name}");
}

#[test]
fn rounds_of_stories_stay() {
    let mut lines = String::new();
    for path in scenarios::files() {
        let text = std::fs::read_to_string(&path).expect("a scenario");
        let story = scenarios::play(text.split("---\n").next().unwrap_or_default());
        let _ = writeln!(lines, "{} {}", digest_of(&story.world), path.file_name().expect("a name").display());
    }
    check("stories.txt", &lines);
}

/// Returns the digest of the world of a seed: even seeds make narrow clusters, odd ones wide clusters.
fn world(seed: u64, preset: Preset) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let draws = proptest::array::uniform6(0..60_i64);
    let world = if seed.is_multiple_of(2) {
        let (options, draws) = drawn((properties::options(), draws), &mut runner);
        run_of(
            properties::cluster(preset, options, draws),
            &drawn(proptest::collection::vec(narrow_step(), 1..25), &mut runner),
        )
    } else {
        let (options, draws) = drawn((backfill::options(), draws), &mut runner);
        run_of(
            backfill::cluster(preset, options, draws),
            &drawn(proptest::collection::vec(wide_step(), 1..25), &mut runner),
        )
    };
    digest_of(&world)
}

fn drawn<S: Strategy>(strategy: S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).expect("a value").current()
}

/// A preset that the file does not name yet has no digests to compare with: `UPDATE_GOLDEN=1` adds them.
#[test]
fn rounds_of_random_worlds_stay() {
    let known = std::fs::read_to_string(folder().join("worlds.txt")).expect("a golden file");
    let known: Vec<&str> = known.lines().next().unwrap_or_default().split(' ').collect();
    let is_kept = |preset: &Preset| is_updated() || known.contains(&preset.name());
    let presets: Vec<Preset> = Preset::ALL.into_iter().filter(is_kept).collect();
    let names: Vec<&str> = presets.iter().map(|preset| preset.name()).collect();
    let mut lines = format!("seed {}\n", names.join(" "));
    for seed in 0..WORLDS {
        let digests: Vec<String> = presets.iter().map(|preset| world(seed, *preset).to_string()).collect();
        let _ = writeln!(lines, "{seed} {}", digests.join(" "));
    }
    check("worlds.txt", &lines);
}
