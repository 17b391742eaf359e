//! Writes that are interrupted: a full disk, a quota, kill -9. The name stands for the old content or the new, and no draft is
//! left where we lived to remove it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_engine::files::{
    Depth, Durability, FileRules, Parents, Workspace, WriteMode, WriteOptions,
};
use ringfence_testing::BoundedCommand as _;

use crate::world::{APPEND, CREATE, LOOKUPS, REPLACE, World, code, in_namespace};

const DURABLE: WriteOptions =
    WriteOptions { durability: Durability::SurvivesPowerLoss, parents: Parents::Create, ..REPLACE };

#[test]
fn a_full_disk_leaves_the_old_file_and_no_draft() {
    let world = World::new();
    let setup = r#"mount -t tmpfs -o size=1M none "$DIR""#;
    in_namespace("atomic::inner_full_disk", &world.inside(""), setup);
}

#[test]
#[ignore = "run by a_full_disk_leaves_the_old_file_and_no_draft in namespaces of its own"]
fn inner_full_disk() {
    let dir = std::path::PathBuf::from(std::env::var_os("DIR").unwrap());
    for lookup in LOOKUPS {
        let workspace = Workspace::open_with(&dir, FileRules::default(), lookup).unwrap();
        let old = vec![b'o'; 400 << 10];
        workspace.write("f", &old, DURABLE).unwrap();
        for mode in [WriteMode::Replace, WriteMode::Append] {
            let options = WriteOptions { mode, ..DURABLE };
            let answer = workspace.write("f", &vec![b'n'; 900 << 10], options);
            assert_eq!(code(&answer), "disk_full", "{answer:?}");
            assert!(workspace.read("f", 0, None).unwrap().bytes == old);
        }
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(names, [dir.join("f")], "a draft is left");
        // Deleting works on a full disk, and makes room.
        workspace.delete("f", Depth::One).unwrap();
        workspace.write("f", &vec![b'n'; 900 << 10], DURABLE).unwrap();
        workspace.delete("f", Depth::One).unwrap();
    }
}

#[test]
fn a_write_past_the_quota_changes_nothing() {
    for lookup in LOOKUPS {
        let world = World::new();
        let rules = FileRules { quota_bytes: Some(256 << 10), ..FileRules::default() };
        let workspace = world.open_by(rules, lookup);
        let old = vec![b'o'; 200 << 10];
        workspace.write("f", &old, CREATE).unwrap();
        let answer = workspace.write("g", &vec![0; 100 << 10], CREATE).unwrap_err();
        assert_eq!(answer.code.as_str(), "quota_exceeded");
        assert!(answer.cause.unwrap().contains("may use 262144 bytes"));
        assert_eq!(code(&workspace.write("f", &vec![0; 100 << 10], APPEND)), "quota_exceeded");
        assert!(workspace.read("f", 0, None).unwrap().bytes == old);
        assert_eq!(world.names("."), ["f"]);
        // Replacing counts what it frees, and what fits is let through.
        assert_eq!(code(&workspace.write("f", &vec![1; 220 << 10], REPLACE)), "ok");
        assert_eq!(code(&workspace.write("g", &vec![1; 8 << 10], CREATE)), "ok");
        // What a run wrote counts, also when that passed the quota; making a file smaller is still possible.
        std::fs::write(world.inside("by-run"), vec![1; 512 << 10]).unwrap();
        assert!(workspace.usage().unwrap().bytes > 700 << 10);
        assert_eq!(code(&workspace.write("h", b"x", CREATE)), "quota_exceeded");
        assert_eq!(code(&workspace.write("f", b"small", REPLACE)), "ok");
        // The way out that the hint names.
        workspace.delete("by-run", Depth::One).unwrap();
        assert_eq!(code(&workspace.write("h", b"x", CREATE)), "ok");
    }
}

#[test]
fn parallel_writes_cannot_pass_the_quota_together() {
    let world = World::new();
    let rules = FileRules { quota_bytes: Some(1 << 20), ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let workspace = &workspace;
            scope.spawn(move || {
                for n in 0..8 {
                    let content = vec![b'x'; 64 << 10];
                    let _ = workspace.write(format!("{thread}-{n}"), &content, CREATE);
                }
            });
        }
    });
    let usage = workspace.usage().unwrap();
    assert!(usage.bytes <= 1 << 20, "{usage:?}");
    assert!(usage.n_entries >= 14, "most of it can be used: {usage:?}");
}

#[test]
fn readers_see_one_version_or_the_other() {
    let world = World::new();
    let workspace = world.open(LOOKUPS[0]);
    workspace.write("f", &vec![b'0'; 100_000], CREATE).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut n_reads = 0;
            while !done.load(Ordering::Relaxed) {
                let bytes = std::fs::read(world.inside("f")).unwrap();
                assert!(bytes.len() == 100_000 && bytes.iter().all(|b| *b == bytes[0]));
                n_reads += 1;
            }
            n_reads
        });
        for version in 1..300u32 {
            let digit = b'0' + u8::try_from(version % 10).unwrap();
            workspace.write("f", &vec![digit; 100_000], REPLACE).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 10);
    });
}

#[test]
fn killed_at_any_moment_a_file_is_one_version_or_the_other() {
    let world = World::new();
    std::fs::write(world.inside("f"), vec![b'0'; 300_000]).unwrap();
    for n in 0..25u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "atomic::inner_writer", "--ignored", "--nocapture"])
            .env("DIR", world.inside(""))
            .stdout(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        let mut ready = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("writing") {
            line.clear();
            let n_bytes = std::io::BufRead::read_line(&mut ready, &mut line).unwrap();
            assert!(n_bytes > 0, "the writer ended");
        }
        std::thread::sleep(Duration::from_micros(n * 370));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let bytes = std::fs::read(world.inside("f")).unwrap();
        assert!(bytes.len() == 300_000 && bytes.iter().all(|b| *b == bytes[0]), "after kill {n}");
    }
    // Killed, it cannot remove its drafts; the next session does.
    let workspace = world.open(LOOKUPS[0]);
    let n_drafts = world.names(".").len() - 1;
    assert_eq!(workspace.remove_drafts().unwrap().n_entries, n_drafts as u64);
    assert_eq!(world.names("."), ["f"]);
}

#[test]
#[ignore = "run by killed_at_any_moment_a_file_is_one_version_or_the_other, which kills it"]
fn inner_writer() {
    let dir = std::env::var_os("DIR").unwrap();
    let workspace = Workspace::open(dir.as_ref(), FileRules::default()).unwrap();
    // The harness has written `test … ` on this line already.
    println!("\nwriting");
    for version in 0u8.. {
        let digit = b'0' + version % 10;
        workspace.write("f", &vec![digit; 300_000], REPLACE).unwrap();
        if version == 250 {
            std::thread::sleep(Duration::from_mins(1));
        }
    }
}
