//! Search by meaning, off unless the caller has an [`Embedder`]: vectors of the index's chunks as 8-bit numbers, compared
//! one by one, and fused with the ranking of the index by reciprocal rank. Kept in the index's directory from one process
//! to the next.

mod static_model;
mod stored;
mod word_pieces;

use std::fmt;
use std::io;
use std::ops::ControlFlow;

pub use static_model::StaticModel;
use stored::StoredVectors;

use crate::index::{Index, IndexError, Source};
use crate::rank::{Hit, Query};

/// Turns texts into vectors.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Identity of the model: vectors of different models are not compared.
    fn model_id(&self) -> u64;

    /// The vector of each text, all of the same length. Called with [`EMBED_TEXTS_MAX`] texts at most.
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
            Self::Answer => f.write_str(
                "the embedder returned vectors of the wrong number or size, or not of numbers",
            ),
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
pub const EMBED_TEXTS_MAX: usize = 64;

/// Bytes of a text that are embedded.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Greatest number of dimensions.
pub(crate) const DIMENSIONS_MAX: usize = 4096;

/// The vectors of the chunks of an index.
#[derive(Debug, Default)]
pub struct VectorIndex {
    vectors: StoredVectors,
    /// Chunks, each with the number of its vector.
    chunks: Vec<(Hit, usize)>,
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
        let (model_id, none) = (embedder.model_id(), StoredVectors::default());
        let known = if self.vectors.model_id == model_id { &self.vectors } else { &none };
        let vectors = StoredVectors::new(model_id, known.n_dimensions);
        let mut embedding = Embedding {
            known,
            source,
            embedder,
            go_on,
            new: Self { vectors, ..Self::default() },
            waiting: Vec::new(),
            is_over: false,
            failure: None,
        };
        index.each_file(&mut |chunks| embedding.take_file(chunks))?;
        Ok(embedding.finish())
    }

    fn push(&mut self, chunk: Hit, scale: f32, numbers: &[i8]) {
        let at = self.vectors.insert(chunk.hash, scale, numbers);
        self.chunks.push((chunk, at));
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Number of chunks that have no vector yet.
    pub fn n_missing(&self) -> usize {
        self.n_missing
    }

    /// The chunks nearest in meaning to a query among the files that it asks for, best first.
    pub fn search(&self, query: &Query, embedder: &dyn Embedder) -> Result<Vec<Hit>, VectorError> {
        let n_dimensions = self.vectors.n_dimensions;
        if self.is_empty() || n_dimensions == 0 {
            return Ok(Vec::new());
        }
        let vectors = embed_checked(embedder, &[cut(&query.text)])?;
        let Some(vector) = vectors.first().filter(|vector| vector.len() == n_dimensions) else {
            return Err(VectorError::Answer);
        };
        let (scale, vector) = quantise(vector);
        let is_asked = query.file_filter()?;
        let mut scored: Vec<(f32, &Hit)> = self
            .chunks
            .iter()
            .map(|(chunk, at)| {
                let (chunk_scale, numbers) = self.vectors.vector(*at);
                (dot(&vector, numbers) * scale * chunk_scale, chunk)
            })
            .filter(|(score, chunk)| *score > 0.0 && is_asked(&chunk.path, chunk.language))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = scored.into_iter().take(query.limit());
        Ok(best.map(|(score, chunk)| Hit { score, ..chunk.clone() }).collect())
    }
}

/// An update in progress.
struct Embedding<'a> {
    /// Vectors of the same model from before.
    known: &'a StoredVectors,
    source: &'a dyn Source,
    embedder: &'a dyn Embedder,
    go_on: &'a mut dyn FnMut() -> ControlFlow<()>,
    new: VectorIndex,
    /// Chunks to embed, with their texts.
    waiting: Vec<(Hit, String)>,
    /// Nothing more is embedded.
    is_over: bool,
    failure: Option<VectorError>,
}

impl Embedding<'_> {
    fn take_file(&mut self, chunks: Vec<Hit>) {
        let is_known = chunks.iter().all(|chunk| self.known.get(chunk.hash).is_some());
        // A file that cannot be read any more keeps no vectors; the next update of the index drops it.
        let lines = if is_known || self.is_over {
            Lines::default()
        } else {
            chunks.first().map_or_else(Lines::default, |c| Lines::read(self.source, &c.path))
        };
        for chunk in chunks {
            if self.new.vectors.is_full(self.waiting.len()) {
                self.new.n_missing += 1;
            } else if let Some((scale, numbers)) = self.known.get(chunk.hash) {
                self.new.push(chunk, scale, numbers);
            } else if self.is_over {
                self.new.n_missing += 1;
            } else if let Some(text) = lines.between(&chunk) {
                self.waiting.push((chunk, text));
            }
        }
        if self.waiting.len() >= EMBED_TEXTS_MAX {
            self.embed_waiting();
        }
    }

    fn finish(mut self) -> (VectorIndex, Option<VectorError>) {
        self.embed_waiting();
        self.new.n_missing += self.waiting.len();
        (self.new, self.failure)
    }

    fn embed_waiting(&mut self) {
        while !self.waiting.is_empty() && !self.is_over {
            if (self.go_on)().is_break() {
                self.is_over = true;
            } else if let Err(error) = self.embed_batch() {
                (self.is_over, self.failure) = (true, Some(error));
            }
        }
    }

    fn embed_batch(&mut self) -> Result<(), VectorError> {
        let batch = &self.waiting[..self.waiting.len().min(EMBED_TEXTS_MAX)];
        let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
        let vectors = embed_checked(self.embedder, &texts)?;
        let n_dimensions = vectors.first().map_or(0, Vec::len);
        let expected = &mut self.new.vectors.n_dimensions;
        if *expected == 0 {
            *expected = n_dimensions;
        }
        if n_dimensions != *expected {
            return Err(VectorError::Answer);
        }
        for ((chunk, _), vector) in self.waiting.drain(..vectors.len()).zip(&vectors) {
            let (scale, numbers) = quantise(vector);
            self.new.push(chunk, scale, &numbers);
        }
        Ok(())
    }
}

/// Cosine similarity of each text to the query, from -1 to 1.
pub fn cosine_similarity(
    query: &str,
    texts: &[String],
    embedder: &dyn Embedder,
) -> Result<Vec<f32>, VectorError> {
    let (scale, query) = match &embed_checked(embedder, &[cut(query)])?[..] {
        [vector] => quantise(vector),
        _ => return Err(VectorError::Answer),
    };
    let mut scores = Vec::with_capacity(texts.len());
    for batch in texts.chunks(EMBED_TEXTS_MAX) {
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

/// Vectors of length 1, or of zeros: one for each text, all of the same size and of finite numbers.
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
        // One number that is not finite makes the length so.
        if !length.is_finite() {
            return Err(VectorError::Answer);
        }
        if length > 0.0 {
            for number in vector {
                *number /= length;
            }
        }
    }
    Ok(vectors)
}

/// The part of a text that is embedded.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// The 8-bit form of a vector of finite numbers, and the factor that turns it back.
#[allow(clippy::cast_possible_truncation)] // Within -127 to 127.
fn quantise(vector: &[f32]) -> (f32, Vec<i8>) {
    let greatest = vector.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    if greatest == 0.0 {
        return (0.0, vec![0; vector.len()]);
    }
    let to_i8 = |x: &f32| (x / greatest * 127.0).round() as i8;
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
