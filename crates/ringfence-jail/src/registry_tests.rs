//! Records kept, damaged, planted and swept, with the placeholders they name.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::open::file_id;
use ringfence_sys::untrusted::open_absolute;
use ringfence_testing::as_ordinary_user;

struct Fixture {
    _dir: tempfile::TempDir,
    root: PathBuf,
    registry: Registry,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("w");
    fs::create_dir(&root).unwrap();
    let registry = Registry::new(&dir.path().join("state"));
    Fixture { _dir: dir, root, registry }
}

fn placeholder(root: &Path, name: &str, shape: PlaceholderShape) -> Placeholder {
    let root_id = file_id(open_absolute(root).unwrap()).unwrap();
    Placeholder { root: root.to_owned(), root_id, path: name.into(), shape }
}

/// What the death of a run's process leaves: its names, but none of its locks.
fn die(mut hold: Hold) {
    hold.locks.clear();
    std::mem::forget(hold);
}

#[test]
fn a_placeholder_stays_until_runs_of_other_data_directories_let_go() {
    let f = fixture();
    let other = Registry::new(&f.root.with_file_name("other state"));
    let wanted = [
        placeholder(&f.root, ".vscode", PlaceholderShape::EmptyDirectory),
        placeholder(&f.root, ".mcp.json", PlaceholderShape::Inert),
        placeholder(&f.root, "config.worktree", PlaceholderShape::EmptyFile),
    ];
    let exist = || wanted.iter().filter(|p| f.root.join(&p.path).exists()).count();
    let first = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    let second = other.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).unwrap();
    assert_eq!(first.gaps().chain(second.gaps()).count(), 0);
    drop(first);
    f.registry.sweep_now();
    assert_eq!(exist(), 3);
    // Its next run takes them for placeholders still.
    assert_eq!(f.registry.held(wanted[0].root_id).len(), 3);
    drop(second);
    assert_eq!(exist(), 0);
    f.registry.sweep_now();
    assert!(f.registry.held(wanted[0].root_id).is_empty());
}

#[test]
fn a_sweep_leaves_what_a_run_of_another_data_directory_holds() {
    let f = fixture();
    let other = Registry::new(&f.root.with_file_name("other state"));
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
    die(f.registry.hold(&[], &[], &wanted, &dead).unwrap());
    let live = other.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    f.registry.sweep_now();
    assert!(f.root.join(".vscode").exists());
    drop(live);
    f.registry.sweep_now();
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn a_workspace_that_another_process_keeps_locked_is_a_gap() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    // As one that removes names, and hangs.
    let dir = fs::File::open(&f.root).unwrap();
    let root = open_absolute(&f.root).unwrap();
    let removing = WorkspaceLock::to_remove(&root).unwrap();
    let began = Instant::now();
    let hold = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    assert!(began.elapsed() >= REMOVAL_MAX);
    let gaps: Vec<String> = hold.gaps().collect();
    assert!(gaps.len() == 1 && gaps[0].contains("cannot be locked"), "{gaps:?}");
    drop((hold, removing));
    assert!(!f.root.join(".vscode").exists());
    // A lock of flock(1) is for something else.
    rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).unwrap();
    let hold = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    assert_eq!(hold.gaps().count(), 0);
    drop(hold);
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn names_that_a_run_has_found_stay_until_it_lets_go() {
    let f = fixture();
    let other = Registry::new(&f.root.with_file_name("other state"));
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::EmptyDirectory)];
    let first = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    // It takes the name for the user's, as on a filesystem that keeps no mark.
    let dir = WritableDir { path: f.root.clone(), id: wanted[0].root_id };
    let needed = [&dir, &dir];
    let second = other.hold(&[], &needed, &[], &RunKey::of_this_process("2")).unwrap();
    assert!(second.is_empty() && second.locks().count() == 1);
    drop(first);
    f.registry.sweep_now();
    assert!(f.root.join(".vscode").exists());
    drop(second);
    f.registry.sweep_now();
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn a_directory_that_cannot_be_read_loses_no_names() {
    as_ordinary_user(|| {
        let f = fixture();
        let other = Registry::new(&f.root.with_file_name("other state"));
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::EmptyDirectory)];
        let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
        die(f.registry.hold(&[], &[], &wanted, &dead).unwrap());
        let live = other.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
        let mode = |mode| {
            fs::set_permissions(&f.root, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
        };
        // As a program of the live run does.
        mode(0o300);
        f.registry.sweep_now();
        assert!(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).is_err());
        mode(0o700);
        assert!(f.root.join(".vscode").exists());
        drop(live);
        f.registry.sweep_now();
        assert!(!f.root.join(".vscode").exists());
    });
}

