//! Filters and pages. A page is found by the index: for each block of rows, one bit per row and word, combined. So a
//! page costs about the same however rare the words are.

use std::collections::{HashMap, HashSet};

use ringfence_spec::{Code, Problem};
use rusqlite::params;
use serde::Serialize;

use crate::columns::{Kind, Risk, RunStatus};
use crate::index::{Bits, Column, block_of, closed_blocks, first_of, position_of};
use crate::line::Line;
use crate::reader::{FoundRun, Reader, limit_of, run_prefix};
use crate::record::Record;

/// Blocks read together: a quarter of a million rows.
const WINDOW_BLOCKS: i64 = 256;
/// Maximum number of runs that a prefix of an id may match.
const RUNS_MAX: usize = 100_000;

/// Selects rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Runs whose id begins with this.
    pub run: Option<String>,
    /// Rows of this session.
    pub session: Option<String>,
    /// Rows of this client.
    pub client: Option<String>,
    /// Rows of this tool.
    pub tool: Option<String>,
    /// Rows with this status.
    pub status: Option<RunStatus>,
    /// Rows with this risk.
    pub risk: Option<Risk>,
    /// Rows of this kind.
    pub kind: Option<Kind>,
    /// Rows at or after this time.
    pub since_ms: Option<i64>,
    /// Rows before this time.
    pub until_ms: Option<i64>,
    /// Selects among a run's rows.
    pub view: View,
}

/// The rows of a run that a page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// One row for each run: its end, or its start if it has no end yet; and every other row.
    #[default]
    Runs,
    /// All rows.
    Rows,
}

/// Some rows, the newest first.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The rows.
    pub records: Vec<Record>,
    /// Cursor of the next page; null at the end.
    pub next: Option<String>,
}

