//! Maps as findings: words, a figure, a table, JSON.

use serde_json::{Value, json};

use super::plan::{Found, Plan};
use super::{Donor, Maps, Part, Place};
use crate::findings::numbers::counted;
use crate::findings::{Axis, Figure, Findings, HeatmapPanel, LinesPanel, Panel, Series, Table};
use crate::stats::Estimate;

impl Donor {
    /// What the answers follow, in words.
    fn words(self) -> &'static str {
        match self {
            Donor::Labels => "the same inputs with labels of another function",
            Donor::Inputs => "other inputs under the same function",
            Donor::Both => "another prompt",
        }
    }
}

impl Part {
    /// Where a patch is, in words.
    fn words(self) -> &'static str {
        match self {
            Part::Stream => "the residual stream before a layer",
            Part::Attention => "what the attention heads of a layer hand to the projection",
            Part::Mlp => "the hidden layer of a layer's MLP",
        }
    }
}

impl Maps {
    /// The shares as a panel: curves for roles, cells for tokens.
    pub fn panel(&self, title: &str) -> Panel {
        let layers = || 1..=self.follows.len() as u64;
        if self.places.iter().any(|place| matches!(place, Place::Token(_))) {
            let values = (0..self.places.len())
                .map(|p| self.follows.iter().map(|layer| layer[p].value).collect())
                .collect();
            let tokens = (0..self.places.len() as u64).collect();
            let (x, y) = (("layer", layers().collect()), ("token", tokens));
            return HeatmapPanel::plain(title, x, y, "share of the way to the donor's answer", values).into();
        }
        let curves = self.places.iter().enumerate().map(|(p, place)| {
            let points = layers().map(|layer| layer as f64).zip(self.follows.iter().map(|of| of[p]));
            Series::estimates(place.to_string(), points).markers()
        });
        let y = Axis::linear("share of the way to the donor's answer").range(-0.2, 1.1);
        LinesPanel::new(Axis::linear("layer"), y, curves).titled(title).into()
    }

    /// The shares, a row for each layer.
    pub fn table(&self) -> Table {
        let rows = self.follows.iter().enumerate().map(|(layer, of)| {
            std::iter::once((layer + 1).to_string()).chain(of.iter().map(|share| share.cell(2))).collect()
        });
        let columns = std::iter::once("layer".to_string()).chain(self.places.iter().map(Place::to_string));
        let caption =
            "Share of the way from the prompt's answer to the donor's; 95 % intervals over prompts.";
        Table::new("follows", "How far answers follow", caption, columns, rows)
    }
}

impl Found {
    /// What was found, in a sentence or two.
    pub fn answer(&self) -> String {
        let most = |layer: usize| {
            let shares = self.maps.places.iter().zip(&self.maps.follows[layer]);
            shares.max_by(|x, y| x.1.value.total_cmp(&y.1.value))
        };
        let layers = self.maps.follows.len();
        let ends: Vec<String> = [0, layers / 2, layers - 1]
            .into_iter()
            .filter_map(|layer| {
                let (place, share) = most(layer)?;
                Some(format!("at layer {} most by the {place}, {}", layer + 1, share.cell(2)))
            })
            .collect();
        format!("Answers follow {}: {}.", self.donor.words(), ends.join("; "))
    }

    /// Everything a page about it shows.
    pub fn findings(&self) -> Findings {
        let Maps { part, pairs, prompts, .. } = self.maps;
        let summary = format!(
            "A query after {}, {}. {} is taken from a run with {}, at some tokens, and the rest is computed from there. 1: the \
             answer becomes the donor's; 0: it stays.",
            counted(pairs, "pair", "pairs"),
            counted(prompts, "prompt", "prompts"),
            capitalised(part.words()),
            self.donor.words()
        );
        let title = format!("Where do the {} live in {}?", self.donor, self.network);
        let figure = Figure::new(
            "follows",
            "How far answers follow the donor",
            summary.clone(),
            [self.maps.panel("")],
        );
        Findings {
            analysis: "patch".into(),
            title,
            answer: self.answer(),
            summary,
            figures: vec![figure],
            tables: vec![self.maps.table()],
            notes: self.notes.clone(),
            ..Findings::default()
        }
    }

    /// The numbers, for programs.
    pub fn json(&self, plan: &Plan) -> Value {
        let of = |e: &Estimate| json!({"value": e.value, "low": e.low, "high": e.high});
        let rows = self.maps.follows.iter();
        json!({
            "network": plan.network, "donor": plan.donor, "part": plan.part, "pairs": plan.pairs,
            "prompts": self.maps.prompts, "device": self.device,
            "places": self.maps.places.iter().map(Place::to_string).collect::<Vec<_>>(),
            "follows": rows.map(|row| row.iter().map(of).collect::<Vec<_>>()).collect::<Vec<_>>(),
            "answer": self.answer(), "notes": self.notes,
        })
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
