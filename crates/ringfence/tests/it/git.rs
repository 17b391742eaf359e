//! Git works; what git executes is out of reach.

use std::process::Command;

use ringfence_testing::{BoundedCommand as _, needs_root};

use crate::support::{Ran, World, binary, have};

/// Runs git on the host, in the workspace.
fn host_git(world: &World, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@x", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(world.work())
        .env("HOME", world.home())
        .bounded_output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn repository() -> World {
    let world = World::new();
    world.write("home/.gitconfig", "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n");
    host_git(&world, &["init", "-q", "."]);
    world.write("work/a", "a\n");
    host_git(&world, &["add", "a"]);
    host_git(&world, &["commit", "-qm", "one"]);
    world
}

#[track_caller]
fn works(world: &World, script: &str) {
    let ran = world.sh(&[], script);
    assert_eq!(ran.code, 0, "{script}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn the_daily_commands_work() {
    let world = repository();
    works(
        &world,
        "git status && echo b > b && git add b && git commit -qm two && git log --oneline",
    );
    works(
        &world,
        "git checkout -qb feature HEAD~1 && echo z > z && git add z && git commit -qm z && git rebase -q main",
    );
    works(
        &world,
        "git stash list && echo more >> a && git stash -q && git stash pop -q && git checkout -q a && git gc -q",
    );
    works(
        &world,
        "git worktree add -q tree && cd tree && echo c > c && git add c && git commit -qm c && git status",
    );
    works(
        &world,
        "git tag v1 && git branch -d feature 2>/dev/null; git reset -q --hard HEAD~1; git reflog | head -1",
    );
    assert!(host_git(&world, &["log", "--oneline", "--all"]).lines().count() >= 4);
    assert_eq!(host_git(&world, &["status", "--short"]), "?? tree/\n");
}

#[test]
fn hooks_config_and_redirections_cannot_be_planted() {
    let world = repository();
    std::fs::remove_dir_all(world.work().join(".git/hooks")).unwrap();
    let attacks = [
        "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
        "echo '[core]\nfsmonitor = touch PWNED' >> .git/config",
        "git config core.fsmonitor 'touch PWNED'",
        "printf '%s' '../evil' > .git/commondir",
        "echo '[core]\nfsmonitor = touch PWNED' > .git/config.worktree",
        "mv .git x",
        "mkdir n && mv n .git",
        "rm -rf .git/config .git/hooks .git/commondir",
        "cp .git/config c && mv c .git/config",
        "ln -sf /tmp/c .git/config",
        "ln .git/config hard && echo evil >> hard",
        "mount --bind /tmp .git",
    ];
    for attack in attacks {
        let before = std::fs::read_to_string(world.work().join(".git/config")).unwrap();
        world.sh(&[], attack);
        assert_eq!(
            std::fs::read_to_string(world.work().join(".git/config")).unwrap(),
            before,
            "{attack}"
        );
        assert!(!world.work().join(".git/hooks/pre-commit").exists(), "{attack}");
        assert!(!world.work().join(".git/commondir").exists(), "{attack}");
        assert!(!world.work().join(".git/config.worktree").exists(), "{attack}");
        assert!(world.work().join(".git/HEAD").exists(), "{attack}");
    }
    host_git(&world, &["status"]);
    assert!(!world.work().join("PWNED").exists());
}

#[test]
fn the_hosts_git_works_while_a_run_lasts() {
    let world = repository();
    let run = world.sh_live("echo up; read x; true");
    assert_eq!(host_git(&world, &["status", "--short"]), "");
    world.write("work/b", "b");
    host_git(&world, &["add", "b"]);
    host_git(&world, &["commit", "-qm", "meanwhile"]);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn submodules_are_protected_too() {
    let world = repository();
    world.write("work/.git/modules/sub/HEAD", "ref: refs/heads/main\n");
    world.write("work/.git/modules/sub/config", "[core]\n");
    for attack in [
        "echo evil >> .git/modules/sub/config",
        "mv .git/modules/sub .git/modules/x; mkdir -p .git/modules/sub; echo evil > .git/modules/sub/config",
        "mv .git/modules .git/y; mkdir -p .git/modules/sub; echo evil > .git/modules/sub/config",
        "mkdir -p .git/modules/sub/hooks; echo evil > .git/modules/sub/hooks/post-checkout",
    ] {
        world.sh(&[], attack);
        let config = std::fs::read_to_string(world.work().join(".git/modules/sub/config")).unwrap();
        assert_eq!(config, "[core]\n", "{attack}");
        assert!(!world.work().join(".git/modules/sub/hooks/post-checkout").exists(), "{attack}");
    }
}

#[test]
fn a_linked_worktree_works_and_its_repository_is_protected() {
    let world = repository();
    let linked = world.root().join("linked");
    host_git(&world, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    let cwd = ["--cwd", linked.to_str().unwrap()];
    let ran = world.sh(&cwd, "git status && echo c > c && git add c && git commit -qm linked");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let git = world.work().join(".git");
    let config = std::fs::read_to_string(git.join("config")).unwrap();
    let attack = format!(
        "echo evil >> {0}/config; echo evil > {0}/hooks/pre-commit; echo /tmp > {0}/worktrees/linked/commondir; \
         mv {0}/worktrees {0}/w; echo 'gitdir: /tmp/evil' > .git; true",
        git.display()
    );
    world.sh(&cwd, &attack);
    assert_eq!(std::fs::read_to_string(git.join("config")).unwrap(), config);
    assert!(!git.join("hooks/pre-commit").exists());
    assert!(git.join("worktrees/linked/commondir").exists());
    assert!(std::fs::read_to_string(linked.join(".git")).unwrap().starts_with("gitdir: "));
    assert!(host_git(&world, &["log", "--oneline", "linked"]).contains("linked"));
}

#[test]
fn a_lying_git_file_is_not_followed() {
    let world = World::new();
    let victim = repository();
    let gitdir = victim.work().join(".git");
    world.write("work/.git", &format!("gitdir: {}\n", gitdir.display()));
    let script = format!("ls {}; true", gitdir.display());
    let (_, outcome) = world.sh_json(&[], &script);
    assert_eq!(outcome["stdout"], "", "{outcome}");
    let gaps = outcome["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("does not point back"), "{gaps}");
}

#[test]
fn what_another_run_laid_out_as_a_repository_opens_no_directory() {
    // Where the planted pointer leads, what its `commondir` says, and what else was laid there. In the second the whole
    // project looks like a bare repository.
    let layouts: [(&str, &str, &[&str]); 3] = [
        ("other/w", "../..", &[]),
        (
            "other/worktrees/w",
            "../..",
            &["other/HEAD", "other/config", "other/objects/x", "other/refs/x"],
        ),
        (
            "other/.git/w",
            "../..",
            &["other/.git/HEAD", "other/.git/config", "other/.git/objects/x"],
        ),
    ];
    for (gitdir, common, laid) in layouts {
        let world = World::new();
        for name in laid {
            world.write(name, "x\n");
        }
        world.write("other/.env", "TOKEN=1\n");
        let own = world.work().join(".git");
        world.write(&format!("{gitdir}/gitdir"), &format!("{}\n", own.display()));
        world.write(&format!("{gitdir}/commondir"), &format!("{common}\n"));
        world.write("work/.git", &format!("gitdir: {}\n", world.root().join(gitdir).display()));
        let other = world.root().join("other");
        let script =
            format!("ls -A {0}; cat {0}/.env; echo x > {0}/planted; true", other.display());
        let (_, outcome) = world.sh_json(&[], &script);
        assert_eq!(outcome["stdout"], "", "{gitdir}: {outcome}");
        assert!(!other.join("planted").exists(), "{gitdir}");
        let gaps = outcome["enforcement"]["gaps"].to_string();
        assert!(gaps.contains("is not followed"), "{gitdir}: {gaps}");
    }
}

#[test]
fn a_bare_repository_with_a_worktree_is_followed() {
    let world = repository();
    let bare = world.root().join("bare.git");
    host_git(&world, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let tree = world.root().join("tree");
    let git_dir = format!("--git-dir={}", bare.display());
    host_git(&world, &[&git_dir, "worktree", "add", "-q", "-b", "side", tree.to_str().unwrap()]);
    let cwd = ["--cwd", tree.to_str().unwrap()];
    let ran = world.sh(&cwd, "echo c > c && git add c && git commit -qm c && git log --oneline");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn pipes_and_endless_files_where_git_keeps_its_own_hold_nothing_up() {
    let world = World::new();
    world.write("work/.git", "gitdir: w\n");
    world.write("work/w/x", "");
    for plant in ["mkfifo w/config", "ln -sf /dev/zero w/config", "ln -sf /dev/zero w/gitdir"] {
        let ran = world.sh(&[], &format!("rm -f w/config; {plant}"));
        assert_eq!(ran.code, 0, "{plant}: {}", ran.stderr);
        // Were it waited for or read to its end, this would not come back.
        let (code, outcome) = world.sh_json(&[], "true");
        assert_eq!(code, 0, "{plant}: {outcome}");
    }
}

#[test]
fn a_workspace_that_becomes_a_repository_itself_is_reported() {
    let script = "mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; echo '[core]' > config";
    let (_, outcome) = World::new().sh_json(&[], script);
    let created = outcome["workspace"]["protected_created"].to_string();
    assert!(created.contains("work/HEAD"), "{created}");
}

#[test]
fn a_nested_repository_that_git_would_obey_is_reported() {
    let world = repository();
    let script = "git init -q sub && git -C sub commit -q --allow-empty -m x && git add sub && git -C sub config core.fsmonitor 'touch PWNED'";
    let (code, outcome) = world.sh_json(&[], script);
    assert_eq!(code, 0, "{outcome}");
    let created = outcome["workspace"]["protected_created"].to_string();
    assert!(created.contains("work/sub/.git"), "{created}");
    let (_, outcome) = repository().sh_json(&[], "echo b > b; git add b");
    assert_eq!(outcome["workspace"]["protected_created"].as_array().unwrap().len(), 0, "{outcome}");
}

/// Inodes of 128 bytes have time stamps of whole seconds: those of a short run are from before its start by the clock.
#[test]
fn changes_are_noticed_on_a_filesystem_with_stamps_of_whole_seconds() {
    if !needs_root("only root mounts a filesystem here") || !have("ext4") {
        return;
    }
    let world = World::new();
    world.write("home/.gitconfig", "[user]\nname = n\nemail = e@x\n[init]\ndefaultBranch = main\n");
    let image = world.root().join("disk");
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    // In a mount namespace of its own, so that nothing is left mounted whatever happens.
    let script = "
mkfs.ext4 -q -F -I 128 \"$1\" >&2 && mkdir disk && mount -o loop \"$1\" disk && cd disk || exit 1
rmdir lost+found
git init -q . && git commit -q --allow-empty -m one || exit 1
ln -s /nowhere .git/old
chown -Rh 1000:1000 .
sleep 2.1
until [ \"$(date +%N | cut -c 1)\" = 3 ]; do sleep 0.02; done
\"$2\" run --json -- sh -c 'ln -sf /precious .git/COMMIT_EDITMSG; git init -q sub; git -C sub config core.fsmonitor x'";
    let mut command = world.here(Command::new("unshare"));
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(&image).arg(binary());
    let outcome = Ran::from(&command.bounded_output().unwrap()).json();
    let set_aside = outcome["workspace"]["set_aside"].as_array().unwrap().iter();
    let paths: Vec<_> = set_aside.map(|aside| aside["path"].as_str().unwrap()).collect();
    let disk = world.work().join("disk");
    let expected = [".git/COMMIT_EDITMSG", "sub/.git"].map(|name| disk.join(name));
    assert_eq!(paths, expected.map(|path| path.display().to_string()), "{outcome}");
}

#[test]
fn an_existing_submodule_and_worktree_keep_their_git_files() {
    let world = repository();
    world.write("work/.gitmodules", "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = x\n");
    world.write("work/vendor/lib/.git", "gitdir: ../../.git/modules/lib\n");
    world.write("work/.git/modules/lib/HEAD", "ref: refs/heads/main\n");
    world.write("work/.git/modules/lib/config", "[core]\n\tworktree = ../../../vendor/lib\n");
    host_git(&world, &["worktree", "add", "-q", "tree"]);
    for attack in [
        "echo 'gitdir: /tmp/evil' > vendor/lib/.git; echo 'gitdir: /tmp/evil' > tree/.git",
        "mv vendor v; mkdir -p vendor/lib; echo evil > vendor/lib/.git",
        "mv vendor/lib v; mkdir -p vendor/lib; echo evil > vendor/lib/.git",
        "mv tree t; mkdir tree; echo evil > tree/.git",
        "mv .git/worktrees .git/old; cp -r .git/old .git/worktrees; echo /tmp > .git/worktrees/tree/commondir",
        "echo /tmp > .git/worktrees/tree/commondir; echo x > .git/worktrees/tree/config.worktree",
    ] {
        world.sh(&[], attack);
        let read = |name: &str| std::fs::read_to_string(world.work().join(name)).unwrap();
        assert_eq!(read("vendor/lib/.git"), "gitdir: ../../.git/modules/lib\n", "{attack}");
        assert!(read("tree/.git").contains(".git/worktrees/tree"), "{attack}");
        assert_eq!(read(".git/worktrees/tree/commondir"), "../..\n", "{attack}");
        assert!(!world.work().join(".git/worktrees/tree/config.worktree").exists(), "{attack}");
    }
    works(&world, "cd tree && echo x > x && git add x && git commit -qm in-tree");
}

#[test]
fn a_link_to_hooks_protects_what_it_leads_to() {
    let world = repository();
    std::fs::remove_dir_all(world.work().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink("../githooks", world.work().join(".git/hooks")).unwrap();
    world.write("work/githooks/README", "x");
    world.sh(&[], "echo evil > githooks/pre-commit; mv githooks g; mkdir githooks; echo evil > githooks/pre-commit");
    assert!(!world.work().join("githooks/pre-commit").exists());
    assert!(world.work().join("githooks/README").exists());
}
