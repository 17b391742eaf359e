//! The chart of README.md, from what `ringfence bench --json` measured: no number in it was typed by a person.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::{CannotTry, Verdict};

/// Rows of the chart: the comparison, its title, and the contenders with their labels.
const ROWS: [(&str, &str); 3] = [
    ("start", "start and end of `true`"),
    ("python_warm", "`print(1)`, a warm worker"),
    ("python_pandas", "a sum with pandas, a warm worker"),
];

const WIDTH: f64 = 720.0;
const LABEL: f64 = 150.0;
const BAR: f64 = 14.0;

#[derive(Debug, Args)]
pub(crate) struct ChartArgs {
    /// Output of `ringfence bench --json`
    file: PathBuf,
    /// Where to write the chart
    #[arg(long, default_value = "docs/chart.svg")]
    to: PathBuf,
}

pub(crate) fn chart(args: &ChartArgs) -> Result<Verdict, CannotTry> {
    let text = std::fs::read_to_string(&args.file)
        .map_err(|e| format!("cannot read `{}`: {e}", args.file.display()))?;
    let report: Value = serde_json::from_str(&text).map_err(|e| format!("not JSON: {e}"))?;
    let svg = draw(&report)?;
    std::fs::write(&args.to, svg).map_err(|e| format!("cannot write the chart: {e}"))?;
    println!("{}", args.to.display());
    Ok(Verdict::Held)
}

fn draw(report: &Value) -> Result<String, CannotTry> {
    let comparisons = report["comparisons"].as_array().ok_or("there are no comparisons")?;
    let (mut body, mut y) = (String::new(), 24.0);
    for (name, title) in ROWS {
        let Some(comparison) = comparisons.iter().find(|c| c["name"] == name) else { continue };
        let contenders = comparison["contenders"].as_array().ok_or("there are no contenders")?;
        let bars: Vec<(&str, f64)> = contenders
            .iter()
            .filter_map(|each| Some((each["name"].as_str()?, each["p50_ms"].as_f64()?)))
            .filter(|(name, _)| !matches!(*name, "first byte" | "its worker"))
            .collect();
        let longest = bars.iter().map(|(_, ms)| *ms).fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(
            body,
            "<text x=\"0\" y=\"{y}\" font-weight=\"bold\">{}, ms (p50)</text>",
            escaped(title)
        );
        y += 8.0;
        for (contender, ms) in bars {
            let length = (WIDTH - LABEL - 60.0) * ms / longest;
            let colour = if contender == "ringfence" { "#2a7" } else { "#999" };
            let middle = y + BAR - 3.0;
            let _ = writeln!(body, "<text x=\"0\" y=\"{middle}\">{}</text>", escaped(contender));
            let _ = writeln!(
                body,
                "<rect x=\"{LABEL}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>"
            );
            let end = LABEL + length + 6.0;
            let _ = writeln!(body, "<text x=\"{end:.1}\" y=\"{middle}\">{ms:.2}</text>");
            y += BAR + 5.0;
        }
        y += 22.0;
    }
    if body.is_empty() {
        return Err("the report has none of the comparisons of the chart".to_owned());
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" font-family=\"sans-serif\" font-size=\"12\" \
         fill=\"#777\">\n{body}</svg>\n"
    ))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_number() {
        let report = serde_json::json!({"comparisons": [{"name": "python_warm", "contenders": [
            {"name": "ringfence", "p50_ms": 1.0}, {"name": "first byte", "p50_ms": 0.5},
            {"name": "bwrap+python", "p50_ms": 20.0}]}]});
        let svg = draw(&report).unwrap();
        assert!(svg.contains("width=\"25.5\"") && svg.contains("width=\"510.0\""), "{svg}");
        assert!(!svg.contains("first byte"), "{svg}");
        assert!(draw(&serde_json::json!({"comparisons": []})).is_err());
    }
}
