//! Making processes. Only a process with one thread may fork without exec: another thread could hold the
//! allocator's lock at that moment, and the child would wait for it for ever.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::CallError;

/// Namespaces of a new child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    flags: u64,
}

impl Namespaces {
    /// None.
    pub const NONE: Self = Self { flags: 0 };
    /// Users and capabilities.
    pub const USER: Self = Self::of(libc::CLONE_NEWUSER);
    /// The mount table.
    pub const MOUNT: Self = Self::of(libc::CLONE_NEWNS);
    /// Process numbers.
    pub const PID: Self = Self::of(libc::CLONE_NEWPID);
    /// Interfaces, addresses, ports and abstract sockets.
    pub const NETWORK: Self = Self::of(libc::CLONE_NEWNET);
    /// System V and POSIX queues, semaphores and shared memory.
    pub const IPC: Self = Self::of(libc::CLONE_NEWIPC);
    /// Host name.
    pub const UTS: Self = Self::of(libc::CLONE_NEWUTS);
    /// The view of cgroups.
    pub const CGROUP: Self = Self::of(libc::CLONE_NEWCGROUP);
    /// User, mount and pid: what a child must be born into.
    pub const INITIAL: Self = Self::USER.and(Self::MOUNT).and(Self::PID);
    /// Network, ipc, uts and cgroup: what it can move into by itself.
    pub const REST: Self = Self::NETWORK.and(Self::IPC).and(Self::UTS).and(Self::CGROUP);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { flags: self.flags | other.flags }
    }

    const fn of(flag: libc::c_int) -> Self {
        Self { flags: flag.unsigned_abs() as u64 }
    }
}

/// Side of a fork.
#[derive(Debug)]
pub enum Forked {
    /// The parent, with the child's pid and a descriptor for it.
    Parent {
        /// As the parent sees it.
        pid: i32,
        /// Becomes readable when the child ends.
        pidfd: OwnedFd,
    },
    /// The child.
    Child,
}

/// `struct clone_args`, as far as we use it (`CLONE_ARGS_SIZE_VER2`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Moves this process into new namespaces.
pub fn unshare(namespaces: Namespaces) -> Result<(), CallError> {
    let flags = libc::c_int::try_from(namespaces.flags).unwrap_or(-1);
    // SAFETY: unshare takes an integer; none of the flags above touches memory or descriptors of this process.
    let result = unsafe { libc::unshare(flags) };
    if result == 0 { Ok(()) } else { Err(CallError::last(describe("unshare", namespaces))) }
}

/// Returns true if this process has exactly one thread. Reads `/proc`; false if that cannot be read.
pub fn is_single_threaded() -> bool {
    has_one_thread("/proc/self/task")
}

/// The same for another process, which counts threads that are about to end.
pub fn is_process_single_threaded(pid: u32) -> bool {
    has_one_thread(&format!("/proc/{pid}/task"))
}

fn has_one_thread(tasks: &str) -> bool {
    // A directory of directories has two links of its own and one for each child: see proc(5) on `task`.
    rustix::fs::stat(tasks).is_ok_and(|stat| stat.st_nlink == 3)
}

/// Forks this process as it is.
pub fn fork() -> Result<Forked, CallError> {
    fork_into(Namespaces::NONE, None)
}

/// Forks into new namespaces and, on cgroup v2, straight into `cgroup`.
pub fn fork_into(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Forked, CallError> {
    if !is_single_threaded() {
        return Err(CallError::new("fork in a process with several threads", Errno::DEADLK));
    }
    fork_unchecked(namespaces, cgroup)
}

/// Bytes of stack for a child in this process's memory, the guard below it included.
const STACK_BYTES: usize = 320 << 10;

/// Size of the guard: the largest page of any kernel for x86-64 or arm64. The page size itself cannot be
/// asked for here: before Linux 6.4 (`PR_GET_AUXV`) the answer is in `/proc/self/auxv`, which an undumpable process may
/// not open.
const GUARD_BYTES: usize = 64 << 10;

/// Starts a process that runs `work` in *this* process's memory while this one stands still, until it executes a
/// program or ends. No page is copied and none is touched twice, which a fork pays for on both sides.
///
/// Changes of memory by `work` stay here; its descriptors, directory, credentials and signals are its own.
pub fn vfork<F: FnOnce()>(work: F) -> Result<i32, CallError> {
    extern "C" fn enter<F: FnOnce()>(work: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `work` is the slot below, alive while the parent stands still, and taken once.
        let work = unsafe { (*work.cast::<Option<F>>()).take() };
        let work = std::panic::AssertUnwindSafe(|| work.map(|work| work()));
        let _ = std::panic::catch_unwind(work);
        crate::exit_now(1)
    }
    let stack = Stack::new()?;
    let mut slot = Some(work);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, so it disturbs no frame of ours; CLONE_VFORK keeps this thread, the
    // only one (see the callers of this module), from running before the child has let go of the memory; `slot` and
    // `stack` outlive that moment.
    let pid = unsafe {
        libc::clone(enter::<F>, stack.top(), flags, (&raw mut slot).cast::<libc::c_void>())
    };
    if pid > 0 { Ok(pid) } else { Err(CallError::last("clone(CLONE_VM|CLONE_VFORK|SIGCHLD)")) }
}

/// A process that holds new namespaces open and does nothing else, until this value is dropped.
#[derive(Debug)]
pub struct NamespaceHolder {
    /// As this process sees it.
    pub pid: i32,
    /// Its closing ends the process.
    ours: Option<OwnedFd>,
    _pipe: Box<[RawFd; 2]>,
    _stack: Stack,
}

impl NamespaceHolder {
    /// Starts one. It shares this process's memory, of which it touches nothing, so that none need be copied.
    pub fn new(namespaces: Namespaces) -> Result<Self, CallError> {
        extern "C" fn wait(pipe: *mut libc::c_void) -> libc::c_int {
            // SAFETY: the pair below, which lives until this process was reaped.
            let [theirs, ours] = unsafe { *pipe.cast::<[RawFd; 2]>() };
            // rustix calls the kernel itself; libc would write `errno`, which the parent shares.
            // SAFETY: this process's own copy of a descriptor, which nothing else in it uses.
            unsafe { rustix::io::close(ours) };
            // SAFETY: the same, open until this process ends.
            let theirs = unsafe { BorrowedFd::borrow_raw(theirs) };
            // The end of the pipe is the end of the parent, or its leave to go.
            while rustix::io::read(theirs, &mut [0u8; 1]) == Err(Errno::INTR) {}
            crate::exit_now(0)
        }
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| CallError::new("pipe2", e))?;
        let stack = Stack::new()?;
        let flags =
            libc::c_int::try_from(namespaces.flags).unwrap_or(-1) | libc::CLONE_VM | libc::SIGCHLD;
        let pipe = Box::new([theirs.as_raw_fd(), ours.as_raw_fd()]);
        // SAFETY: the child runs `wait` on a stack of its own, which lives until the child was reaped in `drop`;
        // `wait` reads a descriptor into that stack and exits, so nothing of this process's memory changes.
        let pid = unsafe {
            libc::clone(
                wait,
                stack.top(),
                flags,
                (&raw const *pipe).cast_mut().cast::<libc::c_void>(),
            )
        };
        if pid < 0 {
            return Err(CallError::last(describe("clone", namespaces)));
        }
        Ok(Self { pid, ours: Some(ours), _pipe: pipe, _stack: stack })
    }

    /// Tells it to end, without waiting for that.
    pub fn dismiss(&mut self) {
        self.ours = None;
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        drop(self.ours.take());
        let _ = crate::reap_pid(self.pid);
    }
}

