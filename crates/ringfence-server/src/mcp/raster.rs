//! Pixels of a PNG or JPEG: decoding, scaling down, encoding. `image` does the same and more; its colour management took
//! a tenth of the time that building this program takes.

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Quality of an encoded JPEG, of 100.
const JPEG_QUALITY: u8 = 80;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Jpeg,
}

impl Format {
    /// Detects the format from the first bytes of a file.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else {
            None
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }
}

/// Pixels in rows, 8 bits a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raster {
    pub(super) width: usize,
    pub(super) height: usize,
    /// 1 grey, 2 grey and alpha, 3 colours, 4 colours and alpha.
    pub(super) n_channels: usize,
    pub(super) samples: Vec<u8>,
}

/// Returns the dimensions that the decoder sees, without decoding.
pub(super) fn dimensions(bytes: &[u8], format: Format) -> Option<(u32, u32)> {
    match format {
        Format::Png => {
            let info = png::Decoder::new(Cursor::new(bytes)).read_header_info().ok()?.clone();
            Some((info.width, info.height))
        }
        Format::Jpeg => {
            let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
            decoder.decode_headers().ok()?;
            let info = decoder.info()?;
            Some((u32::from(info.width), u32::from(info.height)))
        }
    }
}

impl Raster {
    /// Decodes a file whose cost was found to be bearable.
    pub(super) fn decode(bytes: &[u8], format: Format, bytes_max: usize) -> Option<Self> {
        match format {
            Format::Png => Self::decode_png(bytes, bytes_max),
            Format::Jpeg => Self::decode_jpeg(bytes),
        }
    }

    fn decode_png(bytes: &[u8], bytes_max: usize) -> Option<Self> {
        let limits = png::Limits { bytes: bytes_max };
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().ok()?;
        let size = reader.output_buffer_size().filter(|size| *size <= bytes_max)?;
        let mut samples = vec![0; size];
        let info = reader.next_frame(&mut samples).ok()?;
        samples.truncate(info.buffer_size());
        let n_channels = info.color_type.samples();
        let [width, height] = [info.width, info.height].map(|n| usize::try_from(n).ok());
        Self { width: width?, height: height?, n_channels, samples }.checked()
    }

    fn decode_jpeg(bytes: &[u8]) -> Option<Self> {
        let options = DecoderOptions::new_safe().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        let samples = decoder.decode().ok()?;
        let info = decoder.info()?;
        let n_channels = decoder.output_colorspace()?.num_components();
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        Self { width, height, n_channels, samples }.checked()
    }

    fn checked(self) -> Option<Self> {
        let expected = self.width.checked_mul(self.height)?.checked_mul(self.n_channels)?;
        let is_whole = expected > 0 && self.samples.len() == expected;
        (is_whole && (1..=4).contains(&self.n_channels)).then_some(self)
    }

    /// Scales down so that the longer edge has at most `edge` pixels: each pixel is the mean of those it stands for.
    pub(super) fn scaled_down(&self, edge: usize) -> Self {
        let longer = self.width.max(self.height);
        if longer <= edge {
            return self.clone();
        }
        let scaled = |n: usize| (n * edge / longer).max(1);
        let (width, height) = (scaled(self.width), scaled(self.height));
        let n_channels = self.n_channels;
        let mut samples = Vec::with_capacity(width * height * n_channels);
        // The rows or columns that one of the result stands for.
        let range = |n: usize, of: usize, whole: usize| {
            let start = n * whole / of;
            start..((n + 1) * whole / of).max(start + 1)
        };
        for y in 0..height {
            let rows = range(y, height, self.height);
            for x in 0..width {
                let columns = range(x, width, self.width);
                for channel in 0..n_channels {
                    let sum: u64 = rows
                        .clone()
                        .map(|row| {
                            let start = (row * self.width + columns.start) * n_channels + channel;
                            let end = (row * self.width + columns.end) * n_channels;
                            self.samples[start..end]
                                .iter()
                                .step_by(n_channels)
                                .map(|sample| u64::from(*sample))
                                .sum::<u64>()
                        })
                        .sum();
                    let n = (rows.len() * columns.len()) as u64;
                    samples.push(u8::try_from((sum + n / 2) / n).unwrap_or(u8::MAX));
                }
            }
        }
        Self { width, height, n_channels, samples }
    }

