//! Pages of lists: `limit` entries after a `cursor`, which is the `next` of the page before.

use std::fmt;
use std::str::FromStr;

use ringfence_spec::{Code, Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use super::api_error::ApiError;

/// Entries of a page, if the request names no other number.
const LIMIT: usize = 100;

/// Maximum entries of a page.
pub(super) const LIMIT_MAX: usize = 1000;

/// Page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Maximum number of entries, up to 1000 [default: 100].
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// `next` of the previous page.
    pub(super) cursor: Option<String>,
}

/// Order of a list by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    OldestFirst,
    NewestFirst,
}

/// Place of an entry in a list that is sorted by time, and then by id. Holds when entries come and go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListCursor {
    pub(super) at_ms: i64,
    pub(super) id: String,
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at_ms, self.id)
    }
}

impl FromStr for ListCursor {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let (at_ms, id) = text.split_once('-').ok_or_else(bad_cursor)?;
        let at_ms = at_ms.parse().map_err(|_| bad_cursor())?;
        Ok(Self { at_ms, id: id.to_owned() })
    }
}

impl PageQuery {
    /// Maximum number of entries.
    pub(super) fn limit(&self) -> Result<usize, ApiError> {
        limit(self.limit, LIMIT, LIMIT_MAX)
    }

    /// Number of entries before the page, for lists whose order does not change.
    pub(super) fn offset(&self) -> Result<usize, ApiError> {
        offset(self.cursor.as_deref())
    }

    /// Sorts a list and takes the page. Returns the cursor of the next page too.
    pub(super) fn of_sorted<T>(
        &self,
        mut list: Vec<T>,
        order: Order,
        place: impl Fn(&T) -> ListCursor,
    ) -> Result<(Vec<T>, Option<String>), ApiError> {
        let limit = self.limit()?;
        let from = self.cursor.as_deref().map(ListCursor::from_str).transpose()?;
        list.sort_by_cached_key(&place);
        if order == Order::NewestFirst {
            list.reverse();
        }
        let is_after = |entry: &T| match (&from, order) {
            (None, _) => true,
            (Some(from), Order::OldestFirst) => place(entry) > *from,
            (Some(from), Order::NewestFirst) => place(entry) < *from,
        };
        let mut page: Vec<T> = list.into_iter().filter(is_after).take(limit + 1).collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(|last| place(last).to_string());
        Ok((page, next))
    }
}

/// Maximum number of entries of a page: as asked, or `default`, and `max` at most.
pub(super) fn limit(asked: Option<usize>, default: usize, max: usize) -> Result<usize, ApiError> {
    match asked {
        Some(0) => Err(Problem::usage(Code::BadArguments, "`limit` must be at least 1").into()),
        asked => Ok(asked.unwrap_or(default).min(max)),
    }
}

/// Number of entries before a page, from its cursor.
pub(super) fn offset(cursor: Option<&str>) -> Result<usize, ApiError> {
    cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(|_| bad_cursor()))
}

/// Cuts a list that begins at an offset to a page. Returns the cursor of the next page too.
pub(super) fn cut<T>(list: &mut Vec<T>, offset: usize, limit: usize) -> Option<String> {
    let more = list.len() > limit;
    list.truncate(limit);
    more.then(|| offset.saturating_add(limit).to_string())
}

fn bad_cursor() -> ApiError {
    Problem::usage(Code::BadArguments, "`cursor` is not one that was given out")
        .hint("pass `next` of the page before")
        .into()
}
