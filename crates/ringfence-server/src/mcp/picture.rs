//! Images for a model: unchanged if they are small, otherwise scaled down. The original is a resource, or a file of the
//! session.
//!
//! A guest writes these files, and a few hundred bytes can cost seconds and hundreds of megabytes. So the cost of an
//! image is computed from its header before it is decoded, an image that costs too much is not decoded, and the process
//! decodes one image at a time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use rmcp::model::ContentBlock;

use super::picture_cost::{self, Cost};
use super::raster::{self, Format, Raster};

/// Maximum bytes of an image in a result.
const BYTES_MAX: usize = 1 << 20;

/// Maximum length of the longer edge, in pixels: models see no more.
const EDGE_MAX: u32 = 1568;

/// Maximum bytes of a source image. A larger one is only named.
pub(super) const SOURCE_BYTES_MAX: u64 = 8 << 20;

/// Maximum memory for decoding.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// Maximum number of pixels to decode: those of a 24-megapixel camera. The slowest image of that size takes half a
/// second of a processor.
const PIXELS_MAX: u64 = 24_000_000;

/// Maximum block visits of all scans of a progressive JPEG, at some 40 ns each: twelve scans of 24 megapixels in three
/// colours.
const BLOCK_VISITS_MAX: u64 = 16_000_000;

/// Maximum number of attempts to scale an image down.
const TRIES_MAX: u32 = 3;

/// Maximum wait while another image is scaled down; after that this one is only named.
const TURN_WAIT_MAX: Duration = Duration::from_secs(10);

/// Converts bytes to an image block, if they are an image. The name that a guest gave the file proves nothing.
pub(super) fn shown(bytes: &[u8]) -> Option<ContentBlock> {
    shown_after(bytes, TURN_WAIT_MAX)
}

fn shown_after(bytes: &[u8], wait_max: Duration) -> Option<ContentBlock> {
    let format = Format::of(bytes)?;
    let block = |bytes: &[u8]| {
        let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
        ContentBlock::image(encoded, format.media_type())
    };
    let cost = picture_cost::of(bytes, format)?;
    // The decoder must see the same image whose cost was computed.
    if raster::dimensions(bytes, format)? != (cost.width, cost.height) {
        return None;
    }
    if bytes.len() <= BYTES_MAX && cost.width.max(cost.height) <= EDGE_MAX {
        return Some(block(bytes));
    }
    if !is_affordable(&cost) {
        return None;
    }
    let _turn = Turn::take(wait_max)?;
    smaller(bytes, format).as_deref().map(block)
}

/// Detects the media type from the first bytes of a file.
pub(super) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    Format::of(bytes).map(Format::media_type)
}

fn is_affordable(cost: &Cost) -> bool {
    let n_pixels = u64::from(cost.width) * u64::from(cost.height);
    n_pixels <= PIXELS_MAX
        && cost.memory_bytes <= MEMORY_BYTES_MAX as u64
        && cost.block_visits <= BLOCK_VISITS_MAX
}

fn smaller(bytes: &[u8], format: Format) -> Option<Vec<u8>> {
    let picture = Raster::decode(bytes, format, MEMORY_BYTES_MAX)?;
    (0..TRIES_MAX).find_map(|n| {
        let edge = usize::try_from(EDGE_MAX >> n).ok()?;
        picture.scaled_down(edge).encode(format).filter(|encoded| encoded.len() <= BYTES_MAX)
    })
}

/// Permit to decode, held by one thread of the process at a time. Dropping it passes it on.
struct Turn(());

static IS_TAKEN: Mutex<bool> = Mutex::new(false);
static IS_FREE: Condvar = Condvar::new();

impl Turn {
    fn take(wait_max: Duration) -> Option<Self> {
        let taken = IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, wait) = IS_FREE
            .wait_timeout_while(taken, wait_max, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        if wait.timed_out() {
            return None;
        }
        *taken = true;
        Some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
        IS_FREE.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a longer wait: other tests decode at the same time, slowly.
    fn shown(bytes: &[u8]) -> Option<ContentBlock> {
        shown_after(bytes, Duration::from_mins(2))
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        // No two pixels alike, so that it cannot be compressed.
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let samples = pixels.flat_map(|(x, y)| {
            let mixed = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).to_le_bytes();
            [mixed[3], mixed[2], mixed[1]]
        });
        let [width, height] = [width, height].map(|n| usize::try_from(n).unwrap());
        let picture = Raster { width, height, n_channels: 3, samples: samples.collect() };
        picture.encode(Format::Png).unwrap()
    }

