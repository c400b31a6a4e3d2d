//! Parts of an exchange that need no server: dates, types, pauses, secrets.

use super::*;

fn at(ms: i64) -> Time {
    Time::from_unix_ms(ms)
}

#[test]
fn pauses_grow_to_the_longest_and_are_scattered() {
    let (first, longest) = (Duration::from_secs(60), Duration::from_secs(3600));
    for (failures, expected) in [(1, 60), (2, 120), (6, 1920), (7, 3600), (33, 3600), (u32::MAX, 3600)] {
        let expected = Duration::from_secs(expected);
        let pauses: Vec<Duration> =
            (0..200).map(|seed| pause_after(failures, Backoff { first, longest }, seed)).collect();
        assert!(pauses.iter().all(|pause| *pause >= expected / 2 && *pause <= expected), "{failures}");
        assert!(pauses.iter().any(|pause| *pause < expected * 6 / 10), "{failures}");
        assert!(pauses.iter().any(|pause| *pause > expected * 9 / 10), "{failures}");
    }
    let third = || pause_after(3, Backoff { first, longest }, 7);
    assert_eq!(third(), third());
    assert_eq!(pause_after(1, Backoff { first: Duration::ZERO, longest }, 7), Duration::ZERO);
}

#[test]
fn pauses_that_are_asked_for() {
    // 1994-11-06 08:49:37 UTC, the example of RFC 9110.
    let now = at(784_111_777_000);
    let check =
        |text: &str, secs: Option<u64>| assert_eq!(pause_asked(text, now), secs.map(Duration::from_secs), "{text}");
    check("120", Some(120));
    check("Sun, 06 Nov 1994 08:50:37 GMT", Some(60));
    check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
    check("99999999999", Some(86_400));
    check("soon", None);
    check("-1", None);
}

#[test]
fn skew_is_the_servers_clock_less_ours() {
    let check = |age, expected_s: i64| {
        let found = skew("Sun, 06 Nov 1994 08:49:37 GMT", age, at(784_111_777_000 - 90_000));
        assert_eq!(found, Some(Span::from_secs(expected_s)));
    };
    check(None, 90);
    check(Some("30"), 120);
    check(Some("x"), 90);
    assert_eq!(skew("yesterday", None, at(0)), None);
}

#[test]
fn types_that_are_understood() {
    let check = |found, expected| assert_eq!(is_accepted(found, &["application/json"]), expected, "{found}");
    check("application/json", true);
    check("Application/JSON; charset=utf-8", true);
    check("application/problem+json", true);
    check("text/json", true);
    check("text/html", false);
    check("", false);
    assert!(is_accepted("text/html", &[]));
}

#[test]
fn secrets_are_not_shown() {
    let request =
        Request::get("https://user:word@example.org/api?securityToken=s3cret&zone=DE").hiding("s3cret").hiding("");
    assert_eq!(request.shown(), "https://example.org/api?securityToken=***&zone=DE");
    let escaped = Request::get("https://example.org/?t=a%2Bb%2F").hiding("a+b/");
    assert_eq!(escaped.shown(), "https://example.org/?t=***");
    // The encoding of a path leaves only letters and digits as they are.
    let other = Request::get("https://example.org/?t=a%2Ab").hiding("a*b");
    assert_eq!(other.shown(), "https://example.org/?t=***");
    let debugged = format!("{:?}", request.clone().with_header("authorization", "s3cret"));
    assert!(!debugged.contains("s3cret") && !debugged.contains("word"), "{debugged}");
    assert_eq!(request.quoted(b"no  token\ns3cret"), "`no token ***`");
    assert_eq!(request.quoted(b" "), "nothing");
    let long = request.quoted("ä".repeat(300).as_bytes());
    assert_eq!(long.chars().count(), SHOWN + 3);
}
