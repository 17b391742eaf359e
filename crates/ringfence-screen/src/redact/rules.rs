//! The rules as data: the beginning of a secret, the text that follows, and its look. From the most telling to the least;
//! if two overlap the first names the hit.
//!
//! A new provider is a row in `providers` and a row in `tests/redact.rs`.

use super::assignment::Kind;
use super::chars::{Class, begins_word};
use super::providers::PROVIDERS;
use super::random::{bits, has_digits, has_letter, has_small, is_mixed, is_uuid};

/// One rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretRule {
    /// Stable, `kebab-case`, shown in the text.
    pub(crate) name: &'static str,
    /// Beginnings of the secret.
    pub(crate) prefixes: &'static [&'static str],
    /// Condition on the text before.
    pub(crate) before: Before,
    /// The text that follows.
    pub(crate) tail: Tail,
    /// Minimum entropy of the tail, in bits per character. `xxxxxxxx` has 0, hexadecimal 4 at most.
    bits_min: f32,
    pub(crate) look: Look,
}

/// Further condition on a tail, for a prefix that words have too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Any,
    /// Contains a digit, or is mixed without one.
    Digit,
    /// Contains a digit, or letters of both cases that are no name.
    TwoKinds,
    /// Contains several digits and a letter.
    Digits,
    /// Classes of characters change as often as in a generated string: no name in camel or snake case.
    Mixed,
    /// No small letters.
    Upper,
    /// Groups of hexadecimal digits.
    Uuid,
}

/// The text that follows a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tail {
    /// At least so many of a class, and all that there are.
    Run { class: Class, n_min: usize },
    /// So many of a class and no more.
    Exactly { class: Class, n: usize },
    /// Parts with dots between, each of a length from, to.
    Parts { class: Class, parts: &'static [(usize, usize)] },
    /// A private key in armour.
    Block,
    /// The private lines of a `PuTTY` key.
    Lines,
    /// A value behind a telling name, which stays.
    Assignment(Kind),
    /// The credentials of an `Authorization` header, whose scheme stays.
    Authorization,
    /// The values of a `Cookie` or `Set-Cookie` header.
    Cookie,
    /// A token behind the scheme of a header, which stays.
    Scheme,
    /// The value of a parameter of an address.
    Query,
    /// `user:password@`, of which the user stays.
    Address,
    /// An entry of a `.netrc`.
    Login,
    /// The password among the arguments of a command.
    Command,
}

/// Condition on the text before a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before {
    /// No word character.
    Edge,
    /// So many characters of a class that belong to the secret, and then an edge.
    Chars(Class, usize),
    /// From so many to so many digits that belong to the secret, and then an edge.
    Digits(usize, usize),
}

impl Before {
    /// Start of the secret.
    pub(crate) fn start(self, text: &[u8], prefix: usize) -> Option<usize> {
        let n = match self {
            Self::Edge => 0,
            Self::Chars(class, n) => {
                let all = prefix >= n && text[prefix - n..prefix].iter().all(|b| class.has(*b));
                all.then_some(n)?
            }
            Self::Digits(min, max) => {
                let n = text[..prefix]
                    .iter()
                    .rev()
                    .take(max + 1)
                    .take_while(|b| b.is_ascii_digit())
                    .count();
                (min..=max).contains(&n).then_some(n)?
            }
        };
        begins_word(text, prefix - n).then_some(prefix - n)
    }
}

impl SecretRule {
    /// Returns true if the prefix is case-sensitive: prefixes of tokens are, names are not.
    pub(crate) fn is_exact(&self) -> bool {
        !matches!(
            self.tail,
            Tail::Assignment(_) | Tail::Scheme | Tail::Query | Tail::Authorization | Tail::Cookie
        )
    }

    /// Returns true if a tail of the right length and alphabet looks like the rule's secret.
    pub(crate) fn looks_right(&self, tail: &[u8]) -> bool {
        let look = match self.look {
            Look::Any => true,
            Look::Digit => has_digits(tail, 1) || is_mixed(tail),
            Look::TwoKinds => {
                has_digits(tail, 1)
                    || (is_mixed(tail)
                        && has_small(tail)
                        && tail.iter().any(u8::is_ascii_uppercase))
            }
            Look::Digits => has_digits(tail, 6) && has_letter(tail),
            Look::Mixed => is_mixed(tail),
            Look::Upper => !has_small(tail),
            Look::Uuid => is_uuid(tail),
        };
        look && (self.bits_min <= 0.0 || bits(tail) >= self.bits_min) && !is_sample(tail)
    }

    pub(crate) const fn after(mut self, before: Before) -> Self {
        self.before = before;
        self
    }

    pub(crate) const fn bits(mut self, bits_min: f32) -> Self {
        self.bits_min = bits_min;
        self
    }

    pub(crate) const fn many_digits(mut self) -> Self {
        self.look = Look::Digits;
        self
    }

    pub(crate) const fn digits(mut self) -> Self {
        self.look = Look::Digit;
        self
    }

    pub(crate) const fn two_kinds(mut self) -> Self {
        self.look = Look::TwoKinds;
        self
    }

