//! Search by meaning beside the words, if the operator configured an embedder. A failure of the embedder never fails a
//! search: the ranking by words is the answer then, and the answer says why.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_search::{Embedder, Hit, Index, Query, Source, VectorError, VectorIndex};
use ringfence_spec::{Code, Problem};

/// Time that a search may spend on embedding new pieces. What is left is done by the next one, or by an index job.
const SEARCH_EMBED_MAX: Duration = Duration::from_secs(5);

/// Time after a failure during which an embedder is not asked again.
const PAUSE: Duration = Duration::from_secs(30);

/// Maximum texts that a program has compared in one call.
const TEXTS_MAX: usize = 512;

/// Hits of each ranking that are fused, if fewer are asked for: a hit that both have may be low in each.
const FUSED_MIN: usize = 50;

/// The operator's embedder, for all sessions.
#[derive(Debug)]
pub(crate) struct Vectors {
    embedder: Arc<dyn Embedder>,
    failed: Mutex<Option<(Instant, String)>>,
}

/// Vectors of one session's index.
#[derive(Debug, Default)]
pub(crate) struct SessionVectors {
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    vectors: VectorIndex,
    /// Revision of the index that they are of.
    revision: u64,
}

/// Hits in the order that was chosen, and how it came about.
pub(crate) struct Ranked {
    pub(crate) hits: Vec<Hit>,
    pub(crate) ranking: &'static str,
    pub(crate) note: Option<String>,
}

/// Name of the ranking by words alone.
pub(crate) const BY_WORDS: &str = "bm25";

/// Name of the fused ranking.
const FUSED: &str = "bm25+vectors";

impl Vectors {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder, failed: Mutex::default() }
    }

    /// Fuses the hits of a query by words with those by meaning.
    pub(crate) fn fuse(
        &self,
        of_session: &Mutex<SessionVectors>,
        index: &Index,
        source: &dyn Source,
        query: &Query,
        stop: &AtomicBool,
    ) -> Result<Ranked, ringfence_search::IndexError> {
        let limit = if query.limit == 0 { 10 } else { query.limit };
        let wide = Query { limit: limit.max(FUSED_MIN), ..query.clone() };
        let mut words = index.search(&wide)?;
        match self.near(of_session, index, source, &wide, stop) {
            Ok((near, note)) => {
                let hits = ringfence_search::fuse(&[words, near], limit);
                Ok(Ranked { hits, ranking: FUSED, note })
            }
            Err(why) => {
                words.truncate(limit);
                Ok(Ranked { hits: words, ranking: BY_WORDS, note: Some(why) })
            }
        }
    }

    fn near(
        &self,
        of_session: &Mutex<SessionVectors>,
        index: &Index,
        source: &dyn Source,
        query: &Query,
        stop: &AtomicBool,
    ) -> Result<(Vec<Hit>, Option<String>), String> {
        self.check_pause()?;
        let mut of_session = of_session.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = self
            .update(&mut of_session, index, source, SEARCH_EMBED_MAX, stop)
            .and_then(|vectors| Ok((vectors.search(query, &*self.embedder)?, vectors.n_missing())));
        let (near, n_missing) = vectors.map_err(|error| self.note_failure(&error))?;
        let note = format!("{n_missing} pieces have no vector yet and were ranked by words alone");
        Ok((near, (n_missing > 0).then_some(note)))
    }

    /// Embeds the pieces that have no vector. Returns a sentence if that failed.
    pub(crate) fn job(
        &self,
        of_session: &Mutex<SessionVectors>,
        index: &Index,
        source: &dyn Source,
        stop: &AtomicBool,
    ) -> VectorReport {
        let mut of_session = of_session.lock().unwrap_or_else(PoisonError::into_inner);
        match self.update(&mut of_session, index, source, Duration::MAX, stop) {
            Ok(vectors) => {
                let (n_vectors, n_missing) = (vectors.len() as u64, vectors.n_missing());
                let note = format!("{n_missing} pieces have no vector");
                VectorReport { n_vectors, note: (n_missing > 0).then_some(note) }
            }
            Err(error) => VectorReport { n_vectors: 0, note: Some(self.note_failure(&error)) },
        }
    }

    fn update<'a>(
        &self,
        of_session: &'a mut SessionVectors,
        index: &Index,
        source: &dyn Source,
        most: Duration,
        stop: &AtomicBool,
    ) -> Result<&'a VectorIndex, VectorError> {
        let revision = index.revision();
        let kept = of_session.kept.take().unwrap_or_else(|| {
            let vectors = VectorIndex::load(index, self.embedder.model_id());
            Kept { vectors, revision: u64::MAX }
        });
        let is_current = kept.revision == revision && kept.vectors.n_missing() == 0;
        if is_current {
            return Ok(&of_session.kept.insert(kept).vectors);
        }
        let began = Instant::now();
        let mut is_embedded = false;
        let updated = kept.vectors.updated(index, source, &*self.embedder, &mut || {
            if stop.load(Ordering::Relaxed) || began.elapsed() > most {
                return ControlFlow::Break(());
            }
            is_embedded = true;
            ControlFlow::Continue(())
        });
        let (vectors, failure) = match updated {
            Ok(updated) => updated,
            Err(error) => {
                of_session.kept = Some(kept);
                return Err(error.into());
            }
        };
        // A search is not worse without the file: the next process embeds again.
        if is_embedded && let Err(error) = vectors.save(index) {
            tracing::warn!(%error, "cannot keep the vectors of a session");
        }
        let kept = of_session.kept.insert(Kept { vectors, revision });
        match failure {
            Some(error) => Err(error),
            None => Ok(&kept.vectors),
        }
    }

    /// Cosine similarity of texts to a query, for a program.
    pub(crate) fn cosine_similarity(
        &self,
        query: &str,
        texts: &[String],
    ) -> Result<Vec<f32>, Problem> {
        if texts.len() > TEXTS_MAX {
            return Err(Problem::usage(
                Code::BadArguments,
                format!("{} texts, of {TEXTS_MAX} at most", texts.len()),
            ));
        }
        let failed = |why: String| {
            Problem::refused(Code::NoVectors, "the embedding model cannot be used now")
                .cause(why)
                .hint("`code_api.reranking.bm25` and `mmr` need none")
        };
        self.check_pause().map_err(failed)?;
        ringfence_search::cosine_similarity(query, texts, &*self.embedder)
            .map_err(|error| failed(self.note_failure(&error)))
    }

    fn check_pause(&self) -> Result<(), String> {
        match &*self.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((at, why)) if at.elapsed() < PAUSE => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Keeps a failure, so that the next searches do not wait for the same one.
    fn note_failure(&self, error: &VectorError) -> String {
        let why = format!("ranked by words alone: {error}");
        tracing::warn!(%error, "search by meaning failed");
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some((Instant::now(), why.clone()));
        why
    }
}

/// Result of embedding the pieces of an index.
pub(crate) struct VectorReport {
    pub(crate) n_vectors: u64,
    pub(crate) note: Option<String>,
}
