//! Writes a gallery of every kind of figure, so that a developer can look at them:
//! `cargo run -p iclab-report --example gallery -- OUTDIR`, then open `OUTDIR/index.html`.

mod fixture;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: gallery OUTDIR");
        return ExitCode::from(2);
    };
    let findings = fixture::findings();
    print!("{}", report::ledger_text(&findings, &[], 100, true));
    let made =
        std::fs::create_dir_all(&dir).map_err(|source| report::Error::Write { path: dir.clone(), source });
    match made.and_then(|()| report::write(&findings, &fixture::about(), &dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
