//! The window against a search over all of its places.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::SlidingWindow;

/// Slides a window of each length over all nodes, as the paper describes it.
fn slid(free: &[bool], wanted: usize, permille: u32, waits: bool) -> Option<Vec<usize>> {
    let mut length = (wanted * permille as usize).div_ceil(1_000).max(wanted);
    loop {
        for start in 0..=free.len().saturating_sub(length) {
            let end = (start + length).min(free.len());
            let found: Vec<usize> = (start..end).filter(|place| free[*place]).take(wanted).collect();
            if found.len() == wanted {
                return Some(found);
            }
        }
        if waits || length >= free.len() {
            return None;
        }
        length = (length * 5).div_ceil(4).min(free.len());
    }
}

/// Returns the places of the nodes in the window.
fn in_window(free: &[bool], wanted: usize, permille: u32, waits: bool) -> Option<Vec<usize>> {
    let places: Vec<usize> = (0..free.len()).filter(|place| free[*place]).collect();
    let window = SlidingWindow { nodes: free.len(), permille, waits };
    let mut rest = places.iter().copied();
    let first = window.first(wanted, || rest.next())?;
    Some(places[first..first + wanted].to_vec())
}

#[test]
fn a_window_is_the_first_with_enough_free_nodes() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut below = |limit: u64| random.next_u64() % limit;
    let mut found = 0;
    for case in 0..10_000 {
        let nodes = 1 + below(40) as usize;
        let density = 1 + below(10);
        let free: Vec<bool> = (0..nodes).map(|_| below(10) < density).collect();
        let (wanted, permille, waits) = (2 + below(8) as usize, 1_000 + below(1_000) as u32, below(2) == 0);
        let expected = slid(&free, wanted, permille, waits);
        found += u32::from(expected.is_some());
        assert_eq!(in_window(&free, wanted, permille, waits), expected, "case {case}: {free:?}");
    }
    assert!(found > 3_000, "only {found} cases with a window");
}

/// Ten nodes are in order of speed; 2, 3 and 7 are taken, and four are wanted. The windows from 1 to 5, 2 to 6 and 3 to 7
/// have three free nodes each, the one from 4 to 8 has four.
#[test]
fn a_window_slides_down_from_the_fastest_node() {
    let free: Vec<bool> = (1..=10).map(|node| ![2, 3, 7].contains(&node)).collect();
    // Places count from 0.
    assert_eq!(in_window(&free, 4, 1_250, true), Some(vec![3, 4, 5, 7]));
}
