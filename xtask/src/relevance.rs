//! Relevance: nDCG@10 of the search over repositories with annotated queries, beside other tools.
//!
//! `--annotations` holds `repos.json` (a list of `name`, and `benchmark_root` where only a folder is indexed) and a
//! `<name>.json` for each: a list of `query`, `relevant` and `secondary`, where a target is a path, or an object with
//! `path`, `start_line` and `end_line`. `--repos` holds a checkout of each, by name.
//!
//! A target's rank is that of the first of ten chunks that hits it: same file, and overlapping lines if it has lines. The
//! gain of each target is 1; the ideal puts min(10, targets) hits first. A repository's score is the mean of its queries.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_search::{
    ChunkOptions, Index, IndexLimits, Mode, Query, Source as _, Tree, Weights, chunk_text, decode,
};
use serde_json::{Value, json};

use crate::{CannotTry, Verdict};

/// Hits that count.
const TOP: usize = 10;

/// Least mean beside semble's ranker, and beside bm25s on the same chunks.
const BELOW_SEMBLE_MAX: f64 = 0.01;
const ABOVE_BM25S_MIN: f64 = 0.10;

/// The peers' side.
const PEERS: &str = include_str!("../relevance/peers.py");

/// Arguments of `cargo xtask relevance`.
#[derive(Debug, clap::Args)]
pub(crate) struct RelevanceArgs {
    /// Directory with a checkout of each repository
    #[arg(long)]
    repos: PathBuf,
    /// Directory with the annotations
    #[arg(long)]
    annotations: PathBuf,
    /// Python that has semble and bm25s; none of the peers without it
    #[arg(long)]
    python: Option<PathBuf>,
    /// Change a weight, as `name=value`
    #[arg(long)]
    weight: Vec<String>,
    /// Search better weights by coordinate ascent, and judge them on repositories left out
    #[arg(long)]
    tune: bool,
    /// Print every query whose score is below 1
    #[arg(long)]
    misses: bool,
    /// Least bytes of a chunk
    #[arg(long)]
    chunk_min: Option<usize>,
    /// Most bytes of a chunk
    #[arg(long)]
    chunk_max: Option<usize>,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

struct Target {
    path: String,
    lines: Option<(u64, u64)>,
}

struct Annotated {
    query: String,
    category: String,
    targets: Vec<Target>,
}

struct Repo {
    name: String,
    root: PathBuf,
    queries: Vec<Annotated>,
    index: Index,
    _dir: tempfile::TempDir,
}

struct Found {
    path: String,
    start: u64,
    end: u64,
}

pub(crate) fn relevance(args: &RelevanceArgs) -> Result<Verdict, CannotTry> {
    let mut options = ChunkOptions::default();
    options.bytes_min = args.chunk_min.unwrap_or(options.bytes_min);
    options.bytes_max = args.chunk_max.unwrap_or(options.bytes_max);
    let repos = repos(args, options)?;
    let mut weights = Weights::DEFAULT;
    for change in &args.weight {
        let parsed = change
            .split_once('=')
            .and_then(|(name, value)| Some((name, value.parse::<f32>().ok()?)));
        let (name, value) = parsed.ok_or(format!("`{change}` is not of the form name=value"))?;
        *weights.get_mut(name).ok_or(format!("no weight is called `{name}`"))? = value;
    }
    if args.tune {
        return tune(&repos, weights);
    }
    let mut table: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for repo in &repos {
        for (name, mode) in [("ringfence", Mode::Auto), ("ringfence plain", Mode::Plain)] {
            table
                .entry(name.to_owned())
                .or_default()
                .insert(repo.name.clone(), score_repo(repo, mode, &weights)?);
        }
        if args.misses {
            print_misses(repo, &weights)?;
        }
    }
    if let Some(python) = &args.python {
        peers(python, &repos, options, &mut table)?;
    }
    if args.json {
        println!("{}", json!(table));
    } else {
        print_table(&repos, &table);
    }
    Ok(verdict(&table))
}

fn read_json(path: &Path) -> Result<Value, CannotTry> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{} is not JSON: {error}", path.display()))
}

