//! Hooks: what is read can be put back without a trace, a pass from a block on is the whole pass, and what is patched is what the CPU
//! patches.
//!
//! What runs is behind [`Hooked`], so that the same checks run on the CPU, in the tests below and in `iclab doctor`.

use std::sync::Arc;

use super::cases::{Case, tolerance};
use super::{Check, relative_distance};
use crate::cpu::Runner;
use crate::cuda::{CudaError, CudaRunner, Device, Precision};
use crate::model::hooks::{Patch, Site, SiteKind, Tokens, Values};
use crate::model::networks::Mode;

type Result<T> = std::result::Result<T, CudaError>;

/// A network that can be read and patched.
trait Hooked {
    fn forward(&mut self) -> Result<()>;
    fn forward_from(&mut self, block: usize) -> Result<()>;
    fn activation(&self, site: Site) -> Result<Vec<f32>>;
    fn patch(&mut self, patches: &[Patch]) -> Result<()>;
    fn write(&mut self, patch: &Patch) -> Result<()>;
    fn predictions(&self) -> Result<Vec<f32>>;
}

/// On this machine's cores.
struct OnCpu {
    runner: Runner,
    params: Vec<f32>,
}

impl Hooked for OnCpu {
    fn forward(&mut self) -> Result<()> {
        self.runner.forward(&self.params);
        Ok(())
    }

    fn forward_from(&mut self, block: usize) -> Result<()> {
        Ok(self.runner.forward_from(&self.params, block)?)
    }

    fn activation(&self, site: Site) -> Result<Vec<f32>> {
        Ok(self.runner.activation(site)?)
    }

    fn patch(&mut self, patches: &[Patch]) -> Result<()> {
        Ok(self.runner.patch(patches)?)
    }

    fn write(&mut self, patch: &Patch) -> Result<()> {
        Ok(self.runner.write(patch)?)
    }

    fn predictions(&self) -> Result<Vec<f32>> {
        Ok(self.runner.predictions().to_vec())
    }
}

impl Hooked for CudaRunner {
    fn forward(&mut self) -> Result<()> {
        CudaRunner::forward(self)
    }

    fn forward_from(&mut self, block: usize) -> Result<()> {
        CudaRunner::forward_from(self, block)
    }

    fn activation(&self, site: Site) -> Result<Vec<f32>> {
        CudaRunner::activation(self, site)
    }

    fn patch(&mut self, patches: &[Patch]) -> Result<()> {
        CudaRunner::patch(self, patches)
    }

    fn write(&mut self, patch: &Patch) -> Result<()> {
        CudaRunner::write(self, patch)
    }

    fn predictions(&self) -> Result<Vec<f32>> {
        CudaRunner::predictions(self)
    }
}

/// Makes a network that has read prompts, and runs it.
type Begin<'a> = &'a dyn Fn(Mode, Vec<f32>) -> Result<Box<dyn Hooked>>;

fn begun_on_cpu(case: &Case, mode: Mode, tokens: &[f32]) -> Result<Box<dyn Hooked>> {
    let mut runner = case.network.runner(case.batch, case.tokens, mode)?;
    runner.set_tokens(tokens)?;
    let mut hooked = OnCpu { runner, params: case.params() };
    hooked.forward()?;
    Ok(Box::new(hooked))
}

/// The checks of one device against the CPU, in one precision.
pub fn hooks(device: &Arc<Device>, precision: Precision) -> Result<Vec<Check>> {
    let case = hooked_case();
    let begin = |mode: Mode, tokens: Vec<f32>| -> Result<Box<dyn Hooked>> {
        let mut runner = CudaRunner::new(device, &case.network, precision, [case.batch, case.tokens], mode)?;
        runner.set_params(&case.params())?;
        runner.set_tokens(&tokens)?;
        runner.forward()?;
        Ok(Box::new(runner))
    };
    let mut checks = compare(&case, &begin, tolerance(precision))?;
    checks.push(rows_of_another(device, precision, &case)?);
    Ok(checks)
}

/// The same of this machine's cores, which are held to themselves.
pub fn hooks_on_cpu() -> Result<Vec<Check>> {
    let case = hooked_case();
    compare(&case, &|mode, tokens| begun_on_cpu(&case, mode, &tokens), tolerance(Precision::Float32))
}

