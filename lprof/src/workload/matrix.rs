//! Random matrices that have an LU decomposition without pivoting: A = L·U from random triangles (limo-2018, section
//! 4.1.2), and the residual of a decomposition.
//!
//! The product is computed in a fixed order without fused operations, so equal seeds give equal bytes on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::recipe::BLOCK;

/// Columns that are multiplied at a time, so that they stay in the cache.
const COLUMNS: usize = 1024;

/// Makes matrices one after the other, and reuses the memory.
#[derive(Debug)]
pub struct Matrices {
    generator: Xoshiro256PlusPlus,
    lower: Vec<f32>,
    upper: Vec<f32>,
    product: Vec<f32>,
}

impl Matrices {
    /// Starts the contents of a workload. They are independent of the sizes that the same seed chooses.
    pub fn new(seed: u64) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        generator.jump();
        Self { generator, lower: Vec::new(), upper: Vec::new(), product: Vec::new() }
    }

    /// Returns a matrix by rows. `dimension` is a multiple of 16.
    ///
    /// L has ones on its diagonal, U numbers from [1, 2). All others are from (-1, 1)/√dimension, so that the numbers
    /// of both and of their inverses stay small in matrices of any dimension.
    pub fn draw(&mut self, dimension: usize) -> &[f32] {
        let scale = 1.0 / (dimension as f32).sqrt();
        for triangle in [&mut self.lower, &mut self.upper] {
            triangle.clear();
            triangle.resize(dimension * dimension, 0.0);
        }
        for row in 0..dimension {
            let at = row * dimension;
            self.lower[at..at + row].fill_with(|| scale * (2.0 * unit(&mut self.generator) - 1.0));
            self.lower[at + row] = 1.0;
            self.upper[at + row] = 1.0 + unit(&mut self.generator);
            self.upper[at + row + 1..at + dimension].fill_with(|| scale * (2.0 * unit(&mut self.generator) - 1.0));
        }
        multiply(&self.lower, &self.upper, dimension, &mut self.product);
        &self.product
    }
}

/// Draws uniformly from [0, 1), in steps of 2^-24.
fn unit(generator: &mut Xoshiro256PlusPlus) -> f32 {
    (generator.next_u64() >> 40) as f32 * (1.0 / (1_u32 << 24) as f32)
}

/// Computes the product of a lower and an upper triangular matrix. Each thread computes whole bands of rows.
fn multiply(lower: &[f32], upper: &[f32], dimension: usize, product: &mut Vec<f32>) {
    product.clear();
    product.resize(dimension * dimension, 0.0);
    let band = |(index, rows): (usize, &mut [f32])| {
        let first = index * BLOCK;
        for left in (0..dimension).step_by(COLUMNS) {
            let right = (left + COLUMNS).min(dimension);
            for inner in 0..(first + BLOCK).min(right) {
                // The rows of U begin at their diagonal.
                let from = left.max(inner);
                let factors = &upper[inner * dimension + from..inner * dimension + right];
                for (row, sums) in rows.chunks_exact_mut(dimension).enumerate() {
                    let factor = lower[(first + row) * dimension + inner];
                    sums[from..right].iter_mut().zip(factors).for_each(|(sum, of_upper)| *sum += factor * of_upper);
                }
            }
        }
    };
    let bands = product.chunks_mut(BLOCK * dimension);
    if dimension <= 8 * BLOCK {
        bands.enumerate().for_each(band);
    } else {
        product.par_chunks_mut(BLOCK * dimension).enumerate().for_each(band);
    }
}

/// Returns the largest difference between `matrix` and the product of the triangles in `decomposed`, divided by the
/// largest number of `matrix`. Sums have double precision.
pub fn residual(matrix: &[f32], decomposed: &[f32], dimension: usize) -> f64 {
    let row_difference = |row: usize| {
        let mut sums = vec![0.0_f64; dimension];
        for inner in 0..=row {
            let factor = if inner == row { 1.0 } else { f64::from(decomposed[row * dimension + inner]) };
            let factors = &decomposed[inner * dimension + inner..(inner + 1) * dimension];
            sums[inner..].iter_mut().zip(factors).for_each(|(sum, of_upper)| *sum += factor * f64::from(*of_upper));
        }
        let expected = &matrix[row * dimension..(row + 1) * dimension];
        // A number that is not finite must not be lost in a maximum.
        let differences = sums.iter().zip(expected).map(|(sum, of_matrix)| (sum - f64::from(*of_matrix)).abs());
        differences
            .fold(0.0, |most: f64, difference| if difference > most || difference.is_nan() { difference } else { most })
    };
    let rows = (0..dimension).into_par_iter().map(row_difference);
    let most = rows.reduce(|| 0.0, |a, b| if a.is_nan() || a > b { a } else { b });
    let largest = matrix.iter().fold(0.0_f64, |largest, value| largest.max(f64::from(value.abs())));
    most / largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_that_of_the_triangles() {
        for dimension in [16, 32, 176, 1040] {
            let mut matrices = Matrices::new(1);
            let matrix = matrices.draw(dimension).to_vec();
            let decomposed: Vec<f32> = (0..dimension * dimension)
                .map(|at| if at % dimension < at / dimension { matrices.lower[at] } else { matrices.upper[at] })
                .collect();
            let residual = residual(&matrix, &decomposed, dimension);
            assert!(residual < 1e-6, "{dimension}: {residual}");
        }
    }

    #[test]
    fn triangles_have_their_ranges() {
        let mut matrices = Matrices::new(2);
        matrices.draw(64);
        for (row, (lower, upper)) in matrices.lower.chunks(64).zip(matrices.upper.chunks(64)).enumerate() {
            assert!(lower[row] == 1.0 && (1.0..2.0).contains(&upper[row]));
            assert!(lower[row + 1..].iter().chain(&upper[..row]).all(|value| *value == 0.0));
            // 1/√64 is 0.125.
            assert!(lower[..row].iter().chain(&upper[row + 1..]).all(|value| value.abs() <= 0.125));
        }
    }

    #[test]
    fn the_residual_finds_one_wrong_number() {
        // [[2, 1], [4, 5]] is [[1, 0], [2, 1]] times [[2, 1], [0, 3]].
        assert_eq!(residual(&[2.0, 1.0, 4.0, 5.0], &[2.0, 1.0, 2.0, 3.0], 2), 0.0);
        // The product is [[2, 1], [4, 6]], and 1/5 is the difference.
        assert_eq!(residual(&[2.0, 1.0, 4.0, 5.0], &[2.0, 1.0, 2.0, 4.0], 2), 0.2);
        assert!(residual(&[2.0, 1.0, 4.0, 5.0], &[2.0, 1.0, f32::NAN, 3.0], 2).is_nan());
    }

    #[test]
    fn seeds_choose_the_contents() {
        let first = |seed| Matrices::new(seed).draw(16).to_vec();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let mut one = Matrices::new(1);
        assert_ne!(one.draw(16).to_vec(), one.draw(16).to_vec());
    }
}
