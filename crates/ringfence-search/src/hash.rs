//! A fast 64-bit hash for content and for blocks of the index. Detects change and damage; it is not cryptographic, so
//! everything read from an index is checked again after its checksum.

const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Hash of `bytes`.
pub(crate) fn hash64(bytes: &[u8]) -> u64 {
    let (mut a, mut b) = (KEYS[0], KEYS[1]);
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        a = fold(word(block, 0) ^ KEYS[1], word(block, 8) ^ a);
        b = fold(word(block, 16) ^ KEYS[2], word(block, 24) ^ b);
    }
    let rest = blocks.remainder();
    let mut last = [0u8; 32];
    last[..rest.len()].copy_from_slice(rest);
    a = fold(word(&last, 0) ^ KEYS[1], word(&last, 8) ^ a);
    b = fold(word(&last, 16) ^ KEYS[2], word(&last, 24) ^ b);
    fold(a ^ KEYS[3], b ^ bytes.len() as u64)
}

fn word(block: &[u8], at: usize) -> u64 {
    block[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Multiplies to 128 bits and folds the halves, so that every input bit reaches every output bit.
#[allow(clippy::cast_possible_truncation)] // Both halves are meant.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_and_any_length_changes_the_hash() {
        let text: Vec<u8> = (0..200u8).collect();
        let mut seen = std::collections::HashSet::new();
        for n in 0..text.len() {
            assert!(seen.insert(hash64(&text[..n])), "length {n}");
        }
        let whole = hash64(&text);
        for bit in 0..text.len() * 8 {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash64(&other), whole, "bit {bit}");
        }
        assert_ne!(hash64(&[0; 31]), hash64(&[0; 32]));
    }
}
