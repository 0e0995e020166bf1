//! Which model judges: the usual one, one of another name, or none; perhaps with its thresholds moved.
//!
//! Written `default`, `off` or the name of a folder of `plugins/models`; behind `?bias=` may stand log odds that are
//! added to what the model says: with `gatehouse?bias=1` it reports texts that it would have let pass by one.

use std::fmt;
use std::str::FromStr;

use super::shelf::Shelf;

/// The largest bias, either way, in log odds: beyond it a model says always the same.
pub const BIAS_MAX: f32 = 8.0;

const DEFAULT: &str = "default";
const OFF: &str = "off";
const BIAS: &str = "?bias=";

/// Which model judges.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelRef {
    /// None: there is no third layer.
    Off,
    /// A model.
    Model {
        /// Its name; `None` is the usual one.
        name: Option<String>,
        /// The log odds that are added to what it says.
        bias: f32,
    },
}

/// The text names no model in this form.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "expected `default`, `off` or the name of a model, and behind a model perhaps `?bias=` and a number from -{BIAS_MAX} to {BIAS_MAX}"
)]
pub struct InvalidModelRef;

impl ModelRef {
    /// Tells whether a shelf has the model.
    pub fn is_on(&self, shelf: &Shelf) -> bool {
        match self {
            Self::Off | Self::Model { name: None, .. } => true,
            Self::Model { name: Some(name), .. } => shelf.names().any(|known| known == name),
        }
    }

    /// Returns everything that can be named on a shelf, without a bias.
    pub fn known(shelf: &Shelf) -> Vec<String> {
        [DEFAULT, OFF].into_iter().chain(shelf.names()).map(str::to_owned).collect()
    }
}

impl FromStr for ModelRef {
    type Err = InvalidModelRef;

    fn from_str(text: &str) -> Result<Self, InvalidModelRef> {
        let (name, bias) = match text.split_once(BIAS) {
            Some((name, bias)) => (name, Some(bias)),
            None => (text, None),
        };
        let bias = bias.map(|bias| bias.parse::<f32>().map_err(|_| InvalidModelRef)).transpose()?;
        if bias.is_some_and(|bias| !(-BIAS_MAX..=BIAS_MAX).contains(&bias)) {
            return Err(InvalidModelRef);
        }
        match name {
            "" => Err(InvalidModelRef),
            OFF if bias.is_some() => Err(InvalidModelRef),
            OFF => Ok(Self::Off),
            DEFAULT => Ok(Self::Model { name: None, bias: bias.unwrap_or_default() }),
            name => Ok(Self::Model { name: Some(name.to_owned()), bias: bias.unwrap_or_default() }),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF),
            Self::Model { name, bias } => {
                f.write_str(name.as_deref().unwrap_or(DEFAULT))?;
                if *bias == 0.0 { Ok(()) } else { write!(f, "{BIAS}{bias}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        for text in ["default", "off", "gatehouse", "gatehouse?bias=1.5", "default?bias=-2"] {
            assert_eq!(text.parse::<ModelRef>().unwrap().to_string(), text);
        }
        let wrong =
            ["", "off?bias=1", "?bias=1", "a?bias=", "a?bias=NaN", "a?bias=inf", "a?bias=8.1", "a?bias=x"];
        for text in wrong {
            assert_eq!(text.parse::<ModelRef>(), Err(InvalidModelRef), "{text}");
        }
    }
}
