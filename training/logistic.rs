//! Logistic regression over few inputs, by gradient descent with a fixed number of steps.

use std::collections::BTreeMap;

use portcullis::scan::classifier::stack::INPUTS;
use portcullis::scan::classifier::stack::SIGNALS;
use portcullis::scan::classifier::stack::Stack;

use crate::learn::kin;

const STEPS: usize = 400;
const RATE: f64 = 0.05;
const SHRINK: f64 = 1e-3;

/// Fits a stack to inputs, whether each is an attack, and where it is from.
pub fn fit(rows: &[(&[f32; INPUTS], bool, &str)]) -> Stack {
    let mut counts: BTreeMap<(&str, bool), f64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry((kin(row.2), row.1)).or_default() += 1.0);
    let raw: Vec<f64> = rows.iter().map(|row| 1.0 / counts[&(kin(row.2), row.1)].sqrt()).collect();
    let sum = |attack: bool| -> f64 {
        rows.iter().zip(&raw).filter(|(row, _)| row.1 == attack).map(|(_, w)| w).sum()
    };
    let (bad, good) = (sum(true), sum(false));
    let cost: Vec<f64> =
        rows.iter().zip(&raw).map(|(row, w)| if row.1 { w / bad * 0.3 } else { w / good }).collect();
    let (mut weights, mut first, mut second) = ([0f64; INPUTS], [0f64; INPUTS], [0f64; INPUTS]);
    for step in 1..=STEPS {
        let mut slope = [0f64; INPUTS];
        for (row, cost) in rows.iter().zip(&cost) {
            let odds: f64 = weights.iter().zip(row.0).map(|(w, x)| w * f64::from(*x)).sum();
            let error = (1.0 / (1.0 + (-odds).exp()) - f64::from(u8::from(row.1))) * cost;
            slope.iter_mut().zip(row.0).for_each(|(s, x)| *s += error * f64::from(*x));
        }
        for at in 0..INPUTS {
            let slope = slope[at] + SHRINK * weights[at];
            first[at] = 0.9 * first[at] + 0.1 * slope;
            second[at] = 0.999 * second[at] + 0.001 * slope * slope;
            let (m, v) = (
                first[at] / (1.0 - 0.9f64.powi(step as i32)),
                second[at] / (1.0 - 0.999f64.powi(step as i32)),
            );
            weights[at] -= 4.0 * RATE * m / (v.sqrt() + 1e-8);
        }
    }
    Stack { weights: weights.map(|w| w as f32), signals: [0.0; SIGNALS] }
}