/// Memory for a stack, with a guard page below it.
#[derive(Debug)]
struct Stack {
    base: *mut libc::c_void,
}

impl Stack {
    fn new() -> Result<Self, CallError> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping at a place of the kernel's choice.
        let base = unsafe { rustix::mm::mmap_anonymous(none, STACK_BYTES, protection, flags) }
            .map_err(|e| CallError::new("mmap(stack)", e))?;
        let stack = Self { base };
        // SAFETY: the first pages of that mapping, which is unused yet.
        unsafe { rustix::mm::mprotect(base, GUARD_BYTES, MprotectFlags::empty()) }
            .map_err(|e| CallError::new("mprotect(stack)", e))?;
        Ok(stack)
    }

    /// Top of the stack, which grows downwards.
    fn top(&self) -> *mut libc::c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.byte_add(STACK_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping made above, which nothing refers to any more.
        let _ = unsafe { rustix::mm::munmap(self.base, STACK_BYTES) };
    }
}

fn fork_unchecked(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Forked, CallError> {
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: namespaces.flags | libc::CLONE_PIDFD as u64,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or(u64::MAX);
    }
    // SAFETY: without CLONE_VM the child runs on a copy of this memory, like fork(2); there is one thread (by the
    // callers), so no lock is held by a thread that the copy lacks; `args` and `pidfd` outlive the call.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, &raw const args, std::mem::size_of::<CloneArgs>())
    };
    match pid {
        0 => Ok(Forked::Child),
        pid if pid > 0 => {
            // SAFETY: CLONE_PIDFD made the kernel store a new descriptor here, which has no other owner.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd })
        }
        _ => {
            let error = CallError::last(describe("clone3", namespaces));
            // Older container profiles do not know clone3 and answer ENOSYS, so that libc falls back; so do we.
            if error.errno == Errno::NOSYS && cgroup.is_none() {
                return fork_by_clone(namespaces);
            }
            Err(error)
        }
    }
}

fn fork_by_clone(namespaces: Namespaces) -> Result<Forked, CallError> {
    let mut pidfd: RawFd = -1;
    let flags = namespaces.flags | libc::CLONE_PIDFD as u64 | libc::SIGCHLD as u64;
    // SAFETY: as above; a null stack means the copy goes on with its own. x86_64 and aarch64 both take
    // (flags, stack, parent_tid, …), and with CLONE_PIDFD the kernel stores the descriptor through parent_tid.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags,
            std::ptr::null::<libc::c_void>(),
            &raw mut pidfd,
            std::ptr::null::<libc::c_void>(),
            0usize,
        )
    };
    match pid {
        0 => Ok(Forked::Child),
        pid if pid > 0 => {
            // SAFETY: CLONE_PIDFD made the kernel store a new descriptor here, which has no other owner.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid: i32::try_from(pid).unwrap_or(-1), pidfd })
        }
        _ => Err(CallError::last(describe("clone", namespaces))),
    }
}

fn describe(call: &str, namespaces: Namespaces) -> String {
    let names = [
        (Namespaces::USER, "CLONE_NEWUSER"),
        (Namespaces::MOUNT, "CLONE_NEWNS"),
        (Namespaces::PID, "CLONE_NEWPID"),
        (Namespaces::NETWORK, "CLONE_NEWNET"),
        (Namespaces::IPC, "CLONE_NEWIPC"),
        (Namespaces::UTS, "CLONE_NEWUTS"),
        (Namespaces::CGROUP, "CLONE_NEWCGROUP"),
    ];
    let wanted = names.iter().filter(|(one, _)| namespaces.flags & one.flags != 0);
    let wanted: Vec<&str> = wanted.map(|(_, name)| *name).collect();
    if wanted.is_empty() {
        format!("{call}(SIGCHLD)")
    } else {
        format!("{call}({})", wanted.join("|"))
    }
}
