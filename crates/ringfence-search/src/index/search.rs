//! Answers a query: adds up the scores of all chunks term by term, picks the best files, and applies the ranker to them.

use std::collections::HashMap;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::builder::length_of;
use super::segment::{Segment, TermEntry};
use super::{Field, IndexError, Snapshot};
use crate::chunk::Language;
use crate::file_kind::FileKind;
use crate::rank::{Asked, Hit, Mode, PathWords, Query, Shape, Weights};

/// Files that the ranker looks at, beside those that define a name of the query.
const FILES_RANKED: usize = 80;

/// Chunks of a file that are kept.
const CHUNKS_KEPT: usize = 4;

/// All of them but the best, as a factor.
const CHUNKS_MORE: f32 = 3.0;

/// Definitions of a name that are looked at, in each segment.
const DEFINITIONS_MAX: usize = 200;

/// Maximum bytes of a glob, globs of a query and alternatives of a glob.
const GLOB_BYTES_MAX: usize = 512;
const GLOBS_MAX: usize = 32;
const GLOB_CHOICES_MAX: usize = 32;

const COUNTS: usize = super::postings::COUNT_MAX as usize + 1;

/// Answers a query. `scores` is a buffer that is kept between searches: a new one of some MB costs a page fault for every
/// page.
pub(crate) fn search(
    snapshot: &Snapshot,
    query: &Query,
    weights: &Weights,
    scores: &mut Vec<f32>,
) -> Result<Vec<Hit>, IndexError> {
    let asked = Asked::read(&query.text);
    let globs = globs(&query.globs)?;
    if asked.terms.is_empty() {
        return Ok(Vec::new());
    }
    let is_auto = query.mode == Mode::Auto;
    let terms = Wanted::find(snapshot, &asked, is_auto)?;
    let lengths = Lengths::new(snapshot, weights);
    let mut best = Best::new(if is_auto { FILES_RANKED } else { query.limit() });
    for (index, (state, segment)) in snapshot.parts().enumerate() {
        terms.score(index, segment, &lengths, weights, scores)?;
        let allowed = allowed(segment, query, globs.as_ref())?;
        let is_out = |file: u32| {
            state.is_dead(file) || allowed.as_ref().is_some_and(|allowed| !allowed[file as usize])
        };
        let defined = if is_auto { definitions(index, segment, &terms)? } else { HashMap::new() };
        if is_auto {
            best.files(index, segment, scores, weights, &defined, &is_out);
        } else {
            best.chunks(index, segment, scores, &is_out);
        }
    }
    let ranked = if is_auto { best.rank(snapshot, &asked, &terms, weights)? } else { best.plain() };
    hits(snapshot, &ranked, query.limit(), is_auto)
}

/// A term or name of the query in each segment.
struct FoundTerm {
    idf: f32,
    body: Vec<Option<TermEntry>>,
    symbol_part: Vec<Option<TermEntry>>,
    path: Vec<Option<TermEntry>>,
}

struct FoundName {
    shape: Shape,
    folded: String,
    exact: Vec<Option<TermEntry>>,
    symbol: Vec<Option<TermEntry>>,
}

struct Wanted {
    terms: Vec<FoundTerm>,
    names: Vec<FoundName>,
    words: Vec<(String, f32)>,
}

