//! F8: all values of the maps of errors, again for t > d alone, and where two algorithms cannot be told apart.

use crate::analyses::kit::prelude::*;
use crate::compare::matching::{Lead, MARGIN, ahead};

/// Its row of the table.
pub const ROWS: &[Analysis] = &[Analysis {
    id: "F8",
    paper: Some(("Figure 8", "A.2.2")),
    order: 80,
    title: "At which layers can Newton and gradient descent be told apart?",
    summary: "The maps of F3 with all their values, and on positions t > d alone, where least squares is exact and only unconverged \
              errors are compared; and, layer by layer, how much more similar Newton is than gradient descent, resampling \
              prompts in pairs. The paper grants that gradient descent is about as similar at later layers. An algorithm counts \
              as ahead only by more than 0.001 and beyond doubt, by Holm's method over the layers; otherwise the two cannot be \
              told apart by similarity, only by the rate of their best matches.",
    needs: &["r1"],
    run,
    ..Analysis::FIGURE
}];

/// The first layer that does something, by the paper.
pub const FIRST: u64 = 3;
/// The first of the later layers, after the paper's line over layers 3 to 9.
const LATER: u64 = 10;
/// How far apart the similarities of the last layer with Newton and with GD are in the paper's Table 1: .991 and .957.
const PAPERS_GAP: f64 = 0.034;

fn run(lab: &Lab, note: &mut Notebook) -> Result<()> {
    let setting = &ISOTROPIC;
    let authors = [setting.newton, setting.gd].map(|baseline| setting.by_authors(lab, baseline));
    let [newton, gd] = authors;
    let (newton, gd) = (newton?, gd?);
    let by_authors = Leads::new(lab, &newton, &gd);
    let caption = format!(
        "SimE of every layer with every step by the authors' protocol: their steps, the position before the first pair among those \
         compared, {} prompts. {}",
        newton.map.prompts(),
        setting.words
    );
    let panels = [&newton, &gd].map(|of| HeatmapPanel { numbers: true, ..of.map_panel("") });
    note.figure("values", "All values of similarity of errors, on the authors' steps", caption, panels);

    let views = [("all", "t ≥ 1", View::default()), ("late", "t > d", View { first: DIM + 1 })];
    let mut curves = vec![];
    for (key, words, view) in views {
        let of = |baseline| setting.compare(lab, baseline, Measure::Errors(view));
        let (newton, gd) = (of(setting.newton)?, of(setting.gd)?);
        let leads = Leads::new(lab, &newton, &gd);
        let alike = leads.alike();
        let claim = note
            .claim(&format!("newton-ahead-{key}"), leads.gd(), AtMost(0.0))
            .says(format!(
                "Layers from {FIRST} on at which GD is more similar than Newton beyond doubt ({words}); not told apart: {}",
                alike.len()
            ))
            .figure("advantage")
            .why(newton.why_not_ahead_of(&gd));
        if key == "all" {
            claim.quoted("Transformers are more similar to second-order methods").authors(by_authors.gd());
            note.claim("comparable-later", leads.later(), AtMost(PAPERS_GAP))
                .says(format!(
                    "Largest difference between SimE with Newton and SimE with GD at layers from {LATER} on; the paper's Table 1 has \
                     {PAPERS_GAP}"
                ))
                .quoted("GD has a comparable similarity with the Transformers at later layers")
                .authors(by_authors.later())
                .figure("advantage");
        } else {
            claim.ours("the paper compares at t ≥ 1 only").kind(Kind::Beyond);
            note.claim("last-layer-late", newton.last_similarity(), Bound::None)
                .says("SimE of the last layer with its best Newton step (t > d)")
                .ours("the paper compares at t ≥ 1 only")
                .kind(Kind::Beyond)
                .figure(key);
            let trend = note.trend("newton-linear-late", &newton, Trend::Linear);
            trend.ours("a line, as at t ≥ 1").kind(Kind::Beyond).figure(key);
            let trend = note.trend("gd-exponential-late", &gd, Trend::Exponential);
            trend.ours("an exponential, as at t ≥ 1").kind(Kind::Beyond).figure(key);
        }
        let both = [&newton, &gd];
        let where_alike =
            if alike.is_empty() { "no layer".into() } else { format!("layers {}", alike.join(", ")) };
        let remark = format!("Positions {words}. Newton and GD cannot be told apart at {where_alike}. ");
        note.maps(key, &format!("Similarity of errors, positions {words}"), setting, &both, &remark);
        note.best_matches(&format!("best-{key}"), &both);
        note.table(
            &format!("ahead-{key}"),
            format!("Newton or gradient descent, positions {words}"),
            format!(
                "Difference of the best similarities, Newton minus GD, with its paired 95 % interval and the p-value, adjusted by \
                 Holm's method, of a lead above {MARGIN}."
            ),
            ["layer", "difference", "95 %", "p", "more similar"],
            leads.0.iter().map(table_row),
        );
        curves.push(leads.curve(words));
    }
    curves.push(by_authors.curve("the authors' protocol"));
    let caption = format!(
        "SimE of each layer with its best Newton step minus SimE with its best GD step; 95 % bands from resampling {} prompts in \
         pairs, best steps chosen anew each time. On the authors' coarser steps GD has fewer to choose from.",
        lab.count
    );
    let (x, y) = (Axis::linear("Transformer layers"), Axis::linear("SimE(Newton) − SimE(GD)"));
    let panel = LinesPanel::new(x, y, curves).mark_y("alike", 0.0);
    note.figure("advantage", "SimE with Newton minus SimE with gradient descent, by layer", caption, [panel]);
    Ok(())
}

/// How far Newton is ahead of gradient descent, by layer.
struct Leads(Vec<Lead>);

impl Leads {
    fn new(lab: &Lab, newton: &Compared, gd: &Compared) -> Leads {
        Leads(ahead(&newton.map, &[&gd.map], FIRST.., lab.seed))
    }

    /// Layers at which gradient descent is ahead beyond doubt.
    fn gd(&self) -> usize {
        self.0.iter().filter(|lead| lead.second()).count()
    }

    /// Layers at which neither is.
    fn alike(&self) -> Vec<String> {
        self.0.iter().filter(|lead| !lead.beyond_doubt()).map(|lead| lead.step.to_string()).collect()
    }

    /// The largest difference, either way, at the later layers.
    fn later(&self) -> Estimate {
        let size = |lead: &Lead| {
            let Estimate { value, low, high } = lead.difference;
            if value < 0.0 { Estimate { value: -value, low: -high, high: -low } } else { lead.difference }
        };
        let later = self.0.iter().filter(|lead| lead.step >= LATER).map(size);
        later.max_by(|a, b| a.value.total_cmp(&b.value)).unwrap_or(Estimate::NONE)
    }

    fn curve(&self, label: &str) -> Series {
        Series::estimates(label, self.0.iter().map(|lead| (lead.step as f64, lead.difference)))
    }
}

fn table_row(lead: &Lead) -> Vec<String> {
    let Estimate { value, low, high } = lead.difference;
    let verdict = match (lead.first(), lead.second()) {
        (true, _) => "Newton",
        (_, true) => "GD",
        _ => "cannot be told apart",
    };
    let interval = format!("{low:+.4} to {high:+.4}");
    vec![lead.step.to_string(), format!("{value:+.4}"), interval, format!("{:.3}", lead.p), verdict.into()]
}
