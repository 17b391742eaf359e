//! The child: `for step in steps`. It executes the plan, reports the first failure, and decides nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_plan::catalogue::SSH_AGENT;
use ringfence_plan::{BindSource, Identity, Mount, Namespace, Orders, Resource, Rlimit, Step};
use ringfence_sys::{CallError, Named, Namespaces, Program, SignalFd, Signals};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::channel::{self, Failure, Message, SetupPart};
use crate::handover::Handover;
use crate::mounts::{self, NewRoot};

/// Exit code of a child that failed before the program started. Not read: the report has the reason.
const EXIT_FAILED: i32 = 125;

/// Executes a plan in a freshly forked child. Never returns.
pub(crate) fn walk(orders: Orders, handover: Handover) -> ! {
    in_child(handover, |child| {
        child.orders = orders;
        let steps = if child.orders.setup.is_empty() {
            child.orders.payload.clone()
        } else {
            child.orders.setup.clone()
        };
        child.follow(&steps);
    })
}

/// The same in a child forked before its plan: does the steps that every run begins with, then waits for the rest.
pub(crate) fn walk_early(handover: Handover, identity: Identity, done: &[Step]) -> ! {
    in_child(handover, |child| {
        child.orders.identity = identity;
        if child.follow(done) {
            child.follow_orders(done.len(), |_| Ok(()));
        }
    })
}

/// The same in a child that may wait for long: says when it is ready, and fails if a mount is no longer where it was. A mask
/// moves with the file under it when the host renames that, and goes with it.
pub(crate) fn walk_ready(handover: Handover, identity: Identity, done: &[Step]) -> ! {
    in_child(handover, |child| {
        child.orders.identity = identity;
        if child.follow(done) && channel::send(&child.handover.control, &Message::Ready).is_ok() {
            let movable: Vec<&Mount> = mounts::movable(done).collect();
            child.follow_orders(done.len(), |root| {
                movable.iter().try_for_each(|mount| root.check_in_place(mount))
            });
        }
    })
}

fn in_child(handover: Handover, work: impl FnOnce(&mut Child)) -> ! {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut child = Child {
            orders: Orders::default(),
            handover,
            root: None,
            terminal: None,
            cgroup_tasks: Vec::new(),
            prepared: VecDeque::new(),
        };
        // The program inherits the actions, also those that this program's caller ignores.
        ringfence_sys::reset_actions();
        work(&mut child);
    }));
    drop(outcome);
    ringfence_sys::exit_now(EXIT_FAILED)
}

struct Child {
    orders: Orders,
    handover: Handover,
    root: Option<NewRoot>,
    terminal: Option<OwnedFd>,
    cgroup_tasks: Vec<OwnedFd>,
    /// Idmapped mounts, in the order of the plan's idmapped binds.
    prepared: VecDeque<OwnedFd>,
}

impl Child {
    /// Executes each step in turn; reports the first failure. Returns true if all succeeded.
    fn follow(&mut self, steps: &[Step]) -> bool {
        for step in steps {
            if let Err(error) = self.obey(step) {
                self.fail(step, error);
                return false;
            }
        }
        true
    }

    /// Waits for the plan and executes it behind the steps that are done, if the root passes the check.
    fn follow_orders(
        &mut self,
        n_done: usize,
        check: impl FnOnce(&NewRoot) -> Result<(), CallError>,
    ) {
        match self.receive_orders() {
            Ok(orders) => self.orders = orders,
            Err(error) => return self.fail(&Step::TakeSupplies, error),
        }
        if let Err(error) = self.root().and_then(check) {
            let (part, step) = (SetupPart::SystemView, "system view".to_owned());
            return self.send_failure(Failure { part, step, error });
        }
        if let Some(root) = &mut self.root {
            root.forget_paths();
        }
        let rest = self.orders.setup.split_off(n_done.min(self.orders.setup.len()));
        self.follow(&rest);
    }

