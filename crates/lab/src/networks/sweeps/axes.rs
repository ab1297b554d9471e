//! Axes: which fields of an experiment a sweep changes, and to what.

use toml::{Table, Value};

/// One field and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Path of the field: `training.seed`.
    pub field: String,
    /// What it takes, in order.
    pub values: Vec<Value>,
}

/// Most values of one axis: a range with a tiny step is a slip, not a wish.
const MOST_VALUES: usize = 100_000;

/// The axes of a table such as `training.seed = [0, 1]`: leaves are lists or ranges. The error says what is wrong.
pub fn axes(table: &Table) -> Result<Vec<Axis>, String> {
    let mut found = Vec::new();
    collect("", table, &mut found)?;
    if found.is_empty() {
        return Err(
            "field 'axes' is empty; accepted: at least one axis, as in training.seed = [0, 1, 2]".into()
        );
    }
    Ok(found)
}

fn collect(prefix: &str, table: &Table, found: &mut Vec<Axis>) -> Result<(), String> {
    for (key, value) in table {
        let field = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        let values = match value {
            Value::Array(values) => values.clone(),
            Value::Table(table) if table.contains_key("from") || table.contains_key("to") => {
                range(table).map_err(|why| format!("axis '{field}' is {value}: {why}"))?
            }
            Value::Table(table) => {
                collect(&field, table, found)?;
                continue;
            }
            other => {
                return Err(format!(
                    "axis '{field}' is {other}; accepted: a list, or a range such as {{ from = 0, to = 4 }}"
                ));
            }
        };
        if values.is_empty() {
            return Err(format!("axis '{field}' has no values; accepted: at least one"));
        }
        found.push(Axis { field, values });
    }
    Ok(())
}

/// The values of `{ from, to, by }` or `{ from, to, times }`, both ends included.
fn range(table: &Table) -> Result<Vec<Value>, String> {
    const ACCEPTED: &str = "accepted: 'from', 'to' and either 'by' (added) or 'times' (multiplied)";
    if let Some(key) = table.keys().find(|key| !["from", "to", "by", "times"].contains(&key.as_str())) {
        return Err(format!("it has no '{key}'; {ACCEPTED}"));
    }
    if table.contains_key("by") && table.contains_key("times") {
        return Err(ACCEPTED.into());
    }
    let whole = table.values().all(Value::is_integer);
    let number = |key: &str| match table.get(key) {
        Some(Value::Integer(i)) => Ok(Some(*i as f64)),
        Some(Value::Float(f)) if f.is_finite() => Ok(Some(*f)),
        None => Ok(None),
        Some(other) => Err(format!("'{key}' is {other}; accepted: a number")),
    };
    let (Some(from), Some(to)) = (number("from")?, number("to")?) else { return Err(ACCEPTED.into()) };
    let (by, times) = (number("by")?, number("times")?);
    let grows = times.map_or(by.unwrap_or(1.0) > 0.0, |times| times > 1.0 && from > 0.0);
    if !grows || to < from {
        return Err("it does not grow from 'from' to 'to'; accepted: 'by' above 0, or 'times' above 1 and 'from' above 0, \
                    and 'to' not below 'from'"
            .into());
    }
    // The end is included although sums and products of such numbers are rounded.
    let slack = 1e-9 * to.abs().max(from.abs());
    let at = |i: usize| match times {
        Some(times) => from * times.powi(i as i32),
        None => from + by.unwrap_or(1.0) * i as f64,
    };
    let values: Vec<f64> = (0..=MOST_VALUES).map(at).take_while(|v| *v <= to + slack).collect();
    if values.len() > MOST_VALUES {
        return Err(format!("it has more than {MOST_VALUES} values; accepted: fewer"));
    }
    let value = |v: f64| if whole { Value::Integer(v.round() as i64) } else { Value::Float(rounded(v)) };
    Ok(values.into_iter().map(value).collect())
}

/// 0.1 + 0.2 as its author would write it: 12 digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().expect("a number was written")
}

/// Puts a value into the field of an experiment's table. A table is merged into the one that is there, so that
/// `network = [{ width = 8, heads = 1 }, …]` changes two fields together.
pub fn assign(experiment: &mut Table, field: &str, value: &Value) -> Result<(), String> {
    let (first, rest) = match field.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (field, None),
    };
    match (rest, experiment.get_mut(first)) {
        (Some(rest), Some(Value::Table(inner))) => assign(inner, rest, value),
        (Some(rest), None) => {
            let mut inner = Table::new();
            assign(&mut inner, rest, value)?;
            experiment.insert(first.into(), Value::Table(inner));
            Ok(())
        }
        (Some(_), Some(other)) => Err(format!("'{first}' is {other} and has no fields")),
        (None, Some(Value::Table(old))) => match value {
            Value::Table(new) => new.iter().try_for_each(|(key, value)| assign(old, key, value)),
            other => Err(format!("'{first}' is a table and cannot be {other}")),
        },
        (None, _) => {
            experiment.insert(first.into(), value.clone());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Axis>, String> {
        axes(&text.parse().unwrap())
    }

    #[test]
    fn lists_and_ranges_become_values() {
        let found =
            of("training.seed = { from = 0, to = 3 }\nnetwork.width = { from = 8, to = 64, times = 2 }\n\
                        training.rate = { from = 0.1, to = 0.4, by = 0.1 }\n\"task.dim\" = [5]")
            .unwrap();
        let values = |field: &str| {
            found
                .iter()
                .find(|axis| axis.field == field)
                .unwrap()
                .values
                .iter()
                .map(Value::to_string)
                .collect()
        };
        let texts: [Vec<String>; 4] =
            [values("training.seed"), values("network.width"), values("training.rate"), values("task.dim")];
        assert_eq!(texts.map(|t| t.join(" ")), ["0 1 2 3", "8 16 32 64", "0.1 0.2 0.3 0.4", "5"]);
    }

    #[test]
    fn what_is_not_a_range_is_refused() {
        for (text, words) in [
            ("a = 3", "a list, or a range"),
            ("a = []", "no values"),
            ("a = { from = 0 }", "'from', 'to'"),
            ("a = { from = 0, to = 4, times = 2 }", "does not grow"),
            ("a = { from = 4, to = 0 }", "does not grow"),
            ("a = { from = 0, to = 1, by = 0 }", "does not grow"),
            ("a = { from = 0, to = 1, by = 1e-9 }", "more than"),
            ("a = { from = 0, to = 1, step = 1 }", "no 'step'"),
            ("a = { from = 0, to = \"x\" }", "'to' is"),
            ("", "at least one axis"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn tables_are_merged() {
        let mut experiment: Table = "[network]\nheads = 2\nwidth = 8\nlayers = 3".parse().unwrap();
        let both = "network = { heads = 1, width = 4 }".parse::<Table>().unwrap()["network"].clone();
        assign(&mut experiment, "network", &both).unwrap();
        assert_eq!(experiment.to_string().replace('\n', " "), "[network] heads = 1 layers = 3 width = 4 ");
        assert!(assign(&mut experiment, "network", &Value::Integer(1)).is_err());
        assert!(assign(&mut experiment, "network.heads.x", &Value::Integer(1)).is_err());
    }
}
