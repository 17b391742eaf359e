//! System calls as data, for a process that runs none of Ringfence's code: number and arguments, which can be results
//! of earlier calls. From their JSON, the guest's bootstrap makes the calls without knowing their meaning.

use base64::Engine as _;
use serde::{Serialize, Serializer};

use crate::seccomp::{Arch, Filter, number};

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Its name, for the message when it fails.
    pub name: &'static str,
    /// Its number.
    pub nr: u32,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// True if the following calls are made even if it fails.
    pub may_fail: bool,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number.
    Number(u64),
    /// The address of these bytes.
    Bytes(Vec<u8>),
    /// The result of the call with this number.
    Result(usize),
    /// The address of these bytes, with the result of a call stored in four of them.
    BytesWithResult {
        /// The bytes.
        bytes: Vec<u8>,
        /// Offset in the bytes.
        at: usize,
        /// Number of the call.
        result: usize,
    },
    /// The address of these bytes, with the address of others stored in eight of them.
    BytesWithAddress {
        /// The bytes.
        bytes: Vec<u8>,
        /// Offset in the bytes.
        at: usize,
        /// The bytes pointed to.
        points_to: Vec<u8>,
    },
}

impl Arg {
    /// The address of a NUL-terminated text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Bytes([text.as_bytes(), b"\0"].concat())
    }
}

impl std::fmt::Display for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(n) if *n == AT_FDCWD => f.write_str("AT_FDCWD"),
            Self::Number(n) if *n > 0xffff => write!(f, "{n:#x}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Result(n) => write!(f, "result of {n}"),
            Self::Bytes(bytes) => {
                match std::str::from_utf8(bytes).map(|t| t.trim_end_matches('\0')) {
                    Ok(text) if !text.contains(|c: char| c.is_control()) => write!(f, "{text:?}"),
                    _ => write!(f, "{} bytes", bytes.len()),
                }
            }
            Self::BytesWithResult { result, .. } => write!(f, "a rule for the result of {result}"),
            Self::BytesWithAddress { points_to, .. } => {
                write!(f, "a filter of {} instructions", points_to.len() / 8)
            }
        }
    }
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl Serialize for Arg {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Default, Serialize)]
        struct Buffer {
            #[serde(skip_serializing_if = "Option::is_none")]
            bytes: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            at: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            points_to: Option<String>,
        }
        let base64 = |bytes: &[u8]| Some(base64::engine::general_purpose::STANDARD.encode(bytes));
        match self {
            Self::Number(number) => to.serialize_u64(*number),
            Self::Bytes(bytes) => {
                Buffer { bytes: base64(bytes), ..Buffer::default() }.serialize(to)
            }
            Self::Result(result) => {
                Buffer { result: Some(*result), ..Buffer::default() }.serialize(to)
            }
            Self::BytesWithResult { bytes, at, result } => Buffer {
                bytes: base64(bytes),
                at: Some(*at),
                result: Some(*result),
                points_to: None,
            }
            .serialize(to),
            Self::BytesWithAddress { bytes, at, points_to } => Buffer {
                bytes: base64(bytes),
                at: Some(*at),
                result: None,
                points_to: base64(points_to),
            }
            .serialize(to),
        }
    }
}

/// A list under construction.
pub(crate) struct Calls {
    arch: Arch,
    /// Results that earlier lists have numbered already.
    n_before: usize,
    list: Vec<Call>,
    unknown: Option<&'static str>,
}

impl Calls {
    pub(crate) fn new(arch: Arch) -> Self {
        Self { arch, n_before: 0, list: Vec::new(), unknown: None }
    }

    /// A list of calls to be made after this one, which may use its results.
    pub(crate) fn continued(&self) -> Self {
        Self { n_before: self.n_before + self.list.len(), ..Self::new(self.arch) }
    }

    /// Adds a call; returns the number of its result.
    pub(crate) fn call<const N: usize>(&mut self, name: &'static str, args: [Arg; N]) -> usize {
        self.push(name, Vec::from(args), false)
    }

    /// The same, where a failure is no harm.
    pub(crate) fn may_fail<const N: usize>(&mut self, name: &'static str, args: [Arg; N]) -> usize {
        self.push(name, Vec::from(args), true)
    }

    /// A directory, which may be there already.
    pub(crate) fn make_directory(&mut self, path: &str) {
        self.may_fail("mkdirat", [Arg::from(AT_FDCWD), Arg::text(path), Arg::from(0o755)]);
    }

    /// A call on a path; for the `…at` kind, relative to nothing.
    pub(crate) fn path_call<const N: usize>(
        &mut self,
        name: &'static str,
        path: &str,
        rest: [Arg; N],
    ) -> usize {
        let mut args = Vec::with_capacity(N + 2);
        if name.ends_with("at") {
            args.push(Arg::from(AT_FDCWD));
        }
        args.push(Arg::text(path));
        args.extend(rest);
        self.push(name, args, false)
    }

    /// Installs a filter.
    pub(crate) fn seccomp(&mut self, filter: &Filter, listener: bool) -> usize {
        const SET_MODE_FILTER: u64 = 1;
        const FLAG_NEW_LISTENER: u64 = 1 << 3;
        let insns: Vec<u8> = filter.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        // struct sock_fprog: the length, then, aligned, the address.
        let mut program = vec![0; 16];
        let n = u16::try_from(filter.insns.len()).unwrap_or(u16::MAX);
        program[..2].copy_from_slice(&n.to_ne_bytes());
        let program = Arg::BytesWithAddress { bytes: program, at: 8, points_to: insns };
        let flags = if listener { FLAG_NEW_LISTENER } else { 0 };
        self.call("seccomp", [Arg::from(SET_MODE_FILTER), Arg::from(flags), program])
    }

    /// The list, or the name of a call this architecture has no number for.
    pub(crate) fn finish(self) -> Result<Vec<Call>, &'static str> {
        self.unknown.map_or(Ok(self.list), Err)
    }

    fn push(&mut self, name: &'static str, args: Vec<Arg>, may_fail: bool) -> usize {
        let nr = number(self.arch, name).and_then(|nr| u32::try_from(nr).ok());
        if nr.is_none() {
            self.unknown = Some(name);
        }
        self.list.push(Call { name, nr: nr.unwrap_or(u32::MAX), args, may_fail });
        self.n_before + self.list.len() - 1
    }
}

const AT_FDCWD: u64 = (-100_i64).cast_unsigned();
