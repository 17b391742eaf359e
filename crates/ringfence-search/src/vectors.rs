//! Search by meaning, off unless the caller has an [`Embedder`]: vectors of the index's chunks as 8-bit numbers, compared
//! one by one, and fused with the ranking of the index by reciprocal rank. Kept in the index's directory from one process
//! to the next.

mod static_model;
mod stored;
mod word_pieces;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::ControlFlow;

pub use static_model::StaticModel;

use crate::index::{Index, IndexError, Source};
use crate::rank::{Hit, Query};

/// Turns texts into vectors.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Identity of the model: vectors of different models are not compared.
    fn model_id(&self) -> u64;

    /// The vector of each text, all of the same length. Called with [`BATCH`] texts at most.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, VectorError>;
}

/// Failure of an embedder or of its model.
#[derive(Debug)]
pub enum VectorError {
    /// A file of the model is missing, too large or invalid.
    Model {
        /// File and reason.
        why: String,
    },
    /// The endpoint could not be reached, refused, or was too slow.
    Endpoint {
        /// The reason.
        why: String,
    },
    /// The embedder returned something else than a vector for each text.
    Answer,
    /// The index failed.
    Index(IndexError),
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { why } => write!(f, "cannot use the embedding model: {why}"),
            Self::Endpoint { why } => write!(f, "cannot use the embeddings endpoint: {why}"),
            Self::Answer => {
                f.write_str("the embedder returned vectors of the wrong number or size")
            }
            Self::Index(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for VectorError {}

impl From<IndexError> for VectorError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// Maximum texts that are embedded at once.
pub const BATCH: usize = 64;

/// Bytes of a text that are embedded.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Greatest number of dimensions.
pub(crate) const DIMENSIONS_MAX: usize = 4096;

/// Bytes of the vectors of one index; chunks past them have none.
const NUMBERS_BYTES_MAX: usize = 128 << 20;

/// The vectors of the chunks of an index.
#[derive(Debug, Default)]
pub struct VectorIndex {
    model_id: u64,
    /// 0 until the first vector is there.
    n_dimensions: usize,
    /// Chunks, in the order of their vectors.
    chunks: Vec<Hit>,
    /// The factor that turns each vector's numbers back.
    scales: Vec<f32>,
    numbers: Vec<i8>,
    /// Chunks that have no vector yet.
    n_missing: usize,
}

impl VectorIndex {
    /// The vectors of all chunks of `index`. Chunks that this one has already are not embedded again. Before each call of
    /// the embedder asks `go_on`; if that breaks, the other chunks are left for the next update. If the embedder fails, its
    /// error is returned beside the vectors there are.
    pub fn updated(
        &self,
        index: &Index,
        source: &dyn Source,
        embedder: &dyn Embedder,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(Self, Option<VectorError>), IndexError> {
        let mut new = Self { model_id: embedder.model_id(), ..Self::default() };
        let known: HashMap<u64, usize> = if self.model_id == new.model_id {
            new.n_dimensions = self.n_dimensions;
            self.chunks.iter().enumerate().map(|(at, chunk)| (chunk.hash, at)).collect()
        } else {
            HashMap::new()
        };
        let mut waiting: Vec<(Hit, String)> = Vec::new();
        let mut failure = None;
        let mut is_over = false;
        index.each_file(&mut |chunks: Vec<Hit>| {
            let is_known = chunks.iter().all(|chunk| known.contains_key(&chunk.hash));
            // A file that cannot be read any more keeps no vectors; the next update of the index drops it.
            let lines = if is_known || is_over {
                Lines::default()
            } else {
                chunks.first().map_or_else(Lines::default, |c| Lines::read(source, &c.path))
            };
            for chunk in chunks {
                let is_full =
                    new.numbers.len() + waiting.len() * new.n_dimensions >= NUMBERS_BYTES_MAX;
                if is_full {
                    new.n_missing += 1;
                } else if let Some(at) = known.get(&chunk.hash) {
                    new.push(chunk, self.scales[*at], self.vector(*at));
                } else if is_over {
                    new.n_missing += 1;
                } else if let Some(text) = lines.between(&chunk) {
                    waiting.push((chunk, text));
                }
            }
            if waiting.len() >= BATCH && !is_over {
                match new.embed(&mut waiting, embedder, go_on) {
                    Ok(flow) => is_over = flow.is_break(),
                    Err(error) => (is_over, failure) = (true, Some(error)),
                }
            }
        })?;
        if failure.is_none() && !is_over {
            failure = new.embed(&mut waiting, embedder, go_on).err();
        }
        new.n_missing += waiting.len();
        Ok((new, failure))
    }

    fn embed(
        &mut self,
        waiting: &mut Vec<(Hit, String)>,
        embedder: &dyn Embedder,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, VectorError> {
        while !waiting.is_empty() {
            if go_on().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let batch = &waiting[..waiting.len().min(BATCH)];
            let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = embed_checked(embedder, &texts)?;
            let n_dimensions = vectors.first().map_or(0, Vec::len);
            if self.n_dimensions == 0 {
                self.n_dimensions = n_dimensions;
            }
            if n_dimensions != self.n_dimensions {
                return Err(VectorError::Answer);
            }
            let done = waiting.drain(..vectors.len());
            for ((chunk, _), vector) in done.collect::<Vec<_>>().into_iter().zip(&vectors) {
                let (scale, numbers) = quantise(vector);
                self.push(chunk, scale, &numbers);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn push(&mut self, chunk: Hit, scale: f32, numbers: &[i8]) {
        self.chunks.push(chunk);
        self.scales.push(scale);
        self.numbers.extend_from_slice(numbers);
    }

    fn vector(&self, at: usize) -> &[i8] {
        &self.numbers[at * self.n_dimensions..(at + 1) * self.n_dimensions]
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Number of chunks that have no vector yet.
    pub fn n_missing(&self) -> usize {
        self.n_missing
    }

    /// The chunks nearest in meaning to a query among the files that it asks for, best first.
    pub fn search(&self, query: &Query, embedder: &dyn Embedder) -> Result<Vec<Hit>, VectorError> {
        if self.is_empty() || self.n_dimensions == 0 {
            return Ok(Vec::new());
        }
        let vectors = embed_checked(embedder, &[cut(&query.text)])?;
        let Some(vector) = vectors.first().filter(|vector| vector.len() == self.n_dimensions)
        else {
            return Err(VectorError::Answer);
        };
        let (scale, vector) = quantise(vector);
        let is_asked = query.file_filter()?;
        let mut scored: Vec<(f32, usize)> = self
            .numbers
            .chunks_exact(self.n_dimensions)
            .zip(&self.scales)
            .enumerate()
            .map(|(at, (numbers, chunk_scale))| (dot(&vector, numbers) * scale * chunk_scale, at))
            .filter(|(score, at)| {
                let chunk = &self.chunks[*at];
                *score > 0.0 && is_asked(&chunk.path, chunk.language)
            })
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = scored.into_iter().take(query.limit());
        Ok(best.map(|(score, at)| Hit { score, ..self.chunks[at].clone() }).collect())
    }
}

/// The likeness of each text to the query, from -1 to 1.
pub fn likeness(
    query: &str,
    texts: &[String],
    embedder: &dyn Embedder,
) -> Result<Vec<f32>, VectorError> {
    let (scale, query) = match &embed_checked(embedder, &[cut(query)])?[..] {
        [vector] => quantise(vector),
        _ => return Err(VectorError::Answer),
    };
    let mut scores = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        let batch: Vec<&str> = batch.iter().map(|text| cut(text)).collect();
        for vector in embed_checked(embedder, &batch)? {
            if vector.len() != query.len() {
                return Err(VectorError::Answer);
            }
            let (own_scale, numbers) = quantise(&vector);
            scores.push(dot(&query, &numbers) * scale * own_scale);
        }
    }
    Ok(scores)
}

/// Vectors of length 1, or of zeros: one for each text, all of the same size.
fn embed_checked(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>, VectorError> {
    let mut vectors = embedder.embed(texts)?;
    let n_dimensions = vectors.first().map_or(0, Vec::len);
    let is_sound = vectors.len() == texts.len()
        && (1..=DIMENSIONS_MAX).contains(&n_dimensions)
        && vectors.iter().all(|vector| vector.len() == n_dimensions);
    if !is_sound {
        return Err(VectorError::Answer);
    }
    for vector in &mut vectors {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 && length.is_finite() {
            for number in vector {
                *number /= length;
            }
        }
    }
    Ok(vectors)
}

/// The part of a text that is embedded.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The 8-bit form of a vector, and the factor that turns it back.
#[allow(clippy::cast_possible_truncation)] // Within -127 to 127.
fn quantise(vector: &[f32]) -> (f32, Vec<i8>) {
    let greatest =
        vector.iter().filter(|x| x.is_finite()).fold(0.0f32, |most, x| most.max(x.abs()));
    if greatest == 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    let to_i8 = |x: &f32| if x.is_finite() { (x / greatest * 127.0).round() as i8 } else { 0 };
    (greatest / 127.0, vector.iter().map(to_i8).collect())
}

#[allow(clippy::cast_precision_loss)] // Sums of products of 8-bit numbers.
fn dot(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}

/// Lines of a file, to cut chunks from.
#[derive(Default)]
struct Lines(Vec<u8>);

/// Bytes of a file that are read for embedding.
const FILE_BYTES_MAX: u64 = 10 << 20;

impl Lines {
    fn read(source: &dyn Source, path: &str) -> Self {
        let mut bytes = Vec::new();
        let read = source.open(path).and_then(|from| {
            io::Read::read_to_end(&mut io::Read::take(from, FILE_BYTES_MAX), &mut bytes)
        });
        if read.is_ok() { Self(bytes) } else { Self::default() }
    }

    fn between(&self, chunk: &Hit) -> Option<String> {
        let n_lines = (chunk.end_line.saturating_sub(chunk.start_line) + 1) as usize;
        let lines = self
            .0
            .split(|byte| *byte == b'\n')
            .skip(chunk.start_line.saturating_sub(1) as usize)
            .take(n_lines);
        let mut text = lines.collect::<Vec<_>>().join(&b'\n');
        text.truncate(TEXT_BYTES_MAX);
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

/// Rank that the first places are flattened by, as in the paper of Cormack, Clarke and Büttcher (SIGIR 2009).
const RANK_OFFSET: f32 = 60.0;

/// Fuses rankings of the same index by reciprocal rank.
pub fn fuse(rankings: &[Vec<Hit>], limit: usize) -> Vec<Hit> {
    let mut fused: Vec<Hit> = Vec::new();
    for ranking in rankings {
        let mut rank = RANK_OFFSET;
        for hit in ranking {
            rank += 1.0;
            let same = |other: &&mut Hit| {
                other.path == hit.path
                    && other.start_line == hit.start_line
                    && other.hash == hit.hash
            };
            match fused.iter_mut().find(same) {
                Some(known) => known.score += 1.0 / rank,
                None => fused.push(Hit { score: 1.0 / rank, ..hit.clone() }),
            }
        }
    }
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused.truncate(limit);
    fused
}

#[cfg(test)]
mod tests;
