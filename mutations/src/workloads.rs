//! Workloads, platforms and curves of simulations.

pub mod swf {
    //! The Standard Workload Format, plain or gzipped.

    use std::io::{Cursor, Read, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use limo_model::Span;
    use limo_trace::Workload;
    use limo_trace::swf::{Options, Reader, SwfError, load_from, write_to};

    use crate::input::{Pieces, check_place, check_same, choice, chosen};

    pub const WORDS: &[&str] = &["; UnixStartTime: ", "; MaxProcs: ", "; Version: 2.2", " -1 "];

    const TEXT: &str = "; Version: 2.2\n; UnixStartTime: 1000000000\n; MaxProcs: 64\n\
        1 0 10 100 4 -1 -1 4 200 -1 1 3 1 5 1 -1 -1 -1\n2 5 -1 0.5 1 -1 -1 2 -1 -1 0 -1 1 -1 2 -1 1 60\n";

    pub fn read(bytes: &[u8]) -> bool {
        let (rules, bytes) = choice(bytes, 2);
        let options = if rules == 1 { Options::COMPAT_2017 } else { Options::default() };
        let read = load(Cursor::new(bytes.to_vec()), options);
        check_same(bytes, &read, &load(Pieces::of(bytes), options));
        let workload = match read {
            Ok(workload) => workload,
            Err(error) => return check_place(&error, "t.swf"),
        };
        let jobs = &workload.jobs;
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        assert!(jobs.iter().all(|job| job.submit >= Span::ZERO && job.run >= Span::ZERO && job.processors > 0));
        assert!(jobs.iter().all(|job| job.walltime.is_none_or(|walltime| walltime.span() > Span::ZERO)));
        let text = written(&workload);
        // The default rules read everything that is written.
        let again = load(Cursor::new(text.clone()), Options::default()).expect("a written workload is read again");
        assert_eq!(without_notes(&written(&again)), without_notes(&text), "another workload comes back");
        true
    }

    /// Leaves out notes on jobs that a reading left out, because these are not written.
    fn without_notes(text: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(text);
        text.lines().filter(|line| !line.starts_with("; Note: ")).map(str::to_owned).collect()
    }

    fn load(source: impl Read + Send + 'static, options: Options) -> Result<Workload, SwfError> {
        load_from(Reader::new("t.swf", source)?, options)
    }

    fn written(workload: &Workload) -> Vec<u8> {
        let mut text = Vec::new();
        // Memory takes all bytes.
        write_to(&mut text, workload).expect("memory");
        text
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = packed.write_all(TEXT.as_bytes()).and_then(|()| packed.finish()).unwrap_or_default();
        vec![chosen(0, TEXT), chosen(1, TEXT), chosen(0, packed)]
    }
}

pub mod batsim_workload {
    //! Batsim's jobs.

    use std::io::Cursor;

    use limo_trace::batsim::{Options, parse};

    use crate::input::{Pieces, check_same};

    pub const WORDS: &[&str] = &["\"parallel_homogeneous\"", "\"cpu\":", "\"delay\":", "\"walltime\":", "null"];

    const TEXT: &str = r#"{"nb_res": 4, "jobs": [{"id": "w0!1", "subtime": 0.1, "walltime": 9, "res": 1, "profile": "d"}],
        "profiles": {"d": {"type": "delay", "delay": 20.2}}}"#;

    pub fn read(bytes: &[u8]) -> bool {
        let read = parse("w.json", Cursor::new(bytes.to_vec()), Options::default());
        check_same(bytes, &read, &parse("w.json", Pieces::of(bytes), Options::default()));
        if let Err(error) = &read {
            assert!(error.to_string().starts_with("w.json: "), "{error}");
        }
        read.is_ok()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![TEXT.into()]
    }
}

pub mod batsim_platform {
    //! SimGrid's platforms.

    use limo_trace::batsim::parse_platform;

    use crate::input::text;

    pub const WORDS: &[&str] =
        &["<zone>", "</zone>", "radical=\"0-9\"", "Gf", "<prop id=\"wattage_per_state\" value=\""];

    const TEXT: &str = "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\
        <host id=\"a\" speed=\"1Gf\"><prop id=\"watt_per_state\" value=\"95:190.7\"/><prop id=\"watt_off\" value=\"9\"/></host>\
        </zone></platform>";

