//! Error of a system call, with its arguments: `mount("proc", "/proc") = EPERM`.

use std::fmt;

use rustix::io::Errno;

/// One failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The call with the arguments that matter.
    pub call: String,
    /// The errno.
    pub errno: Errno,
}

impl CallError {
    /// A failed call from its text and its errno.
    pub fn new(call: impl Into<String>, errno: Errno) -> Self {
        Self { call: call.into(), errno }
    }

    /// The answer of the last libc call on this thread.
    pub(crate) fn last(call: impl Into<String>) -> Self {
        let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        Self::new(call, Errno::from_raw_os_error(code))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.call, errno_name(self.errno.raw_os_error()))
    }
}

impl std::error::Error for CallError {}

/// Gives a bare errno the name of its call.
pub trait Named<T> {
    /// Names the call; the text is made only on failure.
    fn named<S: Into<String>>(self, call: impl FnOnce() -> S) -> Result<T, CallError>;
}

impl<T> Named<T> for Result<T, Errno> {
    fn named<S: Into<String>>(self, call: impl FnOnce() -> S) -> Result<T, CallError> {
        self.map_err(|errno| CallError::new(call(), errno))
    }
}

impl<T> Named<T> for std::io::Result<T> {
    fn named<S: Into<String>>(self, call: impl FnOnce() -> S) -> Result<T, CallError> {
        self.map_err(|error| {
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            CallError::new(call(), Errno::from_raw_os_error(code))
        })
    }
}

/// The symbolic name of an errno, as strace prints it.
pub fn errno_name(code: i32) -> String {
    macro_rules! names {
        ($($name:ident)*) => { match code { $(libc::$name => stringify!($name).to_owned(),)* _ => format!("errno {code}") } };
    }
    names!(
        EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY
        EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK
        EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP EOVERFLOW EUSERS ENOTSOCK
        EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE ENETUNREACH ECONNREFUSED ETIMEDOUT ENOTCONN EISCONN
        EINPROGRESS EALREADY ESTALE EDQUOT ENOKEY ENODATA EBADFD
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_like_strace() {
        let e = CallError::new("mount(\"proc\", \"/proc\")", Errno::PERM);
        assert_eq!(e.to_string(), "mount(\"proc\", \"/proc\") = EPERM");
        assert_eq!(errno_name(9999), "errno 9999");
    }
}