impl Wanted {
    #[allow(clippy::cast_precision_loss)] // Counts for a logarithm.
    fn find(snapshot: &Snapshot, asked: &Asked, is_auto: bool) -> Result<Self, IndexError> {
        let find = |field: Field, term: &str| -> Result<Vec<Option<TermEntry>>, IndexError> {
            let mut key = vec![field.code()];
            key.extend_from_slice(term.as_bytes());
            snapshot.segments.iter().map(|segment| segment.find(&key)).collect()
        };
        let none = || vec![None; snapshot.segments.len()];
        let n_chunks: f32 = snapshot.segments.iter().map(|segment| segment.n_chunks as f32).sum();
        let idf = |entries: &[Option<TermEntry>]| {
            let n: f32 = entries.iter().flatten().map(|entry| entry.n_postings as f32).sum();
            (1.0 + (n_chunks - n + 0.5).max(0.5) / (n + 0.5)).ln()
        };
        let mut terms = Vec::new();
        for term in &asked.terms {
            let body = find(Field::Body, term)?;
            let mut found = FoundTerm { idf: idf(&body), body, symbol_part: none(), path: none() };
            if is_auto {
                found.symbol_part = find(Field::SymbolPart, term)?;
                found.path = find(Field::Path, term)?;
            }
            terms.push(found);
        }
        let mut names = Vec::new();
        for name in asked.names.iter().filter(|_| is_auto) {
            let (exact, symbol) =
                (find(Field::Exact, &name.exact)?, find(Field::Symbol, &name.folded)?);
            names.push(FoundName { shape: name.shape, folded: name.folded.clone(), exact, symbol });
        }
        #[allow(clippy::cast_precision_loss)] // At most 64 words.
        let words =
            asked.words.iter().map(|word| (word.clone(), 1.0 / asked.words.len() as f32)).collect();
        Ok(Self { terms, names, words })
    }

    /// Computes the score of every chunk of a segment.
    fn score(
        &self,
        index: usize,
        segment: &Segment,
        lengths: &Lengths,
        weights: &Weights,
        scores: &mut Vec<f32>,
    ) -> Result<(), IndexError> {
        scores.clear();
        scores.resize(segment.n_chunks as usize, 0.0);
        let scores = scores.as_mut_slice();
        let norms = segment.norms.as_slice();
        for term in &self.terms {
            if let Some(entry) = &term.body[index] {
                let table = lengths.table(term.idf);
                segment.postings(entry, |chunk, count| {
                    let at = usize::from(count) << 8 | usize::from(norms[chunk as usize]);
                    scores[chunk as usize] += table[at];
                })?;
            }
            for (entry, weight) in [
                (&term.symbol_part[index], weights.symbol_part),
                (&term.path[index], weights.path_part),
            ] {
                if let Some(entry) = entry {
                    let add = term.idf * weight;
                    segment.postings(entry, |chunk, _| scores[chunk as usize] += add)?;
                }
            }
        }
        Ok(())
    }
}

/// The length part of BM25 for every count and norm.
struct Lengths {
    parts: Vec<f32>,
}

impl Lengths {
    #[allow(clippy::cast_precision_loss)] // Averages.
    fn new(snapshot: &Snapshot, weights: &Weights) -> Self {
        let total: u64 = snapshot.segments.iter().map(|segment| segment.n_terms_total).sum();
        let n_chunks: u64 =
            snapshot.segments.iter().map(|segment| u64::from(segment.n_chunks)).sum();
        let average = (total as f32 / n_chunks.max(1) as f32).max(1.0);
        let mut parts = vec![0.0; COUNTS << 8];
        for (at, part) in parts.iter_mut().enumerate() {
            let count = (at >> 8) as f32;
            #[allow(clippy::cast_possible_truncation)] // The low byte.
            let length = length_of((at & 0xff) as u8);
            let damp = weights.k1 * (1.0 - weights.b + weights.b * length / average);
            *part = count * (weights.k1 + 1.0) / (count + damp);
        }
        Self { parts }
    }

    fn table(&self, idf: f32) -> Vec<f32> {
        self.parts.iter().map(|part| part * idf).collect()
    }
}

/// Chunks that define a name of the query: for each, the number of the name and whether it is written alike.
type Definitions = HashMap<u32, Vec<(usize, bool)>>;

fn definitions(index: usize, segment: &Segment, terms: &Wanted) -> Result<Definitions, IndexError> {
    let mut defined = Definitions::new();
    for (number, name) in terms.names.iter().enumerate() {
        for (entry, is_exact) in [(&name.exact[index], true), (&name.symbol[index], false)] {
            let Some(entry) = entry else { continue };
            let mut n = 0;
            segment.postings(entry, |chunk, _| {
                n += 1;
                if n <= DEFINITIONS_MAX {
                    let names = defined.entry(chunk).or_default();
                    if !names.iter().any(|(known, _)| *known == number) {
                        names.push((number, is_exact));
                    }
                }
            })?;
        }
    }
    Ok(defined)
}

