//! Logs and files of pools.

pub mod htcondor {
    //! Histories and event logs of HTCondor in all forms.

    use std::io::{Cursor, Read};

    use jiff::tz::TimeZone;
    use limo_model::Digest;
    use limo_trace::pool::{self, PoolClock, PoolError, PoolRecord, RecordReader, Transfers};

    use crate::input::{Pieces, check_place, check_same, in_file};

    pub const WORDS: &[&str] = &[
        " = ",
        "***\n",
        "*** Offset = 0 ClusterId = 1\n",
        "...\n",
        "<c>",
        "</c>",
        "<a n=\"QDate\">",
        "<!--",
        "]]>",
        "000 (1.1.1) 12/31 ",
        "QDate",
        "\\/Expr(",
    ];

    /// One of this many inputs is also imported, which takes longer.
    const IMPORTED: u64 = 101;

    pub fn read(bytes: &[u8]) -> bool {
        let read = records(Cursor::new(bytes.to_vec()));
        check_same(bytes, &read, &records(Pieces::of(bytes)));
        if Digest::new().with(bytes).value().is_multiple_of(IMPORTED) {
            // A directory for the output is there, or the test ends.
            let folder = tempfile::tempdir().expect("a directory");
            let output = folder.path().join("jobs.csv");
            let imported =
                in_file(bytes, |path| pool::htcondor(&[path.to_owned()], &output, Transfers::OfJob, clock()));
            assert!(imported.is_ok() || read.is_err(), "{imported:?}");
        }
        read.map_or_else(|error| check_place(&error, "f"), |_| true)
    }

    fn clock() -> PoolClock {
        PoolClock::new(TimeZone::UTC, Some(2010))
    }

    fn records(source: impl Read + Send + 'static) -> Result<u32, PoolError> {
        let (mut clock, mut record, mut count) = (clock(), PoolRecord::default(), 0);
        let mut reader = RecordReader::new("f", source)?;
        while reader.advance(&mut record, &mut clock)? {
            count += 1;
        }
        Ok(count)
    }

    /// Attributes of a job, their values, and the kinds of these in XML.
    const JOB: [(&str, &str, char); 12] = [
        ("Requirements", "( TARGET.Memory >= 1024 ) && ( Owner == \"x\" )", 'e'),
        ("ClusterId", "1", 'i'),
        ("ProcId", "0", 'i'),
        ("QDate", "1000010", 'i'),
        ("JobCurrentStartDate", "1000060", 'i'),
        ("EnteredCurrentStatus", "1001060", 'i'),
        ("Owner", "\"user-1\"", 's'),
        ("JobStatus", "4", 'i'),
        ("BytesSent", "1.234567000000000E+06", 'r'),
        ("BytesRecvd", "8.900000000000000E+01", 'r'),
        ("CumulativeSuspensionTime", "100", 'i'),
        ("Cmd", "\"/bin/a \\\"b\\\" <c> & d\"", 's'),
    ];

    const LOG: &str = "000 (007.001.000) 01/31 12:00:00 Submit host: <10.1.2.3:9618>\n...\n\
        001 (007.001.000) 01/31 12:00:10 Execute host: <10.1.2.3:9618>\n...\n\
        005 (007.001.000) 01/31 12:00:40 JobTerminated host: <10.1.2.3:9618>\n\
        \t5  -  Run Bytes Sent By Job\n\t50  -  Total Bytes Sent By Job\n\t60  -  Total Bytes Received By Job\n...\n";

    pub fn seeds() -> Vec<Vec<u8>> {
        let long: String = JOB.iter().map(|(name, value, _)| format!("{name} = {value}\n")).collect();
        let xml = JOB.iter().map(|(name, value, kind)| {
            let value = value.trim_matches('"').replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!("<a n=\"{name}\"><{kind}>{value}</{kind}></a>\n")
        });
        let xml = format!("<?xml version=\"1.0\"?>\n<classads>\n<c>\n{}</c>\n</classads>\n", xml.collect::<String>());
        let json = JOB.iter().map(|(name, value, kind)| match kind {
            'e' => format!("\"{name}\": \"\\/Expr({})\\/\"", value.replace('"', "\\\"")),
            _ => format!("\"{name}\": {value}"),
        });
        let json = format!("{{{}}}", json.collect::<Vec<_>>().join(", "));
        [
            format!("{long}***\n{long}***\n"),
            format!("{long}*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = \"x\" CompletionDate = 1\n"),
            format!("{long}\n{long}\n"),
            xml,
            format!("[\n{json},\n{json}\n]\n"),
            format!("{json}\n{json}\n"),
            LOG.to_owned(),
        ]
        .map(String::into_bytes)
        .into()
    }
}

