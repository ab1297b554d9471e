use super::{PackedB, add_outer_products, product};
use crate::cpu::gemm::general::{Accumulate, Mat, matmul};
use crate::deviation::worst;
use crate::model::parameters::{RandomSource, SplitMix};

fn numbers(stream: &str, n: usize) -> Vec<f32> {
    let random = SplitMix::new(9);
    (0..n as u64).map(|i| random.normal(stream, i)).collect()
}

fn assert_close(a: &[f32], b: &[f32], what: &str) {
    let error = worst(a.iter().zip(b).map(|(a, b)| (a - b).abs()));
    assert!(error < 2e-4, "{what}: off by {error}");
}

/// Past the ends of tiles, panels and blocks. Miri is thousands of times slower, and gets shapes with one end each.
const SHAPES: &[[usize; 3]] = if cfg!(miri) {
    &[[1, 1, 1], [9, 3, 66], [2, 514, 3], [193, 2, 2]]
} else {
    &[
        [1, 1, 1],
        [64, 8, 8],
        [39, 20, 24],
        [7, 5, 32],
        [18, 300, 50],
        [33, 3, 64],
        [197, 513, 33],
        [100, 256, 96],
        [20, 1030, 150],
        [5, 600, 130],
        [7, 20, 70],
        [3, 9, 64],
    ]
};

#[test]
fn agrees_with_the_general_product() {
    for &[rows, inner, outer] in SHAPES {
        let (x, w) = (numbers("x", rows * (inner + 3)), numbers("w", inner * outer));
        let start = numbers("start", rows * (outer + 2));
        for (transposed, accumulate) in [(false, Accumulate::Overwrite), (true, Accumulate::Add)] {
            let w = match transposed {
                false => Mat::dense(&w, inner, outer),
                true => Mat::dense(&w, outer, inner).t(),
            };
            let mut place = vec![f32::NAN; PackedB::len_of(inner, outer)];
            let x = Mat::strided(&x, rows, inner, inner + 3);
            let (mut fast, mut general) = (start.clone(), start.clone());
            product(&mut fast, outer + 2, accumulate, x, PackedB::new(&mut place, w));
            matmul(&mut general, outer + 2, accumulate, x, w);
            assert_close(&fast, &general, &format!("{rows} × {inner} × {outer}"));
        }
    }
}

#[test]
fn outer_products_agree_with_the_general_product() {
    for &[n, rows, m] in SHAPES {
        let (x, y) = (numbers("x", rows * (n + 3)), numbers("y", rows * m));
        let (x, y) = (Mat::strided(&x, rows, n, n + 3), Mat::dense(&y, rows, m));
        let start = numbers("start", n * m);
        let (mut fast, mut general) = (start.clone(), start);
        let (mut x_sums, mut y_sums) = (vec![1.0; n], vec![2.0; m]);
        add_outer_products(&mut fast, x, y, [&mut x_sums, &mut y_sums]);
        matmul(&mut general, m, Accumulate::Add, x.t(), y);
        assert_close(&fast, &general, &format!("{n} × {m} over {rows}"));
        let total = |x: Mat, col: usize| -> f32 { (0..rows).map(|k| x.data[k * x.row_stride + col]).sum() };
        assert_close(&x_sums, &(0..n).map(|i| 1.0 + total(x, i)).collect::<Vec<_>>(), "sums of x");
        assert_close(&y_sums, &(0..m).map(|j| 2.0 + total(y, j)).collect::<Vec<_>>(), "sums of y");
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_others() {
    let (rows, inner, outer) = if cfg!(miri) { (7, 5, 66) } else { (45, 300, 70) };
    let (x, w) = (numbers("x", rows * inner), numbers("w", inner * outer));
    let mut place = vec![0.0; PackedB::len_of(inner, outer)];
    let w = PackedB::new(&mut place, Mat::dense(&w, inner, outer));
    let mut whole = vec![0.0; rows * outer];
    product(&mut whole, outer, Accumulate::Overwrite, Mat::dense(&x, rows, inner), w);
    for (x, expected) in x.chunks_exact(inner).zip(whole.chunks_exact(outer)) {
        let mut alone = vec![0.0; outer];
        product(&mut alone, outer, Accumulate::Overwrite, Mat::dense(x, 1, inner), w);
        assert_eq!(alone, expected);
    }
}
