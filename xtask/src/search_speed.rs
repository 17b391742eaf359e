//! Search speed: indexes a corpus of real source files, and measures throughput, memory, queries and re-indexing.
//!
//! The corpus is copied from the directories given with `--from` (registry sources, site-packages) into a new directory
//! below `--dir`, which is removed at the end. Each measurement runs in a process of its own, so that its peak memory is
//! its own.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ringfence_search::{Index, IndexLimits, Query, Tree};
use serde_json::{Value, json};

use crate::percentiles::Percentiles;
use crate::random::Random;
use crate::{CannotTry, Verdict, millis};

/// Bounds: throughput, memory, queries, re-indexing.
const MB_PER_S_MIN: f64 = 20.0;
const RSS_MB_MAX: f64 = 300.0;
const P50_MS_MAX: f64 = 5.0;
const P50_MS_MAX_SMALL: f64 = 1.5;
const REINDEX_PART_MAX: f64 = 0.03;

/// Queries of each corpus.
const N_QUERIES: usize = 1000;

/// Arguments of `cargo xtask search-speed`.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchSpeedArgs {
    /// Directory for the corpus and the index; needs 2 GB
    #[arg(long)]
    dir: PathBuf,
    /// Directories to copy files from
    #[arg(long)]
    from: Vec<PathBuf>,
    /// Bytes of the large corpus
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: u64,
    /// Files of the large corpus
    #[arg(long, default_value_t = 100_000)]
    files: usize,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// Keep the corpus and the index
    #[arg(long)]
    keep: bool,
    /// Internal: one step of the measurement
    #[arg(long, hide = true)]
    step: Option<String>,
}

pub(crate) fn search_speed(args: &SearchSpeedArgs) -> Result<Verdict, CannotTry> {
    if let Some(step) = &args.step {
        println!("{}", run_step(step, &args.dir)?);
        return Ok(Verdict::Held);
    }
    let dir = args.dir.join(format!("search-speed-{}", std::process::id()));
    fs::create_dir_all(&dir)
        .map_err(|error| format!("cannot create {}: {error}", dir.display()))?;
    let measured = measure(args, &dir);
    if !args.keep {
        let _ = fs::remove_dir_all(&dir);
    }
    let (report, holds) = measured?;
    if args.json {
        println!("{report}");
    } else {
        for (name, value) in report.as_object().into_iter().flatten() {
            println!("{name:<10} {value}");
        }
    }
    Ok(if holds { Verdict::Held } else { Verdict::Failed })
}

fn measure(args: &SearchSpeedArgs, dir: &Path) -> Result<(Value, bool), CannotTry> {
    let mut report = serde_json::Map::new();
    let mut holds = true;
    for (name, part, p50_max) in [("small", 10, P50_MS_MAX_SMALL), ("large", 1, P50_MS_MAX)] {
        let dir = dir.join(name);
        let (n_files, n_bytes) = copy_corpus(
            &args.from,
            &dir.join("corpus"),
            args.bytes / part,
            args.files / usize::try_from(part).unwrap_or(1),
        )?;
        eprintln!("{name}: {n_files} files, {} MB", n_bytes / 1_000_000);
        let full = step("index", &dir)?;
        let queries = step("query", &dir)?;
        touch_one_percent(&dir.join("corpus"))?;
        // Later than the moment that makes a change too recent to be trusted.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let again = step("index", &dir)?;
        let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(f64::NAN);
        let mb_per_s = number(&full, "bytes") / 1e6 / number(&full, "seconds");
        let part = number(&again, "seconds") / number(&full, "seconds");
        let rss = number(&full, "rss_mb").max(number(&again, "rss_mb"));
        holds &= number(&queries, "p50_ms") <= p50_max;
        if name == "large" {
            holds &= mb_per_s >= MB_PER_S_MIN && rss <= RSS_MB_MAX && part <= REINDEX_PART_MAX;
        }
        report.insert(
            name.to_owned(),
            json!({"files": n_files, "mb": n_bytes / 1_000_000, "mb_per_s": mb_per_s, "index_s": full["seconds"], "index_mb": full["disk_mb"],
                "segments": full["segments"], "rss_mb": rss, "query_p50_ms": queries["p50_ms"], "query_p99_ms": queries["p99_ms"],
                "query_rss_mb": queries["rss_mb"], "open_ms": queries["open_ms"], "reindex_s": again["seconds"], "reindex_part": part}),
        );
        if !args.keep {
            let _ = fs::remove_dir_all(&dir);
        }
    }
    Ok((Value::Object(report), holds))
}

/// Runs one step in a process of its own and reads its figures.
fn step(name: &str, dir: &Path) -> Result<Value, CannotTry> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["search-speed", "--step", name, "--dir"])
        .arg(dir)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run step {name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|_| format!("step {name} ended with {}", output.status))
}

