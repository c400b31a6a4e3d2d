//! Tables of configurations, profiles and hardware.

pub mod lists {
    //! Queues, groups, licences, accounts and QOS.

    use std::collections::BTreeMap;

    use limo_model::{
        AccountTable, Accounts, GroupTable, Groups, LicenceTable, Licences, QosClasses, QosTable, QueueTable, Queues,
    };
    use serde::Deserialize;

    use crate::input::text;

    pub const WORDS: &[&str] = &[
        "[queue.a]\n",
        "[group.b]\n",
        "[licence.c]\n",
        "[account.d]\n",
        "[qos.e]\n",
        "nodes = [\"n[1-9]\"]\n",
        "default = true\n",
        "parent = \"d\"\n",
        "n[000-99999999]",
    ];

    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    #[derive(Default)]
    struct Lists {
        queue: BTreeMap<String, QueueTable>,
        group: BTreeMap<String, GroupTable>,
        licence: BTreeMap<String, LicenceTable>,
        account: BTreeMap<String, AccountTable>,
        qos: BTreeMap<String, QosTable>,
    }

    pub fn read(bytes: &[u8]) -> bool {
        let Ok(lists) = toml::from_str::<Lists>(&text(bytes)) else { return false };
        let results = [
            Queues::of_tables(lists.queue).map(drop).map_err(|error| error.to_string()),
            Groups::of_tables(lists.group).map(drop).map_err(|error| error.to_string()),
            Licences::of_tables(lists.licence).map(drop).map_err(|error| error.to_string()),
            Accounts::of_tables(lists.account).map(drop).map_err(|error| error.to_string()),
            QosClasses::of_tables(lists.qos).map(drop).map_err(|error| error.to_string()),
        ];
        results.iter().all(Result::is_ok)
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let queue = "[queue.short]\nnodes = [\"n[1-2]\"]\nmax_time = \"1h\"\ndefault = true\nstate = \"down\"\n";
        let group = "[group.rack]\nnodes = [\"n[01-12]\"]\nlimit = \"9 kW\"\npue = \"1.3\"\nsleep_after = \"5min\"\n";
        let others = "[licence.solver]\ncount = 3\n[account.a]\nusers = [\"ann\"]\nshare = 2\n[account.b]\nparent = \"a\"\n\
            default = true\n[qos.high]\npriority = 100\nmax_time = \"1h\"\nusers = [\"bob\"]\n";
        [queue, group, others].map(Into::into).into()
    }
}

pub mod profiles {
    //! Files of profiles.

    use std::io::Cursor;

    use limo_profiles::text::{read as profiles, write};

    use crate::input::Pieces;

    pub const WORDS: &[&str] = &["application,size,", ",,", " W", " kJ", " %"];

    pub fn read(bytes: &[u8]) -> bool {
        let read = profiles(Cursor::new(bytes));
        assert_eq!(format!("{read:?}"), format!("{:?}", profiles(Pieces::of(bytes))), "other profiles in pieces");
        let Ok(rows) = read else { return false };
        let mut text = Vec::new();
        // Memory takes all bytes, and what is written is valid.
        write(&rows, &mut text).expect("memory");
        assert_eq!(profiles(Cursor::new(&text)).ok(), Some(rows), "other profiles come back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "application,size,hardware,cores,nodes,cap,duration,power,energy,spread,runs\n\
            lud,large,xeon,4,,30 W,1.5 s,10.25 W,15.375 J,2.5 %,12\ncfd,,gpu,,2,,1min,1 kW,60 kJ,0.0 %,1\n";
        vec![text.into()]
    }
}

pub mod variation {
    //! Files of factors of units.

    use std::io::Cursor;

    use limo_profiles::variation::{read as factors, write};

    use crate::input::Pieces;

    pub const WORDS: &[&str] = &["application,node,unit,cap,power,duration", ",runs", ",,", "1.041", "0.100001"];

    pub fn read(bytes: &[u8]) -> bool {
        let read = factors(Cursor::new(bytes));
        assert_eq!(format!("{read:?}"), format!("{:?}", factors(Pieces::of(bytes))), "other factors in pieces");
        let Ok(rows) = read else { return false };
        let rows: Vec<_> = rows.into_iter().map(|(_, name, factor)| (name, factor)).collect();
        let mut text = Vec::new();
        // Memory takes all bytes, and what is written is valid.
        write(&rows, &mut text).expect("memory");
        let again = factors(Cursor::new(&text))
            .map(|again| again.into_iter().map(|(_, name, factor)| (name, factor)).collect());
        assert_eq!(again.ok(), Some(rows), "other factors come back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "application,node,unit,cap,power,duration,runs\n,n1,cpu,,1.041,0.99,7\nlud,n2,gpu,30 W,0.9,1.1,\n";
        vec![text.into()]
    }
}

pub mod hardware {
    //! Hardware files of emulated machines.

    use std::path::Path;

    use limo_power::Hardware;

    use crate::input::{check_place, text};

    pub const WORDS: &[&str] =
        &["[[machine.unit]]\n", "[machine.unit.application.a]\n", "caps = [\"8 W\", \"60 W\"]\n"];

    pub fn read(bytes: &[u8]) -> bool {
        match Hardware::parse(Path::new("h.toml"), &text(bytes)) {
            Ok(hardware) => {
                assert!(!hardware.machines.is_empty());
                true
            }
            Err(error) => check_place(&error, "h.toml"),
        }
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![include_bytes!("../../power/examples/limo-2018.toml").to_vec()]
    }
}

pub mod predictor {
    //! Stored models of the prediction. The digest at the end is put right, so that inputs get past it.

    use limo_model::Digest;
    use limo_profiles::predict::{Predictor, Settings, train};

    pub const WORDS: &[&str] = &[];

    /// Length of the digest at the end.
    const DIGEST: usize = 8;

    pub fn read(bytes: &[u8]) -> bool {
        let content = &bytes[..bytes.len().saturating_sub(DIGEST)];
        let digest = Digest::new().with(content).value().to_le_bytes();
        let Ok(model) = Predictor::from_bytes(&[content, &digest].concat()) else { return false };
        let bytes = model.to_bytes();
        let again = Predictor::from_bytes(&bytes).map(|again| again.to_bytes());
        assert!(again.is_ok_and(|again| again == bytes), "another model comes back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        vec![train(&[], Settings { number: 1, seed: 1 }).to_bytes()]
    }
}
