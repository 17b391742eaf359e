//! A static embedding table in the directory format of model2vec: `model.safetensors` with one row for each token, and
//! `tokenizer.json`. A text's vector has the direction of the mean of its tokens' rows. Every length is checked before it is used.

use std::path::Path;

use ringfence_sys::untrusted;
use serde_json::Value;

use super::word_pieces::WordPieces;
use super::{DIMENSIONS_MAX, Embedder, VectorError};
use crate::hash::hash64;

/// Greatest files of a model.
const TABLE_BYTES_MAX: u64 = 1 << 30;
const TOKENIZER_BYTES_MAX: u64 = 64 << 20;

/// Greatest header of a table.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Tokens of a text that count.
const TOKENS_MAX: usize = 512;

/// An embedding table with its tokenizer.
#[derive(Debug)]
pub struct StaticModel {
    model_id: u64,
    tokenizer: WordPieces,
    n_dimensions: usize,
    rows: Vec<f32>,
    /// Weight of each token, if the model has them.
    weights: Vec<f32>,
    /// Row of each token, if the model has fewer rows than tokens.
    mapping: Vec<usize>,
}

impl StaticModel {
    /// Reads a model from a directory that the operator names.
    pub fn open(dir: &Path) -> Result<Self, VectorError> {
        let read = |name: &str, bytes_max: u64| {
            untrusted::read_trusted(&dir.join(name), bytes_max)
                .map_err(|error| invalid(name, &error))
        };
        let tokens = read("tokenizer.json", TOKENIZER_BYTES_MAX)?;
        let tokenizer =
            WordPieces::parse(&tokens).map_err(|why| invalid("tokenizer.json", &why))?;
        let table = read("model.safetensors", TABLE_BYTES_MAX)?;
        let mut model =
            Self::build(&table, tokenizer).map_err(|why| invalid("model.safetensors", &why))?;
        model.model_id = hash64(&table) ^ hash64(&tokens).rotate_left(1);
        Ok(model)
    }

    pub(super) fn build(table: &[u8], tokenizer: WordPieces) -> Result<Self, String> {
        let tensors = Tensors::parse(table)?;
        let (shape, rows) = tensors.numbers("embeddings")?.ok_or("no tensor `embeddings`")?;
        let [n_rows, n_dimensions] = shape[..] else {
            return Err("`embeddings` is not a table".into());
        };
        if n_rows == 0 || n_dimensions == 0 || n_dimensions > DIMENSIONS_MAX {
            return Err(format!("`embeddings` has {n_rows} rows of {n_dimensions}"));
        }
        let weights = tensors.numbers("weights")?.map(|(_, weights)| weights).unwrap_or_default();
        let mapping = tensors.numbers("mapping")?.map(|(_, rows)| rows).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // Saturates; `row` checks the bound.
        let mapping = mapping.into_iter().map(|row| row as usize).collect();
        Ok(Self { model_id: 0, tokenizer, n_dimensions, rows, weights, mapping })
    }

    fn row(&self, token: usize) -> Option<&[f32]> {
        let row = if self.mapping.is_empty() { token } else { *self.mapping.get(token)? };
        self.rows.get(row.checked_mul(self.n_dimensions)?..)?.get(..self.n_dimensions)
    }

    /// Adds up the rows of a text's tokens. Of the vector only the direction counts.
    fn sum(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0f32; self.n_dimensions];
        for token in self.tokenizer.tokens(text, TOKENS_MAX) {
            let weight = self.weights.get(token).copied().unwrap_or(1.0);
            let Some(row) = self.row(token) else { continue };
            for (sum, number) in sum.iter_mut().zip(row) {
                *sum += number * weight;
            }
        }
        sum
    }
}

impl Embedder for StaticModel {
    fn model_id(&self) -> u64 {
        self.model_id
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, VectorError> {
        Ok(texts.iter().map(|text| self.sum(text)).collect())
    }
}

fn invalid(name: &str, why: &dyn std::fmt::Display) -> VectorError {
    VectorError::Model { why: format!("{name}: {why}") }
}

/// Shape and numbers of a tensor.
type Tensor = (Vec<usize>, Vec<f32>);

/// The tensors of a safetensors file: eight bytes of header length, a header in JSON, the data.
struct Tensors<'a> {
    header: Value,
    data: &'a [u8],
}

impl<'a> Tensors<'a> {
    fn parse(file: &'a [u8]) -> Result<Self, String> {
        let (len, rest) = file.split_at_checked(8).ok_or("shorter than its header")?;
        let len = u64::from_le_bytes(len.try_into().map_err(|_| "no header")?);
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= HEADER_BYTES_MAX)
            .ok_or("header too long")?;
        let (header, data) = rest.split_at_checked(len).ok_or("shorter than its header")?;
        let header = serde_json::from_slice(header).map_err(|error| format!("header: {error}"))?;
        Ok(Self { header, data })
    }

    /// Shape and numbers of a tensor, or nothing if there is none of that name.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // Row numbers, and f64 weights.
    fn numbers(&self, name: &str) -> Result<Option<Tensor>, String> {
        let Some(tensor) = self.header.get(name) else { return Ok(None) };
        let list = |key: &str| -> Option<Vec<usize>> {
            let values = tensor[key].as_array()?.iter();
            values.map(|value| usize::try_from(value.as_u64()?).ok()).collect()
        };
        let shape = list("shape").ok_or(format!("`{name}` has no shape"))?;
        let [start, end] = list("data_offsets").unwrap_or_default()[..] else {
            return Err(format!("`{name}` has no offsets"));
        };
        let bytes = self.data.get(start..end).ok_or(format!("`{name}` is outside of the file"))?;
        let n = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        let kind = tensor["dtype"].as_str().unwrap_or_default();
        let width = match kind {
            "F64" | "I64" => 8,
            "F32" | "I32" => 4,
            "F16" => 2,
            "I8" => 1,
            _ => return Err(format!("`{name}` has numbers of kind `{kind}`")),
        };
        if n.and_then(|n| n.checked_mul(width)) != Some(bytes.len()) {
            return Err(format!("`{name}` does not have the size of its shape"));
        }
        let word = |b: &[u8]| [b[0], b[1], b[2], b[3]];
        let long = |b: &[u8]| [b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]];
        let numbers = bytes.chunks_exact(width).map(|b| match kind {
            "F64" => f64::from_le_bytes(long(b)) as f32,
            "I64" => i64::from_le_bytes(long(b)) as f32,
            "F32" => f32::from_le_bytes(word(b)),
            "I32" => i32::from_le_bytes(word(b)) as f32,
            "F16" => half(u16::from_le_bytes([b[0], b[1]])),
            _ => f32::from(i8::from_le_bytes([b[0]])),
        });
        Ok(Some((shape, numbers.collect())))
    }
}

/// A number of IEEE 754 binary16.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff) / 1024.0);
    match exponent {
        0 => sign * fraction * (-14f32).exp2(),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        #[allow(clippy::cast_precision_loss)] // At most 15.
        _ => sign * (1.0 + fraction) * ((exponent - 15) as f32).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn half_precision_numbers_are_read() {
        for (bits, number) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3800, 0.5),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0, 0.0),
        ] {
            assert!((half(bits) - number).abs() <= f32::EPSILON * number.abs(), "{bits:x}");
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
