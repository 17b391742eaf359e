//! Secrets in text: every rule finds its own, in every wrapping, and ordinary text is left alone.
//!
//! The secrets are made here from a counter, so that no scanner of repositories takes this file for a leak.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_screen::redact::{GROWTH_MAX, Redactor, StreamRedactor, rule_names};

const ALNUM: &[u8] = b"aK3bL9cM2dN8eP1fQ7gR4hS6iT5jUvWxYzABCDEFGHIJklmnopqrstuVwXyZ0";
const HEX: &[u8] = b"3f9a1c7e0b5d8246";
const UPPER: &[u8] = b"J5KQ7ZR2XW3NB4VT6MCLPDGHFSYA";

/// So many characters that look drawn at random, the same each time.
fn drawn(alphabet: &[u8], n: usize) -> String {
    let mut state = 0x9e37_79b9_u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(alphabet[(state >> 16) as usize % alphabet.len()])
        })
        .collect()
}

fn alnum(n: usize) -> String {
    drawn(ALNUM, n)
}

/// A rule, what stays in front, the secret, what stays behind.
fn secrets() -> Vec<(&'static str, String, String, &'static str)> {
    let plain = |rule, secret: String| (rule, String::new(), secret, "");
    let kept = |rule, before: &str, secret: String, after| (rule, before.to_owned(), secret, after);
    let mut rows = Vec::new();
    for prefix in ["AKIA", "ASIA", "ABIA", "ACCA"] {
        rows.push(plain("aws-access-key", format!("{prefix}{}", drawn(UPPER, 16))));
    }
    for prefix in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"] {
        rows.push(plain("github-token", prefix.to_owned() + &alnum(36)));
    }
    rows.push(plain("github-token", format!("github_pat_{}_{}", alnum(22), alnum(59))));
    for prefix in ["glpat-", "gldt-", "glrt-", "glcbt-", "glft-", "glsoat-"] {
        rows.push(plain("gitlab-token", prefix.to_owned() + &alnum(20)));
    }
    rows.push(plain("slack-token", format!("xoxb-{}-{}", drawn(b"1234567890", 12), alnum(24))));
    rows.push(plain("slack-token", format!("xapp-1-A0{}-{}", drawn(UPPER, 8), drawn(HEX, 64))));
    rows.push(kept(
        "slack-webhook",
        "https://",
        format!("hooks.slack.com/services/T{}/B{}/{}", drawn(UPPER, 8), drawn(UPPER, 8), alnum(24)),
        "",
    ));
    for prefix in ["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"] {
        rows.push(plain("stripe-key", prefix.to_owned() + &alnum(24)));
    }
    rows.push(plain("anthropic-key", format!("sk-ant-api03-{}-{}AA", alnum(40), alnum(50))));
    rows.push(plain("openrouter-key", format!("sk-or-v1-{}", drawn(HEX, 64))));
    rows.push(plain("openai-key", format!("sk-{}", alnum(48))));
    rows.push(plain("openai-key", format!("sk-proj-{}_{}-{}", alnum(40), alnum(20), alnum(30))));
    rows.push(plain("gcp-api-key", format!("AIza{}", alnum(35))));
    rows.push(plain("gcp-oauth", format!("ya29.{}", alnum(60))));
    rows.push(plain("gcp-oauth", format!("GOCSPX-{}", alnum(28))));
    rows.push(kept("azure-key", "AccountKey=", format!("{}==", alnum(86)), ";EndpointSuffix=x"));
    rows.push(kept("azure-key", "SharedAccessKey=", format!("{}=", alnum(43)), ""));
    rows.push(plain("azure-client-secret", format!("a1B8Q~{}", alnum(34))));
    rows.push(plain("npm-token", format!("npm_{}", alnum(36))));
    rows.push(plain("pypi-token", format!("pypi-AgEIcHlwaS5vcmc{}", alnum(60))));
    rows.push(plain("huggingface-token", format!("hf_{}", alnum(34))));
    rows.push(plain("twilio-key", format!("SK{}", drawn(HEX, 32))));
    rows.push(plain("sendgrid-key", format!("SG.{}.{}", alnum(22), alnum(43))));
    rows.push(plain("telegram-token", format!("123456789:AA{}", alnum(33))));
    rows.push(plain("discord-token", format!("MT{}.{}.{}", alnum(24), alnum(6), alnum(38))));
    rows.push(kept(
        "discord-webhook",
        "https://",
        format!("discord.com/api/webhooks/{}/{}", drawn(b"123456789", 18), alnum(68)),
        "",
    ));
    rows.push(plain("jwt", format!("eyJ{}.eyJ{}.{}", alnum(20), alnum(40), alnum(43))));
    rows.push(plain("jwt", format!("eyJ{}..{}.{}.{}", alnum(20), alnum(16), alnum(40), alnum(22))));
    rows.push(plain("digitalocean-token", format!("dop_v1_{}", drawn(HEX, 64))));
    rows.push(plain("shopify-token", format!("shpat_{}", drawn(HEX, 32))));
    rows.push(plain("square-token", format!("sq0atp-{}", alnum(22))));
    rows.push(plain("mailgun-key", format!("key-{}", drawn(HEX, 32))));
    rows.push(plain("databricks-token", format!("dapi{}", drawn(HEX, 32))));
    rows.push(plain("linear-key", format!("lin_api_{}", alnum(40))));
    rows.push(plain("notion-token", format!("ntn_{}", alnum(46))));
    rows.push(plain("notion-token", format!("secret_{}", alnum(43))));
    rows.push(plain("grafana-token", format!("glsa_{}_{}", alnum(32), drawn(HEX, 8))));
    rows.push(plain("vault-token", format!("hvs.{}", alnum(90))));
    rows.push(plain("doppler-token", format!("dp.pt.{}", alnum(43))));
    rows.push(plain("postman-key", format!("PMAK-{}-{}", drawn(HEX, 24), drawn(HEX, 34))));
    rows.push(plain("newrelic-key", format!("NRAK-{}", drawn(UPPER, 27))));
    rows.push(plain("sentry-token", format!("sntrys_eyJ{}=_{}", alnum(80), alnum(43))));
    rows.push(plain("supabase-token", format!("sbp_{}", drawn(HEX, 40))));
    rows.push(plain("groq-key", format!("gsk_{}", alnum(52))));
    rows.push(plain("replicate-token", format!("r8_{}", alnum(37))));
    rows.push(plain("xai-key", format!("xai-{}", alnum(80))));
    rows.push(plain("perplexity-key", format!("pplx-{}", alnum(48))));
    rows.push(plain("figma-token", format!("figd_{}", alnum(40))));
    rows.push(plain("planetscale-token", format!("pscale_tkn_{}", alnum(43))));
    rows.push(plain("rubygems-key", format!("rubygems_{}", drawn(HEX, 48))));
    rows.push(plain("docker-token", format!("dckr_pat_{}", alnum(27))));
    rows.push(plain("atlassian-token", format!("ATATT3{}=ABCDEF12", alnum(180))));
    rows.push(plain("tailscale-key", format!("tskey-auth-{}-{}", alnum(12), alnum(32))));
    rows.push(plain("langsmith-key", format!("lsv2_pt_{}_{}", drawn(HEX, 32), drawn(HEX, 10))));
    rows.push(plain("crates-io-token", format!("cio{}", alnum(32))));
    rows.push(plain("age-secret-key", format!("AGE-SECRET-KEY-1{}", drawn(UPPER, 58))));
    rows.push(plain("flyio-token", format!("FlyV1 {},{}", alnum(9), alnum(60))));
    rows.push(plain("cfxre-key", format!("cfxk_{}", alnum(24))));
    rows.push(kept(
        "token",
        "'secret_key' => '",
        format!("sk_{}#{}&@*{}$", alnum(9), alnum(8), alnum(6)),
        "',",
    ));
    rows.push(kept("url-password", "postgres://app:", "s3cr3t".into(), "@db.internal:5432/prod"));
    rows.push(kept("url-password", "redis://:", alnum(12), "@cache:6379/0"));
    rows.push(kept("url-password", "mongodb+srv://u:", "p@ssw0rd".into(), "@c0.mongodb.net/x?y=z"));
    rows.push(kept("url-password", "https://", alnum(40), "@github.com/o/r.git"));
    rows.push(kept("netrc-password", "machine api.x.org login me password ", "hunter2".into(), ""));
    rows.push(kept("bearer-token", "Authorization: Bearer ", alnum(32), ""));
    rows.push(kept(
        "url-token",
        "https://x.blob/c?sv=2024&sig=",
        format!("{}%3D", alnum(43)),
        "&se=1",
    ));
    rows.push(kept("url-token", "https://s3/k?X-Amz-Signature=", drawn(HEX, 64), ""));
    rows.push(kept("token", "https://x.org/cb?access_token=", alnum(32), "&state=1"));
    rows.push(kept("password", "DB_PASSWORD=", "xK9#mP2q!v".into(), ""));
    rows.push(kept("password", "password: ", alnum(16), ""));
    rows.push(kept("command-password", "mysql --password=", "Tr0ub4dor&3"[..9].into(), ""));
    rows.push(kept("password", "tool --db-password ", "Tr0ub4dor3".into(), " --verbose"));
    rows.push(kept("password", "password: str = \"", "p@ssW0rd2024!".into(), "\""));
    rows.push(kept("password", "<password>", "p@ssW0rd2024!".into(), "</password>"));
    rows.push(kept("password", "Server=db;User Id=sa;Pwd=", "Zx81!kLm".into(), ";Encrypt=yes"));
    rows.push(kept("token", "AWS_SECRET_ACCESS_KEY=", format!("{}/{}", alnum(20), alnum(19)), ""));
    rows.push(kept("token", "\"api_key\": \"", drawn(HEX, 32), "\""));
    rows.push(kept("token", "X-Api-Key: ", alnum(24), ""));
    rows.push(kept("token", "\\\"client_secret\\\":\\\"", alnum(32), "\\\""));
    rows.push(kept("token", "os.environ[\"SESSION_TOKEN\"] = '", alnum(32), "'"));
    rows.push(kept("token", "//registry.npmjs.org/:_authToken=", alnum(36), ""));
    rows.push(kept("token", "{\"auths\":{\"r.io\":{\"auth\":\"", alnum(28), "\"}}}"));
    rows.push(kept("authorization", "Authorization: Basic ", format!("{}==", alnum(22)), ""));
    rows.push(kept("token", "SECRET_KEY_BASE=", drawn(HEX, 64), ""));
    for (before, after) in [
        ("curl -u admin:", " https://api.x.org"),
        ("curl -s --user 'admin:", "' https://api.x.org"),
        ("curl -uadmin:", " https://api.x.org"),
        ("mysql -uroot -p", " shop"),
        ("mysqldump --all-databases -p'", "'"),
        ("sshpass -p ", " ssh me@host"),
        ("docker login -u me -p ", " registry.x.org"),
        ("podman login --password=", " quay.io"),
        ("redis-cli -h cache -a ", " ping"),
        ("openssl pkcs12 -in a.p12 -passin pass:", " -nodes"),
        ("smbclient //host/share -U me%", ""),
        ("ldapsearch -x -w ", " -b dc=x"),
        ("curl \\\n  -u me:", " \\\n  https://x.org"),
    ] {
        rows.push(kept("command-password", before, "hunter2-Zx".into(), after));
    }
    rows.push(kept("authorization", "Authorization: token ", drawn(HEX, 40), ""));
    rows.push(kept("authorization", "-H 'Authorization: ApiKey ", alnum(20), "' x"));
    rows.push(kept(
        "authorization",
        "Authorization: AWS4-HMAC-SHA256 ",
        format!("Credential=me/20260101/eu/s3, SignedHeaders=host, Signature={}", drawn(HEX, 64)),
        "",
    ));
    rows.push(kept(
        "authorization",
        "Proxy-Authorization: Digest ",
        format!("username=\"me\", realm=\"r1\", response=\"{}\"", drawn(HEX, 32)),
        "",
    ));
    rows.push(kept("cookie", "Cookie: theme=dark; sid=", alnum(32), "; lang=en"));
    rows.push(kept("cookie", "Set-Cookie: id=", alnum(24), "; Path=/; HttpOnly"));
    rows.push(kept("token", "JSESSIONID=", drawn(UPPER, 32), ""));
    rows.push(kept("password", "PGPASSWORD=", "hunter".into(), " psql"));
    rows.push(kept("password", "<add key=\"Password\" value=\"", "p@ssW0rd2024!".into(), "\" />"));
    rows.push(kept("password", "password => \"", "super$ecret".into(), "\""));
    rows.push(kept("token", "setProperty(\"API_TOKEN\", \"", alnum(24), "\")"));
    rows.push(kept("token", "var apiToken string = \"", alnum(24), "\""));
    rows.push(kept("token", "API_TOKEN ?= ", alnum(24), ""));
    rows.push(kept("token", "<apiToken>\n    ", alnum(24), "\n</apiToken>"));
    rows.push(kept("token", "<secret>{", format!("AQAAABAAA{}=", alnum(43)), "}</secret>"));
    rows.push(kept("token", "- name: API_TOKEN\n  value: ", alnum(24), ""));
    rows.push(kept("token", "client_secret: |\n  ", alnum(24), ""));
    rows.push(kept("token", "the token ", alnum(32), " is old"));
    rows.push(kept("token", "if (\"", alnum(24), "\" == token) {"));
    rows.push(kept("token", "STORAGE_KEY=", alnum(32), ""));
    rows.push(kept("token", "snyk_token: ", "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5".into(), ""));
    rows
}

