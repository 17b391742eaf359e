//! Pictures that a model can look at: as they are where they are small, else smaller. The original is a resource, or a file of
//! the session's.

use std::io::Cursor;

use base64::Engine as _;
use image::{ImageFormat, ImageReader, Limits};
use rmcp::model::ContentBlock;

/// A picture in a result takes no more than this.
const BYTES_MAX: usize = 1 << 20;

/// Its longer edge, in pixels: models see no more.
const EDGE_MAX: u32 = 1568;

/// One that is larger is only named.
pub(super) const SOURCE_BYTES_MAX: u64 = 8 << 20;

/// Memory that reading one may take; a guest can make a small file of a very large picture.
const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// Times it is made smaller before it is given up.
const TRIES_MAX: u32 = 3;

/// Bytes as a picture, if they are one; what a guest calls a picture need not be.
pub(super) fn shown(bytes: &[u8]) -> Option<ContentBlock> {
    let format = format(bytes)?;
    let block = |bytes: &[u8]| {
        let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
        ContentBlock::image(encoded, format.to_mime_type())
    };
    let (width, height) =
        ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().ok()?;
    if bytes.len() <= BYTES_MAX && width.max(height) <= EDGE_MAX {
        return Some(block(bytes));
    }
    smaller(bytes, format).as_deref().map(block)
}

/// What a file's first bytes say it is.
pub(super) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    format(bytes).map(|format| format.to_mime_type())
}

fn format(bytes: &[u8]) -> Option<ImageFormat> {
    let format = image::guess_format(bytes).ok()?;
    matches!(format, ImageFormat::Png | ImageFormat::Jpeg).then_some(format)
}

fn smaller(bytes: &[u8], format: ImageFormat) -> Option<Vec<u8>> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MEMORY_BYTES_MAX);
    reader.limits(limits);
    let picture = reader.decode().ok()?;
    (0..TRIES_MAX).find_map(|n| {
        let edge = EDGE_MAX >> n;
        let mut encoded = Cursor::new(Vec::new());
        picture.thumbnail(edge, edge).write_to(&mut encoded, format).ok()?;
        Some(encoded.into_inner()).filter(|encoded| encoded.len() <= BYTES_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        // No two pixels alike, so that it cannot be packed.
        let picture = image::RgbImage::from_fn(width, height, |x, y| {
            let mixed = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(40_503)).to_le_bytes();
            image::Rgb([mixed[3], mixed[2], mixed[1]])
        });
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    fn dimensions(block: &ContentBlock) -> (u32, u32) {
        let data = &block.as_image().unwrap().data;
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        assert!(bytes.len() <= BYTES_MAX);
        image::load_from_memory(&bytes).unwrap().into_rgb8().dimensions()
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
        // A file of a few bytes that says it is 60,000 pixels wide and high.
        let mut bomb = png(2, 2);
        bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
        assert!(shown(&bomb).is_none());
    }
}
