//! Vectors by the hash of their chunks, in memory and in a file of the index. The file is read as if a run had written it;
//! one that is damaged or of another model counts as none, and the chunks are embedded again.

use std::collections::HashMap;

use super::{DIMENSIONS_MAX, VectorIndex};
use crate::index::codec::{Put, Reader, corrupt, frame, unframe};
use crate::index::{Index, IndexError};

const NAME: &str = "vectors";
const MAGIC: u64 = u64::from_le_bytes(*b"RFSVECTR");

/// Increases with every change of the format.
const VERSION: u64 = 1;

/// Bytes of the vectors of one index; chunks past them have none.
const NUMBERS_BYTES_MAX: usize = 128 << 20;

/// Vectors of one index. What is kept of a vector beside its numbers takes less than 64 bytes.
pub(super) const VECTORS_MAX: usize = 1 << 20;

/// Bytes of a vector in the file beside its numbers: hash and scale.
const VECTOR_HEAD_BYTES: usize = 12;

/// Greatest file: all vectors, and less than a vector more for the heads.
const BYTES_MAX: u64 =
    (NUMBERS_BYTES_MAX + DIMENSIONS_MAX + VECTORS_MAX * VECTOR_HEAD_BYTES + 64) as u64;

/// Vectors of a model, as 8-bit numbers. Chunks with the same text have the same one.
#[derive(Debug, Default)]
pub(super) struct StoredVectors {
    pub(super) model_id: u64,
    /// 0 until the first vector is there.
    pub(super) n_dimensions: usize,
    /// Number of the vector of each text.
    by_hash: HashMap<u64, usize>,
    /// The factor that turns each vector's numbers back.
    scales: Vec<f32>,
    numbers: Vec<i8>,
}

impl VectorIndex {
    /// Reads the vectors that are kept with an index. They belong to no chunk until they are updated.
    pub fn load(index: &Index, model_id: u64) -> Self {
        let stored = index.read_beside(NAME, BYTES_MAX).ok().flatten();
        let stored = stored.and_then(|bytes| StoredVectors::decode(&bytes).ok());
        let vectors = stored.filter(|vectors| vectors.model_id == model_id).unwrap_or_default();
        Self { vectors, ..Self::default() }
    }

    /// Keeps the vectors with an index.
    pub fn save(&self, index: &Index) -> Result<(), IndexError> {
        index.write_beside(NAME, &self.vectors.encode())
    }
}

impl StoredVectors {
    /// No vectors yet; 0 dimensions if their number is not known.
    pub(super) fn new(model_id: u64, n_dimensions: usize) -> Self {
        Self { model_id, n_dimensions, ..Self::default() }
    }

    /// Returns whether there is no room for another vector behind `n_more`.
    pub(super) fn is_full(&self, n_more: usize) -> bool {
        self.scales.len() + n_more >= VECTORS_MAX
            || self.numbers.len() + n_more * self.n_dimensions >= NUMBERS_BYTES_MAX
    }

    /// Adds the vector of a text, unless it is there. Returns its number.
    pub(super) fn insert(&mut self, hash: u64, scale: f32, numbers: &[i8]) -> usize {
        *self.by_hash.entry(hash).or_insert_with(|| {
            self.scales.push(scale);
            self.numbers.extend_from_slice(numbers);
            self.scales.len() - 1
        })
    }

    /// Returns the scale and the numbers of a text.
    pub(super) fn get(&self, hash: u64) -> Option<(f32, &[i8])> {
        self.by_hash.get(&hash).map(|at| self.vector(*at))
    }

    /// Returns the scale and the numbers of a vector.
    pub(super) fn vector(&self, at: usize) -> (f32, &[i8]) {
        let n = self.n_dimensions;
        (self.scales[at], &self.numbers[at * n..(at + 1) * n])
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    fn encode(&self) -> Vec<u8> {
        let n_vectors = self.by_hash.len();
        let mut out = Vec::with_capacity(64 + n_vectors * (VECTOR_HEAD_BYTES + self.n_dimensions));
        out.put_u64(MAGIC);
        out.put_varint(VERSION);
        out.put_u64(self.model_id);
        out.put_varint(self.n_dimensions as u64);
        out.put_varint(n_vectors as u64);
        for (hash, at) in &self.by_hash {
            let (scale, numbers) = self.vector(*at);
            out.put_u64(*hash);
            out.extend_from_slice(&scale.to_le_bytes());
            out.extend(numbers.iter().map(|number| number.cast_unsigned()));
        }
        frame(&out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        const WHAT: &str = "vectors";
        let mut reader = Reader::new(unframe(bytes, WHAT)?, WHAT);
        if reader.u64()? != MAGIC || reader.varint()? != VERSION {
            return Err(corrupt(WHAT));
        }
        let model_id = reader.u64()?;
        let n_dimensions = reader.size()?;
        let n_vectors = reader.size()?;
        // Without dimensions, or with many vectors of few, the file would cost far more memory than its size.
        if !(1..=DIMENSIONS_MAX).contains(&n_dimensions) || n_vectors > VECTORS_MAX {
            return Err(corrupt(WHAT));
        }
        let mut vectors = Self::new(model_id, n_dimensions);
        let mut numbers = Vec::with_capacity(n_dimensions);
        for _ in 0..n_vectors {
            let hash = reader.u64()?;
            let scale = reader.take(4)?.try_into().map_err(|_| corrupt(WHAT))?;
            let scale = f32::from_le_bytes(scale);
            numbers.clear();
            numbers.extend(reader.take(n_dimensions)?.iter().map(|byte| byte.cast_signed()));
            vectors.insert(hash, if scale.is_finite() { scale } else { 0.0 }, &numbers);
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forged(n_dimensions: usize, n_vectors: usize) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(MAGIC);
        out.put_varint(VERSION);
        out.put_u64(7);
        out.put_varint(n_dimensions as u64);
        out.put_varint(n_vectors as u64);
        for hash in 0..n_vectors as u64 {
            out.put_u64(hash);
            out.resize(out.len() + 4 + n_dimensions, 1);
        }
        frame(&out)
    }

    #[test]
    fn a_small_file_cannot_hold_many_vectors() {
        assert_eq!(StoredVectors::decode(&forged(1, 1000)).unwrap().len(), 1000);
        for (n_dimensions, n_vectors) in [(0, 1000), (1, VECTORS_MAX + 1), (DIMENSIONS_MAX + 1, 1)]
        {
            let file = forged(n_dimensions, n_vectors);
            assert!(StoredVectors::decode(&file).is_err(), "{n_vectors} of {n_dimensions}");
        }
    }
}
