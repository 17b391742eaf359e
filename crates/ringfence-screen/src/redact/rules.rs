//! The rules as data: the beginning of a secret, the text that follows, and its minimum entropy. From the most telling
//! to the least; if two overlap the first names the hit.
//!
//! A new provider is a row here and a row in `tests/redact.rs`.

use super::assignment::Kind;
use super::chars::{Class, begins_word};

/// One rule.
#[derive(Debug)]
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
    pub(crate) bits_min: f32,
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
    /// A token behind the scheme of a header, which stays.
    Scheme,
    /// The value of a parameter of an address.
    Query,
    /// `user:password@`, of which the user stays.
    Address,
    /// An entry of a `.netrc`.
    Login,
}

/// Condition on the text before a prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before {
    /// No word character.
    Edge,
    /// So many characters of a token that belong to the secret, and then an edge.
    Chars(usize),
    /// From so many to so many digits that belong to the secret, and then an edge.
    Digits(usize, usize),
}

impl Before {
    /// Start of the secret.
    pub(crate) fn start(self, text: &[u8], prefix: usize) -> Option<usize> {
        let n = match self {
            Self::Edge => 0,
            Self::Chars(n) => {
                let all =
                    prefix >= n && text[prefix - n..prefix].iter().all(|b| Class::Token.has(*b));
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
        !matches!(self.tail, Tail::Assignment(_) | Tail::Scheme | Tail::Query)
    }
}

/// Less than any key has, more than `xxxxxxxx` and `12341234`.
const SOME: f32 = 2.6;

const fn run(
    name: &'static str,
    prefixes: &'static [&'static str],
    class: Class,
    n_min: usize,
) -> SecretRule {
    SecretRule {
        name,
        prefixes,
        before: Before::Edge,
        tail: Tail::Run { class, n_min },
        bits_min: SOME,
    }
}

const fn exactly(
    name: &'static str,
    prefixes: &'static [&'static str],
    class: Class,
    n: usize,
) -> SecretRule {
    SecretRule {
        name,
        prefixes,
        before: Before::Edge,
        tail: Tail::Exactly { class, n },
        bits_min: SOME,
    }
}

