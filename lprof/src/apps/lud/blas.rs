//! `lud-blas`: recursive halves. Large products are those of the crate `matrixmultiply`, whose own threads end at four, so
//! products and solutions are split over the threads of `rayon` here. Small parts have kernels of their own.

mod kernels;

use rayon::prelude::*;

use super::{Decomposer, application};
use crate::apps::{Application, ApplicationError, no_options};
use crate::workload::recipe::BLOCK;

/// Dimension from which on a triangle is halved for its solutions.
const BASE: usize = 64;

/// Inner dimension from which on products are those of `matrixmultiply`, which copies more.
const LARGE: usize = 128;

/// Products of two numbers from which on threads share a product or the solutions with a triangle.
const PARALLEL: usize = 1 << 20;

/// The variant.
#[derive(Debug, Default)]
pub struct Blas;

/// Prepares a session.
pub fn init(session: &str) -> Result<Box<dyn Application>, ApplicationError> {
    no_options(session)?;
    Ok(application(Blas))
}

impl Decomposer for Blas {
    fn decompose(&mut self, matrix: &mut [f32], dimension: usize) -> Result<(), ApplicationError> {
        assert_eq!(matrix.len(), dimension * dimension, "a square matrix");
        let whole = Part { data: matrix.as_mut_ptr(), rows: dimension, columns: dimension, stride: dimension };
        // Entering the pool once takes less time than for each shared step.
        // SAFETY: `whole` is exactly `matrix`, which is borrowed for the call.
        rayon::scope(|_| unsafe { decompose(whole) });
        Ok(())
    }
}

/// A rectangle of a matrix that is stored by rows.
///
/// Functions that take parts are unsafe: the memory must be there, and parts that a call writes must not overlap with
/// its others or be used meanwhile. The methods that divide a part give parts that do not overlap.
#[derive(Clone, Copy)]
struct Part {
    data: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
}

// SAFETY: a part is only an address; its users promise that no two threads use the same numbers.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// Returns the `rows` by `columns` numbers from (`row`, `column`) on, all of which must be in this part.
    fn sub(self, row: usize, column: usize, rows: usize, columns: usize) -> Self {
        debug_assert!(row + rows <= self.rows && column + columns <= self.columns);
        Self { data: self.data.wrapping_add(row * self.stride + column), rows, columns, stride: self.stride }
    }

    fn split_rows(self, at: usize) -> (Self, Self) {
        (self.sub(0, 0, at, self.columns), self.sub(at, 0, self.rows - at, self.columns))
    }

    fn split_columns(self, at: usize) -> (Self, Self) {
        (self.sub(0, 0, self.rows, at), self.sub(0, at, self.rows, self.columns - at))
    }

    /// Splits the part in strips of at most `rows` by `columns`.
    fn strips(self, rows: usize, columns: usize) -> Vec<Self> {
        let starts = (0..self.rows).step_by(rows);
        let strip = |row, column| self.sub(row, column, rows.min(self.rows - row), columns.min(self.columns - column));
        starts.flat_map(|row| (0..self.columns).step_by(columns).map(move |column| strip(row, column))).collect()
    }

    /// # Safety
    /// See [`Part`].
    unsafe fn row<'a>(self, row: usize) -> &'a [f32] {
        debug_assert!(row < self.rows);
        // SAFETY: the caller promises that the part is there and that nothing writes the row.
        unsafe { std::slice::from_raw_parts(self.data.add(row * self.stride), self.columns) }
    }

    /// Returns the address of a block of numbers in a row, from (`row`, `column`) on.
    fn numbers(self, row: usize, column: usize) -> *mut [f32; BLOCK] {
        debug_assert!(row < self.rows && column + BLOCK <= self.columns);
        self.data.wrapping_add(row * self.stride + column).cast()
    }
}

/// Size of strips for the threads: a multiple of 16.
fn share(size: usize) -> usize {
    size.div_ceil(rayon::current_num_threads()).next_multiple_of(BLOCK)
}

