//! Resources for what does not fit in the result of a run: whole output, files, original images. A client gets a link
//! to each and reads it as a resource, whole or in parts. Kept for the last runs, within bounds.

use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ringfence_engine::Artifacts;
use ringfence_spec::{Artifact, Encoding, Outcome, escape_name};
use rmcp::model::{
    CacheScope, ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::truncate;

/// Maximum number of runs whose resources are kept.
const RUNS_MAX: usize = 16;

/// Maximum bytes of all kept resources.
const BYTES_MAX: u64 = 32 << 20;

/// Maximum number of linked files per run.
const FILES_MAX: usize = 20;

/// Bytes of one read: default and maximum.
const PART_BYTES: u64 = 256 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;

const ROOT: &str = "ringfence://runs/";

/// Characters of a path to percent-encode.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// Resources of the last runs that have any, oldest first.
#[derive(Debug, Default)]
pub(super) struct ResourceStore {
    runs: Mutex<VecDeque<Arc<StoredRun>>>,
}

/// Resources of one run.
#[derive(Debug)]
struct StoredRun {
    run_id: String,
    /// Name and whole contents of each.
    streams: Vec<(&'static str, Vec<u8>)>,
    files: Option<(Arc<Artifacts>, Vec<Artifact>)>,
    n_bytes: u64,
}

impl ResourceStore {
    /// Stores what does not fit in the result of a run; returns links to it.
    pub(super) fn keep(&self, outcome: &Outcome, files: Option<Arc<Artifacts>>) -> Vec<Resource> {
        let streams = [
            ("stdout", &outcome.stdout, truncate::STDOUT_CHARS_MAX),
            ("stderr", &outcome.stderr, truncate::OTHER_CHARS_MAX),
        ];
        let streams: Vec<_> = streams
            .into_iter()
            .filter(|(_, text, chars_max)| truncate::is_too_long(text, *chars_max))
            .filter_map(|(name, text, _)| Some((name, whole(text, outcome.encoding)?)))
            .collect();
        let artifacts: Vec<_> = outcome.artifacts.iter().take(FILES_MAX).cloned().collect();
        let of_files = files.as_ref().map_or(0, |files| files.kept_bytes(&outcome.artifacts));
        let is_kept = !artifacts.is_empty() && of_files <= BYTES_MAX;
        let files = files.filter(|_| is_kept).map(|files| (files, artifacts));
        if streams.is_empty() && files.is_none() {
            return Vec::new();
        }
        let of_streams: u64 = streams.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let n_bytes = of_streams.saturating_add(if is_kept { of_files } else { 0 });
        if n_bytes > BYTES_MAX {
            return Vec::new();
        }
        let left =
            Arc::new(StoredRun { run_id: outcome.run_id.to_string(), streams, files, n_bytes });
        let links = left.links();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push_back(left);
        let all =
            |runs: &VecDeque<Arc<StoredRun>>| runs.iter().map(|left| left.n_bytes).sum::<u64>();
        while runs.len() > RUNS_MAX || all(&runs) > BYTES_MAX {
            runs.pop_front();
        }
        links
    }

    /// Lists all resources, newest first.
    pub(super) fn list(&self) -> Vec<Resource> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().rev().flat_map(|left| left.links()).collect()
    }

    /// Reads a resource, or a part of it.
    pub(super) fn read(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let unknown = || {
            let message = "there is no such resource; what runs leave is kept for a while";
            ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
        };
        let (place, query) = uri.split_once('?').unwrap_or((uri, ""));
        let (offset, limit) = part(query)?;
        let (run_id, name) =
            place.strip_prefix(ROOT).and_then(|rest| rest.split_once('/')).ok_or_else(unknown)?;
        let left = {
            let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.iter().find(|left| left.run_id == run_id).cloned().ok_or_else(unknown)?
        };
        let (mut bytes, total, media_type) = left.read(name, offset, limit).ok_or_else(unknown)?;
        truncate::leave_cut_character(&mut bytes);
        let next = offset.saturating_add(bytes.len() as u64);
        let about = json!({
            "ringfence/total_bytes": total,
            "ringfence/next_offset": (next < total && !bytes.is_empty()).then_some(next),
        });
        let mut contents = match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => ResourceContents::text(text, uri),
            Ok(text) => blob(text.as_bytes(), uri),
            Err(error) => blob(error.as_bytes(), uri),
        };
        contents = contents.with_mime_type(media_type);
        if let (
            ResourceContents::TextResourceContents { meta, .. }
            | ResourceContents::BlobResourceContents { meta, .. },
            serde_json::Value::Object(about),
        ) = (&mut contents, about)
        {
            *meta = Some(rmcp::model::MetaObject(about));
        }
        // The contents do not change, but they are dropped after a while.
        Ok(ReadResourceResult::new(vec![contents])
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Private))
    }
}

/// URI templates of the resources, for clients that read in parts.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let parts = "`offset` and `limit` count bytes; `_meta` says where the next part begins";
    vec![
        ResourceTemplate::new(format!("{ROOT}{{run_id}}/{{stream}}{{?offset,limit}}"), "output")
            .with_title("Output of a run")
            .with_description(format!("What a run wrote: `stdout` or `stderr`. {parts}.")),
        ResourceTemplate::new(format!("{ROOT}{{run_id}}/files/{{+path}}{{?offset,limit}}"), "file")
            .with_title("File of a run")
            .with_description(format!("A file that a run left. {parts}.")),
    ]
}