#[test]
fn a_placeholder_stays_until_the_last_run_lets_go() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".mcp.json", PlaceholderShape::Inert)];
    let first = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    let second = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).unwrap();
    assert!(f.registry.held(wanted[0].root_id).contains(Path::new(".mcp.json")));
    drop(first);
    assert!(f.root.join(".mcp.json").exists());
    drop(second);
    assert!(!f.root.join(".mcp.json").exists());
    assert!(f.registry.held(wanted[0].root_id).is_empty());
}

#[test]
fn a_placeholder_goes_whatever_mode_its_directory_gives_it() {
    let f = fixture();
    fs::set_permissions(&f.root, fs::Permissions::from_mode(0o2775)).unwrap();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::EmptyDirectory)];
    let hold = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    let made = f.root.join(".vscode").metadata().unwrap().permissions().mode();
    assert_eq!(made & 0o7777, 0o3755, "the directory passes its group on");
    drop(hold);
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn what_somebody_made_of_a_placeholder_is_theirs() {
    let f = fixture();
    let wanted = [
        placeholder(&f.root, ".claude", PlaceholderShape::Inert),
        placeholder(&f.root, "config.worktree", PlaceholderShape::EmptyFile),
    ];
    let hold = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    fs::remove_file(f.root.join(".claude")).unwrap();
    fs::create_dir(f.root.join(".claude")).unwrap();
    fs::write(f.root.join("config.worktree"), "[core]").unwrap();
    drop(hold);
    assert!(f.root.join(".claude").is_dir());
    assert!(f.root.join("config.worktree").exists());
}

#[test]
fn the_next_start_sweeps_what_a_dead_run_left() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
    die(f.registry.hold(&[], &[], &wanted, &dead).unwrap());
    assert!(f.root.join(".vscode").exists());
    f.registry.sweep_now();
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn sweeps_reach_every_record_in_turn() {
    let f = fixture();
    let n_roots = SWEEP_MAX * 2 + 10;
    let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
    let root = |i: usize| f.root.join(format!("{i}"));
    for i in 0..n_roots {
        fs::create_dir(root(i)).unwrap();
        let wanted = [placeholder(&root(i), ".vscode", PlaceholderShape::Inert)];
        die(f.registry.hold(&[], &[], &wanted, &dead).unwrap());
    }
    let n_left = || (0..n_roots).filter(|&i| root(i).join(".vscode").exists()).count();
    // Records stay as long as their directory does, so each sweep must go on behind the last.
    for expected in [n_roots - SWEEP_MAX, n_roots - 2 * SWEEP_MAX, 0] {
        f.registry.sweep_now();
        assert_eq!(n_left(), expected);
    }
    let again = [placeholder(&root(0), ".vscode", PlaceholderShape::Inert)];
    die(f.registry.hold(&[], &[], &again, &dead).unwrap());
    for _ in 0..3 {
        f.registry.sweep_now();
    }
    assert_eq!(n_left(), 0);
}

#[test]
fn a_planted_link_is_not_followed() {
    let f = fixture();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), f.root.join("git")).unwrap();
    let wanted = [placeholder(&f.root, "git/hooks", PlaceholderShape::Inert)];
    assert!(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).is_err());
    assert!(!outside.path().join("hooks").exists());
}

#[test]
fn a_damaged_record_is_set_aside_and_told() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    drop(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap());
    let file = f.registry.file(wanted[0].root_id);
    for text in [b"{not json".to_vec(), vec![b' '; 2 << 20]] {
        fs::write(&file, &text).unwrap();
        assert!(f.registry.held(wanted[0].root_id).is_empty());
        let notices = f.registry.sweep_now();
        assert!(notices.len() == 1 && notices[0].contains("damaged"), "{notices:?}");
        assert!(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).is_ok());
        assert!(!f.root.join(".vscode").exists());
    }
}

#[test]
fn a_workspace_with_too_many_names_spoils_no_other() {
    let f = fixture();
    let other = f.root.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    let name = |i: usize| format!("{i:04}{}", "n".repeat(240));
    let wanted: Vec<Placeholder> =
        (0..8000).map(|i| placeholder(&f.root, &name(i), PlaceholderShape::Inert)).collect();
    let refused = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap_err();
    assert_eq!(refused.errno, Errno::FBIG);
    let few = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    assert!(f.registry.hold(&[], &[], &few, &RunKey::of_this_process("2")).is_ok());
    let others = [placeholder(&other, ".vscode", PlaceholderShape::Inert)];
    assert!(f.registry.hold(&[], &[], &others, &RunKey::of_this_process("3")).is_ok());
}

