//! `lud-cpu`: tiles of 16 by 16 on all threads of `rayon`, the counterpart of Rodinia's OpenMP version.
//!
//! Step k decomposes the tile k on the diagonal, solves the tiles right of it and below it, and subtracts their
//! products from all tiles that are right of and below it. The tiles of the row are copied, so that each is in one
//! piece of memory.

use rayon::prelude::*;

use super::{Decomposer, application};
use crate::apps::{Application, ApplicationError, no_options};

/// Rows and columns of a tile.
const TILE: usize = 16;

/// Rows of a tile that stay in registers.
const ROWS: usize = 4;

/// Tiles in a row from which on threads share the work of a step.
const PARALLEL: usize = 10;

type Tile = [[f32; TILE]; TILE];

/// The variant.
#[derive(Debug)]
pub struct Cpu {
    /// The solved tiles of the current row.
    row: Vec<Tile>,
    has_fused: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { row: Vec::new(), has_fused: has_fused() }
    }
}

/// Prepares a session.
pub fn init(session: &str) -> Result<Box<dyn Application>, ApplicationError> {
    no_options(session)?;
    Ok(application(Cpu::default()))
}

impl Decomposer for Cpu {
    fn decompose(&mut self, matrix: &mut [f32], dimension: usize) -> Result<(), ApplicationError> {
        // Entering the pool once takes less time than for each shared step.
        rayon::scope(|_| self.steps(matrix, dimension));
        Ok(())
    }
}

impl Cpu {
    fn steps(&mut self, matrix: &mut [f32], dimension: usize) {
        for begin in (0..dimension).step_by(TILE) {
            let (above, below) = matrix.split_at_mut((begin + TILE) * dimension);
            let band = &mut above[begin * dimension..];
            let mut diagonal = load(band, dimension, begin);
            decompose_tile(&mut diagonal);
            store(&diagonal, band, dimension, begin);
            self.row.resize(dimension / TILE - begin / TILE - 1, [[0.0; TILE]; TILE]);
            self.step(&diagonal, band, below, dimension);
        }
    }

    /// Solves the rest of a row and a column, and subtracts their products.
    fn step(&mut self, diagonal: &Tile, band: &mut [f32], below: &mut [f32], dimension: usize) {
        let end = dimension - self.row.len() * TILE;
        let solve = |(index, tile): (usize, &mut Tile)| {
            *tile = load(band, dimension, end + index * TILE);
            solve_lower(diagonal, tile);
        };
        let is_parallel = self.row.len() >= PARALLEL;
        if is_parallel {
            self.row.par_iter_mut().enumerate().for_each(solve);
        } else {
            self.row.iter_mut().enumerate().for_each(solve);
        }
        let (row, has_fused) = (&self.row, self.has_fused);
        row.iter().enumerate().for_each(|(index, tile)| store(tile, band, dimension, end + index * TILE));
        let update = |band: &mut [f32]| {
            let mut left = load(band, dimension, end - TILE);
            solve_upper(diagonal, &mut left);
            store(&left, band, dimension, end - TILE);
            subtract(band, dimension, end, &left, row, has_fused);
        };
        if is_parallel {
            below.par_chunks_exact_mut(TILE * dimension).for_each(update);
        } else {
            below.chunks_exact_mut(TILE * dimension).for_each(update);
        }
    }
}

/// Copies the tile of a band of 16 rows that begins at `column`.
fn load(band: &[f32], dimension: usize, column: usize) -> Tile {
    let mut tile = [[0.0; TILE]; TILE];
    for (row, numbers) in tile.iter_mut().zip(band.chunks_exact(dimension)) {
        row.copy_from_slice(&numbers[column..column + TILE]);
    }
    tile
}

fn store(tile: &Tile, band: &mut [f32], dimension: usize, column: usize) {
    for (row, numbers) in tile.iter().zip(band.chunks_exact_mut(dimension)) {
        numbers[column..column + TILE].copy_from_slice(row);
    }
}

