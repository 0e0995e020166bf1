//! Detectors for the tests of this folder.

use std::sync::Arc;

use crate::scan::detector::Detector;
use crate::scan::detector::MaskKind;
use crate::scan::detector::Pattern;
use crate::scan::edges::Edges;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Severity;

/// Makes a detector without checks, context and examples.
pub fn detector(name: &str, pattern: &str) -> Detector {
    Detector {
        name: name.to_owned(),
        category: Category::Custom,
        severity: Severity::Low,
        confidence: Confidence::MEDIUM,
        pattern: Pattern::parse(pattern).unwrap(),
        anchor: None,
        heads: Vec::new(),
        edges: Edges::default(),
        checks: Vec::new(),
        context: None,
        mask: MaskKind::Label,
        techniques: Vec::new(),
        why: "It is a test.".to_owned(),
        references: Vec::new(),
        finds: Vec::new(),
        ignores: Vec::new(),
        shown: Arc::default(),
        pack: "test".to_owned(),
        pack_version: "1.0.0".to_owned(),
        file: "test.toml".to_owned(),
        line: 1,
    }
}

/// Compiles detectors and the set of all of them.
pub fn scanner(detectors: Vec<Detector>) -> (Scanner, DetectorSet) {
    let scanner = Scanner::compile(detectors).unwrap();
    let all = scanner.all();
    (scanner, all)
}
