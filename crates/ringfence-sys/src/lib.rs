//! Safe wrappers over the Linux calls Ringfence needs and rustix does not have.
//! The only crate with `unsafe`: one operation per block, each with an argument that can be checked on the spot.
//! Takes and returns owned descriptors; errors read like a line of strace. Decides nothing.
//!
//! | module | purpose |
//! |---|---|
//! | `budget` | bounds on entries, bytes and time of work for a run |
//! | `calls` | machine code for another process: makes a list of system calls |
//! | `code` | macro that assembles such code as bytes |
//! | `error` | errors that name the failed call |
//! | `exec` | executing a program, exiting, wiping arguments |
//! | `fd` | ranges of descriptors |
//! | `file_system` | kind of a file system, bytes in use |
//! | `fork` | fork, vfork, unshare |
//! | `fork_loop` | machine code for another process: takes requests for workers and forks them |
//! | `kernel` | files of `/proc`, `/sys` and cgroups |
//! | `lock` | byte locks that show whether their holder lives |
//! | `memory` | memory files, also sealed ones |
//! | `mount` | attributes and id maps of detached mounts |
//! | `net` | interface flags, raw addresses, packets with descriptors |
//! | `pack` | machine code for another process: moves its memory onto huge pages |
//! | `pidfd` | the ids of the process behind a pidfd |
//! | `poll` | waiting for one descriptor, with a bound |
//! | `remove` | removing trees that a run may have written |
//! | `seccomp` | installing a filter and answering its notifications |
//! | `signal` | signal sets, signal descriptors, interruptions |
//! | `untrusted` | files that a run may have written, moved or replaced |
//! | `wait` | reaping children and reading their usage |

#![allow(clippy::disallowed_methods)]

#[macro_use]
mod code;

mod budget;
mod calls;
mod error;
mod exec;
mod fd;
mod file_system;
mod fork;
mod fork_loop;
mod kernel;
mod lock;
mod memory;
mod mount;
mod net;
mod pack;
mod pidfd;
mod poll;
mod remove;
pub mod seccomp;
mod signal;
pub mod untrusted;
mod wait;

pub use budget::Budget;
pub use calls::calls_code;
pub use error::{CallError, Named, errno_name};
pub use exec::{Program, execute, exit_now, wipe_arguments};
pub use fd::{
    close_from_except, close_range_between, close_range_from, duplicate_onto, set_cloexec_from,
};
pub use file_system::{TMPFS_MAGIC, used_bytes};
pub use fork::{
    Forked, NamespaceHolder, Namespaces, fork, fork_into, is_process_single_threaded,
    is_single_threaded, unshare, vfork,
};
pub use fork_loop::fork_loop_code;
pub use kernel::{list_kernel_directory, open_kernel_file, read_kernel_file};
pub use lock::{hold_byte, is_byte_held, release_byte, share_byte};
pub use memory::{RevocableMemoryFile, memory_file};
pub use mount::{MountAttributes, idmap, set_attributes};
pub use net::{
    Datagram, IpFamily, RouteKind, RoutedFamilies, answer_datagram, connect_raw,
    listen_on_every_address, loopback_up, packet_pair, receive_datagram, receive_on_every_address,
    receive_packet, route_everything_to_loopback, route_kind, send_packet, send_packet_with,
    stream_socket,
};
pub use pack::pack_code;
pub use pidfd::{ProcessIds, is_first_thread, is_of_a_thread, process_ids};
pub use poll::{is_ready, is_ready_within, ready_by, time_until};
pub use remove::{chmod_open, give_owner_access, remove_at, remove_tree};
pub use signal::{Interrupter, SignalFd, Signals, ignore, reset_actions, unblock_all};
pub use wait::{
    Ended, Reaped, have_descriptors_in_common, have_memory_in_common, reap_pid, release_memory,
    thread_cpu_time, try_reap_any, try_reap_pid,
};

/// Bytes of a page, as libc knows it from the start of the process: before Linux 6.4 `rustix` reads `/proc/self/auxv`,
/// which a process that is not dumpable cannot read.
pub fn page_bytes() -> u64 {
    // SAFETY: the call reads nothing of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// The Landlock ABI of this kernel, 0 when there is none.
pub fn landlock_abi() -> u32 {
    const CREATE_RULESET_VERSION: libc::c_ulong = 1;
    // SAFETY: with a null attribute, size 0 and the version flag the call reads and writes no memory.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}
