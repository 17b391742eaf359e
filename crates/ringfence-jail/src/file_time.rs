//! Compares the time stamps of files with the start of a run, by the clock and at the granularity of the file system
//! that made them. A stamp that could be from before or from after counts as after.

use std::os::fd::AsFd;
use std::path::Path;

use ringfence_plan::{FileId, FileStamp, WritableDir};
use ringfence_sys::TMPFS_MAGIC;
use ringfence_sys::untrusted::stat_at;
use rustix::fs::{AtFlags, FsWord, Mode, Stat};
use rustix::time::ClockId;

use crate::open::{is_on, open_exact};

/// Age of a file below which another change could leave it the same time stamp, besides the granularity of the stamp.
const RACY_NANOS: i128 = 20_000_000;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// File systems without a block device that this kernel stamps with its own clock. An overlay's upper layer cannot be on
/// NFS (`Documentation/filesystems/overlayfs.rst`); one on virtiofs is taken for local.
const LOCALLY_STAMPED: &[(&str, FsWord)] = &[
    ("overlayfs", 0x794c_7630),
    ("btrfs", 0x9123_683e),
    ("tmpfs", TMPFS_MAGIC),
    ("ZFS", 0x2fc1_2fc1),
    ("bcachefs", 0xca45_1a4e),
];

/// A time on a clock that files are stamped with, in seconds and nanoseconds.
pub(crate) type Moment = (i64, i64);

