//! The help of `iclab` itself: commands in the order of a user's journey, not of the alphabet.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::styling::Styles;
use clap::{Command, CommandFactory};

use crate::Cli;

/// Headings, and the commands under them.
const JOURNEY: [(&str, &[&str]); 5] = [
    ("Check the paper", &["reproduce", "claims", "models"]),
    ("Compare algorithms", &["compare", "fingerprint", "construct", "list", "show"]),
    ("Train networks and look inside", &["train", "runs", "sweep", "probe", "patch"]),
    ("Bring a model of your own", &["sample", "predict", "import", "export"]),
    ("This machine", &["doctor", "bench", "completions", "man", "help"]),
];

/// The arguments of `iclab`, with that help.
pub fn command() -> Command {
    let command = Cli::command();
    let text = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}", commands(&command));
    command.help_template(text + "{options}{after-help}")
}

/// The arguments as typed, less `--help` after the command `help`, which asks for the same.
pub fn arguments(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = typed.collect();
    let root = Cli::command();
    let mut command = &root;
    for at in 1..arguments.len() {
        if arguments[at] == "help" && command.has_subcommands() {
            let asked = arguments.split_off(at + 1);
            arguments.extend(asked.into_iter().filter(|word| word != "--help" && word != "-h"));
            break;
        }
        match command.find_subcommand(&arguments[at]) {
            Some(found) => command = found,
            None => break,
        }
    }
    arguments
}

/// Every command with what it does, by headings.
fn commands(command: &Command) -> String {
    let styles = Styles::styled();
    let (head, word) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    for (heading, names) in JOURNEY {
        let _ = writeln!(text, "{head}{heading}:{head:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about =
                about.map_or("Print this message or the help of a command".into(), ToString::to_string);
            let _ = writeln!(text, "  {word}{name:<11}{word:#}  {about}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{head}Options:{head:#}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_may_be_asked_for_twice() {
        let of = |line: &str| {
            let words = arguments(line.split(' ').map(OsString::from));
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("iclab help --help"), "iclab help");
        assert_eq!(of("iclab help train -h"), "iclab help train");
        assert_eq!(of("iclab models help --help"), "iclab models help");
        for line in ["iclab --help", "iclab train --help", "iclab list help --help"] {
            assert_eq!(of(line), line);
        }
    }

    #[test]
    fn every_command_has_its_place() {
        let command = Cli::command();
        let mut shown: Vec<&str> = JOURNEY.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).chain(["help"]).collect();
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all);
    }
}