fn decompose_tile(tile: &mut Tile) {
    for pivot in 0..TILE {
        let (above, below) = tile.split_at_mut(pivot + 1);
        let pivot_row = &above[pivot];
        for row in below {
            row[pivot] /= pivot_row[pivot];
            let factor = row[pivot];
            for column in pivot + 1..TILE {
                row[column] -= factor * pivot_row[column];
            }
        }
    }
}

/// Solves L·X = `tile` for the L of `diagonal`.
fn solve_lower(diagonal: &Tile, tile: &mut Tile) {
    for pivot in 0..TILE {
        let (above, below) = tile.split_at_mut(pivot + 1);
        for (row, of_diagonal) in below.iter_mut().zip(&diagonal[pivot + 1..]) {
            for column in 0..TILE {
                row[column] -= of_diagonal[pivot] * above[pivot][column];
            }
        }
    }
}

/// Solves X·U = `tile` for the U of `diagonal`.
fn solve_upper(diagonal: &Tile, tile: &mut Tile) {
    for row in tile {
        for pivot in 0..TILE {
            row[pivot] /= diagonal[pivot][pivot];
            let factor = row[pivot];
            for column in pivot + 1..TILE {
                row[column] -= factor * diagonal[pivot][column];
            }
        }
    }
}

/// Subtracts the products of `left` with the tiles of a row from the tiles of a band, which begin at column `begin`.
fn subtract(band: &mut [f32], dimension: usize, begin: usize, left: &Tile, row: &[Tile], has_fused: bool) {
    #[cfg(target_arch = "x86_64")]
    if has_fused {
        // SAFETY: the processor has AVX2 and FMA, by `has_fused`.
        unsafe { subtract_fused(band, dimension, begin, left, row) };
        return;
    }
    let _ = has_fused;
    subtract_tiles(band, dimension, begin, left, row);
}

/// Returns true if the processor has instructions that multiply and subtract at once.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_fused() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_fused() -> bool {
    false
}

/// The same with two registers of eight numbers for each of four rows.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn subtract_fused(band: &mut [f32], dimension: usize, begin: usize, left: &Tile, row: &[Tile]) {
    use std::arch::x86_64::{_mm256_fnmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};
    let (groups, _) = left.as_chunks::<ROWS>();
    for (rows, factors) in band.chunks_exact_mut(ROWS * dimension).zip(groups) {
        for (index, tile) in row.iter().enumerate() {
            let column = begin + index * TILE;
            let numbers: [*mut f32; ROWS] =
                std::array::from_fn(|row| rows[row * dimension + column..][..TILE].as_mut_ptr());
            // SAFETY: each pointer is to the 16 numbers of a slice, and each row of a tile has 16.
            unsafe {
                let mut low = numbers.map(|numbers| _mm256_loadu_ps(numbers));
                let mut high = numbers.map(|numbers| _mm256_loadu_ps(numbers.add(TILE / 2)));
                for (inner, values) in tile.iter().enumerate() {
                    let values = (_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(TILE / 2)));
                    for row in 0..ROWS {
                        let factor = _mm256_set1_ps(factors[row][inner]);
                        low[row] = _mm256_fnmadd_ps(factor, values.0, low[row]);
                        high[row] = _mm256_fnmadd_ps(factor, values.1, high[row]);
                    }
                }
                for row in 0..ROWS {
                    _mm256_storeu_ps(numbers[row], low[row]);
                    _mm256_storeu_ps(numbers[row].add(TILE / 2), high[row]);
                }
            }
        }
    }
}

fn subtract_tiles(band: &mut [f32], dimension: usize, begin: usize, left: &Tile, row: &[Tile]) {
    for (numbers, factors) in band.chunks_exact_mut(dimension).zip(left) {
        for (numbers, tile) in numbers[begin..].as_chunks_mut::<TILE>().0.iter_mut().zip(row) {
            for (factor, values) in factors.iter().zip(tile) {
                numbers.iter_mut().zip(values).for_each(|(number, value)| *number -= factor * value);
            }
        }
    }
}
