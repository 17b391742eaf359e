//! A run ends completely: at its deadline, with its program, and with its supervisor.

use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_testing::BoundedCommand as _;

use crate::living::{eventually, has_janitor, marker, n_alive, soon, tree};
use crate::support::{Ran, World};

#[test]
fn a_background_process_dies_with_the_run() {
    let marker = marker();
    let script = format!("sleep {marker} & setsid nohup sleep {marker} >/dev/null 2>&1 & exit 3");
    let ran = World::new().sh(&[], &script);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(n_alive(&marker), 0);
}

#[test]
fn what_ignores_signals_forks_and_stops_itself_dies_at_the_deadline() {
    let marker = marker();
    let script = format!(
        "trap '' TERM INT HUP QUIT; (setsid sh -c 'trap \"\" TERM; sleep {marker}' &); kill -STOP $$; sleep {marker}"
    );
    let (code, outcome) = World::new().sh_json(&["--timeout", "300ms"], &script);
    assert_eq!((code, &outcome["status"]), (124, &"timeout".into()), "{outcome}");
    assert_eq!(n_alive(&marker), 0);
}

#[test]
fn a_killed_supervisor_takes_the_run_with_it_and_leaves_nothing() {
    let world = World::new();
    let marker = marker();
    let mut run = world.sh_live(&format!("echo up; {}", tree(&marker)));
    assert!(world.names().contains(".mcp.json"));
    // It starts a little after the run does; before that, it is the next start that tidies up.
    has_janitor(run.pid());
    run.kill();
    eventually("the run ends with its supervisor", || n_alive(&marker) == 0);
    eventually("the placeholders go", || world.names().is_empty());
}

#[test]
fn a_supervisor_killed_at_any_moment_leaves_nothing_after_the_next_start() {
    let world = World::new();
    let marker = marker();
    for delay_us in (0..8000).step_by(400) {
        let mut child = world
            .command(&["run", "--", "sleep", &marker])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .bounded_spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(delay_us));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    eventually("the runs end with their supervisors", || n_alive(&marker) == 0);
    eventually("the next start sweeps", || {
        assert_eq!(world.sh(&[], "true").code, 0);
        world.names().is_empty()
    });
}

#[test]
fn a_polite_signal_reaches_the_program() {
    let world = World::new();
    let script = "trap 'echo got it; exit 9' TERM; echo up; while :; do sleep 0.05; done";
    let run = world.sh_live(script);
    rustix::process::kill_process(run.pid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(run.end(), (Some(9), "got it\n".to_owned()));
}

#[test]
fn a_program_that_ignores_a_polite_signal_is_killed_soon_after() {
    let world = World::new();
    let run = world.sh_live("trap '' TERM; echo up; while :; do sleep 1; done");
    let started = Instant::now();
    rustix::process::kill_process(run.pid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(run.end().0, Some(137));
    assert!(started.elapsed() < Duration::from_secs(2) + soon());
}

#[test]
fn nothing_is_left_after_a_run() {
    let world = World::new();
    let (code, outcome) = world.sh_json(&[], "true");
    assert_eq!(code, 0, "{outcome}");
    assert!(world.names().is_empty());
    // Leaves are named after the run; tests beside this one have leaves of their own.
    let leaf = format!("ringfence-{}", &outcome["run_id"].as_str().unwrap()[..8]);
    let mut pending = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            assert_ne!(entry.file_name().to_string_lossy(), leaf, "in {}", dir.display());
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
}

#[test]
fn a_signal_before_the_program_begins_ends_the_run() {
    let world = World::new();
    let marker = marker();
    for (delay_us, signal, code) in [
        (0, rustix::process::Signal::TERM, 143),
        (0, rustix::process::Signal::INT, 130),
        (1500, rustix::process::Signal::INT, 130),
        (3000, rustix::process::Signal::TERM, 143),
    ] {
        // A test run in the background of a shell ignores SIGINT, and so would its children until main().
        let run = world.command(&["run", "--", "sleep", &marker]);
        let mut command = std::process::Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(run.get_program()).args(run.get_args());
        command.current_dir(world.work()).stdin(Stdio::null());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.stderr(Stdio::null()).bounded_spawn().unwrap();
        // Not before: until `env` has reset them, a signal that is ignored is lost, and nothing would end the run.
        // By its name, which everybody may read.
        let name = format!("/proc/{}/comm", child.id());
        eventually("env becomes ringfence", || {
            std::fs::read_to_string(&name).is_ok_and(|name| name == "ringfence\n")
        });
        std::thread::sleep(Duration::from_micros(delay_us));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let started = Instant::now();
        let status = child.wait().unwrap();
        assert!(started.elapsed() < soon(), "after {delay_us} us");
        // Before main() the signal is the kernel's to answer; afterwards it is ours.
        let shown = status.code().unwrap_or_else(|| {
            128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap()
        });
        assert_eq!(shown, code, "after {delay_us} us");
    }
    assert_eq!(n_alive(&marker), 0);
}

/// With `hidepid` the list of processes shows none that may not be looked into, and these are still the run's.
#[test]
fn without_namespaces_a_process_that_proc_hides_ends_with_its_run() {
    let world = World::new();
    let program = "
import ctypes, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(4, 0)
        time.sleep(5); open('survived', 'w').close()
    os._exit(0)
os.wait(); print('up', flush=True); time.sleep(30)";
    // The capabilities of the new user namespace would show everything.
    let shell = "mount -t proc -o hidepid=2 proc /proc && echo 0 > /proc/sys/user/max_user_namespaces && \
        setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all \"$@\"; code=$?; sleep 7; exit $code";
    let unshare =
        ["unshare", "-U", "--map-current-user", "--keep-caps", "-m", "-p", "-f", "--kill-child"];
    let run = ["run", "--timeout", "2s", "--", "/usr/bin/python3", "-c", program];
    let mut command = world.wrapped(&[&unshare[..], &["sh", "-c", shell, "sh"]].concat(), &run);
    let ran = Ran::from(&command.bounded_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (124, "up\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`/proc` is mounted with `hidepid`"), "{}", ran.stderr);
    assert!(!world.work().join("survived").exists(), "it outlived its run");
}

/// Each link of a chain forks the next and exits: there is nothing to kill but what is about to end.
#[test]
fn without_namespaces_a_chain_of_processes_ends_with_its_run() {
    let world = World::new();
    let marker = marker();
    let program = "
import os, time
began = time.time()
for n in range(6):
    if os.fork() == 0:
        os.setsid()
        while time.time() < began + 40:
            try:
                if os.fork(): os._exit(0)
                with open('last', 'a') as last: last.write(f'{time.time() - began} ')
            except OSError: time.sleep(0.001)
        os._exit(0)
print('up', flush=True); time.sleep(30)";
    let run = ["run", "--timeout", "2s", "--", "/usr/bin/python3", "-c", program, &marker];
    let ran = world.without_namespaces(&run);
    assert_eq!((ran.code, ran.stdout.as_str()), (124, "up\n"), "{}", ran.stderr);
    // They went on to the end.
    let times = std::fs::read_to_string(world.work().join("last")).unwrap();
    let last = times.split(' ').filter_map(|time| time.parse::<f64>().ok()).fold(0.0, f64::max);
    assert!(last > 1.5, "the chains ended by themselves after {last} s: {}", ran.stderr);
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&marker)
    });
    assert_eq!(left.count(), 0, "{}", ran.stderr);
}