    pub fn read(bytes: &[u8]) -> bool {
        let read = parse_platform("p.xml", &text(bytes));
        if let Err(error) = &read {
            assert!(error.to_string().starts_with("p.xml:"), "{error}");
        }
        read.is_ok()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![TEXT.into()]
    }
}

pub mod platform {
    //! Platforms of the simulator.

    use limo_trace::Platform;

    use crate::input::{check_place, text};

    pub const WORDS: &[&str] = &["[[nodes.unit]]\n", "hardware = \"gpu\"\n", "count = ", "[nodes.sleep]\n", "\"1 W\""];

    pub fn read(bytes: &[u8]) -> bool {
        match Platform::parse("p.toml", &text(bytes)) {
            Ok(platform) => {
                assert!(platform.nodes() > 0 && platform.cores() > 0);
                true
            }
            Err(error) => check_place(&error, "p.toml"),
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![b"[[nodes]]\nname = \"n\"\ncount = 9\nidle = \"95 W\"\nbusy = \"190.738 W\"\n".to_vec()]
    }
}

pub mod curves {
    //! Curves of prices, limits and budgets.

    use std::io::{Cursor, Read};

    use limo_model::Time;
    use limo_trace::curve::{Clock, CurveFileError, Table, band, budget, hourly_price, price};

    use crate::input::{Pieces, check_place, check_same, choice, chosen};

    pub const WORDS: &[&str] = &["time,price_eur_per_mwh\n", "time,low_w,high_w\n", "from,until,energy_kwh\n", "1h"];

    const TEXTS: [&str; 4] = [
        "time,price_eur_per_mwh\n0,80\n1h,-5\n",
        "time,low_w,high_w\n0,1,2\n1h,,5\n",
        "from,until,energy_kwh\n0,1h,5\n1h,2h,6\n",
        "date,Price,x\n2015-01-01 00:00:00,1,2\n2015-01-01 01:00:00,1,2\n",
    ];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, TEXTS.len());
        let read = curve(kind, Cursor::new(bytes.to_vec()));
        check_same(bytes, &read, &curve(kind, Pieces::of(bytes)));
        read.map_or_else(|error| check_place(&error, "c.csv"), |_| true)
    }

    fn curve(kind: usize, source: impl Read + Send + 'static) -> Result<String, CurveFileError> {
        let (table, clock) = (Table::new("c.csv", source)?, Clock::unix(Time::from_unix_ms(0)));
        Ok(match kind {
            0 => format!("{:?}", price(table, clock)?),
            1 => format!("{:?}", band(table, clock)?),
            2 => format!("{:?}", budget(table, clock)?),
            _ => format!("{:?}", hourly_price(table, clock)?),
        })
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        (0..).zip(TEXTS).map(|(kind, text)| chosen(kind, text)).collect()
    }
}

pub mod recipe {
    //! Recipes of generated workloads. They are not generated, because a recipe may ask for many jobs.

    use limo_trace::generate::Recipe;

    use crate::input::text;

    pub const WORDS: &[&str] = &["seed = ", "jobs = ", "[arrivals]\n"];

    pub fn read(bytes: &[u8]) -> bool {
        Recipe::from_toml(&text(bytes)).is_ok()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let texts = ["burst", "htc", "left-skewed", "lublin", "steady", "uniform"].map(Recipe::text);
        texts.into_iter().flatten().map(|text| text.as_bytes().to_vec()).collect()
    }
}

pub mod log_crypt {
    //! Instances of power-capping-2018.

    use limo_trace::log_crypt::load;

    use crate::input::in_file;

    pub const WORDS: &[&str] = &["#", "__", "COMPLETED", "np_longpar", ";NA"];

    const TEXT: &str = "523817;xxx;yyy;np_longpar;2014-09-13 23:59:45__1;16;1;0;1048576#1;8;2;0;3145728#__\
        2014-09-14 00:02:07;2014-09-14 07:15:27;1;16;1;07:30;NA;NA;COMPLETED;2\n";

    pub fn read(bytes: &[u8]) -> bool {
        match in_file(bytes, load) {
            Ok(workload) => {
                assert!(workload.jobs.iter().all(|job| job.processors > 0));
                true
            }
            Err(_) => false,
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![TEXT.into()]
    }
}
