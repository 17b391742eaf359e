//! Commands in fences that were made ready before: they see the host as it is now.

use std::time::Duration;

use ringfence_testing::{Json, json};

use super::client::Server;
use crate::living::{ancestors, children, eventually, is_alive, sleepers};
use crate::support::{World, have};

const SECRET: &str = "canary-71c2";

/// Time for another fence to be made ready. One takes a few milliseconds on an idle machine.
const PAUSE: Duration = Duration::from_millis(150);

const TRIES_MAX: usize = 40;

fn stdout(server: &Server, command: &Json) -> String {
    let outcome = server.run(&json!({"command": command})).json();
    assert_eq!(outcome["enforcement"]["tier"], "namespaces", "{outcome}");
    outcome["stdout"].as_str().unwrap_or_else(|| panic!("{outcome}")).to_owned()
}

/// Runs a command and returns true if its supervisor was there before.
fn is_served_by_one_that_waited(server: &Server, marker: &str) -> bool {
    let launcher = children(server.pid().as_raw_nonzero().get().unsigned_abs());
    let waiting: Vec<u32> = launcher.into_iter().flat_map(children).collect();
    let mut client = server.client();
    let asked = json!({"command": ["sleep", marker]}).to_string();
    let headers = [("Content-Type", "application/json")];
    client.begin("POST", "/api/v1/runs", &headers, asked.as_bytes());
    eventually("the command sleeps", || !sleepers(marker).is_empty());
    let sleeper = sleepers(marker).first().copied().unwrap_or(0);
    // The program, the run's init, its supervisor.
    let supervisor = ancestors(sleeper).get(2).copied();
    assert_eq!(client.answer().json()["status"], "ok");
    supervisor.is_some_and(|supervisor| waiting.contains(&supervisor))
}

#[test]
fn a_command_is_served_by_a_supervisor_that_waited_for_it() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let is_served = (0..TRIES_MAX).any(|n| {
        std::thread::sleep(PAUSE);
        is_served_by_one_that_waited(&server, &format!("0.5001{n:03}"))
    });
    assert!(is_served, "none of {TRIES_MAX} commands met a supervisor that was ready");
}

#[test]
fn what_the_host_hides_now_is_hidden_from_a_command_whose_fence_was_made_before() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    world.write("home/.cargo/config.toml", "shown");
    let server = Server::new(&world);
    let secret = world.home().join(".cargo/credentials.toml");
    let look = json!("cat ~/.cargo/config.toml ~/.cargo/cred* 2>/dev/null; true");
    let check = |when: &str| {
        for _ in 0..3 {
            assert_eq!(stdout(&server, &look), "shown", "{when}");
        }
        // The next ones are made ready as it is now.
        std::thread::sleep(PAUSE);
        assert_eq!(stdout(&server, &look), "shown", "{when}");
        std::thread::sleep(PAUSE);
    };
    check("without a secret");
    std::fs::write(&secret, SECRET).unwrap();
    check("a secret that is new");
    // The kernel takes the mask away with the file under it.
    world.write("home/.cargo/new", SECRET);
    std::fs::rename(world.home().join(".cargo/new"), &secret).unwrap();
    check("a secret that was replaced");
    // The mask goes with the file, and the name is another file's: so do editors save.
    std::fs::rename(&secret, world.home().join(".cargo/old")).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    check("a secret whose old file was moved away");
    std::fs::rename(&secret, world.home().join(".cargo/credentials")).unwrap();
    check("a secret with another name");
    let other = world.home().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("credentials.toml"), SECRET).unwrap();
    std::fs::write(other.join("config.toml"), "shown").unwrap();
    std::fs::rename(world.home().join(".cargo"), world.home().join("old")).unwrap();
    std::fs::rename(&other, world.home().join(".cargo")).unwrap();
    check("a directory that was replaced");
}

#[test]
fn a_command_is_served_although_the_children_that_waited_were_killed() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut n_killed = 0;
    for _ in 0..TRIES_MAX {
        assert_eq!(stdout(&server, &json!("echo here")), "here\n");
        std::thread::sleep(PAUSE);
        let launcher = children(server.pid().as_raw_nonzero().get().unsigned_abs());
        let supervisors = launcher.into_iter().flat_map(children);
        for child in supervisors.flat_map(children) {
            let pid = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
            if rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok() {
                n_killed += 1;
                eventually("the child is dead", || !is_alive(child));
            }
        }
        if n_killed > 3 {
            break;
        }
    }
    assert!(n_killed > 3, "{n_killed}");
    assert_eq!(stdout(&server, &json!("echo here")), "here\n");
}

#[test]
fn commands_of_two_views_in_turn_each_see_their_own() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    world.write("work/here", "workspace");
    let server = Server::new(&world);
    let session = server.client().post("/api/v1/sessions", &json!({})).json();
    let session = session["id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        assert_eq!(stdout(&server, &json!("cat here")), "workspace");
        let asked = json!({"command": "ls; echo session", "session": session});
        assert_eq!(server.run(&asked).json()["stdout"], "session\n");
        std::thread::sleep(PAUSE);
    }
}
