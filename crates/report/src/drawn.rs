//! Figures as files, each drawn once however often a growing report is written.

use std::collections::HashMap;

use lab::findings::Figure;
use rayon::prelude::*;

use crate::{Error, figure_csv, figure_png, figure_svg};

/// Pixels per SVG unit in PNGs: sharp on screens and at column width in print.
const PNG_SCALE: f32 = 2.5;

/// The bytes of one figure's files.
pub(crate) struct Files {
    pub svg: Vec<u8>,
    pub csv: Vec<u8>,
    pub png: Vec<u8>,
}

/// What was drawn already, by figure id; a figure must not change once it is here.
#[derive(Default)]
pub struct Drawn {
    files: HashMap<String, Files>,
}

impl Drawn {
    /// Draws the figures that are new.
    pub(crate) fn draw(&mut self, figures: &[&Figure]) -> Result<(), Error> {
        let new: Vec<&Figure> = figures.iter().copied().filter(|f| !self.files.contains_key(&f.id)).collect();
        let draw = |figure: &&Figure| {
            let files = Files {
                svg: figure_svg(figure).into_bytes(),
                csv: figure_csv(figure).into_bytes(),
                png: figure_png(figure, PNG_SCALE)?,
            };
            Ok((figure.id.clone(), files))
        };
        let drawn: Vec<(String, Files)> = new.par_iter().map(draw).collect::<Result<_, Error>>()?;
        self.files.extend(drawn);
        Ok(())
    }

    /// The files of a figure that was drawn.
    pub(crate) fn files(&self, id: &str) -> &Files {
        &self.files[id]
    }
}
