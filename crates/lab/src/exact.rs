//! Numbers that come back from JSON bit for bit: NaN as `null`, infinities as text.
//!
//! JSON has neither; without this a figure with an undefined cell could be written but never read again.

use serde::de::{self, DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Plain data made of numbers; for `#[serde(with = "crate::exact")]`.
pub trait Numbers: Sized {
    /// The same data as it is written.
    type Kept: Serialize + DeserializeOwned;

    /// To what is written.
    fn keep(&self) -> Self::Kept;

    /// From what was written.
    fn back(kept: Self::Kept) -> Self;
}

/// Writes the data.
pub fn serialize<T: Numbers, S: Serializer>(data: &T, to: S) -> Result<S::Ok, S::Error> {
    data.keep().serialize(to)
}

/// Reads the data.
pub fn deserialize<'de, T: Numbers, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::Kept::deserialize(from).map(T::back)
}

/// One number as it is written.
#[derive(Clone, Copy)]
pub struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => to.serialize_unit(),
            f64::INFINITY => to.serialize_str("inf"),
            f64::NEG_INFINITY => to.serialize_str("-inf"),
            value => to.serialize_f64(value),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a number, null, \"inf\" or \"-inf\"")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(f64::NAN))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                match text {
                    "inf" => Ok(Number(f64::INFINITY)),
                    "-inf" => Ok(Number(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        from.deserialize_any(Reader)
    }
}

impl Numbers for f64 {
    type Kept = Number;

    fn keep(&self) -> Number {
        Number(*self)
    }

    fn back(kept: Number) -> f64 {
        kept.0
    }
}

impl Numbers for (f64, f64) {
    type Kept = (Number, Number);

    fn keep(&self) -> Self::Kept {
        (Number(self.0), Number(self.1))
    }

    fn back(kept: Self::Kept) -> Self {
        (kept.0.0, kept.1.0)
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    type Kept = Vec<T::Kept>;

    fn keep(&self) -> Self::Kept {
        self.iter().map(T::keep).collect()
    }

    fn back(kept: Self::Kept) -> Self {
        kept.into_iter().map(T::back).collect()
    }
}

impl<T: Numbers> Numbers for Option<T> {
    type Kept = Option<T::Kept>;

    fn keep(&self) -> Self::Kept {
        self.as_ref().map(T::keep)
    }

    fn back(kept: Self::Kept) -> Self {
        kept.map(T::back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Data {
        #[serde(with = "crate::exact")]
        one: f64,
        #[serde(with = "crate::exact")]
        pairs: Vec<(f64, f64)>,
        #[serde(with = "crate::exact")]
        none: Option<f64>,
    }

    #[test]
    fn every_number_comes_back_bit_for_bit() {
        let values = [0.1 + 0.2, -0.0, 1e308, 5e-324, 3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let pairs: Vec<(f64, f64)> = values.iter().map(|&v| (v, 1.0 / v)).collect();
        for one in values {
            let text = serde_json::to_string(&Data { one, pairs: pairs.clone(), none: None }).unwrap();
            let back: Data = serde_json::from_str(&text).unwrap();
            let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(same(back.one, one), "{text}");
            assert!(back.pairs.iter().zip(&pairs).all(|(a, b)| same(a.0, b.0) && same(a.1, b.1)), "{text}");
            assert!(back.none.is_none());
        }
        assert!(serde_json::from_str::<Data>(r#"{"one":"many","pairs":[],"none":null}"#).is_err());
    }
}
