//! Flags of `ringfence audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::SharedArgs;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

/// Row filters.
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
    /// Only rows since this time: an age such as `2h`, or milliseconds since 1970
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only rows before this time, in the same form
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
        /// Only rows since this time
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
        /// Only rows before this time
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
    },
    /// Print a signed anchor of the ledger's head, to store elsewhere
    Anchor {
        /// Append it to this file
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Post it to this address
        #[arg(long, value_name = "URL", conflicts_with = "to")]
        webhook: Option<String>,
        /// Pipe it to this command
        #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["to", "webhook"])]
        command: Vec<String>,
    },
    /// Show or decide how the ledger is kept, for every process that writes to it from now on
    Settings {
        /// Durability of an acknowledged row: it survives the death of a `process`, or the loss of `power` too
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