/// A chunk with its score so far.
#[derive(Clone, Copy, Debug)]
struct Scored {
    segment: usize,
    file: u32,
    chunk: u32,
    score: f32,
}

/// A file with its best chunks.
struct Candidate {
    segment: usize,
    file: u32,
    score: f32,
    /// Best first.
    chunks: Vec<(u32, f32)>,
    /// Names that its chunks define: chunk, name, whether it is written alike.
    defined: Vec<(u32, usize, bool)>,
}

/// The best files or chunks of all segments.
struct Best {
    n_max: usize,
    candidates: Vec<Candidate>,
    scored: Vec<Scored>,
    /// Score below which nothing is kept any more.
    floor: f32,
}

impl Best {
    fn new(n_max: usize) -> Self {
        Self { n_max, candidates: Vec::new(), scored: Vec::new(), floor: 0.0 }
    }

    /// Adds the chunks of a segment, without regard to files.
    fn chunks(
        &mut self,
        index: usize,
        segment: &Segment,
        scores: &[f32],
        is_out: &dyn Fn(u32) -> bool,
    ) {
        for (chunk, score) in (0u32..).zip(scores) {
            if *score > self.floor {
                let file = segment.file_of(chunk);
                if is_out(file) {
                    continue;
                }
                self.scored.push(Scored { segment: index, file, chunk, score: *score });
                if self.scored.len() >= 4 * self.n_max {
                    self.cut_chunks();
                }
            }
        }
        self.cut_chunks();
    }

    fn cut_chunks(&mut self) {
        self.scored.sort_by(|a, b| b.score.total_cmp(&a.score));
        if self.scored.len() > self.n_max {
            self.scored.truncate(self.n_max);
            self.floor = self.scored.last().map_or(0.0, |last| last.score);
        }
    }

    /// Adds the files of a segment.
    fn files(
        &mut self,
        index: usize,
        segment: &Segment,
        scores: &[f32],
        weights: &Weights,
        defined: &Definitions,
        is_out: &dyn Fn(u32) -> bool,
    ) {
        let mut definers: Vec<(u32, u32, usize, bool)> = Vec::new();
        for (chunk, names) in defined {
            let file = segment.file_of(*chunk);
            definers.extend(names.iter().map(|(name, is_exact)| (file, *chunk, *name, *is_exact)));
        }
        definers.sort_unstable();
        let mut definers = definers.as_slice();
        // Most that the other chunks can add to the best one.
        let most = 1.0 + weights.coherence.max(0.0) * CHUNKS_MORE;
        let maxima = block_maxima(scores);
        for (file, bounds) in (0u32..).zip(segment.starts.windows(2)) {
            let (start, end) = (bounds[0] as usize, bounds[1] as usize);
            let limit = self.floor / most;
            let n_defined = definers.iter().take_while(|definer| definer.0 == file).count();
            let (of_file, rest) = definers.split_at(n_defined);
            definers = rest;
            let maxima = &maxima[start / BLOCK..end.div_ceil(BLOCK).max(start / BLOCK)];
            if of_file.is_empty() && maxima.iter().all(|highest| *highest <= limit) || is_out(file)
            {
                continue;
            }
            let top = top_chunks(bounds[0], &scores[start..end]);
            let more: f32 = top[1..].iter().map(|(_, score)| score).sum();
            let score = top[0].1 + weights.coherence * more;
            if of_file.is_empty() && score <= self.floor {
                continue;
            }
            self.candidates.push(Candidate {
                segment: index,
                file,
                score,
                chunks: top.iter().copied().filter(|(_, score)| *score > 0.0).collect(),
                defined: of_file
                    .iter()
                    .map(|(_, chunk, name, is_exact)| (*chunk, *name, *is_exact))
                    .collect(),
            });
            if self.candidates.len() >= 4 * self.n_max {
                self.cut_files();
            }
        }
        self.cut_files();
    }

    /// Keeps the best files, and all that define a name.
    fn cut_files(&mut self) {
        self.candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        if self.candidates.len() > self.n_max {
            self.floor = self.candidates[self.n_max - 1].score;
            let mut n = 0;
            self.candidates.retain(|candidate| {
                n += 1;
                n <= self.n_max || !candidate.defined.is_empty()
            });
        }
    }

