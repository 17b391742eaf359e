//! The command line, as data.

mod audit;
mod search;
mod service;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ringfence_engine::SessionId;

pub(crate) use audit::{AuditArgs, AuditCommand, AuditFilter};
pub(crate) use search::{ChunkArgs, GrepArgs, IndexArgs, SearchArgs};
pub(crate) use service::{McpArgs, ServeArgs, ServiceFlags, TokenArgs, TokenCommand};

/// Run what AI agents write behind a fence you can see.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// Print colours: on a terminal unless `NO_COLOR` is set, always, or never
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: Color,
    /// Print results and errors only: no notes, no totals, no progress
    #[arg(long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more on stderr: the run's id, tier and usage, every refusal, the codes of errors
    #[arg(long, global = true)]
    pub(crate) verbose: bool,
}

/// When colours are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command behind the fence; stdin, stdout and stderr pass through byte for byte
    Run(RunArgs),
    /// Run a Python program behind the fence
    Exec(ExecArgs),
    /// Run many programs through warm workers: JSON lines in, JSON lines out
    Batch(BatchArgs),
    /// Start interactive Python behind the fence; a cell that loops, crashes or runs out of memory is undone
    Repl(ReplArgs),
    /// Run a coding agent behind the fence: claude, codex, gemini, opencode, aider
    Agent(AgentArgs),
    /// Screen Python code without running it
    Check(CheckArgs),
    /// Print the plan that would run, without running it
    #[command(
        mut_arg("json", |json| json.help("Print the plan as JSON")),
        mut_arg("argv", |argv| argv.required(false).required_unless_present("python")),
        mut_arg("python", |python| python.num_args(0..=1).default_missing_value("python3")
            .help("The plan of Python runs instead of a command's, with this interpreter"))
    )]
    Explain(RunArgs),
    /// Probe what this host can enforce, and print the fix for each gap
    Doctor(JsonArgs),
    /// Show the effective policy, presets and bundles, or check a settings file
    Policy(PolicyArgs),
    /// Manage workspaces that outlive a command: new, ls, show, put, get, fork, rm, gc
    Session(SessionArgs),
    /// Search a session's files for lines that match a regular expression
    Grep(GrepArgs),
    /// Search a session's files by words, a question or a name; best hits first
    Search(SearchArgs),
    /// Update a session's search index; `search` does it too
    Index(IndexArgs),
    /// Split a session's file at its definitions, headings or paragraphs
    Chunk(ChunkArgs),
    /// Read and verify the ledger of runs: ls, show, tail, verify, export, report
    Audit(AuditArgs),
    /// Serve MCP over stdin and stdout, for one client
    Mcp(McpArgs),
    /// Serve MCP (/mcp) and REST (/api/v1) over HTTP
    Serve(Box<ServeArgs>),
    /// Manage the tokens of `serve`: new, ls, revoke
    Token(TokenArgs),
    /// Add `ringfence mcp` to a client's configuration; shows a diff, keeps a backup
    Init(InitArgs),
    /// Run another MCP server of a client behind the fence
    Wrap(WrapArgs),
    /// Send an agent's own commands through the fence; for its hooks
    #[command(hide = true)]
    Hook(HookArgs),
    /// Deliver alerts that are read from stdin; started by runs themselves
    #[command(hide = true)]
    Notify,
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Measure the numbers of SPECIFICATION.md on this host, beside installed peers
    Bench(BenchArgs),
}

/// A command and its policy, to run or to explain.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Print the outcome as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Work in this session's directory instead of yours
    #[arg(long, value_name = "ID", conflicts_with_all = ["cwd", "preset", "python"])]
    pub(crate) session: Option<SessionId>,
    /// End with the process that started this one
    #[arg(long, hide = true)]
    pub(crate) die_with_parent: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) argv: Vec<OsString>,
}

