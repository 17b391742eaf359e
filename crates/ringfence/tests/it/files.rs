//! Bytes pass untouched, presets show what they promise, names need not be text.

use std::os::unix::ffi::OsStrExt as _;

use ringfence_testing::BoundedCommand as _;

use crate::support::{World, have};

#[test]
fn bytes_pass_through_untouched() {
    let bytes: Vec<u8> = (0..=255u8).cycle().take(3_000_000).collect();
    let output = World::new().sh_with_stdin("cat", &bytes);
    assert!(output.status.success());
    assert_eq!(output.stdout, bytes);
}

#[test]
fn exit_codes_are_the_programs_own() {
    for code in [0, 1, 42, 255] {
        assert_eq!(World::new().sh(&[], &format!("exit {code}")).code, code);
    }
    assert_eq!(World::new().sh(&[], "kill -9 $$").code, 137);
    assert_eq!(World::new().sh(&[], "kill -SEGV $$").code, 139);
}

#[test]
fn the_workspace_preset_writes_here_and_nowhere_else() {
    let world = World::new();
    let ran = world.sh(&[], "echo x > here && echo y > /tmp/y && for p in /etc/x /usr/x /x /opt/x; do echo z > $p && echo wrote $p; done; true");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(world.work().join("here")).unwrap(), "x\n");
    assert!(!std::path::Path::new("/tmp/y").exists());
}

#[test]
fn the_readonly_preset_writes_nothing_but_its_own_tmp() {
    let world = World::new();
    world.write("work/file", "text");
    let ran = world.sh(
        &["--preset", "readonly"],
        "cat file; echo x > file; echo x > new; echo x > /tmp/t && echo tmp",
    );
    assert_eq!(ran.stdout, "texttmp\n");
    assert_eq!(world.names().len(), 1);
}

#[test]
fn the_minimal_preset_shows_nothing_of_the_callers() {
    let world = World::new();
    world.write("work/file", "text");
    world.write("home/.gitconfig", "x");
    let script = format!(
        "pwd; ls -A; ls -A {} 2>&1 | grep -c text; ls /etc | grep -c host; echo x > f && cat f",
        world.work().display()
    );
    let ran = world.sh(&["--preset", "minimal"], &script);
    assert_eq!(ran.stdout, "/workspace\n0\n2\nx\n", "{}", ran.stderr);
}

#[test]
fn what_only_its_own_grant_shows_can_be_hidden() {
    if !have("namespaces") {
        return;
    }
    for path in ["/etc", "/run", "/dev/shm"] {
        let ran = World::new().sh(&["--hide", path], &format!("ls -A {path} | wc -l; echo end"));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "0\nend\n"), "{path}: {}", ran.stderr);
    }
}

#[test]
fn grants_open_what_they_name() {
    let world = World::new();
    world.write("read/file", "r");
    world.write("write/file", "w");
    let (read, write) = (world.root().join("read"), world.root().join("write"));
    let (read, write) = (read.to_str().unwrap(), write.to_str().unwrap());
    let script =
        format!("cat {read}/file; echo x > {read}/file; echo x > {write}/new; cat {write}/file");
    let ran = world.sh(&["--ro", read, "--rw", write], &script);
    assert_eq!(ran.stdout, "rw");
    assert!(world.root().join("write/new").exists());
    assert_eq!(std::fs::read_to_string(world.root().join("read/file")).unwrap(), "r");
}

#[test]
fn names_that_are_not_text_are_fine() {
    let world = World::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9 \xff dir");
    let dir = world.root().join(name);
    std::fs::create_dir(&dir).unwrap();
    let mut command = world.command(&["run", "--json", "--cwd"]);
    let output =
        command.arg(&dir).args(["--", "sh", "-c", "echo x > f; ls"]).bounded_output().unwrap();
    // A flag's value is text in this version; a working directory need not be.
    if !output.status.success() {
        let output = world
            .command(&["run", "--json", "--", "sh", "-c", "echo x > f; ls"])
            .current_dir(&dir)
            .bounded_output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(dir.join("f").exists());
}

#[test]
fn long_names_and_deep_trees_are_fine() {
    let world = World::new();
    let script = "n=$(printf 'a%.0s' $(seq 255)); mkdir $n && cd $n && for i in $(seq 100); do mkdir d && cd d; done; echo deep > f && cat f";
    let ran = world.sh(&[], script);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "deep\n"), "{}", ran.stderr);
}

#[test]
fn files_a_root_callers_run_writes_belong_to_the_workspaces_owner() {
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new();
    let owner = std::fs::metadata(world.work()).unwrap().uid();
    let ran = world.sh(&[], "echo x > f; mkdir d; echo x > d/f; stat -c %u f; id -u");
    let ids: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert_eq!(ids[0], ids[1], "inside, the run owns what it writes");
    assert_ne!(ids[1], "0");
    for name in ["f", "d", "d/f"] {
        assert_eq!(std::fs::metadata(world.work().join(name)).unwrap().uid(), owner);
    }
}

#[test]
fn a_set_user_id_bit_cannot_be_planted() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.sh(&[], "cp /bin/true t; chmod u+s t; chmod 6755 t; install -m 4755 /bin/true s; true");
    for name in ["t", "s"] {
        if let Ok(meta) = std::fs::metadata(world.work().join(name)) {
            assert_eq!(meta.permissions().mode() & 0o6000, 0, "{name}");
        }
    }
}

#[test]
fn runs_share_nothing() {
    let world = World::new();
    assert_eq!(world.sh(&[], "echo x > /tmp/shared; echo x > /dev/shm/shared; echo x > ~/shared; ipcmk -Q >/dev/null").code, 0);
    let ran = world.sh(
        &[],
        "ls /tmp/shared /dev/shm/shared ~/shared 2>/dev/null; ipcs -q | grep -c 0x; ls /tmp",
    );
    assert!(!ran.stdout.contains("shared"), "{}", ran.stdout);
}

#[test]
fn only_three_descriptors_are_inherited() {
    let ran = World::new().sh(&[], "ls /proc/self/fd | tr '\\n' ' '");
    assert_eq!(ran.stdout, "0 1 2 3 ", "3 is the directory being listed");
}
