//! Programs in a session that write frames of their own to the channel of `code_api`: malformed, cut, mutated, too many, or
//! unread; and programs that die in the middle of a call. The server must live, the session and another one must go on, and
//! no thread of a call may stay behind.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::FuzzArgs;
use super::watched::MonitoredServer;
use crate::mcp_client::McpClient;
use crate::random::Random;
use crate::{CannotTry, Verdict, program};

/// Deadline of a hostile program, in seconds.
const TIMEOUT_S: f64 = 0.7;

/// And of an honest one, which may start an interpreter.
const HONEST_TIMEOUT_S: f64 = 20.0;

/// Time in which the threads of calls are gone after a run.
const SETTLE: Duration = Duration::from_secs(10);

/// After the end of input.
const END: Duration = Duration::from_secs(10);

/// Name of the threads that make calls.
const CALL_THREAD: &str = "ringfence-calls";

const SERVICES: &[&str] = &["search", "grep", "read", "files", "chunks", "wrap", "vectors", "no"];

/// Fuzzes the broker for a while.
pub(super) fn fuzz(args: &FuzzArgs, seed: u64) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let mut server = Server::start(&binary, data.path())?;
    let mut random = Random::new(seed);
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let (mut n_programs, mut n_frames) = (0u64, 0u64);
    let failure = loop {
        if Instant::now() >= deadline {
            break server.end().err();
        }
        let hostile = Hostile::choose(&mut random);
        n_programs += 1;
        n_frames += hostile.n_frames;
        if let Err(why) = server.survives(&hostile.source) {
            break Some(format!("{why}\nafter the program:\n{}", hostile.source));
        }
    };
    let memory_kib = server.watched.memory_kib_max();
    if args.json {
        println!(
            "{}",
            json!({"ok": failure.is_none(), "seed": seed, "programs": n_programs, "frames": n_frames, "memory_kib_max": memory_kib, "failure": failure})
        );
    } else {
        println!("{n_programs} programs with {n_frames} frames, {memory_kib} KiB at most");
    }
    match failure {
        None => Ok(Verdict::Held),
        Some(why) => {
            eprintln!("fuzz broker: {why}");
            Ok(Verdict::Failed)
        }
    }
}

/// A program, and the frames it writes.
struct Hostile {
    source: String,
    n_frames: u64,
}

impl Hostile {
    fn choose(random: &mut Random) -> Self {
        let n_frames = 1 + random.below(12);
        let mut source = "import code_api, os, threading, time\n".to_owned();
        if random.once_in(4) {
            // Dies in the middle of a call.
            let after_ms = random.below(40);
            let _ =
                writeln!(source, "threading.Timer({after_ms} / 1000, lambda: os._exit(3)).start()");
        }
        source.push_str("def write(frame):\n    try:\n        os.write(3, frame)\n    except OSError:\n        pass\n");
        for _ in 0..n_frames {
            let repeats = random.one_of(&[1, 1, 1, 1, 2, 40, 400]);
            let frame = literal(&frame(random));
            if repeats == 1 {
                let _ = writeln!(source, "write({frame})");
            } else {
                let _ = writeln!(source, "for _ in range({repeats}): write({frame})");
            }
            if random.once_in(3) {
                source.push_str(random.one_of(CALLS));
            }
        }
        source.push_str(random.one_of(ENDS));
        Self { source, n_frames: n_frames as u64 }
    }
}

/// Honest calls between the frames, whose answers the frames may have mixed up.
const CALLS: &[&str] = &[
    "try: code_api.files()\nexcept Exception: pass\n",
    "try: code_api.search('x', limit=50)\nexcept Exception: pass\n",
    "try: code_api.wrap('x' * 300000)\nexcept Exception: pass\n",
    "threading.Thread(target=lambda: code_api.grep('x'), daemon=True).start()\n",
];

/// Ends of a program.
const ENDS: &[&str] = &[
    "1\n",
    "os._exit(3)\n",
    "time.sleep(30)\n",
    "while True: code_api.grep('x')\n",
    "while True: write(b'Q1 files\\n{\"path\": \".\", \"depth\": 8}')\n",
    "os.close(3)\n",
    "raise SystemExit(3)\n",
];

/// A frame as an honest guest makes it, mutated or not, or no such frame at all.
fn frame(random: &mut Random) -> Vec<u8> {
    let id = random.one_of(&["1", "0", "4294967295", "4294967296", "-1", "", "1 1", "x"]);
    let service = random.one_of(SERVICES);
    let arguments = match random.below(8) {
        0 => r#"{"query": "x", "limit": 18446744073709551615, "path": null, "language": null}"#
            .into(),
        1 => {
            r#"{"path": "../../../etc/passwd", "offset": 18446744073709551615, "limit": 0}"#.into()
        }
        2 => r#"{"path": "/proc/self/mem", "depth": 0}"#.into(),
        3 => "[".repeat(1 << random.below(17)),
        4 => format!(r#"{{"text": "{}", "label": "\n"}}"#, "x".repeat(random.below(60_000))),
        5 => r#"{"path": ".", "lines": 0, "prompt": true}"#.into(),
        6 => r#"{"query": "x", "texts": ["a", "b"]}"#.into(),
        _ => "{}".to_owned(),
    };
    let kind = random.one_of(b"QQQQQQqqqADGPE\0\xff");
    let mut bytes = vec![kind];
    bytes.extend_from_slice(format!("{id} {service}\n{arguments}").as_bytes());
    match random.below(5) {
        0 => {
            let len = bytes.len();
            bytes.truncate(1 + random.below(len));
        }
        1 => {
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] = random.next().to_le_bytes()[0];
            }
        }
        2 => {
            let len = random.below(200_000);
            bytes.resize(len.max(1), b'x');
        }
        _ => {}
    }
    bytes
}

