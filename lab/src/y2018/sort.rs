//! `std::sort` of libstdc++, step by step: introsort with a final insertion sort.
//!
//! It keeps the order of equal elements only up to 16 elements. For more, equal elements end in the order that the swaps
//! give, and the published program depends on this order twice: for nodes and for jobs (PROGRAM.md, section 3). The
//! standard library of Rust has other swaps.

/// Largest range that is left to the insertion sort.
const SMALL: usize = 16;

/// Sorts like `std::sort(begin, end, less)`. `less` must be a strict weak order.
pub fn sort<T: Copy>(items: &mut [T], less: &impl Fn(T, T) -> bool) {
    let depth = 2 * items.len().checked_ilog2().unwrap_or(0);
    divide(items, depth, less);
    insert(items, less);
}

/// Partitions until all ranges are small. Sorts a range as a heap once `depth` partitions around it were not enough.
fn divide<T: Copy>(mut items: &mut [T], mut depth: u32, less: &impl Fn(T, T) -> bool) {
    while items.len() > SMALL {
        if depth == 0 {
            return sort_heap(items, less);
        }
        depth -= 1;
        let cut = partition(items, less);
        let (left, right) = items.split_at_mut(cut);
        divide(right, depth, less);
        items = left;
    }
}

/// Moves the median of three elements to the front and partitions the others by it. Returns the first index of the right
/// part.
fn partition<T: Copy>(items: &mut [T], less: &impl Fn(T, T) -> bool) -> usize {
    let (first, middle, last) = (1, items.len() / 2, items.len() - 1);
    let [a, b, c] = [items[first], items[middle], items[last]];
    let median = if less(a, b) {
        if less(b, c) {
            middle
        } else if less(a, c) {
            last
        } else {
            first
        }
    } else if less(a, c) {
        first
    } else if less(b, c) {
        last
    } else {
        middle
    };
    items.swap(0, median);
    let pivot = items[0];
    let (mut left, mut right) = (1, items.len());
    loop {
        while less(items[left], pivot) {
            left += 1;
        }
        right -= 1;
        while less(pivot, items[right]) {
            right -= 1;
        }
        if left >= right {
            return left;
        }
        items.swap(left, right);
        left += 1;
    }
}

fn insert<T: Copy>(items: &mut [T], less: &impl Fn(T, T) -> bool) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && less(items[at], items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// `std::make_heap`, then `std::sort_heap`.
fn sort_heap<T: Copy>(items: &mut [T], less: &impl Fn(T, T) -> bool) {
    for parent in (0..items.len() / 2).rev() {
        sink(items, parent, items[parent], less);
    }
    for end in (1..items.len()).rev() {
        let value = items[end];
        items[end] = items[0];
        sink(&mut items[..end], 0, value, less);
    }
}

/// Moves the hole at `top` down to a leaf along the larger children, the right one of equals, and then `value` up from
/// there.
fn sink<T: Copy>(items: &mut [T], top: usize, value: T, less: &impl Fn(T, T) -> bool) {
    let mut hole = top;
    while 2 * hole + 1 < items.len() {
        let (left, right) = (2 * hole + 1, 2 * hole + 2);
        let child = if right < items.len() && !less(items[right], items[left]) { right } else { left };
        items[hole] = items[child];
        hole = child;
    }
    while hole > top && less(items[(hole - 1) / 2], value) {
        items[hole] = items[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    items[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts 0 to `count - 1`, which are all equal.
    fn equals(count: usize) -> Vec<usize> {
        let mut items: Vec<usize> = (0..count).collect();
        sort(&mut items, &|_, _| false);
        items
    }

    #[test]
    fn equal_elements_keep_their_order_up_to_sixteen() {
        assert_eq!(equals(16), (0..16).collect::<Vec<_>>());
        // The median of places 1, 8 and 16 is place 8; it is swapped with place 0. Then places 1 and 16, 2 and 15, up to 8
        // and 9 are swapped. Both parts, of 9 and of 8 elements, are small.
        assert_eq!(equals(17), [8, 16, 15, 14, 13, 12, 11, 10, 9, 0, 7, 6, 5, 4, 3, 2, 1]);
        assert!(equals(0).is_empty());
    }

    #[test]
    fn sixty_four_equal_nodes_have_the_published_order() {
        // PROGRAM.md, section 3, node order.
        let order = [48..49, 33..48, 32..33, 49..64, 16..17, 1..16, 0..1, 17..32];
        assert_eq!(equals(64), order.into_iter().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn four_equal_elements_of_a_heap() {
        // Heap: [0 1 2 3] -> [0 3 2 1] for parent 1, -> [2 3 0 1] for parent 0.
        // Sorted: [0 3 1 | 2] -> [3 1 | 0 2] -> [1 | 3 0 2].
        let mut items = [0, 1, 2, 3];
        sort_heap(&mut items, &|_, _| false);
        assert_eq!(items, [1, 3, 0, 2]);
    }

    #[test]
    fn different_elements_are_sorted_with_and_without_a_heap() {
        let scrambled = || (0..97).map(|number| number * 41 % 97).collect::<Vec<u32>>();
        let sorted: Vec<u32> = (0..97).collect();
        let less = |a, b| a < b;
        let (mut partitioned, mut heap) = (scrambled(), scrambled());
        sort(&mut partitioned, &less);
        // Two partitions are not enough for 97 elements.
        divide(&mut heap, 2, &less);
        insert(&mut heap, &less);
        assert_eq!((partitioned, heap), (sorted.clone(), sorted));
    }
}
