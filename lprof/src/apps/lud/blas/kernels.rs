//! Products, and solutions with triangles of up to 64 rows. All sizes are multiples of 16. Numbers that are used often are
//! copied to one piece of memory first: rows of a matrix are often a power of two apart, and few of those fit in a cache.

use super::{BASE, Part};
use crate::apps::lud::cpu::has_fused;
use crate::workload::recipe::BLOCK;

/// Rows of a group that stay in registers.
const ROWS: usize = 4;

/// Columns of a group.
const COLUMNS: usize = BLOCK;

/// Numbers in registers.
type Group = [[f32; COLUMNS]; ROWS];

/// Defines a function that runs `$body` with instructions that multiply and subtract at once if the processor has them.
///
/// # Safety
/// See [`Part`].
macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident, $body:ident, $($argument:ident),*) => {
        $(#[$doc])*
        pub unsafe fn $name($($argument: Part),*) {
            #[cfg(target_arch = "x86_64")]
            if has_fused() {
                #[target_feature(enable = "avx2,fma")]
                unsafe fn fused($($argument: Part),*) {
                    // SAFETY: the caller's promise.
                    unsafe { $body::<true>($($argument),*) }
                }
                // SAFETY: the caller's promise, and the processor has AVX2 and FMA.
                return unsafe { fused($($argument),*) };
            }
            // SAFETY: the caller's promise.
            unsafe { $body::<{ cfg!(target_arch = "aarch64") }>($($argument),*) }
        }
    };
}

dispatched! {
    /// Decomposes `part` of 16 rows.
    ///
    /// # Safety
    /// See [`Part`].
    decompose, decompose_body, part
}

dispatched! {
    /// Solves L·X = `part` in place, with the lower triangle of `triangle`, which has at most 64 rows.
    ///
    /// # Safety
    /// See [`Part`].
    solve_lower, solve_lower_body, triangle, part
}

dispatched! {
    /// Solves X·U = `part` in place, with the upper triangle of `triangle`, which has at most 64 rows.
    ///
    /// # Safety
    /// See [`Part`].
    solve_upper, solve_upper_body, triangle, part
}

dispatched! {
    /// Subtracts the product of `left` and `right` from `part`.
    ///
    /// # Safety
    /// See [`Part`].
    subtract, subtract_body, left, right, part
}

#[inline(always)]
fn subtract_row<const FUSED: bool>(from: &mut [f32; COLUMNS], factor: f32, values: &[f32; COLUMNS]) {
    for (number, value) in from.iter_mut().zip(values) {
        *number = if FUSED { (-factor).mul_add(*value, *number) } else { *number - factor * value };
    }
}

#[inline(always)]
unsafe fn decompose_body<const FUSED: bool>(part: Part) {
    // SAFETY: the caller's promise.
    let mut tile: [[f32; COLUMNS]; COLUMNS] = std::array::from_fn(|row| unsafe { *part.numbers(row, 0) });
    for pivot in 0..COLUMNS {
        let mut right = [0.0; COLUMNS];
        right[pivot + 1..].copy_from_slice(&tile[pivot][pivot + 1..]);
        let inverse = 1.0 / tile[pivot][pivot];
        for row in &mut tile[pivot + 1..] {
            let factor = row[pivot] * inverse;
            row[pivot] = factor;
            subtract_row::<FUSED>(row, factor, &right);
        }
    }
    // SAFETY: the caller's promise.
    tile.into_iter().enumerate().for_each(|(row, numbers)| unsafe { *part.numbers(row, 0) = numbers });
}

