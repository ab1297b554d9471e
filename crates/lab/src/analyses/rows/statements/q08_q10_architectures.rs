//! Q8 and Q10: does another architecture change the answer? A wider LSTM, and attention without softmax.

use crate::analyses::kit::compared::{Compared, Measure};
use crate::analyses::kit::lab::Lab;
use crate::analyses::kit::setting::{ISOTROPIC, LSTM, Setting};
use crate::analyses::rows::paper::f02_convergence::by_length;
use crate::analyses::{Analysis, LAST, Outcome};
use crate::compare::rates::Trend;
use crate::compare::similarity::View;
use crate::data::prompts::Prompts;
use crate::error::Result;
use crate::findings::claims::{Bound, Claim, Kind};
use crate::findings::figure::{Figure, Panel, Scale};
use crate::learners::Trajectory;
use crate::stats::{Estimate, bootstrap};

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "Q8",
        order: 80,
        title: "A wider LSTM is no better",
        summary: "The LSTM of the paper and one of twice its width and four times its parameters, trained alike. The paper reports from \
              preliminary experiments that size does not change its results, and shows none.",
        needs: &["r1", "r7", "r7-wide"],
        run: |lab, note| note.adopt(wider_lstm(lab)),
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q10",
        order: 100,
        title: "Attention by (1/t)ReLU trains as well as softmax",
        summary: "The theorem's Transformers use normalised ReLU attention, the trained ones softmax. The same network is trained with \
              (1/t)ReLU in its place, by the same recipe, and asked the same questions.",
        needs: &["r1", "r1-relu"],
        run: |lab, note| note.adopt(relu_attention(lab)),
        ..Analysis::STATEMENT
    },
];

/// A network of linear regression at its last layer.
struct Last {
    path: std::sync::Arc<Trajectory>,
    layer: u64,
}

impl Last {
    fn of(lab: &Lab, network: &str) -> Result<Last> {
        let layers = lab.layers(network)?;
        Ok(Last { path: lab.path(network, &ISOTROPIC.data, &layers)?, layer: layers.last() })
    }

    /// Squared errors, one per prompt: over all positions, or after t pairs.
    fn squares(&self, prompts: &Prompts, t: Option<usize>) -> Vec<f64> {
        match t {
            Some(t) => self.path.squared_errors(prompts, self.layer, t),
            None => {
                let s = self.path.steps.position(self.layer).expect("recorded");
                self.path
                    .errors(prompts, s)
                    .rows()
                    .into_iter()
                    .map(|r| r.iter().map(|e| e * e).sum())
                    .collect()
            }
        }
    }
}

/// The error of one network over another's on the same prompts.
fn ratio(lab: &Lab, prompts: &Prompts, [one, other]: [&Last; 2], t: Option<usize>) -> Estimate {
    let (one, other) = (one.squares(prompts, t), other.squares(prompts, t));
    bootstrap(lab.seed, prompts.count(), |chosen| {
        let of = |squares: &[f64]| chosen.iter().map(|&b| squares[b]).sum::<f64>();
        of(&one) / of(&other)
    })
}

fn curves(id: &str, title: &str, lab: &Lab, networks: &[(&str, &Last)], prompts: &Prompts) -> Figure {
    let panel = |(name, of): &(&str, &Last)| {
        let layers = of.path.steps.as_slice();
        Panel::Lines(by_length(name, &of.path, prompts, layers))
    };
    Figure {
        id: id.into(),
        title: title.into(),
        caption: format!(
            "Mean squared error over d after t pairs, layer by layer ({}, {} prompts).",
            ISOTROPIC.words, lab.count
        ),
        panels: networks.iter().map(panel).collect(),
    }
}

fn wider_lstm(lab: &Lab) -> Result<Outcome> {
    let prompts = lab.sample(&LSTM.data)?;
    let (usual, wide) = (Last::of(lab, "r7")?, Last::of(lab, "r7-wide")?);
    let transformer = Last::of(lab, "r1")?;
    let figure = "q8-wider";
    let claims = vec![
        Claim::of(
            "Q8.no-better",
            Kind::Paper,
            "Error of the wider LSTM over the usual one's, all positions",
            ratio(lab, &prompts, [&wide, &usual], None),
            Bound::Within(0.9, 1.1),
        )
        .quoted("increasing the size would not substantively change our results")
        .figure(figure),
        Claim::of(
            "Q8.still-behind",
            Kind::Paper,
            "Error of the wider LSTM over the Transformer's, after 40 pairs",
            ratio(lab, &prompts, [&wide, &transformer], Some(LAST)),
            Bound::AtLeast(10.0),
        )
        .quoted("much higher mean-squared error than Transformers")
        .figure(figure),
    ];
    let networks = [("LSTM, 256 wide", &usual), ("LSTM, 512 wide", &wide)];
    let figure = curves(figure, "Two LSTMs, layer by layer", lab, &networks, &prompts);
    Ok(Outcome { claims, figures: vec![figure], tables: vec![] })
}

fn relu_attention(lab: &Lab) -> Result<Outcome> {
    let setting = Setting { network: "r1-relu", who: "Transformer (ReLU)", ..ISOTROPIC };
    let prompts = lab.sample(&setting.data)?;
    let (softmax, relu) = (Last::of(lab, "r1")?, Last::of(lab, setting.network)?);
    let newton = Compared::new(lab, &setting, setting.newton, Measure::Errors(View::default()))?;
    let (errors, map) = ("q10-relu", "q10-map");
    let claims = vec![
        Claim::of(
            "Q10.as-well",
            Kind::Paper,
            "Error with ReLU over that with softmax, all positions",
            ratio(lab, &prompts, [&relu, &softmax], None),
            Bound::Within(0.9, 1.1),
        )
        .quoted("does not hurt model performance")
        .figure(errors),
        Claim::of(
            "Q10.last",
            Kind::Paper,
            "Error with ReLU over that with softmax, after 40 pairs",
            ratio(lab, &prompts, [&relu, &softmax], Some(LAST)),
            Bound::None,
        )
        .figure(errors),
        newton.trend_claim("Q10.newton-linear", Trend::Linear, "linear trend", map),
    ];
    let networks = [("softmax", &softmax), ("ReLU", &relu)];
    let maps = Figure {
        id: map.into(),
        title: "ReLU attention against Newton".into(),
        caption: format!("SimE ({}, {} prompts). {}", setting.words, lab.count, newton.describe()),
        panels: vec![newton.panel("SimE with Newton"), newton.best_panel(Scale::Linear)],
    };
    let title = "Softmax and ReLU attention, layer by layer";
    let figures = vec![curves(errors, title, lab, &networks, &prompts), maps];
    Ok(Outcome { claims, figures, tables: vec![] })
}
