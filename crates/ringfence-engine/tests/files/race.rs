//! Operations against somebody who exchanges directories with links, and files with links and FIFOs, all the while.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_engine::files::{Depth, Lookup, OnConflict, Parents};
use rustix::fs::{CWD, RenameFlags};

use crate::grep::for_text;
use crate::world::{APPEND, CANARY, REPLACE, World, code, fifo};

/// Exchanges two names until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    n_swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(pairs: Vec<(PathBuf, PathBuf)>) -> Self {
        let (stop, n_swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, count) = (Arc::clone(&stop), Arc::clone(&n_swaps));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                for (a, b) in &pairs {
                    if rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { stop, n_swaps, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn race(lookup: Lookup) {
    let world = World::new();
    world.put("d/secret.txt", "inside");
    world.put("d/sub/secret.txt", "inside");
    world.put("f", "inside");
    world.put("g", "inside");
    world.link(world.outside(), "link-d");
    world.link(world.outside().join("secret.txt"), "link-f");
    fifo(&world.inside("pipe"));
    let before = world.beside();
    let workspace = world.open(lookup);
    let pair = |a: &str, b: &str| (world.inside(a), world.inside(b));
    let swapper = Swapper::start(vec![pair("d", "link-d"), pair("f", "link-f"), pair("g", "pipe")]);

    let (mut n_ok, mut n_refused, mut slowest) = (0u64, 0u64, Duration::ZERO);
    let start = Instant::now();
    let mut n_rounds = 0u64;
    let is_met = |n_ok: u64, n_refused: u64| {
        swapper.n_swaps.load(Ordering::Relaxed) > 1000 && n_ok > 100 && n_refused > 100
    };
    // Three seconds of it, and on a busy machine as many as it takes to meet both sides: else it shows nothing.
    while start.elapsed() < Duration::from_secs(3)
        || (!is_met(n_ok, n_refused) && start.elapsed() < Duration::from_mins(1))
    {
        n_rounds += 1;
        let mut note = |what: &str, answer: &'static str, text: String| {
            assert!(!text.contains(CANARY), "{what} told what is outside: {text}");
            if answer == "ok" {
                n_ok += 1;
            } else {
                n_refused += 1;
            }
        };
        let act = Instant::now();
        for path in ["d/secret.txt", "d/sub/secret.txt", "f", "g", "link-d/secret.txt", "link-f"] {
            let answer = workspace.read(path, 0, None);
            let text = answer.as_ref().map(|c| String::from_utf8_lossy(&c.bytes).into_owned());
            note(path, code(&answer), text.unwrap_or_default());
        }
        for path in ["d", "link-d", "."] {
            let answer = workspace.list(path, 4, 1000);
            // A file outside has the canary as its name.
            note(path, code(&answer), format!("{answer:?}"));
        }
        for path in ["d", "link-d", ".", "f", "link-f", "g"] {
            let answer = workspace.grep(path, &for_text("."));
            note(path, code(&answer), format!("{answer:?}"));
        }
        for path in ["d/secret.txt", "d/new.txt", "d/sub/x", "f", "g", "link-d/planted"] {
            let answer = workspace.write(path, b"inside", REPLACE);
            note(path, code(&answer), String::new());
            let answer = workspace.write(path, b"", APPEND);
            note(path, code(&answer), String::new());
        }
        let nested = ringfence_engine::files::WriteOptions { parents: Parents::Create, ..REPLACE };
        note("deep", code(&workspace.write("d/p/q/r", b"inside", nested)), String::new());
        let (replace, stay) = (OnConflict::Replace, Parents::MustExist);
        for (from, to) in [
            ("d/new.txt", "d/newer.txt"),
            ("d/sub/x", "out-of-sub"),
            ("out-of-sub", "d/sub/x"),
            ("link-d/secret.txt", "stolen"),
            ("d/sub/secret.txt", "stolen"),
        ] {
            let answer = workspace.rename(from, to, replace, stay);
            note(from, code(&answer), String::new());
        }
        for path in ["d/p", "d/sub/secret.txt", "link-d/sub", "d/newer.txt", "stolen"] {
            let answer = workspace.delete(path, Depth::All);
            note(path, code(&answer), String::new());
        }
        note("usage", code(&workspace.usage()), String::new());
        slowest = slowest.max(act.elapsed());
        let nested = workspace.write("d/sub/secret.txt", b"inside", nested);
        note("again", code(&nested), String::new());
    }
    let n_swaps = swapper.n_swaps.load(Ordering::Relaxed);
    drop(swapper);
    assert_eq!(world.beside(), before, "something outside was changed");
    eprintln!(
        "{lookup:?}: {n_rounds} rounds, {n_swaps} swaps, {n_ok} ok, {n_refused} refused, slowest {slowest:?}"
    );
    assert!(n_swaps > 1000 && n_ok > 100 && n_refused > 100, "{n_swaps} {n_ok} {n_refused}");
    assert!(slowest < Duration::from_secs(20), "an operation waited: {slowest:?}");
    assert!(world.names(".").iter().all(|name| !name.starts_with(".ringfence")), "drafts are left");
}

#[test]
fn a_renamer_cannot_lead_operations_out_by_openat2() {
    race(Lookup::Kernel);
}

#[test]
fn a_renamer_cannot_lead_operations_out_by_hand() {
    race(Lookup::ByHand);
}

/// The race above would be void if it could not be lost: the same by name is led out.
#[test]
fn the_same_by_name_is_led_out() {
    let world = World::new();
    world.put("d/secret.txt", "inside");
    world.link(world.outside(), "link-d");
    let pair = (world.inside("d"), world.inside("link-d"));
    let _swapper = Swapper::start(vec![pair]);
    let start = Instant::now();
    let path = world.inside("d/secret.txt");
    while std::fs::read_to_string(&path).unwrap_or_default() != CANARY {
        assert!(start.elapsed() < Duration::from_secs(20), "the swapper does nothing");
    }
}
