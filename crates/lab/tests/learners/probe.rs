//! Read-outs: what is fitted, to how many prompts, and what is kept beside a checkpoint.

use std::path::Path;
use std::sync::Arc;

use lab::linalg::{dot, least_squares};
use lab::networks::Weights;
use lab::networks::runs::{Run, Stopped};
use lab::probe::{self, Method, Options, Probed, ReadPoint};
use lab::{Learner, Seed, Steps, solvers};
use ndarray::s;

use crate::shared::{all_layers, experiment, gpt2, largest, lstm, random, states, task};

fn fit(weights: Weights, options: Options) -> Probed {
    Probed::fit_with("x".into(), Arc::new(weights), &task(), Seed(1), &options, &|_| ()).unwrap()
}

/// States `[b, position, width]` at the x tokens as rows `[h, 1]`.
fn at_x(states: &[f32], width: usize) -> Vec<f64> {
    let rows = states.chunks(width).step_by(2);
    rows.flat_map(|state| state.iter().map(|h| f64::from(*h)).chain([1.0])).collect()
}

#[test]
fn read_outs_are_least_squares_of_what_can_be_known() {
    // Directly, layer by layer, from the hidden states of one big batch, by QR.
    let count = 200; // no multiple of a group, nor of the pieces
    for network in [gpt2(), lstm()] {
        let (weights, layers, width) = (random(network.clone()), network.layers(), network.width());
        let prompts = task().sample(Seed(1), "probe", 0, count);
        let best = solvers::build("ols").unwrap().trajectory(&prompts, &Steps::single(1)).unwrap().values;
        let hidden = states(&weights, &prompts);
        let probed = fit(weights, Options { prompts: Some(count), ..Default::default() });
        for (layer, read_out) in probed.read_outs().iter().enumerate() {
            let rows = at_x(&hidden[if layer == layers { layers + 1 } else { layer }], width);
            let targets = best.as_slice().unwrap();
            let direct = least_squares(&rows, targets, width + 1);
            let affine = read_out.affine();
            // Losses are compared, not weights: some directions hold nothing but rounding. (Most of the read-in's do, which is
            // an affine image of x and the position; QR fits those, too.)
            if layer == 0 {
                continue;
            }
            let loss = |affine: &[f64]| {
                let errors =
                    rows.chunks(width + 1).zip(targets).map(|(row, y)| (dot(row, affine) - y).powi(2));
                errors.sum::<f64>() / targets.len() as f64
            };
            let (found, least) = (loss(&affine), loss(&direct));
            let zero = loss(&vec![0.0; width + 1]);
            assert!(
                found < least * (1.0 + 2e-3) && found > least * (1.0 - 1e-9),
                "layer {layer}: {found} {least}"
            );
            assert!(found < 0.999 * zero, "layer {layer}: {found} {zero}");
        }
    }
}

#[test]
fn the_trained_read_out_at_the_last_layer_is_the_network() {
    let prompts = task().sample(Seed(2), "t", 0, 11);
    for network in [gpt2(), lstm()] {
        let weights = random(network);
        let said = weights.predictions(&prompts).unwrap();
        let trained = Probed::trained("x".into(), Arc::new(weights));
        assert_eq!(trained.id().to_string(), "x:readout=trained");
        let found = all_layers(&trained, &prompts);
        let worst = largest(found.slice(s![-1, .., ..]), &said);
        assert!(worst < 1e-5, "{worst}");
        assert_ne!(found.slice(s![0, .., ..]), found.slice(s![-1, .., ..]));
    }
}

#[test]
fn raw_differs_at_the_last_layer_alone() {
    let options = Options { prompts: Some(128), ..Default::default() };
    let usual = fit(random(gpt2()), options);
    let raw = fit(random(gpt2()), Options { raw: true, ..options });
    assert_eq!(usual.read_outs()[..3], raw.read_outs()[..3]);
    assert_eq!([&usual, &raw].map(|p| p.read_outs()[3].point()), [ReadPoint::Final, ReadPoint::Raw]);
    assert_ne!(usual.read_outs()[3].affine(), raw.read_outs()[3].affine());
}

#[test]
fn threads_change_no_bit() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let probed = fit(random(gpt2()), Options { prompts: Some(100), ..Default::default() });
            let prompts = task().sample(Seed(2), "t", 0, 19);
            (probed.read_outs().to_vec(), all_layers(&probed, &prompts))
        })
    };
    let one = on(1);
    assert!([2, 3, 5].into_iter().all(|threads| on(threads) == one));
}

