//! Writes a report without measuring anything, so that a developer can look at it:
//! `cargo run -p iclab-report --example gallery -- OUTDIR` with every kind of figure, or
//! `… -- OUTDIR .iclab/cache/*/*.json` with findings that `iclab reproduce` kept, under today's titles. Then open
//! `OUTDIR/index.html`.

mod fixture;

use std::path::PathBuf;
use std::process::ExitCode;

use lab::analyses::ANALYSES;
use lab::findings::{Findings, Headline, Place};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(dir) = arguments.next() else {
        eprintln!("usage: gallery OUTDIR [FINDINGS.json ...]");
        return ExitCode::from(2);
    };
    let mut findings: Vec<Findings> = arguments.filter_map(kept).collect();
    if findings.is_empty() {
        findings = fixture::findings();
    }
    findings.sort_by_key(|found| ANALYSES.iter().position(|row| row.id == found.analysis));
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

/// The findings of a file of the cache; its first line says what was asked, its second what was found.
fn kept(path: PathBuf) -> Option<Findings> {
    let text = std::fs::read_to_string(path).ok()?;
    let found: Findings = serde_json::from_str(text.split_once('\n')?.1).ok()?;
    let row = ANALYSES.iter().find(|row| row.id == found.analysis)?;
    let id = row.id.to_lowercase();
    let headline = row.headline.map(|headline| Headline {
        rank: headline.rank,
        figure: format!("{id}-{}", headline.figure),
        claims: headline.claims.iter().map(|claim| format!("{}.{claim}", row.id)).collect(),
    });
    let paper = row.paper.map(|(label, section)| Place { label: label.into(), section: section.into() });
    let answer = lab::findings::answer(&found.claims);
    Some(Findings { chapter: row.chapter, title: row.title.into(), headline, paper, answer, ..found })
}