/// The stamp of a file changed now on a local file system: that clock advances by ticks of some milliseconds.
pub(crate) fn file_clock() -> Moment {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// Time of the last change of a file, its name or its properties. No run can set it.
pub(crate) fn changed_at(stat: &Stat) -> Moment {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

/// Returns true if any change after `now` is sure to give the file another time stamp.
pub(crate) fn is_old(stamp: &FileStamp, now: Moment) -> bool {
    nanos(now) - nanos(stamp.changed) > granularity(stamp.changed) + RACY_NANOS
}

/// Start of a run by the clock of each file system that the run can write.
#[derive(Clone, Debug)]
pub(crate) struct StartTimes {
    /// By device.
    each: Vec<(u64, StartTime)>,
    /// For any other device, such as one mounted below: a subvolume of btrfs is one too.
    earliest: Moment,
}

#[derive(Clone, Copy, Debug)]
struct StartTime {
    at: Moment,
    clock: FileClock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileClock {
    Local,
    /// A server's, or a virtual machine's host's.
    Other,
}

impl StartTimes {
    /// Reads the clocks of the file systems of these directories. Call before the program starts. Needs no system call
    /// for a file system on a block device, three for another local one; elsewhere makes and removes a directory.
    pub(crate) fn now<'a>(dirs: impl Iterator<Item = &'a WritableDir>) -> Self {
        let local = file_clock();
        let mut times = Self { each: Vec::new(), earliest: local };
        for WritableDir { path, id } in dirs {
            if times.of(id.dev).is_none() {
                let time = start_time(path, *id, local);
                times.each.push((id.dev, time));
                times.earliest = times.earliest.min(time.at);
            }
        }
        times
    }

    /// The same start for every device.
    #[cfg(test)]
    pub(crate) fn everywhere(at: Moment) -> Self {
        Self { each: Vec::new(), earliest: at }
    }

    /// Returns true if a file may have changed since.
    pub(crate) fn is_recent(&self, stat: &Stat) -> bool {
        is_since(changed_at(stat), self.at(stat.st_dev))
    }

    /// Returns true if the file at `path` below the open directory `dir` may have changed or come there since: moving a
    /// directory changes that directory, and nothing in it. A file that cannot be seen counts as changed.
    pub(crate) fn is_recent_below(&self, dir: impl AsFd, path: &Path) -> bool {
        path.ancestors()
            .take_while(|part| !part.as_os_str().is_empty())
            .any(|part| stat_at(dir.as_fd(), part).is_none_or(|stat| self.is_recent(&stat)))
    }

    /// Start of the run on the device `dev`.
    pub(crate) fn at(&self, dev: u64) -> Moment {
        self.of(dev).map_or(self.earliest, |time| time.at)
    }

    /// Returns the latest time that is not ahead of the clock of the device `dev`: the present time if that is the local
    /// clock.
    pub(crate) fn latest_sure(&self, dev: u64) -> Moment {
        match self.of(dev) {
            Some(StartTime { clock: FileClock::Local, .. }) => file_clock(),
            Some(StartTime { at, .. }) => at,
            None => self.earliest,
        }
    }

    fn of(&self, dev: u64) -> Option<StartTime> {
        self.each.iter().find(|(known, _)| *known == dev).map(|(_, time)| *time)
    }
}

/// Returns true if files of an open directory are stamped with the local clock.
pub(crate) fn has_local_clock(dir: impl AsFd, dev: u64) -> bool {
    // Without a block device the kernel makes a number up, whose major part is 0: `get_anon_bdev`.
    rustix::fs::major(dev) != 0 || is_on(dir, LOCALLY_STAMPED)
}

fn start_time(path: &Path, id: FileId, local: Moment) -> StartTime {
    let (is_local, at) = if rustix::fs::major(id.dev) != 0 {
        (true, local)
    } else if let Ok((dir, _)) = open_exact(path, id) {
        if has_local_clock(&dir, id.dev) {
            (true, local)
        } else {
            // A new file's stamp comes from the server; its other stamps can come from a cache with the local clock.
            (false, stamp_of_new(&dir).unwrap_or_default().min(local))
        }
    } else {
        // Everything counts as changed.
        (false, Moment::default())
    };
    let clock = if is_local { FileClock::Local } else { FileClock::Other };
    StartTime { at, clock }
}

/// The stamp of a directory made now in `dir`, and removed again. In a directory that cannot be written, the stamp of
/// `dir`, which is earlier.
fn stamp_of_new(dir: &std::os::fd::OwnedFd) -> Option<Moment> {
    let name = format!(".ringfence-clock-{}", std::process::id());
    if rustix::fs::mkdirat(dir, &name, Mode::RWXU).is_err() {
        return rustix::fs::fstat(dir).ok().as_ref().map(changed_at);
    }
    let stat = stat_at(dir, &name);
    let _ = rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR);
    stat.as_ref().map(changed_at)
}

/// Returns true if a file with the stamp `changed` may have been changed at `start` or later.
pub(crate) fn is_since(changed: Moment, start: Moment) -> bool {
    let unit = granularity(changed);
    nanos(changed) >= nanos(start).div_euclid(unit) * unit
}

/// The coarsest granularity, in nanoseconds, of a file system that makes this stamp: two seconds on FAT, one on ext3 and
/// on ext4 with inodes of 128 bytes, else the largest power of ten that divides it.
fn granularity((seconds, nanos): Moment) -> i128 {
    if nanos == 0 {
        return if seconds % 2 == 0 { 2 * NANOS_PER_SECOND } else { NANOS_PER_SECOND };
    }
    let mut unit = 1;
    while nanos % (unit * 10) == 0 {
        unit *= 10;
    }
    i128::from(unit)
}

fn nanos((seconds, nanos): Moment) -> i128 {
    i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(changed: Moment) -> FileStamp {
        FileStamp { id: FileId { dev: 1, ino: 1 }, bytes: 0, modified: (0, 0), changed }
    }

    /// The stamp that a file system of this granularity makes at this time.
    fn stamped((seconds, nanos): Moment, unit: i128) -> Moment {
        let all = super::nanos((seconds, nanos)).div_euclid(unit) * unit;
        let part = |n: i128| i64::try_from(n).unwrap();
        (part(all.div_euclid(NANOS_PER_SECOND)), part(all.rem_euclid(NANOS_PER_SECOND)))
    }

    #[test]
    fn a_change_is_recent_at_any_granularity() {
        let starts = [(1_000, 0), (1_000, 1), (1_001, 999_999_999), (1_001, 500_000_000)];
        let later = [0, 1, 150, 1_000_000, 400_000_000, 999_999_999, 1_500_000_000];
        for unit in [1, 100, 1_000, 10_000_000, NANOS_PER_SECOND, 2 * NANOS_PER_SECOND] {
            for start in starts {
                for more in later {
                    let (seconds, nanos) = (start.0, start.1 + more);
                    let changed = stamped((seconds, nanos), unit);
                    assert!(is_since(changed, start), "{unit} ns: {start:?} + {more}");
                }
            }
        }
    }

    #[test]
    fn a_change_of_before_is_not() {
        for (changed, start) in [
            ((999, 999_999_999), (1_000, 0)),
            ((1_000, 123_456_789), (1_000, 123_456_790)),
            ((999, 0), (1_000, 0)),
            ((998, 0), (1_000, 999_999_999)),
            ((1_000, 120_000_000), (1_000, 130_000_000)),
        ] {
            assert!(!is_since(changed, start), "{changed:?} {start:?}");
        }
    }

    #[test]
    fn a_file_is_old_when_the_next_change_gets_another_stamp() {
        for (changed, now, old) in [
            ((1_000, 123_456_789), (1_000, 143_456_790), false),
            ((1_000, 123_456_789), (1_000, 143_456_791), true),
            ((1_001, 0), (1_001, 900_000_000), false),
            ((1_001, 0), (1_002, 20_000_001), true),
            ((1_000, 0), (1_001, 900_000_000), false),
            ((1_000, 0), (1_002, 20_000_001), true),
            // By a clock that is behind.
            ((1_000, 123_456_789), (990, 0), false),
        ] {
            assert_eq!(is_old(&file(changed), now), old, "{changed:?} {now:?}");
        }
    }

    #[test]
    fn an_unknown_device_has_the_earliest_start() {
        let other = StartTime { at: (990, 0), clock: FileClock::Other };
        let local = StartTime { at: (1_000, 5), clock: FileClock::Local };
        let times = StartTimes { each: vec![(1, local), (2, other)], earliest: (990, 0) };
        assert_eq!([1, 2, 3].map(|dev| times.at(dev)), [(1_000, 5), (990, 0), (990, 0)]);
        assert_eq!(times.latest_sure(2), (990, 0));
        assert_eq!(times.latest_sure(3), (990, 0));
        assert!(times.latest_sure(1) > (1_000, 5));
    }

    #[test]
    fn a_file_system_is_asked_for_its_time() {
        let place = tempfile::tempdir().unwrap();
        let dir = ringfence_sys::untrusted::open_absolute(&place.path().canonicalize().unwrap());
        let dir = dir.unwrap();
        // Stamps of ticks of some milliseconds, and those are never ahead of the exact clock.
        let before = file_clock();
        let stamp = stamp_of_new(&dir).unwrap();
        assert!(is_since(stamp, before), "{stamp:?} {before:?}");
        assert!(place.path().read_dir().unwrap().next().is_none());
    }
}
