//! Files of HTCondor in all forms, made by a small writer: equal jobs, and no original text after sanitising.

mod oracle;
mod writer;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use limo_trace::pool::{PoolClock, Pseudonyms, Tally, Transfers, htcondor, sanitise};
use tempfile::TempDir;
use writer::{Ad, FORMS, Form, Value, write};

/// Makes the record of a job that was submitted at `submit`, started 50 s later, and ran for 1,000 s with a suspension of
/// 100 s.
fn job(cluster: i64, process: i64, submit: i64) -> Ad {
    use Value::{Expression, Int, Real, Text};
    vec![
        ("Requirements", Expression("( TARGET.Memory >= 1024 ) && ( Owner == \"x\" )")),
        ("ClusterId", Int(cluster)),
        ("ProcId", Int(process)),
        ("QDate", Int(submit)),
        ("JobCurrentStartDate", Int(submit + 50)),
        ("EnteredCurrentStatus", Int(submit + 1_050)),
        ("Owner", Text(format!("user-{}", cluster % 7))),
        ("JobStatus", Int(4)),
        ("BytesSent", Real(1_234_567.0)),
        ("BytesRecvd", Real(89.0)),
        ("NumJobStarts", Int(1)),
        ("CumulativeSuspensionTime", Int(100)),
        ("GlobalJobId", Text(format!("submit.example.org#{cluster}.{process}#{submit}"))),
        ("Cmd", Text("/home/ann/a \"b\" <c> & d".to_owned())),
        ("Args", Text("--secret=swordfish".to_owned())),
        ("RequestMemory", Expression("ifthenelse(MemoryUsage =!= undefined,MemoryUsage,1)")),
    ]
}

/// Jobs in order of completion: the later one was submitted first.
fn jobs() -> Vec<Ad> {
    let mut jobs: Vec<Ad> = (1..40).rev().map(|cluster| job(cluster, cluster % 3, 1_000_000 + cluster * 10)).collect();
    let set = |ad: &mut Ad, name: &str, value| ad.iter_mut().find(|(of, _)| *of == name).expect("it").1 = value;
    set(&mut jobs[5], "JobStatus", Value::Int(3));
    set(&mut jobs[6], "Owner", Value::Text("o'neil, \"pat\"".to_owned()));
    set(&mut jobs[7], "BytesSent", Value::Expression("1 + 1"));
    jobs.push(jobs[0].clone());
    jobs
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("written");
    path
}

/// Imports files; returns the prepared jobs and the counts, or the error without the folder's name.
fn imported(files: &[PathBuf]) -> Result<(String, Tally), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("jobs.csv");
    let clock = PoolClock::new(TimeZone::UTC, Some(2010));
    let tally = htcondor(files, &output, Transfers::OfJob, clock).map_err(|error| {
        let folder = files[0].parent().unwrap_or(Path::new("")).display().to_string();
        error.to_string().replace(&format!("{folder}/"), "")
    })?;
    Ok((fs::read_to_string(output).expect("written"), tally))
}

#[test]
fn all_forms_of_a_history_give_equal_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let ads = jobs();
    let results = FORMS.map(|form| {
        let text = write(&ads, form);
        let plain = imported(&[file(&folder, "plain", text.as_bytes())]).expect("jobs");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).expect("memory");
        let packed = imported(&[file(&folder, "packed", &packed.finish().expect("memory"))]).expect("jobs");
        assert_eq!(plain, packed, "{form:?}");
        plain
    });
    let (text, tally) = &results[0];
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out");
    assert_eq!(lines[1], "1.1,1,1000010,900,user-1,completed,,89,1234567");
    assert_eq!(lines[34], "34.1,34,1000340,,user-6,removed,1001390,89,1234567");
    assert_eq!(lines[33], "33.0,33,1000330,900,\"o'neil, \"\"pat\"\"\",completed,,89,1234567");
    assert_eq!(lines[32], "32.2,32,1000320,900,user-4,completed,,89,");
    assert_eq!((lines.len(), tally.jobs, tally.records, tally.duplicates), (40, 39, 40, 1));
    let notes =
        ["1 records are of a job that another record has: written once", "1 records have an unusable BytesSent"];
    assert_eq!(tally.notes(), notes);
    for (form, result) in FORMS.iter().zip(&results) {
        assert_eq!(result, &results[0], "{form:?}");
    }
}

#[test]
fn overlapping_files_of_several_forms_give_each_job_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let ads = jobs();
    let (first, second) = (write(&ads[..30], Form::New), write(&ads[20..], Form::Json));
    let files = [file(&folder, "a", first.as_bytes()), file(&folder, "b", second.as_bytes())];
    let all = imported(&[file(&folder, "all", write(&ads, Form::Old).as_bytes())]).expect("jobs");
    let (text, tally) = imported(&files).expect("jobs");
    assert_eq!((text, tally.duplicates), (all.0, 11));
}

#[test]
fn input_and_output_are_swapped_for_the_paper() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = file(&folder, "h", write(&[job(1, 0, 100)], Form::Long).as_bytes());
    let output = folder.path().join("jobs.csv");
    htcondor(&[history], &output, Transfers::Compat2015, PoolClock::default()).expect("jobs");
    let text = fs::read_to_string(output).expect("written");
    assert!(text.ends_with("\n1.0,1,100,900,user-1,completed,,1234567,89\n"), "{text}");
}

