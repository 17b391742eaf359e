//! Tests of precedence, refusals and ceilings, with made-up surroundings.

use std::path::Path;

use super::*;
use ringfence_spec::{ByteSize, Count, Span};

struct World {
    dir: tempfile::TempDir,
    around: Surroundings,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let around = Surroundings {
        environment: BTreeMap::from([("HOME".into(), dir.path().join("home").into())]),
        cwd: work,
        cwd_id: None,
        memory_total_bytes: 64 << 30,
        ceilings: dir.path().join("ceilings.toml"),
        terminal: false,
    };
    World { dir, around }
}

impl World {
    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn user(self, text: &str) -> Self {
        self.write("home/.config/ringfence/config.toml", text);
        self
    }

    fn ceilings(self, text: &str) -> Self {
        self.write("ceilings.toml", text);
        self
    }

    fn workspace(self, text: &str) -> Self {
        self.write("work/ringfence.toml", text);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.around.environment.insert(name.into(), value.into());
        self
    }

    fn effective(&self, flags: &PolicyFlags) -> Result<Effective, Problem> {
        effective(flags, &self.around)
    }

    fn error(&self, flags: &PolicyFlags) -> Problem {
        self.effective(flags).expect_err("refused")
    }
}

fn memory(value: &str) -> PolicyFlags {
    PolicyFlags { memory: Some(value.into()), ..PolicyFlags::default() }
}

#[test]
fn flag_beats_environment_beats_user_file_beats_preset() {
    let w = world()
        .user("memory = \"1G\"\npids = 7\nfds = 99")
        .env("RINGFENCE_MEMORY", "2G")
        .env("RINGFENCE_PIDS", "8");
    let e = w.effective(&memory("3G")).unwrap();
    assert_eq!(e.policy.limits.memory, Some(ByteSize::mib(3072)));
    assert_eq!(e.policy.limits.pids, Some(Count::of(8)));
    assert_eq!(e.policy.limits.fds, Some(Count::of(99)));
    assert_eq!(e.policy.limits.timeout, Some(Span::secs(600)));
    assert_eq!(e.origins[&Key::Memory], Origin::Flag);
    assert_eq!(e.origins[&Key::Pids], Origin::Environment);
    assert_eq!(e.origins[&Key::Timeout], Origin::Preset);
}

#[test]
fn an_unknown_key_is_refused_by_name_with_a_suggestion() {
    let p = world().user("memry = \"1G\"").error(&PolicyFlags::default());
    assert!(p.message.contains("`memry` is not a setting"), "{p}");
    assert_eq!(p.hint, Some("did you mean `memory`?".into()));
    let p = world().env("RINGFENCE_TIMEOT", "1s").error(&PolicyFlags::default());
    assert_eq!(p.hint, Some("did you mean `RINGFENCE_TIMEOUT`?".into()));
    assert_eq!(p.kind.exit_code(), 2);
}

#[test]
fn a_name_from_elsewhere_and_a_table_in_the_wrong_place_are_told_what_is_meant() {
    for (text, hint) in [
        (
            "preset = \"agent\"",
            "`command_preset` is that of commands, `code_preset` that of Python",
        ),
        ("network = \"none\"", "did you mean `net`?"),
        ("max_memory = \"1G\"", "did you mean `memory`?"),
        ("read-only = []", "did you mean `ro`?"),
        ("listen = \"127.0.0.1:1\"", "`listen` stands in the table `[serve]`"),
        ("[rule]", "did you mean `[rules]`?"),
        ("[[rule.deny]]", "did you mean `[rules]`?"),
        ("[server]", "did you mean `[serve]`?"),
        ("[limits]\ntimeout = \"1s\"", "settings such as `timeout` and `memory` stand at the top"),
        ("banana = 1", "the settings there are command_preset, code_preset, "),
    ] {
        let p = world().user(text).error(&PolicyFlags::default());
        let told = p.hint.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(told.starts_with(hint), "{text}: {p}");
    }
    let p = world().workspace("[rules]").error(&PolicyFlags::default());
    assert!(
        p.message.starts_with("`[rules]` cannot be set there: ringfence.toml is in the"),
        "{p}"
    );
    let p = world().workspace("banana = 1").error(&PolicyFlags::default());
    let hint = "the settings there are timeout, cpu, memory, pids, fds, disk, output, ro, hide, net_deny, net_limit";
    assert_eq!(p.hint, Some(hint.into()));
    let p = world().env("RINGFENCE_NETWORK", "none").error(&PolicyFlags::default());
    assert_eq!(p.hint, Some("did you mean `RINGFENCE_NET`?".into()));
    let w = world();
    w.write("serve.toml", "[serve]\nlistn = \"127.0.0.1:1\"");
    let p = check_file(&w.dir.path().join("serve.toml")).err().unwrap();
    assert_eq!(p.hint, Some("did you mean `listen`?".into()));
}

