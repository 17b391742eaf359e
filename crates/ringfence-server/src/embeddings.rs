//! Vectors of an OpenAI-compatible embeddings endpoint that the operator configured. Requests and answers are bounded;
//! no redirect is followed, and no error shows the key.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::time::Duration;

use ringfence_engine::search::{Embedder, VectorError};
use serde::Deserialize;
use serde_json::json;

use crate::notify::http_post::agent;

/// Timeout of a whole request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer: 64 vectors of 4,096 numbers in decimal.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Address, model and key of an embeddings endpoint.
#[derive(Clone)]
pub struct Endpoint {
    /// URL that requests are posted to, such as `https://api.example.com/v1/embeddings`.
    pub url: String,
    /// Name of the model.
    pub model: String,
    /// Key sent as a bearer token.
    pub key: Option<String>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a secret, the key is one.
        f.debug_struct("Endpoint").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Embedder that asks an endpoint.
#[derive(Debug)]
pub struct EndpointEmbedder {
    endpoint: Endpoint,
    agent: ureq::Agent,
    model_id: u64,
}

impl EndpointEmbedder {
    /// An embedder for an endpoint. Sends nothing yet.
    pub fn new(endpoint: Endpoint) -> Self {
        // Another release of the compiler may hash otherwise: then everything is embedded once more.
        let mut hasher = DefaultHasher::new();
        (&endpoint.url, &endpoint.model).hash(&mut hasher);
        Self { endpoint, agent: agent(TIMEOUT), model_id: hasher.finish() }
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder for EndpointEmbedder {
    fn model_id(&self) -> u64 {
        self.model_id
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, VectorError> {
        let failed = |why: String| VectorError::Endpoint { why };
        // Endpoints refuse an empty text.
        let texts: Vec<&str> =
            texts.iter().map(|text| if text.trim().is_empty() { "." } else { text }).collect();
        let body =
            json!({"model": self.endpoint.model, "input": texts, "encoding_format": "float"});
        let mut request = self.agent.post(&self.endpoint.url).content_type("application/json");
        if let Some(key) = &self.endpoint.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = request.send(body.to_string());
        let answer = answer.map_err(|e| failed(crate::notify::http_post::without_address(&e)))?;
        if !answer.status().is_success() {
            return Err(failed(format!("it answered {}", answer.status())));
        }
        let mut bytes = Vec::new();
        let mut body = answer.into_body().into_reader().take(ANSWER_BYTES_MAX + 1);
        body.read_to_end(&mut bytes).map_err(|e| failed(format!("its answer broke off: {e}")))?;
        if bytes.len() as u64 > ANSWER_BYTES_MAX {
            return Err(failed(format!("its answer has more than {ANSWER_BYTES_MAX} bytes")));
        }
        let Ok(mut answer) = serde_json::from_slice::<Answer>(&bytes) else {
            return Err(failed("its answer is not a list of embeddings".to_owned()));
        };
        answer.data.sort_by_key(|one| one.index);
        let is_whole = answer.data.len() == texts.len()
            && answer.data.iter().enumerate().all(|(at, one)| one.index == at);
        if !is_whole {
            return Err(VectorError::Answer);
        }
        Ok(answer.data.into_iter().map(|one| one.embedding).collect())
    }
}
