//! Proofs that take too long for `cargo test`, one command each. They measure the binary from outside; only `fuzz` and
//! the reading of a ledger link a crate of it.
//!
//! ```text
//! cargo xtask soak                       1,000 hostile programs, each dead at its deadline, nothing left
//! cargo xtask soak --user 1000           the same as an ordinary user (when root)
//! cargo xtask soak --tier landlock       the same where user namespaces are used up
//! cargo xtask soak --kill-supervisor     SIGKILL ringfence at 1,000 random moments, then one clean run; nothing left
//! cargo xtask soak --python              1,000 endless Python programs through one batch, workers killed meanwhile
//! cargo xtask soak --engine              SIGKILL a service under load at 200 random moments; its ledger has lost nothing
//! cargo xtask soak --fair                200 clients of one service, one hostile; each gets its share, in time
//! cargo xtask soak --parallel            20,000 commands, programs and batches, 64 at once: each answers, nothing left
//! cargo xtask soak --service             a million Python programs through one service; it uses no more in the end
//! cargo xtask flat                       a start, a session call, an admission, a row of the ledger: beside few and many others
//!
//! cargo xtask vm                         boots Debian's 6.1 and 6.12 kernels in qemu, five scenarios, about a minute each
//! cargo xtask vm --kernel 6.12           another series that apt knows
//! cargo xtask vm --scenario nouserns     one of default, noipv6, nouserns, nolandlock, nothing
//! cargo xtask vm --scenario cost         counts of a start beside bubblewrap and beside other leaves; `soak`: many runs at once
//! cargo xtask vm --scenario escapes      every attack of `escapes/`, as an ordinary user; long
//!
//! cargo xtask fuzz screen --seconds 600  mutated programs for the screen: no panic, no overflow, no hang, presets in order
//! cargo xtask fuzz mcp                   mutated messages for `ringfence mcp`, ten minutes: it lives, serves the honest, leaves nothing
//! cargo xtask fuzz http                  the same for `ringfence serve`, with bytes over TCP
//! cargo xtask fuzz broker                hostile frames on the channel of `code_api`
//! cargo xtask fuzz workspace             workspaces that fenced programs fill at random: the next start is quick or refused
//!
//! cargo xtask clients                    SDKs and agent frameworks use a server over stdio and HTTP; sessions stay idle for six minutes; Inspector and mcpscore check it; a client generated from its `OpenAPI` document uses REST; tokens are counted
//! cargo xtask schemathesis               five minutes of generated REST requests: no 5xx, every answer as the document says
//! cargo xtask latency                    calls over MCP and HTTP, beside `FastMCP`'s `CodeMode` and bubblewrap in one run
//! cargo xtask network                    requests and bytes through a run's network, beside a copy loop, tinyproxy and squid
//! cargo xtask conformance                the protocol's own suite, required sets of both revisions
//!
//! cargo xtask refusals DIR…              ordinary programs, one directory each: how many each preset refuses
//! cargo xtask relevance --repos DIR --annotations DIR    nDCG@10 of the search, beside semble, bm25s and ripgrep where they are installed
//! cargo xtask search-speed --dir DIR --from DIR…         1 GB of source files: MB/s, memory, query times, re-indexing; build with --release
//! cargo xtask redaction --vectors DIR    public secret vectors, one repository for each directory: how many are redacted, and how fast
//! cargo xtask workflow                   search, filter, rerank and aggregate in one execute_code, against four tool calls
//! cargo xtask grep-speed --dir DIR       the engine's grep beside `rg`, same flags, warm, in turns; build with --profile dist
//! cargo xtask redos --patterns FILE      patterns of a `ReDoS` collection: each answered within 2 s, or refused with a reason
//! cargo xtask pythons                    every interpreter found, 3.9 to 3.14: the guest's tests, and each level of speed-ups
//!
//! cargo xtask loaded                     all tests three times in a row beside four endless loops, as the user who calls it
//! cargo xtask budget                     what `cargo build --release` costs: processor time, wall time, the longest crate, the number of crates
//! cargo xtask chart FILE                 no proof: draws `docs/chart.svg` from the output of `ringfence bench --json`
//! cargo xtask dist                       no proof: builds the program for packages and figures, its functions in the order of a start
//! ```
//! `clients` needs python3 with venv, node, npm, and both their registries; `conformance` needs node and npm; `schemathesis` needs python3 with venv. `vm` needs qemu-system-x86_64, apt, dpkg-deb and /usr/bin/python3; it needs no root and installs nothing.
//!
//! All exit 0 when everything held, 1 when something did not, 2 when they could not try.
//! `--json` prints one object on stdout; progress goes to stderr. `--binary` takes a binary built elsewhere.

