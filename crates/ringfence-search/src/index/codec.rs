//! Numbers and strings of the index format, and the checks of everything that is read back. An index may lie where a
//! hostile program wrote, so a length is compared with what is there before anything is allocated.

use super::IndexError;
use crate::hash::hash64;

/// Bytes of the checksum in front of a frame.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// Appends numbers and strings to a buffer.
pub(crate) trait Put {
    fn put_varint(&mut self, value: u64);
    fn put_u64(&mut self, value: u64);
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    #[allow(clippy::cast_possible_truncation)] // The low seven bits.
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Damage found in the index, named by the part that has it.
pub(crate) fn corrupt(what: &'static str) -> IndexError {
    IndexError::Corrupt { what }
}

/// Reads numbers and strings from a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(corrupt(self.what))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, IndexError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64, IndexError> {
        let bytes = self.take(8)?.try_into().map_err(|_| corrupt(self.what))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, IndexError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt(self.what))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, IndexError> {
        u32::try_from(self.varint()?).map_err(|_| corrupt(self.what))
    }

    pub(crate) fn size(&mut self) -> Result<usize, IndexError> {
        usize::try_from(self.varint()?).map_err(|_| corrupt(self.what))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], IndexError> {
        let n = self.size()?;
        self.take(n)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, IndexError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| corrupt(self.what))
    }
}

/// Puts the checksum of `payload` in front of it.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(CHECKSUM_BYTES + payload.len());
    framed.put_u64(hash64(payload));
    framed.extend_from_slice(payload);
    framed
}

/// The payload of a frame whose checksum is right.
pub(crate) fn unframe<'a>(framed: &'a [u8], what: &'static str) -> Result<&'a [u8], IndexError> {
    let mut reader = Reader::new(framed, what);
    let checksum = reader.u64()?;
    if hash64(reader.bytes) == checksum { Ok(reader.bytes) } else { Err(corrupt(what)) }
}
