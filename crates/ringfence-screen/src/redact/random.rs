//! Detects strings made by a generator: entropy per character, classes of characters, and the number of changes between
//! them. Reads at most the first 64 bytes.

use std::sync::LazyLock;

/// Bytes that are read: enough to tell a key from a word.
const SAMPLE_BYTES: usize = 64;

/// `n * log2(n)` for every count in a sample.
static N_LOG_N: LazyLock<[f32; SAMPLE_BYTES + 1]> = LazyLock::new(|| {
    let mut table = [0.0; SAMPLE_BYTES + 1];
    let mut n = 0.0_f32;
    for cell in &mut table {
        *cell = if n > 0.0 { n * n.log2() } else { 0.0 };
        n += 1.0;
    }
    table
});

/// Shannon entropy in bits for each byte.
pub(crate) fn bits(value: &[u8]) -> f32 {
    let sample = &value[..value.len().min(SAMPLE_BYTES)];
    if sample.is_empty() {
        return 0.0;
    }
    // A text made only of prefixes calls this every few bytes, with few distinct bytes. Five distinct bytes have at
    // most log2(5) = 2.3 bits, which is below every bound, so the exact value does not matter.
    let mut present = [0_u64; 4];
    for byte in sample {
        present[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    if present.iter().map(|word| word.count_ones()).sum::<u32>() <= 5 {
        return 0.0;
    }
    let mut counts = [0_u8; 256];
    for byte in sample {
        counts[usize::from(*byte)] += 1;
    }
    // Each byte of the sample once, by zeroing its count when it has been added.
    let mut sum = 0.0;
    for byte in sample {
        sum += N_LOG_N[usize::from(std::mem::take(&mut counts[usize::from(*byte)]))];
    }
    let n = N_LOG_N[sample.len()];
    // At most 64, so exact.
    #[allow(clippy::cast_precision_loss)]
    let len = sample.len() as f32;
    (n - sum) / len
}

/// Character classes of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Makeup {
    /// Presence of small letters, capitals, digits, signs.
    has: [bool; 4],
    /// Number of changes of class from one character to the next.
    n_changes: usize,
    /// Number of characters that are no separators.
    n: usize,
}

const SMALL: usize = 0;
const CAPITAL: usize = 1;
const DIGIT: usize = 2;
const SIGN: usize = 3;

impl Makeup {
    fn of(value: &[u8]) -> Self {
        let mut makeup = Self::default();
        let mut last = None;
        for byte in value.iter().take(SAMPLE_BYTES) {
            let kind = match byte {
                b'a'..=b'z' => SMALL,
                b'A'..=b'Z' => CAPITAL,
                b'0'..=b'9' => DIGIT,
                _ => SIGN,
            };
            makeup.has[kind] = true;
            // A separator between words of a name is not a change.
            if matches!(byte, b'_' | b'-' | b'.' | b'/') {
                last = None;
                continue;
            }
            makeup.n_changes += usize::from(last.is_some_and(|last| last != kind));
            makeup.n += 1;
            last = Some(kind);
        }
        makeup
    }
}

/// Returns true if a value looks generated: letters and digits in turns, and many distinct ones.
pub(crate) fn looks_random(value: &[u8], n_min: usize) -> bool {
    let makeup = Makeup::of(value);
    let n = value.len().min(SAMPLE_BYTES);
    let bits_min = match n {
        0..12 => 2.5,
        12..20 => 2.9,
        _ => 3.1,
    };
    value.len() >= n_min
        && makeup.has[DIGIT]
        && (makeup.has[SMALL] || makeup.has[CAPITAL])
        && makeup.n_changes * 5 >= n
        && bits(value) >= bits_min
}

/// The same for a value of less than 16 characters, where words are more likely: denser.
pub(crate) fn looks_random_short(value: &[u8], n_min: usize) -> bool {
    let makeup = Makeup::of(value);
    value.len() >= n_min
        && makeup.has[DIGIT]
        && (makeup.has[SMALL] || makeup.has[CAPITAL])
        && makeup.n_changes * 4 >= value.len()
        && bits(value) >= 2.6
}

/// Returns true if a value could be a password by common complexity rules: three classes of characters.
pub(crate) fn looks_chosen(value: &[u8]) -> bool {
    let makeup = Makeup::of(value);
    value.len() >= 8
        && makeup.has.iter().filter(|has| **has).count() >= 3
        && makeup.n_changes >= 3
        && bits(value) >= 2.5
}

/// Returns true if a value has letters and digits, like the simplest passwords that are accepted.
pub(crate) fn looks_simple(value: &[u8], n_min: usize) -> bool {
    let makeup = Makeup::of(value);
    value.len() >= n_min && makeup.has[DIGIT] && (makeup.has[SMALL] || makeup.has[CAPITAL])
}

/// Returns true if a value has as many signs as no sentence and no expression has.
pub(crate) fn looks_symbolic(value: &[u8]) -> bool {
    let mut distinct = 0_u128;
    for byte in value.iter().take(SAMPLE_BYTES).filter(|b| b.is_ascii_punctuation()) {
        distinct |= 1 << byte;
    }
    value.len() >= 10 && distinct.count_ones() >= 7 && value.iter().any(u8::is_ascii_alphanumeric)
}

/// Returns true if the sample contains so many digits.
pub(crate) fn has_digits(value: &[u8], n: usize) -> bool {
    value.iter().take(SAMPLE_BYTES).filter(|b| b.is_ascii_digit()).count() >= n
}

pub(crate) fn has_letter(value: &[u8]) -> bool {
    value.iter().take(SAMPLE_BYTES).any(u8::is_ascii_alphabetic)
}

pub(crate) fn has_small(value: &[u8]) -> bool {
    value.iter().take(SAMPLE_BYTES).any(u8::is_ascii_lowercase)
}

/// Returns true if the classes of characters change as often as in a generated string. Names in camel and snake case have
/// few changes; letters of one case without separators have none and are no name either if there are many.
pub(crate) fn is_mixed(value: &[u8]) -> bool {
    let makeup = Makeup::of(value);
    // The begin of a word in camel case is one change, not two.
    let humps = value.iter().take(SAMPLE_BYTES).collect::<Vec<_>>();
    let n_humps = humps
        .windows(3)
        .filter(|w| {
            w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase() && w[2].is_ascii_lowercase()
        })
        .count();
    let n_changes = makeup.n_changes - n_humps;
    (makeup.has[DIGIT] && makeup.n_changes * 4 >= makeup.n)
        || n_changes * 4 >= makeup.n
        || (n_changes == 0 && makeup.n == value.len().min(SAMPLE_BYTES) && bits(value) >= 3.5)
}

/// Returns true for 8-4-4-4-12 hexadecimal digits that are not all alike.
pub(crate) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
        && bits(value) >= 2.5
}

/// Returns true for letters and several digits without the separators of a name: `abcdef1234567890` is no word.
pub(crate) fn is_solid(value: &[u8], n_min: usize) -> bool {
    let sample = &value[..value.len().min(SAMPLE_BYTES)];
    let n_digits = sample.iter().filter(|b| b.is_ascii_digit()).count();
    let solid = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'=' | b'+' | b'-');
    value.len() >= n_min
        && n_digits >= 4
        && n_digits < sample.len()
        && sample.iter().all(solid)
        && memchr::memchr_iter(b'-', sample).count() * 8 <= sample.len()
        && bits(sample) >= 3.0
}

/// Returns true for a number as long as no count and no time is.
pub(crate) fn is_long_number(value: &[u8]) -> bool {
    (15..=32).contains(&value.len()) && value.iter().all(u8::is_ascii_digit) && bits(value) >= 2.3
}
