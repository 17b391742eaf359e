//! Reads an attack document: prose, bullets, two programs and a table, as `escapes/README.md` says.
//! Strict: what it does not understand is an error, because a row that is skipped by mistake proves nothing.

use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::layers::Layer;

const CLASSES: &[&str] = &["process", "paths", "syscalls", "network", "resources", "privilege"];
const STOPPERS: &[&str] = &["process", "syscalls", "resources", "network", "filesystem"];

/// One attack.
#[derive(Debug)]
pub(crate) struct Document {
    /// File name without `.md`.
    pub(crate) name: String,
    /// What of Ringfence it is run behind.
    pub(crate) face: Face,
    /// What the host must have besides namespaces.
    pub(crate) needs: Vec<Need>,
    /// Flags for `ringfence run` or `ringfence exec`.
    pub(crate) flags: Vec<String>,
    /// A shell line run before each row, outside the fence.
    pub(crate) setup: Option<String>,
    /// A shell line run after the program, outside the fence, whose last line is then the result.
    pub(crate) check: Option<String>,
    /// Names of the name server; with them the container has servers at every address.
    pub(crate) names: Option<Vec<Named>>,
    pub(crate) attack: Program,
    pub(crate) twin: Program,
    pub(crate) rows: Vec<Row>,
}

/// A name, and its addresses at the first query, at the second, and so on; the last ones stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) answers: Vec<Vec<IpAddr>>,
}

/// What of Ringfence runs a document's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Face {
    /// `ringfence run`: a command.
    #[default]
    Run,
    /// `ringfence exec` without screening: Python code, alone and in a warm worker.
    Exec,
}

/// Something not every host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Cgroup,
    X86_64,
    Family(Family),
}

/// Sockets that a kernel may be built or booted without: then there is nothing to attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Netlink's door to the packet filter.
    Netfilter,
    /// Between a virtual machine and its host.
    Vsock,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) language: Language,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Shell,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) kernels: Kernels,
    pub(crate) expect: Expectation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Without Ringfence.
    Off,
    /// Behind the whole fence; for some attacks the answer depends on how it is built.
    On(Build),
    /// Behind the fence with these layers taken out.
    Without(Vec<Layer>),
    /// The benign program behind the whole fence.
    Twin,
}

/// On which kernels a row is judged. Rows for some come in pairs, so that one of the two is judged everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernels {
    All,
    /// Those whose Landlock has this ABI or a later one.
    FromLandlock(u32),
    /// Those whose Landlock has an earlier ABI.
    BeforeLandlock(u32),
    /// Those whose Landlock takes a whiteout for a device node.
    HoldingWhiteouts,
    /// Those whose Landlock lets everybody make whiteouts.
    PassingWhiteouts,
}

/// What rows can depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) landlock_abi: u32,
    pub(crate) holds_whiteouts: bool,
}

impl Kernels {
    pub(crate) fn include(self, kernel: Kernel) -> bool {
        match self {
            Self::All => true,
            Self::FromLandlock(abi) => kernel.landlock_abi >= abi,
            Self::BeforeLandlock(abi) => kernel.landlock_abi < abi,
            Self::HoldingWhiteouts => kernel.holds_whiteouts,
            Self::PassingWhiteouts => !kernel.holds_whiteouts,
        }
    }

    fn other_half(self) -> Self {
        match self {
            Self::All => Self::All,
            Self::FromLandlock(abi) => Self::BeforeLandlock(abi),
            Self::BeforeLandlock(abi) => Self::FromLandlock(abi),
            Self::HoldingWhiteouts => Self::PassingWhiteouts,
            Self::PassingWhiteouts => Self::HoldingWhiteouts,
        }
    }
}

/// How a fence is built. All but the first come in pairs that stand in for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Any,
    /// A cgroup holds memory and process numbers down.
    Cgroup,
    /// Limits of each process do.
    Rlimit,
    /// Around an interpreter that was started for one program.
    Alone,
    /// By a worker around itself, in a zygote's fence.
    Warm,
}

