//! Profiles: listed, set by hand, exported and imported.

use limo_fake::{answer, profile};
use limo_model::{Energy, EstimateSource, Power, Profile, ProfileKey, Span};
use limo_proto::{Answer, Change, ProfilesQuery, Query};

use crate::{answered, ask, change, failed, printed};

fn by_hand() -> (ProfileKey, Profile) {
    let key = ProfileKey {
        application: "cg".into(),
        size: "C".into(),
        hardware: "xeon".into(),
        cores: None,
        nodes: Some(4),
        cap: Some(Power::from_watts(40)),
    };
    let profile = Profile {
        duration: Span::from_secs(600),
        power: Power::from_mw(41_500),
        energy: Energy::from_joules(24_900),
        spread_permille: 25,
        runs: 0,
        source: EstimateSource::Imported,
    };
    (key, profile)
}

#[tokio::test]
async fn set_and_forget() {
    let name = ["cg", "xeon", "--nodes", "4", "--cap", "40W", "--size", "C"];
    let numbers = ["--duration", "10min", "--power", "41.5W", "--spread", "2.5%"];
    let done = || answer(Answer::Done);
    let (output, asked) = answered(&[&["profile", "set"][..], &name, &numbers].concat(), done()).await;
    assert_eq!((output, asked), (printed(""), vec![change(Change::SetProfiles(vec![by_hand()]))]));
    let (output, asked) = answered(&[&["profile", "forget"][..], &name].concat(), done()).await;
    assert_eq!((output, asked), (printed(""), vec![change(Change::ForgetProfile(by_hand().0))]));
}

#[tokio::test]
async fn listed() {
    let profiles = || answer(Answer::Profiles(vec![profile(), by_hand()]));
    let (output, asked) = answered(&["profile", "list"], profiles()).await;
    let expected = "\
        APPLICATION  SIZE  HARDWARE  CORES  NODES  CAP     DURATION  POWER   ENERGY       SPREAD  RUNS  FROM      SLOWDOWN\n\
        cg           -     xeon          8      -     -       10min  90.0 W    0.015 kWh   5.0 %     3  learned   -\n\
        cg           C     xeon          -      4  40.0 W     10min  41.5 W  24900.0 J     2.5 %     0  imported  -\n";
    assert_eq!((output, asked), (printed(expected), vec![ask(Query::Profiles(ProfilesQuery))]));
    let (output, _) = answered(&["profile", "list", "--json"], profiles()).await;
    let expected = "{\"schema\":1,\"profiles\":[\
        {\"application\":\"cg\",\"size\":\"\",\"hardware\":\"xeon\",\"cores\":8,\"nodes\":null,\"cap_w\":null,\"duration_s\":600.0,\"power_w\":90.0,\
        \"energy_j\":54000.0,\"spread\":0.05,\"runs\":3,\"source\":\"learned\",\"slowdown\":null},\
        {\"application\":\"cg\",\"size\":\"C\",\"hardware\":\"xeon\",\"cores\":null,\"nodes\":4,\"cap_w\":40.0,\"duration_s\":600.0,\"power_w\":41.5,\
        \"energy_j\":24900.0,\"spread\":0.025,\"runs\":0,\"source\":\"imported\",\"slowdown\":null}]}\n";
    assert_eq!(output, printed(expected));
}

#[tokio::test]
async fn the_law_of_slowdown_is_listed_beside_the_profile_without_a_cap() {
    let (key, capped) = by_hand();
    let run = |watts, secs| Profile { power: Power::from_watts(watts), duration: Span::from_secs(secs), ..capped };
    let under = |watts| ProfileKey { cap: Some(Power::from_watts(watts)), ..key.clone() };
    let free = ProfileKey { cap: None, ..key.clone() };
    let other = ProfileKey { size: "D".into(), ..key.clone() };
    // CPI = 2: 1/2 + 1/(2 M) makes 3 at a fifth of the power, 1.5 at half of it and 1.125 at 80 %.
    let all = vec![
        (free, run(100, 1_000)),
        (under(20), run(20, 3_000)),
        (under(50), run(50, 1_500)),
        (under(80), run(80, 1_125)),
        (other, run(50, 9_000)),
    ];
    let (output, _) = answered(&["profile", "list"], answer(Answer::Profiles(all))).await;
    let laws: Vec<&str> = output.lines().filter_map(|line| Some(line.split_once("imported")?.1.trim())).collect();
    assert_eq!(laws, ["CPI=2", "-", "-", "-", "-"]);
}

#[tokio::test]
async fn exported_profiles_can_be_imported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("profiles.csv");
    let file = file.to_str().expect("text");
    let exported = || answer(Answer::Profiles(vec![profile(), by_hand()]));
    let (output, _) = answered(&["profile", "export", file], exported()).await;
    assert_eq!(output, printed(""));
    let text = std::fs::read_to_string(file).expect("the file");
    let (output, _) = answered(&["profile", "export"], exported()).await;
    assert_eq!(output, printed(&text));
    let (output, asked) = answered(&["profile", "import", file], answer(Answer::Done)).await;
    let (key, learned) = profile();
    let expected = vec![(key, Profile { source: EstimateSource::Imported, ..learned }), by_hand()];
    assert_eq!((output, asked), (printed(""), vec![change(Change::SetProfiles(expected))]));
}

#[tokio::test]
async fn wrong_files_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("profiles.csv");
    let file = file.to_str().expect("text");
    let (output, asked) = answered(&["profile", "import", file], answer(Answer::Done)).await;
    assert_eq!(output, failed(&format!("lconf: error: cannot read {file}: No such file or directory (os error 2)\n")));
    std::fs::write(file, "application,power\ncg,3 W\n").expect("written");
    let (output, _) = answered(&["profile", "import", file], answer(Answer::Done)).await;
    assert_eq!(output, failed(&format!("lconf: error: {file}: line 1: column `size` is missing\n")));
    assert_eq!(asked, []);
    let (output, _) = answered(&["profile", "export", "/nonexistent/x"], answer(Answer::Profiles(vec![]))).await;
    assert_eq!(output, failed("lconf: error: cannot write /nonexistent/x: No such file or directory (os error 2)\n"));
}
