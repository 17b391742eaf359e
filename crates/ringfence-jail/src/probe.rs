//! Probes kernel features by using them, in a child that exits at once. For `doctor` and for nested fences.

use ringfence_plan::{DNS_PORT, ListenerKind, NetworkListener};
use ringfence_sys::seccomp::Instruction;
use ringfence_sys::{CallError, Ended, Forked, Named, Namespaces};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

/// Checks that all namespaces of the full tier can be made and an id map written.
pub fn namespaces() -> Result<(), CallError> {
    // The tier depends on a mount: some hosts allow the namespace, mapped or not, and refuse this.
    in_namespaces("mount(\"/\", MS_REC|MS_PRIVATE) in a user namespace", || {
        ringfence_sys::unshare(Namespaces::REST)?;
        crate::mounts::make_private()
    })
}

/// Checks that a filter with a listener can be installed.
pub fn listener() -> Result<(), CallError> {
    // BPF_RET | BPF_K with SECCOMP_RET_ALLOW: the filter itself does nothing.
    let allow = [Instruction { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 }];
    in_child("seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)", move || {
        rustix::thread::set_no_new_privs(true).named(|| "prctl(PR_SET_NO_NEW_PRIVS)")?;
        ringfence_sys::seccomp::install_with_listener(&allow).map(drop)
    })
}

/// Checks that a new procfs can be mounted in a fresh set of namespaces.
pub fn proc_mount() -> Result<(), CallError> {
    in_namespaces("fsmount(\"proc\") in new namespaces", || {
        crate::mounts::new_filesystem("proc", &[], MountAttrFlags::empty()).map(|_| ())
    })
}

/// Checks that every connection of a network namespace can be captured.
pub fn network_capture() -> Result<(), CallError> {
    in_namespaces("RTM_NEWROUTE(local default dev lo), bind(port 53)", || {
        ringfence_sys::unshare(Namespaces::NETWORK)?;
        ringfence_sys::loopback_up()?;
        let listeners = [ListenerKind::DnsUdp, ListenerKind::DnsTcp].map(|kind| NetworkListener {
            kind,
            port: DNS_PORT,
            ipv6: false,
        });
        let no_root = || Err(CallError::new("bind", rustix::io::Errno::INVAL));
        crate::network::capture(true, &listeners, no_root).map(|_| ())
    })
}

/// Does `work` in a child with its own user, mount and pid namespaces and an id map.
fn in_namespaces(
    call: &str,
    work: impl FnOnce() -> Result<(), CallError>,
) -> Result<(), CallError> {
    let (ours, theirs) = crate::channel::pair()?;
    match ringfence_sys::fork_into(Namespaces::INITIAL, None)? {
        Forked::Child => {
            drop(ours);
            // Until the other side lets go, which it does when the map is written.
            let _ = crate::channel::receive(&theirs);
            ringfence_sys::exit_now(work().map_or_else(|e| e.errno.raw_os_error(), |()| 0))
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let uid = rustix::process::geteuid().as_raw();
            let map = std::fs::write(format!("/proc/{pid}/uid_map"), format!("0 {uid} 1"))
                .named(|| "write(uid_map)");
            drop(ours);
            let reaped = ringfence_sys::reap_pid(pid)?;
            map?;
            judge(call, reaped.ended)
        }
    }
}

/// Checks that a cgroup leaf with limits can be made; returns the hierarchy's name.
pub fn cgroup() -> Result<&'static str, String> {
    let parent = crate::cgroup::find_parent()?;
    let plan = ringfence_plan::CgroupPlan {
        memory_bytes_max: Some(64 << 20),
        pids_max: Some(16),
        count_cpu: false,
    };
    let leaf = crate::cgroup::Leaf::new(&parent);
    leaf.and_then(|mut leaf| leaf.limit(&plan)).map_err(|e| e.to_string())?;
    Ok(match parent {
        crate::cgroup::Parent::V2 { .. } => "cgroup2",
        crate::cgroup::Parent::V1 { .. } => "cgroup1",
    })
}

fn in_child(call: &str, work: impl FnOnce() -> Result<(), CallError>) -> Result<(), CallError> {
    match ringfence_sys::fork()? {
        Forked::Child => {
            ringfence_sys::exit_now(work().map_or_else(|e| e.errno.raw_os_error(), |()| 0))
        }
        Forked::Parent { pid, .. } => {
            let reaped = ringfence_sys::reap_pid(pid)?;
            judge(call, reaped.ended)
        }
    }
}

fn judge(call: &str, ended: Ended) -> Result<(), CallError> {
    match ended {
        Ended::Exited(0) => Ok(()),
        Ended::Exited(errno) => Err(CallError::new(call, Errno::from_raw_os_error(errno))),
        Ended::Signaled(_) => Err(CallError::new(call, Errno::IO)),
    }
}

/// Core dumps on this host, and `kernel.core_pattern` itself.
pub fn core_dumps() -> (ringfence_plan::CoreDumps, String) {
    crate::survey::core_dumps()
}

/// The Landlock ABI, 0 if there is none.
pub fn landlock_abi() -> u32 {
    ringfence_sys::landlock_abi()
}

/// Returns true if seccomp filters can be installed.
pub fn filter() -> bool {
    ringfence_sys::seccomp::filter_available()
}
