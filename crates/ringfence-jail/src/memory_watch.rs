//! Memory of a run without a cgroup: what its processes have, each page once, as far as `/proc` shows it.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader};
use std::ops::ControlFlow;

use ringfence_sys::{open_kernel_file, read_kernel_file};
use rustix::io::Errno;

use crate::proc::{if_there, line_of, numbers, tasks};

/// Names of shared memory without a file in `maps`, with and without a name given by a program.
pub(crate) const SHARED_NAMES: &[&str] = &["/dev/zero (deleted)", "[anon_shmem:", "/SYSV"];

/// Maximum number of mappings read in one check: half a second's worth, and more than an honest tree has.
const MAPPINGS_MAX: usize = 500_000;

/// Maximum number of earlier processes compared with one that may share its memory.
const RELATIVES_MAX: usize = 64;

/// Maximum growth of one memory between two reads of its size.
const SIZE_DRIFT: u64 = 64 << 20;

/// A process and its memory. If its first thread has exited and others go on, the kernel reports it only by one of
/// those.
pub(crate) struct Member {
    tid: i32,
    pub(crate) mapped: u64,
    pub(crate) anonymous: u64,
}

impl Member {
    /// Returns `None` for a process without memory.
    pub(crate) fn of(pid: i32) -> io::Result<Option<Self>> {
        if let Some(member) = Self::by(pid)? {
            return Ok(Some(member));
        }
        tasks(pid)?.into_iter().find_map(|tid| Self::by(tid).transpose()).transpose()
    }

    /// Reads it by one thread, if that is alive.
    fn by(tid: i32) -> io::Result<Option<Self>> {
        let line = line_of(&format!("/proc/{tid}/statm"))?;
        let Some([mapped, resident, of_files]) = line.and_then(|line| numbers(&line, 0)) else {
            return Ok(None);
        };
        let page = ringfence_sys::page_bytes();
        let anonymous = resident.saturating_sub(of_files) * page;
        Ok((mapped > 0).then_some(Self { tid, mapped: mapped * page, anonymous }))
    }

    /// Bytes of its page tables, which a process can grow at will by mapping enough, and of its swapped-out memory.
    pub(crate) fn tables_and_swapped(&self) -> io::Result<(u64, u64)> {
        let text = if_there(self.text("status"))?.unwrap_or_default();
        let bytes = |key| in_kib(&text, key).unwrap_or(0) * 1024;
        Ok((bytes("VmPTE:"), bytes("VmSwap:")))
    }

    /// Anonymous memory, resident and swapped, with shared pages divided among their users. Falls back to the resident
    /// figure for a process that may not be read; 0 for one that has ended.
    pub(crate) fn proportional_bytes(&self) -> u64 {
        match self.text("smaps_rollup") {
            Ok(text) if text.is_empty() => 0,
            Ok(text) => {
                let in_place = in_kib(&text, "Pss_Anon:").map_or(self.anonymous, |kib| kib * 1024);
                in_place.saturating_add(in_kib(&text, "SwapPss:").unwrap_or(0) * 1024)
            }
            Err(error) if has_ended(&error) => 0,
            Err(_) => self.anonymous,
        }
    }

    /// Upper bound of its shared mappings, by the sizes that every process shows.
    fn shared_bytes_max(&self) -> u64 {
        let text = self.text("status").unwrap_or_default();
        let private = ["VmData:", "VmStk:", "VmExe:", "VmLib:"];
        let private = private.iter().filter_map(|key| in_kib(&text, key)).sum::<u64>() * 1024;
        self.mapped.saturating_sub(private)
    }

    pub(crate) fn text(&self, file: &str) -> io::Result<String> {
        read_kernel_file(format!("/proc/{}/{file}", self.tid))
    }
}

/// Returns true if a file of a process cannot be read because the process has ended.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    let ended = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|errno| ended.contains(&errno))
}

/// The number after `key` in a kernel file with one such line per key.
pub(crate) fn in_kib(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().trim_end_matches(" kB").parse().ok()
}

/// Anonymous memory of all, each memory counted once: a process and the child it waits for in vfork(2) share one.
pub(crate) fn proportional_bytes(members: &[Member]) -> u64 {
    let mut counted: Vec<&Member> = Vec::new();
    let mut bytes = 0_u64;
    for member in members {
        // Shared memory has one size, apart from changes between two reads.
        let again = counted.iter().rev().take(RELATIVES_MAX).any(|other| {
            other.mapped.abs_diff(member.mapped) <= SIZE_DRIFT
                && ringfence_sys::have_memory_in_common(other.tid, member.tid)
        });
        if !again {
            bytes = bytes.saturating_add(member.proportional_bytes());
            counted.push(member);
        }
    }
    bytes
}

/// Anonymous memory of a process, whichever of its threads live.
pub fn anonymous_bytes(pid: u32) -> Option<u64> {
    Some(Member::of(i32::try_from(pid).ok()?).ok()??.anonymous)
}

/// Bytes of shared anonymous mappings, each object once and with its whole size: their pages live on in memory when
/// they are dropped from every process's sight, where no resident count shows them. More mappings than can be read in
/// time are more than any limit. A process that hides its mappings counts with all that may be shared.
pub(crate) fn shared_bytes(members: &[Member]) -> u64 {
    let mut objects: HashMap<String, u64> = HashMap::new();
    let mut n_lines = 0;
    let mut hidden = 0_u64;
    for member in members {
        let read = for_each_mapping(member.tid, |line| {
            n_lines += 1;
            if n_lines > MAPPINGS_MAX {
                return ControlFlow::Break(());
            }
            if !SHARED_NAMES.iter().any(|name| line.contains(name)) {
                return ControlFlow::Continue(());
            }
            let mut fields = line.split_ascii_whitespace();
            let range = fields.next().and_then(|range| range.split_once('-'));
            let Some((start, end)) = range else { return ControlFlow::Continue(()) };
            let at = |hex: &str| u64::from_str_radix(hex, 16).unwrap_or(0);
            let size = at(end).saturating_sub(at(start));
            // The fields left are permissions, offset, device, inode.
            let inode = fields.nth(3).unwrap_or_default().to_owned();
            let known = objects.entry(inode).or_default();
            *known = (*known).max(size);
            ControlFlow::Continue(())
        });
        if read.is_err_and(|error| !has_ended(&error)) {
            hidden = hidden.saturating_add(member.shared_bytes_max());
        }
        if n_lines > MAPPINGS_MAX {
            return u64::MAX;
        }
    }
    if hidden > 0 {
        // Ringfence's own processes cannot be read: the run's PID 1, and a child before it executes the program. Each maps
        // the same binary as this process.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let own = Member::of(own).ok().flatten();
        let own = own.map_or(0, |member| member.shared_bytes_max());
        hidden = hidden.saturating_sub(own.saturating_mul(2));
    }
    objects.values().sum::<u64>().saturating_add(hidden)
}

/// Calls `each` with one line of a process's `maps` after the other: their paths are as long as the process likes.
pub(crate) fn for_each_mapping(
    pid: i32,
    mut each: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut lines = BufReader::new(open_kernel_file(format!("/proc/{pid}/maps"))?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if each(String::from_utf8_lossy(&line).trim_end()).is_break() {
            break;
        }
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
#[path = "memory_watch_tests.rs"]
mod tests;
