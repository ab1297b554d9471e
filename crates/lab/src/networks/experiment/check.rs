//! Whether the parts of an experiment exist and fit together. A message names field, value and what would be accepted.

use super::{Experiment, Ramp, Schedule, Start};
use crate::error::{Error, Result};
use crate::networks::NetworkSpec;

type Check = Result<()>;

/// Checkpoints kept along a training run: each is a file.
const MOST_KEPT: usize = 100_000;

fn bad(field: &str, value: impl ToString, accepted: &str) -> Check {
    let value = value.to_string();
    Err(Error::BadData(format!("field '{field}' is {value}; accepted: {accepted}")))
}

impl Experiment {
    /// Checks that the parts exist and fit together.
    pub fn check(&self) -> Check {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return bad("name", format!("'{}'", self.name), "letters, digits, dashes");
        }
        let (task, t) = (&self.task, &self.training);
        task.build()?;
        self.network.build(task.dim, task.points)?;
        self.check_counts()?;
        self.check_start()?;
        self.check_numbers()?;
        check_ramp("training.dims", t.dims, task.dim)?;
        check_ramp("training.points", t.points, task.points)?;
        if let Some(ramp) = t.dims {
            task.in_dims(ramp.start, task.points)?; // the class must exist in the first dimension too
        }
        Ok(())
    }

    fn check_counts(&self) -> Check {
        let t = &self.training;
        if t.batch == 0 || t.batch > 1 << 20 {
            return bad("training.batch", t.batch, "1 to 1048576");
        }
        if t.keep > MOST_KEPT {
            return bad("training.keep", t.keep, &format!("at most {MOST_KEPT}"));
        }
        let checkpoint_every = t.checkpoint_every.unwrap_or(1);
        let counts = [("steps", t.steps), ("log_every", t.log_every), ("checkpoint_every", checkpoint_every)];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((field, _)) => bad(&format!("training.{field}"), 0, "at least 1"),
            None => Ok(()),
        }
    }

    fn check_start(&self) -> Check {
        let t = &self.training;
        let field = "training.start";
        let value = match t.start {
            Start::Usual => return Ok(()),
            Start::PassThrough => "\"pass-through\"",
            Start::UnitGain => "\"unit-gain\"",
        };
        match self.network {
            NetworkSpec::Lstm { .. } if t.init.is_none() => Ok(()),
            NetworkSpec::Lstm { .. } => bad(field, value, "\"usual\" where 'init' is given"),
            _ => bad(field, value, "\"usual\", except for an LSTM"),
        }
    }

    fn check_numbers(&self) -> Check {
        let t = &self.training;
        let flat = t.flat.unwrap_or(0.0);
        if t.flat.is_some() && t.schedule != Schedule::Linear {
            return bad("training.flat", flat, "none unless 'schedule' is \"linear\"");
        }
        for (field, value, accepted, fine) in [
            ("rate", t.rate, "a number above 0", t.rate > 0.0 && t.rate.is_finite()),
            ("beta1", t.beta1, "0 to below 1", (0.0..1.0).contains(&t.beta1)),
            ("beta2", t.beta2, "0 to below 1", (0.0..1.0).contains(&t.beta2)),
            ("epsilon", t.epsilon, "a number above 0", t.epsilon > 0.0),
            ("warmup", t.warmup, "0 to 1", (0.0..=1.0).contains(&t.warmup)),
            ("flat", flat, "0 to below 1", (0.0..1.0).contains(&flat)),
            ("clip", t.clip.unwrap_or(1.0), "a number above 0", t.clip.is_none_or(|c| c > 0.0)),
        ] {
            if !fine {
                return bad(&format!("training.{field}"), value, accepted);
            }
        }
        Ok(())
    }
}

fn check_ramp(field: &str, ramp: Option<Ramp>, largest: usize) -> Check {
    let Some(ramp) = ramp else { return Ok(()) };
    if ramp.start == 0 || ramp.start > ramp.end || ramp.end != largest {
        let value = format!("{} to {}", ramp.start, ramp.end);
        return bad(field, value, &format!("from at least 1 up to the task's {largest}"));
    }
    if let Some(hold) = ramp.hold.filter(|hold| !(0.0..ramp.over.unwrap_or(1.0)).contains(hold)) {
        return bad(field, format!("held for {hold}"), "'hold' from 0 to below 'over'");
    }
    let grows = matches!((ramp.by, ramp.every), (Some(1..), Some(1..)));
    let spreads = ramp.over.is_some_and(|o| o > 0.0 && o <= 1.0);
    if grows == spreads {
        return bad(field, "unclear", "either 'by' and 'every', or 'over' (a share of the steps, above 0)");
    }
    Ok(())
}