fn armour(label: &str, newline: &str) -> (String, String) {
    let lines: Vec<String> = (0..12).map(|_| alnum(64)).collect();
    let body = format!("{}{newline}{}==", lines.join(newline), alnum(20));
    (format!("-----BEGIN {label}-----{newline}{body}"), format!("{newline}-----END {label}-----"))
}

fn only(text: &str) -> (String, Vec<(&'static str, usize)>) {
    let clean = Redactor::new().redact(text);
    (clean.text.into_owned(), clean.hits.iter().map(|hit| (hit.rule, hit.count)).collect())
}

#[test]
fn every_rule_finds_its_secret_and_keeps_what_is_around() {
    for (rule, before, secret, after) in secrets() {
        let (text, hits) = only(&format!("{before}{secret}{after}"));
        assert_eq!(text, format!("{before}[redacted:{rule}]{after}"), "{secret}");
        assert_eq!(hits, [(rule, 1)], "{secret}");
    }
}

#[test]
fn secrets_are_found_in_code_json_env_files_logs_and_many_lines() {
    for (rule, before, secret, after) in secrets() {
        for (left, right) in [
            ("", ""),
            ("x = f(\"", "\")\n"),
            ("{\"v\": \"", "\", \"n\": 1}"),
            ("{\"v\":\"a\\n", "\\nb\"}"),
            ("export V=", "\nexport W=2\n"),
            ("2026-01-01T00:00:00Z INFO got ", " from 10.0.0.1\n"),
            ("first\nsecond ", "\nthird\n"),
            ("\u{1b}[31m", "\u{1b}[0m"),
            ("- `", "`\n"),
            ("grüße ", " grüße"),
        ] {
            // A quote inside ends the other's string, and an entry of a netrc stands alone.
            if before.contains('"') && left.contains('"') || rule == "netrc-password" {
                continue;
            }
            let (text, _) = only(&format!("{left}{before}{secret}{after}{right}"));
            assert!(!text.contains(&secret), "{rule}: {text}");
            assert!(text.contains("[redacted:"), "{rule}: {text}");
            assert!(text.starts_with(left) && text.ends_with(right), "{rule}: {text}");
        }
    }
}

/// Rules that judge by the text around; tokens of providers are drawn by the crate's own tests.
const FORMS: &[&str] = &[
    "azure-key",
    "url-password",
    "netrc-password",
    "command-password",
    "bearer-token",
    "authorization",
    "cookie",
    "url-token",
    "password",
    "token",
];

#[test]
fn every_form_has_a_vector_and_every_vector_a_rule() {
    let rules: Vec<_> = secrets().iter().map(|row| row.0).collect();
    for name in FORMS {
        assert!(rules.contains(name), "no vector for {name}");
    }
    let names: Vec<_> = rule_names().collect();
    for name in rules {
        assert!(names.contains(&name), "no rule {name}");
    }
}

#[test]
fn private_keys_go_whole_and_when_they_are_cut_off() {
    for label in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        for newline in ["\n", "\r\n", "\\n", " ", "\\\\n"] {
            let (head, tail) = armour(label, newline);
            let (text, hits) = only(&format!("a {head}{tail} z"));
            assert_eq!(text, "a [redacted:private-key] z", "{label} {newline:?}");
            assert_eq!(hits, [("private-key", 1)]);
            if newline == "\\\\n" {
                continue;
            }
            // Cut anywhere behind the first line.
            for cut in (120..head.len()).step_by(37) {
                let (text, _) = only(&format!("a {}", &head[..cut]));
                assert_eq!(
                    text.trim_end_matches(['\\', 'n', '\r', '\n', ' ']),
                    "a [redacted:private-key]",
                    "{label} {newline:?} {cut}"
                );
            }
        }
    }
    let (head, tail) = armour("RSA PRIVATE KEY", "\n");
    let old =
        head.replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,5B01E9AB\n\n", 1);
    assert_eq!(only(&format!("{old}{tail}")).0, "[redacted:private-key]");
    assert_eq!(only(&old).0, "[redacted:private-key]");
    let two = format!("{head}{tail}\n{head}{tail}\n");
    assert_eq!(only(&two).0, "[redacted:private-key]\n[redacted:private-key]\n");
    let putty = format!("Private-Lines: 3\n{0}\n{0}\n{1}\nPrivate-MAC: 00\n", alnum(64), alnum(20));
    assert_eq!(only(&putty).0, "Private-Lines: 3\n[redacted:putty-private-key]\nPrivate-MAC: 00\n");
}