fn repos(args: &RelevanceArgs, chunks: ChunkOptions) -> Result<Vec<Repo>, CannotTry> {
    let list = read_json(&args.annotations.join("repos.json"))?;
    let mut repos = Vec::new();
    for entry in list.as_array().ok_or("repos.json is not a list")? {
        let name = entry["name"].as_str().ok_or("a repository without a name")?.to_owned();
        let root = args.repos.join(&name).join(entry["benchmark_root"].as_str().unwrap_or(""));
        if !root.is_dir() {
            eprintln!("{name}: left out, {} is not there", root.display());
            continue;
        }
        let annotations = read_json(&args.annotations.join(format!("{name}.json")))?;
        let queries = annotations
            .as_array()
            .ok_or("annotations are not a list")?
            .iter()
            .map(annotated)
            .collect();
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let fail = |error: &dyn std::fmt::Display| format!("cannot index {name}: {error}");
        let limits = IndexLimits { chunks, ..IndexLimits::default() };
        let index = Index::open(&dir.path().join("index"), limits).map_err(|error| fail(&error))?;
        let tree = Tree::open(&root).map_err(|error| fail(&error))?;
        index.update(&tree, &mut |_| ControlFlow::Continue(())).map_err(|error| fail(&error))?;
        repos.push(Repo { name, root, queries, index, _dir: dir });
    }
    if repos.is_empty() { Err("no repository is there".to_owned()) } else { Ok(repos) }
}

fn annotated(entry: &Value) -> Annotated {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lists = [&entry["relevant"], &entry["secondary"]];
    let targets = lists.iter().filter_map(|list| list.as_array()).flatten().map(|target| Target {
        path: target.as_str().map_or_else(|| text(&target["path"]), str::to_owned),
        lines: target["start_line"].as_u64().zip(target["end_line"].as_u64()),
    });
    Annotated {
        query: text(&entry["query"]),
        category: text(&entry["category"]),
        targets: targets.collect(),
    }
}

fn ask(repo: &Repo, query: &str, mode: Mode, weights: &Weights) -> Result<Vec<Found>, CannotTry> {
    let query = Query { limit: TOP, mode, ..Query::new(query) };
    let hits = repo
        .index
        .search_with(&query, weights)
        .map_err(|error| format!("cannot search {}: {error}", repo.name))?;
    let found = hits.into_iter().map(|hit| Found {
        path: hit.path,
        start: hit.start_line.into(),
        end: hit.end_line.into(),
    });
    Ok(found.collect())
}

fn score_repo(repo: &Repo, mode: Mode, weights: &Weights) -> Result<f64, CannotTry> {
    let mut scores = Vec::new();
    for annotated in &repo.queries {
        scores.push(ndcg(annotated, &ask(repo, &annotated.query, mode, weights)?));
    }
    Ok(mean(&scores))
}

fn ndcg(annotated: &Annotated, hits: &[Found]) -> f64 {
    let gain = |rank: usize| 1.0 / (to_f64(rank) + 1.0).log2();
    let mut ranks: Vec<usize> = annotated
        .targets
        .iter()
        .filter_map(|target| hits.iter().take(TOP).position(|hit| is_hit(target, hit)))
        .map(|at| at + 1)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let ideal: f64 = (1..=annotated.targets.len().min(TOP)).map(gain).sum();
    if ideal == 0.0 { 0.0 } else { ranks.into_iter().map(gain).sum::<f64>() / ideal }
}

fn is_hit(target: &Target, hit: &Found) -> bool {
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    (ends(&hit.path, &target.path) || ends(&target.path, &hit.path))
        && target.lines.is_none_or(|(start, end)| hit.start <= end && hit.end >= start)
}

fn mean(scores: &[f64]) -> f64 {
    if scores.is_empty() { 0.0 } else { scores.iter().sum::<f64>() / to_f64(scores.len()) }
}