fn run_step(name: &str, dir: &Path) -> Result<Value, CannotTry> {
    let fail = |error: &dyn std::fmt::Display| format!("step {name}: {error}");
    let started = Instant::now();
    let index =
        Index::open(&dir.join("index"), IndexLimits::default()).map_err(|error| fail(&error))?;
    let open_ms = millis(started.elapsed());
    if name == "index" {
        let tree = Tree::open(&dir.join("corpus")).map_err(|error| fail(&error))?;
        let started = Instant::now();
        let report = index
            .update(&tree, &mut |_| ControlFlow::Continue(()))
            .map_err(|error| fail(&error))?;
        let seconds = started.elapsed().as_secs_f64();
        let stats = index.stats();
        eprintln!(
            "{report:?}",
            report =
                (report.files_indexed, report.files_unchanged, report.files_skipped, report.chunks)
        );
        return Ok(
            json!({"seconds": seconds, "bytes": report.bytes, "chunks": stats.n_chunks, "segments": stats.n_segments,
            "disk_mb": stats.disk_bytes / 1_000_000, "rss_mb": peak_rss_mb()}),
        );
    }
    let mut times = Vec::new();
    for query in queries() {
        let started = Instant::now();
        let hits = index.search(&Query::new(query)).map_err(|error| fail(&error))?;
        times.push(millis(started.elapsed()));
        std::hint::black_box(hits);
    }
    let Percentiles { p50, p99, .. } = Percentiles::of(times);
    Ok(json!({"open_ms": open_ms, "p50_ms": p50, "p99_ms": p99, "rss_mb": peak_rss_mb()}))
}

/// Questions and names of code, of one to eight words.
fn queries() -> Vec<String> {
    const WORDS: &[&str] = &[
        "parse",
        "request",
        "error",
        "buffer",
        "stream",
        "connection",
        "HashMap",
        "insert",
        "iterator",
        "async",
        "socket",
        "config",
        "token",
        "serialize",
        "decode",
        "path",
        "directory",
        "thread",
        "lock",
        "channel",
        "timeout",
        "retry",
        "header",
        "cookie",
        "session",
        "index",
        "query",
        "TcpStream",
        "read_to_end",
        "from_str",
        "Display",
        "impl",
        "array",
        "matrix",
        "tensor",
        "unicode",
        "regex",
        "match",
        "compile",
        "macro",
        "derive",
        "test",
        "random",
        "seed",
        "hash",
        "digest",
        "signature",
        "key",
        "cipher",
        "base64",
        "json",
        "xml",
        "yaml",
        "toml",
        "file",
        "open",
        "close",
        "write",
        "flush",
        "signal",
        "process",
        "spawn",
        "exit",
        "memory",
        "allocate",
        "arena",
        "cache",
        "evict",
    ];
    let mut random = Random::new(7);
    let mut queries = Vec::new();
    for _ in 0..N_QUERIES {
        let n = 1 + random.below(8);
        let words: Vec<&str> = (0..n).map(|_| WORDS[random.below(WORDS.len())]).collect();
        queries.push(words.join(" "));
    }
    queries
}

/// Peak resident memory of this process.
fn peak_rss_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb: f64 =
        line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(f64::NAN);
    kb / 1024.0
}

/// Copies files until there are enough of both; sources that are too small are copied again, each time changed.
fn copy_corpus(
    from: &[PathBuf],
    to: &Path,
    bytes: u64,
    files: usize,
) -> Result<(usize, u64), CannotTry> {
    let mut sources = Vec::new();
    for root in from {
        collect(root, &mut sources);
    }
    if sources.is_empty() {
        return Err("no files to copy: name directories with --from".to_owned());
    }
    sources.sort();
    // Spread over all sources, and in the same order every time.
    let mut random = Random::new(1);
    for at in (1..sources.len()).rev() {
        sources.swap(at, random.below(at + 1));
    }
    let (mut n_files, mut n_bytes) = (0, 0u64);
    for round in 0..100 {
        for path in &sources {
            if n_files >= files || n_bytes >= bytes {
                return Ok((n_files, n_bytes));
            }
            let Ok(mut text) = fs::read(path) else { continue };
            // Files of about the size that fills the rest.
            let wanted = (bytes - n_bytes) / (files - n_files) as u64;
            let len = text.len() as u64;
            if len == 0
                || n_bytes < bytes / 20 * 19 && len > wanted * 40
                || text[..text.len().min(8192)].contains(&0)
            {
                continue;
            }
            if round > 0 {
                text.extend_from_slice(format!("\n// copy {round} of {n_files}\n").as_bytes());
            }
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("file")
                .trim_start_matches('.');
            let dir = to.join(format!("d{:03}/s{}", n_files / 500, n_files / 50 % 10));
            let made = fs::create_dir_all(&dir)
                .and_then(|()| fs::write(dir.join(format!("{n_files}_{name}")), &text));
            made.map_err(|error| format!("cannot write the corpus: {error}"))?;
            n_files += 1;
            n_bytes += text.len() as u64;
        }
    }
    Ok((n_files, n_bytes))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    const EXTENSIONS: &[&str] = &[
        "rs", "py", "c", "h", "md", "txt", "js", "ts", "go", "toml", "json", "cc", "cpp", "pyi",
        "html", "S", "rst", "yml",
    ];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, files),
            Ok(kind) if kind.is_file() => {
                let extension =
                    path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
                if EXTENSIONS.contains(&extension) {
                    files.push(path);
                }
            }
            _ => {}
        }
    }
}

fn touch_one_percent(corpus: &Path) -> Result<(), CannotTry> {
    let mut files = Vec::new();
    collect(corpus, &mut files);
    files.sort();
    for path in files.iter().step_by(100) {
        let mut text = fs::read(path).map_err(|error| error.to_string())?;
        text.extend_from_slice(b"\nfn touched_by_the_measurement() {}\n");
        fs::write(path, text).map_err(|error| error.to_string())?;
    }
    Ok(())
}