    fn receive_orders(&mut self) -> Result<Orders, CallError> {
        match channel::receive(&self.handover.control)? {
            Some(Message::Orders { orders, stdio, channel }) => {
                self.handover.stdio = stdio;
                self.handover.channel = channel;
                crate::plan_transfer::read(&orders)
            }
            _ => Err(CallError::new("waiting for orders", Errno::PIPE)),
        }
    }

    fn fail(&self, step: &Step, error: CallError) {
        let part = SetupPart::of(step);
        let step = match step {
            Step::Mount(mount) => format!("mount `{}`", mount.at().display()),
            other => format!("{other:?}"),
        };
        self.send_failure(Failure { part, step, error });
    }

    fn send_failure(&self, failure: Failure) {
        // If the send fails, the supervisor sees the socket close and the child exit.
        let _ = channel::send(&self.handover.report, &Message::Failed(failure));
    }

    fn obey(&mut self, step: &Step) -> Result<(), CallError> {
        match step {
            Step::CloseDescriptors => self.close_descriptors(),
            Step::JoinCgroup => self.join_cgroup(),
            Step::TakeIdentity => self.take_identity(),
            Step::Unshare { namespaces } => ringfence_sys::unshare(kinds(namespaces)),
            Step::TakeSupplies => self.take_supplies(),
            Step::TakeLeave => self.take_leave(),
            Step::PrivateMounts => mounts::make_private(),
            Step::Hostname { name } => {
                rustix::system::sethostname(name.as_bytes()).named(|| "sethostname")
            }
            Step::LoopbackUp => ringfence_sys::loopback_up(),
            Step::CaptureNetwork { captures, listeners } => {
                let agent = || self.root()?.listen(Path::new(SSH_AGENT));
                let listeners = crate::network::capture(*captures, listeners, agent)?;
                channel::send(&self.handover.report, &Message::Network(listeners))
            }
            Step::NewRoot => {
                let root = NewRoot::new()?;
                let fd = root.fd.try_clone().named(|| "dup(root)")?;
                self.root = Some(root);
                channel::send(&self.handover.report, &Message::Root(fd))
            }
            Step::SizeRoot { bytes_max, inodes_max } => {
                self.root()?.resize(*bytes_max, *inodes_max)
            }
            Step::Mount(mount) => {
                let idmapped = matches!(
                    mount,
                    Mount::Bind { source: BindSource::Host { idmapped: true, .. }, .. }
                );
                let prepared = if idmapped { self.prepared.pop_front() } else { None };
                self.root_mut()?.obey(mount, prepared)
            }
            Step::NoExecute { at } => self.root()?.no_execute(at),
            Step::SealRoot => self.root_mut()?.seal(),
            Step::DetachOldRoot => self.root_mut()?.detach_old(),
            Step::DieWithParent => self.die_with_parent(),
            Step::WipeSelf => ringfence_sys::wipe_arguments("ringfence"),
            Step::HideSelf => rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
                .named(|| "prctl(PR_SET_DUMPABLE, 0)"),
            Step::ForkPayload => self.fork_payload(),
            Step::NewSession => self.new_session(),
            Step::ChangeDirectory => {
                let cwd = &self.orders.cwd;
                rustix::process::chdir(cwd).named(|| format!("chdir({cwd:?})"))
            }
            Step::SetRlimits { limits } => limits.iter().try_for_each(set_rlimit),
            Step::BecomeUser { uid, gid } => become_user(*uid, *gid),
            Step::DropBoundingSet => drop_bounding_set(),
            Step::DropCapabilities => drop_capabilities(),
            Step::NoNewPrivileges => {
                rustix::thread::set_no_new_privs(true).named(|| "prctl(PR_SET_NO_NEW_PRIVS)")
            }
            Step::Landlock => match &self.orders.landlock {
                Some(landlock) => crate::landlock::restrict(landlock),
                None => Err(CallError::new("landlock step without rules", Errno::INVAL)),
            },
            Step::Seccomp => self.seccomp(),
            Step::Execute => self.execute(),
        }
    }

