//! Computes the cost of decoding an image from its header: pixels, memory, and block visits of a JPEG. Decodes nothing.
//! Where a file can be read in two ways, the more expensive one counts; a malformed file has no cost.

use super::raster::Format;

/// Maximum number of JPEG segments, or of PNG chunks before the data. Cameras and plots write a few dozen; each costs a
/// decoder more than its bytes.
const SEGMENTS_MAX: usize = 1024;

/// Cost of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Pixels across.
    pub(super) width: u32,
    /// Pixels down.
    pub(super) height: u32,
    /// Memory for the pixels and, of a progressive JPEG, for the coefficients of all blocks.
    pub(super) memory_bytes: u64,
    /// Visits of blocks of 8 by 8 samples: of each block once per scan in a progressive JPEG, once in any other; 0 for
    /// a PNG.
    pub(super) block_visits: u64,
}

/// Computes the cost of a PNG or JPEG; `None` if its header is malformed.
pub(super) fn of(bytes: &[u8], format: Format) -> Option<Cost> {
    match format {
        Format::Png => png(bytes),
        Format::Jpeg => jpeg(bytes),
    }
}

/// PNG, third edition, 5.3 and 11.2.1: a signature, then chunks, IHDR first.
fn png(bytes: &[u8]) -> Option<Cost> {
    const SIGNATURE_BYTES: usize = 8;
    // Length, name and checksum.
    const CHUNK_BYTES: usize = 12;
    let header = bytes.get(SIGNATURE_BYTES + 8..)?;
    if bytes.get(SIGNATURE_BYTES + 4..SIGNATURE_BYTES + 8)? != b"IHDR" {
        return None;
    }
    let (width, height) = (u32_at(header, 0)?, u32_at(header, 4)?);
    let bytes_a_sample = if *header.get(8)? == 16 { 2 } else { 1 };
    // After decoding: a palette becomes colours, with transparency if there is any.
    let n_channels = match header.get(9)? {
        0 => 1,
        2 => 3,
        4 => 2,
        _ => 4,
    };
    let mut at = SIGNATURE_BYTES;
    for _ in 0..SEGMENTS_MAX {
        let length = usize::try_from(u32_at(bytes, at)?).ok()?;
        if bytes.get(at + 4..at + 8)? == b"IDAT" {
            let n_pixels = u64::from(width) * u64::from(height);
            let memory_bytes = n_pixels.saturating_mul(n_channels * bytes_a_sample);
            return Some(Cost { width, height, memory_bytes, block_visits: 0 });
        }
        at = at.checked_add(length)?.checked_add(CHUNK_BYTES)?;
    }
    None
}

/// ITU-T T.81, B.1 and B.2: segments, a frame header among them, then scans.
fn jpeg(bytes: &[u8]) -> Option<Cost> {
    let mut frame: Option<Frame> = None;
    let mut at = 2;
    for _ in 0..SEGMENTS_MAX {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        // Fill byte.
        if marker == 0xff {
            at += 1;
            continue;
        }
        let length = usize::from(u16_at(bytes, at + 2)?);
        let body = bytes.get(at + 4..at.checked_add(2)?.checked_add(length)?)?;
        match marker {
            // DHT, JPG and DAC share the number range of frame headers.
            0xc4 | 0xc8 | 0xcc => {}
            // With two frames the decoder may use the other one.
            0xc0..=0xcf if frame.is_some() => return None,
            0xc0..=0xcf => frame = Some(Frame::read(marker, body)?),
            0xda => return frame?.cost(scans(&bytes[at..])?),
            // SOI, EOI, restart: invalid before the first scan.
            0xd0..=0xd9 | 0x00 | 0x01 => return None,
            _ => {}
        }
        at += 2 + length;
    }
    None
}

/// A frame header.
struct Frame {
    is_progressive: bool,
    width: u16,
    height: u16,
    /// Sampling factors of each component, across and down.
    components: Vec<(u64, u64)>,
}

impl Frame {
    fn read(marker: u8, body: &[u8]) -> Option<Self> {
        let (height, width) = (u16_at(body, 1)?, u16_at(body, 3)?);
        let n_components = usize::from(*body.get(5)?);
        let components = body.get(6..6 + 3 * n_components)?.chunks_exact(3);
        let components: Vec<_> =
            components.map(|c| (u64::from(c[1] >> 4), u64::from(c[1] & 15))).collect();
        let in_order = components.iter().all(|(h, v)| (1..=4).contains(h) && (1..=4).contains(v));
        // Baseline and extended with Huffman codes, and progressive; no other kind is supported.
        let is_known = matches!(marker, 0xc0..=0xc2) && (1..=4).contains(&n_components);
        let is_progressive = marker == 0xc2;
        (is_known && in_order).then_some(Self { is_progressive, width, height, components })
    }

