//! A thread of an ordinary user, whom permissions keep out.

use rustix::process::{Gid, Uid};

/// Ids of that user where the tests run as root.
pub const ORDINARY_ID: u32 = 61_234;

/// Runs `work` on a thread without root's access to every file.
///
/// # Panics
///
/// If `work` does, or if the thread cannot change its ids.
pub fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                rustix::thread::set_thread_gid(Gid::from_raw(ORDINARY_ID)).unwrap();
                rustix::thread::set_thread_uid(Uid::from_raw(ORDINARY_ID)).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}