impl RunArgs {
    /// A command without flags.
    pub(crate) fn of(argv: Vec<OsString>) -> Self {
        let policy = PolicyFlags::default();
        Self { policy, json: false, session: None, die_with_parent: false, argv }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Print the known agents as JSON
    #[arg(long, conflicts_with = "agent")]
    pub(crate) json: bool,
    /// The agent and its own arguments; without it, list the known ones
    #[arg(
        value_names = ["AGENT", "ARG"],
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) agent: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// claude-code, claude-desktop, codex, cursor, vscode, gemini or zed
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// Remove the entry
    #[arg(long)]
    pub(crate) undo: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The client's configuration, where it is not in its usual place
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write the client's plugin to this directory instead: the tools, and a hook for its own shell (claude-code)
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) plugin: Option<PathBuf>,
    /// Flags for `ringfence mcp`
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct WrapArgs {
    /// The server's name in the client's configuration; without it, print those that are found
    #[arg(value_name = "SERVER")]
    pub(crate) name: Option<String>,
    /// Print the servers that are found as JSON
    #[arg(long, conflicts_with = "name")]
    pub(crate) json: bool,
    /// The client, if several have a server of that name: claude-code, claude-desktop, codex, cursor, vscode, gemini or zed
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// The client's configuration, where it is not in its usual place; needs `--client`
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) config: Option<PathBuf>,
    /// Remove the entry
    #[arg(long)]
    pub(crate) undo: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Flags for `ringfence run`, such as `--net allow:HOST`
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// claude-code
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// Let the user decide about each command, instead of letting it run behind the fence
    #[arg(long)]
    pub(crate) ask: bool,
    /// Flags for `ringfence run`
    #[arg(last = true, value_name = "FLAG")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// standard, strict, data or open
    #[arg(long, value_name = "P")]
    pub(crate) preset: Option<String>,
    /// A module the code may import besides its preset's
    #[arg(long, value_name = "M")]
    pub(crate) allow_import: Vec<String>,
    /// A policy file
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print the verdict as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) source: Source,
}

/// Where a program's text comes from.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// A file, or `-` for stdin
    #[arg(value_name = "FILE", required_unless_present = "code")]
    pub(crate) file: Option<PathBuf>,
    /// The program itself
    #[arg(short = 'c', value_name = "CODE", conflicts_with = "file", allow_hyphen_values = true)]
    pub(crate) code: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Print the outcome as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Work on this session's files; variables last as long as the program, `repl` keeps them between cells
    #[arg(long, value_name = "ID", conflicts_with = "files")]
    pub(crate) session: Option<SessionId>,
    /// A file or directory to copy into the program's directory
    #[arg(long = "file", value_name = "HOSTPATH[:NAME]")]
    pub(crate) files: Vec<String>,
    /// Where to copy the files that the program made or changed
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
    /// The program itself
    #[arg(short = 'c', value_name = "CODE", allow_hyphen_values = true)]
    code: Option<OsString>,
    /// The program's file, or `-` for stdin, and its own arguments [default: -]
    #[arg(
        value_names = ["FILE", "ARG"],
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

impl ExecArgs {
    /// Where the program is, and its arguments.
    pub(crate) fn program(&self) -> (Source, &[String]) {
        let (file, args) = match (&self.code, &self.rest[..]) {
            (None, [file, args @ ..]) => (Some(PathBuf::from(file)), args),
            (_, args) => (None, args),
        };
        // `--` before them is not theirs.
        let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
        (Source { code: self.code.clone(), file }, args)
    }
}

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Items at once [default: the number of processors]
    #[arg(short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// An earlier output: items it has outcomes for are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// JSON lines, or `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    /// Work on this session's files
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<SessionId>,
    /// Read each cell as a JSON string on a line, print each outcome as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataDir {
    /// Directory of Ringfence's state [default: ~/.local/state/ringfence]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
}

/// Flags of every subcommand of `session`, `audit` and `token`.
#[derive(Debug, Args)]
pub(crate) struct SharedArgs {
    /// Directory of Ringfence's state [default: ~/.local/state/ringfence]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) action: PolicyAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAction {
    /// Print the effective policy and where each value came from
    Show {
        #[command(flatten)]
        policy: Box<PolicyFlags>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// List the presets
    Presets {
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Print the hosts of a bundle such as pypi (`--net allow:NAME`); without a name, list the bundles
    Bundle {
        /// The name
        name: Option<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Check a settings file
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Make a session and print its id
    New {
        /// Its files cannot be changed, by tools or by runs
        #[arg(long)]
        read_only: bool,
    },
    /// List your sessions, the oldest first; with a session, its files
    Ls {
        /// Print sizes, times and more; for sessions on a terminal the default
        #[arg(short, long)]
        long: bool,
        /// List the files of this session
        id: Option<SessionId>,
        /// A directory of it
        #[arg(default_value = ".")]
        dir: OsString,
    },
    /// Copy a file into a session
    Put {
        /// The session
        id: SessionId,
        /// The file, or `-` for stdin
        local: PathBuf,
        /// Its name in the session, or a directory if it ends with `/` [default: the file's own name]
        name: Option<OsString>,
    },
    /// Copy a file out of a session
    Get {
        /// The session
        id: SessionId,
        /// The file's name in the session
        name: OsString,
        /// Where to write it: a file, a directory, or `-` for stdout [default: its own name here]
        local: Option<PathBuf>,
    },
    /// Print the state of a session and the place of its files
    Show {
        /// The session
        id: SessionId,
    },
    /// Copy a session's files into a new session
    Fork {
        /// The session
        id: SessionId,
    },
    /// End sessions and remove their files; their rows in the ledger are archived
    Rm {
        /// The sessions
        #[arg(required = true)]
        ids: Vec<SessionId>,
    },
    /// End sessions that have expired
    Gc,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    /// Rounds of each comparison; every round runs each contender once
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) rounds: u32,
    /// Files in the large workspace and the large tree
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) files: u32,
    /// The interpreter to measure
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<String>,
    /// Only comparisons whose name contains this
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Compare with the promises of SPECIFICATION.md; exit 1 if one is broken
    #[arg(long)]
    pub(crate) gate: bool,
    /// Make so many refused calls and print the nanoseconds one took; the comparison `denial` starts this program so
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) refused_calls: Option<u32>,
}

