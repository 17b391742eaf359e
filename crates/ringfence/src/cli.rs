//! The command line, as data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ringfence_engine::SessionId;

/// Run what AI agents write behind a fence you can see.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    /// What to do.
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
#[command(
    after_help = "Searches every file of the workspace except binary ones and what is below `.git`: hidden files and files that \
    a `.gitignore` names too, unlike ripgrep. Links are not followed. Takes linear time; ends after about 10 s."
)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub(crate) struct GrepArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Search for this pattern; may be repeated, and may begin with a dash
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) patterns: Vec<String>,
    /// Treat the pattern as literal text
    #[arg(short = 'F', long, alias = "fixed-strings")]
    pub(crate) literal: bool,
    /// Search case-insensitively
    #[arg(short, long, overrides_with_all = ["smart_case", "case_sensitive"])]
    pub(crate) ignore_case: bool,
    /// Search case-insensitively if the pattern has no upper-case letter
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"])]
    pub(crate) smart_case: bool,
    /// Search case-sensitively; the default
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"])]
    pub(crate) case_sensitive: bool,
    /// Match whole words only
    #[arg(short, long)]
    pub(crate) word_regexp: bool,
    /// Select lines that do not match
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,
    /// Let a match span lines, up to 128 KiB of them; `.` matches a line end after `(?s)`
    #[arg(short = 'U', long)]
    pub(crate) multiline: bool,
    /// Print only the paths of files with a match
    #[arg(short = 'l', long, conflicts_with = "count")]
    pub(crate) files_with_matches: bool,
    /// Print only the number of matching lines of each file; of matches with `-U`
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Search only matching files, such as `*.py`
    #[arg(short, long, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Search only files of this type: a language or an extension, such as `py` or `rust`; may be repeated
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Skip hidden files and directories
    #[arg(long, overrides_with = "hidden")]
    pub(crate) no_hidden: bool,
    /// Search hidden files and directories; the default
    #[arg(long, overrides_with = "no_hidden")]
    pub(crate) hidden: bool,
    /// Skip what a `.gitignore` of the workspace names
    #[arg(long, overrides_with = "no_ignore")]
    pub(crate) ignore: bool,
    /// Search what a `.gitignore` names; the default
    #[arg(long, overrides_with = "ignore")]
    pub(crate) no_ignore: bool,
    /// Lines after each match, 30 at most
    #[arg(short = 'A', long, value_name = "N")]
    pub(crate) after_context: Option<usize>,
    /// Lines before each match, 30 at most
    #[arg(short = 'B', long, value_name = "N")]
    pub(crate) before_context: Option<usize>,
    /// Lines around each match, 30 at most
    #[arg(short = 'C', long, value_name = "N")]
    pub(crate) context: Option<usize>,
    /// Maximum number of matches, or of files with `-l` and `-c`, 200 at most [default: 20]
    #[arg(short, long, value_name = "N")]
    pub(crate) max_count: Option<usize>,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Regular expression in Rust syntax; with `-e` this is the path
    #[arg(required_unless_present = "patterns")]
    pub(crate) pattern: Option<OsString>,
    /// File or directory below the workspace [default: .]
    pub(crate) path: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Hits, 100 at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: usize,
    /// Only these files, such as `src/**/*.py`
    #[arg(short, long, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Only this language
    #[arg(short, long, value_name = "NAME")]
    pub(crate) language: Option<String>,
    /// Print paths and lines only
    #[arg(long)]
    pub(crate) no_text: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Words, a question, or the name of a definition
    #[arg(required = true, value_name = "QUERY")]
    pub(crate) query: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Report only files left out below this file or directory
    #[arg(default_value = ".")]
    pub(crate) path: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct ChunkArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Approximate number of lines of a piece [default: by the file's structure]
    #[arg(long, value_name = "N")]
    pub(crate) lines: Option<usize>,
    /// Share of a piece that the next one repeats, in percent, 50 at most
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub(crate) overlap: usize,
    /// Put each piece into a boundary that marks it as data, for the prompt of another model
    #[arg(long)]
    pub(crate) prompt: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// A file below the workspace
    pub(crate) path: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// claude-code, claude-desktop, codex, cursor, vscode, gemini or zed
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// Take it out again
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
    /// Take it out again
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
    /// The program's file, or `-` for stdin, and its own arguments
    #[arg(
        value_names = ["FILE", "ARG"],
        num_args = 0..,
        required_unless_present = "code",
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
        /// Its files cannot be changed by the file tools
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
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

/// Which rows.
#[derive(Debug, Args)]
pub(crate) struct AuditFilter {
    /// Runs whose id begins with this
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Rows of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Rows of this client
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
    /// Rows of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// ok, error, blocked, timeout, memory, killed, rejected, failed, running or interrupted
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// low, medium or high
    #[arg(long)]
    pub(crate) risk: Option<String>,
    /// Not before: a time ago such as `2h`, or milliseconds since 1970
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Before: the same
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List runs and calls, the newest first
    Ls {
        #[command(flatten)]
        filter: AuditFilter,
        /// Maximum number of rows
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Cursor at the end of the previous page
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        /// Every row, starts and the ledger's own among them
        #[arg(long)]
        rows: bool,
    },
    /// Print one run or call, by its id or the beginning of it
    Show {
        /// The run
        run: String,
    },
    /// Print the newest rows, and with -f those to come
    Tail {
        #[command(flatten)]
        filter: AuditFilter,
        /// Wait for more rows
        #[arg(short, long)]
        follow: bool,
        /// Number of rows to begin with
        #[arg(long, default_value_t = 10)]
        limit: usize,
    },
    /// Verify the ledger: exit 0 intact, 1 tampered
    Verify {
        /// Anchors that were kept elsewhere
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
        /// Verify this archive instead
        #[arg(long, value_name = "FILE", conflicts_with = "anchor")]
        archive: Option<PathBuf>,
    },
    /// Print every row as JSON lines or CSV
    Export {
        #[command(flatten)]
        filter: AuditFilter,
        /// jsonl or csv
        #[arg(long, default_value = "jsonl")]
        format: String,
        /// A new file, instead of stdout
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print totals of a period
    Report {
        /// Not before
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
        /// Before
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
    },
    /// Print where the ledger stands, signed, to keep elsewhere
    Anchor {
        /// Append it to this file
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Post it to this address
        #[arg(long, value_name = "URL", conflicts_with = "to")]
        webhook: Option<String>,
        /// Give it to this command on its standard input
        #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["to", "webhook"])]
        command: Vec<String>,
    },
    /// Show or decide how the ledger is kept, for every process that writes to it from now on
    Settings {
        /// What a row survives once it is acknowledged: `process` death, or the loss of `power` too
        #[arg(long, value_name = "WHAT")]
        durability: Option<String>,
        /// Seal bodies with the key in this file (`openssl rand -hex 32`), or `none`
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Archive and clear what is older than 90 days
    Expire {
        /// Older than this instead
        #[arg(long, value_name = "WHEN")]
        before: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) service: ServiceFlags,
    /// Check the settings, print what would be served, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Serve what the protocol's conformance tests ask for, and nothing else
    #[arg(long, hide = true)]
    pub(crate) fixtures: bool,
}

/// Every flag of a service; each is also a key of the table `[serve]` in a settings file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceFlags {
    /// Address to listen on [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// A name the service answers to besides this machine's own
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// An origin whose pages may use the service from a browser (CORS), such as `https://app.example.org`; there is no `*`
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<String>,
    /// A certificate for TLS, with those that vouch for it
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// The service as its clients name it, for those that ask where to get a token
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// An authorization server that hands out this service's tokens
    #[arg(long, value_name = "URL")]
    pub(crate) authorization_server: Vec<String>,
    /// Calls of one client in a minute, or `off` [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) rate_per_minute: Option<String>,
    /// Runs at once, of all clients together, or `off` [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) concurrent: Option<String>,
    /// Runs at once, of one client, or `off` [default: 4]
    #[arg(long, value_name = "N")]
    pub(crate) concurrent_per_client: Option<String>,
    /// Calls that may wait, or `off` for any number [default: 50]
    #[arg(long, value_name = "N")]
    pub(crate) queue: Option<String>,
    /// Shut out clients whose runs do harm for a while: on or off [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(crate) breakers: Option<String>,
    /// Bytes of a request's body [default: 1M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) body: Option<String>,
    /// Bytes of a file that a client writes [default: 100M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) upload: Option<String>,
    /// Connections at once [default: 8192]
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<String>,
    /// Time that runs may take after SIGTERM [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) drain: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; it is not shown again
    New {
        /// Name of its owner
        #[arg(long)]
        name: String,
        /// Scopes: run, files, sessions, audit, admin [default: run,files,sessions]
        #[arg(long, value_name = "S")]
        scope: Vec<String>,
    },
    /// List the tokens, revoked ones too
    Ls,
    /// Revoke a token, at once
    Revoke {
        /// Name of its owner
        name: String,
    },
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
