//! `iclab completions` and `iclab man`: for the shell and the manual.

use clap::{Args, Command};
use clap_complete::{CompleteEnv, Shell, env::Shells};

use crate::error::{Error, Result};
use crate::{help, names};

/// The shell asks with this set.
const VARIABLE: &str = "ICLAB_COMPLETE";

/// Print a completion script
///
/// It asks iclab itself, and so knows algorithms, analyses, experiments, the models and runs that are there, and files.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab completions bash > ~/.local/share/bash-completion/completions/iclab\n  \
                        iclab completions zsh > ~/.zfunc/_iclab\n  \
                        iclab completions fish > ~/.config/fish/completions/iclab.fish"
)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Print the manual page, of iclab or of one command
#[derive(Args)]
#[command(after_help = "Examples:\n  iclab man | man -l -\n  iclab man compare > iclab-compare.1")]
pub struct ManArgs {
    /// Which command; iclab itself when left out
    command: Option<String>,
}

/// Answers the shell, if it is the shell that asks; the program then ends.
pub fn complete() {
    CompleteEnv::with_factory(completed).var(VARIABLE).complete();
}

/// The arguments of `iclab`, with what is there in their places.
fn completed() -> Command {
    names::add_to(help::command())
}

/// Runs `iclab completions`.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| {
        Error::Usage(format!("no completions for '{name}'; accepted: bash, elvish, fish, powershell, zsh"))
    })?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "iclab", "iclab", "iclab", &mut script)
        .map_err(Error::file("write", "the script"))?;
    if args.shell == Shell::Bash {
        println!("# run:NAME and gd:eta=0.01 are one word each");
        println!("COMP_WORDBREAKS=${{COMP_WORDBREAKS//[:=]}}");
    }
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}

/// Runs `iclab man`.
pub fn man(args: &ManArgs) -> Result<()> {
    let mut root = help::command();
    root.build();
    let command = match &args.command {
        None => root,
        Some(name) => root.find_subcommand(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = root.get_subcommands().map(|c| c.get_name()).collect();
            Error::Usage(format!("unknown command '{name}'; accepted: {}", known.join(", ")))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(Error::file("write", "the manual page"))?;
    print!("{}", String::from_utf8_lossy(&page));
    Ok(())
}
