//! `ringfence audit`: reads and verifies the ledger.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ringfence_audit::{
    Anchor, Durability, Expectations, Filter, Finding, Format, Ledger, LedgerSettings, Reader,
    Record, StorageSettings, Verification, View, verify, verify_archive,
};
use ringfence_engine::HostContext;
use ringfence_server::notify::Destination;
use ringfence_spec::invisible::escape_unseen;
use ringfence_spec::{Code, Problem, escape_json, escape_name, shell_word, utc};

use crate::cli::{AuditArgs, AuditCommand, AuditFilter};
use crate::commands::local::data_dir;
use crate::present;
use crate::settings::{Surroundings, invalid_url, is_address};
use crate::style::{self, Look, Stream, paint};
use crate::table::{self, Cell, Column, Table, cell, column, numbers, texts};

/// Poll interval of `tail -f`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the subcommand. `verify` exits 1 if the ledger was tampered with.
pub(crate) fn audit(args: &AuditArgs) -> ExitCode {
    match attempt(args) {
        Ok(code) => code,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &AuditArgs) -> Result<ExitCode, Problem> {
    let around = Surroundings::real(false)?;
    let data = data_dir(args.shared.data_dir.as_deref(), &around)?;
    let ledger = data.join("ledger");
    let caller = || HostContext::here(&data);
    match &args.command {
        AuditCommand::Ls { filter, limit, after, rows } => {
            let filter = parse(filter, *rows)?;
            let page = Reader::open(&ledger, None)?.page(&filter, after.as_deref(), *limit)?;
            if args.shared.json {
                present::json(&page);
            } else {
                let form = if *rows { Form::WithRowNumbers } else { Form::Runs };
                table::print(&columns(form), &cells(&page.records, form));
                if let Some(next) = page.next {
                    present::note(&format!("more: --after {next}"));
                }
            }
        }
        AuditCommand::Show { run } => {
            print(&Reader::open(&ledger, None)?.show(run)?, args.shared.json);
        }
        AuditCommand::Tail { filter, follow, limit } => {
            tail(&ledger, &parse(filter, true)?, *follow, *limit, args.shared.json)?;
        }
        AuditCommand::Export { filter, format, out } => {
            let format = format_of(format)?;
            let out = out.as_deref().map(|file| caller()?.without_planted_links(file, "--out"));
            export(&ledger, &parse(filter, true)?, format, out.transpose()?.as_deref())?;
        }
        AuditCommand::Report { since, until } => {
            let at = |text: &Option<String>| text.as_deref().map(moment).transpose();
            print(&Reader::open(&ledger, None)?.report(at(since)?, at(until)?)?, args.shared.json);
        }
        AuditCommand::Verify { archive: Some(archive), .. } => {
            return archive_verified(archive, args.shared.json);
        }
        AuditCommand::Verify { anchor, archive: None } => {
            return verified(&ledger, anchor.as_deref(), args.shared.json);
        }
        AuditCommand::Anchor { to, webhook, command } => {
            let to = to.as_deref().map(|file| caller()?.without_planted_links(file, "--to"));
            let to = to.transpose()?;
            present::json(&anchor(&ledger, destination(to, webhook.as_deref(), command)?)?);
        }
        AuditCommand::Settings { durability, key_file } => {
            let key_file = key_file.as_deref();
            present::json(&settings(&ledger, durability.as_deref(), key_file, &around.cwd)?);
        }
        AuditCommand::Expire { before } => {
            let before = before.as_deref().map(moment).transpose()?;
            let before =
                before.unwrap_or_else(|| ringfence_audit::now_ms() - ringfence_audit::RETENTION_MS);
            present::json(&open(&ledger)?.expire(before)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a value as JSON: on one line with `--json`, else laid out.
fn print(value: &impl serde::Serialize, json: bool) {
    if json {
        present::json(value);
    } else {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        present::print_line(&escape_json(text));
    }
}

fn open(ledger: &Path) -> Result<Ledger, Problem> {
    Ledger::open(ledger, LedgerSettings::new(ringfence_engine::redact))
}

/// Parses where an anchor is sent.
fn destination(
    file: Option<PathBuf>,
    webhook: Option<&str>,
    command: &[String],
) -> Result<Option<Destination>, Problem> {
    Ok(match (file, webhook, command) {
        (Some(file), ..) => Some(Destination::File(file)),
        (_, Some(url), _) if !is_address(url) => return Err(invalid_url(url)),
        (_, Some(url), _) => Some(Destination::Webhook(url.to_owned())),
        (.., []) => None,
        (.., words) => Some(Destination::Command(words.to_vec())),
    })
}

fn anchor(ledger: &Path, to: Option<Destination>) -> Result<Anchor, Problem> {
    let ledger = open(ledger)?;
    match to {
        Some(to) => ledger.anchor_to(&mut |line: &str| to.send(line)),
        None => ledger.anchor(),
    }
}

/// Changes the settings that are given, and returns all. The key file `none` removes it.
fn settings(
    ledger: &Path,
    durability: Option<&str>,
    key_file: Option<&Path>,
    cwd: &Path,
) -> Result<StorageSettings, Problem> {
    let mut settings = StorageSettings::read(ledger)?;
    let is_changed = durability.is_some() || key_file.is_some();
    if let Some(word) = durability {
        settings.durability = durability_of(word)?;
    }
    if let Some(file) = key_file {
        settings.key_file = (file != Path::new("none")).then(|| cwd.join(file));
    }
    if is_changed {
        settings.write(ledger)?;
    }
    Ok(settings)
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
        let Verification { rows, rows_total, signatures, epochs, .. } = &found;
        let counts = if found.intact {
            format!("{rows} rows, {signatures} signatures, {epochs} epochs")
        } else {
            format!("{rows} of {rows_total} rows verified")
        };
        present::text(&verdict(&found.findings, found.intact, &counts));
        if !found.intact {
            let dir = shell_word(&ledger.to_string_lossy()).into_owned();
            present::note(&format!("keep a copy for inquiry: `cp -a {dir} ELSEWHERE`"));
            if anchor.is_none() {
                present::note(
                    "compare it with anchors that were stored elsewhere, if there are some: `ringfence audit verify --anchor FILE`",
                );
            }
        }
    }
    Ok(ExitCode::from(u8::from(!found.intact)))
}

/// Verifies an archive by itself.
fn archive_verified(archive: &Path, json: bool) -> Result<ExitCode, Problem> {
    let found = verify_archive(archive, None)?;
    if json {
        present::json(&found);
    } else {
        let root = found.root.map(|root| serde_json::to_value(root).unwrap_or_default());
        let root = root.as_ref().and_then(|root| root.as_str()).unwrap_or("none");
        let counts = format!("{} rows, root key {root}", found.rows);
        present::text(&verdict(&found.findings, found.intact, &counts));
    }
    Ok(ExitCode::from(u8::from(!found.intact)))
}

/// The findings, a line each, and what they come to.
fn verdict(findings: &[Finding], intact: bool, counts: &str) -> String {
    let mut out = String::new();
    for finding in findings {
        let _ = writeln!(out, "{}", finding.text);
    }
    if intact {
        let _ = writeln!(out, "{}: {counts}", paint(Stream::Stdout, Look::Good, "intact"));
        return out;
    }
    let n = match findings.len() {
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    };
    let row = findings.iter().find_map(Finding::row);
    let row = row.map_or_else(String::new, |row| format!(", first at row {row}"));
    let verdict = paint(Stream::Stdout, Look::Bad, "TAMPERED");
    let _ = writeln!(out, "{verdict}: {n}{row}; {counts}");
    out
}

fn tail(
    ledger: &Path,
    filter: &Filter,
    follow: bool,
    limit: usize,
    json: bool,
) -> Result<(), Problem> {
    let columns = columns(Form::WithRowNumbers);
    let mut table = Table::new(&columns);
    let mut print = |records: &[Record]| {
        if json {
            records.iter().for_each(present::json);
        } else {
            table.print(&cells(records, Form::WithRowNumbers));
            present::flush();
        }
    };
    let reader = Reader::open(ledger, None)?;
    let mut seq = reader.last_seq()?;
    let mut newest = reader.page(filter, None, limit)?.records;
    newest.reverse();
    print(&newest);
    while follow && present::can_print() {
        let mut rows = reader.after(seq, ringfence_audit::LIMIT_MAX)?;
        if rows.is_empty() {
            std::thread::sleep(POLL_INTERVAL);
        }
        seq = rows.last().map_or(seq, |record| record.seq);
        rows.retain(|record| filter.lets(record));
        print(&rows);
    }
    Ok(())
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
            match reader.export(filter, format, &mut present::Stdout) {
                // Its reader wanted no more.
                Err(_) if present::is_closed() => return Ok(()),
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
    present::note(&format!("{n} rows"));
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
    // Fewer digits were in 1973: seconds, or a number that was meant with a unit.
    const MS_MIN: i64 = 100_000_000_000;
    if let Ok(ms) = text.parse::<i64>() {
        if ms == 0 || ms >= MS_MIN {
            return Ok(ms);
        }
        return Err(Problem::usage(Code::BadMoment, format!("`{text}` has no unit")).hint(
            "say how long ago, such as `90m`, `2h` or `7d`; milliseconds since 1970 have 13 digits",
        ));
    }
    let ago = |span: ringfence_spec::Span| i64::try_from(span.millis()).unwrap_or(i64::MAX);
    let units = [('d', 24), ('h', 1)];
    let hours = units.iter().find_map(|(unit, hours)| {
        text.strip_suffix(*unit)?.parse::<i64>().ok()?.checked_mul(*hours)
    });
    let ago = match hours {
        Some(hours) => hours.saturating_mul(3_600_000),
        None => text.parse().map(ago).map_err(|_| {
            Problem::usage(Code::BadMoment, format!("`{text}` is not a time"))
                .hint("say how long ago, such as `90m`, `2h` or `7d`, or milliseconds since 1970")
        })?,
    };
    Ok(ringfence_audit::now_ms().saturating_sub(ago))
}

/// Digits of a run's id on a terminal. `audit show` takes the beginning of one.
const ID_CHARS: usize = 12;

/// Columns of a table of records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One line for each run.
    Runs,
    /// One line for each row of the ledger, with its number and kind.
    WithRowNumbers,
}

fn columns(form: Form) -> Vec<Column> {
    let mut columns = vec![
        column("RUN"),
        column("TIME"),
        column("STATUS"),
        column("TOOL"),
        texts("CLIENT"),
        texts("WHAT"),
    ];
    if form == Form::WithRowNumbers {
        columns.insert(0, numbers("ROW"));
        columns.insert(2, column("KIND"));
    }
    columns
}

fn cells(records: &[Record], form: Form) -> Vec<Vec<Cell>> {
    let is_terminal = style::is_terminal(Stream::Stdout);
    let or_dash = |text: Option<&str>| escape_name(text.unwrap_or("-")).into_owned();
    let row = |record: &Record| {
        let id = record.run_id.as_deref().unwrap_or("-");
        let id = if is_terminal { id.get(..ID_CHARS).unwrap_or(id) } else { id };
        let status = record.status.map(ringfence_audit::RunStatus::word);
        let kind = record.kind.map(ringfence_audit::Kind::word);
        let mut row = vec![
            cell(id),
            cell(utc(record.at_ms)),
            (status.unwrap_or("-").to_owned(), status.map(status_look)),
            // Rows about sessions and the ledger itself have no tool.
            cell(or_dash(record.tool.as_deref().or(kind))),
            cell(or_dash(record.client.as_deref())),
            cell(summary(record)),
        ];
        if form == Form::WithRowNumbers {
            row.insert(0, cell(record.seq.to_string()));
            row.insert(2, cell(kind.unwrap_or("-")));
        }
        row
    };
    records.iter().map(row).collect()
}

fn status_look(status: &str) -> Look {
    match status {
        "ok" => Look::Good,
        "error" | "running" | "interrupted" | "rejected" => Look::Warning,
        _ => Look::Bad,
    }
}

/// Characters of a row's subject that are shown.
const SUMMARY_CHARS_MAX: usize = 300;

/// Subject of a row: its arguments, else the reason, else hash and size of the code, which is not kept.
fn summary(record: &Record) -> String {
    let detail = |key: &str| {
        let value = record.details.as_ref()?.get(key)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let code = || {
        let (hash, bytes) = (detail("code_sha256")?, detail("code_bytes")?);
        Some(format!("code {}, {bytes} bytes", hash.get(..ID_CHARS).unwrap_or(&hash)))
    };
    let text = detail("arguments").or_else(|| detail("reason")).or_else(code).unwrap_or_default();
    // Between no quotation marks that a backquote of the text could end.
    let shown = escape_unseen(&text, |_| false);
    match shown.char_indices().nth(SUMMARY_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &shown[..at]),
        None => shown,
    }
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
        assert_eq!(moment("0").unwrap(), 0);
        assert_eq!(moment("1784000000000").unwrap(), 1_784_000_000_000);
        for text in ["90", "1784000000", "-5"] {
            assert_eq!(moment(text).unwrap_err().message, format!("`{text}` has no unit"));
        }
        let now = ringfence_audit::now_ms();
        for (text, ago) in [("2h", 7_200_000), ("7d", 604_800_000), ("90s", 90_000)] {
            assert!((now - moment(text).unwrap() - ago).abs() < 1000, "{text}");
        }
        assert!(moment("yesterday").is_err());
    }
}
