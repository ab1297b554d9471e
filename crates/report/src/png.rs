//! PNG from the same SVG, with fonts that are built in, so that every machine draws the same pixels.

use std::sync::{Arc, LazyLock};

use lab::findings::Figure;
use resvg::{tiny_skia, usvg};

use crate::Error;
use crate::draw::figure_svg;

static FONTS: LazyLock<Arc<usvg::fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(include_bytes!("../assets/Inter-Regular.otf").to_vec());
    fonts.load_font_data(include_bytes!("../assets/Inter-SemiBold.otf").to_vec());
    // Signs that Inter lacks (ᵀ ∈ ∝ ⟨ ⟩ …) are found here by fallback.
    fonts.load_font_data(include_bytes!("../assets/DejaVuSans-signs.ttf").to_vec());
    fonts.set_sans_serif_family("Inter");
    Arc::new(fonts)
});

/// The figure as a PNG with `scale` pixels per SVG unit (2 for screens, 3 or more for print).
pub fn figure_png(figure: &Figure, scale: f32) -> Result<Vec<u8>, Error> {
    let failed = |reason: String| Error::Raster { figure: figure.id.clone(), reason };
    let tree = parse(&figure_svg(figure)).map_err(|e| failed(e.to_string()))?;
    let size = tree.size();
    let (width, height) = ((size.width() * scale).ceil() as u32, (size.height() * scale).ceil() as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height)
        .ok_or_else(|| failed(format!("{width} × {height} pixels cannot be drawn at scale {scale}")))?;
    pixels.fill(tiny_skia::Color::WHITE);
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| failed(e.to_string()))
}

/// Reads an SVG with the embedded fonts; tests use the text boxes of the result.
pub(crate) fn parse(svg: &str) -> Result<usvg::Tree, usvg::Error> {
    let options =
        usvg::Options { fontdb: FONTS.clone(), font_family: "Inter".into(), ..usvg::Options::default() };
    usvg::Tree::from_str(svg, &options)
}
