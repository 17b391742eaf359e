//! Hands a pipe of the caller's on as the program's stdin. The program gets a pipe of its own: a process that holds the caller's
//! can open it for writing (`/proc/self/fd/0`), and what it writes there is read by the programs that share it, such as the
//! shell that runs a script from that pipe.
//!
//! What the program does not read stays in the caller's pipe for the next reader, as if the program had that pipe itself: bytes
//! are copied by tee(2) and taken out only once the program has read them. A program that reads much gets the rest in larger
//! pieces, of which some may be taken out unread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::stdio::{dup, pipe, reopened};

/// Bytes moved at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Size of the program's pipe while it must be empty to be writable: one page.
const ONE_PAGE: usize = 4096;

/// Bytes that a program reads before it gets the rest in larger pieces.
const EXACT_BYTES: u64 = 64 << 10;

/// Copies one pipe to another. Never waits for either.
#[derive(Debug)]
pub(crate) struct StdinPump {
    from: OwnedFd,
    /// The open file of `from` is this process's, and non-blocking.
    is_own: bool,
    to: Option<OwnedFd>,
    way: Way,
    /// Bytes of the caller's pipe that are in the program's, too.
    n_copied: usize,
    /// The program's pipe is full, and the caller's is not empty.
    waits_for_room: bool,
    /// Bytes that the program has read.
    n_read: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Bytes are copied, and taken out when the program has read them.
    Copying,
    /// Bytes move from one pipe to the other.
    Moving,
}

impl StdinPump {
    /// A pump from a pipe of the caller's, and the program's end.
    pub(crate) fn new(from: BorrowedFd<'_>) -> Result<(Self, OwnedFd), CallError> {
        let (inside, to) = pipe()?;
        rustix::pipe::fcntl_setpipe_size(&to, ONE_PAGE).named(|| "fcntl(F_SETPIPE_SZ)")?;
        let own = reopened(from, OFlags::RDONLY);
        let is_own = own.is_some();
        let from = own.map_or_else(|| dup(from), Ok)?;
        let to = Some(to);
        let pump = Self {
            from,
            is_own,
            to,
            way: Way::Copying,
            n_copied: 0,
            waits_for_room: false,
            n_read: 0,
        };
        Ok((pump, inside))
    }

    /// The descriptor and events to poll for, if any.
    pub(crate) fn wants(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let to = self.to.as_ref()?;
        // With room for one page, it is writable when the program has read all of it.
        if self.waits_for_room || self.n_copied > 0 {
            Some((to.as_fd(), PollFlags::OUT))
        } else {
            Some((self.from.as_fd(), PollFlags::IN))
        }
    }

    /// Moves one chunk.
    pub(crate) fn step(&mut self) {
        if self.n_copied == 0 {
            return self.fill();
        }
        self.settle();
        let Some(to) = &self.to else { return };
        if ringfence_sys::is_ready(to, PollFlags::ERR) {
            // The program has ended, or closed its stdin.
            self.to = None;
        } else if self.n_copied > 0 {
            // The program has made its pipe larger: what it reads of it cannot be followed.
            self.take_out(self.n_copied);
            self.n_copied = 0;
            self.way = Way::Moving;
        } else if self.n_read >= EXACT_BYTES && rustix::pipe::fcntl_setpipe_size(to, CHUNK).is_ok()
        {
            self.way = Way::Moving;
        }
    }

    fn fill(&mut self) {
        let Some(to) = &self.to else { return };
        let filled = match self.way {
            Way::Copying => rustix::pipe::tee(&self.from, to, CHUNK, SpliceFlags::NONBLOCK),
            Way::Moving => {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                rustix::pipe::splice(&self.from, None, to, None, CHUNK, flags)
            }
        };
        self.waits_for_room = false;
        match filled {
            Ok(n) if n > 0 => self.n_copied = if self.way == Way::Copying { n } else { 0 },
            Err(Errno::AGAIN) => {
                self.waits_for_room = ringfence_sys::is_ready(&self.from, PollFlags::IN);
            }
            Err(Errno::INTR) => {}
            // The end of the input, or no reader is left.
            Ok(_) | Err(_) => self.to = None,
        }
    }

    /// Takes out of the caller's pipe what the program has read.
    fn settle(&mut self) {
        let Some(to) = self.to.as_ref().filter(|_| self.n_copied > 0) else { return };
        let Ok(n_unread) = rustix::io::ioctl_fionread(to) else { return };
        let n_unread = usize::try_from(n_unread).unwrap_or(usize::MAX).min(self.n_copied);
        let n_read = self.n_copied - n_unread;
        self.n_copied = n_unread;
        self.n_read += n_read as u64;
        self.take_out(n_read);
    }