pub mod logins {
    //! Dumps of logins and logouts. The file of the logouts follows the first empty line.

    use limo_trace::pool::{PoolClock, logins};

    use crate::input::in_file;

    pub const WORDS: &[&str] = &["time,computer,user\n", "2010-01-31T13:00:00Z", "\n\n", ",a,ann\n"];

    pub fn read(bytes: &[u8]) -> bool {
        let at = bytes.windows(2).position(|pair| pair == b"\n\n").map_or(bytes.len(), |at| at + 1);
        let (first, second) = (&bytes[..at], bytes.get(at + 1..).unwrap_or(&[]));
        let read = in_file(first, |first| in_file(second, |second| logins(first, second, PoolClock::default())));
        let Ok((sessions, tally)) = read else { return false };
        assert_eq!(sessions.sessions.len() as u64, tally.sessions);
        assert!(sessions.sessions.iter().all(|session| session.login <= session.logout));
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "time,computer,user\n200,b,cat\n12.003,a,ann\n2010-01-31 12:00:00.25,a,ann\n\n\
            100.5,a,ann\n300,b,cat\n2010-01-31T13:00:00Z,a,ann\n";
        vec![text.into()]
    }
}

pub mod fta {
    //! Traces of the Failure Trace Archive.

    use limo_trace::pool::fta;

    use crate::input::in_file;

    pub const WORDS: &[&str] = &["\t", "1\t1\t1\t1\t", "NULL"];

    pub fn read(bytes: &[u8]) -> bool {
        let Ok((sessions, tally)) = in_file(bytes, |path| fta(path, &[2, 3])) else { return false };
        assert_eq!(sessions.sessions.len() as u64, tally.sessions);
        assert!(sessions.sessions.iter().all(|session| session.login <= session.logout));
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "1\t1\t1\t1\ta\t1\t0\t100\t2\n2\t1\t1\t1\ta\t0\t100\t200\tNULL\n3\t1\t1\t1\tb\t0\t5.5\t20\t3\n";
        vec![text.into()]
    }
}

pub mod prepared {
    //! Prepared jobs and sessions of a pool.

    use limo_model::Span;
    use limo_trace::pool::{jobs, sessions};

    use crate::input::{choice, chosen, in_file};

    pub const WORDS: &[&str] = &["completed", "removed", "\"\""];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, 2);
        if kind == 1 {
            return in_file(bytes, sessions).is_ok();
        }
        let Ok(workload) = in_file(bytes, jobs) else { return false };
        assert!(workload.jobs.iter().all(|job| job.run >= Span::ZERO && job.submit >= Span::ZERO));
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let jobs = "id,batch,submit,duration,user,result,removed,bytes_in,bytes_out\n\
            1.1,1,1000010,900,user-1,completed,,89,1234567\n34.1,34,1000340,,\"a \"\"b\"\"\",removed,1001390,89,\n";
        let sessions = "login,logout,computer,user\n12,100,a,ann\n102,150.5,a,ann\n";
        vec![chosen(0, jobs), chosen(1, sessions)]
    }
}

pub mod groups {
    //! Computers of a pool.

    use limo_trace::pool::Pool;

    use crate::input::in_file;

    pub const WORDS: &[&str] =
        &["[group.b]\n", "open = [\"mon-fri 08:00-18:00\"]\n", "owners = { jobs = \"suspend\" }\n"];

    pub fn read(bytes: &[u8]) -> bool {
        in_file(bytes, Pool::read).is_ok()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "[group.a]\ncomputers = 2\ntype = \"normal\"\ncores = 2\nactive = \"57 W\"\nidle = \"40 W\"\n\
            sleep = \"2 W\"\nopen = [\"mon-fri 08:00-18:00\"]\nreboot = \"03:00-05:00\"\n\
            owners = { jobs = \"suspend\", evict_after = \"0s\" }\n";
        vec![text.into()]
    }
}