impl std::fmt::Display for RowKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(Build::Any) => f.write_str("on"),
            Self::On(Build::Cgroup) => f.write_str("on cgroup"),
            Self::On(Build::Rlimit) => f.write_str("on rlimit"),
            Self::On(Build::Alone) => f.write_str("on alone"),
            Self::On(Build::Warm) => f.write_str("on warm"),
            Self::Without(layers) => {
                let names: Vec<&str> = layers.iter().map(|l| l.name()).collect();
                write!(f, "without {}", names.join("+"))
            }
            Self::Twin => f.write_str("twin"),
        }
    }
}

/// What a row must end like.
#[derive(Debug, Default)]
pub(crate) struct Expectation {
    /// The last line of stdout.
    pub(crate) line: Option<String>,
    /// The outcome's status and error code.
    pub(crate) status: Option<String>,
    pub(crate) code: Option<String>,
    /// A rule among the outcome's denials.
    pub(crate) denial: Option<String>,
    /// The subject of that denial.
    pub(crate) subject: Option<String>,
    /// Words of the reason of that denial.
    pub(crate) because: Option<String>,
    /// `VERDICT/HOST:PORT` among the outcome's connections; a lookup has no port.
    pub(crate) connection: Option<String>,
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            self.line.clone(),
            self.status.as_ref().map(|s| format!("status={s}")),
            self.code.as_ref().map(|c| format!("code={c}")),
            self.denial.as_ref().map(|d| format!("denial={d}")),
            self.subject.as_ref().map(|s| format!("subject={s}")),
            self.because.as_ref().map(|b| format!("because={b}")),
            self.connection.as_ref().map(|c| format!("connection={c}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Every document of a directory, by name. The first that does not parse is the error.
pub(crate) fn read_all(dir: &Path) -> Result<Vec<Document>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "md") && !f.ends_with("README.md"));
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
        parse(&name, &text).map_err(|e| format!("escapes/{name}.md: {e}"))
    };
    files.iter().map(read).collect()
}

/// One document.
pub(crate) fn parse(name: &str, text: &str) -> Result<Document, String> {
    let mut lines = text.lines().peekable();
    match lines.next() {
        Some(title) if title.starts_with("# ") => {}
        _ => return Err("the first line must be `# Title`".into()),
    }
    let (mut class, mut layer, mut setup, mut check) = (None, None, None, None);
    let (mut face, mut names) = (None, None);
    let (mut needs, mut flags) = (Vec::new(), Vec::new());
    let (mut attack, mut twin) = (None, None);
    let mut table = Vec::new();
    let mut prose = false;
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let (language, role) = info.split_once(' ').unwrap_or((info, ""));
            let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
            let language = match language {
                "python" => Language::Python,
                "sh" => Language::Shell,
                _ => return Err(format!("a program in `{language}`: python or sh")),
            };
            let program = Program { language, text: body.join("\n") + "\n" };
            match role {
                "attack" => once(&mut attack, program, "attack")?,
                "twin" => once(&mut twin, program, "twin")?,
                _ => return Err(format!("a program called `{role}`: attack or twin")),
            }
        } else if let Some((key, value)) = line.strip_prefix("- ").and_then(|l| l.split_once(": "))
        {
            let value = value.trim();
            match key {
                "Class" => once(&mut class, one_of(value, CLASSES)?, key)?,
                "Layer" => once(&mut layer, one_of(value, STOPPERS)?, key)?,
                "Face" => once(&mut face, self::face(value)?, key)?,
                "Needs" => needs = value.split(' ').map(need).collect::<Result<_, _>>()?,
                "Flags" => flags = value.split_whitespace().map(str::to_owned).collect(),
                "Setup" => once(&mut setup, value.to_owned(), key)?,
                "Check" => once(&mut check, value.to_owned(), key)?,
                "Names" => once(&mut names, self::names(value)?, key)?,
                // A bullet in the prose.
                _ if class.is_none() => prose = true,
                _ => return Err(format!("`{key}` is not known")),
            }
        } else if let Some(cells) = line.strip_prefix('|') {
            table.push(cells.to_owned());
        } else if !line.trim().is_empty() {
            prose = true;
        }
    }
    if !prose {
        return Err("no prose: say how it works, whom it broke, what stops it".into());
    }
    class.ok_or("no `- Class:`")?;
    let layer = layer.ok_or("no `- Layer:`")?;
    let face = face.unwrap_or_default();
    let rows = rows(&table, face)?;
    let takes_out = |row: &Row| match &row.kind {
        RowKind::Without(layers) => layers.iter().any(|l| l.is_part_of(&layer)),
        _ => false,
    };
    if !rows.iter().any(takes_out) {
        return Err(format!("no row takes out `{layer}`, the layer that stops it"));
    }
    let attack = attack.ok_or("no attack")?;
    let twin = twin.ok_or("no twin")?;
    if face == Face::Exec && [&attack, &twin].iter().any(|p| p.language != Language::Python) {
        return Err("`Face: exec` runs Python alone".into());
    }
    Ok(Document {
        name: name.to_owned(),
        face,
        needs,
        flags,
        setup,
        check,
        names,
        attack,
        twin,
        rows,
    })
}

