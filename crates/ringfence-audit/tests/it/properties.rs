//! Whatever a caller does in whatever order, the ledger verifies and has every row.

use proptest::prelude::*;
use ringfence_audit::{Ledger, LedgerSettings, RunStatus};

use crate::harness::{Scene, settings, start};

#[derive(Clone, Debug)]
enum Act {
    Run,
    Start,
    Many(u64),
    Rotate,
    Checkpoint,
    Compact,
    Reopen,
    Second,
    Expire,
    ArchiveSession(u64),
    Recover,
    Anchor,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::Run),
        3 => Just(Act::Start),
        1 => (1..700u64).prop_map(Act::Many),
        1 => Just(Act::Rotate),
        1 => Just(Act::Checkpoint),
        2 => Just(Act::Compact),
        2 => Just(Act::Reopen),
        2 => Just(Act::Second),
        1 => Just(Act::Expire),
        1 => (0..5u64).prop_map(Act::ArchiveSession),
        1 => Just(Act::Recover),
        1 => Just(Act::Anchor),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_acts_leaves_an_intact_ledger(acts in prop::collection::vec(act(), 1..40)) {
        let scene = Scene::new();
        let usual = || LedgerSettings { epoch_rows_max: 60, ..settings() };
        let mut ledger = Ledger::open(&scene.path(), usual()).unwrap();
        let mut anchors = Vec::new();
        let mut n = 0;
        let mut written = Vec::new();
        for act in acts {
            n += 1000;
            match act {
                Act::Run => {
                    written.push(ledger.append(&start(n)).unwrap());
                    written.push(ledger.append(&start(n).ended_with(RunStatus::Ok, 1.0)).unwrap());
                }
                Act::Start => written.push(ledger.append(&start(n)).unwrap()),
                Act::Many(many) => {
                    let entries: Vec<_> = (0..many).map(|k| start(n + k)).collect();
                    written.extend(ledger.append_all(&entries).unwrap());
                }
                Act::Rotate => ledger.rotate().unwrap(),
                Act::Checkpoint => ledger.checkpoint().unwrap(),
                Act::Compact => ledger.compact().unwrap(),
                Act::Reopen => {
                    drop(ledger);
                    ledger = Ledger::open(&scene.path(), usual()).unwrap();
                }
                Act::Second => written.push(scene.open().append(&start(n)).unwrap()),
                Act::Expire => drop(ledger.expire(i64::MAX).unwrap()),
                Act::ArchiveSession(k) => drop(ledger.archive_session(&format!("session-{k}")).unwrap()),
                Act::Recover => drop(ledger.recover().unwrap()),
                Act::Anchor => anchors.push(ledger.anchor().unwrap()),
            }
        }
        let expected = ringfence_audit::Expectations { anchors, root: ledger.root_key() };
        let check = ringfence_audit::verify(&scene.path(), &expected).unwrap();
        prop_assert!(check.intact, "{:?}", check.findings);
        prop_assert!(written.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(written.last().is_none_or(|last| *last <= check.rows));
        for archive in scene.reader().archives().unwrap() {
            prop_assert!(ringfence_audit::verify_archive(&archive, ledger.root_key()).unwrap().intact);
        }
    }
}
