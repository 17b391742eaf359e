//! Links and directories that a run puts in the place of others, and paths of the caller that lead through them.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use ringfence_testing::BoundedCommand as _;

use crate::support::{Ran, World, binary, have};

/// A world in which a run has replaced `work/cache` with a link to `home/bin`, and a second workspace.
fn world() -> World {
    let world = World::new();
    for dir in ["home/bin", "work/cache", "other"] {
        std::fs::create_dir(world.root().join(dir)).unwrap();
    }
    let plant = format!("rmdir cache && ln -s {} cache", world.home().join("bin").display());
    assert_eq!(world.sh(&[], &plant).code, 0);
    world
}

#[test]
fn a_link_that_a_run_made_is_not_followed_by_a_run_in_another_workspace() {
    if !have("namespaces") {
        return;
    }
    let world = world();
    let link = world.work().join("cache");
    let (other, link) = (world.root().join("other"), link.to_str().unwrap());
    for flag in ["--rw", "--ro", "--hide", "--cwd"] {
        let mut command = world.command(&["run", flag, link, "--", "touch", "planted"]);
        let ran = Ran::from(&command.current_dir(&other).bounded_output().unwrap());
        assert_eq!(ran.code, 126, "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains("leads out of the workspace"), "{flag}: {}", ran.stderr);
    }
    let mut command = world.command(&["exec", "--ro", link, "-c", "print(1)"]);
    let ran = Ran::from(&command.current_dir(&other).bounded_output().unwrap());
    assert_eq!(ran.code, 126, "{}", ran.stderr);
    let left: Vec<_> = std::fs::read_dir(world.home().join("bin")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_command_runs_in_the_directory_it_was_started_in_wherever_that_is_now() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    std::fs::create_dir(world.home().join("bin")).unwrap();
    std::fs::create_dir(world.work().join("sub")).unwrap();
    // The shell is in the directory before it is moved.
    let script = format!(
        "cd sub && mv ../sub ../sub2 && ln -s {} ../sub && {} run -- touch made",
        world.home().join("bin").display(),
        binary().display()
    );
    let mut shell = world.here(Command::new("sh"));
    let ran = Ran::from(&shell.args(["-c", &script]).bounded_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(world.work().join("sub2/made").exists() && !world.home().join("bin/made").exists());
}

#[test]
fn files_of_a_program_go_to_the_directory_that_was_named_before_it_ran() {
    let world = World::new();
    std::fs::create_dir(world.home().join("bin")).unwrap();
    let code = "open('ls', 'w').write('x'); print('waits', flush=True); input()";
    let mut exec = world.command(&["exec", "--preset", "open", "--artifacts", "out", "-c", code]);
    let mut exec = exec.stdin(Stdio::piped()).stdout(Stdio::piped()).bounded_spawn().unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(exec.stdout.as_mut().unwrap(), &mut line).unwrap();
    std::fs::rename(world.work().join("out"), world.work().join("moved")).unwrap();
    symlink(world.home().join("bin"), world.work().join("out")).unwrap();
    exec.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(exec.wait().unwrap().success());
    assert!(world.work().join("moved/ls").exists() && !world.home().join("bin/ls").exists());
}

#[test]
fn a_host_without_room_for_a_process_lowers_no_fence() {
    // The kernel limits the number of an ordinary user's processes alone; the second pass is such a user's.
    if rustix::process::geteuid().is_root() || !have("namespaces") {
        return;
    }
    let world = World::new();
    let mut shell = world.here(Command::new("bash"));
    let script = format!("ulimit -u 1; exec {} run -- true", binary().display());
    let ran = Ran::from(&shell.args(["-c", &script]).bounded_output().unwrap());
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("no room for another run"), "{}", ran.stderr);
}

#[test]
fn what_the_operator_writes_follows_no_link_that_a_run_made() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let victim = world.write("home/.bashrc", "old");
    std::fs::create_dir(world.home().join("bin")).unwrap();
    let home = world.home();
    let plant = format!(
        "mkdir -p plug/hooks && ln -s {home}/.bashrc plug/hooks/hooks.json && ln -s {home}/bin plug/.claude-plugin && \
         ln -s {home}/.bashrc conf.json && ln -s {home}/bin reports && ln -s {home}/bin/new dangling",
        home = home.display()
    );
    assert_eq!(world.sh(&[], &plant).code, 0);
    for args in [
        &["init", "claude-code", "--plugin", "plug"][..],
        &["init", "cursor", "--config", "conf.json"],
        &["init", "cursor", "--config", "dangling"],
        &["audit", "export", "--out", "reports/x"],
        &["audit", "export", "--out", "dangling"],
        &["audit", "anchor", "--to", "conf.json"],
        &["audit", "anchor", "--to", "dangling"],
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 126, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("leads out of the workspace"), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "old");
    let left: Vec<_> = std::fs::read_dir(world.home().join("bin")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // Links that no run can have made lead where they did.
    world.write("other/conf.json", "{}");
    symlink("conf.json", world.root().join("other/link.json")).unwrap();
    let link = world.root().join("other/link.json");
    let ran = world.ringfence(&["init", "cursor", "--config", link.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(link.is_symlink());
}
