//! Speed of LU decomposition, by variant: `cargo bench -p lprof --bench lud [-- NAME|DIMENSION...]`, for all or for some
//! lines and columns of the table. Next to it, in turns in the same run and with the same number of threads: OpenBLAS,
//! if `cc` and libopenblas.so.0 are there, and Rodinia's OpenMP version, if `LIMO_RODINIA` is the directory of its
//! sources.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lprof::apps;
use lprof::workload::matrix::Matrices;
use lprof::workload::recipe::flop;

const DIMENSIONS: [usize; 4] = [256, 512, 1024, 2048];

/// Number of turns. In each, every program decomposes once. The fastest decomposition counts.
const TURNS: usize = 8;

/// Our variants: the line in the table, the application and the name of the session.
const OWN: [(&str, &str, &str); 6] = [
    ("lud-cpu", "lud-cpu", ""),
    ("lud-blas", "lud-blas", ""),
    ("lud-opencl", "lud-opencl", ""),
    (LOCAL_16, "lud-opencl", "interior=local16"),
    (LOCAL_64, "lud-opencl", "interior=local64"),
    ("lud-cuda", "lud-cuda", ""),
];

const LOCAL_16: &str = "local16";
const LOCAL_64: &str = "local64";
const OPENBLAS: &str = "OpenBLAS";
const RODINIA: &str = "Rodinia";

/// Ratios of two lines, with the least one that is the aim.
const AIMS: [(&str, &str, f64); 4] = [
    ("lud-blas", OPENBLAS, 0.6),
    ("lud-cpu", RODINIA, 1.0),
    ("lud-opencl", LOCAL_16, 3.0),
    ("lud-opencl", LOCAL_64, 3.0),
];

/// Returns the seconds of a decomposition of that dimension.
type Measure = Box<dyn FnMut(usize) -> Result<f64, String>>;

/// A line of the table.
struct Line {
    name: &'static str,
    measure: Measure,
    /// By dimension, the speed in GFLOP/s, or the reason why there is none.
    speeds: Vec<Result<f64, String>>,
}

fn main() {
    let threads = rayon::current_num_threads();
    println!("GFLOP/s by 2/3 n^3, the best of {TURNS} runs in turns, {threads} threads");
    let dir = tempfile::tempdir().expect("a directory");
    let openblas = compiled(dir.path(), "openblas", &["-ldl"]);
    let rodinia = match std::env::var("LIMO_RODINIA") {
        Ok(root) => {
            let lud = format!("{root}/openmp/lud/omp/lud_omp.c");
            compiled(dir.path(), "rodinia", &["-DRODINIA", "-fopenmp", &lud, "-ldl"])
        }
        Err(_) => Err("LIMO_RODINIA is not set".to_owned()),
    };
    let own = OWN.map(|(name, application, session)| (name, variant(application, session)));
    let others = [(OPENBLAS, openblas), (RODINIA, rodinia)];
    let others = others.map(|(name, program)| {
        let measure: Measure =
            Box::new(move |dimension| seconds(program.as_deref(), dimension, rayon::current_num_threads()));
        (name, measure)
    });
    let all = own.into_iter().chain(others).map(|(name, measure)| Line { name, measure, speeds: Vec::new() });
    // Cargo adds an option.
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (dimensions, wanted): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.parse::<usize>().is_ok());
    let mut dimensions: Vec<usize> = dimensions.iter().flat_map(|dimension| dimension.parse()).collect();
    if dimensions.is_empty() {
        dimensions = DIMENSIONS.to_vec();
    }
    let mut lines: Vec<Line> =
        all.filter(|line| wanted.is_empty() || wanted.iter().any(|name| name == line.name)).collect();
    dimensions.iter().for_each(|dimension| measure(&mut lines, *dimension));
    show(&lines, &dimensions);
}

/// Adds the speeds of all lines at a dimension.
fn measure(lines: &mut [Line], dimension: usize) {
    // The first run compiles kernels and starts threads.
    let mut least: Vec<_> = lines.iter_mut().map(|line| (line.measure)(dimension).map(|_| f64::INFINITY)).collect();
    for _ in 0..TURNS {
        for (line, least) in lines.iter_mut().zip(&mut least) {
            *least = least.clone().and_then(|least| Ok(least.min((line.measure)(dimension)?)));
        }
    }
    for (line, seconds) in lines.iter_mut().zip(least) {
        line.speeds.push(seconds.map(|seconds| flop(dimension) / seconds / 1e9));
    }
}

/// Prints the table and the ratios.
fn show(lines: &[Line], dimensions: &[usize]) {
    print!("{:<14}", "");
    dimensions.iter().for_each(|dimension| print!("{:>9}", format!("n={dimension}")));
    println!();
    for line in lines {
        print!("{:<14}", line.name);
        match line.speeds.iter().find_map(|speed| speed.as_ref().err()) {
            Some(reason) => print!(" skipped: {reason}"),
            None => line.speeds.iter().flatten().for_each(|speed| print!("{speed:>9.1}")),
        }
        println!();
    }
    let speeds =
        |name| lines.iter().filter(move |line| line.name == name).flat_map(|line| line.speeds.iter().flatten());
    for (name, other, aim) in AIMS {
        let ratios: Vec<_> =
            speeds(name).zip(speeds(other)).map(|(own, other)| format!("{:>9.2}", own / other)).collect();
        if !ratios.is_empty() {
            println!("{name} / {other}, aim {aim}:{}", ratios.concat());
        }
    }
}

/// Runs a program of `lud.c` and returns the last number of its output, the milliseconds of a decomposition, in
/// seconds.
fn seconds(program: Result<&Path, &String>, dimension: usize, threads: usize) -> Result<f64, String> {
    let [dimension, runs, threads] = [dimension, 1, threads].map(|number| number.to_string());
    let mut command = Command::new(program.map_err(Clone::clone)?);
    command.args([&dimension, &runs, &threads]).env("OPENBLAS_NUM_THREADS", &threads);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().last().and_then(|line| line.parse::<f64>().ok()).filter(|_| output.status.success());
    number.map(|ms| ms / 1e3).ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn variant(name: &str, session: &str) -> Measure {
    let application = apps::named(name).ok_or_else(|| "unknown".to_owned());
    let mut application = application.and_then(|entry| (entry.init)(session).map_err(|error| error.to_string()));
    let (mut drawn, mut input) = (0, Vec::new());
    Box::new(move |dimension| {
        let application = application.as_mut().map_err(|reason| reason.clone())?;
        if drawn != dimension {
            let matrix = Matrices::new(1).draw(dimension).to_vec();
            (drawn, input) = (dimension, matrix.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
        }
        // The first run brings the threads and the caches back from the program before.
        application.process(&mut input.clone()).map_err(|error| error.to_string())?;
        let mut input = input.clone();
        let begin = Instant::now();
        application.process(&mut input).map_err(|error| error.to_string())?;
        black_box(&input);
        Ok(begin.elapsed().as_secs_f64())
    })
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
