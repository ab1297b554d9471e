//! A comparison as findings: summary, map, best-matching steps, table, and the numbers for programs.

use serde_json::{Value, json};

use super::Comparison;
use super::plan::Plan;
use super::rates::{BEYOND_DOUBT, RateFit, Shape, Trend};
use super::similarity::Metric;
use crate::findings::{
    Axis, Figure, Findings, HeatmapPanel, LinesPanel, Panel, Scale, Series, Stroke, Table,
};

impl Comparison {
    /// Everything a page about it shows.
    pub fn findings(&self) -> Findings {
        let summary = self.summary();
        let mut figures = vec![Figure {
            id: "map".into(),
            title: format!("{} of every pair of steps", self.map.label),
            caption: format!(
                "{summary} Outlined: best match of each column, with a whisker where its 95 % bootstrap interval is wider than one step."
            ),
            panels: vec![self.panel("").into()],
        }];
        if self.matching.a.len() > 1 {
            figures.push(Figure {
                id: "best-match".into(),
                title: "Best-matching steps".into(),
                caption: format!(
                    "{} Matches at the ends of what was searched are not fitted.",
                    self.describe()
                ),
                panels: vec![self.best_panel()],
            });
        }
        Findings {
            analysis: "compare".into(),
            title: self.title(),
            answer: self.answer(),
            summary,
            figures,
            tables: std::iter::once(self.table()).chain(self.rate().ok().map(shapes)).collect(),
            notes: self.notes.clone(),
            ..Findings::default()
        }
    }

    /// What was found, for the first screen: the rate of the best matches, and where the two are closest.
    pub fn answer(&self) -> String {
        let (a, b) = self.names();
        let (one, other) = (self.map.a.unit.one(), self.map.b.unit.one());
        let rate = match self.rate() {
            Err(why) => why,
            Ok(fit) => {
                let ends = fit.points.first().zip(fit.points.last());
                let (first, last) = ends.map_or((0.0, 0.0), |(first, last)| (first.0, last.0));
                let worth = |trend: Trend| {
                    let rate = fit.per_step(trend);
                    let words = match trend {
                        Trend::Linear => format!("is worth {:.2} {} of {b}", rate.value, self.map.b.unit),
                        Trend::Exponential => {
                            format!("doubles the {} of {b} {:.2} times", self.map.b.unit, rate.value)
                        }
                    };
                    format!("{words}{}", rate.words())
                };
                let each = format!("From {one} {first} to {last} each {one} of {a}");
                match fit.settled() {
                    Some(trend) => format!("{each} {}.", worth(trend)),
                    None => format!(
                        "{each} {} or {}: which of the two cannot be told.",
                        worth(Trend::Linear),
                        worth(Trend::Exponential)
                    ),
                }
            }
        };
        let found = self.matching.a.as_slice().iter().zip(&self.matching.similarity);
        let found = found.filter(|(_, similarity)| similarity.is_finite());
        let closer = |x: f64, y: f64| if self.map.metric == Metric::Cosine { x > y } else { x < y };
        let closest = found.reduce(|best, next| if closer(*next.1, *best.1) { next } else { best });
        let Some((&step, similarity)) = closest else { return rate };
        let matched = match self.map.b.steps.len() {
            1 => b,
            _ => format!("{other} {} of {b}", self.step_text(step)),
        };
        format!("{rate} Closest: {one} {step} of {a} and {matched}, {} {similarity:.4}.", self.map.label)
    }

    /// The map with its best matches as a panel.
    pub fn panel(&self, title: &str) -> HeatmapPanel {
        let (map, matching) = (&self.map, &self.matching);
        HeatmapPanel {
            title: title.into(),
            x_label: map.a.label(),
            y_label: map.b.label(),
            x_steps: map.a.steps.as_slice().to_vec(),
            y_steps: map.b.steps.as_slice().to_vec(),
            values: map.mean.columns().into_iter().map(|column| column.to_vec()).collect(),
            value_label: map.label.to_string(),
            best: matching.best.clone(),
            best_interval: matching.intervals(),
            floor: Some(self.floor),
            numbers: false,
        }
    }

    /// The numbers, for programs.
    pub fn json(&self, plan: &Plan) -> Value {
        let steps = self.matching.a.as_slice();
        json!({
            "a": plan.a, "b": plan.b, "measure": self.map.label, "prompts": self.map.prompts(),
            "steps_a": steps,
            "best": steps.iter().map(|&s| self.step_for(s)).collect::<Vec<_>>(),
            "similarity": self.matching.similarity,
            "floor": self.floor,
            "rate": self.rate().ok(),
            "settled": self.rate().ok().and_then(RateFit::settled),
            "no_rate": self.rate().err(),
            "left_out": self.left_out_at_matches(),
            "notes": self.notes,
        })
    }

    /// How they were compared, and what came of it, in words.
    pub fn summary(&self) -> String {
        let (label, data) = (self.map.label, &self.data);
        format!(
            "{label}, {data}. {} Floor, with both at their last steps: {label} {:.4}.",
            self.describe(),
            self.floor
        )
    }

    /// Prompts left out at the best match of each step of A.
    fn left_out_at_matches(&self) -> Vec<Option<usize>> {
        let left_out = self.map.left_out();
        self.matching.best.iter().enumerate().map(|(i, best)| best.map(|j| left_out[[i, j]])).collect()
    }