#[test]
fn a_preset_in_a_variable_is_told_by_that_variable() {
    let p = world().env("RINGFENCE_PRESET", "foo").error(&PolicyFlags::default());
    assert_eq!(p.message, "`RINGFENCE_PRESET` has a bad value");
    assert!(p.cause.unwrap().contains("agent for commands, data, standard, strict or open"));
    let p = world().env("RINGFENCE_COMMAND_PRESET", "foo").error(&PolicyFlags::default());
    assert_eq!(p.message, "`RINGFENCE_COMMAND_PRESET` has a bad value");
}

#[test]
fn a_command_that_starts_nothing_needs_only_the_keys_that_it_uses() {
    let data = |w: &World| data_dir(None, &w.around).map(|(data, _)| data);
    let named = Path::new("/srv/state");
    for text in ["banana = 1", "memory = \"lots\"", "[limits]"] {
        let w = world().user(&format!("data_dir = \"/srv/state\"\n{text}\n"));
        assert_eq!(data(&w).unwrap(), named, "{text}");
        assert!(w.effective(&PolicyFlags::default()).is_err(), "{text}");
    }
    assert!(data(&world().user("data_dir = \"relative\"")).is_err());
    // What cannot be read at all could name another directory, if it has the word.
    assert!(data(&world().user("data_dir = ")).is_err());
    let given = data_dir(Some("/x"), &world().user("data_dir = ").around).unwrap();
    assert_eq!((given.0.as_path(), given.1.len()), (Path::new("/x"), 1));
    assert!(data(&world().user("memory = ")).is_ok());
    assert!(data(&world().env("RINGFENCE_BANANA", "1")).is_ok());
    let rules = |text: &str| {
        code_rules(&PolicyFlags::default(), &world().user(text).around).map(|(rules, _)| rules)
    };
    assert_eq!(rules("code_preset = \"strict\"\nmemory = 0").unwrap().preset, CodePreset::Strict);
    assert!(rules("code_preset_at_least = \"banana\"").is_err());
}

#[test]
fn following_the_suggestion_helps() {
    assert!(world().user("memory = \"1G\"").effective(&PolicyFlags::default()).is_ok());
}

#[test]
fn bad_values_name_their_key_wherever_they_stand() {
    for value in ["0", "-1", "100000000000000000000", "lots"] {
        let p = world().error(&memory(value));
        assert!(p.message.contains("--memory"), "{p}");
        assert_eq!(p.kind.exit_code(), 2);
    }
    let p = world().user("timeout = 30").error(&PolicyFlags::default());
    assert!(p.message.contains("`timeout` in"), "{p}");
    let p = world().user("rw = [\"relative\"]").error(&PolicyFlags::default());
    assert!(p.cause.unwrap().contains("must be absolute"));
    let p = world().user("rw = [[1]]").error(&PolicyFlags::default());
    assert_eq!(p.code.as_str(), "bad_value");
    let p = world().user("memory = ").error(&PolicyFlags::default());
    assert_eq!(p.code.as_str(), "settings_syntax");
}

