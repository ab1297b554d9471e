//! States as findings: words, figures, a table, JSON.

use serde_json::{Value, json};

use super::plan::{Found, Plan};
use super::{Decoded, Quantity, Role, States};
use crate::findings::numbers::counted;
use crate::findings::{Axis, Figure, Findings, HeatmapPanel, LinesPanel, Panel, Series, Table};
use crate::stats::Estimate;

/// The quantities of each role that are shown, in this order.
const SHOWN: [(Role, &[Quantity]); 2] = [
    (
        Role::X,
        &[Quantity::Transformed, Quantity::Answer, Quantity::Weights, Quantity::Moment, Quantity::Gram],
    ),
    (
        Role::Y,
        &[
            Quantity::Transformed,
            Quantity::Residual,
            Quantity::Innovation,
            Quantity::Weights,
            Quantity::Moment,
            Quantity::Gram,
        ],
    ),
];

/// A gain below this is nothing to speak of.
pub(crate) const NOTHING: f64 = 0.05;

impl Quantity {
    /// As a formula.
    pub fn formula(self) -> &'static str {
        match self {
            Quantity::Weights => "w_k",
            Quantity::Transformed => "T_k x",
            Quantity::Answer => "x·w_k",
            Quantity::Residual => "y − x·w_k",
            Quantity::Innovation => "y − x·w_k before",
            Quantity::Gram => "S",
            Quantity::Moment => "Xᵀy",
        }
    }
}

impl States {
    /// Gains of a quantity over layers and iterations.
    pub fn map(&self, role: Role, quantity: Quantity, title: &str) -> Panel {
        let mut steps: Vec<u64> = self.of_quantity(role, quantity).filter_map(|d| d.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let gain = |layer: u64, step: u64| {
            let mut of = self.of_quantity(role, quantity);
            let found = of.find(|d| d.layer as u64 == layer && d.step == Some(step));
            found.filter(|d| !d.faint).map_or(f64::NAN, |d| d.gain.value.max(0.0))
        };
        let layers: Vec<u64> = (0..=self.layers as u64).collect();
        let values = steps.iter().map(|&k| layers.iter().map(|&l| gain(l, k)).collect()).collect();
        let (x, y) = (("layer", layers), ("iterations k", steps));
        HeatmapPanel::plain(title, x, y, "gain", values).into()
    }

    /// The best gain of each quantity, layer by layer.
    pub fn curves(&self, role: Role, title: &str) -> Panel {
        let (_, quantities) = SHOWN.iter().find(|(of, _)| *of == role).expect("both roles are shown");
        let curves = quantities.iter().filter_map(|&quantity| {
            let best = (0..=self.layers).filter_map(|layer| self.best(layer, role, quantity));
            let points: Vec<(f64, Estimate)> = best.map(|d| (d.layer as f64, d.gain)).collect();
            (!points.is_empty()).then(|| Series::estimates(quantity.formula(), points).markers())
        });
        let y = Axis::linear("gain over the token's own x and y").range(-0.1, 1.05);
        LinesPanel::new(Axis::linear("layer"), y, curves).titled(title).into()
    }

    /// The iterations after which a quantity is read best, where it is read at all.
    pub fn best_steps(&self, role: Role, quantity: Quantity) -> Vec<(usize, u64)> {
        let best = (0..=self.layers).filter_map(|layer| self.best(layer, role, quantity));
        let read = best.filter(|d| d.gain.low > NOTHING && d.selectivity() > NOTHING);
        read.filter_map(|d| Some((d.layer, d.step?))).collect()
    }

    fn steps_panel(&self) -> Panel {
        let shown = [
            (Role::X, Quantity::Answer),
            (Role::X, Quantity::Transformed),
            (Role::Y, Quantity::Transformed),
            (Role::Y, Quantity::Residual),
        ];
        let curves = shown.into_iter().filter_map(|(role, quantity)| {
            let steps = self.best_steps(role, quantity);
            let points: Vec<(f64, f64)> = steps.into_iter().map(|(l, k)| (l as f64, k as f64)).collect();
            let name = format!("{}, {role}", quantity.formula());
            (!points.is_empty()).then(|| Series::new(name, points).markers())
        });
        LinesPanel::new(Axis::linear("layer"), Axis::linear("iterations k read best"), curves).into()
    }

    /// What is read best of each quantity at each layer.
    pub fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (role, quantities) in SHOWN {
            for layer in 0..=self.layers {
                let cell = |&quantity: &Quantity| match self.best(layer, role, quantity) {
                    Some(best) => match best.step {
                        Some(step) if best.gain.value > NOTHING => {
                            format!("{} (k = {step})", best.gain.cell(2))
                        }
                        _ => best.gain.cell(2),
                    },
                    None => "–".into(),
                };
                let mut row = vec![role.to_string(), layer.to_string()];
                row.extend(COLUMNS.iter().map(|q| if quantities.contains(q) { cell(q) } else { "–".into() }));
                rows.push(row);
            }
        }
        let columns = ["tokens", "layer"].map(String::from);
        let columns = columns.into_iter().chain(COLUMNS.map(|q| q.formula().to_string()));
        let caption = "Share of what a read-out from the token's own x and y leaves that one from the residual stream after a \
                       layer explains (0: what the first layer reads), at the best number of iterations; 95 % intervals over \
                       prompts.";
        Table::new("gains", "What can be read", caption, columns, rows)
    }