/// Returns an event with its attributes in XML and its text.
fn event(number: i64, name: &str, second: i64, bytes: bool) -> (Ad, String) {
    use Value::{Int, Real, Text};
    let mut ad = vec![
        ("MyType", Text(format!("{name}Event"))),
        ("EventTypeNumber", Int(number)),
        ("EventTime", Text(format!("2010-01-31T12:00:{second:02}"))),
        ("Cluster", Int(7)),
        ("Proc", Int(1)),
        ("Subproc", Int(0)),
        ("SubmitHost", Text("<10.1.2.3:9618>".to_owned())),
    ];
    let mut text = format!("{number:03} (007.001.000) 01/31 12:00:{second:02} {name} host: <10.1.2.3:9618>\n");
    if bytes {
        ad.extend([("SentBytes", Real(5.0)), ("TotalSentBytes", Real(50.0)), ("TotalReceivedBytes", Real(60.0))]);
        text +=
            "\t5  -  Run Bytes Sent By Job\n\t50  -  Total Bytes Sent By Job\n\t60  -  Total Bytes Received By Job\n";
    }
    (ad, text + "...\n")
}

fn events() -> (Vec<Ad>, String) {
    let events = [
        event(0, "Submit", 0, false),
        event(1, "Execute", 10, false),
        event(6, "JobImageSize", 11, false),
        event(4, "JobEvicted", 12, true),
        event(1, "Execute", 20, false),
        event(10, "JobSuspended", 25, false),
        event(11, "JobUnsuspended", 28, false),
        event(3, "Checkpointed", 29, false),
        event(5, "JobTerminated", 40, true),
    ];
    events.into_iter().unzip()
}

#[test]
fn all_forms_of_an_event_log_give_equal_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ads, text) = events();
    // 12:00 of 31 January 2010; the last run takes 20 s, with a suspension of 3 s.
    let expected = "7.1,7,1264939200,17,,completed,,60,50";
    let mut texts = vec![text];
    texts.extend([Form::Xml, Form::JsonLines].map(|form| write(&ads, form)));
    for text in texts {
        let (jobs, tally) = imported(&[file(&folder, "log", text.as_bytes())]).expect("jobs");
        assert_eq!(jobs.lines().nth(1), Some(expected), "{text}");
        assert_eq!((tally.records, tally.notes()), (9, Vec::new()));
    }
}

#[test]
fn errors_name_file_line_and_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused =
        |text: &str, error: &str| assert_eq!(imported(&[file(&folder, "f", text.as_bytes())]), Err(error.into()));
    let cut = |form, end: &str, lines| {
        let text = write(&[job(1, 0, 1), job(2, 0, 2)], form);
        let at = text.rfind(end).expect("an end");
        refused(&text[..at], &format!("f:{lines}: the record that begins here has no end: the file is truncated"));
    };
    // A record has sixteen attributes.
    cut(Form::Old, "***", 18);
    cut(Form::New, "***", 18);
    cut(Form::Xml, "</c>", 22);
    cut(Form::Json, "}", 20);
    cut(Form::JsonLines, "}", 2);
    refused(
        "\n; Version: 2.2\n",
        "f:2: `; Version: 2.2` begins neither a history (`Name = value`, XML, JSON) nor an event log of HTCondor",
    );
    refused("{\"a\": 1}\n{\"a\" 1}\n", "f:2: the record that begins here is wrong: expected `:` at line 1 column 6");
    let output = folder.path().join("no/jobs.csv");
    let history = file(&folder, "h", write(&[job(1, 0, 1)], Form::Long).as_bytes());
    let error = htcondor(&[history], &output, Transfers::OfJob, PoolClock::default()).expect_err("no folder");
    assert_eq!(error.to_string(), format!("{}: writing failed", output.display()));
}

#[test]
fn nothing_that_was_written_by_people_is_left_after_sanitising() {
    let folder = tempfile::tempdir().expect("a folder");
    let salt = Pseudonyms::from_file(&file(&folder, "salt", b"0123456789abcdef")).expect("a salt");
    let output = folder.path().join("clean");
    let (events, log) = events();
    let mut texts: Vec<String> = FORMS.map(|form| write(&jobs(), form)).into();
    texts.extend([log, write(&events, Form::Xml)]);
    for text in texts {
        let input = file(&folder, "f", text.as_bytes());
        let clock = PoolClock::new(TimeZone::UTC, Some(2010));
        let records = sanitise(std::slice::from_ref(&input), &output, &salt, clock).expect("records");
        let clean = fs::read_to_string(&output).expect("written");
        let of_people =
            ["user-", "neil", "pat", "ann", "example", "swordfish", "home", "Memory >=", "10.1.2.3", "host"];
        for original in of_people {
            assert!(!clean.contains(original), "`{original}` is left in\n{clean}");
        }
        // The jobs are the same, apart from the names of their users.
        let (before, counts) = imported(&[input]).expect("jobs");
        let (after, again) = imported(std::slice::from_ref(&output)).expect("jobs");
        assert_eq!((records, again.records, again.duplicates), (counts.records, counts.records, counts.duplicates));
        let pseudonym = |name: &[u8]| if name.is_empty() { String::new() } else { salt.of(name) };
        let expected: String = before
            .replace("\"o'neil, \"\"pat\"\"\"", "o'neil; pat")
            .lines()
            .enumerate()
            .map(|(index, line)| {
                let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
                if index > 0 {
                    let name = if cells[4] == "o'neil; pat" { "o'neil, \"pat\"" } else { &*cells[4] };
                    cells[4] = pseudonym(name.as_bytes());
                }
                cells.join(",") + "\n"
            })
            .collect();
        assert_eq!(after, expected);
    }
}