    fn dimensions(block: &ContentBlock) -> (u32, u32) {
        let data = &block.as_image().unwrap().data;
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        assert!(bytes.len() <= BYTES_MAX);
        let format = Format::of(&bytes).unwrap();
        let picture = Raster::decode(&bytes, format, MEMORY_BYTES_MAX).unwrap();
        [picture.width, picture.height].map(|n| u32::try_from(n).unwrap()).into()
    }

    #[test]
    fn a_picture_is_shown_as_it_is_or_smaller() {
        assert_eq!(dimensions(&shown(&png(40, 20)).unwrap()), (40, 20));
        let (width, height) = dimensions(&shown(&png(2_000, 1_000)).unwrap());
        assert!(width <= EDGE_MAX && width == 2 * height, "{width} {height}");
        let (width, _) = dimensions(&shown(&png(4_000, 30)).unwrap());
        assert_eq!(width, EDGE_MAX);
    }

    #[test]
    fn what_is_no_picture_or_too_large_a_one_is_not_shown() {
        let whole = png(2_000, 100);
        for bytes in
            [&b""[..], b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", &whole[..whole.len() / 2]]
        {
            assert!(shown(bytes).is_none(), "{:?}", bytes.get(..8));
        }
        // A file of a few bytes that claims to be 60,000 pixels wide and high.
        let mut bomb = png(2, 2);
        bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
        assert!(shown(&bomb).is_none());
    }

    /// Builds a progressive JPEG of a few hundred bytes: each scan refines every block, with four bytes of empty data.
    fn jpeg_of_scans(width: u16, height: u16, n_components: u8, n_scans: usize) -> Vec<u8> {
        fn segment(bytes: &mut Vec<u8>, marker: u8, body: &[u8]) {
            bytes.extend([0xff, marker]);
            bytes.extend(u16::try_from(body.len() + 2).unwrap().to_be_bytes());
            bytes.extend(body);
        }
        let mut bytes = vec![0xff, 0xd8];
        segment(&mut bytes, 0xdb, &[&[0][..], &[1; 64]].concat());
        let [w, h] = [width, height].map(u16::to_be_bytes);
        let mut frame = vec![8, h[0], h[1], w[0], w[1], n_components];
        (1..=n_components).for_each(|id| frame.extend([id, 0x11, 0]));
        segment(&mut bytes, 0xc2, &frame);
        // One code of one bit, for the value 0: no difference, and the end of a block.
        for table in [0x00, 0x10] {
            segment(&mut bytes, 0xc4, &[&[table, 1][..], &[0; 15], &[0]].concat());
        }
        for n in 0..n_scans {
            let scan = if n == 0 {
                let ids = (1..=n_components).flat_map(|id| [id, 0]);
                [vec![n_components], ids.collect(), vec![0, 0, 1]].concat()
            } else {
                let id = u8::try_from(n % usize::from(n_components)).unwrap() + 1;
                vec![1, id, 0, 1, 63, 0x10]
            };
            segment(&mut bytes, 0xda, &scan);
            bytes.extend([0; 4]);
        }
        bytes.extend([0xff, 0xd9]);
        bytes
    }

    #[test]
    fn a_few_bytes_that_cost_seconds_are_not_decoded() {
        let hostile = jpeg_of_scans(6_000, 6_000, 3, 30);
        assert!(hostile.len() < 600);
        for (name, bytes) in [
            ("pixels", jpeg_of_scans(6_000, 6_000, 3, 1)),
            ("grey pixels", jpeg_of_scans(6_000, 6_000, 1, 1)),
            ("scans", jpeg_of_scans(3_500, 3_500, 3, 63)),
            ("memory of coefficients", jpeg_of_scans(4_500, 4_500, 3, 2)),
            ("all of it", hostile),
        ] {
            let begun = std::time::Instant::now();
            assert!(shown(&bytes).is_none(), "{name}");
            // Nothing was decoded: that would take many seconds in a debug build.
            assert!(begun.elapsed() < Duration::from_secs(5), "{name}: {:?}", begun.elapsed());
        }
        // The same kind of file, within bounds.
        let (width, height) = dimensions(&shown(&jpeg_of_scans(1_600, 1_600, 3, 12)).unwrap());
        assert_eq!((width, height), (EDGE_MAX, EDGE_MAX));
    }

    #[test]
    fn one_picture_is_made_smaller_at_a_time() {
        let turn = Turn::take(Duration::from_mins(2)).unwrap();
        assert!(Turn::take(Duration::from_millis(20)).is_none());
        std::thread::scope(|scope| {
            let next = scope.spawn(|| Turn::take(Duration::from_mins(2)).is_some());
            drop(turn);
            assert!(next.join().unwrap());
        });
        assert!(Turn::take(Duration::from_mins(2)).is_some());
    }
}
