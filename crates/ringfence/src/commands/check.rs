//! `ringfence check`: layer 1 alone. Prints the screening verdict on a program; nothing runs.

use std::fmt::Write as _;
use std::process::ExitCode;

use ringfence_screen::{ScreenRisk, ScreenVerdict};
use ringfence_spec::{CodePreset, Problem, ProblemKind};
use serde::Serialize;

use crate::cli::{CheckArgs, PolicyFlags};
use crate::present;
use crate::settings::{Surroundings, code_rules};
use crate::style::{Look, Stream, paint};

/// A verdict and the preset it was made with.
#[derive(Debug, Serialize)]
struct Answer {
    preset: CodePreset,
    #[serde(flatten)]
    verdict: ScreenVerdict,
}

/// Screens the program and prints the verdict.
pub(crate) fn check(args: CheckArgs) -> ExitCode {
    let json = args.json;
    match attempt(args) {
        Ok(answer) => {
            if json {
                present::json(&answer);
            } else {
                present::text(&render(&answer));
            }
            if answer.verdict.safe {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(ProblemKind::Refused.exit_code())
            }
        }
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: CheckArgs) -> Result<Answer, Problem> {
    let CheckArgs { preset, allow_import, policy, json: _, source } = args;
    let flags = PolicyFlags { preset, policy, allow_import, ..PolicyFlags::default() };
    let (rules, warnings) = code_rules(&flags, &Surroundings::real(false)?)?;
    for warning in warnings {
        present::warn(&warning);
    }
    let verdict = rules.screen(&super::exec::read(&source, None)?);
    Ok(Answer { preset: rules.preset, verdict })
}

fn render(answer: &Answer) -> String {
    let Answer { preset, verdict } = answer;
    let mut out = String::new();
    if verdict.safe {
        let _ =
            writeln!(out, "{} by preset {preset}", paint(Stream::Stdout, Look::Good, "allowed"));
        for finding in &verdict.findings {
            let place = format!("line {}", finding.line);
            let _ = writeln!(
                out,
                "  {place:<8} allowed and noted, {} risk: {} {}",
                finding.risk, finding.rule, finding.subject
            );
        }
        return out;
    }
    let risk = match verdict.risk {
        ScreenRisk::Safe => "safe",
        ScreenRisk::Medium => "medium",
        ScreenRisk::High => "high",
    };
    let refused = paint(Stream::Stdout, Look::Bad, "refused");
    let _ = writeln!(out, "{refused} by preset {preset}, risk {risk}");
    for v in &verdict.violations {
        let place = format!("{}:{}", v.line, v.column);
        let _ = writeln!(out, "  {place:<8} {}: {}", v.rule, v.subject);
        let _ = writeln!(out, "  {:<8}   hint: {}", "", v.hint);
    }
    out
}
