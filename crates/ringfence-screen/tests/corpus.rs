//! Ordinary programs, one file each in `corpus/PRESET`, which their preset accepts.

#![allow(clippy::disallowed_methods)]

use std::path::Path;

use ringfence_screen::screen;
use ringfence_spec::CodePreset;

#[test]
fn ordinary_programs_are_accepted() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut n_programs = 0;
    for preset in [CodePreset::Strict, CodePreset::Standard, CodePreset::Data] {
        for entry in std::fs::read_dir(corpus.join(preset.name())).unwrap() {
            let path = entry.unwrap().path();
            let source = std::fs::read(&path).unwrap();
            let verdict = screen(&source, preset, &[]);
            assert!(verdict.safe, "{}: {:#?}", path.display(), verdict.violations);
            n_programs += 1;
        }
    }
    assert!(n_programs >= 12, "{n_programs}");
}