/// # Safety
/// See [`Part`].
unsafe fn decompose(part: Part) {
    let dimension = part.rows;
    // SAFETY: the halves do not overlap, and each call finishes before the next one begins.
    unsafe {
        if dimension <= BLOCK {
            return kernels::decompose(part);
        }
        let half = half(dimension);
        let (above, below) = part.split_rows(half);
        let (first, right) = above.split_columns(half);
        let (left, last) = below.split_columns(half);
        decompose(first);
        if half * half * right.columns < PARALLEL {
            solve_lower(first, right);
            solve_upper(first, left);
        } else {
            let rights = right.strips(half, share(right.columns));
            let lefts = left.strips(share(left.rows), half);
            rayon::join(
                || rights.into_par_iter().for_each(|strip| solve_lower(first, strip)),
                || lefts.into_par_iter().for_each(|strip| solve_upper(first, strip)),
            );
        }
        subtract_shared(left, right, last);
        decompose(last);
    }
}

/// The first half of a dimension, a multiple of 16.
fn half(dimension: usize) -> usize {
    (dimension / 2).next_multiple_of(BLOCK)
}

/// Solves L·X = `part` in place, with the lower triangle of `triangle`.
///
/// # Safety
/// See [`Part`].
unsafe fn solve_lower(triangle: Part, part: Part) {
    let dimension = triangle.rows;
    // SAFETY: different rows, and halves that do not overlap.
    unsafe {
        if dimension <= BASE {
            return kernels::solve_lower(triangle, part);
        }
        let half = half(dimension);
        let (first, last) = part.split_rows(half);
        solve_lower(triangle.sub(0, 0, half, half), first);
        subtract(triangle.sub(half, 0, dimension - half, half), first, last);
        solve_lower(triangle.sub(half, half, dimension - half, dimension - half), last);
    }
}

/// Solves X·U = `part` in place, with the upper triangle of `triangle`.
///
/// # Safety
/// See [`Part`].
unsafe fn solve_upper(triangle: Part, part: Part) {
    let dimension = triangle.rows;
    // SAFETY: the triangle is only read, and the halves do not overlap.
    unsafe {
        if dimension <= BASE {
            return kernels::solve_upper(triangle, part);
        }
        let half = half(dimension);
        let (first, last) = part.split_columns(half);
        solve_upper(triangle.sub(0, 0, half, half), first);
        subtract(first, triangle.sub(0, half, half, dimension - half), last);
        solve_upper(triangle.sub(half, half, dimension - half, dimension - half), last);
    }
}

/// Subtracts the product of `left` and `right` from `part`, shared by the threads if it is large.
///
/// # Safety
/// See [`Part`].
unsafe fn subtract_shared(left: Part, right: Part, part: Part) {
    if part.rows * part.columns * left.columns < PARALLEL {
        // SAFETY: the caller's promise.
        return unsafe { subtract(left, right, part) };
    }
    let rows = share(part.rows);
    let strips = part.strips(rows, part.columns).into_par_iter().enumerate();
    strips.for_each(|(index, strip)| {
        let left = left.sub(index * rows, 0, strip.rows, left.columns);
        // SAFETY: strips do not overlap.
        unsafe { subtract(left, right, strip) };
    });
}

/// Subtracts the product of `left` and `right` from `part`.
///
/// # Safety
/// See [`Part`].
unsafe fn subtract(left: Part, right: Part, part: Part) {
    let inner = left.columns;
    if inner < LARGE {
        // SAFETY: the caller's promise.
        return unsafe { kernels::subtract(left, right, part) };
    }
    // The stride is a dimension, which is below 2^24.
    let stride = |part: Part| part.stride as isize;
    // SAFETY: the three parts are there, `part` does not overlap with the others, and their sizes fit.
    unsafe {
        matrixmultiply::sgemm(
            part.rows,
            inner,
            part.columns,
            -1.0,
            left.data,
            stride(left),
            1,
            right.data,
            stride(right),
            1,
            1.0,
            part.data,
            stride(part),
            1,
        );
    }
}