#[test]
fn nobody_passes_a_ceiling() {
    let w = world()
        .ceilings("memory = \"1G\"\ncpu = \"5s\"\nrequire = \"namespaces\"\nfallback = \"error\"");
    let e = w.effective(&PolicyFlags::default()).unwrap();
    assert_eq!(e.policy.limits.memory, Some(ByteSize::mib(1024)), "a default is lowered");
    assert_eq!(e.policy.limits.cpu, Some(Span::secs(5)), "no limit is lowered too");
    assert_eq!(e.policy.require, Some(Tier::Namespaces));
    assert_eq!(e.origins[&Key::Memory], Origin::Ceiling);
    let p = w.error(&memory("2G"));
    assert_eq!(
        (p.code.as_str(), p.kind.exit_code()),
        ("ceiling", 126),
        "what somebody wrote is refused"
    );
    let warn = PolicyFlags { fallback: Some("warn".into()), ..PolicyFlags::default() };
    assert_eq!(w.error(&warn).code.as_str(), "ceiling");
    let weaker = PolicyFlags { require: Some("landlock".into()), ..PolicyFlags::default() };
    assert_eq!(w.error(&weaker).code.as_str(), "ceiling");
    assert!(w.effective(&memory("512M")).is_ok());
    let processes =
        |n: &str| PolicyFlags { code_processes: Some(n.into()), ..PolicyFlags::default() };
    for (ceiling, asked, allowed) in
        [("0", "0", true), ("0", "1", false), ("4", "4", true), ("4", "5", false)]
    {
        let w = world().ceilings(&format!("code_processes = {ceiling}"));
        let policy = effective_code(&processes(asked), &w.around);
        assert_eq!(policy.is_ok(), allowed, "{asked} of {ceiling}");
    }
    let code =
        |w: &World, flags: &PolicyFlags| effective_code(flags, &w.around).unwrap().policy.processes;
    let unasked = world().ceilings("code_processes = 4");
    assert_eq!(code(&unasked, &PolicyFlags::default()), None, "a ceiling allows nothing by itself");
    assert_eq!(code(&world(), &processes("3")), Count::new(3));
    let p = world().ceilings("rw = [\"/\"]").error(&PolicyFlags::default());
    assert_eq!(p.code.as_str(), "key_not_allowed_here");
}

#[test]
fn a_workspace_can_only_make_its_run_smaller() {
    let w = world().workspace("memory = \"1G\"\npids = 9999");
    let e = w.effective(&PolicyFlags::default()).unwrap();
    assert_eq!(e.policy.limits.memory, Some(ByteSize::mib(1024)));
    assert_eq!(e.policy.limits.pids, Some(Count::of(512)), "a larger limit is not taken");
    for text in [
        "rw = [\"x\"]",
        "net = \"none\"",
        "net = \"allow:pypi\"",
        "env = [\"A=1\"]",
        "fallback = \"warn\"",
        "command_preset = \"minimal\"",
    ] {
        assert_eq!(
            world().workspace(text).error(&PolicyFlags::default()).code.as_str(),
            "key_not_allowed_here",
            "{text}"
        );
    }
    for text in [
        "ro = [\"/etc\"]",
        "ro = [\"..\"]",
        "ro = [\".\"]",
        "ro = [\"x/../../y\"]",
        "hide = [\"/etc/passwd\"]",
    ] {
        assert_eq!(
            world().workspace(text).error(&PolicyFlags::default()).code.as_str(),
            "workspace_policy",
            "{text}"
        );
    }
}

#[test]
fn a_workspace_can_deny_hosts_in_either_spelling() {
    let flags = PolicyFlags { net: Some("allow:*".to_owned()), ..PolicyFlags::default() };
    for text in [
        "net = \"deny:a.example.org, deny:b.example.org\"",
        "net = [\"deny:a.example.org\"]\nnet_deny = [\"b.example.org\"]",
        "net_deny = [\"a.example.org\", \"b.example.org\"]",
    ] {
        let effective = world().workspace(text).effective(&flags).unwrap();
        let Network::Allow(rules) = effective.policy.network else { panic!("{text}: no network") };
        let rules = rules.to_string();
        assert!(rules.contains("deny:a.example.org"), "{text}: {rules}");
        assert!(rules.contains("deny:b.example.org"), "{text}: {rules}");
    }
}

