//! Passwords among the arguments of commands: `curl -u user:password`, `mysql -pSECRET`, `sshpass -p SECRET`. The option
//! and the user stay. Long options with a telling name (`--password`) are found by `assignment` in any command.

use super::address::is_placeholder;
use super::chars::begins_word;

/// Longest command that is read.
const COMMAND_BYTES_MAX: usize = 4096;

/// Longest argument.
const ARGUMENT_BYTES_MAX: usize = 1024;

/// Names of commands as rules' prefixes, each with a space behind.
pub(crate) const NAMES: &[&str] = &[
    "curl ",
    "wget ",
    "http ",
    "https ",
    "mysql ",
    "mysqldump ",
    "mysqladmin ",
    "mysqlimport ",
    "mariadb ",
    "mariadb-dump ",
    "sshpass ",
    "login ",
    "redis-cli ",
    "mongo ",
    "mongosh ",
    "mongodump ",
    "mongorestore ",
    "ldapsearch ",
    "ldapadd ",
    "ldapmodify ",
    "smbclient ",
    "openssl ",
    "unzip ",
    "zip ",
    "7z ",
    "sqlcmd ",
    "bcp ",
    "mosquitto_pub ",
    "mosquitto_sub ",
    "twine ",
    "lftp ",
    "xfreerdp ",
    "keytool ",
    "jarsigner ",
    "cqlsh ",
    "rabbitmqadmin ",
    "ansible-vault ",
    "psql ",
    "snmpwalk ",
    "az ",
];

/// An option whose argument is a secret.
struct SecretOption {
    /// Commands that take it, as in [`NAMES`].
    commands: &'static [&'static str],
    flag: &'static str,
    form: Form,
}

/// Form of an option's argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-p SECRET` or `-pSECRET`.
    Either,
    /// `-pSECRET` only: `-p NAME` means something else.
    Attached,
    /// `-storepass SECRET` or `-storepass=SECRET`.
    Separate,
    /// `-u user:SECRET`, with this sign between.
    User(u8),
    /// `-passin pass:SECRET`.
    Pass,
}

const MYSQL: &[&str] =
    &["mysql ", "mysqldump ", "mysqladmin ", "mysqlimport ", "mariadb ", "mariadb-dump "];
const HTTP: &[&str] = &["curl ", "wget "];

const OPTIONS: &[SecretOption] = &[
    SecretOption { commands: HTTP, flag: "-u", form: Form::User(b':') },
    SecretOption { commands: HTTP, flag: "--user", form: Form::User(b':') },
    SecretOption { commands: HTTP, flag: "-U", form: Form::User(b':') },
    SecretOption { commands: HTTP, flag: "--proxy-user", form: Form::User(b':') },
    SecretOption { commands: &["wget "], flag: "--password", form: Form::Separate },
    SecretOption { commands: &["wget "], flag: "--http-password", form: Form::Separate },
    SecretOption { commands: &["wget "], flag: "--ftp-password", form: Form::Separate },
    SecretOption { commands: &["http ", "https "], flag: "-a", form: Form::User(b':') },
    SecretOption { commands: &["http ", "https "], flag: "--auth", form: Form::User(b':') },
    SecretOption { commands: MYSQL, flag: "-p", form: Form::Attached },
    SecretOption { commands: MYSQL, flag: "--password", form: Form::Separate },
    SecretOption { commands: &["sshpass "], flag: "-p", form: Form::Either },
    SecretOption {
        commands: &[
            "login ",
            "mongo ",
            "mongosh ",
            "mongodump ",
            "mongorestore ",
            "twine ",
            "cqlsh ",
        ],
        flag: "-p",
        form: Form::Either,
    },
    SecretOption {
        commands: &["login ", "mongo ", "mongosh ", "mongodump ", "mongorestore ", "twine ", "az "],
        flag: "--password",
        form: Form::Separate,
    },
    SecretOption { commands: &["redis-cli "], flag: "-a", form: Form::Either },
    SecretOption { commands: &["redis-cli "], flag: "--pass", form: Form::Separate },
    SecretOption {
        commands: &["ldapsearch ", "ldapadd ", "ldapmodify "],
        flag: "-w",
        form: Form::Either,
    },
    SecretOption { commands: &["smbclient "], flag: "-U", form: Form::User(b'%') },
    SecretOption { commands: &["lftp "], flag: "-u", form: Form::User(b',') },
    SecretOption { commands: &["openssl "], flag: "-passin", form: Form::Pass },
    SecretOption { commands: &["openssl "], flag: "-passout", form: Form::Pass },
    SecretOption { commands: &["openssl "], flag: "-pass", form: Form::Pass },
    SecretOption { commands: &["openssl "], flag: "-k", form: Form::Separate },
    SecretOption {
        commands: &["unzip ", "zip ", "sqlcmd ", "bcp ", "mosquitto_pub ", "mosquitto_sub "],
        flag: "-P",
        form: Form::Either,
    },
    SecretOption { commands: &["7z "], flag: "-p", form: Form::Attached },
    SecretOption { commands: &["rabbitmqadmin "], flag: "-p", form: Form::Separate },
    SecretOption { commands: &["xfreerdp "], flag: "/p:", form: Form::Attached },
    SecretOption {
        commands: &["keytool ", "jarsigner "],
        flag: "-storepass",
        form: Form::Separate,
    },
    SecretOption { commands: &["keytool ", "jarsigner "], flag: "-keypass", form: Form::Separate },
];