    fn plain(self) -> Vec<Scored> {
        self.scored
    }

    /// Applies boosts and penalties, and orders chunks.
    fn rank(
        self,
        snapshot: &Snapshot,
        asked: &Asked,
        terms: &Wanted,
        weights: &Weights,
    ) -> Result<Vec<Scored>, IndexError> {
        let scale =
            self.candidates.iter().map(|candidate| candidate.score).fold(0.0, f32::max).max(1e-6);
        let kinds = self.candidates.iter().map(|c| snapshot.segments[c.segment].kind(c.file));
        // In a corpus of prose, prose is no worse than the rest.
        let has_code = kinds.clone().any(|kind| !kind.has(FileKind::PROSE));
        let mut ranked = Vec::new();
        for (candidate, kind) in self.candidates.iter().zip(kinds) {
            let segment = &snapshot.segments[candidate.segment];
            let path = PathWords::of(&segment.path(candidate.file)?);
            let found = path.matches(&terms.words, weights.prefix_match);
            let mut factor = weights.kind_factor(kind, asked);
            if has_code && kind.has(FileKind::PROSE) {
                factor *= weights.prose;
            }
            let boost = weights.stem_match * found.stem + weights.dir_match * found.dir;
            let definition = |chunk: u32| {
                let names = candidate.defined.iter().filter(|(at, _, _)| *at == chunk);
                names
                    .map(|(_, name, is_exact)| {
                        boost_of(&terms.names[*name], *is_exact, &path, weights)
                    })
                    .fold(0.0, f32::max)
            };
            let mut chunks: Vec<(u32, f32)> = candidate.chunks.clone();
            for (chunk, _, _) in &candidate.defined {
                if !chunks.iter().any(|(known, _)| known == chunk) {
                    chunks.push((*chunk, 0.0));
                }
            }
            let coherence =
                candidate.score - candidate.chunks.first().map_or(0.0, |(_, score)| *score);
            let mut scored: Vec<Scored> = chunks
                .iter()
                .map(|(chunk, score)| {
                    let score = ((score + coherence) / scale + boost + definition(*chunk)) * factor;
                    Scored {
                        segment: candidate.segment,
                        file: candidate.file,
                        chunk: *chunk,
                        score,
                    }
                })
                .collect();
            scored.sort_by(|a, b| b.score.total_cmp(&a.score));
            let mut repeat = 1.0;
            for mut scored in scored.into_iter().take(CHUNKS_KEPT) {
                scored.score *= repeat;
                repeat *= weights.repeat;
                ranked.push(scored);
            }
        }
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(ranked)
    }
}

/// Chunks whose highest score is computed at once.
const BLOCK: usize = 8;

/// The highest score of each block of chunks.
fn block_maxima(scores: &[f32]) -> Vec<f32> {
    // Scores are not negative, so their bits are ordered as they are, and integers have a vector instruction for it.
    let mut maxima = Vec::with_capacity(scores.len() / BLOCK + 1);
    for block in scores.chunks(BLOCK) {
        let mut highest = 0;
        for score in block {
            highest = highest.max(score.to_bits());
        }
        maxima.push(f32::from_bits(highest));
    }
    maxima
}

/// The best chunks of a file, best first; chunk numbers count from `first`.
fn top_chunks(first: u32, scores: &[f32]) -> [(u32, f32); CHUNKS_KEPT] {
    let mut top = [(0u32, 0.0f32); CHUNKS_KEPT];
    for (chunk, score) in (first..).zip(scores) {
        if *score > top[CHUNKS_KEPT - 1].1 {
            let mut at = CHUNKS_KEPT - 1;
            while at > 0 && top[at - 1].1 < *score {
                top[at] = top[at - 1];
                at -= 1;
            }
            top[at] = (chunk, *score);
        }
    }
    top
}

fn boost_of(name: &FoundName, is_exact: bool, path: &PathWords, weights: &Weights) -> f32 {
    let boost = match name.shape {
        Shape::Query => weights.definition,
        Shape::Identifier => weights.definition_embedded,
        Shape::Capital => weights.definition_capital,
    };
    let folded = if is_exact { 1.0 } else { weights.definition_folded };
    let in_stem = if path.is_named(&name.folded) { weights.definition_in_stem } else { 1.0 };
    boost * folded * in_stem
}

