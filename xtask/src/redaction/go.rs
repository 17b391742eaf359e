//! Vectors in Go sources: lists of strings that a rule must and must not match (gitleaks), and tables of inputs with the
//! secrets they contain (trufflehog). Evaluates the few expressions that such lists are made of; skips the others.

use std::collections::HashMap;

use super::sample::{has_fixed_prefix, sample};
use super::{PREFIX_CHARS_MIN, Vector};
use crate::random::Random;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Sign(u8),
}

/// Tokens of a source, without its comments.
fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        match bytes[at] {
            b'/' if rest.starts_with("//") => at += rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => at += rest.find("*/").map_or(rest.len(), |n| n + 2),
            b'`' => {
                let n = rest[1..].find('`').unwrap_or(rest.len() - 1);
                out.push(Token::Text(rest[1..=n].to_owned()));
                at += (n + 2).min(rest.len());
            }
            quote @ (b'"' | b'\'') => {
                let mut n = 1;
                while n < rest.len() && bytes[at + n] != quote {
                    n += 1 + usize::from(bytes[at + n] == b'\\');
                }
                out.push(Token::Text(unescape(&rest[1..n.min(rest.len())])));
                at += (n + 1).min(rest.len());
            }
            b if b.is_ascii_alphanumeric() || b == b'_' => {
                let n = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
                    .unwrap_or(rest.len());
                out.push(Token::Name(rest[..n].to_owned()));
                at += n;
            }
            b if b.is_ascii_whitespace() => at += 1,
            b if b.is_ascii() => {
                out.push(Token::Sign(b));
                at += 1;
            }
            _ => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    out
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                out.extend(u8::from_str_radix(&digits, 16).ok().map(char::from));
            }
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                out.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[derive(Clone, Debug)]
enum Expr {
    Text(String),
    Name(String),
    Sum(Vec<Expr>),
    Call(String, Vec<Expr>),
    /// Elements of a literal, with their keys.
    Composite(Vec<(Option<Expr>, Expr)>),
    Other,
}

