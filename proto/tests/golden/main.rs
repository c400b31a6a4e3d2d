//! The bytes of one message of each kind. A released version speaks these bytes: after the release they change only
//! with the number of the version.
//!
//! `LIMO_GOLDEN=write cargo nextest run -p limo-proto --test golden` writes the file of an unreleased version.

mod sampler;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use limo_proto::{
    ClientToMaster, EnrolAnswer, EnrolRequest, Frame, MasterToClient, MasterToNode, NodeToMaster, VERSION,
};
use limo_requirements::{Requirement, skip};
use serde::Serialize;
use serde::de::DeserializeOwned;

use sampler::{Choices, Sampler};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v{VERSION}.txt"))
}

/// Makes a message with these variants, and the variants of the enums in it.
fn sample<M: DeserializeOwned>(choices: &Choices) -> (M, BTreeMap<&'static str, &'static [&'static str]>) {
    let mut sampler = Sampler::of(choices.clone());
    let message = M::deserialize(&mut sampler).unwrap_or_else(|error| panic!("no sample of {choices:?}: {error}"));
    (message, sampler.met)
}

/// Adds the bytes of a message with each variant of `name`, which occurs where `around` is chosen.
fn take<M>(all: &mut BTreeMap<String, String>, name: &'static str, around: &Choices)
where
    M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let variants = sample::<M>(around).1[name];
    for variant in variants {
        let choices = around.iter().map(|(of, choice)| (*of, *choice)).chain([(name, *variant)]).collect();
        let message = Frame::Message(sample::<M>(&choices).0);
        let bytes = message.encode().expect("small");
        assert_eq!(Frame::<M>::decode(bytes.clone()).expect("just encoded"), message);
        all.insert(format!("{name}::{variant}"), hex(&bytes));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

fn bytes(hex: &str) -> Bytes {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Returns the bytes of all messages, by name.
fn all() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let none = Choices::new();
    take::<NodeToMaster>(&mut all, "NodeToMaster", &none);
    take::<NodeToMaster>(&mut all, "AttemptState", &Choices::from([("NodeToMaster", "Attempts")]));
    take::<NodeToMaster>(&mut all, "Outcome", &Choices::from([("NodeToMaster", "Ended")]));
    take::<MasterToNode>(&mut all, "MasterToNode", &none);
    take::<ClientToMaster>(&mut all, "ClientToMaster", &none);
    take::<ClientToMaster>(&mut all, "Query", &Choices::from([("ClientToMaster", "Ask")]));
    take::<ClientToMaster>(&mut all, "Selector", &Choices::from([("ClientToMaster", "Ask"), ("Query", "Select")]));
    take::<ClientToMaster>(&mut all, "Change", &Choices::from([("ClientToMaster", "ChangeConf")]));
    take::<MasterToClient>(&mut all, "MasterToClient", &none);
    take::<MasterToClient>(&mut all, "Answer", &Choices::from([("MasterToClient", "Answer")]));
    take::<MasterToClient>(&mut all, "Wait", &Choices::from([("MasterToClient", "Waiting")]));
    take::<EnrolRequest>(&mut all, "EnrolRequest", &none);
    take::<EnrolAnswer>(&mut all, "EnrolAnswer", &none);
    all
}

#[test]
fn the_bytes_of_each_message_stay() {
    let now = all();
    if std::env::var("LIMO_GOLDEN").is_ok_and(|word| word == "write") {
        let lines: String = now.iter().map(|(name, hex)| format!("{name} {hex}\n")).collect();
        std::fs::write(path(), lines).expect("the file is written");
    }
    if !path().exists() {
        let reason = format!("version {VERSION} of the protocol is not released, so it has no golden bytes");
        return skip(Requirement::Release, &reason);
    }
    let hint = "if this version is not released: LIMO_GOLDEN=write cargo nextest run -p limo-proto --test golden";
    let text = std::fs::read_to_string(path()).expect("the golden bytes are readable");
    let known: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let missing: Vec<&String> = now.keys().filter(|name| !known.contains_key(name.as_str())).collect();
    assert!(missing.is_empty(), "no golden bytes of {missing:?}; {hint}");
    let gone: Vec<&&str> = known.keys().filter(|name| !now.contains_key(**name)).collect();
    assert!(gone.is_empty(), "golden bytes of messages that are not there: {gone:?}; {hint}");
    let changed: Vec<&String> =
        now.iter().filter(|(name, hex)| known[name.as_str()] != *hex).map(|(name, _)| name).collect();
    assert!(changed.is_empty(), "the bytes of {changed:?} have changed; {hint}");
}

/// Checks that a message that is cut anywhere is refused, and never taken for another one.
#[test]
fn cut_messages_are_refused() {
    for (name, hex) in all() {
        let whole = bytes(&hex);
        for end in 0..whole.len() {
            let cut = whole.slice(..end);
            match name.split("::").next() {
                Some("NodeToMaster") => assert!(Frame::<NodeToMaster>::decode(cut).is_err(), "{name} cut at {end}"),
                Some("MasterToNode") => assert!(Frame::<MasterToNode>::decode(cut).is_err(), "{name} cut at {end}"),
                Some("ClientToMaster") => assert!(Frame::<ClientToMaster>::decode(cut).is_err(), "{name} cut at {end}"),
                Some("MasterToClient") => assert!(Frame::<MasterToClient>::decode(cut).is_err(), "{name} cut at {end}"),
                Some("EnrolRequest") => assert!(Frame::<EnrolRequest>::decode(cut).is_err(), "{name} cut at {end}"),
                Some("EnrolAnswer") => assert!(Frame::<EnrolAnswer>::decode(cut).is_err(), "{name} cut at {end}"),
                _ => {}
            }
        }
    }
}