fn hits(
    snapshot: &Snapshot,
    ranked: &[Scored],
    limit: usize,
    is_auto: bool,
) -> Result<Vec<Hit>, IndexError> {
    let mut hits: Vec<Hit> = Vec::new();
    for scored in ranked {
        if hits.len() == limit {
            break;
        }
        let segment = &snapshot.segments[scored.segment];
        let chunk = segment.chunk(scored.chunk)?;
        // A copy of a text that is shown already, such as a vendored file.
        if is_auto && hits.iter().any(|hit| hit.hash == chunk.hash) {
            continue;
        }
        hits.push(Hit {
            path: segment.path(scored.file)?,
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            language: segment.language(scored.file),
            symbol: chunk.symbol.into(),
            score: scored.score,
            hash: chunk.hash,
        });
    }
    Ok(hits)
}

/// Calls `each` with the chunks of one file after another.
pub(crate) fn each_file(
    snapshot: &Snapshot,
    each: &mut dyn FnMut(Vec<Hit>),
) -> Result<(), IndexError> {
    for (state, segment) in snapshot.parts() {
        let mut files = Vec::new();
        for block in 0..segment.n_file_blocks() {
            segment.files_in(block, &mut |number, record| files.push((number, record)))?;
            for (number, record) in files.drain(..).filter(|(number, _)| !state.is_dead(*number)) {
                let mut hits = Vec::new();
                for chunk in segment.first_chunk(number)..segment.first_chunk(number + 1) {
                    let chunk = segment.chunk(chunk)?;
                    hits.push(Hit {
                        path: record.path.clone(),
                        start_line: chunk.start_line,
                        end_line: chunk.end_line,
                        language: record.language,
                        symbol: chunk.symbol.into(),
                        score: 0.0,
                        hash: chunk.hash,
                    });
                }
                each(hits);
            }
        }
    }
    Ok(())
}

/// Returns the files of a segment that the query allows; `None` if all.
fn allowed(
    segment: &Segment,
    query: &Query,
    globs: Option<&GlobSet>,
) -> Result<Option<Vec<bool>>, IndexError> {
    if globs.is_none() && query.languages.is_empty() {
        return Ok(None);
    }
    let mut allowed = vec![true; segment.n_files as usize];
    if !query.languages.is_empty() {
        for (file, allowed) in (0..).zip(&mut allowed) {
            *allowed = query.languages.contains(&segment.language(file));
        }
    }
    if let Some(globs) = globs {
        for block in 0..segment.n_file_blocks() {
            segment.files_in(block, &mut |file, record| {
                allowed[file as usize] &= globs.is_match(&record.path);
            })?;
        }
    }
    Ok(Some(allowed))
}

impl Query {
    /// Tells by path and language whether the query asks for a file.
    pub(crate) fn file_filter(&self) -> Result<impl Fn(&str, Language) -> bool, IndexError> {
        let globs = globs(&self.globs)?;
        let languages = &self.languages;
        Ok(move |path: &str, language: Language| {
            (languages.is_empty() || languages.contains(&language))
                && globs.as_ref().is_none_or(|globs| globs.is_match(path))
        })
    }
}

fn globs(globs: &[String]) -> Result<Option<GlobSet>, IndexError> {
    if globs.is_empty() {
        return Ok(None);
    }
    let invalid = |why: String| IndexError::Glob { why };
    if globs.len() > GLOBS_MAX {
        return Err(invalid(format!("{} globs, of {GLOBS_MAX} at most", globs.len())));
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        if glob.len() > GLOB_BYTES_MAX || glob.matches(['{', ',']).count() > GLOB_CHOICES_MAX {
            let shown: String = glob.chars().take(40).collect();
            return Err(invalid(format!("`{shown}…` is too long")));
        }
        let whole = if glob.contains('/') {
            glob.trim_start_matches('/').to_owned()
        } else {
            format!("**/{glob}")
        };
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        set.add(glob);
    }
    set.build().map(Some).map_err(|error| invalid(error.to_string()))
}
