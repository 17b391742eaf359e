//! Signals as a descriptor, the defaults a program expects to start with, and interruptions of what waits.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::{CallError, Named};

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signals(..)")
    }
}

impl Signals {
    /// The given signals, by number; numbers that are no signal are left out.
    pub fn of(numbers: &[i32]) -> Self {
        // SAFETY: `sigset_t` is plain data for which all zero bytes are a valid value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for number in numbers {
            // SAFETY: `set` is a live, initialised set; an invalid number is refused with EINVAL and changes nothing.
            unsafe { libc::sigaddset(&raw mut set, *number) };
        }
        Self(set)
    }

    /// Blocks these signals in this thread and returns what was blocked before.
    pub fn block(self) -> Result<Self, CallError> {
        self.mask(libc::SIG_BLOCK)
    }

    /// Makes exactly these the blocked signals of this thread.
    pub fn set_blocked(self) -> Result<(), CallError> {
        self.mask(libc::SIG_SETMASK).map(|_| ())
    }

    fn mask(self, how: libc::c_int) -> Result<Self, CallError> {
        let mut before = Self::of(&[]);
        // SAFETY: both sets are live and initialised; the kernel reads one and writes the other.
        let code = unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        if code == 0 {
            return Ok(before);
        }
        Err(CallError::new("pthread_sigmask", rustix::io::Errno::from_raw_os_error(code)))
    }
}

/// Blocked signals, readable as a descriptor.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// A non-blocking descriptor for `signals`, which the caller has blocked.
    pub fn new(signals: Signals) -> Result<Self, CallError> {
        // SAFETY: -1 asks for a new descriptor; the set is live and only read.
        let fd = unsafe {
            libc::signalfd(-1, &raw const signals.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(CallError::last("signalfd"));
        }
        // SAFETY: the kernel just made this descriptor and it has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal's number.
    pub fn next(&self) -> Result<Option<i32>, CallError> {
        // `struct signalfd_siginfo` is 128 bytes and begins with the signal number.
        let mut info = [0u8; 128];
        match rustix::io::read(&self.0, &mut info) {
            Ok(n) if n >= 4 => Ok(Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno).named(|| "read(signalfd)"),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Interrupts what this thread waits for. For calls that a hostile process can make wait as long as it likes: the last descriptor of a
/// socket takes `SO_LINGER` to close, and is also closed with the memory of a dead process that mapped it, by whichever process looks at that
/// memory last. Such a close goes on at a signal. A call that returns at a signal is made again (`SA_RESTART`), but for those that
/// signal(7) excepts.
#[derive(Debug)]
pub struct Interrupter(libc::timer_t);

/// Interruptions that go on until it is dropped.
#[derive(Debug)]
pub struct Interruptions<'a>(&'a Interrupter);

/// Ends no process by default. Not SIGALRM: a caller's `alarm`, which outlasts execve(2), must end this process as before.
const INTERRUPTION: libc::c_int = libc::SIGURG;

impl Interrupter {
    /// A timer for this thread, which is not running.
    pub fn new() -> Result<Self, CallError> {
        // SAFETY: `sigaction` is plain data for which all zero bytes are a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = do_nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does nothing, which every signal handler may do; the action is live and only read.
        let set = unsafe { libc::sigaction(INTERRUPTION, &raw const action, std::ptr::null_mut()) };
        if set < 0 {
            return Err(CallError::last("sigaction"));
        }
        Signals::of(&[INTERRUPTION]).mask(libc::SIG_UNBLOCK)?;
        // SAFETY: `sigevent` is plain data for which all zero bytes are a valid value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = INTERRUPTION;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both are live; the event is read and the timer's id written.
        let made =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if made < 0 { Err(CallError::last("timer_create")) } else { Ok(Self(timer)) }
    }

    /// Starts interruptions, one every so often.
    pub fn every(&self, pause: Duration) -> Interruptions<'_> {
        self.set(pause);
        Interruptions(self)
    }

    /// Never, for a duration of zero.
    fn set(&self, pause: Duration) {
        let tv_sec = pause.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        let time = libc::timespec { tv_sec, tv_nsec: pause.subsec_nanos().into() };
        let time = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: the timer lives as long as `self`; the time is live and only read, and the old one is not asked for.
        unsafe { libc::timer_settime(self.0, 0, &raw const time, std::ptr::null_mut()) };
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `new`, and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

impl Drop for Interruptions<'_> {
    fn drop(&mut self) {
        self.0.set(Duration::ZERO);
    }
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Gives every signal its default action, as a program expects at its start.
pub fn reset_actions() {
    // Without real-time signals, as many again: no parent is expected to ignore those.
    for number in 1..32 {
        // SAFETY: SIG_DFL is a valid action for every signal; SIGKILL and SIGSTOP answer EINVAL, which is fine.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// Blocks no signal, as a program expects at its start.
pub fn unblock_all() -> Result<(), CallError> {
    Signals::of(&[]).set_blocked()
}

/// Ignores one signal.
pub fn ignore(number: i32) {
    // SAFETY: SIG_IGN is a valid action; a signal that cannot be ignored answers EINVAL and nothing changes.
    unsafe { libc::signal(number, libc::SIG_IGN) };
}