impl Filter {
    /// Refuses values whose form cannot match any row.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if let Some(run) = &self.run {
            run_prefix(run)?;
        }
        match (self.since_ms, self.until_ms) {
            (Some(since), Some(until)) if since >= until => {
                Err(Problem::usage(Code::PeriodInvalid, "the period ends before it begins"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a row with this status matches, whatever `view` selects.
    pub(crate) fn matches(&self, line: &Line, status: Option<RunStatus>) -> bool {
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let word = |wanted: Option<&str>, found: Option<&str>| wanted.is_none() || wanted == found;
        let run = self.run.as_deref().map(str::to_ascii_lowercase);
        run.is_none_or(|prefix| line.run_id.as_ref().is_some_and(|id| id.starts_with(&prefix)))
            && same(&self.session, &line.session)
            && same(&self.client, &line.client)
            && same(&self.tool, &line.tool)
            && word(self.risk.map(Risk::word), line.risk.as_deref())
            && word(self.kind.map(Kind::word), Some(&line.kind))
            && self.since_ms.is_none_or(|since| line.at_ms >= since)
            && self.until_ms.is_none_or(|until| line.at_ms < until)
            && self.status.is_none_or(|wanted| status == Some(wanted))
    }

    /// Returns true if a record matches.
    pub fn lets(&self, record: &Record) -> bool {
        fn same<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let run = self.run.as_deref().map(str::to_ascii_lowercase);
        run.is_none_or(|prefix| record.run_id.as_ref().is_some_and(|id| id.starts_with(&prefix)))
            && same(self.session.as_ref(), record.session.as_ref())
            && same(self.client.as_ref(), record.client.as_ref())
            && same(self.tool.as_ref(), record.tool.as_ref())
            && same(self.risk.as_ref(), record.risk.as_ref())
            && same(self.kind.as_ref(), record.kind.as_ref())
            && same(self.status.as_ref(), record.status.as_ref())
            && self.since_ms.is_none_or(|since| record.at_ms >= since)
            && self.until_ms.is_none_or(|until| record.at_ms < until)
    }

    /// The words a row must have, except its status.
    fn terms(&self) -> Vec<String> {
        let text = |column: Column, word: Option<&str>| word.map(|word| column.term(word));
        [
            text(Column::Session, self.session.as_deref()),
            text(Column::Client, self.client.as_deref()),
            text(Column::Tool, self.tool.as_deref()),
            text(Column::Risk, self.risk.map(Risk::word)),
            text(Column::Kind, self.kind.map(Kind::word)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns true if a run without an end can match.
    fn wants_open(&self) -> bool {
        matches!(self.status, None | Some(RunStatus::Running | RunStatus::Interrupted))
    }
}

impl Reader {
    /// A page of rows, the newest first; `cursor` is the `next` of the page before.
    pub fn page(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page, Problem> {
        filter.check()?;
        let limit = limit_of(limit)?;
        let below = cursor.map_or(Ok(i64::MAX), parse_cursor)?;
        let mut found = MatchedRows { filter, reader: self, limit, records: Vec::new() };
        let unindexed = self.unindexed()?;
        let ended: HashSet<&str> = unindexed
            .iter()
            .filter(|line| line.kind.parse().is_ok_and(Kind::is_end))
            .filter_map(|line| line.run_id.as_deref())
            .collect();
        for line in unindexed.iter().rev().filter(|line| line.seq < below) {
            let is_start = line.kind.parse().is_ok_and(Kind::is_start);
            let has_end = line.run_id.as_deref().is_some_and(|id| ended.contains(id));
            if is_start && has_end && filter.view == View::Runs {
                continue;
            }
            if found.add(line.clone()) {
                return Ok(found.page());
            }
        }
        if filter.run.is_some() {
            self.page_of_runs(&mut found, below, unindexed.first())?;
        } else {
            self.page_of_blocks(&mut found, below, &ended)?;
        }
        Ok(found.page())
    }

    /// Rows of the runs whose id begins with the filter's prefix.
    fn page_of_runs(
        &self,
        found: &mut MatchedRows<'_>,
        below: i64,
        unindexed: Option<&Line>,
    ) -> Result<(), Problem> {
        let prefix = run_prefix(found.filter.run.as_deref().unwrap_or_default())?;
        let runs = self.find_runs(&prefix, RUNS_MAX)?;
        let below = below.min(unindexed.map_or(i64::MAX, |line| line.seq));
        let view = found.filter.view;
        let rows_of = |(_, start, end): &FoundRun| match view {
            View::Runs => [end.or(*start), None],
            View::Rows => [*start, *end],
        };
        let mut seqs: Vec<i64> = runs.iter().flat_map(rows_of).flatten().collect();
        seqs.retain(|seq| *seq < below);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        for seq in seqs {
            let Some(line) = self.line(seq)? else { continue };
            if found.add(line) {
                break;
            }
        }
        Ok(())
    }

    /// Rows by the index, from the newest block down.
    fn page_of_blocks(
        &self,
        found: &mut MatchedRows<'_>,
        below: i64,
        ended: &HashSet<&str>,
    ) -> Result<(), Problem> {
        let closed = self.sql(closed_blocks(&self.db))?;
        let mut last = block_of(below.min(first_of(closed)) - 1).min(closed - 1);
        while last >= 0 {
            let first = (last - WINDOW_BLOCKS + 1).max(0);
            let window = self.window(found.filter, first, last, ended)?;
            for block in (first..=last).rev() {
                let Some(bits) = window.get(&block) else { continue };
                for position in bits.descending() {
                    let seq = first_of(block) + i64::try_from(position).unwrap_or(0);
                    if seq >= below {
                        continue;
                    }
                    let Some(line) = self.line(seq)? else { continue };
                    if found.add(line) {
                        return Ok(());
                    }
                }
            }
            last = first - 1;
        }
        Ok(())
    }

    /// For each block from `first` to `last`, the rows that can match.
    fn window(
        &self,
        filter: &Filter,
        first: i64,
        last: i64,
        ended: &HashSet<&str>,
    ) -> Result<HashMap<i64, Bits>, Problem> {
        let mut blocks = self.blocks_in_time(filter, first, last)?;
        for term in filter.terms() {
            let marks = self.marks(&term, first, last)?;
            for (block, bits) in &mut blocks {
                bits.and(marks.get(block).unwrap_or(&Bits::NONE));
            }
        }
        let mut open = HashMap::new();
        if filter.wants_open() && filter.view == View::Runs {
            open = self.open_starts(first, last, ended)?;
        }
        let status = match filter.status {
            Some(status) => Some(self.marks(&Column::Status.term(status.word()), first, last)?),
            None => None,
        };
        let (mut starts, mut call_starts) = (HashMap::new(), HashMap::new());
        if filter.view == View::Runs {
            starts = self.marks(&Column::Kind.term(Kind::RunStart.word()), first, last)?;
            call_starts = self.marks(&Column::Kind.term(Kind::CallStart.word()), first, last)?;
        }
        for (block, bits) in &mut blocks {
            let mut stands_open = *bits;
            stands_open.and(open.get(block).unwrap_or(&Bits::NONE));
            if let Some(status) = &status {
                bits.and(status.get(block).unwrap_or(&Bits::NONE));
            }
            bits.without(starts.get(block).unwrap_or(&Bits::NONE));
            bits.without(call_starts.get(block).unwrap_or(&Bits::NONE));
            bits.or(&stands_open);
        }
        blocks.retain(|_, bits| !bits.is_empty());
        Ok(blocks)
    }

    fn blocks_in_time(
        &self,
        filter: &Filter,
        first: i64,
        last: i64,
    ) -> Result<HashMap<i64, Bits>, Problem> {
        let since = filter.since_ms.unwrap_or(i64::MIN);
        let until = filter.until_ms.unwrap_or(i64::MAX);
        let get = || {
            let mut statement = self.db.prepare_cached(
                "SELECT block FROM spans WHERE block BETWEEN ?1 AND ?2 AND at_max >= ?3 AND at_min < ?4",
            )?;
            let rows = statement
                .query_map([first, last, since, until], |row| Ok((row.get(0)?, Bits::ALL)))?;
            rows.collect::<rusqlite::Result<HashMap<_, _>>>()
        };
        self.sql(get())
    }

    fn marks(&self, term: &str, first: i64, last: i64) -> Result<HashMap<i64, Bits>, Problem> {
        let get = || {
            let mut statement = self.db.prepare_cached(
                "SELECT block, bits FROM marks WHERE term = ?1 AND block BETWEEN ?2 AND ?3",
            )?;
            let rows = statement.query_map(params![term, first, last], |row| {
                Ok((row.get(0)?, Bits::decode(row.get_ref(1)?.as_blob()?)))
            })?;
            rows.collect::<rusqlite::Result<HashMap<_, _>>>()
        };
        self.sql(get())
    }

    /// Starts without an end, except those that ended since.
    fn open_starts(
        &self,
        first: i64,
        last: i64,
        ended: &HashSet<&str>,
    ) -> Result<HashMap<i64, Bits>, Problem> {
        let mut blocks: HashMap<i64, Bits> = HashMap::new();
        let mut get = || {
            let mut statement = self.db.prepare_cached(
                "SELECT start_seq, run_id FROM runs WHERE end_seq IS NULL AND start_seq BETWEEN ?1 AND ?2",
            )?;
            let mut rows = statement.query([first_of(first), first_of(last + 1) - 1])?;
            while let Some(row) = rows.next()? {
                if ended.contains(row.get_ref(1)?.as_str()?) {
                    continue;
                }
                let seq: i64 = row.get(0)?;
                blocks.entry(block_of(seq)).or_insert(Bits::NONE).set(position_of(seq));
            }
            Ok(())
        };
        self.sql(get())?;
        Ok(blocks)
    }
}

/// Rows found so far.
struct MatchedRows<'a> {
    filter: &'a Filter,
    reader: &'a Reader,
    limit: usize,
    records: Vec<Record>,
}

impl MatchedRows<'_> {
    /// Adds the row if it matches; true when there are enough.
    fn add(&mut self, line: Line) -> bool {
        let stored = line.status.as_deref().and_then(|word| word.parse().ok());
        let is_start = line.kind.parse().is_ok_and(Kind::is_start);
        let status = match stored {
            // With one row for each run, a start is listed only if it has no end.
            None if is_start && self.filter.view == View::Runs => Some(self.reader.standing(&line)),
            stored => stored,
        };
        if self.filter.matches(&line, status) {
            let mut record = self.reader.record(line);
            record.status = status;
            self.records.push(record);
        }
        // One more than the limit, to know whether there is a next page.
        self.records.len() > self.limit
    }

    fn page(mut self) -> Page {
        let more = self.records.len() > self.limit;
        self.records.truncate(self.limit);
        let last = self.records.last().filter(|_| more);
        let next = last.map(|record| format!("c{:x}", record.seq));
        Page { records: self.records, next }
    }
}

fn parse_cursor(text: &str) -> Result<i64, Problem> {
    let seq = text.strip_prefix('c').and_then(|digits| i64::from_str_radix(digits, 16).ok());
    seq.filter(|seq| *seq > 0).ok_or_else(|| {
        Problem::usage(Code::CursorInvalid, format!("{text:?} is no cursor"))
            .hint("give the `next` of the page before, or none for the first page")
    })
}
