//! LU decomposition without pivoting, the job of limo-2018, section 4.1.2: variants for several devices.
//!
//! An input is a square matrix of little-endian f32, row by row, whose dimension is a multiple of 16. It is replaced by
//! both triangles: U with its diagonal, and L, whose diagonal of ones is left out.

pub mod blas;
pub mod cpu;
pub mod cuda;
pub mod opencl;

use super::{Application, ApplicationError};
use crate::workload::matrix::{Matrices, residual};
use crate::workload::summary::dimension;

/// Largest relative residual of a decomposition that is right.
pub const RESIDUAL: f64 = 1e-5;

/// Items in each direction of a group of the kernel `lud_internal`: `SIDE` of `lud.k`.
const SIDE: usize = 16;

/// Rows of items in the group of the kernel `lud_diagonal` on a GPU.
const DIAGONAL_ROWS: usize = 4;

/// One variant, prepared for a session.
pub trait Decomposer {
    /// Decomposes a matrix of `dimension` rows in place. `dimension` is a multiple of 16, and above 0.
    ///
    /// # Errors
    /// If the device fails.
    fn decompose(&mut self, matrix: &mut [f32], dimension: usize) -> Result<(), ApplicationError>;
}

/// An application from a variant.
struct Lud<D> {
    variant: D,
    matrix: Vec<f32>,
}

impl<D: Decomposer> Application for Lud<D> {
    fn process(&mut self, input: &mut [u8]) -> Result<(), ApplicationError> {
        let size = input.len() as u64;
        let dimension = dimension(size).ok_or(ApplicationError::Dimension { size })?;
        let (numbers, _) = input.as_chunks::<4>();
        self.matrix.clear();
        self.matrix.extend(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        self.variant.decompose(&mut self.matrix, dimension)?;
        let (numbers, _) = input.as_chunks_mut::<4>();
        numbers.iter_mut().zip(&self.matrix).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
        Ok(())
    }

    fn fini(self: Box<Self>) -> Result<(), ApplicationError> {
        Ok(())
    }
}

fn application(variant: impl Decomposer + 'static) -> Box<dyn Application> {
    Box::new(Lud { variant, matrix: Vec::new() })
}

/// Returns the steps of the kernels in `lud.k` for tiles of that dimension: the row at which each begins, and its number of
/// tiles right of the diagonal. `dimension` is below 2^31.
fn steps(dimension: usize, tile: usize) -> impl Iterator<Item = (i32, usize)> {
    (0..dimension).step_by(tile).map(move |begin| (begin as i32, (dimension - begin).div_ceil(tile) - 1))
}

/// Decomposes a small random matrix and checks the result.
///
/// # Errors
/// If the application fails, or its result is wrong.
pub fn check(application: &mut dyn Application) -> Result<(), ApplicationError> {
    const DIMENSION: usize = 64;
    let matrix = Matrices::new(1).draw(DIMENSION).to_vec();
    let mut bytes: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
    application.process(&mut bytes)?;
    let (numbers, _) = bytes.as_chunks::<4>();
    let decomposed: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let residual = residual(&matrix, &decomposed, DIMENSION);
    // A residual that is not a number is wrong as well.
    if residual < RESIDUAL { Ok(()) } else { Err(ApplicationError::Wrong { residual: format!("{residual:.1e}") }) }
}

#[cfg(test)]
mod tests;