#[test]
fn public_keys_and_mentions_stay() {
    let (head, tail) = armour("PUBLIC KEY", "\n");
    let public = format!("{head}{tail}");
    assert_eq!(only(&public).0, public);
    for text in [
        "a key begins with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----",
        "grep -r '-----BEGIN PRIVATE KEY-----' .",
        "-----BEGIN CERTIFICATE-----",
        "if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    keys.append(line)\n",
    ] {
        assert_eq!(only(text).0, text);
    }
}

#[test]
fn netrc_over_several_lines() {
    let text = "machine api.heroku.com\n  login me@x.org\n  password s3cret-pass\nmachine b login c password d\n";
    let expected = "machine api.heroku.com\n  login me@x.org\n  password [redacted:netrc-password]\n\
                    machine b login c password [redacted:netrc-password]\n";
    assert_eq!(only(text).0, expected);
}

#[test]
fn bytes_that_are_no_text_keep_their_place() {
    let mut bytes = b"\xff\xfe\0 ".to_vec();
    bytes.extend_from_slice(format!("ghp_{}", alnum(36)).as_bytes());
    bytes.extend_from_slice(b" \x80\x81");
    let clean = Redactor::new().redact_bytes(&bytes);
    assert_eq!(&*clean.text, b"\xff\xfe\0 [redacted:github-token] \x80\x81");
}

