//! Hints for what people write into experiments by habit: other names of fields, fields in another table, the other kind of
//! file.

use toml::Table;

use crate::error::hint;

/// The tables of an experiment with their fields.
const TABLES: [(&str, &[&str]); 3] = [
    ("task", &["function", "inputs", "dim", "points"]),
    ("network", &["kind", "layers", "heads", "width", "positions", "attention"]),
    (
        "training",
        &[
            "steps",
            "batch",
            "seed",
            "init",
            "start",
            "optimiser",
            "rate",
            "beta1",
            "beta2",
            "epsilon",
            "clip",
            "schedule",
            "flat",
            "warmup",
            "dims",
            "log_every",
            "checkpoint_every",
            "keep",
        ],
    ),
];

/// What other programs call our fields.
const ELSEWHERE: [(&str, &str); 36] = [
    ("lr", "training.rate"),
    ("learning_rate", "training.rate"),
    ("learningrate", "training.rate"),
    ("max_lr", "training.rate"),
    ("optimizer", "training.optimiser"),
    ("optim", "training.optimiser"),
    ("opt", "training.optimiser"),
    ("batch_size", "training.batch"),
    ("bsize", "training.batch"),
    ("train_steps", "training.steps"),
    ("n_steps", "training.steps"),
    ("num_steps", "training.steps"),
    ("max_steps", "training.steps"),
    ("iterations", "training.steps"),
    ("epochs", "training.steps"),
    ("random_seed", "training.seed"),
    ("eps", "training.epsilon"),
    ("betas", "training.beta1"),
    ("grad_clip", "training.clip"),
    ("clip_grad_norm", "training.clip"),
    ("max_grad_norm", "training.clip"),
    ("lr_schedule", "training.schedule"),
    ("scheduler", "training.schedule"),
    ("warmup_steps", "training.warmup"),
    ("save_every", "training.checkpoint_every"),
    ("curriculum", "training.dims"),
    ("n_layer", "network.layers"),
    ("n_layers", "network.layers"),
    ("num_layers", "network.layers"),
    ("n_head", "network.heads"),
    ("n_heads", "network.heads"),
    ("n_embd", "network.width"),
    ("d_model", "network.width"),
    ("n_positions", "network.positions"),
    ("n_dims", "task.dim"),
    ("n_points", "task.points"),
];

/// The field that TOML's refusal calls unknown, and those that it would have taken.
fn unknown(refused: &str) -> Option<(&str, Vec<&str>)> {
    let mut names = refused.strip_prefix("unknown field `")?.split('`').step_by(2);
    Some((names.next()?, names.collect()))
}

/// What the author of a refused experiment may have meant: the end of a sentence, without a stop.
pub fn hint_for(refused: &str) -> Option<String> {
    let (name, expected) = unknown(refused)?;
    let plain = name.to_lowercase().replace('-', "_");
    let under = |table: &str, field: &str| format!("did you mean '{field}' under [{table}]?");
    if let Some((_, field)) = ELSEWHERE.iter().find(|(other, _)| *other == plain) {
        return field.split_once('.').map(|(table, field)| under(table, field));
    }
    if let Some((table, _)) = TABLES.iter().find(|(_, fields)| fields.contains(&&*plain)) {
        return Some(under(table, &plain));
    }
    let close = hint(name, expected.iter().copied());
    close.starts_with("did you mean").then_some(close)
}

/// What a refused text is instead of an experiment, and which command takes it.
pub fn other_kind(text: &str, path: &std::path::Path) -> Option<String> {
    let table: Table = text.parse().ok()?;
    let plan = table.contains_key("base") && table.contains_key("axes");
    plan.then(|| {
        format!("this is a plan of a sweep; accepted: an experiment, or iclab sweep {}", path.display())
    })
}

/// The same for a text that is refused as the plan of a sweep.
pub fn experiment_instead(text: &str, path: &std::path::Path) -> Option<String> {
    let table: Table = text.parse().ok()?;
    let experiment =
        table.contains_key("training") && !table.contains_key("axes") && !table.contains_key("base");
    experiment.then(|| {
        format!("this is an experiment; accepted: a plan of a sweep, or iclab train {}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::experiment::Experiment;

    const TEXT: &str = include_str!("../../../../../experiments/miniature.toml");

    /// What is said of an experiment with such a line after the head of a table.
    fn said(head: &str, line: &str) -> String {
        let text = match head {
            "" => format!("{line}\n{TEXT}"),
            head => TEXT.replacen(head, &format!("{head}\n{line}"), 1),
        };
        Experiment::parse(&text, "mine.toml".as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn the_tables_have_the_fields_that_experiments_take() {
        for (table, fields) in TABLES {
            let text = TEXT.replacen(&format!("[{table}]"), &format!("[{table}]\nnosuch = 1"), 1);
            let refused = toml::from_str::<Experiment>(&text).unwrap_err();
            let (name, mut expected) = unknown(refused.message()).unwrap_or_else(|| panic!("{refused}"));
            assert_eq!(name, "nosuch");
            // 'points' is found under [task] first; which network it is is said by its kind
            expected.retain(|field| *field != "points" || table == "task");
            let fields: Vec<&str> = fields.iter().copied().filter(|field| *field != "kind").collect();
            assert_eq!(expected, fields, "{table}");
        }
        for (_, field) in ELSEWHERE {
            let (table, field) = field.split_once('.').unwrap();
            assert!(
                TABLES.iter().any(|(t, fields)| *t == table && fields.contains(&field)),
                "{table}.{field}"
            );
        }
    }

    #[test]
    fn habits_get_a_hint_with_the_line() {
        for (head, line, meant) in [
            ("[training]", "lr = 1e-3", "'rate' under [training]"),
            ("[training]", "learning_rate = 1e-3", "'rate' under [training]"),
            ("[training]", "optimizer = \"adam\"", "'optimiser' under [training]"),
            ("", "optimizer = \"adam\"", "'optimiser' under [training]"),
            ("", "optimiser = \"adam\"", "'optimiser' under [training]"),
            ("[task]", "steps = 3", "'steps' under [training]"),
            ("[network]", "n_layer = 3", "'layers' under [network]"),
            ("[training]", "warm-up = 0.1", "did you mean warmup"),
        ] {
            let said = said(head, line);
            let words = ["mine.toml: ", line.split(' ').next().unwrap(), "(line ", meant];
            words.iter().for_each(|word| assert!(said.contains(word), "{said}: {word}"));
        }
        assert!(!said("[training]", "zzz = 1").contains("did you mean"));
    }
}
