//! Threads that append at once share transactions; every row has its own number.

use std::collections::BTreeSet;

use ringfence_audit::{Durability, Ledger, LedgerSettings};

use crate::harness::{Scene, settings, start};

#[test]
fn sixteen_threads_get_a_row_each_time_they_ask() {
    let scene = Scene::new();
    let ledger = scene.open();
    let second = scene.open();
    let seqs: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16u64)
            .map(|t| {
                let ledger = if t % 2 == 0 { &ledger } else { &second };
                let append = move |n| ledger.append(&start(t * 1000 + n)).unwrap();
                scope.spawn(move || (0..100).map(append).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(seqs.iter().collect::<BTreeSet<_>>().len(), 1600);
    // One key and one checkpoint beside them.
    assert_eq!(scene.assert_intact().rows, 1602);
}

#[test]
fn rows_that_wait_for_the_disk_are_rows_like_others() {
    let scene = Scene::new();
    let durable = LedgerSettings { durability: Durability::PowerLoss, ..settings() };
    let ledger = Ledger::open(&scene.path(), durable).unwrap();
    ledger.append_all(&[start(1), start(2)]).unwrap();
    assert_eq!(scene.assert_intact().rows, 3);
}