fn once<T>(slot: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    if slot.replace(value).is_some() { Err(format!("`{what}` twice")) } else { Ok(()) }
}

fn one_of(value: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&value) {
        return Ok(value.to_owned());
    }
    Err(format!("`{value}` is none of {}", known.join(", ")))
}

fn face(word: &str) -> Result<Face, String> {
    match word {
        "run" => Ok(Face::Run),
        "exec" => Ok(Face::Exec),
        _ => Err(format!("`Face: {word}`: run or exec")),
    }
}

/// `a.test 10.0.0.2, b.test 10.0.0.2 then 127.0.0.1`: names, their addresses, and those of later queries.
fn names(text: &str) -> Result<Vec<Named>, String> {
    let named = |entry: &str| {
        let (name, answers) = entry
            .trim()
            .split_once(' ')
            .ok_or_else(|| format!("`Names: {entry}`: a name, then its addresses"))?;
        let address = |word: &str| {
            word.parse::<IpAddr>().map_err(|_| format!("`Names: {name}`: `{word}` is no address"))
        };
        let answer = |words: &str| words.split_whitespace().map(address).collect();
        let answers = answers.split(" then ").map(answer).collect::<Result<_, _>>()?;
        Ok(Named { name: name.to_owned(), answers })
    };
    text.split(',').map(named).collect()
}

fn need(word: &str) -> Result<Need, String> {
    match word {
        "cgroup" => Ok(Need::Cgroup),
        "x86_64" => Ok(Need::X86_64),
        "netfilter" => Ok(Need::Family(Family::Netfilter)),
        "vsock" => Ok(Need::Family(Family::Vsock)),
        _ => Err(format!("`Needs: {word}`: cgroup, x86_64, netfilter or vsock")),
    }
}

fn rows(table: &[String], face: Face) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for cells in table {
        let cells: Vec<&str> = cells.trim_end_matches('|').split('|').map(str::trim).collect();
        let [kind, expect] = cells[..] else {
            return Err(format!("a row has two cells: `{}`", cells.join(" | ")));
        };
        if kind == "row" || kind.starts_with("---") {
            continue;
        }
        let (what, kernels) = kernels(kind)?;
        let row = Row { kind: row_kind(what)?, kernels, expect: expectation(expect)? };
        if kernels != Kernels::All && !matches!(row.kind, RowKind::Without(_)) {
            return Err(format!("row `{kind}`: only `without` may depend on the kernel"));
        }
        let stands_beside = |r: &Row| kernels != Kernels::All && r.kernels == kernels.other_half();
        if rows.iter().any(|r| r.kind == row.kind && !stands_beside(r)) {
            return Err(format!("row `{kind}` twice"));
        }
        rows.push(row);
    }
    let whole = |row: &Row| {
        let other = row.kernels.other_half();
        rows.iter().any(|r| r.kind == row.kind && r.kernels == other)
    };
    if let Some(row) = rows.iter().find(|row| !whole(row)) {
        return Err(format!("row `{}` is missing for the other kernels", row.kind));
    }
    let line = |kind: &RowKind| rows.iter().find(|r| r.kind == *kind).map(|r| &r.expect.line);
    let is = |kind: &RowKind, text: &str| line(kind) == Some(&Some(text.to_owned()));
    if !is(&RowKind::Off, "ESCAPED") {
        return Err("row `off` must be there and expect ESCAPED: else the attack is none".into());
    }
    if !is(&RowKind::Twin, "OK") {
        return Err("row `twin` must be there and expect OK".into());
    }
    let on = |build| line(&RowKind::On(build)).is_some();
    let (pair, foreign) = match face {
        Face::Run => ([Build::Cgroup, Build::Rlimit], [Build::Alone, Build::Warm]),
        Face::Exec => ([Build::Alone, Build::Warm], [Build::Cgroup, Build::Rlimit]),
    };
    if on(Build::Any) == pair.into_iter().all(on) || foreign.into_iter().any(on) {
        let [one, other] = pair.map(RowKind::On);
        return Err(format!("row `on` is needed, or both `{one}` and `{other}`"));
    }
    if !rows.iter().any(|r| matches!(r.kind, RowKind::Without(_))) {
        return Err("a row `without LAYER` is needed".into());
    }
    let fenced = rows.iter().filter(|r| matches!(r.kind, RowKind::On(_)));
    if fenced.clone().any(|r| r.expect.line.as_deref() == Some("ESCAPED")) {
        return Err("row `on` expects ESCAPED".into());
    }
    Ok(rows)
}