/// Lines that look like secrets to a careless eye.
const HARMLESS: &[&str] = &[
    "token = next(tokens)",
    "let token = self.tokens[index2];",
    "password: String,",
    "def login(user: str, password: str = None) -> Token:",
    "if token == TokenKind::Dot2 { return }",
    "api_key = os.environ[\"API_KEY\"]",
    "apiKey: process.env.OPENAI_API_KEY",
    "password = getpass.getpass()",
    "PASSWORD=$(cat /run/secrets/db)",
    "postgres://user:${DB_PASSWORD}@localhost/db",
    "https://user:<password>@host/",
    "http://localhost:8080/@scope/package",
    "see https://example.org:443/a@b and mail me@example.org",
    "git@github.com:owner/repo.git",
    "ssh://git@github.com/owner/repo.git",
    "sk-learn, sk-ranger, task-force, risk-assessment-of-2024",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "AKIA0000000000000000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commit 4b0d60f1c9e2b3a4d5e6f708192a3b4c5d6e7f80",
    "\"integrity\": \"sha512-oT9m0Zk9Tq1x2Vb3Nc4Md5Lf6Kg7Jh8Ii9Hj0Gk1Fl2Em3Dn4Co5Bp6Aq7Zr8Ys9Xt0Wu==\"",
    "550e8400-e29b-41d4-a716-446655440000",
    "token_type=bearer expires_in=3600 token_count=123456789012",
    "password_hash = \"$argon2id$v=19$m=65536,t=3,p=4\"",
    "token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "The bearer authentication-mechanism is described in RFC6750-section-2.1",
    "secret santa: everybody draws a name",
    "machine learning models login to nothing",
    "max_tokens: 4096, temperature: 0.7",
    "tokenizer = AutoTokenizer.from_pretrained(\"bert-base-uncased\")",
    "#[derive(Token)] struct Secret<'a>(&'a str);",
    "key-value pairs, key-by-key",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==",
    "!function(e,t){\"object\"==typeof exports?module.exports=t():e.a=t()}(this,function(){var n=0x1f;return n>>>3})",
    "secret_key: 'k3y-Of-2024@vault.example.org:8200'",
    "secretName: my-app-secret-v2",
    "valueFrom: {secretKeyRef: {name: db-credentials, key: password}}",
    "passwd: password updated successfully",
    "pwd: /home/user/project-2024/src",
    "OLDPWD=/home/User1/a2/B3/c4/D5",
];

