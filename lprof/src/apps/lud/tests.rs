//! Tests of the variants against the product of their triangles.

use super::*;
use crate::apps::{ALL, Entry};

/// Returns the relative residual of one job.
fn residual_of(application: &mut dyn Application, dimension: usize, seed: u64) -> f64 {
    let matrix = Matrices::new(seed).draw(dimension).to_vec();
    let mut bytes: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
    application.process(&mut bytes).unwrap();
    let decomposed: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    residual(&matrix, &decomposed, dimension)
}

fn variants() -> impl Iterator<Item = &'static Entry> {
    ALL.iter().filter(|entry| entry.name.starts_with("lud-"))
}

/// Checks a variant at all dimensions up to 1024, in one session of that name.
fn check_dimensions(name: &str, session: &str) {
    let entry = crate::apps::named(name).unwrap();
    if let Err(error) = (entry.devices)() {
        return limo_requirements::skip(limo_requirements::Requirement::Program, &format!("{name}: {error}"));
    }
    let mut application = (entry.init)(session).unwrap();
    // All steps of small matrices, and those at which variants divide their work otherwise.
    let dimensions = (16..=256).step_by(16).chain([304, 400, 512, 528, 640, 784, 1008, 1024]);
    for dimension in dimensions {
        let residual = residual_of(application.as_mut(), dimension, dimension as u64);
        assert!(residual < RESIDUAL, "{name} {session}: {residual:e} at dimension {dimension}");
    }
    application.fini().unwrap();
}

#[test]
fn lud_cpu_decomposes_all_dimensions() {
    check_dimensions("lud-cpu", "");
}

#[test]
fn lud_blas_decomposes_all_dimensions() {
    check_dimensions("lud-blas", "");
}

#[test]
fn lud_opencl_decomposes_all_dimensions() {
    let _cache = opencl::own_cache().unwrap();
    for session in ["", "interior=rows", "interior=local16", "interior=local64"] {
        check_dimensions("lud-opencl", session);
    }
}

#[test]
fn lud_cuda_decomposes_all_dimensions() {
    check_dimensions("lud-cuda", "");
}

#[test]
fn unknown_kernels_are_refused() {
    for word in ["interior=", "interior=local32", "exterior=rows", "device=x"] {
        let error = opencl::init(&format!("m16_i0 {word}")).err().expect(word).to_string();
        let known = "device=N, interior=rows|local16|local64";
        assert_eq!(
            error,
            format!("the option {word:?} in the session name is unknown or wrong; possible here: {known}")
        );
    }
}

#[test]
fn steps_end_with_the_tile_on_the_last_diagonal() {
    let of = |dimension, tile| steps(dimension, tile).collect::<Vec<_>>();
    assert_eq!(of(16, 16), [(0, 0)]);
    assert_eq!(of(48, 16), [(0, 2), (16, 1), (32, 0)]);
    // The second tile has 16 rows.
    assert_eq!(of(80, 64), [(0, 1), (64, 0)]);
    assert_eq!(of(128, 64), [(0, 1), (64, 0)]);
}

#[test]
fn other_dimensions_are_refused() {
    for entry in variants().filter(|entry| (entry.devices)().is_ok()) {
        let mut application = (entry.init)("").unwrap();
        for size in [0, 4, 4 * 8 * 8, 4 * 24 * 24, 4 * 16 * 16 + 4] {
            let error = application.process(&mut vec![0; size]).expect_err(entry.name);
            assert_eq!(error, ApplicationError::Dimension { size: size as u64 });
        }
    }
}

#[test]
fn a_wrong_result_is_found() {
    struct LeavesItAlone;
    impl Decomposer for LeavesItAlone {
        fn decompose(&mut self, _matrix: &mut [f32], _dimension: usize) -> Result<(), ApplicationError> {
            Ok(())
        }
    }
    let error = check(application(LeavesItAlone).as_mut()).expect_err("nothing was decomposed").to_string();
    assert!(error.starts_with("the result is wrong: its residual is ") && error.ends_with("not below 1e-5"), "{error}");
}