#[test]
fn what_a_workspace_or_a_ceiling_adds_is_shown_as_theirs() {
    let keys = [Key::Hide, Key::NetDeny, Key::NetLimit];
    let text = |hide: &str| {
        format!("hide = [\"{hide}\"]\nnet_deny = [\"a.example.org\"]\nnet_limit = [\"bytes=1M\"]")
    };
    let by_workspace = world().workspace(&text("x"));
    let by_ceiling = world().workspace(&text("x")).ceilings(&text("/srv/x"));
    for (world, origin) in [(by_workspace, Origin::Workspace), (by_ceiling, Origin::Ceiling)] {
        let effective = world.effective(&PolicyFlags::default()).unwrap();
        for key in keys {
            assert_eq!(effective.origins[&key], origin, "{}", key.name());
        }
    }
}

#[test]
fn a_table_that_is_no_ceiling_is_refused_among_them() {
    for table in ["search", "notify", "tell", "serve"] {
        let problem = world().ceilings(&format!("[{table}]")).error(&PolicyFlags::default());
        assert_eq!(problem.kind.exit_code(), 2, "{table}: {problem:?}");
        assert!(problem.message.contains(table), "{problem:?}");
    }
}

#[test]
fn a_workspace_file_that_is_a_link_or_a_directory_is_not_read() {
    let w = world();
    std::fs::create_dir(w.dir.path().join("work/ringfence.toml")).unwrap();
    assert!(w.effective(&PolicyFlags::default()).is_ok());
    let w = world();
    w.write("evil.toml", "pids = 1");
    std::os::unix::fs::symlink(
        w.dir.path().join("evil.toml"),
        w.dir.path().join("work/ringfence.toml"),
    )
    .unwrap();
    assert_eq!(
        w.effective(&PolicyFlags::default()).unwrap().policy.limits.pids,
        Some(Count::of(512))
    );
}

#[test]
fn hidden_paths_add_up_and_other_lists_do_not() {
    let w = world().user("hide = [\"/a\"]\nro = [\"/b\"]");
    let flags =
        PolicyFlags { hide: vec!["/c".into()], ro: vec!["/d".into()], ..PolicyFlags::default() };
    let e = w.effective(&flags).unwrap();
    assert_eq!(e.policy.hide, [Path::new("/c"), Path::new("/a")]);
    assert_eq!(e.policy.ro, [Path::new("/d")]);
}

#[test]
fn what_is_hidden_need_not_be_read_only_for_a_workspace() {
    let w = world();
    w.write("work/x/y", "");
    w.write("work/z", "");
    let w = w.workspace("hide = [\"x\"]\nro = [\"x\", \"x/y\", \"z\"]");
    let e = w.effective(&PolicyFlags::default()).unwrap();
    assert_eq!(e.policy.workspace_hide, [Path::new("x")]);
    assert_eq!(e.policy.workspace_ro, [Path::new("z")]);
    assert!(e.policy.hide.is_empty() && e.policy.ro.is_empty());
}

#[test]
fn a_terminal_has_no_deadline_unless_asked() {
    let mut w = world();
    w.around.terminal = true;
    assert_eq!(w.effective(&PolicyFlags::default()).unwrap().policy.limits.timeout, None);
    let flags = PolicyFlags { timeout: Some("5s".into()), ..PolicyFlags::default() };
    assert_eq!(w.effective(&flags).unwrap().policy.limits.timeout, Some(Span::secs(5)));
}

#[test]
fn a_policy_file_that_does_not_exist_is_an_error() {
    let flags = PolicyFlags { policy: Some("nowhere.toml".into()), ..PolicyFlags::default() };
    assert_eq!(world().error(&flags).code.as_str(), "policy_not_found");
}