/// A frame as Python writes bytes; a long run of one byte is written as a product.
fn literal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        let first = run[0];
        if run.len() > 64 {
            let _ = write!(text, "{}b'\\x{first:02x}' * {}", plus(&text), run.len());
        } else {
            if !text.ends_with('"') {
                let open = plus(&text);
                let _ = write!(text, "{open}b\"\"");
            }
            text.pop();
            for _ in run {
                let _ = write!(text, "\\x{first:02x}");
            }
            text.push('"');
        }
    }
    if text.is_empty() { "b''".to_owned() } else { text }
}

fn plus(text: &str) -> &'static str {
    if text.is_empty() { "" } else { " + " }
}

/// `ringfence mcp` with two sessions: one for hostile programs, one that none of them may disturb.
struct Server {
    watched: MonitoredServer,
    client: Option<McpClient>,
    hostile: Value,
    honest: Value,
}

impl Server {
    fn start(binary: &std::path::Path, data: &std::path::Path) -> Result<Self, CannotTry> {
        let mut command = std::process::Command::new(binary);
        command.args(["mcp", "--data-dir"]).arg(data.join("data")).current_dir(data);
        // Quotas are not what is tried here.
        let settings = data.join("settings.toml");
        std::fs::write(&settings, "[search]\nsearches_per_day = 100000000\n")
            .map_err(|e| format!("cannot write settings: {e}"))?;
        command.arg("--policy").arg(settings);
        let mut watched =
            MonitoredServer::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = watched.child.stdin.take().ok_or("no stdin")?;
        let stdout = watched.child.stdout.take().ok_or("no stdout")?;
        let mut client = McpClient::over(stdin, stdout);
        client.shake_hands("broker")?;
        let (hostile, honest) = (Value::Null, Value::Null);
        let mut server = Self { watched, client: Some(client), hostile, honest };
        server.create_sessions().map_err(|why| format!("cannot prepare the server: {why}"))?;
        Ok(server)
    }

    fn create_sessions(&mut self) -> Result<(), String> {
        for which in 0..2 {
            let created = self.tool("session", &json!({"action": "create"}))?;
            let session = created["structuredContent"]["session_id"].clone();
            for n in 0..20 {
                let text = format!("def canary_{which}_{n}():\n    return 'x{n}'\n");
                let path = format!("src/canary_{which}_{n}.py");
                let file = json!({"session": session, "path": path, "content": text});
                self.tool("write_file", &file)?;
            }
            *if which == 0 { &mut self.hostile } else { &mut self.honest } = session;
        }
        Ok(())
    }

    /// Runs a hostile program, and checks that everything goes on.
    fn survives(&mut self, source: &str) -> Result<(), String> {
        let hostile = self.hostile.clone();
        self.code(&hostile, source, TIMEOUT_S)?;
        let settled = Instant::now() + SETTLE;
        while self.n_call_threads() > 0 {
            if Instant::now() > settled {
                return Err(format!("{} threads of calls are left", self.n_call_threads()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // An honest program in each session finds its own files, and nothing of the other.
        for (which, session) in [hostile, self.honest.clone()].into_iter().enumerate() {
            let honest = "import code_api\nprint(sorted({h.path for h in code_api.search('canary', limit=50)}))";
            let result = self.code(&session, honest, HONEST_TIMEOUT_S)?;
            let (status, stdout) =
                (&result["structuredContent"]["status"], &result["structuredContent"]["stdout"]);
            let found = stdout.as_str().unwrap_or_default();
            if status != "ok"
                || found.matches(&format!("canary_{which}_")).count() != 20
                || found.contains(&format!("canary_{}_", 1 - which))
            {
                return Err(format!("an honest program in session {which} ended with {result}"));
            }
        }
        self.watched.check()
    }

    /// Threads of the server that make calls.
    fn n_call_threads(&self) -> usize {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.watched.child.id()));
        let names = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == CALL_THREAD).count()
    }

    fn code(&mut self, session: &Value, code: &str, timeout_s: f64) -> Result<Value, String> {
        let call = json!({"session": session, "code": code, "timeout_s": timeout_s});
        self.tool("execute_code", &call)
    }

    fn tool(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let client = self.client.as_mut().ok_or("the connection is closed")?;
        // A server that has died says more on stderr.
        client.call(tool, arguments).map_err(|why| self.watched.lives().err().unwrap_or(why))
    }

    fn end(&mut self) -> Result<(), String> {
        self.client = None;
        self.watched.end(0, END)
    }
}
