//! Tests with directories and processes that hide what they write.

use std::os::unix::fs::PermissionsExt;

use ringfence_testing::{ORDINARY_ID, as_ordinary_user};

use super::*;
use crate::fake_peer::{FakeProcess, SOON, soon, wait_for_file};
use crate::file_time::file_clock;

/// The bytes that a walk finds, in as many steps as it takes.
fn walked(dir: &Path, since: &StartTimes, enough: u64) -> u64 {
    let mut walk = DiskWalk::new(dir);
    soon(|| {
        loop {
            if let Some(bytes) = walk.step(since, enough) {
                return bytes;
            }
        }
    })
}

#[test]
fn a_walk_counts_what_changed_and_follows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("a/b/c")).unwrap();
    std::fs::write(at("a/b/c/file"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("/", at("root")).unwrap();
    std::os::unix::fs::symlink(".", at("a/loop")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, 0o600.into(), 0).unwrap();
    let long_ago = StartTimes::everywhere((0, 0));
    let bytes = walked(dir.path(), &long_ago, u64::MAX);
    assert!(((1 << 20)..(2 << 20)).contains(&bytes), "{bytes}");
    let later = StartTimes::everywhere((file_clock().0 + 3600, 0));
    assert_eq!(walked(dir.path(), &later, u64::MAX), 0);
    assert_eq!(walked(dir.path(), &long_ago, 1000), u64::MAX);
}

#[test]
fn what_cannot_be_walked_is_more_than_enough() {
    let since = &StartTimes::everywhere((0, 0));
    assert_eq!(walked(Path::new("/nonexistent/dir"), since, 1), u64::MAX);
    // A path too long to name: made by steps, as a run would.
    let dir = tempfile::tempdir().unwrap();
    let name = "d".repeat(250);
    let mut at: OwnedFd = rustix::fs::open(
        dir.path(),
        rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, &name, 0o700.into()).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        at = rustix::fs::openat(&at, &name, flags, rustix::fs::Mode::empty()).unwrap();
    }
    drop(at);
    assert_eq!(walked(dir.path(), since, u64::MAX - 1), u64::MAX);
    let removed =
        soon(|| ringfence_sys::remove_tree(dir.path(), &ringfence_sys::Budget::time(SOON)));
    assert!(removed.is_ok(), "{removed:?}");
}