/// A value of an expression: text, a list of texts each with the secret inside if that is known, or a rule's pattern.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    List(Vec<(String, Option<String>)>),
    Fields(HashMap<String, Value>),
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is(&self, sign: u8) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    fn take(&mut self, sign: u8) -> bool {
        let is = self.is(sign);
        self.at += usize::from(is);
        is
    }

    fn skip_balanced(&mut self, open: u8, close: u8) {
        let mut depth = 0;
        while let Some(token) = self.peek() {
            depth +=
                i32::from(*token == Token::Sign(open)) - i32::from(*token == Token::Sign(close));
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    fn expr(&mut self) -> Expr {
        let mut terms = vec![self.term()];
        while self.take(b'+') {
            terms.push(self.term());
        }
        if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) }
    }

    fn term(&mut self) -> Expr {
        while self.take(b'&') || self.take(b'*') || self.take(b'-') || self.take(b'!') {}
        let mut expr = match self.peek().cloned() {
            Some(Token::Text(text)) => {
                self.at += 1;
                Expr::Text(text)
            }
            Some(Token::Sign(b'(')) => {
                self.at += 1;
                let inside = self.expr();
                self.take(b')');
                inside
            }
            Some(Token::Sign(b'{')) => self.composite(),
            Some(Token::Sign(b'[')) => {
                self.skip_type();
                match () {
                    () if self.is(b'{') => self.composite(),
                    // A conversion: `[]byte(text)`.
                    () if self.take(b'(') => {
                        let inside = self.expr();
                        self.take(b')');
                        inside
                    }
                    () => Expr::Other,
                }
            }
            Some(Token::Name(name)) if name == "map" => {
                self.skip_type();
                if self.is(b'{') { self.composite() } else { Expr::Other }
            }
            Some(Token::Name(name)) if name == "func" => {
                while self.peek().is_some() && !self.is(b'{') {
                    self.at += 1;
                }
                self.skip_balanced(b'{', b'}');
                Expr::Other
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                Expr::Name(name)
            }
            _ => return Expr::Other,
        };
        loop {
            match expr {
                Expr::Name(name) if self.is(b'(') => {
                    self.at += 1;
                    let args = self.elements(b')').into_iter().map(|(_, value)| value).collect();
                    expr = Expr::Call(name, args);
                }
                Expr::Name(name)
                    if self.is(b'{') && name.starts_with(|c: char| c.is_alphabetic()) =>
                {
                    expr = self.composite();
                }
                other if self.is(b'[') => {
                    self.skip_balanced(b'[', b']');
                    let _ = other;
                    expr = Expr::Other;
                }
                // Unpacking of a list, and methods of a call's result.
                other => return other,
            }
        }
    }

    fn skip_type(&mut self) {
        while let Some(token) = self.peek() {
            match token {
                Token::Sign(b'[') => self.skip_balanced(b'[', b']'),
                Token::Sign(b'*') => self.at += 1,
                Token::Name(name) if name == "struct" => {
                    self.at += 1;
                    self.skip_balanced(b'{', b'}');
                    return;
                }
                Token::Name(name) => {
                    let more = name == "map";
                    self.at += 1;
                    if !more {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    fn composite(&mut self) -> Expr {
        self.take(b'{');
        Expr::Composite(self.elements(b'}'))
    }

    fn elements(&mut self, close: u8) -> Vec<(Option<Expr>, Expr)> {
        let mut out = Vec::new();
        while self.peek().is_some() && !self.take(close) {
            let before = self.at;
            let first = self.expr();
            let (key, value) =
                if self.take(b':') { (Some(first), self.expr()) } else { (None, first) };
            out.push((key, value));
            // Whatever is not understood, up to the next element.
            let mut clean = true;
            while let Some(token) = self.peek() {
                match token {
                    Token::Sign(b',') => break,
                    Token::Sign(sign) if *sign == close => break,
                    Token::Sign(b'(') => self.skip_balanced(b'(', b')'),
                    Token::Sign(b'{') => self.skip_balanced(b'{', b'}'),
                    Token::Sign(b'[') => self.skip_balanced(b'[', b']'),
                    // `list...`
                    Token::Sign(b'.') => {
                        self.at += 1;
                        continue;
                    }
                    _ => self.at += 1,
                }
                clean = false;
            }
            if !clean && let Some(last) = out.last_mut() {
                last.1 = Expr::Other;
            }
            self.take(b',');
            if self.at == before {
                self.at += 1;
            }
        }
        out
    }
}

struct Scope<'r> {
    values: HashMap<String, Value>,
    random: &'r mut Random,
}

impl Scope<'_> {
    fn text(&mut self, expr: &Expr) -> Option<String> {
        match self.value(expr)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn value(&mut self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Text(text) => Some(Value::Text(text.clone())),
            Expr::Name(name) => self.values.get(name.trim_end_matches("...")).cloned(),
            Expr::Sum(terms) => {
                let mut out = String::new();
                for term in terms {
                    out += &self.text(term)?;
                }
                Some(Value::Text(out))
            }
            Expr::Composite(elements) => Some(self.composite(elements)),
            Expr::Call(name, args) => self.call(name, args),
            Expr::Other => None,
        }
    }

    fn composite(&mut self, elements: &[(Option<Expr>, Expr)]) -> Value {
        if let Some((Some(Expr::Name(_)), _)) = elements.first() {
            let mut fields = HashMap::new();
            for (key, value) in elements {
                if let (Some(Expr::Name(key)), Some(value)) = (key, self.value(value)) {
                    fields.insert(key.clone(), value);
                }
            }
            return Value::Fields(fields);
        }
        let mut list = Vec::new();
        for (_, value) in elements {
            match self.value(value) {
                Some(Value::Text(text)) => list.push((text, None)),
                Some(Value::List(more)) => list.extend(more),
                _ => {}
            }
        }
        Value::List(list)
    }

    fn call(&mut self, name: &str, args: &[Expr]) -> Option<Value> {
        let function = name.rsplit('.').next().unwrap_or(name);
        let text = |pattern: String| Some(Value::Text(pattern));
        match function {
            "NewSecret" | "NewSecretWithEntropy" | "newPlausibleSecret" => {
                let pattern = self.text(args.first()?)?;
                text(sample(&pattern, self.random)?)
            }
            "Numeric" => text(format!("[0-9]{{{}}}", self.text(args.first()?)?)),
            "Hex" => text(format!("[a-f0-9]{{{}}}", self.text(args.first()?)?)),
            "AlphaNumeric" => text(format!("[a-z0-9]{{{}}}", self.text(args.first()?)?)),
            "AlphaNumericExtendedShort" => {
                text(format!("[a-z0-9_-]{{{}}}", self.text(args.first()?)?))
            }
            "AlphaNumericExtended" => text(format!("[a-z0-9=_-]{{{}}}", self.text(args.first()?)?)),
            "AlphaNumericExtendedLong" => {
                text(format!("[a-z0-9/=_+-]{{{}}}", self.text(args.first()?)?))
            }
            "Hex8_4_4_4_12" => {
                text("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned())
            }
            "GenerateSampleSecret" | "GenerateSampleSecrets" => {
                let name = self.text(args.first()?)?;
                let secret = self.text(args.get(1)?)?;
                let mut list = wrappings(&name, &secret);
                if function == "GenerateSampleSecret" {
                    list.truncate(1);
                }
                Some(Value::List(list.into_iter().map(|t| (t, Some(secret.clone()))).collect()))
            }
            "append" => {
                let mut list = Vec::new();
                for arg in args {
                    match self.value(arg) {
                        Some(Value::Text(text)) => list.push((text, None)),
                        Some(Value::List(more)) => list.extend(more),
                        _ => {}
                    }
                }
                Some(Value::List(list))
            }
            "Sprintf" => {
                let mut out = self.text(args.first()?)?;
                for arg in &args[1..] {
                    let at = ["%s", "%v", "%q"].iter().filter_map(|verb| out.find(verb)).min()?;
                    let value = self.text(arg)?;
                    let quoted = &out[at..at + 2] == "%q";
                    let value = if quoted { format!("{value:?}") } else { value };
                    out.replace_range(at..at + 2, &value);
                }
                text(out)
            }
            // A token after a word edge.
            "GenerateUniqueTokenRegex" | "MustCompile" | "byte" => text(self.text(args.first()?)?),
            _ => None,
        }
    }
}

/// A secret as configuration files and programs of many languages write it.
fn wrappings(name: &str, secret: &str) -> Vec<String> {
    let upper = name.to_uppercase();
    vec![
        format!("{name}Token=\"{secret}\""),
        format!("{name}Token = {secret}"),
        format!("{{\n    \"{name}_token\": \"{secret}\"\n}}"),
        format!("{{\"config.ini\": \"{upper}_TOKEN={secret}\\nBACKUP_ENABLED=true\"}}"),
        format!("<{name}Token>\n    {secret}\n</{name}Token>"),
        format!("<{name}Token>{secret}</{name}Token>"),
        format!("{name}_token: {secret}"),
        format!("{name}_token: '{secret}'"),
        format!("string {name}Token = \"{secret}\";"),
        format!("var {name}Token string = \"{secret}\""),
        format!("{name}Token := `{secret}`"),
        format!("${name}Token .= \"{secret}\""),
        format!("System.setProperty(\"{upper}_TOKEN\", \"{secret}\")"),
        format!("  \"{name}Token\" => \"{secret}\""),
        format!("{upper}_TOKEN ::= \"{secret}\""),
        format!("{upper}_TOKEN ?= \"{secret}\""),
    ]
}

/// Assignments of a source in their order: name, expression. A call of `Validate` is named after itself.
fn statements(source: &str) -> Vec<(String, Expr)> {
    let tokens = tokens(source);
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Token::Name(name) = &tokens[at] else {
            at += 1;
            continue;
        };
        let mut sign = at + 1;
        if tokens.get(sign) == Some(&Token::Sign(b':')) {
            sign += 1;
        }
        let assigns = tokens.get(sign) == Some(&Token::Sign(b'='))
            && tokens.get(sign + 1) != Some(&Token::Sign(b'='));
        let validates = name.ends_with("Validate") || name.ends_with("ValidateWithPaths");
        let start = match (assigns, validates) {
            (true, _) => sign + 1,
            (_, true) => at,
            _ => {
                at += 1;
                continue;
            }
        };
        let mut reader = Reader { tokens: &tokens, at: start };
        let expr = reader.expr();
        // Functions are read inside too.
        let inside = matches!(expr, Expr::Other);
        out.push((if assigns { name.clone() } else { "Validate".to_owned() }, expr));
        at = if inside { start.max(at + 1) } else { reader.at.max(at + 1) };
    }
    out
}

/// Vectors of one source with rules: texts that `Validate` is called with.
pub(crate) fn rules(source: &str, random: &mut Random) -> Vec<Vector> {
    let mut scope = Scope { values: HashMap::new(), random };
    let mut out = Vec::new();
    for (name, expr) in statements(source) {
        if name != "Validate" {
            match scope.value(&expr) {
                Some(value) => scope.values.insert(name, value),
                None => scope.values.remove(&name),
            };
            continue;
        }
        let Expr::Call(_, args) = expr else { continue };
        let fields = match args.first().and_then(|rule| scope.value(rule)) {
            Some(Value::Fields(fields)) => fields,
            _ => HashMap::new(),
        };
        let field = |name: &str| match fields.get(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let prefixed =
            field("Regex").is_some_and(|pattern| has_fixed_prefix(&pattern, PREFIX_CHARS_MIN));
        let rule = field("RuleID").unwrap_or_default();
        for (arg, leak) in [(1, true), (2, false)] {
            let Some(Value::List(list)) = args.get(arg).and_then(|arg| scope.value(arg)) else {
                continue;
            };
            out.extend(list.into_iter().map(|(text, secret)| Vector {
                rule: rule.clone(),
                text,
                excluded: secret.is_some(),
                secrets: secret.into_iter().collect(),
                leak,
                prefixed,
            }));
        }
        scope.values.remove("tps");
        scope.values.remove("fps");
    }
    out
}

/// Vectors of one test of a detector: rows with `input` and `want`.
pub(crate) fn detector(rule: &str, source: &str, random: &mut Random) -> Vec<Vector> {
    let mut scope = Scope { values: HashMap::new(), random };
    let mut out = Vec::new();
    for (name, expr) in statements(source) {
        let Expr::Composite(rows) = &expr else {
            if let Some(value) = scope.value(&expr) {
                scope.values.insert(name, value);
            }
            continue;
        };
        for (_, row) in rows {
            let Expr::Composite(fields) = row else { continue };
            let field = |wanted: &str| {
                fields.iter().find_map(|(key, value)| match key {
                    Some(Expr::Name(key)) if key == wanted => Some(value),
                    _ => None,
                })
            };
            let Some(input) = field("input") else { continue };
            let Some(text) = scope.text(input) else { continue };
            let (secrets, leak) = match field("want") {
                None | Some(Expr::Other) => continue,
                Some(Expr::Name(name)) if name == "nil" => (Vec::new(), false),
                Some(want) => match scope.value(want) {
                    Some(Value::List(list)) => {
                        let n = list.len();
                        let found: Vec<String> =
                            list.into_iter().map(|(t, _)| t).filter(|t| text.contains(t)).collect();
                        // Joined from parts, or not understood.
                        if found.len() != n {
                            continue;
                        }
                        (found, n > 0)
                    }
                    _ => continue,
                },
            };
            out.push(Vector {
                rule: rule.to_owned(),
                text,
                secrets,
                leak,
                prefixed: false,
                excluded: true,
            });
        }
    }
    out
}