    fn root(&self) -> Result<&NewRoot, CallError> {
        self.root.as_ref().ok_or_else(|| CallError::new("mount before the new root", Errno::INVAL))
    }

    fn root_mut(&mut self) -> Result<&mut NewRoot, CallError> {
        self.root.as_mut().ok_or_else(|| CallError::new("before the new root", Errno::INVAL))
    }

    fn close_descriptors(&self) -> Result<(), CallError> {
        ringfence_sys::close_from_except(3, &mut self.handover.numbers())
    }

    fn join_cgroup(&self) -> Result<(), CallError> {
        // `0` means the writing thread. On v1 the kernel then skips the lock whose write side waits out an RCU grace
        // period, 5-15 ms on a quiet machine; on v2 clone3 already placed the child, and the list is empty.
        for tasks in &self.cgroup_tasks {
            rustix::io::write(tasks, b"0").named(|| "write(cgroup tasks, \"0\")")?;
        }
        Ok(())
    }

    fn take_identity(&self) -> Result<(), CallError> {
        match channel::receive(&self.handover.control)? {
            Some(Message::Go) => {}
            _ => return Err(CallError::new("waiting for the id maps", Errno::PIPE)),
        }
        let identity = self.orders.identity;
        let gid = rustix::process::Gid::from_raw(identity.guest_gid);
        let uid = rustix::process::Uid::from_raw(identity.guest_uid);
        if identity.disk_owner.is_some() {
            drop_groups()?;
        }
        rustix::thread::set_thread_res_gid(gid, gid, gid).named(|| "setresgid")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).named(|| "setresuid")
    }

    fn take_supplies(&mut self) -> Result<(), CallError> {
        match channel::receive(&self.handover.control)? {
            Some(Message::Supplies(mounts)) => {
                self.prepared = mounts.into();
                Ok(())
            }
            _ => Err(CallError::new("waiting for supplies", Errno::PIPE)),
        }
    }

    fn take_leave(&mut self) -> Result<(), CallError> {
        match channel::receive(&self.handover.control)? {
            Some(Message::Leave(cgroup_tasks)) => {
                self.cgroup_tasks = cgroup_tasks;
                Ok(())
            }
            _ => Err(CallError::new("waiting for leave", Errno::PIPE)),
        }
    }

    fn die_with_parent(&self) -> Result<(), CallError> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .named(|| "prctl(PR_SET_PDEATHSIG)")?;
        // The parent may have died before the line above; then its end of the socket is closed.
        let mut fds = [PollFd::new(&self.handover.control, PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).named(|| "poll(control)")?;
        if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(CallError::new("the supervisor is gone", Errno::SRCH));
        }
        Ok(())
    }

    /// Splits into init and payload. Returns in neither: the payload becomes the program, init its reaper.
    fn fork_payload(&mut self) -> Result<(), CallError> {
        let child_signal = Signals::of(&[Signal::CHILD.as_raw()]);
        child_signal.block()?;
        let payload = std::mem::take(&mut self.orders.payload);
        // This process came from a fork and has one thread, so vfork(2) suspends all of it.
        let program = ringfence_sys::vfork(|| {
            self.follow(&payload);
        })?;
        let result = self.init(program, child_signal);
        ringfence_sys::exit_now(i32::from(result.is_err()))
    }

    /// PID 1 of the run: forwards signals, reaps, reports the program's exit. When it exits the kernel kills the rest.
    fn init(&self, program: i32, child_signal: Signals) -> Result<(), CallError> {
        let children = SignalFd::new(child_signal)?;
        // Keep the control socket and the signal descriptor: nothing of the program's, nothing of the host's.
        let mut keep = [self.handover.control.as_raw_fd(), children.as_fd().as_raw_fd()];
        ringfence_sys::close_from_except(0, &mut keep)?;
        // It executes nothing more, so the bounding set, which limits what exec can grant, does not matter here.
        empty_capabilities()?;
        rustix::thread::set_no_new_privs(true).named(|| "prctl(PR_SET_NO_NEW_PRIVS)")?;
        loop {
            let mut fds = [
                PollFd::new(&children, PollFlags::IN),
                PollFd::new(&self.handover.control, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))
                .named(|| "poll(init)")?;
            let [for_children, for_control] = [fds[0].revents(), fds[1].revents()];
            if !for_control.is_empty() {
                match channel::receive(&self.handover.control)? {
                    Some(Message::Signal(number)) => send_signal(program, number),
                    // The supervisor is gone or sent an invalid message: exit, and the kernel kills everything here.
                    _ => return Ok(()),
                }
            }
            if !for_children.is_empty() {
                children.next()?;
                while let Some(reaped) = ringfence_sys::try_reap_any()? {
                    if reaped.pid == program {
                        return channel::send(
                            &self.handover.control,
                            &Message::Ended(reaped.ended),
                        );
                    }
                }
            }
        }
    }

    fn new_session(&mut self) -> Result<(), CallError> {
        rustix::process::setsid().named(|| "setsid")?;
        if self.handover.stdio.iter().any(Option::is_none) {
            let slave = crate::terminal::open_inside(&self.handover.report)?;
            self.terminal = Some(slave);
        }
        Ok(())
    }

    fn seccomp(&self) -> Result<(), CallError> {
        let Some(filter) = &self.orders.seccomp else {
            return Err(CallError::new("seccomp step without a filter", Errno::INVAL));
        };
        let instructions: Vec<ringfence_sys::seccomp::Instruction> = filter
            .insns
            .iter()
            .map(|i| ringfence_sys::seccomp::Instruction {
                code: i.code,
                jt: i.jt,
                jf: i.jf,
                k: i.k,
            })
            .collect();
        self.wire_stdio()?;
        if !filter.listener {
            return ringfence_sys::seccomp::install(&instructions);
        }
        let listener = ringfence_sys::seccomp::install_with_listener(&instructions)?;
        channel::send(&self.handover.report, &Message::Listener(listener))
    }

    /// Puts 0, 1 and 2 in place and marks everything else to be closed by exec.
    fn wire_stdio(&self) -> Result<(), CallError> {
        // Move sources away from 0, 1 and 2 first, so that no move overwrites one.
        let mut moved: [Option<OwnedFd>; 3] = [const { None }; 3];
        let mut sources: Vec<BorrowedFd<'_>> = Vec::with_capacity(3);
        for (slot, moved) in self.handover.stdio.iter().zip(&mut moved) {
            let fd = match (slot, &self.terminal) {
                (Some(fd), _) => fd.as_fd(),
                (None, Some(terminal)) => terminal.as_fd(),
                (None, None) => return Err(CallError::new("no terminal for stdio", Errno::BADF)),
            };
            let fd = if fd.as_raw_fd() > 2 {
                fd
            } else {
                let copy = rustix::io::fcntl_dupfd_cloexec(fd, 4);
                OwnedFd::as_fd(moved.insert(copy.named(|| "fcntl(F_DUPFD_CLOEXEC)")?))
            };
            sources.push(fd);
        }
        rustix::stdio::dup2_stdin(sources[0]).named(|| "dup2(0)")?;
        rustix::stdio::dup2_stdout(sources[1]).named(|| "dup2(1)")?;
        rustix::stdio::dup2_stderr(sources[2]).named(|| "dup2(2)")?;
        let Some(channel) = &self.handover.channel else {
            return ringfence_sys::set_cloexec_from(3);
        };
        let source =
            rustix::io::fcntl_dupfd_cloexec(channel, 4).named(|| "fcntl(F_DUPFD_CLOEXEC)")?;
        ringfence_sys::duplicate_onto(&source, 3)?;
        ringfence_sys::set_cloexec_from(4)
    }

    fn execute(&self) -> Result<(), CallError> {
        if self.orders.seccomp.is_none() {
            self.wire_stdio()?;
        }
        let path = self.orders.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
        let program = Program::new(
            &self.orders.argv,
            self.orders.environment.iter().map(|(k, v)| (k, v)),
            &path,
        )?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        ringfence_sys::unblock_all()?;
        Err(ringfence_sys::execute(&program))
    }
}

