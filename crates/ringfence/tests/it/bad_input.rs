//! Bad input gets a clear error with the contract's exit code, and nothing is created.

use ringfence_testing::BoundedCommand as _;

use crate::support::World;

#[track_caller]
fn refused(world: &World, args: &[&str], code: i32, needle: &str) {
    let before = world.names();
    let ran = world.ringfence(args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    assert!(ran.stderr.contains(needle), "{args:?}: {}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{args:?}: stdout is for data: {}", ran.stdout);
    assert_eq!(world.names(), before, "{args:?} left something behind");
}

#[test]
fn unknown_flags_are_refused_with_a_suggestion() {
    refused(&World::new(), &["run", "--memry", "1G", "--", "true"], 2, "--memory");
}

#[test]
fn sizes_that_make_no_sense_are_refused_by_name() {
    let world = World::new();
    for value in ["0", "-1", "100000000000000000000", "1Q", ""] {
        for flag in ["--memory", "--disk", "--output"] {
            refused(&world, &["run", flag, value, "--", "true"], 2, flag);
        }
    }
    for value in ["0", "-1", "4000000000", "x"] {
        refused(&world, &["run", "--pids", value, "--", "true"], 2, "--pids");
    }
    for value in ["0s", "-1s", "99999999999h", "5"] {
        refused(&world, &["run", "--timeout", value, "--", "true"], 2, "--timeout");
    }
}

#[test]
fn a_cwd_that_is_a_file_is_refused() {
    let world = World::new();
    let file = world.write("file", "x");
    refused(&world, &["run", "--cwd", file.to_str().unwrap(), "--", "true"], 2, "not a directory");
}

#[test]
fn a_cwd_that_does_not_exist_is_refused() {
    refused(
        &World::new(),
        &["run", "--cwd", "/nowhere/at/all", "--", "true"],
        2,
        "/nowhere/at/all",
    );
}

#[test]
fn a_missing_command_is_127() {
    refused(&World::new(), &["run", "--", "no-such-command-here"], 127, "no-such-command-here");
    refused(&World::new(), &["run", "--", "/no/such/path"], 127, "/no/such/path");
}

#[test]
fn a_missing_command_is_an_outcome_that_did_not_run() {
    let ran = World::new().ringfence(&["run", "--json", "--", "no-such-command-here"]);
    let outcome = ran.json();
    assert_eq!(ran.code, 127);
    assert_eq!(outcome["status"], "error");
    assert_eq!(outcome["ran"], "no");
    assert_eq!(outcome["error"]["code"], "command_not_found");
}

#[test]
fn a_file_that_cannot_be_executed_is_126() {
    let world = World::new();
    world.write("work/data.txt", "x");
    refused(&world, &["run", "--", "./data.txt"], 126, "cannot be executed");
}

#[test]
fn a_policy_with_a_typing_error_names_it() {
    let world = World::new();
    let policy = world.write("policy.toml", "memry = \"1G\"\n");
    let policy = policy.to_str().unwrap();
    refused(&world, &["run", "--policy", policy, "--", "true"], 2, "did you mean `memory`?");
    refused(&world, &["policy", "check", policy], 2, "did you mean `memory`?");
}

#[test]
fn a_policy_with_limits_that_every_run_refuses_is_not_ok() {
    let world = World::new();
    for (line, said) in [("memory = \"512K\"", "`memory` of 512K"), ("fds = 3", "`fds` of 3")] {
        let policy = world.write("policy.toml", &format!("{line}\n"));
        let policy = policy.to_str().unwrap();
        refused(&world, &["run", "--policy", policy, "--", "true"], 2, said);
        refused(&world, &["policy", "check", policy], 2, said);
    }
}

#[test]
fn the_root_and_the_home_are_no_workspaces() {
    let world = World::new();
    refused(&world, &["run", "--cwd", "/", "--", "true"], 126, "`/` cannot be made writable");
    let home = world.home();
    refused(&world, &["run", "--cwd", home.to_str().unwrap(), "--", "true"], 126, "holds the home");
    let above = world.root().to_str().unwrap().to_owned();
    refused(&world, &["run", "--cwd", &above, "--", "true"], 126, "holds the home");
    refused(&world, &["run", "--rw", "/usr", "--", "true"], 126, "part of the system");
    refused(&world, &["run", "--rw", "/etc", "--", "true"], 126, "part of the system");
}

#[test]
fn following_the_hint_about_broad_workspaces_works() {
    let world = World::new();
    let home = world.home();
    let ran = world.ringfence(&[
        "run",
        "--preset",
        "readonly",
        "--cwd",
        home.to_str().unwrap(),
        "--",
        "true",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn contradictions_are_refused() {
    let world = World::new();
    let work = world.work();
    let work = work.to_str().unwrap();
    refused(&world, &["run", "--ro", work, "--", "true"], 2, "both writable and read-only");
    refused(&world, &["run", "--hide", work, "--", "true"], 2, "hidden");
    refused(&world, &["run", "--preset", "readonly", "--rw", work, "--", "true"], 2, "contradict");
}

#[test]
fn a_path_that_is_granted_and_hidden_is_refused_by_both_flags() {
    let world = World::new();
    for inner in ["outside/inner/file", "work/inner/file"] {
        let file = world.write(inner, "x");
        let dir = file.parent().unwrap();
        for granted in [&*file, dir] {
            let (granted, hidden) = (granted.to_str().unwrap(), dir.to_str().unwrap());
            let both = format!("`--ro {granted}` and `--hide {hidden}`");
            refused(&world, &["run", "--hide", hidden, "--ro", granted, "--", "true"], 2, &both);
        }
        // The other way round is what `--hide` is for, and so is following the hint.
        let (file, dir) = (file.to_str().unwrap(), dir.to_str().unwrap());
        for flags in [&["--ro", dir, "--hide", file][..], &["--ro", dir], &["--hide", dir]] {
            let ran = world.sh(flags, "true");
            assert_eq!(ran.code, 0, "{flags:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_grant_that_does_not_exist_is_refused() {
    for flag in ["--rw", "--ro", "--hide", "--socket"] {
        refused(&World::new(), &["run", flag, "/no/such/thing", "--", "true"], 2, "/no/such/thing");
    }
}

#[test]
fn python_has_no_network_and_bad_rules_say_what_is_wrong() {
    let world = World::new();
    refused(&world, &["exec", "--net", "allow:example.org", "-c", "1"], 125, "example.org");
    refused(&world, &["run", "--net", "everything", "--", "true"], 2, "--net");
    refused(&world, &["run", "--net", "allow:*.com", "--", "true"], 2, "*.com!");
}

#[test]
fn variables_that_load_code_are_not_inherited() {
    let world = World::new().var("LD_PRELOAD", "/tmp/x.so");
    refused(&world, &["run", "--env", "LD_PRELOAD", "--", "true"], 126, "--env LD_PRELOAD=VALUE");
}

#[test]
fn a_directory_on_stdin_is_refused() {
    let world = World::new();
    let dir = std::fs::File::open("/").unwrap();
    let output = world.command(&["run", "--", "true"]).stdin(dir).bounded_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdin is a directory"));
}

#[test]
fn an_unknown_variable_of_ours_is_refused() {
    let world = World::new().var("RINGFENCE_MEMROY", "1G");
    refused(&world, &["run", "--", "true"], 2, "RINGFENCE_MEMORY");
}
