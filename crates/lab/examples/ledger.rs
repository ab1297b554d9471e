//! Runs every analysis and prints its claims: the library without the command line.
use lab::analyses::{ANALYSES, Lab, run};

fn main() -> lab::Result<()> {
    let lab = Lab::new(lab::Seed(0), 1280);
    for analysis in ANALYSES.iter().filter(|analysis| lab.missing(analysis).is_empty()) {
        let findings = run(analysis, &lab)?;
        println!("{} ({:.1} s)", findings.title, findings.seconds);
        for claim in findings.claims {
            println!(
                "  {:?} {}: {:.4e} {:?} {:?} [{}]",
                claim.verdict, claim.id, claim.measured, claim.interval, claim.bound, claim.quoted
            );
        }
    }
    Ok(())
}