/// The plan's namespaces as the kernel's flags.
pub(crate) fn kinds(namespaces: &[Namespace]) -> Namespaces {
    namespaces.iter().fold(Namespaces::NONE, |all, one| {
        all.and(match one {
            Namespace::User => Namespaces::USER,
            Namespace::Mount => Namespaces::MOUNT,
            Namespace::Pid => Namespaces::PID,
            Namespace::Network => Namespaces::NETWORK,
            Namespace::Ipc => Namespaces::IPC,
            Namespace::Uts => Namespaces::UTS,
            Namespace::Cgroup => Namespaces::CGROUP,
        })
    })
}

fn send_signal(program: i32, number: i32) {
    let (Some(pid), Some(signal)) =
        (rustix::process::Pid::from_raw(program), Signal::from_named_raw(number))
    else {
        return;
    };
    // The program leads its own session and group; it may have died a moment ago, which is fine.
    let _ = rustix::process::kill_process_group(pid, signal);
}

fn drop_groups() -> Result<(), CallError> {
    rustix::thread::set_thread_groups(&[]).named(|| "setgroups(0)")
}

/// Makes this thread, and no other, another user without further groups.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), CallError> {
    drop_groups()?;
    let gid = rustix::process::Gid::from_raw(gid);
    let uid = rustix::process::Uid::from_raw(uid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).named(|| "setresgid")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).named(|| "setresuid")
}

