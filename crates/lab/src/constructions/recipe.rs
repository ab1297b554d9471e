//! What a construction is built from, and the steps and label bounds with which it works on given prompts.

use serde::{Deserialize, Serialize};

use super::layers::{EQUAL, OPPOSITE};
use crate::data::prompts::Prompts;
use crate::error::{Error, Result};
use crate::linalg::{Eigenvalues, gram, norm};
use crate::parallel;

/// What a construction is built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Recipe {
    /// Which construction.
    pub variant: Variant,
    /// Iterations k.
    pub iterations: usize,
    /// Dimension d of an input.
    pub dim: usize,
    /// The most pairs n of a prompt.
    pub pairs: usize,
    /// α or η, by the variant: of Newton's start αS or ηI, or η of the first step of a descent.
    pub step: f64,
    /// Half of what no label may exceed; only the paper's construction, which multiplies by labels, needs one.
    pub label_bound: f64,
}

/// Which construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Newton in k+3 layers from αS, in k+2 from ηI.
    Compact(Start),
    /// Newton in k+8 layers, as the paper's proof goes, corrected.
    Paper,
    /// The same as printed.
    Printed,
    /// The compact construction under a causal mask, as the paper remarks.
    Causal,
    /// Newton from ηI in k+2 layers, labels read at every one of them.
    Residual,
    /// Gradient descent in k+1 layers.
    Gd,
    /// GD++ in k+1 layers.
    GdPlusPlus,
    /// Recursive least squares, several layers for each pair; made by [`build_rls`](super::build_rls) alone.
    Rls,
}

/// Where Newton's iteration starts, by the words of the setting `start` of the solver `newton`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// M₀ = αS.
    Gram,
    /// M₀ = ηI.
    Identity,
}

impl Variant {
    /// Every variant that has iterations.
    pub const ALL: [Variant; 8] = [
        Variant::Compact(Start::Gram),
        Variant::Compact(Start::Identity),
        Variant::Paper,
        Variant::Printed,
        Variant::Causal,
        Variant::Residual,
        Variant::Gd,
        Variant::GdPlusPlus,
    ];

    /// Its name, which compact constructions share.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Compact(_) => "compact",
            Variant::Paper => "paper",
            Variant::Printed => "printed",
            Variant::Causal => "causal",
            Variant::Residual => "residual",
            Variant::Gd => "gd",
            Variant::GdPlusPlus => "gd++",
            Variant::Rls => "rls",
        }
    }

    /// Where Newton's iteration starts; descents have no such start.
    pub fn start(self) -> Option<Start> {
        match self {
            Variant::Compact(start) => Some(start),
            Variant::Paper | Variant::Printed | Variant::Causal => Some(Start::Gram),
            Variant::Residual => Some(Start::Identity),
            Variant::Gd | Variant::GdPlusPlus | Variant::Rls => None,
        }
    }

    /// What its step is called: as a setting, and as a letter.
    pub fn step_name(self) -> (&'static str, &'static str) {
        match self.start() {
            Some(Start::Gram) => ("alpha", "α"),
            Some(Start::Identity) | None => ("eta", "η"),
        }
    }

    /// What it is, in a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            Variant::Compact(Start::Gram) => "Newton's iteration from αS, exact in k+3 layers",
            Variant::Compact(Start::Identity) => "Newton's iteration from ηI, exact in k+2 layers",
            Variant::Paper => "Newton's iteration as in the paper's proof, corrected: k+8 layers",
            Variant::Printed => {
                "the paper's proof as printed: equal value matrices (E2), test column inside S (E6)"
            }
            Variant::Causal => {
                "Newton's iteration under a causal mask, 1/t in place of 1/N, as the paper remarks"
            }
            Variant::Residual => {
                "Newton's iteration from ηI in residual form, labels read at every layer: k+2 layers"
            }
            Variant::Gd => "gradient descent by linear attention, one layer per step",
            Variant::GdPlusPlus => "GD++ by linear attention: inputs are transformed too, one layer per step",
            Variant::Rls => "recursive least squares on innovations, several layers for each pair",
        }
    }
}

/// A recipe as files have it: the start stands beside the variant. Files from before there was a choice have no start.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    variant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    iterations: usize,
    dim: usize,
    pairs: usize,
    step: f64,
    label_bound: f64,
}

impl From<Recipe> for Written {
    fn from(Recipe { variant, iterations, dim, pairs, step, label_bound }: Recipe) -> Written {
        let (start, variant) = (variant.start(), variant.name().to_string());
        Written { variant, start, iterations, dim, pairs, step, label_bound }
    }
}

impl TryFrom<Written> for Recipe {
    type Error = String;

    fn try_from(written: Written) -> std::result::Result<Recipe, String> {
        let Written { variant, start, iterations, dim, pairs, step, label_bound } = written;
        // Without a start it is the first of that name, from αS.
        let meant = |v: &Variant| v.name() == variant && (start.is_none() || start == v.start());
        let variant = Variant::ALL.into_iter().find(meant).ok_or_else(|| {
            let from = |start: Start| format!(" from {start:?}").to_lowercase();
            let words = |v: Variant| format!("{}{}", v.name(), v.start().map_or(String::new(), from));
            let given = format!("{variant}{}", start.map_or(String::new(), from));
            format!("variant {given}; accepted: {}", Variant::ALL.map(words).join(", "))
        })?;
        Ok(Recipe { variant, iterations, dim, pairs, step, label_bound })
    }
}