#[test]
fn look_alikes_stay() {
    for line in HARMLESS {
        assert_eq!(only(line).0, *line);
    }
}

/// Files with secrets on purpose, and how many.
const DOCUMENTED: &[(&str, usize)] = &[
    // A planted address with a password, for an attack to look for.
    ("escapes/victims.rs", 1),
];

#[test]
fn ordinary_code_and_prose_stay() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pending: Vec<PathBuf> =
        ["corpus", "docs", "escapes", "crates", "ARCHITECTURE.md", "README.md", "Cargo.lock"]
            .map(|name| root.join(name))
            .to_vec();
    let (mut n_files, mut n_bytes, mut wrong) = (0, 0, Vec::new());
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        // The vectors themselves.
        if path.ends_with("tests/redact.rs") || path.components().any(|c| c.as_os_str() == "redact")
        {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        (n_files, n_bytes) = (n_files + 1, n_bytes + bytes.len());
        let clean = Redactor::new().redact_bytes(&bytes);
        let n: usize = clean.hits.iter().map(|hit| hit.count).sum();
        let documented = DOCUMENTED.iter().find(|(name, _)| path.ends_with(name));
        if n != documented.map_or(0, |(_, n)| *n) {
            wrong.push((path.display().to_string(), clean.hits));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(n_files > 300 && n_bytes > 1 << 20, "{n_files} files, {n_bytes} bytes");
}

/// What this thread has used of a processor: a busy machine must not look like a slow search.
fn cpu_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

#[test]
fn a_text_of_nothing_but_beginnings_is_read_once() {
    // Unoptimised code is given less: a quadratic search of this much would still take minutes.
    let size = if cfg!(debug_assertions) { 128 << 10 } else { 10 << 20 };
    for piece in [
        "sk-",
        "eyJ",
        "eyJa.",
        "token=",
        "password=\"",
        "password='a\"",
        "://",
        "a://b:",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAAAAAAAAAA\n",
        "machine ",
        "machine a login ",
        "AKIA",
        "Bearer ",
        "sk_live_",
        "glpat-",
        "ghp_ghp_",
        "xoxb-",
        "SG.",
        "MT",
        "&sig=",
        "token: token= ",
        "\u{1b}[m",
        "12345678:AA",
        "token\\",
        "token ",
        "token\n",
        "<token>",
        "\"token\", \"",
        "\"==password",
        "curl ",
        "curl -u ",
        "curl \"",
        "curl mysql ",
        "mysql -p",
        "Authorization: ",
        "Authorization: Digest ",
        "authorization=",
        "Cookie: a=",
        "Cookie: a=b;",
        "cookie:a=",
        "xoxb-1",
        "glpat-.",
        "key=",
        "_key:",
        "is 'password",
        "+ASt",
        "!",
        "|",
        "a",
        "\n",
        " \n",
        "\\\n",
    ] {
        let text = piece.repeat(size / piece.len());
        let begun = cpu_ms();
        let clean = Redactor::new().redact(&text);
        let took_ms = cpu_ms() - begun;
        assert!(clean.text.len() <= text.len() * GROWTH_MAX);
        assert!(took_ms < 1000, "{piece:?}: {took_ms} ms");
    }
}

/// The same for lines that arrive in the pieces that a pipe is read in.
#[test]
fn a_stream_of_nothing_but_line_ends_is_read_once() {
    for piece in ["\n", " \n", "\t\r\n", "\\\n", "x\n"] {
        let chunk = piece.repeat((64 << 10) / piece.len());
        let begun = cpu_ms();
        let mut stream = StreamRedactor::new();
        let n: usize = (0..4).map(|_| stream.push(chunk.as_bytes()).len()).sum();
        let took_ms = cpu_ms() - begun;
        assert!(n <= 4 * chunk.len() && took_ms < 1000, "{piece:?}: {took_ms} ms");
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let secret = prop::sample::select(secrets()).prop_map(|(_, a, b, c)| format!("{a}{b}{c}"));
    let glue = prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\"",
        "'",
        "=",
        ":",
        "-",
        "_",
        ".",
        "@",
        "/",
        "\\n",
        "token=",
        "password: ",
        "-----BEGIN ",
        "://",
        "PRIVATE KEY-----",
        "[redacted:",
        "]",
        "a1B2c3D4",
        "&",
        "%3D",
        "Bearer ",
        "machine ",
        "ä",
        "eyJ",
        "sk-",
    ]);
    let part = prop_oneof![secret, glue.prop_map(str::to_owned), "[ -~]{0,12}", "\\PC{0,6}"];
    prop::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

/// So many cases, and ten times as many or more of optimised code. A failure is not kept in a file: it would be a
/// secret in the tree, which `ordinary_code_and_prose_stay` searches.
fn cases(n_unoptimised: u32) -> ProptestConfig {
    let cases = if cfg!(debug_assertions) { n_unoptimised } else { 20_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn redacting_twice_changes_nothing_more_and_growth_is_bounded(text in pieces()) {
        let once = Redactor::new().redact(&text);
        prop_assert!(once.text.len() <= text.len() * GROWTH_MAX);
        let twice = Redactor::new().redact(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert!(twice.hits.is_empty());
    }

    #[test]
    fn bytes_and_text_agree(text in pieces()) {
        let by_text = Redactor::new().redact(&text);
        let by_bytes = Redactor::new().redact_bytes(text.as_bytes());
        prop_assert_eq!(by_text.text.as_bytes(), &*by_bytes.text);
        prop_assert_eq!(by_text.hits, by_bytes.hits);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Redactor::new().redact_bytes(&bytes);
    }
}

/// The stream of a text that is cut at these places.
fn streamed(text: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    cuts.sort_unstable();
    let mut stream = StreamRedactor::new();
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        out.extend(stream.push(&text[at..cut]));
        at = cut;
    }
    out.extend(stream.finish());
    out
}

fn many_lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        pieces(),
        Just("<token>".to_owned()),
        Just("- name: API_TOKEN".to_owned()),
        Just("machine x.org".to_owned()),
        Just("  login me password".to_owned()),
        Just("client_secret: |".to_owned()),
        Just("curl \\".to_owned()),
        Just("  -u me:hunter2 \\".to_owned()),
        Just("Private-Lines: 2".to_owned()),
        Just(alnum(64)),
        Just(armour("RSA PRIVATE KEY", "\n").0),
        Just(armour("RSA PRIVATE KEY", "\n").1),
        Just(format!("  value: {}", alnum(24))),
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_stream_cut_anywhere_is_redacted_like_the_whole(
        text in many_lines(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let whole = Redactor::new().redact_bytes(text.as_bytes()).text.into_owned();
        let parts = streamed(text.as_bytes(), &cuts);
        prop_assert_eq!(String::from_utf8_lossy(&parts), String::from_utf8_lossy(&whole));
    }
}

/// Keys with quotes, headers and escapes between their lines are held back until the text shows where they end.
#[test]
fn a_key_is_redacted_like_the_whole_at_every_cut() {
    let access_key = format!("AKIA{}", drawn(UPPER, 16));
    for text in [
        format!("Private-Lines: 2\n\"{access_key}"),
        format!("Private-Lines: 2\n  '{0}',\n  '{0}'\nend", alnum(64)),
        format!("Private-Lines: 2\nComment: a-b\n{}\nend", alnum(64)),
        format!("Private-Lines: 2\n\\n{}\\n\nend", alnum(64)),
        format!("Private-Lines: 2\n# a comment\n{access_key}\n"),
        format!("-----BEGIN \nPRIVATE KEY-----\n{}\nend", alnum(64)),
        format!(
            "-----BEGIN PRIVATE KEY-----\nComment: -----BEGIN x\n{0}\n{0}\n-----END",
            alnum(64)
        ),
    ] {
        let whole = Redactor::new().redact(&text).text.into_owned();
        assert!(whole.contains("[redacted:"), "{whole}");
        for cut in 0..=text.len() {
            for more in 0..=cut {
                let parts = streamed(text.as_bytes(), &[more, cut]);
                assert_eq!(String::from_utf8_lossy(&parts), whole, "{text:?} {more} {cut}");
            }
        }
    }
    let text = format!("Private-Lines: 2\n\"{access_key}");
    assert_eq!(only(&text).0, "Private-Lines: 2\n[redacted:putty-private-key]");
    assert_eq!(
        streamed(text.as_bytes(), &[9_366_991_817_176_686_126]),
        b"Private-Lines: 2\n[redacted:putty-private-key]"
    );
}

#[test]
fn every_secret_is_found_at_every_cut() {
    for (rule, before, secret, after) in secrets() {
        let text = format!("first\n{before}{secret}{after}\nlast");
        let whole = Redactor::new().redact(&text).text.into_owned();
        for cut in 0..=text.len() {
            let parts = streamed(text.as_bytes(), &[cut]);
            assert_eq!(String::from_utf8_lossy(&parts), whole, "{rule} {cut}");
        }
        let bytes: Vec<usize> = (0..text.len()).collect();
        assert_eq!(String::from_utf8_lossy(&streamed(text.as_bytes(), &bytes)), whole, "{rule}");
    }
}

#[test]
fn the_rest_of_a_released_secret_is_dropped_however_often_text_is_released() {
    let mut stream = StreamRedactor::new();
    let mut shown = stream.push(format!("token=ghp_{}", alnum(36)).as_bytes());
    for _ in 0..3 {
        shown.extend(stream.release());
    }
    shown.extend(stream.push(b"0123456789"));
    shown.extend(stream.release());
    shown.extend(stream.push(b"abcdefgh after\n"));
    shown.extend(stream.finish());
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.starts_with("token=[redacted:") && shown.ends_with("] after\n"), "{shown}");
}

#[test]
fn a_marker_that_may_become_a_keys_is_released_and_a_key_is_not() {
    for (text, released) in [
        ("-----BEGIN ", "-----BEGIN "),
        ("-----BEGIN a test\nfirst", "-----BEGIN a test\nfirst"),
        ("-----BEGIN PRIVATE KEY-----\n", ""),
        ("Private-Lines: 2\n\"", ""),
    ] {
        let mut stream = StreamRedactor::new();
        let mut shown = stream.push(text.as_bytes());
        shown.extend(stream.release());
        assert_eq!(String::from_utf8_lossy(&shown), released, "{text:?}");
    }
}

#[test]
fn lines_are_passed_on_at_once_and_little_is_held() {
    let mut stream = StreamRedactor::new();
    assert_eq!(stream.push(b"one\ntwo"), b"one\n");
    assert_eq!(stream.push(b" and\nthree\n"), b"two and\nthree\n");
    // Lines and blocks without an end.
    for piece in [
        "a",
        "a ",
        "token=",
        "sk-a1B2c3D4",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhk\n",
        "machine a login b\n",
    ] {
        let text = piece.repeat((400 << 10) / piece.len());
        let mut stream = StreamRedactor::new();
        let mut once = Vec::new();
        for chunk in text.as_bytes().chunks(1000) {
            once.extend(stream.push(chunk));
            assert!(stream.held_bytes() <= 64 << 10, "{piece:?}");
        }
        once.extend(stream.finish());
        for size in [7, 4096, text.len()] {
            let mut stream = StreamRedactor::new();
            let mut again = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                again.extend(stream.push(chunk));
            }
            again.extend(stream.finish());
            assert!(again == once, "{piece:?} in pieces of {size}");
        }
    }
    // A token without an end leaves nothing of itself.
    let text = format!("x ghp_{}", alnum(40).repeat(5000));
    assert_eq!(streamed(text.as_bytes(), &[100, 70_000]), b"x [redacted:github-token]");
}