impl StoredRun {
    fn links(&self) -> Vec<Resource> {
        let streams = self.streams.iter().map(|(name, bytes)| {
            Resource::new(format!("{ROOT}{}/{name}", self.run_id), *name)
                .with_description("All that the run wrote there")
                .with_mime_type("text/plain")
                .with_size(bytes.len() as u64)
        });
        let files = self.files.iter().flat_map(|(_, list)| list).map(|file| {
            let path = utf8_percent_encode(&file.path, PATH);
            let name = escape_name(&file.path).into_owned();
            Resource::new(format!("{ROOT}{}/files/{path}", self.run_id), name)
                .with_description("A file that the run left")
                .with_mime_type(&file.media_type)
                .with_size(file.bytes)
        });
        streams.chain(files).collect()
    }

    /// Reads a part of a resource; returns it with the total length and the media type.
    fn read(&self, name: &str, offset: u64, limit: u64) -> Option<(Vec<u8>, u64, String)> {
        if let Some((_, bytes)) = self.streams.iter().find(|(stream, _)| *stream == name) {
            let total = bytes.len() as u64;
            let start = usize::try_from(offset.min(total)).ok()?;
            let end = usize::try_from(offset.saturating_add(limit).min(total)).ok()?;
            return Some((bytes[start..end].to_vec(), total, "text/plain".to_owned()));
        }
        let path = percent_decode_str(name.strip_prefix("files/")?).decode_utf8().ok()?;
        let (files, list) = self.files.as_ref()?;
        let file = list.iter().find(|file| file.path == path)?;
        let mut opened = files.open_file(Path::new(&*path)).ok()?;
        opened.seek(SeekFrom::Start(offset)).ok()?;
        let mut bytes = Vec::new();
        opened.take(limit).read_to_end(&mut bytes).ok()?;
        Some((bytes, file.bytes, file.media_type.clone()))
    }
}

fn whole(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Utf8 => Some(text.as_bytes().to_vec()),
        Encoding::Base64 => base64::engine::general_purpose::STANDARD.decode(text).ok(),
    }
}

fn blob(bytes: &[u8], uri: &str) -> ResourceContents {
    ResourceContents::blob(base64::engine::general_purpose::STANDARD.encode(bytes), uri)
}

/// Parses the offset and limit of a read.
fn part(query: &str) -> Result<(u64, u64), ErrorData> {
    let (mut offset, mut limit) = (0, PART_BYTES);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let wrong = || {
            let message = format!("`{pair}` is neither `offset=N` nor `limit=N`");
            ErrorData::invalid_params(message, None)
        };
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value: u64 = value.parse().map_err(|_| wrong())?;
        match key {
            "offset" => offset = value,
            "limit" if value > 0 => limit = value.min(PART_BYTES_MAX),
            _ => return Err(wrong()),
        }
    }
    Ok((offset, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_engine::some_id;
    use ringfence_spec::{Code, Problem, Status};

    fn outcome(stdout: String) -> Outcome {
        let mut outcome =
            Outcome::not_started(some_id(), Status::Ok, &Problem::usage(Code::Other, ""));
        outcome.stdout = stdout;
        outcome
    }

    fn text(result: &ReadResourceResult) -> (String, Option<u64>) {
        let value = serde_json::to_value(&result.contents[0]).unwrap();
        let next = value["_meta"]["ringfence/next_offset"].as_u64();
        (value["text"].as_str().unwrap().to_owned(), next)
    }

    #[test]
    fn what_does_not_fit_is_read_in_parts_that_make_the_whole() {
        let resources = ResourceStore::default();
        assert!(resources.keep(&outcome("short".to_owned()), None).is_empty());
        let whole = "zeile mit ä\n".repeat(50_000);
        let links = resources.keep(&outcome(whole.clone()), None);
        assert_eq!(links[0].size, Some(whole.len() as u64));
        let (mut read, mut offset) = (String::new(), 0);
        loop {
            let uri = format!("{}?offset={offset}&limit=100001", links[0].uri);
            let (part, next) = text(&resources.read(&uri).unwrap());
            read.push_str(&part);
            match next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert!(read == whole);
    }

    #[test]
    fn what_is_not_there_is_said_and_what_is_old_goes() {
        let resources = ResourceStore::default();
        let long = || outcome("x".repeat(20_000));
        let first = resources.keep(&long(), None)[0].uri.clone();
        for uri in [
            "",
            "ringfence://runs/",
            "ringfence://runs/x/stdout",
            "file:///etc/passwd",
            &first.replace("stdout", "stderr"),
            &first.replace("stdout", "files/../../etc/passwd"),
            &format!("{first}?offset=-1"),
            &format!("{first}?limit=0"),
            &format!("{first}?a=b"),
        ] {
            assert!(resources.read(uri).is_err(), "{uri}");
        }
        assert!(resources.read(&first).is_ok());
        for _ in 0..RUNS_MAX {
            resources.keep(&long(), None);
        }
        assert!(resources.read(&first).is_err());
        assert_eq!(resources.list().len(), RUNS_MAX);
        assert!(resources.keep(&outcome("x".repeat(33 << 20)), None).is_empty());
    }
}