    /// Encodes it; a JPEG has no transparency.
    pub(super) fn encode(&self, format: Format) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match format {
            Format::Png => {
                let [width, height] = [self.width, self.height].map(|n| u32::try_from(n).ok());
                let mut encoder = png::Encoder::new(&mut bytes, width?, height?);
                encoder.set_color(match self.n_channels {
                    1 => png::ColorType::Grayscale,
                    2 => png::ColorType::GrayscaleAlpha,
                    3 => png::ColorType::Rgb,
                    _ => png::ColorType::Rgba,
                });
                encoder.set_depth(png::BitDepth::Eight);
                let mut writer = encoder.write_header().ok()?;
                writer.write_image_data(&self.samples).ok()?;
                writer.finish().ok()?;
            }
            Format::Jpeg => {
                let colour = match self.n_channels {
                    1 => jpeg_encoder::ColorType::Luma,
                    3 => jpeg_encoder::ColorType::Rgb,
                    _ => return None,
                };
                let [width, height] = [self.width, self.height].map(|n| u16::try_from(n).ok());
                let encoder = jpeg_encoder::Encoder::new(&mut bytes, JPEG_QUALITY);
                encoder.encode(&self.samples, width?, height?, colour).ok()?;
            }
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(width: usize, height: usize, n_channels: usize) -> Raster {
        let samples = (0..width * height * n_channels).map(|n| u8::try_from(n % 251).unwrap());
        Raster { width, height, n_channels, samples: samples.collect() }
    }

    #[test]
    fn each_kind_of_png_comes_back_as_it_was() {
        for n_channels in 1..=4 {
            let raster = ramp(17, 5, n_channels);
            let bytes = raster.encode(Format::Png).unwrap();
            assert_eq!(Format::of(&bytes), Some(Format::Png));
            assert_eq!(dimensions(&bytes, Format::Png), Some((17, 5)));
            assert_eq!(Raster::decode(&bytes, Format::Png, 1 << 20), Some(raster));
            assert_eq!(Raster::decode(&bytes, Format::Png, 16), None);
        }
    }

    #[test]
    fn a_jpeg_comes_back_nearly_as_it_was() {
        let grey = Raster { samples: vec![100; 30 * 20 * 3], ..ramp(30, 20, 3) };
        let bytes = grey.encode(Format::Jpeg).unwrap();
        assert_eq!(
            (Format::of(&bytes), dimensions(&bytes, Format::Jpeg)),
            (Some(Format::Jpeg), Some((30, 20)))
        );
        let found = Raster::decode(&bytes, Format::Jpeg, 1 << 20).unwrap();
        assert_eq!((found.width, found.height, found.n_channels), (30, 20, 3));
        assert!(found.samples.iter().all(|sample| sample.abs_diff(100) <= 2), "{found:?}");
    }

    #[test]
    fn a_pixel_is_the_mean_of_those_it_stands_for() {
        let raster = Raster {
            width: 4,
            height: 2,
            n_channels: 1,
            samples: vec![0, 10, 20, 30, 2, 12, 22, 32],
        };
        let small = raster.scaled_down(2);
        assert_eq!((small.width, small.height, &small.samples[..]), (2, 1, &[6, 26][..]));
        assert_eq!(raster.scaled_down(4), raster);
        let thin = ramp(4000, 3, 3).scaled_down(100);
        assert_eq!((thin.width, thin.height, thin.samples.len()), (100, 1, 300));
    }
}
