//! Vectors in a file of the index, by the hash of their chunks. Read as if a run had written it; one that is damaged or of
//! another model counts as none, and the chunks are embedded again.

use std::collections::HashMap;

use super::{DIMENSIONS_MAX, NUMBERS_BYTES_MAX, VectorIndex};
use crate::chunk::Language;
use crate::index::codec::{Put, Reader, corrupt, frame, unframe};
use crate::index::{Index, IndexError};
use crate::rank::Hit;

const NAME: &str = "vectors";
const MAGIC: u64 = u64::from_le_bytes(*b"RFSVECTR");

/// Increases with every change of the format.
const VERSION: u64 = 1;

/// Greatest file.
const BYTES_MAX: u64 = 2 * NUMBERS_BYTES_MAX as u64;

impl VectorIndex {
    /// Reads the vectors that are kept with an index. They belong to no chunk until they are updated.
    pub fn load(index: &Index, model_id: u64) -> Self {
        let stored = index.read_beside(NAME, BYTES_MAX).ok().flatten();
        let stored = stored.and_then(|bytes| decode(&bytes).ok());
        stored.filter(|vectors| vectors.model_id == model_id).unwrap_or_default()
    }

    /// Keeps the vectors with an index.
    pub fn save(&self, index: &Index) -> Result<(), IndexError> {
        index.write_beside(NAME, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        // Chunks with the same text have the same vector.
        let by_hash: HashMap<u64, usize> =
            self.chunks.iter().enumerate().map(|(at, chunk)| (chunk.hash, at)).collect();
        let mut out = Vec::with_capacity(64 + by_hash.len() * (12 + self.n_dimensions));
        out.put_u64(MAGIC);
        out.put_varint(VERSION);
        out.put_u64(self.model_id);
        out.put_varint(self.n_dimensions as u64);
        out.put_varint(by_hash.len() as u64);
        for (hash, at) in by_hash {
            out.put_u64(hash);
            out.extend_from_slice(&self.scales[at].to_le_bytes());
            out.extend(self.vector(at).iter().map(|number| number.cast_unsigned()));
        }
        frame(&out)
    }
}

fn decode(bytes: &[u8]) -> Result<VectorIndex, IndexError> {
    const WHAT: &str = "vectors";
    let mut reader = Reader::new(unframe(bytes, WHAT)?, WHAT);
    if reader.u64()? != MAGIC || reader.varint()? != VERSION {
        return Err(corrupt(WHAT));
    }
    let model_id = reader.u64()?;
    let n_dimensions = reader.size()?;
    if n_dimensions > DIMENSIONS_MAX {
        return Err(corrupt(WHAT));
    }
    let n_vectors = reader.size()?;
    let mut vectors = VectorIndex { model_id, n_dimensions, ..VectorIndex::default() };
    for _ in 0..n_vectors {
        let hash = reader.u64()?;
        let scale = reader.take(4)?.try_into().map_err(|_| corrupt(WHAT))?;
        let scale = f32::from_le_bytes(scale);
        let numbers: Vec<i8> =
            reader.take(n_dimensions)?.iter().map(|byte| byte.cast_signed()).collect();
        let chunk = Hit {
            path: String::new(),
            start_line: 0,
            end_line: 0,
            language: Language::Text,
            symbol: String::new(),
            score: 0.0,
            hash,
        };
        vectors.push(chunk, if scale.is_finite() { scale } else { 0.0 }, &numbers);
    }
    Ok(vectors)
}
