//! Unstable sort with a fixed order of ties, as in the C++ library of GCC since 2012: quicksort by the median of
//! three, heap sort for deep recursion, and an insertion sort over runs of sixteen. Only results of
//! energy-budget-2017 may depend on that order.

/// Length of a range from which on it is partitioned; shorter ones are left to the insertion sort.
const SHORT: usize = 16;

/// Sorts by `less`. The algorithm determines the order of ties.
pub(super) fn introsort<T: Copy>(items: &mut [T], less: impl Fn(&T, &T) -> bool) {
    if items.len() < 2 {
        return;
    }
    let depth = 2 * items.len().ilog2();
    partition_down(items, depth, &less);
    for at in 1..items.len() {
        insert(items, at, &less);
    }
}

/// Partitions until every range is short or sorted. Recursion handles the right part, the loop the left one.
fn partition_down<T: Copy>(items: &mut [T], mut depth: u32, less: &impl Fn(&T, &T) -> bool) {
    let mut end = items.len();
    while end > SHORT {
        if depth == 0 {
            heap_sort(&mut items[..end], less);
            return;
        }
        depth -= 1;
        median_to_front(&mut items[..end], less);
        let cut = partition(&mut items[..end], less);
        partition_down(&mut items[cut..end], depth, less);
        end = cut;
    }
}

/// Swaps the median of the second, the middle and the last item to the front.
fn median_to_front<T>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let below = |x: usize, y: usize| less(&items[x], &items[y]);
    let median = if below(a, b) {
        if below(b, c) {
            b
        } else if below(a, c) {
            c
        } else {
            a
        }
    } else if below(a, c) {
        a
    } else if below(b, c) {
        c
    } else {
        b
    };
    items.swap(0, median);
}

/// Partitions the items after the first around it; returns the start of the upper part.
fn partition<T>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) -> usize {
    let (mut low, mut high) = (1, items.len());
    loop {
        // Both searches end inside: the median of three items bounds them from below and above.
        while less(&items[low], &items[0]) {
            low += 1;
        }
        high -= 1;
        while less(&items[0], &items[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        items.swap(low, high);
        low += 1;
    }
}

/// Moves the item at `at` down to its place; an earlier item must not be above it.
fn insert<T: Copy>(items: &mut [T], mut at: usize, less: &impl Fn(&T, &T) -> bool) {
    let item = items[at];
    while at > 0 && less(&item, &items[at - 1]) {
        items[at] = items[at - 1];
        at -= 1;
    }
    items[at] = item;
}

fn heap_sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    for at in (0..items.len() / 2).rev() {
        sift(items, at, items[at], less);
    }
    for end in (1..items.len()).rev() {
        let item = items[end];
        items[end] = items[0];
        sift(&mut items[..end], 0, item, less);
    }
}

/// Sinks the hole at `top` to a leaf along the larger children, and lets `item` rise from there.
fn sift<T: Copy>(items: &mut [T], top: usize, item: T, less: &impl Fn(&T, &T) -> bool) {
    let mut hole = top;
    while 2 * hole + 1 < items.len() {
        let (left, right) = (2 * hole + 1, 2 * hole + 2);
        let child = if right < items.len() && !less(&items[right], &items[left]) { right } else { left };
        items[hole] = items[child];
        hole = child;
    }
    while hole > top && less(&items[(hole - 1) / 2], &item) {
        items[hole] = items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    items[hole] = item;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the order of equal keys that GCC's `std::sort` gives, as an FNV-1a hash over the little-endian 32-bit
    /// indices.
    fn check(keys: impl Iterator<Item = u32>, expected: u64) {
        let mut items: Vec<(u32, u32)> = keys.zip(0..).collect();
        introsort(&mut items, |a, b| a.0 < b.0);
        assert!(items.is_sorted_by_key(|item| item.0));
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.1.to_le_bytes()).collect();
        assert_eq!(limo_model::Digest::new().with(&bytes).value(), expected, "{} keys", items.len());
    }

    /// Returns ten keys in the order of a linear congruential generator (Numerical Recipes).
    fn mixed(count: usize) -> impl Iterator<Item = u32> {
        let step = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(1_u32), step).skip(1).take(count).map(|state| (state >> 16) % 10)
    }

    /// Returns Musser's sequence, on which the median of three is always a bad pivot, so that it ends in the heap
    /// sort.
    fn killer(count: u32) -> Vec<u32> {
        let half = count / 2;
        let low = (1..=half).map(|i| if i % 2 == 1 { i } else { half + i - 1 });
        low.chain((1..=half).map(|i| 2 * i)).collect()
    }

    #[test]
    fn ties_as_the_library_leaves_them() {
        let expected = [
            (16, 0xf550_498c_d363_a5a5),
            (17, 0xb6d9_95ce_db74_3995),
            (40, 0x72c1_be19_61de_be05),
            (1_000, 0x15a2_2b9a_75da_527d),
            (20_000, 0xd6b9_ab78_e5da_6721),
        ];
        expected.into_iter().for_each(|(count, hash)| check(mixed(count), hash));
    }

    #[test]
    fn the_heap_sort_too() {
        check(killer(2_000).into_iter(), 0x4762_fc39_ee0c_1965);
        check(killer(2_000).into_iter().map(|key| key / 4), 0xe17f_05ae_246f_1181);
    }
}