    pub(crate) const fn mixed(mut self) -> Self {
        self.look = Look::Mixed;
        self
    }

    pub(crate) const fn upper(mut self) -> Self {
        self.look = Look::Upper;
        self
    }

    pub(crate) const fn uuid(mut self) -> Self {
        self.look = Look::Uuid;
        self
    }
}

/// Returns true for a token that says that it is a sample, as those of AWS's documentation do.
fn is_sample(tail: &[u8]) -> bool {
    memchr::memmem::find(&tail[..tail.len().min(64)], b"EXAMPLE").is_some()
}

/// Less than any key has, more than `xxxxxxxx` and `12341234`.
const SOME: f32 = 2.6;

/// No bound on the length of a part.
pub(crate) const ANY: usize = usize::MAX;

const fn rule(
    name: &'static str,
    prefixes: &'static [&'static str],
    tail: Tail,
    bits_min: f32,
) -> SecretRule {
    SecretRule { name, prefixes, before: Before::Edge, tail, bits_min, look: Look::Any }
}

pub(crate) const fn run(
    name: &'static str,
    prefixes: &'static [&'static str],
    class: Class,
    n_min: usize,
) -> SecretRule {
    rule(name, prefixes, Tail::Run { class, n_min }, SOME)
}

pub(crate) const fn exactly(
    name: &'static str,
    prefixes: &'static [&'static str],
    class: Class,
    n: usize,
) -> SecretRule {
    rule(name, prefixes, Tail::Exactly { class, n }, SOME)
}

pub(crate) const fn parts(
    name: &'static str,
    prefixes: &'static [&'static str],
    class: Class,
    parts: &'static [(usize, usize)],
) -> SecretRule {
    rule(name, prefixes, Tail::Parts { class, parts }, SOME)
}

const fn other(name: &'static str, prefixes: &'static [&'static str], tail: Tail) -> SecretRule {
    rule(name, prefixes, tail, 0.0)
}

/// Keys that tell what they are by more than a prefix: before the providers.
static BLOCKS: &[SecretRule] = &[
    other("private-key", &["-----BEGIN "], Tail::Block),
    // The same in base64: `-----BEGIN RSA PRIVATE`, `PRIVATE`, `EC PRIVATE`, `OPENSSH`, `ENCRYPTED`, `PGP PRIVATE`.
    run(
        "private-key",
        &[
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFUR",
            "LS0tLS1CRUdJTiBQUklWQVRF",
            "LS0tLS1CRUdJTiBFQyBQUklWQVRF",
            "LS0tLS1CRUdJTiBPUEVOU1NI",
            "LS0tLS1CRUdJTiBFTkNSWVBURUQg",
            "LS0tLS1CRUdJTiBQR1AgUFJJVkFUR",
        ],
        Class::Base64,
        40,
    ),
    other("putty-private-key", &["Private-Lines: "], Tail::Lines),
];

/// Secrets that are told by the text around them: behind the providers.
static FORMS: &[SecretRule] = &[
    other(
        "azure-key",
        &["AccountKey", "SharedAccessKey", "SharedSecretValue", "AzureWebJobsStorageKey"],
        Tail::Assignment(Kind::Base64Key),
    ),
    other("url-password", &["://"], Tail::Address),
    other("netrc-password", &["machine "], Tail::Login),
    other("command-password", super::command_line::NAMES, Tail::Command),
    other("bearer-token", &["Bearer "], Tail::Scheme),
    other("authorization", &["authorization"], Tail::Authorization),
    other("authorization", &["Basic "], Tail::Scheme),
    other("cookie", &["cookie:", "cookie\":"], Tail::Cookie),
    other(
        "url-token",
        &[
            "?sig=",
            "&sig=",
            "?key=",
            "&key=",
            "?code=",
            "&code=",
            "?auth=",
            "&auth=",
            "?sign=",
            "&sign=",
            "X-Amz-Signature=",
            "X-Goog-Signature=",
            "&Signature=",
            "?Signature=",
        ],
        Tail::Query,
    ),
    other(
        "password",
        &["password", "passwd", "passphrase", "passwort", "pwd", "_pass", "pass"],
        Tail::Assignment(Kind::Password),
    ),
    other(
        "token",
        &[
            "token",
            "secret",
            "apikey",
            "api_key",
            "api-key",
            "api key",
            "access_key",
            "accesskey",
            "access-key",
            "access key",
            "auth_key",
            "authkey",
            "private_key",
            "privatekey",
            "private-key",
            "private key",
            "secret key",
            "encryption_key",
            "signing_key",
            "credential",
            "creds",
            "_auth",
            "\"auth",
            "_key_base",
            "sessionid",
            "session_key",
            "sessid",
            "connect.sid",
            "_session",
            "bearer",
        ],
        Tail::Assignment(Kind::Token),
    ),
    other("token", &["key"], Tail::Assignment(Kind::Key)),
];

/// Every rule, in the order of precedence.
pub(crate) fn all() -> impl Iterator<Item = &'static SecretRule> {
    BLOCKS.iter().chain(PROVIDERS).chain(FORMS)
}