/// `without LAYER from landlock 6`, `without LAYER where landlock holds whiteouts`: the row, and where it is judged.
fn kernels(text: &str) -> Result<(&str, Kernels), String> {
    let abi = |word: &str| word.parse().map_err(|_| format!("`{word}` is no Landlock ABI"));
    Ok(if let Some((row, word)) = text.split_once(" from landlock ") {
        (row, Kernels::FromLandlock(abi(word)?))
    } else if let Some((row, word)) = text.split_once(" before landlock ") {
        (row, Kernels::BeforeLandlock(abi(word)?))
    } else if let Some(row) = text.strip_suffix(" where landlock holds whiteouts") {
        (row, Kernels::HoldingWhiteouts)
    } else if let Some(row) = text.strip_suffix(" where landlock passes whiteouts") {
        (row, Kernels::PassingWhiteouts)
    } else {
        (text, Kernels::All)
    })
}

fn row_kind(text: &str) -> Result<RowKind, String> {
    Ok(match text {
        "off" => RowKind::Off,
        "on" => RowKind::On(Build::Any),
        "on cgroup" => RowKind::On(Build::Cgroup),
        "on rlimit" => RowKind::On(Build::Rlimit),
        "on alone" => RowKind::On(Build::Alone),
        "on warm" => RowKind::On(Build::Warm),
        "twin" => RowKind::Twin,
        _ => {
            let layers =
                text.strip_prefix("without ").ok_or(format!("row `{text}` is not known"))?;
            let layers = layers.split('+').map(|name| {
                Layer::by_name(name.trim()).ok_or(format!("layer `{name}` is not known"))
            });
            RowKind::Without(layers.collect::<Result<_, _>>()?)
        }
    })
}

fn expectation(text: &str) -> Result<Expectation, String> {
    let mut expect = Expectation::default();
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("status", value)) => once(&mut expect.status, value.to_owned(), "status")?,
            Some(("code", value)) => once(&mut expect.code, value.to_owned(), "code")?,
            Some(("denial", value)) => once(&mut expect.denial, value.to_owned(), "denial")?,
            Some(("subject", value)) => once(&mut expect.subject, value.to_owned(), "subject")?,
            Some(("because", value)) => once(&mut expect.because, value.to_owned(), "because")?,
            Some(("connection", value)) => {
                once(&mut expect.connection, value.to_owned(), "connection")?;
            }
            _ => words.push(word),
        }
    }
    if !words.is_empty() {
        expect.line = Some(words.join(" "));
    }
    if expect.line.is_none() && expect.status.is_none() {
        return Err(format!("`{text}` expects neither a line nor a status"));
    }
    if (expect.subject.is_some() || expect.because.is_some()) && expect.denial.is_none() {
        return Err(format!("`{text}` expects the subject or reason of no denial"));
    }
    Ok(expect)
}
