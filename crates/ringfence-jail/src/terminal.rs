//! The run's own terminal. Changes to it do not affect the caller's terminal: only bytes cross.

use std::os::fd::{AsFd, OwnedFd};

use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Termios};

use crate::channel::{self, Message};

/// Opens a terminal in the run's own view, makes it the controlling one, and sends the master out. Runs in the child.
pub(crate) fn open_inside(report: impl AsFd) -> Result<OwnedFd, CallError> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).named(|| "open(\"/dev/ptmx\")")?;
    rustix::pty::unlockpt(&master).named(|| "unlockpt")?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).named(|| "ioctl(TIOCGPTPEER)")?;
    rustix::process::ioctl_tiocsctty(&slave).named(|| "ioctl(TIOCSCTTY)")?;
    channel::send(report, &Message::Terminal(master))?;
    Ok(slave)
}

/// The caller's terminal in raw mode, and the run's. Dropping it puts the caller's back.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    /// The caller's terminal, opened so that writing to it never waits.
    caller: OwnedFd,
    before: Option<Termios>,
    to_master: Vec<u8>,
    to_caller: Vec<u8>,
    reads_caller: bool,
    hung_up: bool,
    open: bool,
}

/// Bytes moved at once, and the most that wait for a slow side.
const CHUNK: usize = 16 << 10;

impl Terminal {
    /// Takes over the caller's terminal for the run behind `master`.
    pub(crate) fn take_over(master: OwnedFd) -> Result<Self, CallError> {
        let flags = rustix::fs::fcntl_getfl(&master).named(|| "fcntl(F_GETFL)")?;
        rustix::fs::fcntl_setfl(&master, flags | rustix::fs::OFlags::NONBLOCK)
            .named(|| "fcntl(F_SETFL)")?;
        let stdin = rustix::stdio::stdin();
        let reads_caller = rustix::termios::isatty(stdin);
        let mut before = None;
        if let Ok(settings) = rustix::termios::tcgetattr(stdin) {
            rustix::termios::tcsetattr(&master, OptionalActions::Now, &settings)
                .named(|| "tcsetattr(master)")?;
            let mut raw = settings.clone();
            raw.make_raw();
            rustix::termios::tcsetattr(stdin, OptionalActions::Now, &raw)
                .named(|| "tcsetattr(stdin)")?;
            before = Some(settings);
        }
        let caller = crate::stdio::unblocked(rustix::stdio::stdout())?;
        let mut terminal = Self {
            master,
            caller,
            before,
            to_master: Vec::new(),
            to_caller: Vec::new(),
            reads_caller,
            hung_up: false,
            open: true,
        };
        terminal.resize();
        Ok(terminal)
    }

    /// Gives the run's terminal the caller's size.
    pub(crate) fn resize(&mut self) {
        if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
            // A terminal that is closing has no size; nothing to do then.
            let _ = rustix::termios::tcsetwinsize(&self.master, size);
        }
    }

    /// Events to poll for: master, then the caller's stdin, then its stdout.
    pub(crate) fn wants(&self) -> [PollFlags; 3] {
        let mut master = PollFlags::empty();
        if self.open && self.to_caller.len() < CHUNK {
            master |= PollFlags::IN;
        }
        if self.open && !self.to_master.is_empty() {
            master |= PollFlags::OUT;
        }
        let stdin = self.reads_caller && self.open && self.to_master.len() < CHUNK;
        let stdin = if stdin { PollFlags::IN } else { PollFlags::empty() };
        let stdout = !self.to_caller.is_empty();
        let stdout = if stdout { PollFlags::OUT } else { PollFlags::empty() };
        [master, stdin, stdout]
    }

    /// Returns true if the caller's terminal hung up since the last call.
    pub(crate) fn take_hung_up(&mut self) -> bool {
        std::mem::take(&mut self.hung_up)
    }

    /// The master side.
    pub(crate) fn master(&self) -> &OwnedFd {
        &self.master
    }

    /// Moves the available bytes.
    pub(crate) fn step(&mut self, ready: [PollFlags; 3]) {
        let [master, stdin, stdout] = ready;
        let any = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        if stdin.intersects(any) {
            let mut buffer = [0u8; 4096];
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Ok(n) if n > 0 => self.to_master.extend_from_slice(&buffer[..n]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The caller's terminal is gone.
                _ => {
                    self.reads_caller = false;
                    self.hung_up = true;
                }
            }
        }
        if master.contains(PollFlags::OUT) && !self.to_master.is_empty() {
            match rustix::io::write(&self.master, &self.to_master) {
                Ok(n) => drop(self.to_master.drain(..n)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.to_master.clear(),
            }
        }
        if master.intersects(any) {
            self.read_master();
        }
        if stdout.intersects(PollFlags::OUT | PollFlags::HUP | PollFlags::ERR) {
            self.write_caller();
        }
    }

    fn read_master(&mut self) {
        let mut buffer = [0u8; CHUNK];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(n) if n > 0 => self.to_caller.extend_from_slice(&buffer[..n]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // EIO: the last process with the other side open is gone.
            _ => self.open = false,
        }
    }

    fn write_caller(&mut self) {
        let piece = &self.to_caller[..self.to_caller.len().min(4096)];
        match rustix::io::write(&self.caller, piece) {
            Ok(n) => drop(self.to_caller.drain(..n)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.to_caller.clear(),
        }
    }

    /// Forwards the remaining output after the run is dead. `hurried` gives up on a reader that does not read.
    pub(crate) fn drain(&mut self, hurried: bool) {
        loop {
            if self.to_caller.is_empty() {
                if self.open {
                    self.read_master();
                }
                if self.to_caller.is_empty() {
                    return;
                }
            }
            let mut fds = [rustix::event::PollFd::new(&self.caller, PollFlags::OUT)];
            let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            let patience = hurried.then_some(&second);
            if rustix::event::poll(&mut fds, patience) == Ok(0) {
                return;
            }
            self.write_caller();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Nothing can be done if the caller's terminal is gone.
            let _ =
                rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, before);
        }
    }
}
