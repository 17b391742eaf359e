//! The tokenizer of a static model: words and punctuation, cut into the longest pieces that the vocabulary has. Reads
//! `tokenizer.json` with a `WordPiece` or `WordLevel` model.

use std::collections::HashMap;

use serde_json::Value;

/// Greatest vocabulary.
const PIECES_MAX: usize = 2_000_000;

/// Longest word in characters; a longer one is unknown.
const WORD_CHARS_MAX: usize = 100;

/// A vocabulary of pieces.
#[derive(Debug)]
pub(super) struct WordPieces {
    pieces: HashMap<String, usize>,
    /// Start of a piece inside a word; none where words are not cut.
    inside: Option<String>,
    is_lower: bool,
}

impl WordPieces {
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let model = &file["model"];
        let kind = model["type"].as_str().unwrap_or("WordPiece");
        let inside = match kind {
            "WordPiece" => {
                Some(model["continuing_subword_prefix"].as_str().unwrap_or("##").to_owned())
            }
            "WordLevel" => None,
            _ => {
                return Err(format!(
                    "tokenizers of type `{kind}` are not supported; use WordPiece or WordLevel"
                ));
            }
        };
        let list = model["vocab"].as_object().ok_or("no vocabulary")?;
        if list.len() > PIECES_MAX {
            return Err(format!("{} pieces, of {PIECES_MAX} at most", list.len()));
        }
        let unknown = model["unk_token"].as_str().unwrap_or_default();
        let mut pieces = HashMap::with_capacity(list.len());
        for (piece, id) in list {
            let id = id
                .as_u64()
                .and_then(|id| usize::try_from(id).ok())
                .ok_or("a piece without a number")?;
            if piece != unknown {
                pieces.insert(piece.clone(), id);
            }
        }
        let is_lower = says_lower(&file["normalizer"]);
        Ok(Self { pieces, inside, is_lower })
    }

    /// The numbers of the pieces of `text`; words that the vocabulary lacks are left out.
    pub(super) fn tokens(&self, text: &str, n_max: usize) -> Vec<usize> {
        let mut tokens = Vec::new();
        for word in words(text) {
            if tokens.len() >= n_max {
                break;
            }
            let lower;
            let word = if self.is_lower {
                lower = word.to_lowercase();
                lower.as_str()
            } else {
                word
            };
            self.word(word, &mut tokens);
        }
        tokens.truncate(n_max);
        tokens
    }

    fn word(&self, word: &str, tokens: &mut Vec<usize>) {
        let Some(inside) = &self.inside else {
            tokens.extend(self.pieces.get(word));
            return;
        };
        if word.chars().count() > WORD_CHARS_MAX {
            return;
        }
        let n_before = tokens.len();
        let mut rest = word;
        let mut key = String::new();
        while !rest.is_empty() {
            let start = if rest.len() == word.len() { "" } else { inside };
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
            let found = ends.into_iter().rev().find_map(|end| {
                key.clear();
                key.push_str(start);
                key.push_str(&rest[..end]);
                self.pieces.get(&key).map(|id| (*id, end))
            });
            let Some((id, end)) = found else {
                // As the original does: one part that is unknown makes the word unknown.
                tokens.truncate(n_before);
                return;
            };
            tokens.push(id);
            rest = &rest[end..];
        }
    }
}

fn says_lower(normalizer: &Value) -> bool {
    let one = |value: &Value| {
        value["lowercase"].as_bool().unwrap_or(false) || value["type"] == "Lowercase"
    };
    one(normalizer) || normalizer["normalizers"].as_array().is_some_and(|list| list.iter().any(one))
}

/// Words and single characters of punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_control());
        let first = rest.chars().next()?;
        let end = if first.is_alphanumeric() {
            rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}