/// The password among the arguments of the command whose name is at `start..end`. Sets `open` if more text could change
/// the answer. `read_until` is the end of the last command that was read: a name among its arguments is not read again,
/// which keeps the time linear.
pub(crate) fn password(
    text: &[u8],
    start: usize,
    end: usize,
    read_until: &mut usize,
    open: &mut bool,
) -> Option<(usize, usize)> {
    let name = std::str::from_utf8(&text[start..end]).ok()?;
    if start < *read_until
        || !begins_word(text, start)
        || text[..start].last().is_some_and(|b| matches!(b, b'-' | b'.'))
    {
        return None;
    }
    let until = text.len().min(end + COMMAND_BYTES_MAX);
    *read_until = end;
    let mut words = Words { text, at: read_until, until, open };
    let mut option: Option<&SecretOption> = None;
    while let Some((from, to)) = words.next() {
        let word = &text[from..to];
        if let Some(found) = option.take()
            && let Some(secret) = argument(text, from, to, found.form)
        {
            return Some(secret);
        }
        // Another command begins, and is read on its own.
        if text.get(to) == Some(&b' ')
            && NAMES.iter().any(|n| n.as_bytes().strip_suffix(b" ") == Some(word))
        {
            *words.at = from;
            return None;
        }
        for candidate in OPTIONS.iter().filter(|o| o.commands.contains(&name)) {
            let Some(rest) = word.strip_prefix(candidate.flag.as_bytes()) else { continue };
            let long = candidate.flag.starts_with("--") || candidate.form == Form::Separate;
            if rest.is_empty() {
                option = (candidate.form != Form::Attached).then_some(candidate);
            } else if rest[0] == b'=' {
                let secret = argument(text, from + candidate.flag.len() + 1, to, candidate.form);
                if secret.is_some() {
                    return secret;
                }
            } else if !long
                && candidate.form != Form::Pass
                && let Some(secret) =
                    argument(text, from + candidate.flag.len(), to, candidate.form)
            {
                return Some(secret);
            }
        }
    }
    None
}

/// The secret in an option's argument, without the quotes around it.
fn argument(text: &[u8], mut from: usize, mut to: usize, form: Form) -> Option<(usize, usize)> {
    if to > from + 1 && matches!(text[from], b'"' | b'\'') && text[to - 1] == text[from] {
        (from, to) = (from + 1, to - 1);
    }
    let word = text.get(from..to)?;
    match form {
        Form::User(sign) => from += word.iter().position(|b| *b == sign)? + 1,
        Form::Pass => from += word.strip_prefix(b"pass:").map(|_| 5)?,
        _ => {}
    }
    let secret = text.get(from..to)?;
    let option = secret.first().is_none_or(|b| *b == b'-');
    let user = word.split(|b| *b == b':').next();
    let same = matches!(form, Form::User(_)) && user == Some(secret);
    (!option && !same && secret.len() <= ARGUMENT_BYTES_MAX && !names_a_secret(secret))
        .then_some((from, to))
}

/// Returns true for a word that stands for a secret: `password`, `[TOKEN]`, `"$PASSWORD"`.
fn names_a_secret(word: &[u8]) -> bool {
    const NAMES: &[&str] =
        &["password", "passwd", "pass", "secret", "token", "key", "apikey", "api_key", "api-key"];
    let inside = word.iter().position(|b| !matches!(b, b'"' | b'\'' | b'[')).unwrap_or(0);
    let bare = &word[inside..];
    let n =
        bare.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    let closed = bare[n..].iter().all(|b| matches!(b, b'"' | b'\'' | b']' | b'>'));
    is_placeholder(word)
        || word.iter().all(|b| *b == word[0])
        || is_placeholder(bare)
        || closed && NAMES.iter().any(|name| bare[..n].eq_ignore_ascii_case(name.as_bytes()))
}

/// Words of a command, in quotes or not, up to its end: a line end without a backslash, or a sign of the shell.
struct Words<'t, 'a> {
    text: &'t [u8],
    at: &'a mut usize,
    until: usize,
    open: &'a mut bool,
}

impl Words<'_, '_> {
    fn next(&mut self) -> Option<(usize, usize)> {
        loop {
            match self.text.get(*self.at..self.until)? {
                [b' ' | b'\t', ..] => *self.at += 1,
                [b'\\', b'\n', ..] => *self.at += 2,
                [b'\\', b'\r', b'\n', ..] => *self.at += 3,
                [b'\n' | b'\r' | b';' | b'|' | b'&' | b')' | b'`' | b'#', ..] => return None,
                [] => {
                    *self.open |= self.until == self.text.len();
                    return None;
                }
                _ => break,
            }
        }
        let from = *self.at;
        let mut quote = None;
        while *self.at < self.until {
            let byte = self.text[*self.at];
            let ends = match quote {
                Some(open) => {
                    if byte == open {
                        quote = None;
                    }
                    byte == b'\n'
                }
                None if matches!(byte, b'"' | b'\'') => {
                    quote = Some(byte);
                    !self.opens(from)
                }
                // The end of a line, or of a string, that the command is quoted in.
                None => {
                    byte <= b' '
                        || matches!(byte, b';' | b'|' | b'`')
                        || (byte == b'\\' && self.escapes())
                }
            };
            if ends {
                break;
            }
            *self.at += 1;
        }
        (*self.at > from).then_some((from, *self.at))
    }

    /// Returns true if the quote here begins a part of the word, and does not end a string around the command.
    fn opens(&self, from: usize) -> bool {
        let next = self.text.get(*self.at + 1);
        *self.at == from || next.is_some_and(|b| *b > b' ' && !b",;:)]}'\"`\\".contains(b))
    }

    fn escapes(&self) -> bool {
        matches!(
            self.text.get(*self.at + 1),
            None | Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\n')
        )
    }
}
