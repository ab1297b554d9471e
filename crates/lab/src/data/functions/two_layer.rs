//! Two-layer networks: y = aᵀ act(Wx + v) + b, and the bias-free variant scaled by √(2/hidden).

use super::{DeviceFunction, Function, FunctionClass, FunctionRow, Properties};
use crate::data::seed::Draws;
use crate::error::Result;
use crate::linalg::dot;
use crate::registry::{Setting, Settings};

const SETTINGS: &[Setting] = &[
    Setting { name: "hidden", default: "100", help: "hidden units" },
    Setting {
        name: "bias",
        default: "true",
        help: "true: y = aᵀ act(Wx+v)+b; false: no v and b, and y scaled by √(2/hidden)",
    },
    Setting {
        name: "first",
        default: "unit",
        help: "distribution of W: unit, N(0, 1); fan-in, N(0, 1/d). The paper does not fix it",
    },
];

/// Registry row.
pub const RELU: FunctionRow = FunctionRow {
    name: "relu-2nn",
    summary: "two-layer ReLU network with normal weights",
    cite: "Garg et al. 2022; Fu et al. 2024",
    settings: SETTINGS,
    properties: Properties { linear: false },
    build: |settings| TwoLayer::build(settings, false),
};

/// Registry row.
pub const TANH: FunctionRow = FunctionRow {
    name: "tanh-2nn",
    summary: "two-layer tanh network with normal weights",
    cite: "Fu et al. 2024",
    settings: SETTINGS,
    properties: Properties { linear: false },
    build: |settings| TwoLayer::build(settings, true),
};

struct TwoLayer {
    hidden: usize,
    bias: bool,
    fan_in: bool,
    tanh: bool,
}

impl TwoLayer {
    fn build(settings: &Settings, tanh: bool) -> Result<Box<dyn FunctionClass>> {
        Ok(Box::new(TwoLayer {
            hidden: settings.whole("hidden", 1, 100_000)?,
            bias: settings.flag("bias")?,
            fan_in: settings.choice("first", &[("unit", false), ("fan-in", true)])?,
            tanh,
        }))
    }
}

impl FunctionClass for TwoLayer {
    fn draw(&self, dim: usize, draws: &mut Draws) -> Box<dyn Function> {
        let hidden = self.hidden;
        let activation = if self.tanh { libm::tanh } else { |z: f64| z.max(0.0) };
        let mut first = draws.normals(hidden * dim);
        if self.fan_in {
            first.iter_mut().for_each(|w| *w /= (dim as f64).sqrt());
        }
        let second = draws.normals(hidden);
        let (bias, last_bias, scale) = if self.bias {
            (draws.normals(hidden), draws.normal(), 1.0)
        } else {
            (vec![0.0; hidden], 0.0, (2.0 / hidden as f64).sqrt())
        };
        Box::new(move |x: &[f64]| {
            let units = first.chunks_exact(x.len()).zip(&bias).zip(&second);
            scale * (units.map(|((w, v), a)| a * activation(dot(w, x) + v)).sum::<f64>() + last_bias)
        })
    }

    fn on_device(&self) -> Option<DeviceFunction> {
        let &TwoLayer { hidden, bias, fan_in, tanh } = self;
        Some(DeviceFunction::TwoLayer { hidden, bias, fan_in, tanh })
    }
}
