//! `iclab completions` and `iclab man`: for the shell and the manual.

use std::io;

use clap::Args;
use clap_complete::Shell;

use crate::error::{Error, Result};
use crate::help;

/// Print a completion script
#[derive(Args)]
#[command(
    after_help = "Examples:\n  iclab completions bash > ~/.local/share/bash-completion/completions/iclab\n  iclab completions zsh > ~/.zfunc/_iclab"
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

/// Runs `iclab completions`.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut help::command(), "iclab", &mut script);
    print(&script)
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
    print(&page)
}

/// A closed pipe (`iclab man | head`) is the reader's choice, not an error.
fn print(bytes: &[u8]) -> Result<()> {
    match io::Write::write_all(&mut io::stdout(), bytes) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::file("write", "standard output")(e)),
        _ => Ok(()),
    }
}
