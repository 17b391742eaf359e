//! Encodes calls for an OpenTelemetry collector: OTLP over HTTP, as JSON. The run id is the trace id.

use std::time::{Duration, SystemTime};

use ringfence_engine::Trace;
use serde_json::{Value, json};

/// `SPAN_KIND_SERVER` and `SPAN_KIND_INTERNAL`.
const SERVER: u8 = 2;
const INTERNAL: u8 = 1;

/// `STATUS_CODE_OK` and `STATUS_CODE_ERROR`.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Builds the body of a request to `/v1/traces`.
pub(super) fn request(traces: &[Trace]) -> Value {
    let spans: Vec<Value> = traces.iter().flat_map(spans).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", "ringfence"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ]},
        "scopeSpans": [{"scope": {"name": "ringfence"}, "spans": spans}],
    }]})
}

/// Builds the span of a call and the child spans of its parts.
fn spans(trace: &Trace) -> Vec<Value> {
    let trace_id = trace.run_id.to_string();
    // A span id must not be 0 and must be unique within its trace.
    let whole = span_id(&trace_id, 0);
    let mut attributes = vec![
        attribute("ringfence.run_id", &trace_id),
        attribute("ringfence.client", &trace.client),
        attribute("ringfence.status", &trace.status),
    ];
    attributes.extend(trace.session.as_ref().map(|id| attribute("ringfence.session_id", id)));
    let code = if trace.status == "ok" { OK } else { ERROR };
    let mut spans = vec![json!({
        "traceId": trace_id, "spanId": whole, "name": trace.tool, "kind": SERVER,
        "startTimeUnixNano": nanos(trace.began, Duration::ZERO),
        "endTimeUnixNano": nanos(trace.began, trace.took),
        "attributes": attributes, "status": {"code": code},
    })];
    spans.extend(trace.parts.iter().zip(1..).map(|(part, n)| {
        json!({
            "traceId": trace_id, "spanId": span_id(&trace_id, n), "parentSpanId": whole,
            "name": part.name, "kind": INTERNAL,
            "startTimeUnixNano": nanos(trace.began, part.from),
            "endTimeUnixNano": nanos(trace.began, part.to),
        })
    }));
    spans
}

/// Sixteen hex digits: the first 14 of the trace id, then the span number.
fn span_id(trace_id: &str, n: u8) -> String {
    format!("{}{:02x}", trace_id.get(..14).unwrap_or("00000000000000"), n + 1)
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Formats a time as a string, because JSON numbers cannot hold nanoseconds exactly.
fn nanos(began: SystemTime, after: Duration) -> String {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + after;
    since.as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use ringfence_engine::Part;

    use super::*;

    #[test]
    fn a_call_is_a_span_and_its_parts_are_below_it() {
        let part = |name, from, to| Part {
            name,
            from: Duration::from_micros(from),
            to: Duration::from_micros(to),
        };
        let trace = Trace {
            run_id: ringfence_spec::RunId::from_random([
                0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
                0xcd, 0xef,
            ]),
            tool: "execute_code",
            client: "ann".to_owned(),
            session: None,
            status: "timeout".to_owned(),
            began: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            took: Duration::from_micros(30),
            parts: vec![part("admit", 0, 10), part("run", 10, 30)],
        };
        let request = ringfence_testing::Json::from(request(&[trace]));
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 3);
        assert_eq!(spans[0]["traceId"], "0123456789abcdef0123456789abcdef");
        assert_eq!(spans[0]["status"]["code"], ERROR);
        assert_eq!(spans[0]["endTimeUnixNano"], "1000030000");
        for (span, id) in
            spans.iter().zip(["0123456789abcd01", "0123456789abcd02", "0123456789abcd03"])
        {
            assert_eq!(span["spanId"], id);
        }
        assert_eq!(spans[2]["parentSpanId"], spans[0]["spanId"]);
        assert_eq!(spans[2]["startTimeUnixNano"], "1000010000");
    }
}
