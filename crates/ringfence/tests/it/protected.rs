//! Protected names hold: present, absent, and with two runs in one workspace.

use ringfence_testing::{BoundedCommand as _, Json, json};

use crate::support::World;

const NAMES: [&str; 5] = [".claude", ".cursor", ".envrc", ".mcp.json", ".vscode"];

#[test]
fn a_protected_file_that_was_replaced_meanwhile_is_named() {
    let world = World::new();
    world.write("work/.mcp.json", "{}");
    let script = "touch up; while [ ! -e go ]; do sleep 0.05; done; echo evil >> .mcp.json";
    let run = world
        .command(&["run", "--json", "--", "sh", "-c", script])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .bounded_spawn()
        .unwrap();
    crate::living::there(&world.work().join("up"));
    // As an editor saves. The kernel takes the mount away with the name.
    world.write("work/new", "{}");
    std::fs::rename(world.work().join("new"), world.work().join(".mcp.json")).unwrap();
    world.write("work/go", "");
    let output = run.wait_with_output().unwrap();
    let outcome = Json::parse(&output.stdout);
    let named = outcome["workspace"]["protected_created"].to_string();
    assert!(named.contains(".mcp.json"), "{outcome}");
    // What is as it was is not.
    let (_, outcome) = world.sh_json(&[], "true");
    assert_eq!(outcome["workspace"]["protected_created"].as_array().unwrap().len(), 0, "{outcome}");
}

