//! Q8 and Q10: does another architecture change the answer? A wider LSTM, and attention without softmax.

use crate::analyses::kit::prelude::*;

/// Its rows of the table.
pub const ROWS: &[Analysis] = &[
    Analysis {
        id: "Q8",
        paper: Some(("Footnote", "A.1")),
        order: 80,
        title: "Is a wider LSTM better?",
        summary: "The LSTM of the paper and one of twice its width and four times its parameters, trained alike. The \
                  paper reports from preliminary experiments that size does not change its results, and shows none. Both LSTMs \
                  were started as layers that pass their input on, which the paper's was not: what depth adds cannot be \
                  judged by them, width can.",
        needs: &["r1", "r7", "r7-wide"],
        run: wider_lstm,
        ..Analysis::STATEMENT
    },
    Analysis {
        id: "Q10",
        paper: Some(("Text", "3.2")),
        order: 100,
        title: "Does attention by (1/t)ReLU train as well as softmax?",
        summary: "The theorem's Transformers use normalised ReLU attention, the trained ones softmax. The same \
                  network is trained with (1/t)ReLU in its place, by the same recipe, and asked the same questions.",
        needs: &["r1-fast", "r1-relu"],
        run: relu_attention,
        ..Analysis::STATEMENT
    },
];

const DOES_NOT_HURT: &str = "replacing Softmax(·) with (1/t) ReLU(·) does not hurt model performance";

const TRANSFORMER: Setting = ISOTROPIC;
const LSTM: Setting = Setting { network: "r7", who: "LSTM, 256 wide", ..ISOTROPIC };
const WIDE_LSTM: Setting = Setting { network: "r7-wide", who: "LSTM, 512 wide", ..ISOTROPIC };
/// Trained by the same recipe as the one with ReLU.
const SOFTMAX: Setting = Setting { network: "r1-fast", ..ISOTROPIC };
const RELU: Setting = Setting { network: "r1-relu", who: "Transformer (ReLU)", ..ISOTROPIC };

/// The error of one network's last layer over another's: over all positions, or after `t` pairs.
fn last_over(lab: &Lab, one: &Setting, other: &Setting, t: Option<usize>) -> Result<Estimate> {
    let errors = |of: &Setting| -> Result<Vec<f64>> {
        let (path, prompts) = (of.layers(lab)?, of.prompts(lab)?);
        let last = path.steps.last();
        Ok(t.map_or_else(|| squares(&path, &prompts, last), |t| path.squared_errors(&prompts, last, t)))
    };
    Ok(ratio(lab.seed, &errors(one)?, &errors(other)?))
}

/// The errors of networks by pairs read, layer by layer.
fn draw(lab: &Lab, note: &mut Notebook, name: &str, title: &str, all: &[(&str, &Setting)]) -> Result<()> {
    let panel = |(label, of): &(&str, &Setting)| {
        let path = of.layers(lab)?;
        Ok(by_pairs(label, &path, &*of.prompts(lab)?, path.steps.as_slice()))
    };
    let caption =
        format!("Mean squared error over d after t pairs, layer by layer ({}).", ISOTROPIC.about(lab.count));
    note.figure(name, title, caption, all.iter().map(panel).collect::<Result<Vec<_>>>()?);
    Ok(())
}

fn wider_lstm(lab: &Lab, note: &mut Notebook) -> Result<()> {
    note.claim("no-better", last_over(lab, &WIDE_LSTM, &LSTM, None)?, Within(0.9, 1.1))
        .asks(&[WIDE_LSTM.network, LSTM.network])
        .says("Error of the wider LSTM over the usual one's, all positions")
        .quoted("increasing the size of the LSTM would not substantively change our results");
    note.claim("still-behind", last_over(lab, &WIDE_LSTM, &TRANSFORMER, Some(LAST))?, AtLeast(10.0))
        .asks(&[WIDE_LSTM.network, TRANSFORMER.network])
        .says("Error of the wider LSTM over the Transformer's, after 40 pairs")
        .quoted("they have much higher mean-squared error than Transformers");
    let both = [&LSTM, &WIDE_LSTM].map(|of| (of.who, of));
    draw(lab, note, "wider", "Two LSTMs, layer by layer", &both)
}

fn relu_attention(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let newton = RELU.errors(lab, RELU.newton)?;
    note.claim("as-well", last_over(lab, &RELU, &SOFTMAX, None)?, Within(0.9, 1.1))
        .says("Error with ReLU over that with softmax, all positions")
        .quoted(DOES_NOT_HURT);
    note.claim("last", last_over(lab, &RELU, &SOFTMAX, Some(LAST))?, Within(0.9, 1.1))
        .says("Error with ReLU over that with softmax, after 40 pairs")
        .quoted(DOES_NOT_HURT);
    note.trend("newton-linear", &newton, Trend::Linear).ours("As with softmax in F3").figure("map");
    let both = [("softmax", &SOFTMAX), ("ReLU", &RELU)];
    draw(lab, note, "relu", "Softmax and ReLU attention, layer by layer", &both)?;
    let caption = format!("SimE ({}). {}", RELU.about(lab.count), newton.describe());
    let panels: [Panel; 2] = [newton.map_panel("SimE with Newton").into(), newton.best_panel().into()];
    note.figure("map", "ReLU attention against Newton", caption, panels);
    Ok(())
}