#[test]
fn the_number_of_prompts_follows_held_out_error() {
    // A random network's read-out was never trained: any fit is better than it, so the first number is enough.
    let easy = fit(random(gpt2()), Options::default());
    let fit_of = easy.fitted().unwrap();
    assert_eq!(fit_of.prompts, probe::FIRST);
    assert!(fit_of.why.contains("within 2 %"), "{}", fit_of.why);
    assert!(fit_of.layers[3].mean_loss < fit_of.trained.mean_loss);
    // With the best read-out of these prompts put in as the trained one, a fit on other prompts can hardly be better, and
    // its held-out error says by how much it is worse.
    let plain = random(gpt2());
    let held_out = task().sample(Seed(1), "probe/held-out", 0, probe::HELD_OUT);
    let rows = at_x(states(&plain, &held_out).last().unwrap(), 16);
    let affine = least_squares(&rows, held_out.ys.as_slice().unwrap(), 17);
    let [w, b] = ["read_out.weight", "read_out.bias"].map(|name| plain.layout.place(name).unwrap());
    let (network, mut params) = (plain.network.clone(), plain.into_params());
    w.of_mut(&mut params).iter_mut().zip(&affine).for_each(|(p, v)| *p = *v as f32);
    b.of_mut(&mut params)[0] = affine[16] as f32;
    let few = fit(Weights::new(network, params), Options { prompts: Some(64), ..Default::default() });
    let few = few.fitted().unwrap();
    assert_eq!((few.prompts, &*few.why), (64, "as asked"));
    assert!(few.layers[3].mean_loss > few.trained.mean_loss);
}

#[test]
fn adam_agrees_with_least_squares() {
    let options = Options { prompts: Some(512), ..Default::default() };
    for network in [gpt2(), lstm()] {
        let closed = fit(random(network.clone()), options);
        let adam = fit(random(network), Options { method: Method::Adam, ..options });
        let layers = |p: &Probed| p.fitted().unwrap().layers.iter().map(|l| l.mean_loss).collect::<Vec<_>>();
        for (a, b) in layers(&closed).into_iter().zip(layers(&adam)) {
            assert!((a / b - 1.0).abs() < 0.01, "least squares {a}, Adam {b}");
        }
        assert_ne!(closed.read_outs(), adam.read_outs());
    }
}

/// A finished run of a few steps.
fn trained(dir: &Path, seed: u64) -> std::path::PathBuf {
    let network = "kind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 8\npositions = 20";
    let experiment = experiment(network, 4, seed);
    let mut run = Run::open(dir, &experiment, &lab::networks::devices::Device::Cpu).unwrap();
    assert!(matches!(run.train(None, || false, |_, _, _| ()).unwrap(), Stopped::Finished(_)));
    run.dir.clone()
}

fn open(path: &Path) -> probe::LoadedProbe {
    probe::load(path).unwrap().probe(None, &Options::default(), &|_| ()).unwrap()
}

#[test]
fn read_outs_are_saved_and_used_for_the_same_weights_only() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (trained(dir.path(), 1), trained(dir.path(), 2));
    let first = open(&one);
    assert!(first.saved.is_none() && first.notes.is_empty());
    let file = one.join("readouts.safetensors");
    let again = open(&one);
    assert_eq!(again.saved.as_deref(), Some(&*file));
    assert_eq!(again.probed.read_outs(), first.probed.read_outs());
    assert_eq!(again.probed.fitted(), first.probed.fitted());

    // Another checkpoint in its place: fitted again, and what is saved is replaced.
    std::fs::copy(two.join("checkpoint.safetensors"), one.join("checkpoint.safetensors")).unwrap();
    let other = open(&one);
    assert!(other.saved.is_none() && other.notes[0].contains("other weights"), "{:?}", other.notes);
    assert_ne!(other.probed.read_outs(), first.probed.read_outs());
    assert!(open(&one).saved.is_some());

    // A file that was cut short, and one that is something else.
    let whole = std::fs::read(&file).unwrap();
    for broken in [&whole[..whole.len() - 5], b"{}", b""] {
        std::fs::write(&file, broken).unwrap();
        let opened = open(&one);
        assert!(opened.saved.is_none() && opened.notes[0].contains("cannot be used"), "{:?}", opened.notes);
        assert_eq!(opened.probed.read_outs(), other.probed.read_outs());
        assert_eq!(std::fs::read(&file).unwrap(), whole, "written again, the same bytes");
    }

    // Other wishes neither use nor replace what is saved.
    let wish = Options { prompts: Some(64), ..Default::default() };
    let wished = probe::load(&one).unwrap().probe(None, &wish, &|_| ()).unwrap();
    assert!(wished.saved.is_none());
    assert_eq!(std::fs::read(&file).unwrap(), whole);
}

#[test]
fn a_checkpoint_alone_knows_its_task() {
    let dir = tempfile::tempdir().unwrap();
    let run = trained(dir.path(), 1);
    let alone = dir.path().join("alone.safetensors");
    std::fs::copy(run.join("checkpoint.safetensors"), &alone).unwrap();
    let opened = open(&alone);
    assert_eq!((opened.task.dim, opened.task.points), (3, 8));
    assert_eq!(opened.probed.read_outs(), open(&run).probed.read_outs());
    assert!(dir.path().join("alone.readouts.safetensors").is_file());
    let missing = probe::load(&dir.path().join("none")).err().unwrap().to_string();
    assert!(missing.contains("no such run"), "{missing}");
}