    fn best_panel(&self) -> Panel {
        let steps = self.matching.a.as_slice().iter();
        let matched = steps.map(|&s| (s as f64, self.best_step(s))).collect();
        let none = (f64::NAN, f64::NAN);
        let band = self.matching.step_intervals().into_iter().map(|i| i.map_or(none, super::as_numbers));
        let mut series =
            vec![Series::new("best match", matched).band(band.collect()).stroke(Stroke::LineMarkers)];
        let mut scale = Scale::Linear;
        if let Ok(fit) = self.rate() {
            if fit.trend == Trend::Exponential {
                scale = Scale::Log2;
            }
            // a settled trend alone; both where it cannot be told, and what fits better than either
            let mut drawn = match fit.settled() {
                Some(Trend::Linear) => vec![Shape::Line],
                Some(Trend::Exponential) => vec![Shape::Exponential],
                None => vec![Shape::Line, Shape::Exponential],
            };
            if fit.settled().is_none() && !drawn.contains(&fit.best()) {
                drawn.push(fit.best());
            }
            series.extend(drawn.into_iter().map(|shape| {
                let curve = fit.points.iter().map(|p| (p.0, fit.of(shape).at(shape, p.0)));
                // a line may fall below 0, where a logarithmic axis ends
                let curve = curve.filter(|p| scale == Scale::Linear || p.1 > 0.0);
                Series::new(shape.name(), curve.collect()).stroke(Stroke::Dashed)
            }));
        }
        Panel::Lines(LinesPanel {
            title: String::new(),
            x: Axis::new(self.map.a.label(), Scale::Linear),
            y: Axis::new(self.map.b.label(), scale),
            series,
            references: vec![],
        })
    }

    fn table(&self) -> Table {
        let steps = self.matching.a.as_slice().iter().zip(self.matching.step_intervals());
        let left_out = self.left_out_at_matches();
        let some = self.left_out_words().is_some();
        let rows = steps.zip(&self.matching.similarity).zip(left_out);
        let rows = rows.map(|(((&s, interval), similarity), left_out)| {
            let interval = interval.map_or("–".into(), |(low, high)| format!("{low} to {high}"));
            let best = self.step_for(s).map_or("–".into(), |b| b.to_string());
            let mut row = vec![s.to_string(), best, format!("{similarity:.4}"), interval];
            row.extend(some.then(|| left_out.map_or("–".into(), |n| n.to_string())));
            row
        });
        let (a, b) = self.names();
        let mut columns =
            vec![self.map.a.label(), self.map.b.label(), self.map.label.into(), "95 % interval".into()];
        columns.extend(some.then(|| "prompts left out".to_string()));
        Table {
            id: "best-match".into(),
            title: "Best-matching steps".into(),
            caption: format!("For each step of {a} the best step of {b}."),
            columns,
            rows: rows.collect(),
        }
    }
}

/// The four curves through the best matches, the best first.
fn shapes(fit: &RateFit) -> Table {
    let mut order = Shape::ALL;
    order.sort_by(|x, y| fit.of(*x).bic.total_cmp(&fit.of(*y).bic));
    let best = fit.of(order[0]).bic;
    let (agree, verdict) = match fit.settled() {
        Some(Trend::Linear) => ("", "a line"),
        Some(Trend::Exponential) => ("", "an exponential"),
        None => ("not ", "either"),
    };
    let rows = order.map(|shape| {
        let of = fit.of(shape);
        vec![
            shape.name().into(),
            of.formula(shape),
            format!("{:.1}", of.bic),
            format!("{:.1}", of.bic - best),
        ]
    });
    let caption = format!(
        "Curves b(a) fitted to {} best matches, compared by BIC as densities of the same data: the smallest fits best. An \
         exponential is beyond doubt when it is smaller than all others by more than {BEYOND_DOUBT}, a line when it is smaller \
         than the exponential by as much and no other is smaller than it by as much. Here the matches are {agree}beyond doubt \
         {verdict}.",
        fit.points.len()
    );
    Table::new(
        "shapes",
        "Curves through the best matches",
        caption,
        ["curve", "b(a)", "BIC", "above the best"],
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::prompts::Task;
    use crate::data::seed::Seed;
    use crate::learners::steps::Steps;
    use crate::solvers;

    /// Newton against an algorithm, resampled.
    fn newton_against(name: &str, steps: &Steps) -> Comparison {
        let prompts = Task::new("linear", "gaussian", 5, 16).unwrap().sample(Seed(2), "eval", 0, 48);
        let path =
            |name: &str, steps: &Steps| solvers::build(name).unwrap().trajectory(&prompts, steps).unwrap();
        let (newton, other) = (path("newton", &Steps::range(0, 16)), path(name, steps));
        Comparison::of_errors(&newton, &other, &prompts).unwrap().resampled(Seed(0))
    }

    #[test]
    fn an_answer_has_the_rate_and_the_closest_steps() {
        let gd = newton_against("gd", &Steps::powers_of_two(0, 12)).over((3, 14));
        let said = gd.answer();
        let rate = gd.per_step(Trend::Exponential);
        let start = format!(
            "From iteration 3 to 14 each iteration of Newton doubles the iterations of GD {:.2} times (95 %:",
            rate.value
        );
        assert!(said.starts_with(&start), "{said}");
        let itself = newton_against("newton", &Steps::range(0, 16)).answer();
        assert!(itself.contains("is worth 1.00 iterations of Newton"), "{itself}");
        assert!(itself.contains("SimE 1.0000."), "{itself}");
    }

    #[test]
    fn without_a_rate_an_answer_says_so() {
        let said = newton_against("ols", &Steps::single(1)).answer();
        assert!(!said.starts_with("From"), "one step has no rate: {said}");
        assert!(said.contains("Closest: iteration") && said.contains("and OLS, SimE 0."), "{said}");
    }
}