    fn cost(&self, n_scans: u64) -> Option<Cost> {
        let h_max = self.components.iter().map(|c| c.0).max()?;
        let v_max = self.components.iter().map(|c| c.1).max()?;
        let n_units = |edge: u16, sampling_max: u64| u64::from(edge).div_ceil(8 * sampling_max);
        let n_mcus = n_units(self.width, h_max) * n_units(self.height, v_max);
        let blocks_in_mcu: u64 = self.components.iter().map(|(h, v)| h * v).sum();
        let n_blocks = n_mcus * blocks_in_mcu;
        let n_pixels = u64::from(self.width) * u64::from(self.height);
        let n_channels: u64 = if self.components.len() == 1 { 1 } else { 3 };
        // Coefficients have 16 bits.
        let coefficients = if self.is_progressive { n_blocks * 64 * 2 } else { 0 };
        Some(Cost {
            width: u32::from(self.width),
            height: u32::from(self.height),
            memory_bytes: n_pixels * n_channels + coefficients,
            block_visits: n_blocks * n_scans,
        })
    }
}

/// Counts the scans from the first on. In coded data a byte FF is followed by 00 or a restart, so every other pair is a
/// marker. Data after the end of the image is counted too.
fn scans(rest: &[u8]) -> Option<u64> {
    let markers = rest
        .windows(2)
        .filter(|pair| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xd0..=0xd7 | 0xff));
    let (mut n_scans, mut n_markers) = (0, 0);
    for pair in markers {
        n_markers += 1;
        n_scans += u64::from(pair[1] == 0xda);
        if n_markers > SEGMENTS_MAX {
            return None;
        }
    }
    Some(n_scans)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(width: u32, height: u32, format: Format) -> Vec<u8> {
        let [width, height] = [width, height].map(|n| usize::try_from(n).unwrap());
        let samples = vec![0; width * height * 3];
        super::super::raster::Raster { width, height, n_channels: 3, samples }
            .encode(format)
            .unwrap()
    }

    #[test]
    fn ordinary_pictures_cost_their_pixels() {
        let png = of(&encoded(300, 200, Format::Png), Format::Png).unwrap();
        assert_eq!((png.width, png.height, png.memory_bytes), (300, 200, 180_000));
        let jpeg = of(&encoded(300, 200, Format::Jpeg), Format::Jpeg).unwrap();
        assert_eq!((jpeg.width, jpeg.height, jpeg.memory_bytes), (300, 200, 180_000));
        assert!(jpeg.block_visits >= 300 * 200 / 64);
    }

    /// `FF DA` in a comment after the first scan counts as a scan: a decoder may read it as one.
    #[test]
    fn a_progressive_jpeg_costs_its_scans() {
        let frame = |n: usize| {
            let mut bytes = vec![0xff, 0xd8, 0xff, 0xc2, 0, 11, 8, 0, 80, 0, 160, 1, 1, 0x11, 0];
            for _ in 0..n {
                bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0]);
            }
            bytes
        };
        let cost = |bytes: &[u8]| of(bytes, Format::Jpeg);
        assert_eq!(cost(&frame(1)).unwrap().block_visits, 200);
        assert_eq!(cost(&frame(7)).unwrap().block_visits, 1400);
        assert_eq!(cost(&frame(7)).unwrap().memory_bytes, 160 * 80 + 200 * 128);
        let hidden = [&frame(1)[..], &[0xff, 0xfe, 0, 4, 0xff, 0xda]].concat();
        assert_eq!(cost(&hidden).unwrap().block_visits, 400);
        assert_eq!(cost(&frame(SEGMENTS_MAX + 1)), None);
        assert_eq!(cost(&frame(0)), None);
    }

    #[test]
    fn what_is_out_of_order_has_no_cost() {
        let jpeg = encoded(64, 64, Format::Jpeg);
        let sof = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        let mut two_frames = jpeg.clone();
        let frame = jpeg[sof..sof + 19].to_vec();
        two_frames.splice(sof..sof, frame);
        let mut factors = jpeg.clone();
        factors[sof + 11] = 0x0f;
        let many =
            [&[0xff, 0xd8][..], &[0xff, 0xfe, 0, 2].repeat(SEGMENTS_MAX), &jpeg[2..]].concat();
        for (name, bytes) in [("frames", two_frames), ("factors", factors), ("segments", many)] {
            assert_eq!(of(&bytes, Format::Jpeg), None, "{name}");
        }
        let png = encoded(64, 64, Format::Png);
        let text = [0, 0, 0, 0, b't', b'E', b'X', b't', 0, 0, 0, 0];
        let many = [&png[..33], &text.repeat(SEGMENTS_MAX), &png[33..]].concat();
        assert_eq!(of(&many, Format::Png), None);
        // Neither panics on a truncated file.
        for n in 0..png.len() {
            let _ = of(&png[..n], Format::Png);
        }
        for n in 0..jpeg.len() {
            let _ = of(&jpeg[..n], Format::Jpeg);
        }
    }
}
