//! Speed of LU decomposition, by variant: `cargo bench -p lprof --bench lud`. Next to it, in the same run and with the
//! same number of threads: OpenBLAS, if `cc` and libopenblas.so.0 are there, and Rodinia's OpenMP version, if
//! `LIMO_RODINIA` is the directory of its sources.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lprof::apps::{self, Entry};
use lprof::workload::matrix::Matrices;
use lprof::workload::recipe::flop;

const DIMENSIONS: [usize; 3] = [256, 1024, 2048];

/// Number of decompositions; the fastest one counts.
const RUNS: usize = 5;

fn main() {
    let threads = rayon::current_num_threads();
    println!("GFLOP/s by 2/3 n^3, the best of {RUNS} runs, {threads} threads");
    print!("{:<14}", "");
    DIMENSIONS.iter().for_each(|dimension| print!("{:>9}", format!("n={dimension}")));
    println!();
    let own = apps::ALL.iter().filter(|entry| entry.name.starts_with("lud-"));
    own.for_each(|entry| show(entry.name, |dimension| variant(entry, dimension)));
    let dir = tempfile::tempdir().expect("a directory");
    let openblas = compiled(dir.path(), "openblas", &["-ldl"]);
    show("OpenBLAS", |dimension| seconds(openblas.as_deref(), dimension, threads));
    let rodinia = match std::env::var("LIMO_RODINIA") {
        Ok(root) => {
            let lud = format!("{root}/openmp/lud/omp/lud_omp.c");
            compiled(dir.path(), "rodinia", &["-DRODINIA", "-fopenmp", &lud, "-ldl"])
        }
        Err(_) => Err("LIMO_RODINIA is not set".to_owned()),
    };
    show("Rodinia -O3", |dimension| seconds(rodinia.as_deref(), dimension, threads));
}

/// Runs a program of `lud.c` and returns the last number of its output, the milliseconds of a decomposition, in
/// seconds.
fn seconds(program: Result<&Path, &String>, dimension: usize, threads: usize) -> Result<f64, String> {
    let [dimension, runs, threads] = [dimension, RUNS, threads].map(|number| number.to_string());
    let mut command = Command::new(program.map_err(Clone::clone)?);
    command.args([&dimension, &runs, &threads]).env("OPENBLAS_NUM_THREADS", &threads);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().last().and_then(|line| line.parse::<f64>().ok()).filter(|_| output.status.success());
    number.map(|ms| ms / 1e3).ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Prints a line with the speeds, if `time` has the seconds of a decomposition.
fn show(name: &str, time: impl Fn(usize) -> Result<f64, String>) {
    print!("{name:<14}");
    for dimension in DIMENSIONS {
        match time(dimension) {
            Ok(seconds) => print!("{:>9.1}", flop(dimension) / seconds / 1e9),
            Err(reason) => {
                print!(" skipped: {reason}");
                break;
            }
        }
    }
    println!();
}

fn variant(entry: &Entry, dimension: usize) -> Result<f64, String> {
    let mut application = (entry.init)("").map_err(|error| error.to_string())?;
    let matrix = Matrices::new(1).draw(dimension).to_vec();
    let input: Vec<u8> = matrix.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut run = || {
        let mut input = input.clone();
        let begin = Instant::now();
        application.process(&mut input).map_err(|error| error.to_string())?;
        black_box(&input);
        Ok(begin.elapsed().as_secs_f64())
    };
    // The first run compiles kernels and starts threads.
    run()?;
    (0..RUNS).try_fold(f64::INFINITY, |least, _| run().map(|run| least.min(run)))
}

/// Compiles `lud.c` with -O3.
fn compiled(dir: &Path, name: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let (program, source) = (dir.join(name), concat!(env!("CARGO_MANIFEST_DIR"), "/benches/lud.c"));
    let compile = Command::new("cc").args(["-O3", source, "-o"]).arg(&program).args(arguments).output();
    let output = compile.map_err(|error| format!("cc: {error}"))?;
    if !output.status.success() {
        return Err(format!("cc cannot compile it: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(program)
}
