//! Anomalies, with an invented clock: each rule fires at its threshold and not one below.

#![allow(clippy::disallowed_methods)]

use proptest::prelude::*;
use ringfence_engine::watch::{Alert, AlertSettings, FinishedCall, N_ALERT_RULES, Watch};
use ringfence_spec::{Risk, Status};

fn call(at_ms: u64) -> FinishedCall {
    FinishedCall {
        at_ms,
        client: "a".into(),
        session: None,
        tool: "execute_code".into(),
        status: Status::Ok,
        duration_ms: 100,
        code_sha256: None,
        bytes_read: 0,
        n_violations: 0,
        n_misplaced_secrets: 0,
        traversal: false,
    }
}

/// Rules that fire, by the place of the call at which they do.
fn fired(
    settings: &AlertSettings,
    calls: impl IntoIterator<Item = FinishedCall>,
) -> Vec<(usize, &'static str)> {
    let mut watch = Watch::new(settings.clone());
    let alerts = calls.into_iter().enumerate().flat_map(|(at, seen)| {
        watch.see(&seen).into_iter().map(|alert| (at, alert.rule)).collect::<Vec<_>>()
    });
    alerts.collect()
}

type Change = fn(&mut FinishedCall, usize);
type Story = (&'static str, usize, u64, Change, &'static [(usize, &'static str)]);

/// A story: calls, milliseconds between, what each is, what fires where.
const STORIES: &[Story] = &[
    ("nothing happens", 300, 1000, |_, _| {}, &[]),
    ("five blocks", 5, 1000, |s, _| s.status = Status::Blocked, &[(4, "repeated_blocks")]),
    ("four blocks", 4, 1000, |s, _| s.status = Status::Blocked, &[]),
    ("blocks far apart", 20, 100_000, |s, _| s.status = Status::Blocked, &[]),
    ("blocks at the edge of the window", 20, 75_000, |s, _| s.status = Status::Blocked, &[]),
    (
        "blocks within the window",
        5,
        74_999,
        |s, _| s.status = Status::Blocked,
        &[(4, "repeated_blocks")],
    ),
    (
        "blocks between good calls",
        9,
        1000,
        |s, at| s.status = if at % 2 == 0 { Status::Blocked } else { Status::Ok },
        &[(8, "repeated_blocks")],
    ),
    ("ten failures", 10, 1000, |s, _| s.status = Status::Error, &[(9, "repeated_failures")]),
    ("nine failures", 9, 1000, |s, _| s.status = Status::Error, &[]),
    (
        "failures of all kinds",
        10,
        1000,
        |s, at| s.status = [Status::Error, Status::Timeout, Status::Memory, Status::Killed][at % 4],
        &[(9, "repeated_failures")],
    ),
    ("rejections are no failures", 30, 1000, |s, _| s.status = Status::Rejected, &[]),
    ("our faults are no failures", 30, 1000, |s, _| s.status = Status::Failed, &[]),
    (
        "an outlier",
        21,
        1000,
        |s, at| s.duration_ms = if at == 20 { 1000 } else { 100 },
        &[(20, "outlier_duration")],
    ),
    (
        "not quite an outlier",
        21,
        1000,
        |s, at| s.duration_ms = if at == 20 { 999 } else { 99 },
        &[],
    ),
    (
        "an outlier too early",
        20,
        1000,
        |s, at| s.duration_ms = if at == 19 { 9000 } else { 100 },
        &[],
    ),
    (
        "nine times the mean",
        21,
        1000,
        |s, at| s.duration_ms = if at == 20 { 1800 } else { 200 },
        &[],
    ),
    (
        "ten times almost nothing",
        21,
        1000,
        |s, at| s.duration_ms = if at == 20 { 50 } else { 1 },
        &[],
    ),
    (
        "another tool's durations do not count",
        21,
        1000,
        |s, at| {
            if at == 20 {
                (s.tool, s.duration_ms) = ("run_command".into(), 60_000);
            }
        },
        &[],
    ),
    (
        "the same code twenty times",
        20,
        1000,
        |s, _| s.code_sha256 = Some([7; 32]),
        &[(19, "duplicate_code")],
    ),
    ("the same code nineteen times", 19, 1000, |s, _| s.code_sha256 = Some([7; 32]), &[]),
    (
        "twenty different codes",
        40,
        1000,
        |s, at| s.code_sha256 = Some([u8::try_from(at).unwrap(); 32]),
        &[],
    ),
    ("the same code slowly", 60, 20_000, |s, _| s.code_sha256 = Some([7; 32]), &[]),
    ("a large read", 1, 0, |s, _| s.bytes_read = 50 << 20, &[(0, "large_read")]),
    ("not so large a read", 1, 0, |s, _| s.bytes_read = (50 << 20) - 1, &[]),
    ("many reads", 20, 1000, |s, _| s.bytes_read = 25 << 20, &[(19, "many_reads")]),
    ("many reads, slowly", 60, 60_000, |s, _| s.bytes_read = 25 << 20, &[]),
    ("one way out", 1, 0, |s, _| s.traversal = true, &[(0, "traversal")]),
    ("four violations", 1, 0, |s, _| s.n_violations = 4, &[(0, "many_violations")]),
    (
        "a secret's placeholder elsewhere",
        1,
        0,
        |s, _| s.n_misplaced_secrets = 1,
        &[(0, "misplaced_secret")],
    ),
    ("three violations", 50, 0, |s, _| s.n_violations = 3, &[]),
    (
        "huge numbers",
        30,
        0,
        |s, _| (s.duration_ms, s.bytes_read) = (u64::MAX, u64::MAX),
        &[(0, "large_read"), (0, "many_reads")],
    ),
];

#[test]
fn rules_fire_at_their_threshold_and_not_below() {
    for (story, n, step_ms, change, expected) in STORIES {
        let calls = (0..*n).map(|at| {
            let mut seen = call(u64::try_from(at).unwrap() * step_ms);
            change(&mut seen, at);
            seen
        });
        assert_eq!(fired(&AlertSettings::default(), calls), *expected, "{story}");
    }
}

#[test]
fn the_same_alert_is_not_repeated_within_the_quiet_period() {
    let attempt = |at_ms| FinishedCall { traversal: true, ..call(at_ms) };
    let calls = [0, 1000, 599_999, 600_000, 600_001, 1_200_000].map(attempt);
    assert_eq!(
        fired(&AlertSettings::default(), calls),
        [(0, "traversal"), (3, "traversal"), (5, "traversal")]
    );
    // Another client and another rule are not silenced.
    let mut watch = Watch::new(AlertSettings::default());
    assert_eq!(watch.see(&attempt(0)).len(), 1);
    assert_eq!(watch.see(&FinishedCall { client: "b".into(), ..attempt(1) }).len(), 1);
    assert_eq!(watch.see(&FinishedCall { n_violations: 9, ..attempt(2) }).len(), 1);
}

#[test]
fn an_alert_says_who_and_what() {
    let mut watch = Watch::new(AlertSettings::default());
    let alerts =
        watch.see(&FinishedCall { session: Some("s1".into()), n_violations: 4, ..call(0) });
    let expected = Alert {
        rule: "many_violations",
        subject: "client a in session s1".into(),
        message: "4 violations in one run of `execute_code`".into(),
        risk: Risk::High,
    };
    assert_eq!(alerts, [expected]);
}

#[test]
fn one_client_says_nothing_about_another() {
    let mut watch = Watch::new(AlertSettings::default());
    for at in 0..40 {
        let client = format!("client{}", at % 10);
        assert_eq!(watch.see(&FinishedCall { client, status: Status::Blocked, ..call(at) }), []);
    }
}

#[test]
fn memory_is_bounded_and_the_longest_silent_is_forgotten() {
    let settings =
        AlertSettings { n_clients_max: 3, n_remembered_max: 4, ..AlertSettings::default() };
    let mut watch = Watch::new(settings.clone());
    let blocked = |client: &str, at_ms| FinishedCall {
        client: client.into(),
        status: Status::Blocked,
        ..call(at_ms)
    };
    for at in 0..3 {
        watch.see(&blocked("quiet", at));
    }
    for (client, at) in [("b", 10), ("c", 11), ("d", 12)] {
        watch.see(&blocked(client, at));
    }
    assert_eq!(watch.n_clients(), 3);
    // It begins anew.
    assert_eq!(watch.see(&blocked("quiet", 20)), []);
    assert_eq!(watch.see(&blocked("quiet", 21)), []);
    for at in 0..10_000 {
        watch.see(&blocked(&format!("c{at}"), 100 + at));
    }
    assert_eq!(watch.n_clients(), 3);
    // Four are remembered and the fifth is looked at, so five is the most that can be counted.
    let settings = AlertSettings { n_blocked: 6, ..settings };
    assert_eq!(fired(&settings, (0..50).map(|at| blocked("a", at))), []);
}

#[test]
fn a_clock_that_goes_back_makes_nothing_new() {
    let blocked = |at_ms| FinishedCall { status: Status::Blocked, ..call(at_ms) };
    let calls = [1_000_000, 5, 4, 3, 2, 1].map(blocked);
    assert_eq!(fired(&AlertSettings::default(), calls), [(4, "repeated_blocks")]);
}

#[test]
fn zero_turns_a_rule_off_and_unknown_settings_are_refused() {
    let off: AlertSettings = serde_json::from_str(
        r#"{"n_blocked":0,"n_failed":0,"duration_factor":0,"n_duplicates":0,"bytes_read":0,"bytes_read_in_window":0,"n_traversals":0,"n_violations":0,"n_misplaced_secrets":0}"#,
    )
    .unwrap();
    for (story, n, step_ms, change, _) in STORIES {
        let calls = (0..*n).map(|at| {
            let mut seen = call(u64::try_from(at).unwrap() * step_ms);
            change(&mut seen, at);
            seen
        });
        assert_eq!(fired(&off, calls), [], "{story}");
    }
    assert!(serde_json::from_str::<AlertSettings>(r#"{"n_blokked": 1}"#).is_err());
    assert_eq!(serde_json::from_str::<AlertSettings>("{}").unwrap(), AlertSettings::default());
}

proptest! {
    #[test]
    fn any_history_is_answered(
        calls in prop::collection::vec((any::<u64>(), 0..4_usize, any::<u64>(), any::<u64>(), any::<u32>(), any::<bool>()), 0..200)
    ) {
        let mut watch = Watch::new(AlertSettings { n_clients_max: 2, n_remembered_max: 8, n_durations_min: 0, ..AlertSettings::default() });
        for (at_ms, client, duration_ms, bytes_read, n_violations, traversal) in calls {
            let client = ["a", "b", "c", "d"][client].into();
            let alerts = watch.see(&FinishedCall { client, duration_ms, bytes_read, n_violations, traversal, ..call(at_ms) });
            prop_assert!(alerts.len() <= N_ALERT_RULES);
            prop_assert!(watch.n_clients() <= 2);
        }
    }
}
