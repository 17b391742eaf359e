//! Vectors of an OpenAI-compatible embeddings endpoint that the operator configured. Requests and answers are bounded;
//! no redirect is followed, and no error shows the key.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;

use ringfence_engine::search::{Embedder, VectorError};
use serde::Deserialize;
use serde_json::json;

use crate::notify::http_post::HttpClient;

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
    client: HttpClient,
    model_id: u64,
}

impl EndpointEmbedder {
    /// An embedder for an endpoint. Sends nothing yet.
    pub fn new(endpoint: Endpoint) -> Self {
        // Another release of the compiler may hash otherwise: then everything is embedded once more.
        let mut hasher = DefaultHasher::new();
        (&endpoint.url, &endpoint.model).hash(&mut hasher);
        Self { endpoint, client: HttpClient::new(), model_id: hasher.finish() }
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
        let Endpoint { url, key, .. } = &self.endpoint;
        let answer = self.client.post_json(url, key.as_deref(), &body.to_string());
        let answer = answer.map_err(|e| failed(e.to_string()))?;
        let mut bytes = Vec::new();
        let mut reader = answer.into_reader().take(ANSWER_BYTES_MAX + 1);
        reader.read_to_end(&mut bytes).map_err(|e| failed(format!("its answer broke off: {e}")))?;
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
