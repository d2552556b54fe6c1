//! The handwritten digits that are embedded in the program.

use std::io::Read;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use ndarray::{Array2, ArrayView1};

/// Pixels of an image: 8 x 8.
pub(super) const PIXELS: usize = 64;

/// Number of classes.
pub(super) const CLASSES: usize = 10;

/// Largest value of a pixel.
const DARKEST: f32 = 16.0;

/// UCI's optical digits; see cli/data/README.md.
static FILE: &[u8] = include_bytes!("../../../data/digits.csv.gz");

/// Images and their labels.
pub(super) struct Digits {
    /// `[images, 64]`, 0 to 16.
    pub(super) images: Array2<f32>,
    pub(super) labels: Vec<usize>,
}

impl Digits {
    /// Decompresses and parses the embedded file.
    pub(super) fn load() -> Result<Self> {
        let mut text = String::new();
        GzDecoder::new(FILE)
            .read_to_string(&mut text)
            .context("the embedded digits")?;
        let mut pixels = Vec::new();
        let mut labels = Vec::new();
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        for row in reader.deserialize::<Vec<f32>>() {
            let row = row.context("the embedded digits")?;
            let (&label, image) = row
                .split_last()
                .context("the embedded digits: empty line")?;
            ensure!(
                image.len() == PIXELS && label < CLASSES as f32,
                "the embedded digits"
            );
            pixels.extend(image);
            labels.push(label as usize);
        }
        let images = Array2::from_shape_vec((labels.len(), PIXELS), pixels)?;
        Ok(Self { images, labels })
    }
}

/// Draws images side by side, each with a caption of at most 18 characters below.
pub(super) fn draw(images: &[(ArrayView1<'_, f32>, String)]) -> Vec<String> {
    const SHADES: [&str; 5] = ["  ", "░░", "▒▒", "▓▓", "██"];
    let mut lines: Vec<String> = (0..8)
        .map(|row| {
            let line = |image: &ArrayView1<'_, f32>| -> String {
                (0..8)
                    .map(|column| {
                        let darkness = image[row * 8 + column] / DARKEST;
                        SHADES[((darkness * 4.0).round() as usize).min(4)]
                    })
                    .collect()
            };
            images
                .iter()
                .map(|(image, _)| format!("{}   ", line(image)))
                .collect()
        })
        .collect();
    lines.push(
        images
            .iter()
            .map(|(_, caption)| format!("{caption:<16}   "))
            .collect(),
    );
    lines
        .into_iter()
        .map(|line: String| line.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_file_is_whole() {
        let digits = Digits::load().unwrap();
        assert_eq!(digits.images.dim(), (1797, PIXELS));
        assert_eq!(digits.labels.len(), 1797);
        assert_eq!(digits.labels[..5], [0, 1, 2, 3, 4]);
        assert_eq!(digits.images.iter().copied().fold(0.0, f32::max), DARKEST);
        // How often each digit occurs, as the data set's description says.
        let count = |digit| {
            digits
                .labels
                .iter()
                .filter(|&&label| label == digit)
                .count()
        };
        let counts: Vec<usize> = (0..CLASSES).map(count).collect();
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    #[test]
    fn images_are_drawn_side_by_side() {
        let digits = Digits::load().unwrap();
        let image = |i: usize| (digits.images.row(i), format!("image {i}"));
        let lines = draw(&[image(0), image(1)]);
        assert_eq!(lines.len(), 9);
        assert!(
            lines[8].starts_with("image 0            image 1"),
            "{}",
            lines[8]
        );
        assert!(lines[..8].concat().contains("██"));
    }
}
