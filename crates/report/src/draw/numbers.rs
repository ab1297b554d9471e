//! Numbers printed in the cells of a heat-map: how large, with how many digits, and where there is room for them.

use lab::findings::HeatmapPanel;

use super::svg::{Svg, number};
use crate::text::{Weight, text_width};

/// Size and height of a cell's number where every cell shows one, and where a cell has plenty of room.
const DENSE: (f64, f64) = (8.0, 11.0);
const ROOMY: (f64, f64) = (9.5, 13.0);
/// Distance of a whisker from the right edge of a cell that shows a number.
pub const WHISKER: f64 = 3.2;
/// A map that would need more of its usual size than this stays without numbers.
const MOST: f64 = 2.2;

/// How the cells of one map print their values.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    size: f64,
    decimals: usize,
    /// Whether `0.99` keeps its zero.
    zero: bool,
    /// Room on either side of a number, so that it stays in the middle and a whisker fits beside it.
    beside: f64,
}

impl Numbers {
    /// How a map prints its values and the size it needs for that; `None` where they would not be readable.
    pub fn fit(panel: &HeatmapPanel, (width, height): (f64, f64)) -> Option<(Numbers, (f64, f64))> {
        let (columns, rows) = (panel.x_steps.len().max(1) as f64, panel.y_steps.len().max(1) as f64);
        let whiskers = panel.best_interval.iter().flatten().any(|(low, high)| low < high);
        let beside = if whiskers { 4.75 } else { 0.0 };
        if !panel.numbers {
            let roomy = Numbers { size: ROOMY.0, decimals: 2, zero: true, beside };
            let room = width / columns >= roomy.width("0.99") + 5.0 && height / rows >= ROOMY.1;
            return room.then_some((roomy, (width, height)));
        }
        let dense = |decimals| Numbers { size: DENSE.0, decimals, zero: false, beside };
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
        // what rounds to zero has no sign
        let zero = short.bytes().all(|b| matches!(b, b'-' | b'0' | b'.'));
        let short = short.replace('-', if zero { "" } else { "−" });
        if self.zero { short } else { short.replacen("0.", ".", usize::from(value.abs() < 1.0)) }
    }

    /// Whether a text fits a cell of a width.
    pub fn fits(&self, text: &str, cell: f64) -> bool {
        self.width(text) + 2.0 <= cell
    }

    fn width(&self, text: &str) -> f64 {
        text_width(text, self.size, Weight::Regular) + 2.0 * self.beside
    }

    /// Neighbours of one row in one ink as one element: every character has its own place. `cells` are centres and texts.
    pub fn draw(&self, svg: &mut Svg, y: f64, ink: &str, cells: &[(f64, String)]) {
        let mut places = Vec::new();
        for (centre, text) in cells {
            let mut x = centre - text_width(text, self.size, Weight::Regular) / 2.0;
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

#[cfg(test)]
mod tests {
    use lab::findings::Figure;
    use resvg::usvg::roxmltree;

    use super::*;

    #[test]
    fn numbers_stand_in_the_middle_of_their_cells_with_room_for_whiskers() {
        let steps = |count: u64| (1..=count).collect::<Vec<u64>>();
        let values: Vec<Vec<f64>> = (0..24)
            .map(|r| (0..12).map(|c| 0.1 + 0.8 * f64::from((7 * r + 5 * c) % 12) / 12.0).collect())
            .collect();
        let map = HeatmapPanel {
            best: vec![Some(9); 12],
            best_interval: vec![Some((8, 11)); 12],
            ..HeatmapPanel::plain("", ("layer", steps(12)), ("steps", steps(24)), "SimE", values).numbered()
        };
        let svg = crate::figure_svg(&Figure::new("middle", "x", "", [map]));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let plot = document.descendants().find(|n| n.has_attribute("data-cells")).unwrap();
        let place = |key: &str| plot.attribute(key).unwrap().parse::<f64>().unwrap();
        let (left, cell) = (place("x"), place("width") / 12.0);
        let mut seen = 0;
        for text in document.descendants().filter(|n| n.attribute("x").is_some_and(|x| x.contains(' '))) {
            let x: Vec<f64> = text.attribute("x").unwrap().split(' ').map(|x| x.parse().unwrap()).collect();
            let digits: Vec<char> = text.text().unwrap().chars().collect();
            let size: f64 = text.attribute("font-size").unwrap().parse().unwrap();
            // every number of this map has as many characters
            let each = 1 + digits[1..].iter().position(|c| *c == '.').unwrap_or(digits.len() - 1);
            for (x, digits) in x.chunks(each).zip(digits.chunks(each)) {
                let last = digits[each - 1].to_string();
                let right = x[each - 1] + text_width(&last, size, Weight::Regular);
                let centre = (x[0] + right) / 2.0;
                let off = (centre - left) / cell - ((centre - left) / cell).floor() - 0.5;
                assert!(off.abs() * cell < 0.05, "{digits:?} is {off} of a cell off its middle");
                let whisker = centre + cell / 2.0 - WHISKER - 2.5;
                assert!(right < whisker, "{digits:?} reaches {right}, a whisker's cap {whisker}");
                seen += 1;
            }
        }
        assert_eq!(seen, 24 * 12);
    }

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        let values = vec![vec![-0.001, -0.4], vec![0.001, -0.006]];
        let map = HeatmapPanel::plain("", ("a", vec![1, 2]), ("b", vec![1, 2]), "log₁₀ growth", values);
        let svg = crate::figure_svg(&Figure::new("zero", "x", "", [map]));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let cells = document.descendants().filter(|n| n.attribute("x").is_some_and(|x| x.contains(' ')));
        let cells: String = cells.filter_map(|n| n.text()).collect();
        assert_eq!(cells, "0.00−0.400.00−0.01");
    }
}
