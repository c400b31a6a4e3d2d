//! Lines of files, the errors for invalid ones, and the workload of a file.

use std::io::Write;

use limo_model::with_causes;

use super::*;

const LINE: &str = "523817;xxx;yyy;np_longpar;2014-09-13 23:59:45__1;16;1;0;1048576#1;8;2;0;3145728#__\
                    2014-09-14 00:02:07;2014-09-14 07:15:27;1;16;1;07:30;NA;NA;COMPLETED;2";

/// Reads a file of that name and content.
fn file(name: &str, content: &[u8]) -> Result<Workload, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    load(&path).map_err(|error| with_causes(&error).to_string().replace(&path.display().to_string(), name))
}

fn refused(from: &str, to: &str, error: &str) {
    assert!(LINE.contains(from), "{from}");
    let text = format!("{LINE}\n{}\n", LINE.replacen(from, to, 1));
    assert_eq!(file("a.log_crypt", text.as_bytes()), Err(format!("a.log_crypt:2: {error}")));
}

#[test]
fn a_job_has_equal_chunks() {
    // The second job arrives 105 s before, asks for no cores, no memory and no time, and for 5 MICs on 2 units.
    let other = LINE.replace("23:59:45", "23:58:00").replace(";07:30;", ";00:00;");
    let other = other.replace("1;16;1;0;1048576#1;8;2;0;3145728#", "1;0;0;2;0#1;0;0;3;0#").replace("ED;2", "ED;0");
    let workload = file("rndm_2_300_0.log_crypt", format!("{LINE}\n{other}\n").as_bytes()).expect("jobs");
    // 2014-09-13 23:58:00 UTC.
    assert_eq!(workload.start, Some(Time::from_unix_ms(1_410_652_680_000)));
    let [second, first] = workload.jobs[..] else { panic!("{:?}", workload.jobs) };
    // 07:15:27 - 00:02:07 = 7:13:20 = 26,000 s, in whole minutes and rounded up to more: 26,040 s.
    let secs = Span::from_secs;
    assert_eq!(
        (first.number, first.submit, first.run, first.walltime.map(CompactSpan::span)),
        (1, secs(105), secs(26_000), Some(secs(27_000)))
    );
    assert_eq!(
        (second.number, second.submit, second.walltime.map(CompactSpan::span)),
        (2, Span::ZERO, Some(secs(26_040)))
    );
    assert_eq!((first.processors, second.processors), (24, 4));
    let of = |job| workload.application(job).map(|of| of.name.as_str());
    assert_eq!((of(&first), of(&second)), (Some("memory-bound"), Some("average")));
    let chunks = |cores, (accelerators, name): (u32, &str), mib: u64| Chunks {
        count: NonZeroU32::new(2).expect("positive"),
        each: Chunk {
            cores: Cores::Count(NonZeroU32::new(cores).expect("positive")),
            with_cores: true,
            accelerators: NonZeroU32::new(accelerators),
            memory: Memory::from_bytes(mib << 20),
        },
        hardware: vec![name.to_owned()],
    };
    // 24 cores, 3 GPUs and 4 GiB; 4 cores, 5 MICs and 200 MiB.
    assert_eq!(workload.chunks(&first), Some(&chunks(12, (1, "gpu"), 2_048)));
    assert_eq!(workload.chunks(&second), Some(&chunks(2, (2, "mic"), 100)));
}

#[test]
fn gzipped_files_are_unpacked() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(format!("{LINE}\n").as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    assert_eq!(file("rndm_1_300_0.log_crypt.gz", &packed), file("a.log_crypt", LINE.as_bytes()));
    assert!(
        file("a.log_crypt.gz", &packed[..packed.len() / 2])
            .is_err_and(|error| error.starts_with("a.log_crypt.gz: the file cannot be read"))
    );
}

#[test]
fn another_number_of_jobs_than_the_name_says_is_refused() {
    let text = format!("{LINE}\n{LINE}\n");
    let error = |name: &str| {
        format!("{name}: the file has 2 jobs, its name says 3: two runs were written to one file; use another instance")
    };
    for name in ["rndm_3_300_0.log_crypt", "hist_3_20140331_110904.log_crypt"] {
        assert_eq!(file(name, text.as_bytes()), Err(error(name)));
    }
    assert_eq!(file("own_3_300.log_crypt", text.as_bytes()).expect("jobs").jobs.len(), 2);
    assert_eq!(file("rndm_0_1_1.log_crypt", b""), Err("rndm_0_1_1.log_crypt: the file has no lines".to_owned()));
}

#[test]
fn invalid_lines_are_refused() {
    refused("__1;", "_1;", "2 parts are separated by `__`: a job has 3");
    refused(";yyy", "", "4 parts are separated by `;`: the first part of a job has 5");
    refused(";2014-09-14 07:15:27", "", "9 parts are separated by `;`: the third part of a job has 10");
    refused("1;16;1;0;", "1;16;1;", "4 parts are separated by `;`: a unit has 5");
    refused(
        "1;16;1;0;1048576#1;8;2;0;3145728#",
        "",
        "the job has no unit: write node;cores;GPUs;MICs;memory# for each",
    );
    refused("16;1;0", "-16;1;0", "the number of cores is `-16`: write a whole number from 0 to 1000000000");
    refused(
        "3145728",
        "3145728000000",
        "the memory in KiB is `3145728000000`: write a whole number from 0 to 1000000000",
    );
    refused(
        "2014-09-13",
        "2014-13-09",
        "the arrival is `2014-13-09 23:59:45`: write a time such as 2014-09-13 23:59:45",
    );
    refused("2014-09-14 00:02:07", "today", "the start is `today`: write a time such as 2014-09-13 23:59:45");
    refused("2014-09-14 07:15:27", "2014-09-14 00:02:00", "the run ends 7 s before it starts");
    let requested = "write hours from 0 to 999 and minutes from 00 to 59, such as 04:00";
    refused("07:30", "07:60", &format!("the requested time is `07:60`: {requested}"));
    refused("07:30", "450", &format!("the requested time is `450`: {requested}"));
    refused("ED;2", "ED;3", "the kind of application is `3`: write 0 (average), 1 (CPU-bound) or 2 (memory-bound)");
}
