//! Numbers printed in the cells of a heat-map: how large, with how many digits, and where there is room for them.

use lab::findings::HeatmapPanel;

use super::svg::{Svg, number};
use crate::text::{Weight, text_width};

/// Size and height of a cell's number where every cell shows one, and where a cell has plenty of room.
const DENSE: (f64, f64) = (8.0, 11.0);
const ROOMY: (f64, f64) = (9.5, 13.0);
/// A map that would need more of its usual size than this stays without numbers.
const MOST: f64 = 2.2;

/// How the cells of one map print their values.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    size: f64,
    decimals: usize,
    /// Whether `0.99` keeps its zero.
    zero: bool,
    /// How far numbers move to the left to leave room for whiskers.
    pub aside: f64,
}

impl Numbers {
    /// How a map prints its values and the size it needs for that; `None` where they would not be readable.
    pub fn fit(panel: &HeatmapPanel, (width, height): (f64, f64)) -> Option<(Numbers, (f64, f64))> {
        let (columns, rows) = (panel.x_steps.len().max(1) as f64, panel.y_steps.len().max(1) as f64);
        let whiskers = panel.best_interval.iter().flatten().any(|(low, high)| low < high);
        let aside = if whiskers { 3.5 } else { 0.0 };
        if !panel.numbers {
            let roomy = Numbers { size: ROOMY.0, decimals: 2, zero: true, aside };
            let room = width / columns >= roomy.width("0.99") + 5.0 && height / rows >= ROOMY.1;
            return room.then_some((roomy, (width, height)));
        }
        let dense = |decimals| Numbers { size: DENSE.0, decimals, zero: false, aside };
        let need = |numbers: &Numbers| {
            let texts = panel.values.iter().flatten().filter(|v| v.is_finite()).map(|v| numbers.text(*v));
            columns * (texts.map(|text| numbers.width(&text)).fold(0.0, f64::max) + 2.5)
        };
        let numbers = Some(dense(3)).filter(|three| need(three) <= width).unwrap_or(dense(2));
        let size = (need(&numbers).max(width), (rows * DENSE.1).max(height));
        (size.0 <= MOST * width && size.1 <= MOST * height).then_some((numbers, size))
    }

    /// A value in as few characters as tell it: `.957`, `1.00`, `24`.
    pub fn text(&self, value: f64) -> String {
        let short = match value.abs() {
            size if size < 1.0 => format!("{value:.*}", self.decimals),
            size if size < 10.0 && self.zero => format!("{value:.*}", self.decimals),
            size if size < 10.0 => format!("{value:.*}", self.decimals - 1),
            _ => format!("{value:.0}"),
        };
        let short = short.replace('-', "−");
        if self.zero { short } else { short.replacen("0.", ".", usize::from(value.abs() < 1.0)) }
    }

    /// Whether a text fits a cell of a width.
    pub fn fits(&self, text: &str, cell: f64) -> bool {
        self.width(text) + 2.0 <= cell
    }

    fn width(&self, text: &str) -> f64 {
        text_width(text, self.size, Weight::Regular) + 2.0 * self.aside
    }

    /// Neighbours of one row in one ink as one element: every character has its own place. `cells` are centres and texts.
    pub fn draw(&self, svg: &mut Svg, y: f64, ink: &str, cells: &[(f64, String)]) {
        let mut places = Vec::new();
        for (centre, text) in cells {
            let mut x = centre - self.aside - text_width(text, self.size, Weight::Regular) / 2.0;
            for character in text.chars() {
                places.push(number(x));
                x += text_width(character.encode_utf8(&mut [0; 4]), self.size, Weight::Regular);
            }
        }
        let content: String = cells.iter().map(|(_, text)| text.as_str()).collect();
        let tag = svg.tag("text").attr("x", &places.join(" ")).num("y", y + 0.36 * self.size);
        tag.num("font-size", self.size).attr("fill", ink).inert().content(&content);
    }
}
