//! The chunks that hold a term, with how often: ascending chunk numbers as differences, in blocks of 128 packed to the
//! width of the largest, the rest as varints.

use super::IndexError;
use super::codec::{Put, Reader, corrupt};

/// A chunk that holds a term, and how often, up to [`COUNT_MAX`].
pub(super) type Posting = (u32, u8);

/// Greatest count that is kept: BM25 hardly tells larger ones apart.
pub(super) const COUNT_MAX: u8 = 15;

const COUNT_BITS: u32 = 4;
const BLOCK: usize = 128;

/// Appends `postings`, which ascend, to `out`.
pub(super) fn encode(postings: &[Posting], out: &mut Vec<u8>) {
    let mut previous = 0u32;
    let mut blocks = postings.chunks_exact(BLOCK);
    for block in &mut blocks {
        let mut gaps = [0u32; BLOCK];
        let mut counts = [0u32; BLOCK];
        for ((gap, count), (chunk, n)) in gaps.iter_mut().zip(&mut counts).zip(block) {
            *gap = chunk - previous;
            *count = u32::from(*n);
            previous = *chunk;
        }
        pack(&gaps, out);
        pack(&counts, out);
    }
    for (chunk, n) in blocks.remainder() {
        out.put_varint(u64::from(chunk - previous) << COUNT_BITS | u64::from(*n));
        previous = *chunk;
    }
}

#[allow(clippy::cast_possible_truncation)] // Bytes of a shifted window.
fn pack(values: &[u32; BLOCK], out: &mut Vec<u8>) {
    let bits = u32::BITS - values.iter().fold(0, |or, value| or | value).leading_zeros();
    out.push(bits as u8);
    let (mut window, mut n_bits) = (0u64, 0u32);
    for value in values {
        window |= u64::from(*value) << n_bits;
        n_bits += bits;
        while n_bits >= 8 {
            out.push(window as u8);
            window >>= 8;
            n_bits -= 8;
        }
    }
}

/// Calls `each` with every posting. All chunk numbers are below `n_chunks`, or it is an error.
pub(super) fn decode(
    bytes: &[u8],
    n_postings: u32,
    n_chunks: u32,
    mut each: impl FnMut(u32, u8),
) -> Result<(), IndexError> {
    const WHAT: &str = "postings";
    if n_postings > n_chunks {
        return Err(corrupt(WHAT));
    }
    let mut reader = Reader::new(bytes, WHAT);
    let n_blocks = n_postings as usize / BLOCK;
    let mut chunk = 0u64;
    for _ in 0..n_blocks {
        let mut gaps = [0u32; BLOCK];
        let mut counts = [0u32; BLOCK];
        unpack(&mut reader, &mut gaps)?;
        unpack(&mut reader, &mut counts)?;
        let last = gaps.iter().fold(chunk, |sum, gap| sum + u64::from(*gap));
        if last >= u64::from(n_chunks) {
            return Err(corrupt(WHAT));
        }
        #[allow(clippy::cast_possible_truncation)] // Below n_chunks, which is a u32.
        for (gap, count) in gaps.iter().zip(&counts) {
            chunk += u64::from(*gap);
            each(chunk as u32, *count as u8 & COUNT_MAX);
        }
    }
    for _ in n_blocks * BLOCK..n_postings as usize {
        let value = reader.varint()?;
        chunk += value >> COUNT_BITS;
        if chunk >= u64::from(n_chunks) {
            return Err(corrupt(WHAT));
        }
        #[allow(clippy::cast_possible_truncation)] // Checked above; four bits.
        each(chunk as u32, (value & u64::from(COUNT_MAX)) as u8);
    }
    Ok(())
}

fn unpack(reader: &mut Reader<'_>, values: &mut [u32; BLOCK]) -> Result<(), IndexError> {
    let bits = usize::from(reader.u8()?);
    if bits > 32 {
        return Err(corrupt("postings"));
    }
    let packed = reader.take(BLOCK / 8 * bits)?;
    // Common widths are compiled one by one: their shifts are constants.
    macro_rules! widths {
        ($($n:literal)*) => { match bits { 0 => {} $($n => unpack_eights::<$n>(packed, values),)* _ => unpack_any(packed, bits, values) } };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
    Ok(())
}

/// Eight values of up to 16 bits take that many bytes, at most 16.
#[allow(clippy::cast_possible_truncation)] // Masked to at most 16 bits.
fn unpack_eights<const BITS: usize>(packed: &[u8], values: &mut [u32; BLOCK]) {
    let mask = (1u128 << BITS) - 1;
    for (eight, bytes) in values.chunks_exact_mut(8).zip(packed.chunks_exact(BITS)) {
        let mut window = [0u8; 16];
        window[..BITS].copy_from_slice(bytes);
        if BITS <= 8 {
            let window = u128::from_le_bytes(window) as u64;
            for (at, value) in eight.iter_mut().enumerate() {
                *value = (window >> (at * BITS) & mask as u64) as u32;
            }
        } else {
            let window = u128::from_le_bytes(window);
            for (at, value) in eight.iter_mut().enumerate() {
                *value = (window >> (at * BITS) & mask) as u32;
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // Masked to at most 32 bits.
fn unpack_any(packed: &[u8], bits: usize, values: &mut [u32; BLOCK]) {
    let mask = (1u64 << bits) - 1;
    for (index, value) in values.iter_mut().enumerate() {
        let bit = index * bits;
        let bytes = &packed[bit / 8..packed.len().min(bit / 8 + 8)];
        let window = bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        *value = (window >> (bit % 8) & mask) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8], n: u32, n_chunks: u32) -> Result<Vec<Posting>, IndexError> {
        let mut out = Vec::new();
        decode(bytes, n, n_chunks, |chunk, count| out.push((chunk, count)))?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn postings_read_back(gaps in prop::collection::vec((1u32..5000, 1u8..=15), 0..600)) {
            let mut chunk = 0;
            let postings: Vec<Posting> = gaps.iter().map(|(gap, n)| { chunk += gap; (chunk, *n) }).collect();
            let mut bytes = Vec::new();
            encode(&postings, &mut bytes);
            let n = u32::try_from(postings.len()).unwrap();
            prop_assert_eq!(decoded(&bytes, n, chunk + 1).unwrap(), postings);
            if n > 0 {
                prop_assert!(decoded(&bytes, n, chunk).is_err());
                prop_assert!(decoded(&bytes[..bytes.len() - 1], n, chunk + 1).is_err());
            }
        }

        #[test]
        fn any_bytes_decode_below_the_number_of_chunks_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..600), n in 0u32..400) {
            let mut greatest = 0;
            let _ = decode(&bytes, n, 1000, |chunk, _| greatest = greatest.max(chunk));
            prop_assert!(greatest < 1000);
        }
    }
}