#[test]
fn what_lies_in_a_workspace_is_known_to_be_writable() {
    let f = fixture();
    let inside = f.root.join("sub");
    fs::create_dir(&inside).unwrap();
    assert_eq!(f.registry.written_by_runs(&inside), None);
    let id = file_id(open_absolute(&f.root).unwrap()).unwrap();
    let dir = WritableDir { path: f.root.clone(), id };
    drop(f.registry.hold(&[dir], &[], &[], &RunKey::of_this_process("1")).unwrap());
    assert_eq!(f.registry.written_by_runs(&inside).as_deref(), Some(f.root.as_path()));
    assert_eq!(f.registry.written_by_runs(f.root.parent().unwrap()), None);
    // Another directory with its number is another one.
    fs::remove_dir_all(&f.root).unwrap();
    f.registry.sweep_now();
    change_record(&f, id, |record| record["born"] = serde_json::json!([1, 1]));
    fs::create_dir_all(&inside).unwrap();
    assert_eq!(f.registry.written_by_runs(&inside), None);
}

#[test]
fn a_record_with_an_interrupted_cut_behind_it_is_still_read() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    let hold = f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap();
    let file = f.registry.file(wanted[0].root_id);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}ons\":[1,2]}}]")).unwrap();
    assert!(f.registry.held(wanted[0].root_id).contains(Path::new(".vscode")));
    drop(hold);
    assert!(!f.root.join(".vscode").exists());
}

#[test]
fn a_file_that_others_can_write_is_not_trusted() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
    drop(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap());
    fs::set_permissions(f.registry.file(wanted[0].root_id), fs::Permissions::from_mode(0o666))
        .unwrap();
    assert!(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).is_err());
}

/// The record of the fixture's workspace, changed by `change`.
fn change_record(f: &Fixture, id: FileId, change: impl FnOnce(&mut serde_json::Value)) {
    let file = f.registry.file(id);
    let mut record = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut record);
    fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
}

#[test]
fn a_workspace_that_was_moved_stays_one_that_runs_have_written() {
    let f = fixture();
    let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::EmptyDirectory)];
    let id = wanted[0].root_id;
    drop(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("1")).unwrap());
    let moved = f.root.with_file_name("moved");
    fs::rename(&f.root, &moved).unwrap();
    for _ in 0..2 {
        f.registry.sweep_now();
        assert_eq!(f.registry.written_by_runs(&moved.join(".venv/bin")), Some(moved.clone()));
    }
    // Another directory that has got its number.
    change_record(&f, id, |record| record["born"] = serde_json::json!([1, 1]));
    assert_eq!(f.registry.written_by_runs(&moved.join("x")), None);
    // A run there makes it its own.
    let wanted = [Placeholder { root: moved.clone(), ..wanted[0].clone() }];
    drop(f.registry.hold(&[], &[], &wanted, &RunKey::of_this_process("2")).unwrap());
    assert_eq!(f.registry.written_by_runs(&moved.join("x")), Some(moved.clone()));
    // Gone for long, or without a birth time, it is forgotten.
    fs::remove_dir_all(&moved).unwrap();
    f.registry.sweep_now();
    assert!(f.registry.file(id).exists());
    change_record(&f, id, |record| record["away_since"] = serde_json::json!(1));
    f.registry.sweep_now();
    assert!(!f.registry.file(id).exists());
}

#[test]
fn a_run_makes_the_record_of_a_directory_that_is_gone_its_own() {
    let f = fixture();
    let id = file_id(open_absolute(&f.root).unwrap()).unwrap();
    let writable = [WritableDir { path: f.root.clone(), id }];
    let run = || drop(f.registry.hold(&writable, &[], &[], &RunKey::of_this_process("1")).unwrap());
    run();
    assert_eq!(f.registry.written_by_runs(&f.root), Some(f.root.clone()));
    // As if another directory had had its number.
    change_record(&f, id, |record| {
        record["away_since"] = serde_json::json!(1);
        record["born"] = serde_json::json!([1, 1]);
    });
    assert_eq!(f.registry.written_by_runs(&f.root), None);
    run();
    assert_eq!(f.registry.written_by_runs(&f.root), Some(f.root.clone()));
}