#[allow(clippy::cast_precision_loss)] // Small counts.
fn to_f64(n: usize) -> f64 {
    n as f64
}

fn print_misses(repo: &Repo, weights: &Weights) -> Result<(), CannotTry> {
    for annotated in &repo.queries {
        let hits = ask(repo, &annotated.query, Mode::Auto, weights)?;
        let score = ndcg(annotated, &hits);
        if score < 0.999 {
            let wanted: Vec<&str> =
                annotated.targets.iter().map(|target| target.path.as_str()).collect();
            println!(
                "{score:.2} {} [{}] {}\n     wanted {}",
                repo.name,
                annotated.category,
                annotated.query,
                wanted.join(" ")
            );
            for hit in hits.iter().take(5) {
                println!("     {}:{}-{}", hit.path, hit.start, hit.end);
            }
        }
    }
    Ok(())
}

/// Runs the peers on the same queries, and bm25s on the same chunks.
fn peers(
    python: &Path,
    repos: &[Repo],
    options: ChunkOptions,
    table: &mut BTreeMap<String, BTreeMap<String, f64>>,
) -> Result<(), CannotTry> {
    let fail = |error: std::io::Error| format!("cannot run {}: {error}", python.display());
    let mut child = Command::new(python)
        .args(["-c", PEERS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes to the peers".to_owned());
    };
    let mut stdout = BufReader::new(stdout).lines();
    let mut jobs = String::new();
    for repo in repos {
        let queries: Vec<&str> =
            repo.queries.iter().map(|annotated| annotated.query.as_str()).collect();
        let job = json!({"repo": repo.name, "root": repo.root, "queries": queries, "chunks": chunks(&repo.root, options)?});
        jobs += &job.to_string();
        jobs.push('\n');
    }
    let writer = std::thread::spawn(move || stdin.write_all(jobs.as_bytes()));
    while let Some(line) = stdout.next().transpose().map_err(fail)? {
        let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(repo) = repos.iter().find(|repo| answer["repo"] == repo.name.as_str()) else {
            continue;
        };
        let peer = answer["peer"].as_str().unwrap_or_default().to_owned();
        let lists = answer["hits"].as_array().cloned().unwrap_or_default();
        let scores: Vec<f64> = repo
            .queries
            .iter()
            .zip(&lists)
            .map(|(annotated, list)| ndcg(annotated, &found(list)))
            .collect();
        table.entry(peer).or_default().insert(repo.name.clone(), mean(&scores));
    }
    let _ = writer.join();
    child.wait().map_err(fail)?;
    Ok(())
}

fn found(list: &Value) -> Vec<Found> {
    let hits = list.as_array().into_iter().flatten();
    let read = |hit: &Value| Found {
        path: hit["path"].as_str().unwrap_or_default().to_owned(),
        start: hit["start"].as_u64().unwrap_or(0),
        end: hit["end"].as_u64().unwrap_or(u64::MAX),
    };
    hits.map(read).collect()
}

fn chunks(root: &Path, options: ChunkOptions) -> Result<Vec<Value>, CannotTry> {
    let fail = |error: std::io::Error| format!("cannot read {}: {error}", root.display());
    let tree = Tree::open(root).map_err(fail)?;
    let mut chunks = Vec::new();
    let mut each = |path: &str| {
        let mut bytes = Vec::new();
        let read = tree.open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        if read.is_ok()
            && let Ok(text) = decode(&bytes)
        {
            chunks.extend(chunk_text(path, &text, &options).into_iter().map(|chunk| {
                json!({"path": &*chunk.path, "start": chunk.start_line, "end": chunk.end_line, "text": chunk.text})
            }));
        }
    };
    tree.files(&mut || ControlFlow::Continue(()), &mut |file| {
        each(&file.path);
        ControlFlow::Continue(())
    })
    .map_err(fail)?;
    Ok(chunks)
}

fn print_table(repos: &[Repo], table: &BTreeMap<String, BTreeMap<String, f64>>) {
    print!("{:<12}", "");
    for tool in table.keys() {
        print!(" {tool:>16}");
    }
    println!();
    for repo in repos {
        print!("{:<12}", repo.name);
        for scores in table.values() {
            print!(" {:>16.3}", scores.get(&repo.name).copied().unwrap_or(f64::NAN));
        }
        println!();
    }
    print!("{:<12}", "mean");
    for scores in table.values() {
        print!(" {:>16.4}", mean(&scores.values().copied().collect::<Vec<_>>()));
    }
    println!();
}

fn verdict(table: &BTreeMap<String, BTreeMap<String, f64>>) -> Verdict {
    let mean_of = |tool: &str| {
        table.get(tool).map(|scores| mean(&scores.values().copied().collect::<Vec<_>>()))
    };
    let ours = mean_of("ringfence").unwrap_or(0.0);
    let holds = mean_of("semble ranker").is_none_or(|theirs| ours >= theirs - BELOW_SEMBLE_MAX)
        && mean_of("bm25s").is_none_or(|theirs| ours >= theirs + ABOVE_BM25S_MIN);
    if holds { Verdict::Held } else { Verdict::Failed }
}

/// Factors that a weight is tried with.
const STEPS: [f32; 6] = [0.0, 0.5, 0.8, 1.25, 1.6, 2.5];

/// Least gain for which a weight is changed: smaller ones are chance.
const GAIN_MIN: f64 = 0.0008;

/// Finds better weights for all repositories, and for each third of them without it, on which they are judged.
fn tune(repos: &[Repo], start: Weights) -> Result<Verdict, CannotTry> {
    let all: Vec<&Repo> = repos.iter().collect();
    let before = score_all(&all, &start)?;
    let mut held_out = Vec::new();
    for fold in 0..3 {
        let (judged, used): (Vec<_>, Vec<_>) =
            repos.iter().enumerate().partition(|(at, _)| at % 3 == fold);
        let (judged, used): (Vec<&Repo>, Vec<&Repo>) = (
            judged.into_iter().map(|(_, r)| r).collect(),
            used.into_iter().map(|(_, r)| r).collect(),
        );
        let tuned = ascend(&used, start)?;
        let (was, is) = (score_all(&judged, &start)?, score_all(&judged, &tuned)?);
        println!(
            "fold {fold}: on the others {:.4}, left out {was:.4} -> {is:.4}",
            score_all(&used, &tuned)?
        );
        held_out.push(is);
    }
    let tuned = ascend(&all, start)?;
    println!("all {before:.4} -> {:.4}, left out {:.4}", score_all(&all, &tuned)?, mean(&held_out));
    for name in Weights::NAMES {
        let (mut old, mut new) = (start, tuned);
        let (old, new) = (old.get_mut(name).copied(), new.get_mut(name).copied());
        println!(
            "    {name} = {}{}",
            new.unwrap_or(0.0),
            if old == new { "" } else { "  (changed)" }
        );
    }
    Ok(Verdict::Held)
}

fn ascend(repos: &[&Repo], mut weights: Weights) -> Result<Weights, CannotTry> {
    let mut best = score_all(repos, &weights)?;
    for _ in 0..4 {
        let started_at = best;
        for name in Weights::NAMES {
            let Some(now) = weights.get_mut(name).copied() else { continue };
            for step in STEPS {
                let mut tried = weights;
                if let Some(weight) = tried.get_mut(name) {
                    *weight = if now == 0.0 { step * 0.2 } else { now * step };
                }
                let score = score_all(repos, &tried)?;
                if score > best + GAIN_MIN {
                    (best, weights) = (score, tried);
                }
            }
        }
        eprintln!("{best:.4}");
        if best < started_at + GAIN_MIN {
            break;
        }
    }
    Ok(weights)
}

fn score_all(repos: &[&Repo], weights: &Weights) -> Result<f64, CannotTry> {
    let scores: Result<Vec<f64>, CannotTry> =
        repos.iter().map(|repo| score_repo(repo, Mode::Auto, weights)).collect();
    Ok(mean(&scores?))
}
