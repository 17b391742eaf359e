//! The table `[search]` of the operator's files: daily quotas of a session's searches and index jobs, and an embedding model
//! or endpoint that ranks by meaning too. A workspace's own file cannot have it: the files of sessions are sent to the
//! endpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_engine::search::{Embedder, StaticModel};
use ringfence_engine::{Builder, SessionSettings};
use ringfence_server::embeddings::{Endpoint, EndpointEmbedder};
use ringfence_spec::{Code, Policy, Problem};
use ringfence_sys::untrusted;
use serde::Deserialize;

use super::layer::read_table;
use super::notify::is_address;
use super::{Surroundings, named_and_resolved};
use crate::cli::PolicyFlags;

/// Name of the table.
pub(super) const TABLE: &str = "search";

/// Greatest file of a key.
const KEY_BYTES_MAX: u64 = 16 << 10;

/// The table as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    searches_per_day: Option<u32>,
    index_jobs_per_day: Option<u32>,
    model: Option<PathBuf>,
    endpoint: Option<String>,
    endpoint_model: Option<String>,
    endpoint_key_env: Option<String>,
    endpoint_key_file: Option<PathBuf>,
}

/// Settings of search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    table: Table,
    file: PathBuf,
}

/// Reads the table of the policy file, else of the user's file.
pub(crate) fn search(flags: &PolicyFlags, around: &Surroundings) -> Result<Search, Problem> {
    for file in around.operators_files(flags) {
        if let Some(search) = of_file(&file)? {
            return Ok(search);
        }
    }
    Ok(Search::default())
}

/// Checks a file's table by itself, for `policy check`.
pub(super) fn check_file(file: &Path) -> Result<(), Problem> {
    of_file(file).map(drop)
}

fn of_file(file: &Path) -> Result<Option<Search>, Problem> {
    let Some(table) = read_table(file)?.and_then(|mut all| all.remove(TABLE)) else {
        return Ok(None);
    };
    let table: Table =
        table.try_into().map_err(|e: toml::de::Error| wrong(file, e.to_string().trim_end()))?;
    check(&table).map_err(|why| wrong(file, &why))?;
    Ok(Some(Search { table, file: file.to_owned() }))
}

fn check(table: &Table) -> Result<(), String> {
    let is_absolute = |name: &str, path: Option<&PathBuf>| match path {
        Some(path) if !path.is_absolute() => {
            Err(format!("`{name}` must be absolute, and is `{}`", path.display()))
        }
        _ => Ok(()),
    };
    is_absolute("model", table.model.as_ref())?;
    is_absolute("endpoint_key_file", table.endpoint_key_file.as_ref())?;
    if table.model.is_some() && table.endpoint.is_some() {
        return Err("`model` and `endpoint` cannot both be used".to_owned());
    }
    if table.endpoint_key_env.is_some() && table.endpoint_key_file.is_some() {
        return Err("`endpoint_key_env` and `endpoint_key_file` cannot both be used".to_owned());
    }
    match (&table.endpoint, &table.endpoint_model) {
        (Some(url), _) if !is_address(url) => {
            Err("`endpoint` must begin with https:// or http:// and a host".to_owned())
        }
        (Some(_), None) => Err("`endpoint` needs `endpoint_model`, the name of a model".to_owned()),
        (None, Some(_)) => Err("`endpoint_model` needs `endpoint`".to_owned()),
        _ => Ok(()),
    }
}

fn wrong(file: &Path, cause: &str) -> Problem {
    let message = format!("`[{TABLE}]` of `{}` cannot be used", file.display());
    Problem::usage(Code::BadValue, message).cause(cause).hint("docs/search.md shows its settings")
}

impl Search {
    /// Quotas of sessions.
    pub(crate) fn session_settings(&self) -> SessionSettings {
        let usual = SessionSettings::default();
        SessionSettings {
            searches_per_day: self.table.searches_per_day.unwrap_or(usual.searches_per_day),
            index_jobs_per_day: self.table.index_jobs_per_day.unwrap_or(usual.index_jobs_per_day),
            ..usual
        }
    }

    /// Hides the key of the endpoint from commands, which have our uid if we are not root.
    pub(crate) fn hide_key(&self, policy: &mut Policy) -> Result<(), Problem> {
        if let Some(file) = &self.table.endpoint_key_file {
            let names = named_and_resolved(file)
                .map_err(|e| wrong(&self.file, &format!("`{}`: {e}", file.display())))?;
            policy.hide.extend(names);
        }
        Ok(())
    }

    /// Applies the settings to an engine. Reads the model or the key; asks no endpoint.
    pub(crate) fn apply(
        &self,
        builder: Builder,
        around: &Surroundings,
    ) -> Result<Builder, Problem> {
        let builder = builder.sessions(self.session_settings());
        Ok(match self.embedder(around)? {
            Some(embedder) => builder.embedder(embedder),
            None => builder,
        })
    }

    fn embedder(&self, around: &Surroundings) -> Result<Option<Arc<dyn Embedder>>, Problem> {
        let Table { model, endpoint, endpoint_model, .. } = &self.table;
        if let Some(dir) = model {
            let model = StaticModel::open(dir).map_err(|e| wrong(&self.file, &e.to_string()))?;
            return Ok(Some(Arc::new(model)));
        }
        let (Some(url), Some(model)) = (endpoint, endpoint_model) else { return Ok(None) };
        let key = self.key(around)?;
        let endpoint = Endpoint { url: url.clone(), model: model.clone(), key };
        Ok(Some(Arc::new(EndpointEmbedder::new(endpoint))))
    }

    fn key(&self, around: &Surroundings) -> Result<Option<String>, Problem> {
        let missing = |why: String| wrong(&self.file, &why);
        let key = if let Some(name) = &self.table.endpoint_key_env {
            let value = around.variable(name).and_then(|value| value.to_str());
            let why = || missing(format!("the environment has no variable `{name}`"));
            value.ok_or_else(why)?.to_owned()
        } else if let Some(path) = &self.table.endpoint_key_file {
            let text = untrusted::read_trusted(path, KEY_BYTES_MAX)
                .map_err(|e| missing(format!("`{}`: {e}", path.display())))?;
            String::from_utf8_lossy(&text).trim().to_owned()
        } else {
            return Ok(None);
        };
        // It becomes a header.
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(missing("the key is empty or not printable".to_owned()));
        }
        Ok(Some(key))
    }
}
