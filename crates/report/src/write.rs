//! Writes a report into a directory.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use lab::analyses::NotRun;
use lab::findings::{Claim, Figure, Findings, Place};
use serde::Serialize;

use crate::{About, Counts, Drawn, Error, pages, table_csv};

/// The ledger as other programs read it. A value or bound that is not finite is `null`.
#[derive(Serialize)]
struct Ledger<'a> {
    about: &'a About,
    counts: Counts,
    /// The same by whose claims they are.
    counts_by_kind: BTreeMap<&'static str, Counts>,
    analyses: Vec<Group<'a>>,
    not_run: &'a [NotRun],
}

#[derive(Serialize)]
struct Group<'a> {
    analysis: &'a str,
    title: &'a str,
    /// Where the paper has it.
    paper: Option<&'a Place>,
    /// What its claims say together.
    answer: &'a str,
    seconds: f64,
    /// Whether the findings were kept from an earlier run with the same inputs.
    from_cache: bool,
    /// The command that measures it again.
    rerun: String,
    claims: &'a [Claim],
}

impl Group<'_> {
    fn of<'a>(found: &'a Findings, about: &About) -> Group<'a> {
        Group {
            analysis: &found.analysis,
            title: &found.title,
            paper: found.paper.as_ref(),
            answer: &found.answer,
            seconds: found.seconds,
            from_cache: about.kept.contains(&found.analysis),
            rerun: about.rerun(&found.analysis),
            claims: &found.claims,
        }
    }
}

/// Writes `index.html` and the pages beside it, `ledger.json`, `figures/ID.{svg,png,csv}` and `tables/ID.csv` into `dir`, which exists.
///
/// The caller renames the directory into place, so a reader never sees half a report.
pub fn write(findings: &[Findings], about: &About, dir: &Path) -> Result<(), Error> {
    write_drawn(findings, about, &mut Drawn::default(), dir)
}

/// The same for a report that grows: figures that were drawn before are not drawn again.
pub fn write_drawn(findings: &[Findings], about: &About, drawn: &mut Drawn, dir: &Path) -> Result<(), Error> {
    let figures: Vec<&Figure> = findings.iter().flat_map(|f| &f.figures).collect();
    let tables: Vec<_> = findings.iter().flat_map(|f| &f.tables).collect();
    check_ids("figure", figures.iter().map(|f| f.id.as_str()))?;
    check_ids("table", tables.iter().map(|t| t.id.as_str()))?;
    let save = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|source| Error::Write { path: path.into(), source })
    };
    let folder = |name: &str| {
        let path = dir.join(name);
        fs::create_dir_all(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok::<_, Error>(path)
    };
    let figure_dir = folder("figures")?;
    drawn.draw(&figures)?;
    for figure in figures {
        let path = |ending: &str| figure_dir.join(format!("{}.{ending}", figure.id));
        let files = drawn.files(&figure.id);
        save(&path("svg"), &files.svg)?;
        save(&path("csv"), &files.csv)?;
        save(&path("png"), &files.png)?;
    }
    let table_dir = folder("tables")?;
    for table in tables {
        save(&table_dir.join(format!("{}.csv", table.id)), table_csv(table).as_bytes())?;
    }
    let counts = Counts::of(findings.iter().flat_map(|f| &f.claims));
    let groups = findings.iter().map(|found| Group::of(found, about)).collect();
    let kinds = Counts::by_kind(findings.iter().flat_map(|f| &f.claims));
    let kinds = kinds.into_iter().map(|(kind, counts)| (kind.word(), counts)).collect();
    let ledger = Ledger { about, counts, counts_by_kind: kinds, analyses: groups, not_run: &about.not_run };
    save(&dir.join("ledger.json"), &serde_json::to_vec_pretty(&ledger)?)?;
    pages(findings, about).iter().try_for_each(|page| save(&dir.join(page.file), page.html.as_bytes()))
}

/// Ids become file names: plain characters only, and each once.
fn check_ids<'a>(what: &'static str, ids: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for id in ids {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let reason = if id.is_empty() || !id.chars().all(plain) {
            "cannot be a file name"
        } else if !seen.insert(id.to_ascii_lowercase()) {
            "occurs twice"
        } else {
            continue;
        };
        return Err(Error::Id { what, id: id.into(), reason });
    }
    Ok(())
}
