//! Trees that use up their limits.

use std::io::Write as _;

use ringfence_spec::{ByteSize, Span};

use super::*;
use crate::cgroup;
use crate::fake_peer::{FakeProcess, SOON, is_alone, plan, without_descriptors};
use crate::file_time::file_clock;
use crate::open::file_id;

fn limits() -> Limits {
    plan(60_000).limits
}

fn now() -> StartTimes {
    StartTimes::everywhere(file_clock())
}

#[test]
fn a_tree_that_uses_its_cpu_time_up_is_found() {
    let process = FakeProcess::of("while :; do :; done");
    let limits = Limits { cpu: Span::from_millis(100), ..limits() };
    let mut watchdog = Watchdog::new(&limits, &[], None, now(), false);
    assert!(watchdog.interval().is_some_and(|every| every <= DISK_INTERVAL));
    let until = Instant::now() + SOON;
    while watchdog.look(None, RunTree::Init(process.pid)).is_none() {
        assert!(Instant::now() < until, "it is not found");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(watchdog.look(None, RunTree::Init(process.pid)), Some(ExceededLimit::Cpu));
}

#[test]
fn time_of_processes_without_a_waiting_parent_counts() {
    let mut cpu = CpuTime::default();
    let process =
        FakeProcess::of("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 987");
    let until = Instant::now() + SOON;
    let mut used = Duration::ZERO;
    while used < Duration::from_millis(20) {
        assert!(Instant::now() < until, "{used:?}");
        used = cpu.look(&[process.pid]).unwrap();
    }
    process.kill();
    process.wait_for_death();
    for _ in 0..CpuTime::PATIENCE + 2 {
        let now = cpu.look(&[]).unwrap();
        assert!(now >= used, "{now:?} {used:?}");
    }
    assert!(cpu.seen.is_empty() && cpu.gone > 0);
}

#[test]
fn a_tree_over_its_memory_limit_is_found_and_one_below_is_not() {
    let process =
        FakeProcess::of("x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ready >&2; sleep 987");
    let look = |mib| {
        let limits = Limits { memory: Some(ByteSize::mib(mib)), ..limits() };
        let mut watchdog = Watchdog::new(&limits, &[], None, now(), false);
        (watchdog.look(None, RunTree::Init(process.pid)), watchdog.memory_found())
    };
    let until = Instant::now() + SOON;
    loop {
        if let (Some(ExceededLimit::Memory), Some(bytes)) = look(16) {
            assert!(bytes > 16 << 20, "{bytes}");
            break;
        }
        assert!(Instant::now() < until, "it is not found");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(look(4096), (None, None));
    process.kill();
    process.wait_for_death();
    // A zombie has no memory.
    assert_eq!(look(1), (None, None));
}

#[test]
fn limits_that_cannot_be_measured_for_some_checks_count_as_exceeded() {
    let name = "watchdog::tests::limits_that_cannot_be_measured_for_some_checks_count_as_exceeded";
    if !is_alone(name) {
        return;
    }
    let process = FakeProcess::hung();
    let run = RunTree::Init(process.pid);
    let dir = tempfile::tempdir().unwrap();
    let parent = cgroup::Parent::V2 { dir: dir.path().to_owned(), is_enabled: true };
    let leaf = Leaf::new(&parent).unwrap();
    let leaf_dir = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(leaf_dir.join("cpu.stat"), "usage_usec 1000\nuser_usec 1000\n").unwrap();
    let cpu = Limits { cpu: Span::from_millis(60_000), ..limits() };
    let memory = Limits { memory: Some(ByteSize::mib(4096)), ..limits() };
    for (limits, leaf, expected) in [
        (&cpu, Some(&leaf), ExceededLimit::Cpu),
        (&cpu, None, ExceededLimit::Cpu),
        (&memory, None, ExceededLimit::Memory),
    ] {
        let mut watchdog = Watchdog::new(limits, &[], None, now(), false);
        let fail = |watchdog: &mut Watchdog| without_descriptors(|| watchdog.look(leaf, run));
        // One that succeeds between them begins anew.
        for _ in 0..2 {
            assert_eq!(watchdog.look(leaf, run), None);
            for _ in 1..HIDDEN_CHECKS_MAX {
                assert_eq!(fail(&mut watchdog), None);
                assert_eq!(watchdog.interval(), Some(UNMEASURED_INTERVAL));
            }
        }
        assert_eq!(watchdog.take_unmeasured(), None);
        assert_eq!(fail(&mut watchdog), Some(expected));
        assert_eq!(watchdog.take_unmeasured().as_deref(), Some("EMFILE"));
    }
}

#[test]
fn nothing_to_watch_needs_no_watching() {
    let watchdog = Watchdog::new(&limits(), &[], None, now(), false);
    assert_eq!(watchdog.interval(), None);
    let limits =
        Limits { disk: Some(ByteSize::mib(1)), memory: Some(ByteSize::mib(1)), ..limits() };
    // A cgroup counts the memory, and a directory that is gone has no size.
    let gone =
        WritableDir { path: "/nonexistent".into(), id: ringfence_plan::FileId { dev: 0, ino: 0 } };
    let mut watchdog = Watchdog::new(&limits, &[gone], None, now(), true);
    assert_eq!((watchdog.interval(), watchdog.look(None, RunTree::Init(1))), (None, None));
}

/// Other programs use the same disk, so each may take a few checks.
#[test]
fn a_workspace_that_does_not_grow_is_looked_at_less_often() {
    let dir = tempfile::tempdir().unwrap();
    let id = file_id(std::fs::File::open(dir.path()).unwrap()).unwrap();
    let roots = [WritableDir { path: dir.path().to_owned(), id }];
    let limits = Limits { disk: Some(ByteSize::mib(1 << 20)), ..limits() };
    let mut watchdog = Watchdog::new(&limits, &roots, None, now(), true);
    let mut interval_after = |work: &dyn Fn(usize), expected: Duration| {
        (0..200).any(|n| {
            work(n);
            watchdog.disk_next = Instant::now();
            assert_eq!(watchdog.look(None, RunTree::Init(0)), None);
            watchdog.interval() == Some(expected)
        })
    };
    assert!(interval_after(&|_| (), IDLE_INTERVAL));
    let grow = |n: usize| {
        let file = std::fs::File::create(dir.path().join(n.to_string())).unwrap();
        (&file).write_all(&vec![1; 4 << 20]).unwrap();
        file.sync_all().unwrap();
    };
    assert!(interval_after(&grow, DISK_INTERVAL));
}