pub(super) fn hooked_case() -> Case {
    Case::named("causal softmax")
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// 1 where bits differ.
fn exact(name: String, found: &[f32], expected: &[f32]) -> Check {
    Check { name, error: f64::from(u8::from(bits(found) != bits(expected))), tolerance: 0.0 }
}

/// An activation of another run, at some tokens.
fn taken(case: &Case, from: &dyn Hooked, site: Site, tokens: &[usize]) -> Result<Patch> {
    let all = from.activation(site)?;
    let width = all.len() / (case.batch * case.tokens);
    let of = |b: usize, t: usize| &all[(b * case.tokens + t) * width..][..width];
    let values = (0..case.batch).flat_map(|b| tokens.iter().flat_map(move |&t| of(b, t).iter().copied()));
    Ok(Patch::per_prompt(site, tokens, values.collect::<Vec<f32>>()))
}

fn compare(case: &Case, begin: Begin, tolerance: f64) -> Result<Vec<Check>> {
    let (own, others) = (case.prompts(0).tokens, case.prompts(1).tokens);
    let (kept, mut runner) = (begin(Mode::Train, own.clone())?, begin(Mode::Infer, own.clone())?);
    let whole = runner.predictions()?;
    let all: Vec<usize> = (0..case.tokens).collect();
    let mut checks = Vec::new();
    for block in 1..=case.network.layers() {
        runner.forward_from(block)?;
        checks.push(exact(format!("forward from block {block}"), &runner.predictions()?, &whole));
    }
    for (kind, _) in SiteKind::ALL {
        let site = Site { block: 2, kind };
        // what a block adds is computed nowhere, and comes back up to the rounding of a sum
        if kind == SiteKind::Out {
            continue;
        }
        // training may multiply in other kernels than inference
        let mut again = begin(Mode::Train, own.clone())?;
        again.patch(&[taken(case, &*kept, site, &all)?])?;
        again.forward()?;
        checks.push(exact(format!("{site} put back"), &again.predictions()?, &kept.predictions()?));
    }
    // the same patches here and on the CPU
    let donor = begun_on_cpu(case, Mode::Train, &others)?;
    let mut patches = Vec::new();
    for kind in [SiteKind::ResidPre, SiteKind::Z(None), SiteKind::Z(Some(1)), SiteKind::MlpHidden] {
        patches.push(taken(case, &*donor, Site { block: 2, kind }, &[1, 6, 7])?);
    }
    let mean: Vec<f32> = donor.activation(Site { block: 1, kind: SiteKind::ResidMid })?;
    let ablated = [Values::Zero, Values::PerPosition(mean.into())].into_iter();
    let out = Site { block: 1, kind: SiteKind::Out };
    patches.extend(ablated.map(|values| Patch { site: out, tokens: Tokens::Y, values }));
    for patch in patches {
        let mut found = begin(Mode::Infer, own.clone())?;
        let mut expected = begun_on_cpu(case, Mode::Infer, &own)?;
        for hooked in [&mut found, &mut expected] {
            hooked.patch(std::slice::from_ref(&patch))?;
            hooked.forward()?;
        }
        let doubles = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        let [found, expected] = [doubles(found.predictions()?), doubles(expected.predictions()?)];
        let error = relative_distance(&found, &expected, 0.0);
        checks.push(Check { name: format!("{} patched", patch.site), error, tolerance });
    }
    // a whole stream of another prompt, written before a block, is that prompt
    let donor = begin(Mode::Infer, others)?;
    runner.write(&taken(case, &*donor, Site { block: 2, kind: SiteKind::ResidPre }, &all)?)?;
    runner.forward_from(2)?;
    checks.push(exact("a stream of another prompt".into(), &runner.predictions()?, &donor.predictions()?));
    Ok(checks)
}

/// Rows that never leave the device are those that are carried over.
fn rows_of_another(device: &Arc<Device>, precision: Precision, case: &Case) -> Result<Check> {
    let begin = |step: usize, mode: Mode| -> Result<CudaRunner> {
        let mut runner = CudaRunner::new(device, &case.network, precision, [case.batch, case.tokens], mode)?;
        runner.set_params(&case.params())?;
        runner.set_tokens(&case.prompts(step).tokens)?;
        runner.forward()?;
        Ok(runner)
    };
    let (mut here, mut there, donor) =
        (begin(0, Mode::Infer)?, begin(0, Mode::Infer)?, begin(1, Mode::Train)?);
    let tokens = [1, 6, 7];
    let rows = (0..case.batch).flat_map(|b| tokens.map(|t| [b * case.tokens + t; 2]));
    let rows: Vec<[usize; 2]> = rows.collect();
    let mut different = 0;
    for kind in [SiteKind::Z(None), SiteKind::Z(Some(1)), SiteKind::MlpHidden, SiteKind::ResidPre] {
        let site = Site { block: 2, kind };
        there.patch(&[])?;
        there.patch_from(site, &donor, rows.clone())?;
        here.patch(&[taken(case, &donor, site, &tokens)?])?;
        here.forward()?;
        there.forward()?;
        different += u8::from(bits(&here.predictions()?) != bits(&there.predictions()?));
    }
    there.patch(&[])?;
    there.write_from(2, &donor, rows)?;
    there.forward_from(2)?;
    different += u8::from(bits(&here.predictions()?) != bits(&there.predictions()?));
    Ok(Check { name: "rows of another network".into(), error: f64::from(different), tolerance: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_holds_every_check() {
        let checks = hooks_on_cpu().unwrap();
        assert!(checks.len() > 10 && checks.iter().all(Check::holds), "{checks:?}");
    }

    /// One that forgets its patches is found.
    #[test]
    fn a_network_that_is_not_patched_fails() {
        struct Deaf(Box<dyn Hooked>);
        impl Hooked for Deaf {
            fn forward(&mut self) -> Result<()> {
                self.0.forward()
            }
            fn forward_from(&mut self, block: usize) -> Result<()> {
                self.0.forward_from(block)
            }
            fn activation(&self, site: Site) -> Result<Vec<f32>> {
                self.0.activation(site)
            }
            fn patch(&mut self, _: &[Patch]) -> Result<()> {
                Ok(())
            }
            fn write(&mut self, _: &Patch) -> Result<()> {
                Ok(())
            }
            fn predictions(&self) -> Result<Vec<f32>> {
                self.0.predictions()
            }
        }
        let case = hooked_case();
        let begin = |mode: Mode, tokens: Vec<f32>| -> Result<Box<dyn Hooked>> {
            Ok(Box::new(Deaf(begun_on_cpu(&case, mode, &tokens)?)))
        };
        let checks = compare(&case, &begin, tolerance(Precision::Float32)).unwrap();
        let failed: Vec<&str> = checks.iter().filter(|c| !c.holds()).map(|c| c.name.as_str()).collect();
        assert_eq!(failed.len(), 7, "{failed:?}");
        assert!(failed.contains(&"a stream of another prompt"), "{failed:?}");
    }
}
