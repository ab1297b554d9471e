//! Figures as SVG, in the order of the data flow: `layout` measures the panels and sets them side by side, each kind of
//! panel draws itself, `svg` writes the elements.

mod axis;
mod blocks;
mod families;
mod heatmap;
mod layout;
mod legend;
mod lines;
mod notes;
mod numbers;
mod palette;
mod panel;
mod reach;
mod svg;
#[cfg(test)]
mod tests;

pub use layout::figure_svg;
pub(crate) use layout::panel_svgs;
