//! Measures the import of a history of HTCondor: `pool_speed [FILE...]`; without a file it makes one of 1 GB, gzipped
//! and plain. Rates are of the given file, or of the text of the made one.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use limo_trace::pool::{PoolClock, Transfers, htcondor};

const BYTES: usize = 1_000_000_000;

/// Writes records as a scheduler does, in order of completion: 89 attributes. Nine of them are needed.
fn record(out: &mut impl Write, job: usize) -> Result<usize, Box<dyn Error>> {
    let (cluster, process, submit) = (job / 40, job % 40, 1_262_304_000 + job * 61 % 31_000_000);
    let mut text = format!(
        "MyType = \"Job\"\nTargetType = \"Machine\"\nClusterId = {cluster}\nProcId = {process}\nQDate = {submit}\n\
        GlobalJobId = \"submit.example.org#{cluster}.{process}#{submit}\"\nOwner = \"user{}\"\nJobStatus = 4\n\
        JobCurrentStartDate = {}\nEnteredCurrentStatus = {}\nNumJobStarts = 1\nCumulativeSuspensionTime = 0\n\
        BytesSent = {}.000000\nBytesRecvd = {}.000000\nRemoteWallClockTime = {}.000000\n\
        Requirements = ( TARGET.Arch == \"X86_64\" ) && ( TARGET.OpSys == \"LINUX\" ) && ( TARGET.Disk >= RequestDisk )\n\
        Environment = \"PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/user LANG=C OMP_NUM_THREADS=1 SEED={job}\"\n",
        job % 60,
        submit + 300,
        submit + 300 + job % 7_000,
        job * 977 % 10_000_000,
        job * 613 % 10_000_000,
        job % 7_000,
    );
    for number in 0..72 {
        text += &format!("SomeAttributeNumber{number} = \"value {} of it\"\n", job * number % 1_000);
    }
    text += &format!("*** Offset = 0 ClusterId = {cluster} ProcId = {process} Owner = \"user\" CompletionDate = 1\n");
    out.write_all(text.as_bytes())?;
    Ok(text.len())
}

fn made_up(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut plain = BufWriter::new(File::create(path)?);
    let mut packed = GzEncoder::new(BufWriter::new(File::create(path.with_extension("gz"))?), Compression::fast());
    let (mut bytes, mut job) = (0, 0);
    while bytes < BYTES {
        record(&mut plain, job)?;
        bytes += record(&mut packed, job)?;
        job += 1;
    }
    plain.flush()?;
    packed.finish()?.flush()?;
    Ok(())
}

/// Returns the most memory that this process has had, in MiB.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let bytes = path.metadata()?.len();
        files.push((path, bytes));
    }
    if files.is_empty() {
        let path = folder.path().join("history");
        made_up(&path)?;
        let bytes = path.metadata()?.len();
        files = vec![(path.with_extension("gz"), bytes), (path, bytes)];
    }
    for (file, bytes) in files {
        for _ in 0..3 {
            let start = Instant::now();
            let output = folder.path().join("jobs.csv");
            let tally = htcondor(std::slice::from_ref(&file), &output, Transfers::OfJob, PoolClock::default())?;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{}: {} jobs in {seconds:.2} s, {:.0} MB/s; {} MiB at most",
                file.display(),
                tally.jobs,
                bytes as f64 / seconds / 1e6,
                peak_mib().unwrap_or_default(),
            );
        }
    }
    Ok(())
}
