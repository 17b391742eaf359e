//! Rows in a file of their own, which verifies without the ledger: a header with every key back to the first, the rows
//! as they are stored, a footer that signs the hash of all before it.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::compaction::{LINE_COLUMNS, line_of};
use crate::digest::Digest;
use crate::dir::{ARCHIVES, LedgerDir};
use crate::entry::now_ms;
use crate::errors;
use crate::finding::{Finding, FindingKind};
use crate::keys::{KeyBody, PublicKey, Purpose, Signed};
use crate::line::Line;
use crate::store::Store;

/// Maximum line length; the ledger writes none longer.
const LINE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    ringfence_archive: u32,
    made_ms: i64,
    reason: String,
    rows: usize,
    keys: Vec<KeyBody>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArchivedRow {
    /// The chain's value before the row, so that each can be checked alone.
    previous: Digest,
    row: Line,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Footer {
    sha256: Digest,
    epoch: i64,
    signature: Signed,
}

/// Result of [`verify_archive`].
#[derive(Clone, Debug, Serialize)]
pub struct ArchiveCheck {
    /// True if there are no findings.
    pub intact: bool,
    /// Number of rows checked.
    pub rows: usize,
    /// The public half of the ledger's first key; compare it with the one you kept.
    pub root: Option<PublicKey>,
    /// Faults by row; row 0 is the file itself.
    pub findings: Vec<Finding>,
}

/// Writes the rows `seqs` to a new archive; returns its path, and the digest that it signs.
pub(crate) fn write(
    store: &mut Store,
    seqs: &[i64],
    reason: &str,
) -> Result<(PathBuf, Digest), Problem> {
    let (place, epoch) = store.settled()?;
    let secret = store.secret_of(epoch)?.clone();
    let home = store.home.make_dir(ARCHIVES)?;
    let (first, last) = (seqs.first().unwrap_or(&0), seqs.last().unwrap_or(&0));
    let name = format!("rows-{first}-{last}-at-{}.jsonl", place.seq);
    let draft = format!("{name}.new");
    let file = home.draft(&draft)?;
    let written = write_rows(store, &file, seqs, reason).and_then(|sha256| {
        let footer =
            Footer { sha256, epoch, signature: secret.sign(Purpose::Archive, &[sha256.bytes()]) };
        let line = serde_json::to_string(&footer).unwrap_or_default();
        writeln!(&file, "{line}").map_err(|e| errors::from_io(&home.join(&name), "write", &e))?;
        home.publish(&file, &draft, &name)?;
        Ok(sha256)
    });
    if written.is_err() {
        // The draft is overwritten by the next attempt.
        let _ = home.remove(&draft);
    }
    Ok((home.join(&name), written?))
}

fn write_rows(
    store: &mut Store,
    file: &File,
    seqs: &[i64],
    reason: &str,
) -> Result<Digest, Problem> {
    let path = store.home.path().to_owned();
    let io = |e: std::io::Error| errors::from_io(&path, "write", &e);
    let keys = keys(store)?;
    let Some(db) = &store.db else { return Ok(Digest::ZERO) };
    let mut out = Hashed { out: BufWriter::new(file), hash: Sha256::new() };
    let (rows, reason) = (seqs.len(), reason.to_owned());
    let header = Header { ringfence_archive: 1, made_ms: now_ms(), reason, rows, keys };
    out.line(&header).map_err(io)?;
    let query = format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq = ?1");
    let mut row = store.sql(db.prepare(&query))?;
    let mut before = store.sql(db.prepare("SELECT chain FROM entries WHERE seq = ?1"))?;
    for seq in seqs {
        let line = store.sql(row.query_row([seq], line_of))?;
        let previous = before.query_row([seq - 1], |row| row.get(0).map(Digest::from_bytes));
        let previous = if *seq == 1 { Digest::ZERO } else { store.sql(previous)? };
        out.line(&ArchivedRow { previous, row: line }).map_err(io)?;
    }
    out.out.flush().map_err(io)?;
    Ok(Digest::from_bytes(out.hash.finalize().into()))
}

/// Every key of the ledger, oldest first.
fn keys(store: &mut Store) -> Result<Vec<KeyBody>, Problem> {
    let late = store.intake_lines()?;
    let Some(db) = &store.db else { return Ok(Vec::new()) };
    let get = || {
        let query = format!("SELECT {LINE_COLUMNS} FROM entries WHERE kind = 'key' ORDER BY seq");
        let mut statement = db.prepare(&query)?;
        let lines = statement.query_map([], line_of)?;
        lines.collect::<rusqlite::Result<Vec<Line>>>()
    };
    let mut lines = store.sql(get())?;
    let last = lines.last().map_or(0, |line| line.seq);
    lines.extend(late.into_iter().filter(|line| line.kind == "key" && line.seq > last));
    Ok(lines.iter().filter_map(Line::parse_body).collect())
}

struct Hashed<'a> {
    out: BufWriter<&'a File>,
    hash: Sha256,
}

impl Hashed<'_> {
    fn line(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.hash.update(&text);
        self.out.write_all(&text)
    }
}

