//! Refusals of ordinary programs by each preset: the table in `docs/screening.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use ringfence_screen::screen;
use ringfence_spec::CodePreset;

use crate::{CannotTry, Verdict};

/// Refusals of the default preset that are accepted, in parts of a thousand.
const DEFAULT_PER_MILLE_MAX: usize = 5;

const PRESETS: [CodePreset; 4] =
    [CodePreset::Strict, CodePreset::Standard, CodePreset::Data, CodePreset::Open];

#[derive(Debug, Args)]
pub(crate) struct RefusalsArgs {
    /// Directories of programs, `*.py` at any depth; a row of the table for each
    #[arg(required = true)]
    sets: Vec<PathBuf>,
    /// Lists the programs that this preset refuses, with the first violation of each
    #[arg(long)]
    list: Option<CodePreset>,
}

pub(crate) fn refusals(args: &RefusalsArgs) -> Result<Verdict, CannotTry> {
    let mut verdict = Verdict::Held;
    println!("| set | programs | strict | standard | data | open |\n|---|---|---|---|---|---|");
    for set in &args.sets {
        let mut programs = Vec::new();
        gather(set, &mut programs)?;
        if programs.is_empty() {
            return Err(format!("`{}` has no programs", set.display()));
        }
        programs.sort();
        let mut refused: BTreeMap<CodePreset, usize> = BTreeMap::new();
        for path in &programs {
            let source = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            for preset in PRESETS {
                let screened = screen(&source, preset, &[]);
                if screened.safe {
                    continue;
                }
                *refused.entry(preset).or_default() += 1;
                if args.list == Some(preset) {
                    let first = &screened.violations[0];
                    eprintln!(
                        "{}:{}: {} {}",
                        path.display(),
                        first.line,
                        first.rule,
                        first.subject
                    );
                }
            }
        }
        let n = programs.len();
        let cells: Vec<String> = PRESETS
            .iter()
            .map(|preset| {
                let n_refused = refused.get(preset).copied().unwrap_or(0);
                let per_mille = n_refused * 1000 / n;
                format!("{n_refused} ({}.{} %)", per_mille / 10, per_mille % 10)
            })
            .collect();
        let name = set.file_name().unwrap_or(set.as_os_str()).to_string_lossy();
        println!("| {name} | {n} | {} |", cells.join(" | "));
        // Sources that are no Python 3 are refused by every preset.
        let broken = refused.get(&CodePreset::Open).copied().unwrap_or(0);
        let own = refused.get(&CodePreset::default()).copied().unwrap_or(0) - broken;
        if own * 1000 > n * DEFAULT_PER_MILLE_MAX {
            verdict = Verdict::Failed;
        }
    }
    Ok(verdict)
}

fn gather(dir: &Path, programs: &mut Vec<PathBuf>) -> Result<(), CannotTry> {
    let cannot = |e: std::io::Error| format!("cannot read `{}`: {e}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let kind = entry.file_type().map_err(cannot)?;
        let path = entry.path();
        if kind.is_dir() {
            gather(&path, programs)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "py") {
            programs.push(path);
        }
    }
    Ok(())
}