const fn other(name: &'static str, prefixes: &'static [&'static str], tail: Tail) -> SecretRule {
    SecretRule { name, prefixes, before: Before::Edge, tail, bits_min: 0.0 }
}

/// No bound on the length of a part.
const ANY: usize = usize::MAX;

/// Every rule.
pub(crate) static RULES: &[SecretRule] = &[
    other("private-key", &["-----BEGIN "], Tail::Block),
    other("putty-private-key", &["Private-Lines: "], Tail::Lines),
    exactly("age-secret-key", &["AGE-SECRET-KEY-1"], Class::Upper, 58),
    exactly("aws-access-key", &["AKIA", "ASIA", "ABIA", "ACCA"], Class::Upper, 16),
    run("gcp-api-key", &["AIza"], Class::Token, 35),
    run("gcp-oauth", &["ya29.", "GOCSPX-"], Class::Token, 24),
    other(
        "azure-key",
        &["AccountKey", "SharedAccessKey", "AzureWebJobsStorageKey"],
        Tail::Assignment(Kind::Base64Key),
    ),
    SecretRule {
        name: "azure-client-secret",
        prefixes: &["7Q~", "8Q~"],
        before: Before::Chars(3),
        tail: Tail::Run { class: Class::Token, n_min: 31 },
        bits_min: SOME,
    },
    run("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], Class::Alnum, 36),
    run("github-token", &["github_pat_"], Class::Word, 60),
    run(
        "gitlab-token",
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glsoat-",
            "glagent-",
            "glimt-",
            "GR1348941",
        ],
        Class::Token,
        20,
    ),
    run(
        "slack-token",
        &[
            "xoxb-",
            "xoxp-",
            "xoxa-",
            "xoxr-",
            "xoxs-",
            "xoxo-",
            "xoxe-",
            "xoxe.xoxp-",
            "xoxe.xoxb-",
            "xapp-",
        ],
        Class::Token,
        20,
    ),
    run(
        "slack-webhook",
        &["hooks.slack.com/services/", "hooks.slack.com/workflows/"],
        Class::Path,
        30,
    ),
    run(
        "stripe-key",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"],
        Class::Alnum,
        20,
    ),
    run("anthropic-key", &["sk-ant-"], Class::Token, 24),
    run("openrouter-key", &["sk-or-v1-"], Class::Alnum, 32),
    run("openai-key", &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], Class::Token, 24),
    run("openai-key", &["sk-"], Class::Alnum, 32),
    exactly("npm-token", &["npm_"], Class::Alnum, 36),
    run("pypi-token", &["pypi-AgE"], Class::Token, 40),
    run("huggingface-token", &["hf_", "api_org_"], Class::Alnum, 30),
    exactly("twilio-key", &["SK"], Class::Hex, 32),
    SecretRule {
        name: "sendgrid-key",
        prefixes: &["SG."],
        before: Before::Edge,
        tail: Tail::Parts { class: Class::Token, parts: &[(16, 32), (32, 64)] },
        bits_min: SOME,
    },
    SecretRule {
        name: "telegram-token",
        prefixes: &[":AA"],
        before: Before::Digits(8, 10),
        tail: Tail::Exactly { class: Class::Token, n: 33 },
        bits_min: SOME,
    },
    SecretRule {
        name: "discord-token",
        // Base64 of the digits that a bot's id begins with.
        prefixes: &["MT", "MD", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        before: Before::Edge,
        tail: Tail::Parts { class: Class::Token, parts: &[(21, 26), (6, 7), (27, 40)] },
        bits_min: SOME,
    },
    run(
        "discord-webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        Class::Path,
        60,
    ),
    SecretRule {
        name: "jwt",
        // `{"` in base64url: header, claims, signature.
        prefixes: &["eyJ"],
        before: Before::Edge,
        tail: Tail::Parts { class: Class::Token, parts: &[(12, ANY), (8, ANY), (0, ANY)] },
        bits_min: SOME,
    },
    SecretRule {
        name: "jwt",
        // Encrypted: five parts, the second empty where the key is used directly.
        prefixes: &["eyJ"],
        before: Before::Edge,
        tail: Tail::Parts {
            class: Class::Token,
            parts: &[(12, ANY), (0, ANY), (8, ANY), (8, ANY), (8, ANY)],
        },
        bits_min: SOME,
    },
    run("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], Class::Hex, 64),
    run("shopify-token", &["shpat_", "shpss_", "shpca_", "shppa_"], Class::Alnum, 32),
    run("square-token", &["sq0atp-", "sq0csp-", "sq0idp-"], Class::Token, 22),
    exactly("mailgun-key", &["key-"], Class::Hex, 32),
    run("databricks-token", &["dapi"], Class::Hex, 32),
    run("linear-key", &["lin_api_"], Class::Alnum, 32),
    run("notion-token", &["ntn_"], Class::Alnum, 40),
    exactly("notion-token", &["secret_"], Class::Alnum, 43),
    run("grafana-token", &["glsa_", "glc_"], Class::Word, 32),
    run("vault-token", &["hvs.", "hvb.", "hvr."], Class::Token, 24),
    run("doppler-token", &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."], Class::Alnum, 36),
    run("postman-key", &["PMAK-"], Class::Token, 40),
    run("newrelic-key", &["NRAK-", "NRII-"], Class::Alnum, 24),
    run("sentry-token", &["sntrys_", "sntryu_"], Class::Header, 40),
    run("supabase-token", &["sbp_", "sb_secret_"], Class::Word, 30),
    run("groq-key", &["gsk_"], Class::Alnum, 40),
    run("replicate-token", &["r8_"], Class::Alnum, 36),
    run("xai-key", &["xai-"], Class::Alnum, 60),
    run("perplexity-key", &["pplx-"], Class::Alnum, 40),
    run("figma-token", &["figd_"], Class::Token, 36),
    run("planetscale-token", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], Class::Header, 32),
    run("rubygems-key", &["rubygems_"], Class::Hex, 48),
    run("docker-token", &["dckr_pat_", "dckr_oat_"], Class::Token, 24),
    run("atlassian-token", &["ATATT3", "ATCTT3"], Class::Header, 60),
    run("tailscale-key", &["tskey-"], Class::Token, 20),
    run("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], Class::Word, 32),
    exactly("crates-io-token", &["cio"], Class::Alnum, 32),
    other("url-password", &["://"], Tail::Address),
    other("netrc-password", &["machine "], Tail::Login),
    other("bearer-token", &["Bearer "], Tail::Scheme),
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
        &["password", "passwd", "passphrase", "pwd", "_pass"],
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
            "access_key",
            "accesskey",
            "access-key",
            "auth_key",
            "authkey",
            "private_key",
            "privatekey",
            "encryption_key",
            "signing_key",
            "credential",
            "authorization",
            "_auth",
            "\"auth",
            "_key_base",
            "sessionid",
            "session_key",
        ],
        Tail::Assignment(Kind::Token),
    ),
];
