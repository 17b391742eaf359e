//! Trees that crash, hang and lie about their names.

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::disk_watch::{DeletedFiles, MapDevices};
use crate::fake_peer::{FakeProcess, SOON, is_alone, without_descriptors};
use crate::memory_watch::{Member, anonymous_bytes};

/// Waits until the tree has so many processes.
#[track_caller]
fn wait_for_tree(root: i32, n: usize) -> Vec<i32> {
    let until = Instant::now() + SOON;
    loop {
        let found = tree(root).unwrap();
        if found.len() == n {
            return found;
        }
        assert!(Instant::now() < until, "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_tree_is_found_by_lists_and_by_parents_and_shrinks_with_its_processes() {
    let process = FakeProcess::of("sleep 987 & (sleep 987 & wait) & wait");
    let found = wait_for_tree(process.pid, 4);
    let mut by_scan = Some(scan_parents().unwrap());
    let mut below = vec![process.pid];
    let mut at = 0;
    while let Some(pid) = below.get(at).copied() {
        at += 1;
        below.extend(by_scan.as_mut().and_then(|map| map.remove(&pid)).unwrap_or_default());
    }
    let sorted = |mut pids: Vec<i32>| {
        pids.sort_unstable();
        pids
    };
    assert_eq!(sorted(below), sorted(found.clone()));
    for pid in found.iter().skip(1).filter_map(|pid| rustix::process::Pid::from_raw(*pid)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    process.kill();
    process.wait_for_death();
    assert_eq!(tree(process.pid).unwrap(), [process.pid]);
}

#[test]
fn pids_that_name_no_process_are_a_tree_of_nothing() {
    for pid in [i32::MIN, -1, 0, i32::MAX] {
        assert_eq!(tree(pid).unwrap(), [pid]);
        assert!(Member::of(pid).unwrap().is_none() && parent_of(pid).unwrap().is_none());
        assert!(cpu_so_far(u32::try_from(pid).unwrap_or(u32::MAX)).is_none());
        let deleted = DeletedFiles::of(&[pid], 1, &MapDevices::Any);
        assert_eq!((deleted.bytes, deleted.may_be_hidden), (0, false));
    }
    assert_eq!((cpu_so_far(u32::MAX), anonymous_bytes(u32::MAX)), (None, None));
}

#[test]
fn without_descriptors_a_tree_is_an_error_and_not_empty() {
    if !is_alone("proc::tests::without_descriptors_a_tree_is_an_error_and_not_empty") {
        return;
    }
    let process = FakeProcess::of("sleep 987 & wait");
    let pid = process.pid;
    wait_for_tree(pid, 2);
    without_descriptors(|| {
        let errors = [
            tree(pid).err(),
            tasks(pid).err(),
            children_of(pid).err(),
            scan_parents().err(),
            parent_of(pid).err(),
            Member::of(pid).err(),
        ];
        for (n, error) in errors.into_iter().enumerate() {
            let errno = error.and_then(|error| error.raw_os_error());
            assert_eq!(errno, Some(Errno::MFILE.raw_os_error()), "{n}");
        }
        assert!(children_by_scan(pid).is_none() && !is_zombie(pid));
        assert!(DeletedFiles::of(&[pid], 1, &MapDevices::Any).may_be_hidden);
    });
    assert_eq!(tree(pid).unwrap().len(), 2);
}

#[test]
fn a_process_cannot_lie_about_itself_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|p| Path::new(p).is_file());
    // Its name is that of its file: it looks like the end of a name and the fields that follow.
    for name in [") R 1 1 1", "a) S 1 (b) Z 1", "\n) R 2 2", "(((", ") ) ) )"] {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(sleep.unwrap(), &link).unwrap();
        let quoted = link.display().to_string();
        let process = FakeProcess::of(&format!("exec '{quoted}' 987"));
        let comm = format!("/proc/{}/comm", process.pid);
        let until = Instant::now() + SOON;
        while !std::fs::read_to_string(&comm).unwrap().starts_with(name) {
            assert!(Instant::now() < until, "{name:?}");
            std::thread::yield_now();
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(parent_of(process.pid).unwrap(), Some(own), "{name:?}");
        let used = cpu_so_far(process.pid.unsigned_abs()).unwrap();
        assert!(used < Duration::from_secs(5), "{name:?}: {used:?}");
    }
}
