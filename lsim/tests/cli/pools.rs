//! `lsim import htcondor|logins|fta`, `lsim sanitise` and `lsim generate newcastle-2010`.

use super::{folder, lsim, read, refused};

const HISTORY: &str = "ClusterId = 7\nProcId = 0\nQDate = 1264939200\nJobCurrentStartDate = 1264939300\n\
    EnteredCurrentStatus = 1264940300\nOwner = \"ann\"\nJobStatus = 4\nBytesSent = 5.0\nBytesRecvd = 6.0\n***\n\
    ClusterId = 8\nProcId = 0\nJobStatus = 4\n***\n";

const LOG: &str = "000 (009.000.000) 01/31 13:00:00 Job submitted\n...\n001 (009.000.000) 01/31 13:00:10 Job executing\n...\n\
    009 (009.000.000) 01/31 13:01:00 Job was aborted by the user.\n...\n";

const HEAD: &str = "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out\n";

#[test]
fn histories_and_event_logs_are_imported_together() {
    let folder = folder(&[("history", HISTORY), ("log", LOG)]);
    let zone = "--zone Europe/London --year 2010";
    let told = lsim(folder.path(), &format!("import htcondor history log -o jobs.csv {zone}"));
    let expected = "exit 0\n--- stdout\njobs.csv: 2 jobs of 5 records\n--- stderr\n\
        lsim: note: 1 records lack a needed value: left out\n\
        lsim: note: 1 records have no QDate\n\
        lsim: note: 1 records have no EnteredCurrentStatus\n\
        lsim: note: 1 records have no JobCurrentStartDate\n\
        lsim: note: 1 records have no Owner\n\
        lsim: note: 1 records have no BytesSent\n\
        lsim: note: 1 records have no BytesRecvd\n";
    assert_eq!(told, expected);
    // London is on UTC in winter: 13:00 is an hour after the first job.
    let jobs = "7.0,7,1264939200,1000,ann,completed,,6,5\n9.0,9,1264942800,,,removed,1264942860,,\n";
    assert_eq!(read(folder.path(), "jobs.csv"), format!("{HEAD}{jobs}"));
    lsim(folder.path(), "import htcondor history -o jobs.csv --compat 2015");
    assert_eq!(read(folder.path(), "jobs.csv"), format!("{HEAD}7.0,7,1264939200,1000,ann,completed,,5,6\n"));
}

#[test]
fn a_sanitised_history_is_imported_with_pseudonyms() {
    let folder = folder(&[("history", HISTORY), ("salt", "0123456789abcdef"), ("short", "0123456789")]);
    let told = lsim(folder.path(), "sanitise history -o clean --salt salt");
    assert_eq!(told, "exit 0\n--- stdout\nclean: 2 records\n--- stderr\n");
    assert!(!read(folder.path(), "clean").contains("ann"));
    lsim(folder.path(), "import htcondor clean -o jobs.csv");
    // By `printf ann | openssl dgst -sha256 -hmac 0123456789abcdef`.
    let ann = "fb385915a0623c0be3e7b0a7134dbb620a2771faff45e92eb8647d11aa2947cf";
    assert_eq!(read(folder.path(), "jobs.csv"), format!("{HEAD}7.0,7,1264939200,1000,{ann},completed,,6,5\n"));
    refused(
        folder.path(),
        "sanitise history -o clean --salt short",
        1,
        "lsim: short: the salt has 10 bytes, but needs 16 to 4096: make one with `head -c 32 /dev/urandom`",
    );
}

#[test]
fn sessions_are_imported() {
    let fta = "1\t1\t1\t1\tn1\t0\t100\t160\t2\n";
    let files = [("in", "100,a,ann\n200,b,bob\n"), ("out", "160,a,ann\n"), ("fta", fta), ("salt", "0123456789abcdef")];
    let folder = folder(&files);
    let told = lsim(folder.path(), "import logins in out -o sessions.csv");
    let expected = "exit 0\n--- stdout\nsessions.csv: 1 sessions\n--- stderr\n\
        lsim: note: 2 logins and 1 logouts; duplicates: 0 and 0; without a counterpart: 1 and 0\n";
    assert_eq!(told, expected);
    assert_eq!(read(folder.path(), "sessions.csv"), "login,logout,computer,user\n100,160,a,ann\n");
    lsim(folder.path(), "import logins in out -o sessions.csv --salt salt");
    let text = read(folder.path(), "sessions.csv");
    assert!(text.starts_with("login,logout,computer,user\n100,160,a,") && !text.contains("ann"), "{text}");
    lsim(folder.path(), "import fta fta -o sessions.csv");
    assert_eq!(read(folder.path(), "sessions.csv"), "login,logout,computer,user\n100,160,n1,\n");
    lsim(folder.path(), "import fta fta -o sessions.csv --reasons 3");
    assert_eq!(read(folder.path(), "sessions.csv"), "login,logout,computer,user\n");
}

#[test]
fn wrong_files_are_refused() {
    let folder =
        folder(&[("history", HISTORY), ("log", LOG), ("cut", "QDate = 1\n***\nQDate = 2\n"), ("swf", "; a\n")]);
    let refused = |arguments: &str, error: &str| refused(folder.path(), arguments, 1, &format!("lsim: {error}"));
    refused(
        "import htcondor log -o jobs.csv",
        "log:1: the time `01/31 13:00:00` has no year: give that of the first event with --year",
    );
    refused(
        "import htcondor history cut -o jobs.csv",
        "cut:3: the record that begins here has no end: the file is truncated",
    );
    refused(
        "import htcondor swf -o jobs.csv",
        "swf:1: `; a` begins neither a history (`Name = value`, XML, JSON) nor an event log of HTCondor",
    );
    refused("generate newcastle-2010 --seed 1 --scale 0 -o year", "--scale is 0, but must be above 0 and at most 178");
    assert!(!folder.path().join("jobs.csv").exists());
}

/// Writes a whole year with few jobs.
#[test]
fn a_year_is_generated() {
    let folder = folder(&[]);
    let told = lsim(folder.path(), "generate newcastle-2010 --seed 1 --scale 0.001 -o year");
    assert!(
        told.starts_with("exit 0\n--- stdout\nsessions: 1229820 (exactly 1229820)\njobs: 562 (exactly 562)\n"),
        "{told}"
    );
    assert!(told.contains("\nyear: a year of the pool newcastle-2010 (seed 1)\n"), "{told}");
    assert!(read(folder.path(), "year/groups.toml").contains("\n[group.g35]\ncomputers = 10\ntype = \"legacy\"\n"));
    let mut names: Vec<_> = std::fs::read_dir(folder.path().join("year"))
        .expect("a folder")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    assert_eq!(names, ["groups.toml", "jobs.csv.gz", "sessions.csv.gz"]);
}