fn drop_bounding_set() -> Result<(), CallError> {
    for bit in 0..64 {
        let Some(capability) = CapabilitySet::from_bits(1u64 << bit) else { continue };
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The first number past the kernel's last capability; and without the right to drop any, there is
            // nothing to drop from: no_new_privs and the empty sets hold.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(errno) => return Err(CallError::new("prctl(PR_CAPBSET_DROP)", errno)),
        }
    }
    Ok(())
}

fn drop_capabilities() -> Result<(), CallError> {
    rustix::thread::clear_ambient_capability_set().named(|| "prctl(PR_CAP_AMBIENT_CLEAR_ALL)")?;
    empty_capabilities()
}

fn empty_capabilities() -> Result<(), CallError> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).named(|| "capset(0)")
}

fn set_rlimit(limit: &Rlimit) -> Result<(), CallError> {
    let resource = match limit.resource {
        Resource::Core => rustix::process::Resource::Core,
        Resource::Cpu => rustix::process::Resource::Cpu,
        Resource::Data => rustix::process::Resource::Data,
        Resource::Fsize => rustix::process::Resource::Fsize,
        Resource::Memlock => rustix::process::Resource::Memlock,
        Resource::AddressSpace => rustix::process::Resource::As,
        Resource::Sigpending => rustix::process::Resource::Sigpending,
        Resource::Nofile => rustix::process::Resource::Nofile,
        Resource::Nproc => rustix::process::Resource::Nproc,
        Resource::Msgqueue => rustix::process::Resource::Msgqueue,
        Resource::Rtprio => rustix::process::Resource::Rtprio,
        Resource::Nice => rustix::process::Resource::Nice,
    };
    // A hard limit can always be lowered but not raised here: never request more than the current one.
    let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let max = Some(limit.max.min(ceiling));
    rustix::process::setrlimit(resource, rustix::process::Rlimit { current: max, maximum: max })
        .named(|| format!("setrlimit({:?}, {})", limit.resource, limit.max))
}

#[cfg(test)]
#[path = "child_tests.rs"]
mod tests;
