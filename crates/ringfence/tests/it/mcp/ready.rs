//! Supervisors that wait for a command with half of its fence made.

use std::collections::BTreeSet;

use ringfence_testing::json;
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::long::running;
use crate::living::{ancestors, children, eventually, gone, is_alive, sleepers};
use crate::support::World;

/// Number of tries to see a command below a supervisor that waited. A mount anywhere on the host ends those that wait, one
/// that is seen may still prepare itself or be the last run's own: the command then starts without, as it should.
const TRIES_MAX: usize = 20;

#[test]
fn a_command_is_given_to_a_supervisor_that_waits() {
    let world = World::new();
    let given = (0..TRIES_MAX).any(|_| is_given_to_one_that_waits(&world));
    assert!(given, "none of {TRIES_MAX} commands was given to a supervisor that waited");
}

/// Runs a command after another one and returns true if a supervisor that waited between them has it. Nothing may be left
/// of either when the client leaves.
fn is_given_to_one_that_waits(world: &World) -> bool {
    let mut client = Client::new(world, &[]);
    let server = client.pid().as_raw_nonzero().get().unsigned_abs();
    run(&mut client);
    eventually("a supervisor waits", || !waiting(server).is_empty());
    let before = waiting(server);
    let marker = running(&mut client);
    let supervisors: BTreeSet<u32> = sleepers(&marker)
        .into_iter()
        .filter_map(|pid| ancestors(pid).into_iter().find(|pid| before.contains(pid)))
        .collect();
    assert!(supervisors.len() <= 1, "{supervisors:?} of {before:?}");
    client.close();
    gone(&marker);
    assert!(client.end().0.success());
    eventually("no supervisor is left", || before.iter().all(|pid| !is_alive(*pid)));
    supervisors.len() == 1
}

#[test]
fn a_command_runs_though_the_supervisors_that_waited_are_dead() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let server = client.pid().as_raw_nonzero().get().unsigned_abs();
    for _ in 0..3 {
        run(&mut client);
        eventually("a supervisor waits", || !waiting(server).is_empty());
        let killed = waiting(server);
        for pid in &killed {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        eventually("they are dead", || killed.iter().all(|pid| !is_alive(*pid)));
        run(&mut client);
    }
    assert!(client.leave().0.success());
}

fn run(client: &mut Client) {
    let called = client.call("run_command", &json!({"command": "echo $((6 * 7))"}));
    assert_eq!(called.data["stdout"], "42\n", "{}", called.text);
}

/// Supervisors below the server's launcher whose one child is alone in a namespace of its own.
fn waiting(server: u32) -> BTreeSet<u32> {
    let launchers = children(server);
    let supervisors = launchers.iter().flat_map(|launcher| children(*launcher));
    supervisors
        .filter(|pid| matches!(children(*pid)[..], [child] if children(child).is_empty()))
        .collect()
}
