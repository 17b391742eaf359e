//! `ringfence audit`: reads and verifies the ledger.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_audit::{
    Anchor, Durability, Expectations, Filter, Format, Ledger, Reader, Record, Settings,
    StorageSettings, Verification, View, verify, verify_archive,
};
use ringfence_server::notify::Destination;
use ringfence_spec::{Code, Problem, escape_json, escape_name, utc};

use crate::cli::{AuditArgs, AuditCommand, AuditFilter};
use crate::present;
use crate::settings::{Surroundings, data_dir, is_address};
use crate::style::{self, Look, Stream, paint};
use crate::table::{self, cell, column, numbers, texts};

/// Poll interval of `tail -f`.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs the subcommand. `verify` exits 1 if the ledger was tampered with.
pub(crate) fn audit(args: &AuditArgs) -> ExitCode {
    match attempt(args) {
        Ok(code) => code,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &AuditArgs) -> Result<ExitCode, Problem> {
    let around = Surroundings::real(false)?;
    let ledger = data_dir(args.data_dir.as_deref(), &around)?.join("ledger");
    match &args.command {
        AuditCommand::Ls { filter, limit, after, rows } => {
            let filter = parse(filter, *rows)?;
            let page = Reader::open(&ledger, None)?.page(&filter, after.as_deref(), *limit)?;
            if args.json {
                present::json(&page);
            } else {
                show_table(&page.records, *rows);
                if let Some(next) = page.next {
                    present::say(&format!("more: --after {next}"));
                }
            }
        }
        AuditCommand::Show { run } => {
            let run = Reader::open(&ledger, None)?.show(run)?;
            if args.json {
                present::json(&run);
            } else {
                present::text(&pretty(&run));
            }
        }
        AuditCommand::Tail { filter, follow, limit } => {
            let as_text = if args.json { json_line } else { line };
            tail(&ledger, &parse(filter, true)?, *follow, *limit, as_text)?;
        }
        AuditCommand::Export { filter, format, out } => {
            let format = format_of(format)?;
            export(&ledger, &parse(filter, true)?, format, out.as_deref())?;
        }
        AuditCommand::Report { since, until } => {
            let at = |text: &Option<String>| text.as_deref().map(moment).transpose();
            let report = Reader::open(&ledger, None)?.report(at(since)?, at(until)?)?;
            if args.json {
                present::json(&report);
            } else {
                present::text(&pretty(&report));
            }
        }
        AuditCommand::Verify { anchor, archive } => {
            return match archive {
                Some(archive) => {
                    let check = verify_archive(archive, None)?;
                    present::json(&check);
                    Ok(ExitCode::from(u8::from(!check.intact)))
                }
                None => verified(&ledger, anchor.as_deref(), args.json),
            };
        }
        AuditCommand::Anchor { to, webhook, command } => {
            let ear = match (to, webhook, &command[..]) {
                (Some(file), ..) => Some(Destination::File(around.cwd.join(file))),
                (_, Some(url), _) if !is_address(url) => {
                    return Err(Problem::usage(Code::BadValue, format!("`{url}` is no address"))
                        .hint("it begins with https:// or http:// and a host"));
                }
                (_, Some(url), _) => Some(Destination::Webhook(url.clone())),
                (.., []) => None,
                (.., words) => Some(Destination::Command(words.to_vec())),
            };
            let ledger = Ledger::open(&ledger, Settings::new(ringfence_engine::redact))?;
            let anchor = match ear {
                Some(to) => ledger.anchor_to(&mut |line: &str| to.send(line))?,
                None => ledger.anchor()?,
            };
            present::json(&anchor);
        }
        AuditCommand::Settings { durability, key_file } => {
            let mut manner = StorageSettings::read(&ledger)?;
            if let Some(word) = durability {
                manner.durability = durability_of(word)?;
            }
            if let Some(file) = key_file {
                let none = file.as_os_str() == "none";
                manner.key_file = (!none).then(|| around.cwd.join(file));
            }
            if durability.is_some() || key_file.is_some() {
                manner.write(&ledger)?;
            }
            present::json(&manner);
        }
        AuditCommand::Expire { before } => {
            let before = before.as_deref().map(moment).transpose()?;
            let before =
                before.unwrap_or_else(|| ringfence_audit::now_ms() - ringfence_audit::RETENTION_MS);
            let ledger = Ledger::open(&ledger, Settings::new(ringfence_engine::redact))?;
            present::json(&ledger.expire(before)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn durability_of(word: &str) -> Result<Durability, Problem> {
    match word {
        "process" => Ok(Durability::ProcessDeath),
        "power" => Ok(Durability::PowerLoss),
        _ => Err(Problem::usage(
            Code::BadValue,
            format!("`--durability {word}` is neither `process` nor `power`"),
        )),
    }
}

fn verified(ledger: &Path, anchor: Option<&Path>, json: bool) -> Result<ExitCode, Problem> {
    let anchors = anchor.map(Anchor::read_file).transpose()?.unwrap_or_default();
    let found = verify(ledger, &Expectations { anchors, root: None })?;
    if found.intact {
        // Import an intact ledger into the database, where other tools read it.
        drop(Reader::open(ledger, None)?);
    }
    if json {
        present::json(&found);
    } else {
        present::text(&verification(&found));
    }
    Ok(ExitCode::from(u8::from(!found.intact)))
}

fn verification(found: &Verification) -> String {
    let mut out = String::new();
    for finding in &found.findings {
        let _ = writeln!(out, "row {}: {}", finding.seq, finding.text);
    }
    let verdict = if found.intact {
        paint(Stream::Stdout, Look::Good, "intact")
    } else {
        paint(Stream::Stdout, Look::Bad, "TAMPERED")
    };
    let _ = writeln!(
        out,
        "{verdict}: {} rows, {} signatures, {} epochs",
        found.rows, found.signatures, found.epochs
    );
    out
}

fn tail(
    ledger: &Path,
    filter: &Filter,
    follow: bool,
    limit: usize,
    as_text: fn(&Record) -> String,
) -> Result<(), Problem> {
    let reader = Reader::open(ledger, None)?;
    let mut seq = reader.last_seq()?;
    let mut newest = reader.page(filter, None, limit)?.records;
    newest.reverse();
    let mut out = std::io::stdout().lock();
    for record in &newest {
        if out.write_all(as_text(record).as_bytes()).is_err() {
            return Ok(());
        }
    }
    if !follow {
        return Ok(());
    }
    loop {
        let rows = reader.after(seq, ringfence_audit::LIMIT_MAX)?;
        for record in &rows {
            seq = record.seq;
            if filter.lets(record) && out.write_all(as_text(record).as_bytes()).is_err() {
                return Ok(());
            }
        }
        let _ = out.flush();
        if rows.is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn export(
    ledger: &Path,
    filter: &Filter,
    format: Format,
    out: Option<&Path>,
) -> Result<(), Problem> {
    let reader = Reader::open(ledger, None)?;
    let n = match out {
        None => {
            let mut out = Stdout::default();
            match reader.export(filter, format, &mut out) {
                // Its reader wanted no more.
                Err(_) if out.is_closed => return Ok(()),
                done => done?,
            }
        }
        Some(path) => {
            let cannot = |e: std::io::Error| {
                Problem::cannot_build(
                    Code::ExportFailed,
                    format!("cannot write `{}`", path.display()),
                )
                .cause(e)
            };
            let file = std::fs::File::create_new(path).map_err(cannot)?;
            let mut file = std::io::BufWriter::new(file);
            let n = reader.export(filter, format, &mut file)?;
            file.flush().map_err(cannot)?;
            n
        }
    };
    present::say(&format!("{n} rows"));
    Ok(())
}

/// Parses the command line's filter.
fn parse(filter: &AuditFilter, rows: bool) -> Result<Filter, Problem> {
    fn word<T: std::str::FromStr<Err = String>>(text: Option<&str>) -> Result<Option<T>, Problem> {
        let wrong = |e| Problem::usage(Code::BadFilter, e);
        text.map(str::parse).transpose().map_err(wrong)
    }
    Ok(Filter {
        run: filter.run.clone(),
        session: filter.session.clone(),
        client: filter.client.clone(),
        tool: filter.tool.clone(),
        status: word(filter.status.as_deref())?,
        risk: word(filter.risk.as_deref())?,
        kind: None,
        since_ms: filter.since.as_deref().map(moment).transpose()?,
        until_ms: filter.until.as_deref().map(moment).transpose()?,
        view: if rows { View::Rows } else { View::Runs },
    })
}

/// Parses a point in time: a duration ago (`2h`), or milliseconds since 1970.
fn moment(text: &str) -> Result<i64, Problem> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    let ago = |span: ringfence_spec::Span| i64::try_from(span.millis()).unwrap_or(i64::MAX);
    let units = [('d', 24), ('h', 1)];
    let hours = units.iter().find_map(|(unit, hours)| {
        text.strip_suffix(*unit)?.parse::<i64>().ok()?.checked_mul(*hours)
    });
    let ago = match hours {
        Some(hours) => hours.saturating_mul(3_600_000),
        None => text.parse().map(ago).map_err(|_| {
            Problem::usage(Code::BadMoment, format!("`{text}` is not a moment"))
                .hint("say how long ago, such as `90m`, `2h` or `7d`, or milliseconds since 1970")
        })?,
    };
    Ok(ringfence_audit::now_ms().saturating_sub(ago))
}

/// Stdout, which tells a reader that has closed it from other errors.
#[derive(Default)]
struct Stdout {
    is_closed: bool,
}

impl std::io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = std::io::stdout().lock().write(bytes);
        self.is_closed |=
            written.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().lock().flush()
    }
}

/// Digits of a run's id on a terminal. `audit show` takes the beginning of one.
const ID_CHARS: usize = 12;

/// Prints rows as a table; `every` adds their numbers and kinds.
fn show_table(records: &[Record], every: bool) {
    let is_terminal = style::is_terminal(Stream::Stdout);
    let or_dash = |text: Option<&str>| escape_name(text.unwrap_or("-")).into_owned();
    let row = |record: &Record| {
        let id = record.run_id.as_deref().unwrap_or("-");
        let id = if is_terminal { id.get(..ID_CHARS).unwrap_or(id) } else { id };
        let status = record.status.map(ringfence_audit::RunStatus::word);
        let mut row = vec![
            cell(id),
            cell(utc(record.at_ms)),
            (status.unwrap_or("-").to_owned(), status.map(look)),
            // Rows about sessions and the ledger itself have no tool.
            cell(or_dash(record.tool.as_deref().or(record.kind.map(ringfence_audit::Kind::word)))),
            cell(or_dash(record.client.as_deref())),
            cell(what(record)),
        ];
        if every {
            row.insert(0, cell(record.seq.to_string()));
            row.insert(2, cell(record.kind.map_or("-", ringfence_audit::Kind::word)));
        }
        row
    };
    let mut columns = vec![
        column("RUN"),
        column("TIME"),
        column("STATUS"),
        column("TOOL"),
        texts("CLIENT"),
        texts("WHAT"),
    ];
    if every {
        columns.insert(0, numbers("ROW"));
        columns.insert(2, column("KIND"));
    }
    table::print(&columns, &records.iter().map(row).collect::<Vec<_>>());
}

fn look(status: &str) -> Look {
    match status {
        "ok" => Look::Good,
        "error" | "running" | "interrupted" | "rejected" => Look::Warning,
        _ => Look::Bad,
    }
}

/// What a row is about: arguments, else the reason, else the hash of the code.
fn what(record: &Record) -> String {
    let detail = |key: &str| {
        let value = record.details.as_ref()?.get(key)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let what = detail("arguments").or_else(|| detail("reason")).or_else(|| detail("code_sha256"));
    escape_name(&what.unwrap_or_default()).into_owned()
}

/// A row as one line of JSON.
fn json_line(record: &Record) -> String {
    escape_json(serde_json::to_string(record).unwrap_or_default()) + "\n"
}

/// A row as one line for people.
fn line(record: &Record) -> String {
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let short = |text: &str, n: usize| escape_name(text).chars().take(n).collect::<String>();
    let what = short(&what(record), 60);
    format!(
        "{:>8}  {}  {:<10}  {:<11}  {:<12}  {:<16}  {what}\n",
        record.seq,
        utc(record.at_ms),
        or_dash(record.kind.map(ringfence_audit::Kind::word)),
        or_dash(record.status.map(ringfence_audit::RunStatus::word)),
        short(&or_dash(record.tool.as_deref()), 12),
        short(&or_dash(record.client.as_deref()), 16),
    )
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = escape_json(serde_json::to_string_pretty(value).unwrap_or_default());
    text.push('\n');
    text
}

/// Parses an export format.
fn format_of(name: &str) -> Result<Format, Problem> {
    match name {
        "jsonl" => Ok(Format::Jsonl),
        "csv" => Ok(Format::Csv),
        _ => Err(Problem::usage(Code::BadFormat, format!("`{name}` is not a format"))
            .hint("choose jsonl or csv")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_while_ago_or_a_number() {
        assert_eq!(moment("1234").unwrap(), 1234);
        let now = ringfence_audit::now_ms();
        for (text, ago) in [("2h", 7_200_000), ("7d", 604_800_000), ("90s", 90_000)] {
            assert!((now - moment(text).unwrap() - ago).abs() < 1000, "{text}");
        }
        assert!(moment("yesterday").is_err());
    }
}