#[test]
fn absent_names_cannot_be_made() {
    let world = World::new();
    for name in NAMES {
        let script = format!(
            "echo x > {name}; mkdir -p {name}/y; ln -s /tmp {name}/z; mv {name} other; rmdir {name}; \
             mkdir d; mv d {name}; echo x > f; mv -T f {name}; rm -rf d f; true"
        );
        world.sh(&[], &script);
        assert!(!world.work().join(name).exists(), "{name}");
        assert!(!world.work().join("other").exists(), "{name}");
    }
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn present_names_cannot_be_changed() {
    let world = World::new();
    world.write("work/.mcp.json", "{}");
    world.write("work/.claude/settings.json", "{}");
    world.write("work/ringfence.toml", "pids = 100");
    let ran = world.sh(
        &[],
        "echo x > .mcp.json; echo x > .claude/settings.json; rm -rf .claude .mcp.json; mv .claude c; \
         ln .mcp.json link && echo x > link; sed -i s/100/200/ ringfence.toml; rm -f ringfence.toml; cat .mcp.json",
    );
    assert_eq!(ran.stdout, "{}");
    let read = |name: &str| std::fs::read_to_string(world.work().join(name)).unwrap();
    assert_eq!(read(".mcp.json"), "{}");
    assert_eq!(read(".claude/settings.json"), "{}");
    assert_eq!(read("ringfence.toml"), "pids = 100");
}

#[test]
fn a_grant_of_a_protected_name_is_named_and_of_gits_files_refused() {
    let world = World::new();
    git_init(&world);
    world.write("work/.git/hooks/pre-push", "#!/bin/sh\n");
    world.write("work/.claude/settings.json", "{}");
    world.write("work/.mcp.json", "{}");
    for name in [".git/hooks", ".git/hooks/pre-push", ".git/config"] {
        let ran = world.ringfence(&["run", "--rw", name, "--", "true"]);
        assert_eq!(ran.code, 126, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("the host's git executes"), "{name}: {}", ran.stderr);
    }
    // Also from elsewhere, with another preset, and for a repository by another name.
    std::fs::create_dir(world.work().join("sub")).unwrap();
    std::fs::rename(world.work().join(".git"), world.work().join("away.git")).unwrap();
    let work = world.work();
    let hooks = work.join("away.git/hooks");
    let hooks = hooks.to_str().unwrap();
    for flags in [
        &["--cwd", "sub", "--rw", "away.git/hooks"][..],
        &["--cwd", "sub", "--rw", hooks],
        &["--preset", "minimal", "--rw", hooks],
        &["--cwd", hooks],
    ] {
        let ran = world.ringfence(&[&["run"], flags, &["--", "true"]].concat());
        assert_eq!(ran.code, 126, "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("the host's git executes"), "{flags:?}: {}", ran.stderr);
    }
    let refs = ["--cwd", "sub", "--rw", "away.git/refs"];
    let ran = world.ringfence(&[&["run"], &refs[..], &["--", "true"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    std::fs::rename(work.join("away.git"), work.join(".git")).unwrap();
    let (_, outcome) = world.sh_json(
        &["--rw", ".claude", "--rw", ".mcp.json"],
        "for name in .claude/settings.json .mcp.json .git/config; do echo '# changed' >> $name; done",
    );
    for name in [".claude/settings.json", ".mcp.json", ".git/config"] {
        let text = std::fs::read_to_string(world.work().join(name)).unwrap();
        assert_eq!(text.contains("# changed"), name != ".git/config", "{name}: {outcome}");
    }
    let gaps = outcome["enforcement"]["gaps"].to_string();
    for name in [".claude`", ".mcp.json`"] {
        assert!(gaps.contains(&format!("/work/{name}")), "{name}: {gaps}");
    }
}

#[test]
fn a_protected_link_stays_a_link() {
    let world = World::new();
    world.write("work/real.json", "{}");
    std::os::unix::fs::symlink("real.json", world.work().join(".mcp.json")).unwrap();
    let ran = world.sh(&[], "rm -f .mcp.json; mv .mcp.json x; ln -sf /tmp/evil .mcp.json; true");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let target = std::fs::read_link(world.work().join(".mcp.json")).unwrap();
    assert_eq!(target.to_str(), Some("real.json"));
}

#[test]
fn two_runs_in_one_workspace_protect_until_the_last_has_ended() {
    let world = World::new();
    let long = world.sh_live(
        "echo up; read line; mkdir .claude/x; echo x > .mcp.json; mv .vscode v; echo tried",
    );
    // A second run comes and goes; its end must not take the first one's protection away.
    assert_eq!(world.sh(&[], "mkdir .claude/x").code, 1);
    assert!(world.names().contains(".mcp.json"));
    assert_eq!(long.end().1, "tried\n");
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn a_run_of_another_data_directory_takes_no_protection_away() {
    let (plain, repository) = (World::new(), World::new());
    git_init(&repository);
    for world in [plain, repository] {
        let git = || std::fs::read_dir(world.work().join(".git")).map_or(0, Iterator::count);
        let n_before = git();
        let other = world.root().join("other").display().to_string();
        // The placeholders are the first run's. The second finds them, and goes on when the first has ended.
        let look = ["run", "--data-dir", &other, "--", "sh", "-c", "echo up; read line"];
        let first = world.live(&look);
        let second = world.sh_live(
            "echo up; read line; mkdir .claude/x; mkdir .claude; echo x > .mcp.json; mv .vscode v; \
             echo .. > .git/commondir; mv .git/config.worktree .git/c; echo tried",
        );
        assert_eq!(first.end().1, "");
        assert!(world.names().contains(".claude"), "{:?}", world.names());
        assert_eq!(second.end().1, "tried\n");
        let mut names = world.names();
        names.remove(".git");
        assert!(names.is_empty(), "{names:?}");
        assert_eq!(git(), n_before);
    }
}

#[test]
fn a_workspace_that_is_locked_for_something_else_is_protected_as_always() {
    let world = World::new();
    // As `flock . ringfence run` does.
    let dir = std::fs::File::open(world.work()).unwrap();
    rustix::fs::flock(&dir, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let (_, outcome) = world.sh_json(&[], "echo x > .mcp.json");
    let gaps = outcome["enforcement"]["gaps"].as_array().unwrap();
    assert!(!gaps.iter().any(|gap| gap.as_str().unwrap().contains("lock")), "{outcome}");
    assert!(world.names().is_empty(), "{:?}", world.names());
}

#[test]
fn a_git_directory_that_appears_is_reported() {
    let world = World::new();
    let (_, outcome) = world.sh_json(&[], "mkdir .git");
    let created = outcome["workspace"]["protected_created"].as_array().unwrap();
    assert_eq!(created.len(), 1, "{outcome}");
    assert!(created[0].as_str().unwrap().ends_with("/.git"));
    let (_, outcome) = World::new().sh_json(&[], "true");
    assert_eq!(outcome["workspace"]["protected_created"].as_array().unwrap().len(), 0);
}

#[test]
fn placeholders_are_not_picked_up_by_git() {
    let world = World::new();
    let ran = world.sh(&[], "git init -q . && git add -A && git status --short");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
}

fn git_init(world: &World) {
    let git = world.here(std::process::Command::new("git")).args(["init", "-q"]).bounded_status();
    assert!(git.unwrap().success());
}

#[test]
fn placeholders_do_not_disturb_programs_that_copy_or_list_a_tree() {
    let world = World::new();
    world.write("work/file", "x");
    git_init(&world);
    let script = "ls -A > /tmp/names && tar cf /tmp/t.tar . && cp -r . /tmp/copy && cp -a . /tmp/again && \
                  python3 -c 'import shutil; shutil.copytree(\".\", \"/tmp/tree\")' && grep -rq nothing .; \
                  find . -type s -o -type p | wc -l; git add -A && git status --short";
    let ran = world.sh(&[], script);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0\nA  file\n", ""));
    assert_eq!(world.names().into_iter().collect::<Vec<_>>(), [".git", "file"]);
}

#[test]
fn what_the_user_puts_in_a_held_directory_stays_and_a_directory_of_their_own_too() {
    let world = World::new();
    let run =
        world.sh_live("echo up; read x; ls .vscode; echo x > .vscode/tasks.json; rm .vscode/*");
    world.write("work/.vscode/settings.json", "{}");
    assert_eq!(run.end().1, "settings.json\n");
    assert_eq!(world.names().into_iter().collect::<Vec<_>>(), [".vscode"]);
    assert_eq!(std::fs::read_dir(world.work().join(".vscode")).unwrap().count(), 1);
    std::fs::create_dir(world.work().join(".claude")).unwrap();
    world.sh(&[], "true");
    assert!(world.work().join(".claude").is_dir());
}

#[test]
fn a_hidden_file_that_stops_a_command_is_named_once_and_the_way_around_it_works() {
    let world = World::new();
    world.write("work/.env", "KEY=secret");
    world.write("work/file", "x");
    git_init(&world);
    let ran = world.sh(&[], "git add -A");
    let told: Vec<&str> = ran.stderr.lines().filter(|l| l.starts_with("ringfence:")).collect();
    assert_eq!((ran.code, told.len()), (128, 1), "{}", ran.stderr);
    assert!(told[0].contains("`.env`") && told[0].contains("`git add -A -- ':!.env'`"), "{told:?}");
    let (code, outcome) = world.sh_json(&[], "grep -r nothing .");
    assert_eq!((code, outcome["notes"].as_array().unwrap().len()), (2, 1), "{outcome}");
    let (_, outcome) = world.sh_json(&[], "git add -A -- ':!.env' && git status --short -uno");
    assert_eq!(
        (&outcome["stdout"], &outcome["notes"]),
        (&json!("A  file\n"), &json!([])),
        "{outcome}"
    );
}

#[test]
fn placeholders_in_a_workspace_that_was_shut_are_taken_away_when_it_opens() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.sh(&[], "chmod 000 .");
    std::fs::set_permissions(world.work(), PermissionsExt::from_mode(0o755)).unwrap();
    let ran = world.sh(&[], "true");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(world.work()).unwrap().count(), 0);
}

#[test]
fn a_workspace_nobody_can_write_needs_no_placeholders() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    std::fs::set_permissions(world.work(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let ran = world.sh(&[], "echo here");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "here\n"), "{}", ran.stderr);
    std::fs::set_permissions(world.work(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_protected_link_that_leads_to_nothing_cannot_be_completed() {
    let world = World::new();
    std::fs::create_dir(world.work().join("sub")).unwrap();
    std::os::unix::fs::symlink("sub/x", world.work().join(".mcp.json")).unwrap();
    let ran = world.sh(&[], "echo evil > sub/x; mv sub other; echo evil > .mcp.json; echo tried");
    assert_eq!(ran.stdout, "tried\n", "{}", ran.stderr);
    assert!(std::fs::read(world.work().join(".mcp.json")).is_err());
    assert!(!world.work().join("sub/x").exists() && world.work().join("sub").exists());
}

/// Exchanges a directory with a link, as fast as it can, until its stdin ends.
const EXCHANGE: &str = r#"
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
os.mkdir("d"); os.symlink("..", "link")
print("up", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(200):
        libc.syscall(RENAMEAT2, -100, b"d", -100, b"link", 2)
"#;

#[test]
fn a_workspaces_own_file_shows_nothing_outside_it_whatever_is_exchanged_meanwhile() {
    let world = World::new();
    world.write("private/secret", "TOPSECRET");
    world.write("exchange.py", EXCHANGE);
    let script = std::fs::read_to_string(world.root().join("exchange.py")).unwrap();
    world.write("work/exchange.py", &script);
    let hostile = world.sh_live("python3 exchange.py");
    for rule in ["ro", "hide"] {
        world.write("work/ringfence.toml", &format!("{rule} = [\"d\"]\n"));
        let mut ran_well = 0;
        for _ in 0..25 {
            let ran =
                world.sh(&[], "ls d/ link/ 2>/dev/null; cat d/private/secret link/private/secret");
            assert!(
                !ran.stdout.contains("private") && !ran.stdout.contains("TOPSECRET"),
                "{}",
                ran.stdout
            );
            // Where the link stood there at that moment the run is refused, and says which path it was.
            if ran.code == 125 || ran.code == 2 {
                assert!(ran.stderr.contains("`d`") || ran.stderr.contains("/d`"), "{}", ran.stderr);
            } else {
                ran_well += 1;
            }
        }
        assert!(ran_well > 0);
    }
    hostile.end();
}

#[test]
fn a_grant_does_not_follow_a_link_that_a_run_may_have_made() {
    let world = World::new();
    world.write("private/secret", "TOPSECRET");
    world.sh(&[], "ln -s ../private data; mkdir real; ln -s real inside");
    for flag in ["--ro", "--rw"] {
        let ran = world.sh(&[flag, "data"], "cat ../private/secret data/secret");
        assert_eq!(ran.code, 126, "{flag}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("leads out of the workspace"), "{}", ran.stderr);
    }
    // What stays in the workspace is meant, and so is the place itself.
    assert_eq!(world.sh(&["--ro", "inside"], "ls inside").code, 0);
    let private = world.root().join("private");
    let ran = world.sh(&["--ro", private.to_str().unwrap()], "cat ../private/secret");
    assert_eq!(ran.stdout, "TOPSECRET", "{}", ran.stderr);
}

#[test]
fn no_link_that_a_run_made_leads_a_callers_path_out() {
    let world = World::new();
    world.write("home/.ssh/id_rsa", "KEY");
    world.write("home/rc", "mine");
    let made = format!(
        "ln -s {0} out; ln -s {0}/.ssh/id_rsa data.csv; ln -s {0}/.ssh/id_rsa k.py; echo 'print(1)' > ok.py; ln -s ok.py own.py",
        world.home().display()
    );
    assert_eq!(world.sh(&[], &made).code, 0);
    let write = "open('rc', 'w').write('evil')";
    let rows: [&[&str]; 4] = [
        &["exec", "--preset", "open", "--artifacts", "out", "-c", write],
        &["exec", "--preset", "open", "--file", "data.csv", "-c", "print(open('data.csv').read())"],
        &["exec", "--preset", "open", "k.py"],
        &["run", "--cwd", "out", "--", "sh", "-c", "echo evil > rc; cat .ssh/id_rsa"],
    ];
    for args in rows {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 126, "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("leads out of the workspace"), "{args:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("KEY") && !ran.stderr.contains("KEY"), "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(world.home().join("rc")).unwrap(), "mine");
    // Following the hint helps, and a link that stays inside is followed.
    let real = world.home().join("rc");
    let named = [
        "exec",
        "--preset",
        "open",
        "--file",
        real.to_str().unwrap(),
        "-c",
        "print(open('rc').read())",
    ];
    assert_eq!(world.ringfence(&named).stdout, "mine\n");
    assert_eq!(world.ringfence(&["exec", "own.py"]).stdout, "1\n");
}