/// The most dimensions, pairs and iterations that weights are written for.
pub const LARGEST: (usize, usize, usize) = (128, 512, 4096);

impl Recipe {
    /// Columns N = 2n+1.
    pub fn columns(&self) -> usize {
        2 * self.pairs + 1
    }

    /// Refuses sizes and steps that make no sense.
    pub fn check(&self) -> Result<()> {
        let (dims, pairs, iterations) = LARGEST;
        let refuse = |what: &str, value: String, accepted: String| {
            Err(Error::BadData(format!("{what} is {value}; accepted: {accepted}")))
        };
        if self.dim == 0 || self.dim > dims {
            return refuse("dimension d", self.dim.to_string(), format!("1 to {dims}"));
        }
        if self.pairs > pairs {
            return refuse("number of pairs n", self.pairs.to_string(), format!("at most {pairs}"));
        }
        if self.iterations > iterations {
            return refuse(
                "number of iterations k",
                self.iterations.to_string(),
                format!("0 to {iterations}"),
            );
        }
        if !(self.step.is_finite() && self.step > 0.0) {
            return refuse("step", self.step.to_string(), "a number above 0".into());
        }
        if !(self.label_bound.is_finite() && self.label_bound > 0.0) {
            return refuse("label bound", self.label_bound.to_string(), "a number above 0".into());
        }
        Ok(())
    }
}

/// What to do as the paper prints it, each on its own or together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misprints {
    /// V₂ = V₁ in the pairs of heads, so that they make |z| (erratum E2).
    pub equal_values: bool,
    /// The test column takes part in S (erratum E6); the compact construction cannot do that.
    pub test_inside: bool,
    /// The iteration scores ⟨x_t, T x_s⟩ and not ⟨T x_t, x_s⟩: right on paper, but round-off doubles with each layer.
    pub transposed: bool,
}

impl Misprints {
    /// Everything as printed.
    pub const ALL: Misprints = Misprints { equal_values: true, test_inside: true, transposed: true };

    /// Sign of the second head's values: ReLU(z) − ReLU(−z) = z makes a product, the printed ReLU(z) + ReLU(−z) = |z|.
    pub(super) fn second(self) -> f64 {
        if self.equal_values { EQUAL } else { OPPOSITE }
    }
}

/// The steps with which a variant converges on prompts: every one below this limit.
///
/// Newton needs α < 2/λ² with λ the largest eigenvalue of S over `pairs` pairs; the descents and Newton from ηI need
/// η < 2/λ (GD++ bears 3/λ); the causal variant α < 2/λ² with λ the largest eigenvalue of a mean of xxᵀ over any prefix, which the largest
/// ‖x‖² bounds.
pub fn step_limit(variant: Variant, prompts: &Prompts, pairs: usize) -> f64 {
    let d = prompts.dim();
    let of_prompt = |b: usize| {
        let xs = &prompts.prompt(b).0[..pairs * d];
        match variant {
            Variant::Causal => xs.chunks_exact(d).map(|x| norm(x).powi(2)).fold(0.0, f64::max),
            _ => Eigenvalues::of(&gram(xs, d), d).largest(),
        }
    };
    let largest = parallel::map(prompts.count(), of_prompt).into_iter().fold(0.0, f64::max);
    match variant.start() {
        Some(Start::Gram) => 2.0 / (largest * largest),
        Some(Start::Identity) | None => 2.0 / largest,
    }
}

/// A label bound for prompts: at least four times the largest label, a power of two so that it scales without round-off.
pub fn label_bound(prompts: &Prompts) -> f64 {
    let largest = prompts.ys.iter().fold(0.0_f64, |m, y| m.max(y.abs()));
    (4.0 * largest).max(1.0).log2().ceil().exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_says_its_start_and_one_without_starts_at_the_gram_matrix() {
        let read = |text: &str| serde_json::from_str::<Recipe>(text).map_err(|e| e.to_string());
        let sizes = r#""iterations":2,"dim":3,"pairs":4,"step":0.5,"label_bound":1.0"#;
        for variant in Variant::ALL {
            let recipe = Recipe { variant, iterations: 2, dim: 3, pairs: 4, step: 0.5, label_bound: 1.0 };
            let text = serde_json::to_string(&recipe).unwrap();
            assert_eq!(text.contains(r#""start":"identity""#), variant.start() == Some(Start::Identity));
            assert_eq!(read(&text).unwrap(), recipe, "{text}");
            // as files were before there was a choice
            let old = read(&format!(r#"{{"variant":"{}",{sizes}}}"#, variant.name())).unwrap().variant;
            assert_eq!(old, if old.name() == "compact" { Variant::Compact(Start::Gram) } else { variant });
        }
        for (variant, start) in [("paper", "identity"), ("gd", "gram"), ("dense", "gram")] {
            let text = format!(r#"{{"variant":"{variant}","start":"{start}",{sizes}}}"#);
            let refusal = read(&text).unwrap_err();
            assert!(
                refusal.contains(&format!("variant {variant} from {start}; accepted: compact from gram"))
            );
        }
        let more = read(&format!(r#"{{"variant":"paper","depth":9,{sizes}}}"#)).unwrap_err();
        assert!(more.contains("depth"), "{more}");
    }
}
