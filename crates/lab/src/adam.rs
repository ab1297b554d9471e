//! Adam in double precision (Kingma and Ba 2015), for the small fits inside the lab; networks are trained by the engine's.

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Running means of a gradient and of its squares.
pub(crate) struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
    /// Steps taken.
    taken: i32,
}

impl Adam {
    /// Before the first step of `size` parameters.
    pub(crate) fn new(size: usize) -> Adam {
        Adam { mean: vec![0.0; size], square: vec![0.0; size], taken: 0 }
    }

    /// One step down a gradient.
    #[inline(always)]
    pub(crate) fn step(&mut self, rate: f64, gradient: &[f64], parameters: &mut [f64]) {
        self.taken += 1;
        let (unbias1, unbias2) = (1.0 - BETA1.powi(self.taken), 1.0 - BETA2.powi(self.taken));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((g, (mean, square)), p) in gradient.iter().zip(moments).zip(parameters) {
            *mean = BETA1 * *mean + (1.0 - BETA1) * g;
            *square = BETA2 * *square + (1.0 - BETA2) * g * g;
            *p -= rate * (*mean / unbias1) / ((*square / unbias2).sqrt() + EPSILON);
        }
    }
}
