//! From the numbers of an output to the odds that a text is an attack, and of which kind.

use super::settings::Scores;
use crate::scan::classifier::Head;
use crate::scan::classifier::stack;

/// Log odds beyond these say no more.
const ODDS_MAX: f32 = 30.0;
/// How far probabilities may be from what they should be.
const ROUNDING: f32 = 1e-3;

/// What a model says of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// The log odds that it is an attack.
    pub odds: f32,
    /// What it would be.
    pub head: Head,
}

/// Reads the numbers of an output; none where they are no numbers, or no probabilities.
pub fn read(numbers: &[f32], classes: &[Option<Head>], scores: Scores) -> Option<Said> {
    let is_right = |number: &f32| match scores {
        Scores::Softmax | Scores::Sigmoid => number.is_finite(),
        Scores::Probabilities => (-ROUNDING..=1.0 + ROUNDING).contains(number),
    };
    if numbers.len() != classes.len() || !numbers.iter().all(is_right) {
        return None;
    }
    let attacks = numbers.iter().zip(classes).filter_map(|(number, class)| Some((*number, (*class)?)));
    let (loudest, _) = attacks.clone().max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    // Of two that are as loud, the one that stands first.
    let (_, head) = attacks.clone().find(|(number, _)| *number == loudest)?;
    let attacks = attacks.map(|(number, _)| number);
    let rest = numbers.iter().zip(classes).filter(|(_, class)| class.is_none()).map(|(number, _)| *number);
    let odds = match scores {
        Scores::Softmax => together(attacks) - together(rest),
        Scores::Sigmoid => loudest,
        Scores::Probabilities => stack::log_odds(attacks.sum::<f32>().clamp(0.0, 1.0)),
    };
    Some(Said { odds: odds.clamp(-ODDS_MAX, ODDS_MAX), head })
}

/// Returns the logarithm of what logits weigh together.
fn together(logits: impl Iterator<Item = f32> + Clone) -> f32 {
    let most = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    most + logits.map(|logit| (logit - most).exp()).sum::<f32>().ln()
}
