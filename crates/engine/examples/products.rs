//! Times products of the shapes that training has, one thread, and prints GFLOP/s per shape.
//!
//! `cargo run --release -p iclab-engine --example products`

use std::time::Instant;

use engine::cpu::gemm::general::{Accumulate, Mat, matmul};
use engine::cpu::gemm::{PackedB, add_outer_products, product};

/// The shortest times of several pieces of work, tried in turn so that a busy moment hits them alike.
fn best<const N: usize>(flops: f64, mut work: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    let tries = (4e11 / flops / N as f64) as usize;
    for _ in 0..tries.clamp(20, 2000) {
        for (work, best) in work.iter_mut().zip(&mut best) {
            let start = Instant::now();
            work();
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.map(|seconds| flops / seconds * 1e-9)
}

fn main() {
    println!("{:>24} {:>8} {:>8} {:>8} {:>8}", "rows x inner x outer", "x·w", "packed", "xᵀ·d", "packed");
    let shapes = [
        [2624, 256, 768],
        [2624, 256, 256],
        [2624, 256, 1024],
        [2624, 1024, 256],
        [2624, 768, 256],
        [704, 64, 192],
        [704, 64, 64],
        [704, 64, 256],
        [704, 256, 64],
        [32, 256, 1024],
        [32, 1024, 256],
        [1024, 8, 24],
        [1024, 8, 32],
        [1024, 32, 8],
        [1024, 32, 96],
    ];
    for [rows, inner, outer] in shapes {
        let flops = 2.0 * (rows * inner * outer) as f64;
        let (x, w) = (vec![0.5; rows * inner], vec![0.5; inner * outer]);
        let mut y = vec![0.0; rows * outer];
        let mut place = vec![0.0; PackedB::len_of(inner, outer)];
        let (a, b) = (Mat::dense(&x, rows, inner), Mat::dense(&w, inner, outer));
        let w = PackedB::new(&mut place, b);
        let mut z = y.clone();
        let [general, packed] = best(
            flops,
            [&mut || matmul(&mut y, outer, Accumulate::Overwrite, a, b), &mut || {
                product(&mut z, outer, Accumulate::Overwrite, a, w)
            }],
        );
        let mut dw = vec![0.0; inner * outer];
        let mut dw2 = vec![0.0; inner * outer];
        let d = Mat::dense(&z, rows, outer);
        let [general_t, packed_t] = best(
            flops,
            [&mut || matmul(&mut dw, outer, Accumulate::Overwrite, a.t(), d), &mut || {
                add_outer_products(&mut dw2, a, d, [&mut [], &mut []])
            }],
        );
        let name = format!("{rows} x {inner} x {outer}");
        println!("{name:>24} {general:8.1} {packed:8.1} {general_t:8.1} {packed_t:8.1}");
    }
}