    fn take_out(&self, n_bytes: usize) {
        let mut buffer = vec![0; n_bytes];
        let mut n_taken = 0;
        while n_taken < n_bytes {
            // Another reader of the caller's pipe may have taken some.
            if !self.is_own && !ringfence_sys::is_ready(&self.from, PollFlags::IN) {
                return;
            }
            match rustix::io::read(&self.from, &mut buffer[n_taken..]) {
                Ok(n) if n > 0 => n_taken += n,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

impl Drop for StdinPump {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::time::Duration;

    use super::*;

    fn until_it_waits(pump: &mut StdinPump) {
        while let Some((fd, flags)) = pump.wants() {
            if !ringfence_sys::is_ready(fd, flags) {
                return;
            }
            pump.step();
        }
    }

    fn pump() -> (std::fs::File, std::fs::File, StdinPump, std::fs::File) {
        let (shared, feed) = pipe().unwrap();
        let (pump, inside) = StdinPump::new(shared.as_fd()).unwrap();
        (shared.into(), feed.into(), pump, inside.into())
    }

    fn rest(feed: std::fs::File, mut shared: std::fs::File) -> String {
        drop(feed);
        let mut rest = String::new();
        shared.read_to_string(&mut rest).unwrap();
        rest
    }

    #[test]
    fn what_is_not_read_stays_with_the_caller() {
        for n_read in [0, 1, 5, 11] {
            // The end of the program is seen before the end of the run, or not.
            for sees_end in [false, true] {
                let (shared, mut feed, mut pump, mut inside) = pump();
                feed.write_all(b"hello world").unwrap();
                until_it_waits(&mut pump);
                inside.read_exact(&mut vec![0; n_read]).unwrap();
                drop(inside);
                if sees_end {
                    until_it_waits(&mut pump);
                }
                drop(pump);
                assert_eq!(rest(feed, shared), "hello world"[n_read..], "{n_read} {sees_end}");
            }
        }
    }

    #[test]
    fn nothing_written_to_the_programs_pipe_reaches_the_callers() {
        let (shared, mut feed, mut pump, inside) = pump();
        feed.write_all(b"line\n").unwrap();
        until_it_waits(&mut pump);
        let own = reopened(inside.as_fd(), OFlags::WRONLY).unwrap();
        let _ = rustix::io::write(&own, b"planted\n");
        until_it_waits(&mut pump);
        drop((own, inside, pump));
        assert_eq!(rest(feed, shared), "line\n");
    }

    #[test]
    fn all_bytes_arrive_in_their_order_and_then_the_end() {
        let (shared, feed, mut pump, inside) = pump();
        let sent: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut feed = feed;
                feed.write_all(&sent).unwrap();
            });
            let reader = scope.spawn(move || {
                let (mut inside, mut got) = (inside, Vec::new());
                inside.read_to_end(&mut got).unwrap();
                got
            });
            while let Some((fd, flags)) = pump.wants() {
                assert!(ringfence_sys::is_ready_within(fd, flags, Duration::from_mins(1)));
                pump.step();
            }
            assert!(reader.join().unwrap() == expected);
        });
        drop(shared);
    }

    /// Steps until nothing is ready, which must come soon: each step is the supervisor's time.
    #[test]
    fn a_program_that_tampers_with_its_pipe_does_not_keep_the_pump_busy() {
        let resized = |inside: &std::fs::File| {
            rustix::pipe::fcntl_setpipe_size(inside, CHUNK).unwrap();
        };
        let filled = |inside: &std::fs::File| {
            let own = reopened(inside.as_fd(), OFlags::WRONLY).unwrap();
            let _ = rustix::io::write(&own, b"planted");
        };
        let attacks: [&dyn Fn(&std::fs::File); 2] = [&resized, &filled];
        for attack in attacks {
            for before in [true, false] {
                let (_shared, mut feed, mut pump, inside) = pump();
                if before {
                    attack(&inside);
                }
                feed.write_all(&[b'x'; 3 * ONE_PAGE]).unwrap();
                until_it_waits(&mut pump);
                attack(&inside);
                let mut n_steps = 0;
                while let Some((fd, flags)) = pump.wants() {
                    if !ringfence_sys::is_ready(fd, flags) {
                        break;
                    }
                    pump.step();
                    n_steps += 1;
                    assert!(n_steps < 100, "before: {before}");
                }
            }
        }
    }

    #[test]
    fn a_program_that_closes_its_stdin_ends_the_pump() {
        let (shared, mut feed, mut pump, inside) = pump();
        feed.write_all(b"unread").unwrap();
        until_it_waits(&mut pump);
        drop(inside);
        // A process that another test starts has the pipe too, until it executes its program.
        ringfence_testing::soon(|| {
            while pump.wants().is_some() {
                until_it_waits(&mut pump);
            }
        });
        drop(pump);
        assert_eq!(rest(feed, shared), "unread");
    }
}
