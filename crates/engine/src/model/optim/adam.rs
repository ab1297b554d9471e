//! Adam with PyTorch's conventions.

/// Settings of Adam; the default is PyTorch's and the paper's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamConfig {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the root of the mean of squares.
    pub epsilon: f32,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

impl AdamConfig {
    /// The rate of step `step` (the first is 1) with the correction of the mean in it, and the correction of the root.
    pub fn corrected(&self, rate: f32, step: u64) -> [f32; 2] {
        // In double precision, as PyTorch computes them.
        let correction1 = 1.0 - f64::from(self.beta1).powf(step as f64);
        let correction2 = 1.0 - f64::from(self.beta2).powf(step as f64);
        [(f64::from(rate) / correction1) as f32, (1.0 / correction2.sqrt()) as f32]
    }
}