/// Verifies an archive by itself: every byte of it, and every signature back to the first key. With `root` that key
/// must be the given one; without it, compare [`ArchiveCheck::root`] with the one you kept.
pub fn verify_archive(path: &Path, root: Option<PublicKey>) -> Result<ArchiveCheck, Problem> {
    let unreadable = |cause: &dyn std::fmt::Display| {
        Problem::usage(Code::ArchiveUnreadable, format!("cannot read the archive {path:?}"))
            .cause(cause)
    };
    let file = ringfence_sys::untrusted::open_trusted(path).map_err(|e| unreadable(&e))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut check = Checking::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = std::io::Read::take(&mut reader, LINE_BYTES_MAX);
        let n = bounded.read_until(b'\n', &mut line).map_err(|e| unreadable(&e))?;
        if n == 0 {
            break;
        }
        check.take(&line);
    }
    Ok(check.answer(root))
}

#[derive(Default)]
struct Checking {
    header: Option<Header>,
    hash: Sha256,
    /// The line read last, held back until the next one arrives: the last line of the file is the footer.
    held: Option<Vec<u8>>,
    rows: usize,
    findings: Vec<Finding>,
}

impl Checking {
    fn take(&mut self, line: &[u8]) {
        if let Some(previous) = self.held.replace(line.to_vec()) {
            self.hash.update(&previous);
            self.body_line(&previous);
        }
    }

    fn body_line(&mut self, line: &[u8]) {
        if self.header.is_none() {
            match serde_json::from_slice::<Header>(line) {
                Ok(header) if header.ringfence_archive == 1 => self.header = Some(header),
                _ => self.wrong(0, FindingKind::Edited, "the file does not begin like an archive"),
            }
            return;
        }
        self.rows += 1;
        let Ok(ArchivedRow { previous, row }) = serde_json::from_slice(line) else {
            let n = self.rows + 1;
            return self.wrong(0, FindingKind::Edited, &format!("line {n} is no row"));
        };
        if !row.follows(&previous) || !row.body_is_whole() {
            let text = format!("row {}: it is not what was written", row.seq);
            self.wrong(row.seq, FindingKind::Edited, &text);
        }
    }

    /// Checks the footer against its key, and each key against the one before it.
    fn signatures(&mut self, footer: &Footer, keys: &[KeyBody]) {
        let by = keys.iter().find(|key| key.epoch == footer.epoch);
        let signed = by.is_some_and(|key| {
            let content: [&[u8]; 1] = [footer.sha256.bytes()];
            key.public.has_signed(&footer.signature, Purpose::Archive, footer.epoch, &content)
        });
        if !signed {
            self.wrong(0, FindingKind::BadSignature, "the last line is not signed by its key");
        }
        let mut signer = keys.first().map(|key| key.public);
        for (n, key) in (1..).zip(keys) {
            let good = key.epoch == n && signer.is_some_and(|signer| key.is_signed_by(&signer));
            if !good {
                let text = format!("the key of epoch {n} is not signed by the one before it");
                self.wrong(key.after.seq + 1, FindingKind::BadKey, &text);
            }
            signer = Some(key.public);
        }
    }

    fn wrong(&mut self, seq: i64, fault: FindingKind, text: &str) {
        // The first hundred are enough to diagnose the file.
        if self.findings.len() < 100 {
            self.findings.push(Finding::new(seq, fault, text));
        }
    }

    fn answer(mut self, root: Option<PublicKey>) -> ArchiveCheck {
        let last = self.held.take().unwrap_or_default();
        let digest = Digest::from_bytes(std::mem::take(&mut self.hash).finalize().into());
        let header = self.header.take();
        let keys = header.as_ref().map_or(&[][..], |header| &header.keys);
        let first = keys.first().map(|key| key.public);
        let footer: Option<Footer> = serde_json::from_slice(&last).ok();
        // Accept one spelling only, or a byte could change without being noticed.
        let footer = footer.filter(|footer| {
            serde_json::to_vec(footer).is_ok_and(|text| [&text[..], b"\n"].concat() == last)
        });
        match &footer {
            None => self.wrong(0, FindingKind::Truncated, "the file does not end like an archive"),
            Some(footer) if footer.sha256 != digest => {
                self.wrong(0, FindingKind::Edited, "the content is not what was signed");
            }
            Some(footer) => self.signatures(footer, keys),
        }
        if header.as_ref().is_some_and(|header| header.rows != self.rows) {
            self.wrong(
                0,
                FindingKind::Missing,
                "there are not as many rows as the first line says",
            );
        }
        if root.is_some() && root != first {
            self.wrong(0, FindingKind::BadKey, "the first key is not the one that was kept");
        }
        let (rows, findings) = (self.rows, self.findings);
        ArchiveCheck { intact: findings.is_empty(), rows, root: first, findings }
    }
}

/// The archives of a ledger, by name.
pub(crate) fn list(home: &LedgerDir) -> Result<Vec<PathBuf>, Problem> {
    let archives = match LedgerDir::open(&home.join(ARCHIVES)) {
        Ok(archives) => archives,
        Err(problem) if problem.code == Code::LedgerMissing => return Ok(Vec::new()),
        Err(problem) => return Err(problem),
    };
    let mut names = archives.names()?;
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "jsonl"));
    names.sort();
    Ok(names.iter().map(|name| archives.join(name)).collect())
}
