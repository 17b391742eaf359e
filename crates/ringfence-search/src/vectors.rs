//! Search by meaning, off unless the caller has an [`Embedder`]: vectors of the index's chunks as 8-bit numbers, compared
//! one by one, and fused with the ranking of the index by reciprocal rank.

mod static_model;
mod word_pieces;

use std::collections::HashMap;
use std::fmt;
use std::io;

pub use static_model::StaticModel;

use crate::index::{Index, IndexError, Source};
use crate::rank::Hit;

/// Turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// Numbers of a vector.
    fn n_dimensions(&self) -> usize;

    /// The vector of each text, of length 1 or all zero.
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
    /// The embedder returned something else than a vector for each text.
    Answer,
    /// The index failed.
    Index(IndexError),
    /// The source failed.
    Io(io::Error),
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { why } => write!(f, "cannot use the embedding model: {why}"),
            Self::Answer => {
                f.write_str("the embedder returned vectors of the wrong number or size")
            }
            Self::Index(error) => error.fmt(f),
            Self::Io(error) => write!(f, "cannot read a file to embed: {error}"),
        }
    }
}

impl std::error::Error for VectorError {}

impl From<IndexError> for VectorError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

/// Texts that are embedded at once.
const BATCH: usize = 64;

/// Bytes of a chunk that are embedded.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// The vectors of the chunks of an index.
#[derive(Debug, Default)]
pub struct VectorIndex {
    n_dimensions: usize,
    /// Chunks, in the order of their vectors.
    chunks: Vec<Hit>,
    /// The factor that turns each vector's numbers back.
    scales: Vec<f32>,
    numbers: Vec<i8>,
}

impl VectorIndex {
    /// The vectors of all chunks of `index`. Chunks that this one has already are not embedded again.
    pub fn updated(
        &self,
        index: &Index,
        source: &dyn Source,
        embedder: &dyn Embedder,
    ) -> Result<Self, VectorError> {
        let mut new = Self { n_dimensions: embedder.n_dimensions(), ..Self::default() };
        let known: HashMap<u64, usize> = if self.n_dimensions == new.n_dimensions {
            self.chunks.iter().enumerate().map(|(at, chunk)| (chunk.hash, at)).collect()
        } else {
            HashMap::new()
        };
        let mut waiting: Vec<(Hit, String)> = Vec::new();
        let mut failure = None;
        index.each_file(&mut |chunks: Vec<Hit>| {
            let is_known = chunks.iter().all(|chunk| known.contains_key(&chunk.hash));
            // A file that cannot be read any more keeps no vectors; the next update of the index drops it.
            let lines = if is_known {
                Lines::default()
            } else {
                chunks.first().map_or_else(Lines::default, |c| Lines::read(source, &c.path))
            };
            for chunk in chunks {
                if let Some(at) = known.get(&chunk.hash) {
                    new.push(chunk, self.scales[*at], self.vector(*at));
                } else if let Some(text) = lines.between(&chunk) {
                    waiting.push((chunk, text));
                }
            }
            if waiting.len() >= BATCH && failure.is_none() {
                failure = new.embed(&mut waiting, embedder).err();
            }
        })?;
        match failure {
            Some(error) => Err(error),
            None => new.embed(&mut waiting, embedder).map(|()| new),
        }
    }

    fn embed(
        &mut self,
        waiting: &mut Vec<(Hit, String)>,
        embedder: &dyn Embedder,
    ) -> Result<(), VectorError> {
        for batch in waiting.chunks(BATCH) {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = embedder.embed(&texts)?;
            if vectors.len() != batch.len()
                || vectors.iter().any(|vector| vector.len() != self.n_dimensions)
            {
                return Err(VectorError::Answer);
            }
            for ((chunk, _), vector) in batch.iter().zip(&vectors) {
                let (scale, numbers) = quantise(vector);
                self.push(chunk.clone(), scale, &numbers);
            }
        }
        waiting.clear();
        Ok(())
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

    /// The chunks nearest in meaning, best first.
    pub fn search(
        &self,
        text: &str,
        limit: usize,
        embedder: &dyn Embedder,
    ) -> Result<Vec<Hit>, VectorError> {
        let vectors = embedder.embed(&[text])?;
        let Some(query) = vectors.first().filter(|vector| vector.len() == self.n_dimensions) else {
            return if self.is_empty() { Ok(Vec::new()) } else { Err(VectorError::Answer) };
        };
        let (scale, query) = quantise(query);
        if scale == 0.0 || self.n_dimensions == 0 {
            return Ok(Vec::new());
        }
        let mut scored: Vec<(f32, usize)> = self
            .numbers
            .chunks_exact(self.n_dimensions)
            .zip(&self.scales)
            .enumerate()
            .map(|(at, (numbers, chunk_scale))| (dot(&query, numbers) * scale * chunk_scale, at))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = scored.into_iter().take(limit).filter(|(score, _)| *score > 0.0);
        Ok(best.map(|(score, at)| Hit { score, ..self.chunks[at].clone() }).collect())
    }
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