    /// The same with controls: shuffled targets, other numbers of pairs, other inputs.
    pub fn controls(&self) -> Table {
        let mut rows = Vec::new();
        for (role, quantities) in SHOWN {
            for &quantity in quantities {
                let best = (0..=self.layers).filter_map(|layer| self.best(layer, role, quantity));
                let Some(best) = best.max_by(|a, b| a.gain.value.total_cmp(&b.gain.value)) else { continue };
                let other = |e: &Option<Estimate>| e.map_or("–".into(), |e| e.cell(2));
                rows.push(vec![
                    role.to_string(),
                    quantity.formula().into(),
                    best.layer.to_string(),
                    best.step.map_or("–".into(), |k| k.to_string()),
                    best.gain.cell(2),
                    other(&best.control),
                    format!("{:.2}", best.selectivity()),
                    other(&best.other_pairs),
                    other(&best.other_inputs),
                ]);
            }
        }
        let columns = [
            "tokens",
            "quantity",
            "layer",
            "k",
            "gain",
            "shuffled",
            "selectivity",
            "other numbers of pairs",
            "other inputs",
        ];
        let caption = "At the layer where each is read best. Shuffled: targets of other prompts, fitted and judged in the same \
                       way; selectivity: gain less that. The last two are judged by read-outs that were not fitted to them.";
        Table::new("controls", "Controls", caption, columns, rows)
    }
}

/// Columns of the table.
const COLUMNS: [Quantity; 7] = [
    Quantity::Transformed,
    Quantity::Answer,
    Quantity::Residual,
    Quantity::Innovation,
    Quantity::Weights,
    Quantity::Moment,
    Quantity::Gram,
];

impl Found {
    /// What was found, in a sentence or two.
    pub fn answer(&self) -> String {
        let most = |role: Role, quantity: Quantity| -> Option<&Decoded> {
            let best = (0..=self.states.layers).filter_map(|layer| self.states.best(layer, role, quantity));
            best.max_by(|a, b| a.gain.value.total_cmp(&b.gain.value))
        };
        let words = |role, quantity: Quantity| {
            let best = most(role, quantity)?;
            let k = best.step.map_or(String::new(), |k| format!(" at k = {k}"));
            Some(format!("{} {} (layer {}{k})", quantity.formula(), best.gain.cell(2), best.layer))
        };
        let list = |role, quantities: &[Quantity]| -> String {
            quantities.iter().filter_map(|&q| words(role, q)).collect::<Vec<_>>().join(", ")
        };
        format!(
            "Of what a token's own x and y leave, its stream explains at most: x tokens {}; y tokens {}.",
            list(Role::X, &[Quantity::Transformed, Quantity::Answer]),
            list(Role::Y, &[Quantity::Transformed, Quantity::Residual])
        )
    }

    /// Everything a page about it shows.
    pub fn findings(&self, plan: &Plan) -> Findings {
        let states = &self.states;
        let summary = format!(
            "Read-outs from the residual stream to what {} would hold at a token, fitted on {} and judged on {}. T_k is its \
             approximate inverse of S after k iterations, w_k = T_k Xᵀy, from the pairs that the token sees. What counts is the \
             gain over a read-out from the token's own x and y.",
            plan.algorithm,
            counted(plan.prompts[0], "prompt", "prompts"),
            counted(plan.prompts[1], "other", "others"),
        );
        let maps = [
            states.map(Role::X, Quantity::Answer, "x·w_k, x tokens"),
            states.map(Role::X, Quantity::Transformed, "T_k x, x tokens"),
            states.map(Role::Y, Quantity::Transformed, "T_k x, y tokens"),
            states.map(Role::Y, Quantity::Residual, "y − x·w_k, y tokens"),
        ];
        let figures = vec![
            Figure::new(
                "gains",
                "What each layer holds",
                "The best over iterations, by layer; bands are 95 % intervals over prompts.",
                [states.curves(Role::X, "x tokens"), states.curves(Role::Y, "y tokens")],
            ),
            Figure::new(
                "steps",
                "After how many iterations is it read best?",
                "Where the gain is above nothing. Newton's iteration, one a layer, would be a line of slope 1.",
                [states.steps_panel()],
            ),
            Figure::new("maps", "Gains by layer and iteration", "Gains below 0 are shown as 0.", maps),
        ];
        Findings {
            analysis: "states".into(),
            title: format!("What does {} hold, layer by layer?", self.network),
            answer: self.answer(),
            summary,
            figures,
            tables: vec![states.table(), states.controls()],
            notes: self.notes.clone(),
            ..Findings::default()
        }
    }

    /// The numbers, for programs.
    pub fn json(&self, plan: &Plan) -> Value {
        let of = |e: &Estimate| json!({"value": e.value, "low": e.low, "high": e.high});
        let decoded = |d: &Decoded| {
            json!({
                "layer": d.layer, "tokens": d.role.to_string(), "quantity": d.quantity.to_string(), "step": d.step,
                "gain": of(&d.gain), "faint": d.faint, "control": d.control.as_ref().map(of),
                "other_pairs": d.other_pairs.as_ref().map(of), "other_inputs": d.other_inputs.as_ref().map(of),
            })
        };
        json!({
            "network": plan.network, "algorithm": plan.algorithm, "read_out": plan.read_out, "prompts": plan.prompts,
            "decoded": self.states.all.iter().map(decoded).collect::<Vec<_>>(),
            "answer": self.answer(), "notes": self.notes,
        })
    }
}
