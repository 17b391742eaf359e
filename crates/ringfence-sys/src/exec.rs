//! Becoming another program. Everything is laid out before, so that the last act allocates nothing.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::io::Errno;

use crate::CallError;

/// A program ready to be executed: candidates of its path, its arguments and its environment.
#[derive(Debug)]
pub struct Program {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    envp: Vec<CString>,
}

impl Program {
    /// Lays out a program. A name without a slash is looked for along `path`, as a shell does.
    pub fn new<'a>(
        argv: &[OsString],
        environment: impl IntoIterator<Item = (&'a OsString, &'a OsString)>,
        path: &OsStr,
    ) -> Result<Self, CallError> {
        let nul = |_| CallError::new("execve with a NUL byte in an argument", Errno::INVAL);
        let name = argv.first().map_or(&[][..], |a| a.as_bytes());
        let candidates = if name.contains(&b'/') {
            vec![CString::new(name).map_err(nul)?]
        } else {
            path.as_bytes()
                .split(|b| *b == b':')
                .filter(|dir| !dir.is_empty() && !name.is_empty())
                .map(|dir| CString::new([dir, b"/", name].concat()))
                .collect::<Result<_, _>>()
                .map_err(nul)?
        };
        let argv = argv.iter().map(|a| CString::new(a.as_bytes())).collect::<Result<_, _>>();
        let envp = environment.into_iter().map(|(name, value)| {
            let mut entry = name.clone().into_vec();
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            CString::new(entry)
        });
        Ok(Self {
            candidates,
            argv: argv.map_err(nul)?,
            envp: envp.collect::<Result<_, _>>().map_err(nul)?,
        })
    }
}

/// Becomes the program, or says why not: the most telling failure over all candidates.
pub fn execute(program: &Program) -> CallError {
    let argv = pointers(&program.argv);
    let envp = pointers(&program.envp);
    let mut error = CallError::new("execve: command not found", Errno::NOENT);
    for path in &program.candidates {
        // SAFETY: `path` is NUL-terminated; both arrays hold pointers to live NUL-terminated strings and end in null.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        let failed = CallError::last(format!("execve({path:?})"));
        match failed.errno {
            // Go on to the next directory; remember what was there but not permitted.
            Errno::NOENT | Errno::NOTDIR => {
                if error.errno == Errno::NOENT && program.candidates.len() == 1 {
                    error = failed;
                }
            }
            Errno::ACCESS => error = failed,
            _ => return failed,
        }
    }
    error
}

/// Overwrites this process's arguments and environment where they were put at its start: what `/proc/PID/cmdline` and
/// `environ` show. Nothing that was read from them before changes.
pub fn wipe_arguments(label: &str) -> Result<(), CallError> {
    unsafe extern "C" {
        /// `argv[0]` as it was given, which glibc and musl keep.
        static program_invocation_name: *mut u8;
    }
    // SAFETY: set by the C library before `main`, and never changed here.
    let start = unsafe { program_invocation_name };
    // SAFETY: takes and gives an integer.
    let end = unsafe { libc::getauxval(libc::AT_EXECFN) };
    let length = usize::try_from(end).unwrap_or(0).checked_sub(start as usize);
    let length = length.filter(|n| !start.is_null() && *n <= ARGUMENT_BYTES_MAX);
    // SAFETY: the kernel lays arguments, environment and the program's path (`AT_EXECFN`) out one after another on
    // the stack, which is writable; Rust code holds no reference into it.
    let area = length.map(|length| unsafe { std::slice::from_raw_parts_mut(start, length) });
    let area = area.ok_or_else(|| CallError::new("getauxval(AT_EXECFN)", Errno::NOENT))?;
    area.fill(0);
    let n = label.len().min(area.len());
    area[..n].copy_from_slice(&label.as_bytes()[..n]);
    Ok(())
}

/// Arguments and environment never take more: the kernel's own bound is three quarters of an 8 MiB stack.
const ARGUMENT_BYTES_MAX: usize = 6 << 20;

/// Ends this process at once: no destructor, no buffer flushed twice. For children of a fork.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}
