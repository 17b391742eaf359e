//! Pages of lists: `limit` entries after a `cursor`, which is the `next` of the page before.

use ringfence_spec::{Code, Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use super::fault::Fault;

/// Entries of a page, if the request names no other number.
const LIMIT: usize = 100;

/// Maximum entries of a page.
const LIMIT_MAX: usize = 1000;

/// Page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Maximum number of entries, up to 1000 [default: 100].
    #[param(minimum = 1)]
    pub(super) limit: Option<usize>,
    /// `next` of the previous page.
    pub(super) cursor: Option<String>,
}

/// Place of an entry in a list that is sorted by time, and then by id. Holds when entries come and go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) at_ms: i64,
    pub(super) id: String,
}

impl PageQuery {
    /// Maximum number of entries.
    pub(super) fn limit(&self) -> Result<usize, Fault> {
        match self.limit {
            Some(0) => Err(Problem::usage(Code::BadArguments, "`limit` must be at least 1").into()),
            limit => Ok(limit.unwrap_or(LIMIT).min(LIMIT_MAX)),
        }
    }

    /// Number of entries before the page, for lists whose order does not change.
    pub(super) fn offset(&self) -> Result<usize, Fault> {
        self.cursor.as_deref().map_or(Ok(0), |cursor| cursor.parse().map_err(|_| bad_cursor()))
    }

    /// Last entry of the page before.
    pub(super) fn place(&self) -> Result<Option<Place>, Fault> {
        let Some(cursor) = self.cursor.as_deref() else { return Ok(None) };
        let (at_ms, id) = cursor.split_once('-').ok_or_else(bad_cursor)?;
        let at_ms = at_ms.parse().map_err(|_| bad_cursor())?;
        Ok(Some(Place { at_ms, id: id.to_owned() }))
    }
}

/// Cuts a list that begins at an offset to a page. Returns the cursor of the next page too.
pub(super) fn cut<T>(list: &mut Vec<T>, offset: usize, limit: usize) -> Option<String> {
    let more = list.len() > limit;
    list.truncate(limit);
    more.then(|| (offset + limit).to_string())
}

/// Takes the page of a sorted list that follows a place. Returns the cursor of the next page too.
pub(super) fn after<T>(
    list: impl Iterator<Item = T>,
    limit: usize,
    is_after: impl Fn(&T) -> bool,
    place: impl Fn(&T) -> Place,
) -> (Vec<T>, Option<String>) {
    let mut page: Vec<T> = list.filter(|entry| is_after(entry)).take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| more).map(|last| {
        let Place { at_ms, id } = place(last);
        format!("{at_ms}-{id}")
    });
    (page, next)
}

pub(super) fn bad_cursor() -> Fault {
    Problem::usage(Code::BadArguments, "`cursor` is not one that was given out")
        .hint("pass `next` of the page before")
        .into()
}
