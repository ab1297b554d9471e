//! M1: the paper's question asked of a network that is trained in a minute.

use crate::analyses::kit::prelude::*;
use crate::analyses::kit::setting::MINIATURE;
use crate::networks::models;

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "M1",
    headline: Some(Headline {
        rank: 2,
        figure: "best",
        claims: &["newton-linear", "gd-exponential", "last-layer"],
    }),
    order: 100,
    title: "Does a miniature, trained in a minute, show it already?",
    summary: "Six layers in five dimensions, trained on two cores while one waits. Too small for the paper's \
              numbers, which are for twelve layers and d = 20, but not for its question: do the layers get better \
              one by one, and do their best-matching steps follow a line against Newton and an exponential against \
              gradient descent? With six layers none can be left out: rates are fitted to all whose match is not at \
              an end of the search.",
    needs: &[models::MINIATURE],
    run,
    ..Analysis::BEYOND
}];

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &MINIATURE;
    let newton = setting.errors(lab, setting.newton)?;
    let gd = setting.errors(lab, setting.gd)?;
    let (prompts, network) = (setting.prompts(lab)?, setting.layers(lab)?);
    let last = setting.data.last();
    let layers = network.steps.as_slice().iter();
    let errors: Vec<_> =
        layers.map(|&layer| (layer as f64, lab.error(&network, &prompts, layer, last))).collect();
    let worse = errors.windows(2).filter(|w| w[1].1.value > w[0].1.value).count();
    let expected = "As in F3";
    note.claim("improves", worse, AtMost(0.0))
        .says("Layers whose error after all pairs is larger than that of the layer before")
        .ours("Predictions improve over the layers")
        .figure("errors");
    note.trend("newton-linear", &newton, Trend::Linear).ours(expected).figure("best");
    note.trend("gd-exponential", &gd, Trend::Exponential).ours(expected).figure("best");
    note.slope("newton-slope", &newton, Trend::Linear, Bound::None).figure("best");
    note.claim("last-layer", newton.last_similarity(), AtLeast(0.9))
        .says("SimE of the last layer with its best Newton step")
        .ours("Very high; .991 in Table 1, for the large network");
    let both = [&newton, &gd];
    let outlined = "Outlined: best match of each layer. ";
    note.maps("maps", "Similarity of errors, miniature", setting, &both, outlined);
    note.best(setting, &both);
    note.best_matches("best-matches", &both);
    let caption = format!(
        "Mean squared error over d after all {last} pairs, with its 95 % interval ({}).",
        setting.about(lab.count)
    );
    let curve = Series::estimates(setting.who, errors);
    let panel = LinesPanel::new(Axis::linear("layer"), Axis::log10("squared error / d"), [curve]);
    note.figure("errors", "Error by layer", caption, [panel]);
    Ok(())
}
