//! Installing a filter and answering its notifications.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::CallError;

const SET_MODE_FILTER: libc::c_ulong = 1;
const GET_ACTION_AVAIL: libc::c_ulong = 2;
const GET_NOTIF_SIZES: libc::c_ulong = 3;
const FLAG_NEW_LISTENER: libc::c_ulong = 1 << 3;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const RET_ERRNO: u32 = 0x0005_0000;

/// `SECCOMP_IOCTL_NOTIF_RECV`, `_SEND` and `_ID_VALID`: `_IOWR('!', 0, struct seccomp_notif)` and so on.
const IOCTL_RECV: libc::c_ulong = 0xc050_2100;
const IOCTL_SEND: libc::c_ulong = 0xc018_2101;
const IOCTL_ID_VALID: libc::c_ulong = 0x4008_2102;

/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS` and its flag `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
const IOCTL_SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// One BPF instruction, `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump if true.
    pub jt: u8,
    /// Jump if false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Id of the notification, until it is answered.
    pub id: u64,
    /// The thread, as this process sees it.
    pub pid: u32,
    /// System call number.
    pub nr: i32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct RawNotification {
    id: u64,
    pid: u32,
    flags: u32,
    nr: i32,
    arch: u32,
    instruction_pointer: u64,
    args: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct RawReply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Returns true if filters that answer with an errno can be installed here.
pub fn filter_available() -> bool {
    action_available(RET_ERRNO)
}

/// Returns true if filters that notify can be installed here.
pub fn notify_available() -> bool {
    let mut sizes = [0u16; 3];
    // SAFETY: the call writes a `struct seccomp_notif_sizes`, three u16, into `sizes`, which is live.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0usize, sizes.as_mut_ptr()) };
    // A kernel with larger structures would write past ours.
    let fits = usize::from(sizes[0]) <= std::mem::size_of::<RawNotification>()
        && usize::from(sizes[1]) <= std::mem::size_of::<RawReply>();
    result == 0 && fits && action_available(RET_USER_NOTIF)
}

fn action_available(action: u32) -> bool {
    // SAFETY: the call reads one u32, which is live.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0usize, std::ptr::from_ref(&action))
    };
    result == 0
}

/// Installs a filter on this thread. Needs `no_new_privs`.
pub fn install(instructions: &[Instruction]) -> Result<(), CallError> {
    install_with(instructions, 0, "").map(drop)
}

/// Installs a filter on this thread, and returns the descriptor of its notifications. Needs `no_new_privs`.
pub fn install_with_listener(instructions: &[Instruction]) -> Result<OwnedFd, CallError> {
    let name = ", SECCOMP_FILTER_FLAG_NEW_LISTENER";
    let fd = install_with(instructions, FLAG_NEW_LISTENER, name)?;
    let fd = i32::try_from(fd).unwrap_or(-1);
    // SAFETY: with NEW_LISTENER the result is a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn install_with(
    instructions: &[Instruction],
    flags: libc::c_ulong,
    name: &str,
) -> Result<libc::c_long, CallError> {
    let len = u16::try_from(instructions.len())
        .map_err(|_| CallError::new("seccomp(SECCOMP_SET_MODE_FILTER)", Errno::INVAL))?;
    let program = Program { len, filter: instructions.as_ptr() };
    // SAFETY: `program` describes `instructions`, both live; the kernel copies and checks them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    };
    if result < 0 {
        return Err(CallError::last(format!("seccomp(SECCOMP_SET_MODE_FILTER{name})")));
    }
    Ok(result)
}

/// Has the listener and the process that waits for its answer take turns on one processor, which saves the time to wake
/// another. Kernels before 6.6 go on as before.
pub fn take_turns_on_one_processor(listener: impl AsFd) {
    // SAFETY: the argument is a number, and no memory is touched.
    let _ =
        unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), IOCTL_SET_FLAGS as _, SYNC_WAKE_UP) };
}

/// The next waiting call. `None` when the caller died before we looked.
pub fn receive(listener: impl AsFd) -> Result<Option<Notification>, CallError> {
    let mut raw = RawNotification::default();
    // SAFETY: `raw` is a zeroed `struct seccomp_notif` of at least the kernel's size (checked by `notify_available`).
    let result =
        unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), IOCTL_RECV as _, &raw mut raw) };
    if result == 0 {
        let RawNotification { id, pid, nr, args, .. } = raw;
        return Ok(Some(Notification { id, pid, nr, args }));
    }
    let error = CallError::last("ioctl(SECCOMP_IOCTL_NOTIF_RECV)");
    match error.errno {
        Errno::NOENT | Errno::INTR => Ok(None),
        _ => Err(error),
    }
}

/// Answers a call: `Ok(value)` makes it return that, `Err(errno)` makes it fail. A caller that is gone is no error.
pub fn reply(listener: impl AsFd, id: u64, answer: Result<i64, Errno>) -> Result<(), CallError> {
    let (value, error) = match answer {
        Ok(value) => (value, 0),
        Err(errno) => (0, -errno.raw_os_error()),
    };
    send(listener, &RawReply { id, value, error, flags: 0 })
}

/// Lets the kernel go on with a call. For calls whose arguments are all in registers: memory behind a pointer may have
/// changed since it was checked.
pub fn let_through(listener: impl AsFd, id: u64) -> Result<(), CallError> {
    const FLAG_CONTINUE: u32 = 1;
    send(listener, &RawReply { id, value: 0, error: 0, flags: FLAG_CONTINUE })
}

fn send(listener: impl AsFd, raw: &RawReply) -> Result<(), CallError> {
    loop {
        // SAFETY: `raw` is a live `struct seccomp_notif_resp`; the kernel reads it.
        let result = unsafe {
            libc::ioctl(listener.as_fd().as_raw_fd(), IOCTL_SEND as _, std::ptr::from_ref(raw))
        };
        if result == 0 {
            return Ok(());
        }
        let error = CallError::last("ioctl(SECCOMP_IOCTL_NOTIF_SEND)");
        match error.errno {
            Errno::NOENT => return Ok(()),
            // A signal of an `Interrupter` came while the filter was in use.
            Errno::INTR => {}
            _ => return Err(error),
        }
    }
}

/// Returns true if the call `id` still waits: after this, what was read of its process was really of that process.
pub fn is_waiting(listener: impl AsFd, id: u64) -> bool {
    loop {
        // SAFETY: the kernel reads one u64, which is live.
        let result = unsafe {
            libc::ioctl(listener.as_fd().as_raw_fd(), IOCTL_ID_VALID as _, &raw const id)
        };
        if result == 0 || CallError::last("ioctl").errno != Errno::INTR {
            return result == 0;
        }
    }
}