#![allow(clippy::disallowed_methods)]

mod budget;
mod chart;
mod clients;
mod conformance;
mod dist;
mod flat;
mod fuzz;
mod grep_speed;
mod latency;
mod loaded;
mod mcp_client;
mod network;
mod percentiles;
mod process;
mod program;
mod pythons;
mod random;
mod redaction;
mod redos;
mod refusals;
mod relevance;
mod schemathesis;
mod search_speed;
mod service;
mod soak;
mod vm;
mod workflow;

use std::process::ExitCode;

use clap::Parser;

/// Long proofs of Ringfence.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", max_term_width = 100)]
enum Task {
    /// Certain death: hostile programs die at their deadline and leave nothing
    Soak(soak::SoakArgs),
    /// Hostile input: mutated sources for the screen, mutated messages and requests for a server
    Fuzz(fuzz::FuzzArgs),
    /// Real clients: SDKs and agent frameworks use a server
    Clients(clients::ClientsArgs),
    /// REST by generated requests: no 5xx, every answer as the `OpenAPI` document says
    Schemathesis(schemathesis::SchemathesisArgs),
    /// Measure calls over MCP, beside `FastMCP`
    Latency(latency::LatencyArgs),
    /// All tests three times in a row, beside four endless loops
    Loaded(loaded::LoadedArgs),
    /// Measure the network of a run, beside a plain copy loop and other proxies
    Network(network::NetworkArgs),
    /// Conformance: the protocol's own suite, every required scenario of each revision
    Conformance(conformance::ConformanceArgs),
    /// Other kernels: boots them in qemu and walks a table of steps
    Vm(vm::VmArgs),
    /// Screening: how many programs of a directory each preset refuses
    Refusals(refusals::RefusalsArgs),
    /// Relevance: mean nDCG@10 of the search over annotated repositories, beside other tools
    Relevance(relevance::RelevanceArgs),
    /// Search speed: throughput and memory of indexing, queries and re-indexing of 1 GB
    SearchSpeed(search_speed::SearchSpeedArgs),
    /// Redaction: public secret vectors, and the speed on ordinary and hostile text
    Redaction(redaction::RedactionArgs),
    /// Workflow: search, filter, rerank and aggregate in one call, against four
    Workflow(workflow::WorkflowArgs),
    /// Speed of grep, beside ripgrep
    GrepSpeed(grep_speed::GrepSpeedArgs),
    /// Patterns that take a backtracking matcher forever
    Redos(redos::RedosArgs),
    /// Interpreters: each one found, with each level of speed-ups
    Pythons(pythons::PythonsArgs),
    /// Flat: what a start, a session call, an admission and a row cost beside few and many others
    Flat(flat::FlatArgs),
    /// Build: what it costs, each number within its bound
    Budget(budget::BudgetArgs),
    /// No proof: draws the chart of README.md
    Chart(chart::ChartArgs),
    /// No proof: builds the program for packages and figures
    Dist(dist::DistArgs),
}

/// Why a proof could not be tried: the act, the object, the cause.
type CannotTry = String;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// All of it held.
    Held,
    /// Something did not; it was printed.
    Failed,
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn main() -> ExitCode {
    let verdict = match Task::parse() {
        Task::Soak(args) => soak::soak(&args),
        Task::Flat(args) => flat::flat(&args),
        Task::Fuzz(args) => fuzz::fuzz(&args),
        Task::Clients(args) => clients::clients(&args),
        Task::Schemathesis(args) => schemathesis::schemathesis(&args),
        Task::Latency(args) => latency::latency(&args),
        Task::Loaded(args) => loaded::loaded(&args),
        Task::Network(args) => network::network(&args),
        Task::Conformance(args) => conformance::conformance(&args),
        Task::Vm(args) => vm::vm(&args),
        Task::Refusals(args) => refusals::refusals(&args),
        Task::Relevance(args) => relevance::relevance(&args),
        Task::SearchSpeed(args) => search_speed::search_speed(&args),
        Task::Redaction(args) => redaction::redaction(&args),
        Task::Workflow(args) => workflow::workflow(&args),
        Task::GrepSpeed(args) => grep_speed::grep_speed(&args),
        Task::Redos(args) => redos::redos(&args),
        Task::Pythons(args) => pythons::pythons(&args),
        Task::Budget(args) => budget::budget(&args),
        Task::Chart(args) => chart::chart(&args),
        Task::Dist(args) => dist::dist(&args),
    };
    match verdict {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}
