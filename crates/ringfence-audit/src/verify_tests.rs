//! Attacks with a stolen copy of the newest key.

use super::*;
use crate::digest::chain;
use crate::dir::INTAKE;
use crate::head::{Head, Mark};
use crate::{Entry, KeepAll, Ledger, LedgerSettings};
use ringfence_spec::RunId;

/// With today's key an attacker can write a consistent chain and a genuine head, but not yesterday's signatures.
#[test]
fn todays_key_cannot_rewrite_what_yesterdays_signed() {
    for (rewrite_from, found) in [
        (3, Some((8, FindingKind::BadKey))),
        (10, Some((12, FindingKind::BadSignature))),
        (13, None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let ledger = Ledger::open(&path, LedgerSettings::new(KeepAll)).unwrap();
        let append = |times: u8| {
            for n in 0..times {
                let id = RunId::from_random([n; 16]);
                ledger.append(&Entry::run_start(id).client("honest")).unwrap();
            }
        };
        // Key 1, rows 2 to 7, key 8, rows 9 to 11, checkpoint 12, rows 13 to 15.
        append(6);
        ledger.rotate().unwrap();
        append(3);
        ledger.checkpoint().unwrap();
        append(3);
        assert_eq!(verify(&path, &Expectations::default()).unwrap().rows, 15);
        rewrite(&ledger, rewrite_from);
        let check = verify(&path, &Expectations::default()).unwrap();
        let first = check.findings.first().map(|finding| (finding.seq, finding.fault));
        assert_eq!(first, found, "from row {rewrite_from}: {:?}", check.findings);
    }
}

/// Changes a row and everything that follows from it, with today's key where a key is needed for the head.
fn rewrite(ledger: &Ledger, from: i64) {
    let mut store = ledger.store();
    let mut rows = store.intake_lines().unwrap();
    let mut previous = Digest::ZERO;
    let mut text = Vec::new();
    for row in &mut rows {
        if row.seq == from {
            row.client = Some("forged".to_owned());
        }
        row.chain = chain(&previous, &row.columns(), &row.body_hash);
        previous = row.chain;
        row.write(&mut text);
    }
    std::fs::write(store.home.join(INTAKE), &text).unwrap();
    let last = rows.last().unwrap();
    let place = ChainPosition { seq: last.seq, chain: previous };
    let mark = Mark { place, intake_bytes: text.len() as u64 };
    let key = *store.secret_of(last.epoch).unwrap().mac_key();
    let head = Head::new(mark, 0, last.epoch, &boot_id()).signed(&key);
    store.write_head(head).unwrap();
}