#[inline(always)]
unsafe fn solve_lower_body<const FUSED: bool>(triangle: Part, part: Part) {
    let mut solved = [[0.0; COLUMNS]; BASE];
    for column in (0..part.columns).step_by(COLUMNS) {
        for first in (0..triangle.rows).step_by(ROWS) {
            // SAFETY: the caller's promise.
            let (factors, mut group): ([&[f32]; ROWS], Group) = unsafe {
                (
                    std::array::from_fn(|row| triangle.row(first + row)),
                    std::array::from_fn(|row| *part.numbers(first + row, column)),
                )
            };
            for (inner, values) in solved[..first].iter().enumerate() {
                (0..ROWS).for_each(|row| subtract_row::<FUSED>(&mut group[row], factors[row][inner], values));
            }
            for pivot in 0..ROWS {
                let values = group[pivot];
                for row in pivot + 1..ROWS {
                    subtract_row::<FUSED>(&mut group[row], factors[row][first + pivot], &values);
                }
            }
            solved[first..first + ROWS].copy_from_slice(&group);
            // SAFETY: the caller's promise.
            (0..ROWS).for_each(|row| unsafe { *part.numbers(first + row, column) = group[row] });
        }
    }
}

#[inline(always)]
unsafe fn solve_upper_body<const FUSED: bool>(triangle: Part, part: Part) {
    // By groups of columns: the numbers above the diagonal.
    let mut above = [[[0.0; COLUMNS]; BASE]; BASE / COLUMNS];
    let mut inverses = [0.0; BASE];
    for row in 0..triangle.rows {
        // SAFETY: the caller's promise.
        let values = unsafe { triangle.row(row) };
        inverses[row] = 1.0 / values[row];
        for column in row + 1..triangle.columns {
            above[column / COLUMNS][row][column % COLUMNS] = values[column];
        }
    }
    for first in (0..part.rows).step_by(ROWS) {
        for (index, above) in above[..triangle.columns / COLUMNS].iter().enumerate() {
            let column = index * COLUMNS;
            // SAFETY: the caller's promise.
            let (solved, mut group): ([&[f32]; ROWS], Group) = unsafe {
                (
                    std::array::from_fn(|row| part.row(first + row)),
                    std::array::from_fn(|row| *part.numbers(first + row, column)),
                )
            };
            for (inner, values) in above[..column].iter().enumerate() {
                (0..ROWS).for_each(|row| subtract_row::<FUSED>(&mut group[row], solved[row][inner], values));
            }
            for pivot in 0..COLUMNS {
                for numbers in &mut group {
                    let factor = numbers[pivot] * inverses[column + pivot];
                    subtract_row::<FUSED>(numbers, factor, &above[column + pivot]);
                    numbers[pivot] = factor;
                }
            }
            // SAFETY: the caller's promise.
            (0..ROWS).for_each(|row| unsafe { *part.numbers(first + row, column) = group[row] });
        }
    }
}

#[inline(always)]
unsafe fn subtract_body<const FUSED: bool>(left: Part, right: Part, part: Part) {
    let mut factors = [[[0.0; ROWS]; BASE]; BASE / ROWS];
    let mut values = [[0.0; COLUMNS]; BASE];
    for inner in (0..left.columns).step_by(BASE) {
        let depth = BASE.min(left.columns - inner);
        for top in (0..part.rows).step_by(BASE) {
            let rows = BASE.min(part.rows - top);
            for row in 0..rows {
                // SAFETY: the caller's promise.
                let numbers = unsafe { &left.row(top + row)[inner..inner + depth] };
                let group = factors[row / ROWS].iter_mut();
                group.zip(numbers).for_each(|(factors, number)| factors[row % ROWS] = *number);
            }
            for column in (0..part.columns).step_by(COLUMNS) {
                for (row, values) in values[..depth].iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *values = unsafe { *right.numbers(inner + row, column) };
                }
                for (index, factors) in factors[..rows / ROWS].iter().enumerate() {
                    let first = top + index * ROWS;
                    // SAFETY: the caller's promise.
                    let mut group: Group = std::array::from_fn(|row| unsafe { *part.numbers(first + row, column) });
                    for (factors, values) in factors.iter().zip(&values[..depth]) {
                        (0..ROWS).for_each(|row| subtract_row::<FUSED>(&mut group[row], factors[row], values));
                    }
                    // SAFETY: the caller's promise.
                    (0..ROWS).for_each(|row| unsafe { *part.numbers(first + row, column) = group[row] });
                }
            }
        }
    }
}