/// A directory that cannot be listed may hide growth if a run could have written in it: it changed since the run began,
/// or files in it can be opened by their names.
#[test]
fn a_closed_directory_is_more_than_enough_if_the_run_could_enter_it() {
    let before = &StartTimes::everywhere((0, 0));
    let after = &StartTimes::everywhere((file_clock().0 + 3600, 0));
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::write(closed.join("file"), "x").unwrap();
    give_to_ordinary_user(dir.path());
    for (mode, since, hides) in [
        (0o000, before, true),
        (0o000, after, false),
        (0o200, after, false),
        (0o300, before, true),
        (0o300, after, true),
        (0o100, after, true),
        // Its names can be listed, and not looked up.
        (0o400, before, true),
        (0o400, after, false),
        (0o700, after, false),
    ] {
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
        let found = as_ordinary_user(|| walked(dir.path(), since, u64::MAX - 1));
        assert_eq!(found == u64::MAX, hides, "{mode:o} {since:?}");
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
}

/// Gives the files of a test to the ordinary user that looks at them.
fn give_to_ordinary_user(dir: &Path) {
    if rustix::process::geteuid().is_root() {
        for path in [dir.to_path_buf(), dir.join("closed"), dir.join("closed/file")] {
            std::os::unix::fs::chown(path, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
        }
    }
}

#[test]
fn a_file_without_a_name_is_found_at_the_process_that_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let (script, shown) = ("head -c 1048576 /dev/zero >&9; rm", file.display());
    let process = FakeProcess::of(&format!("exec 9>'{shown}'; {script} '{shown}'; exec sleep 987"));
    let dev = rustix::fs::stat(dir.path()).unwrap().st_dev;
    let deleted_bytes = |tree: &[i32], dev| DeletedFiles::of(tree, dev, &MapDevices::Any).bytes;
    let until = Instant::now() + SOON;
    while deleted_bytes(&[process.pid], dev) < 1 << 20 {
        assert!(Instant::now() < until, "it is not found");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(deleted_bytes(&[process.pid, process.pid], dev), deleted_bytes(&[process.pid], dev));
    assert_eq!(deleted_bytes(&[process.pid], dev + 1), 0);
    process.kill();
    process.wait_for_death();
    assert_eq!(deleted_bytes(&[process.pid], dev), 0);
}

/// Descriptors in a message on its way, mappings without a descriptor, and a process that cannot be looked into.
#[test]
fn files_without_a_name_that_are_hidden_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let dev = rustix::fs::stat(dir.path()).unwrap().st_dev;
    let devices = MapDevices::by_mount(dir.path(), dev).unwrap();
    let may_be_hidden = |pid| DeletedFiles::of(&[pid], dev, &devices).may_be_hidden;
    let place = dir.path().display();
    let file = format!(
        "import os, socket, mmap, time, ctypes; f = open('{place}/file', 'w+b'); f.write(bytes(8192)); f.flush(); os.unlink('{place}/file')"
    );
    let rows = [
        ("a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [f.fileno()]); f.close()", true),
        (
            "m = mmap.mmap(f.fileno(), 4096); f.close(); fds = os.listdir('/proc/self/fd')\n[os.close(int(n)) for n in fds if int(n) > 2 and os.path.exists('/proc/self/fd/' + n) and 'deleted' in os.readlink('/proc/self/fd/' + n)]",
            true,
        ),
        ("a, b = socket.socketpair()", false),
    ];
    for (hide, is_hidden) in rows {
        let ready = dir.path().join("ready");
        let code = format!("{file}\n{hide}\nopen('{place}/ready', 'w').close()\ntime.sleep(987)");
        let code = code.replace('\'', "'\\''");
        let process = FakeProcess::of(&format!("exec python3 -I -c '{code}'"));
        wait_for_file(&ready);
        assert_eq!(may_be_hidden(process.pid), is_hidden, "{hide}");
        process.kill();
        process.wait_for_death();
        assert!(!may_be_hidden(process.pid), "{hide}: after its end");
        std::fs::remove_file(ready).unwrap();
    }
}

#[test]
fn mapped_files_are_known_by_the_device_of_their_file_system() {
    let btrfs = "36 1 0:31 /@home /home rw,relatime shared:1 - btrfs /dev/vda2 rw,subvol=/@home";
    let subvolume = rustix::fs::makedev(0, 47);
    let devices = MapDevices::by_line(btrfs, subvolume).unwrap();
    assert_eq!(devices, MapDevices::Of(["00:2f".into(), "00:1f".into()]));
    let overlay = "40 1 0:50 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w";
    let any = MapDevices::by_line(overlay, subvolume).unwrap();
    assert_eq!(any, MapDevices::Any);
    assert_eq!(MapDevices::by_line("36 1 nonsense", subvolume), None);
    let line = |device, name| format!("7f00-7f01 r--s 00000000 {device} 4711    {name} (deleted)");
    for (device, name, by_device, anywhere) in [
        ("00:1f", "/home/x/f", true, true),
        ("00:2f", "/home/x/f", true, true),
        ("fe:01", "/home/x/f", false, true),
        ("00:01", "/memfd:x", false, false),
        ("00:01", "/dev/zero", false, false),
        ("00:01", "/SYSV00000000", false, false),
    ] {
        let found = DeletedFiles::default();
        let line = line(device, name);
        assert_eq!(found.is_unseen(&line, &devices), by_device, "{line}");
        assert_eq!(found.is_unseen(&line, &any), anywhere, "{line}");
        let found = DeletedFiles { seen: HashSet::from([4711]), ..DeletedFiles::default() };
        assert!(!found.is_unseen(&line, &any), "{line}");
    }
}

/// A search for deleted files ends after its steps, however much a tree has to look at; past them files may be hidden.
#[test]
fn a_search_for_deleted_files_is_bounded() {
    let process = FakeProcess::of("exec sleep 987");
    let mut found = DeletedFiles { n_steps: DELETED_STEPS_MAX - 1, ..DeletedFiles::default() };
    found.look_at_mappings(process.pid, &MapDevices::Any);
    assert_eq!((found.n_steps, found.may_be_hidden), (DELETED_STEPS_MAX + 1, true));
    found.add_open(process.pid, 0);
    assert_eq!(found.n_steps, DELETED_STEPS_MAX + 2);
    let many = vec![process.pid; DELETED_STEPS_MAX];
    let found = DeletedFiles::of(&many, 0, &MapDevices::Any);
    assert!(found.may_be_hidden && found.n_steps < DELETED_STEPS_MAX + 100, "{}", found.n_steps);
}

#[test]
fn names_of_directories_take_a_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let long = "d".repeat(250);
    let mut deep = root.clone();
    (0..4).for_each(|_| deep.push(&long));
    std::fs::create_dir_all(&deep).unwrap();
    (0..50).for_each(|n| std::fs::create_dir(deep.join(format!("{n:02}{long}"))).unwrap());
    let started = StartTimes::everywhere((i64::MAX, 0));
    let all = |bytes_before| {
        let mut walk = DiskWalk::new(&root);
        walk.pending_bytes += bytes_before;
        loop {
            if let Some(bytes) = walk.step(&started, 1 << 30) {
                return (bytes, walk.pending_bytes - bytes_before);
            }
        }
    };
    // Everything that was counted is taken off again.
    assert_eq!(all(0), (0, 0));
    // Fifty names of 1,256 bytes are more than is left.
    assert_eq!(all(PENDING_BYTES_MAX - 50_000).0, u64::MAX);
}
