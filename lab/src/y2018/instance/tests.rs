//! Lines of instances, and the errors for invalid ones.

use std::io::Write;

use super::*;

const LINE: &str = "523817;xxx;yyy;np_longpar;2014-09-13 23:59:45__1;16;1;0;1048576#1;8;2;0;3145728#__\
                    2014-09-14 00:02:07;2014-09-14 07:15:27;1;16;1;07:30;NA;NA;COMPLETED;2";

/// Reads a file of that name and content.
fn file(name: &str, content: &[u8]) -> Result<Instance, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    read(&path).map_err(|error| limo_model::with_causes(&error).to_string().replace(&path.display().to_string(), name))
}

fn refused(from: &str, to: &str, error: &str) {
    assert!(LINE.contains(from), "{from}");
    let text = format!("{LINE}\n{}\n", LINE.replacen(from, to, 1));
    assert_eq!(file("a.log_crypt", text.as_bytes()), Err(format!("a.log_crypt:2: {error}")));
}

#[test]
fn a_line_is_read_from_plain_and_gzipped_text() {
    let instance = file("rndm_1_300_0.log_crypt", LINE.as_bytes()).expect("an instance");
    // 07:15:27 - 00:02:07 = 7:13:20 = 26,000 s. 2 x 40 + 3 x 62 = 266 W, 133 W a unit. 4 GiB in all.
    let job = Job {
        arrival_s: 0,
        requested_s: 27_000,
        run_s: 26_000,
        units: 2,
        unit: Resources([12, 1, 0, 2_048]),
        total: Resources([24, 3, 0, 4_096]),
        unit_w: 133,
    };
    assert_eq!(instance, Instance { name: "rndm_1_300_0".to_owned(), jobs: vec![job] });
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(format!("{LINE}\n").as_bytes()).expect("memory");
    let packed = packed.finish().expect("memory");
    assert_eq!(file("rndm_1_300_0.log_crypt.gz", &packed), Ok(instance));
    assert!(
        file("a.log_crypt.gz", &packed[..packed.len() / 2])
            .is_err_and(|error| error.starts_with("a.log_crypt.gz: the file cannot be read"))
    );
}

#[test]
fn the_first_arrival_is_zero() {
    let earlier = LINE.replacen("23:59:45", "23:58:00", 1);
    let instance = file("a.log_crypt", format!("{LINE}\n{earlier}\n").as_bytes()).expect("an instance");
    assert_eq!(instance.jobs.iter().map(|job| job.arrival_s).collect::<Vec<_>>(), [105, 0]);
}

#[test]
fn jobs_that_the_published_program_refuses_are_refused() {
    // (16 + 18) / 2 = 17 cores.
    refused("1;8;2;0", "1;18;2;0", "a unit asks for 17 cores: the published program accepts at most 16");
    refused("1;8;2;0", "1;8;5;0", "a unit asks for 3 GPUs: the published program accepts at most 2");
    refused("1;8;2;0", "1;8;2;2", "a unit asks for GPUs and MICs: the published program accepts either");
    let error = "a unit asks for 33554944 KiB of memory: the published program accepts at most 33554432";
    // 1,048,576 + 66,061,312 = 2 x 33,554,944.
    refused("3145728", "66061312", error);
}

#[test]
fn nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nodes");
    let check = |text: &str, error: &str| {
        std::fs::write(&path, text).expect("written");
        let found = read_nodes(&path).expect_err("invalid").to_string();
        assert_eq!(found, format!("{}{error}", path.display()));
    };
    check("0 16 0 2 33554432 0\n2 16 0 2 33554432 0 \n", ":2: the number of the node is 2, the next one is 1");
    check("0 16 0 2 33554432\n", ":1: 5 parts are separated by ` `: a node has 6");
    check("0 x 0 2 33554432 0\n", ":1: the number of cores is `x`: write a whole number from 0 to 1000000000");
    check("", ": the file has no lines");
    std::fs::write(&path, "0 16 0 2 33554432 0\n1 8 1 0 1048576 0 \n").expect("written");
    let expected = NodeList::new(vec![Resources([16, 0, 2, 32_768]), Resources([8, 1, 0, 1_024])]);
    assert_eq!(read_nodes(&path).expect("nodes"), expected);
}
