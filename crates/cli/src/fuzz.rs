//! Hostile inputs for what the program itself reads: ledgers, plans, lists of files; and findings, as far as the picture.

use std::path::{Component, Path};

use engine::text::plain;
use hostile::{Cost, Counting, Random, Reader, bend_text, check, check_file, place};
use lab::compare::plan::Plan;
use lab::findings::Findings;

use crate::claims::read_ledger;
use crate::output::owned;

#[allow(dead_code)] // the gallery uses the rest
#[path = "../../report/examples/gallery/fixture.rs"]
mod fixture;

#[global_allocator]
static COUNTING: Counting = Counting;

const COST: Cost = Cost { times: 24, plus: 4 << 20 };

/// A sentence as the program prints it.
fn said(error: impl ToString) -> String {
    plain(&error.to_string())
}

fn bent(random: &mut Random, good: &[u8]) -> Vec<u8> {
    let mut text = good.to_vec();
    (0..1 + random.below(2)).for_each(|_| bend_text(random, &mut text, good));
    text
}

#[test]
fn findings_are_refused_or_drawn() {
    hostile::alone!();
    let good: Vec<Vec<u8>> =
        fixture::findings().iter().map(|found| serde_json::to_vec(found).unwrap()).collect();
    let make = |random: &mut Random| {
        let which = random.below(good.len());
        bent(random, &good[which])
    };
    let read = |bytes: Vec<u8>| {
        let found: Findings = serde_json::from_slice(&bytes).map_err(said)?;
        if !found.is_sound() {
            return Err("of another shape".into());
        }
        for figure in &found.figures {
            report::figure_svg(figure);
            report::figure_csv(figure);
        }
        found.tables.iter().for_each(|table| drop(report::table_csv(table)));
        report::ledger_text(&[found], &[], &[], 80, false);
        Ok(())
    };
    check(&Reader { name: "findings", cost: Cost { times: 64, plus: 64 << 20 }, named: "" }, make, read);
}

#[test]
fn ledgers() {
    hostile::alone!();
    let dir = tempfile::tempdir_in(place()).unwrap();
    report::write(&fixture::findings()[..1], &fixture::about(), dir.path()).unwrap();
    let path = dir.path().join("ledger.json");
    let good = std::fs::read(&path).unwrap();
    let read = |path: &Path| {
        let (findings, not_run, recipes) = read_ledger(path).map_err(said)?;
        report::ledger_text(&findings, &not_run, &recipes, 80, false);
        Ok(())
    };
    let reader = Reader { name: "ledger", cost: COST, named: "ledger.json" };
    check_file(&reader, &path, |random| bent(random, &good), read);
}

#[test]
fn plans() {
    hostile::alone!();
    let text = "command = \"compare\"\na = \"newton\"\nb = \"gd:eta=0.01\"\nsteps_a = \"0..=24\"\nsteps_b = \"pow2:0..=12\"\n\
                prompts = \"320\"\nmeasure = \"sime\"\nfrom = 1\nqueries = 20\n[task]\nfunction = \"linear\"\n\
                inputs = \"gaussian\"\ndim = 5\npoints = 16\nseed = 0\n";
    let dir = tempfile::tempdir_in(place()).unwrap();
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, text).unwrap();
    crate::plan::read::<Plan>(&path, "compare").unwrap();
    let read = |path: &Path| crate::plan::read::<Plan>(path, "compare").map(drop).map_err(said);
    let reader = Reader { name: "plan", cost: COST, named: "plan.toml" };
    check_file(&reader, &path, |random| bent(random, text.as_bytes()), read);
}

#[test]
fn lists_of_files() {
    hostile::alone!();
    let good = b"# What iclab wrote here\nfigures/a.svg\nindex.html\nledger.json\n../out\n/etc/passwd\n";
    let reader = Reader { name: "owned-files", cost: COST, named: "" };
    check(
        &reader,
        |random| bent(random, good),
        |bytes| {
            let found = owned::parse(&String::from_utf8_lossy(&bytes));
            let inside =
                |name: &String| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            assert!(found.iter().all(inside), "{found:?}");
            Ok(())
        },
    );
}
