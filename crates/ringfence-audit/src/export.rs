//! Rows for other programs: JSON lines or CSV, the oldest first.

use std::io::Write;

use ringfence_spec::{Code, Problem};
use serde_json::Value;

use crate::columns::{Kind, Risk, RunStatus};
use crate::page::Filter;
use crate::reader::Reader;
use crate::record::Record;

/// Export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line, every field.
    Jsonl,
    /// RFC 4180, with the fields that fit a table.
    Csv,
}

/// Fields of the body that have a column.
const DETAILS: &[&str] = &[
    "arguments",
    "code_sha256",
    "code_bytes",
    "verdict",
    "reason",
    "code",
    "exit_code",
    "signal",
    "wall_ms",
    "cpu_ms",
    "memory_peak_bytes",
    "result_bytes",
    "result_head",
    "violations_total",
    "writes_total",
];

impl Reader {
    /// Writes every row that matches the filter; returns their number.
    pub fn export(
        &self,
        filter: &Filter,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<u64, Problem> {
        let failed = |e: std::io::Error| {
            Problem::cannot_build(Code::ExportFailed, "cannot write the export").cause(e)
        };
        if format == Format::Csv {
            let columns = "seq,at_ms,kind,run_id,session,client,tool,status,risk,body";
            write!(out, "{columns},{},chain\r\n", DETAILS.join(",")).map_err(failed)?;
        }
        let mut rows = 0;
        self.scan(filter, |record| {
            rows += 1;
            match format {
                Format::Jsonl => {
                    serde_json::to_writer(&mut *out, &record).map_err(|e| failed(e.into()))?;
                    out.write_all(b"\n").map_err(failed)
                }
                Format::Csv => write!(out, "{}\r\n", csv(&record)).map_err(failed),
            }
        })?;
        Ok(rows)
    }
}

fn csv(record: &Record) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let body = serde_json::to_value(record.body).unwrap_or_default();
    let mut cells = vec![
        record.seq.to_string(),
        record.at_ms.to_string(),
        record.kind.map_or("", Kind::word).to_owned(),
        text(&record.run_id),
        text(&record.session),
        text(&record.client),
        text(&record.tool),
        record.status.map_or("", RunStatus::word).to_owned(),
        record.risk.map_or("", Risk::word).to_owned(),
        body.as_str().unwrap_or_default().to_owned(),
    ];
    for name in DETAILS {
        cells.push(match record.details.as_ref().and_then(|details| details.get(name)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        });
    }
    cells.push(record.chain.to_string());
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    cells.join(",")
}

/// Formats a cell as in RFC 4180. A text that a spreadsheet would take for a formula gets a quote in front: results
/// come from untrusted programs.
fn cell(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number;
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_are_text() {
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        assert_eq!(cell("-1.5"), "-1.5");
    }
}