/// Every policy flag. Values are text here; `settings` parses them like those of any other source.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyFlags {
    /// For commands workspace, readonly, minimal or agent; for Python standard, strict, data or open
    #[arg(long, value_name = "P")]
    pub(crate) preset: Option<String>,
    /// A policy file
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Wall clock, such as 30s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// CPU time of the whole tree, such as 30s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) cpu: Option<String>,
    /// Memory of the whole tree, such as 512M
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<String>,
    /// Processes and threads alive at once
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) pids: Option<String>,
    /// Open descriptors per process
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) fds: Option<String>,
    /// Bytes the run may add to disk, such as 100M
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) disk: Option<String>,
    /// Captured output kept per stream, such as 10M
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) output: Option<String>,
    /// A host path the run may also write
    #[arg(long, value_name = "PATH")]
    pub(crate) rw: Vec<String>,
    /// A host path the run may also read
    #[arg(long, value_name = "PATH")]
    pub(crate) ro: Vec<String>,
    /// A host path that is invisible whatever else is granted
    #[arg(long, value_name = "PATH")]
    pub(crate) hide: Vec<String>,
    /// A host unix socket the run may connect to; `!` after the path of one that would undo the fence, such as docker.sock
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<String>,
    /// Working directory, which the workspace preset makes writable [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub(crate) cwd: Option<String>,
    /// A variable to pass (NAME) or to set (NAME=VALUE)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// `none`, or `allow:RULE,…`: `HOST[:PORT]`, `*.HOST`, a bundle such as pypi, HOST@CIDR, localhost:PORT, deny:HOST [default: none]
    #[arg(long, value_name = "NET")]
    pub(crate) net: Option<String>,
    /// Directories below the home that the run keeps under this name; by `agent`
    #[arg(skip)]
    pub(crate) own_directories: Option<(String, Vec<String>)>,
    /// A credential that requests to HOST carry and the run never has: `NAME=env:VAR|file:PATH|cmd:…@HOST[/PATH]`
    #[arg(long, value_name = "SECRET")]
    pub(crate) secret: Vec<String>,
    /// A host at which keys of the SSH agent may log in: `HOST`, or `KEY@HOST` with SHA256:FINGERPRINT or a .pub file as KEY
    #[arg(long, value_name = "GRANT")]
    pub(crate) ssh_agent: Vec<String>,
    /// Requests that a host may receive: `[METHOD,… ]HOST[/PATH]`; TLS to that host ends in Ringfence
    #[arg(long, value_name = "REQUEST")]
    pub(crate) net_request: Vec<String>,
    /// A limit of the network: bytes=SIZE, connections=N or requests=N, with @HOST for one host
    #[arg(long, value_name = "LIMIT")]
    pub(crate) net_limit: Vec<String>,
    /// A port of the run that this host may connect to, on 127.0.0.1: `PORT`, or `HOST_PORT:PORT`
    #[arg(long, value_name = "PORT")]
    pub(crate) publish: Vec<String>,
    /// The Python to use; for Python runs
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<String>,
    /// A module Python code may import besides its preset's; for Python runs
    #[arg(long, value_name = "M")]
    pub(crate) allow_import: Vec<String>,
    /// Child processes a Python program may have at once, its threads included [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) code_processes: Option<String>,
    /// The weakest acceptable tier: namespaces or landlock
    #[arg(long, value_name = "TIER")]
    pub(crate) require: Option<String>,
    /// When a layer is missing: error or warn [default: error]
    #[arg(long, value_name = "F")]
    pub(crate) fallback: Option<String>,
    /// View of /proc: own or none [default: own]
    #[arg(long, value_name = "VIEW")]
    pub(crate) proc: Option<String>,
    /// Directory of Ringfence's state [default: ~/.local/state/ringfence]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Record the call in the ledger: on or off [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(crate) audit: Option<String>,
    /// Replace secrets in the output too: on or off [default: off]
    #[arg(long, value_name = "SWITCH")]
    pub(crate) redact: Option<String>,
}
