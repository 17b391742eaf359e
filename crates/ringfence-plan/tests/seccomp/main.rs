//! Every filter Ringfence can compile, run on paper against a second account of what it should do.

#![allow(clippy::disallowed_methods)]

mod numbers;
mod reference;

use proptest::prelude::*;
use reference::{Want, want};
use ringfence_plan::seccomp::{
    Action, Arch, Filter, FilterSpec, INSNS_MAX, Inet, Insn, Ipc, Observe, Profile, Program,
    SeccompData, SharedMemory, Trace, UnixSockets, compile, explain, is_supervised_connect, name,
    number, simulate,
};
use std::collections::BTreeSet;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];
const X32: u32 = 0x4000_0000;
/// One past what an `int` holds.
const INT_SPAN: u64 = 1 << 32;
const AUDIT_I386: u32 = 0x4000_0003;
const AUDIT_ARM: u32 = 0x4000_0028;
/// Bits the kernel drops from an `int` argument.
const HIGH: u64 = 0xdead_beef_0000_0000;

fn specs() -> Vec<FilterSpec> {
    let mut specs = ARCHES.map(command).to_vec();
    let mut vary = |variants: &[&dyn Fn(FilterSpec) -> FilterSpec]| {
        let varied = specs.iter().flat_map(|&spec| variants.iter().map(move |vary| vary(spec)));
        specs = varied.collect();
    };
    vary(&[
        &|spec| spec,
        &|spec| FilterSpec { profile: Profile::Code, ..spec },
        &|spec| FilterSpec { profile: Profile::CodeWithProcesses, ..spec },
        &|spec| FilterSpec { profile: Profile::Zygote, ..spec },
    ]);
    vary(&[&|spec| spec, &|spec| FilterSpec { observe: Observe::Errno, ..spec }]);
    vary(&[&|spec| spec, &|spec| FilterSpec { unix_sockets: UnixSockets::Refused, ..spec }]);
    vary(&[&|spec| spec, &|spec| FilterSpec { inet: Inet::Refused, ..spec }, &|spec| FilterSpec {
        inet: Inet::Redirected,
        ..spec
    }]);
    vary(&[&|spec| spec, &|spec| FilterSpec { shared_memory: SharedMemory::Refused, ..spec }]);
    vary(&[&|spec| spec, &|spec| FilterSpec { ipc: Ipc::Refused, ..spec }]);
    specs
}

/// For each architecture, profile and observer: everything the spec can grant, and nothing of it.
fn wide_and_narrow_specs() -> Vec<FilterSpec> {
    let all = (UnixSockets::Supervised, Inet::Allowed, SharedMemory::Allowed, Ipc::Own);
    let none = (UnixSockets::Refused, Inet::Refused, SharedMemory::Refused, Ipc::Refused);
    let mut specs = specs();
    specs.retain(|spec| {
        [all, none].contains(&(spec.unix_sockets, spec.inet, spec.shared_memory, spec.ipc))
    });
    specs
}

/// The widest spec for commands.
fn command(arch: Arch) -> FilterSpec {
    FilterSpec {
        arch,
        profile: Profile::Command,
        observe: Observe::Notify,
        unix_sockets: UnixSockets::Supervised,
        inet: Inet::Allowed,
        shared_memory: SharedMemory::Allowed,
        ipc: Ipc::Own,
    }
}

/// The spec of a run without namespaces.
fn on_the_host(arch: Arch) -> FilterSpec {
    FilterSpec { ipc: Ipc::Refused, ..command(arch) }
}

fn code(arch: Arch) -> FilterSpec {
    FilterSpec { profile: Profile::Code, ..command(arch) }
}

fn data(arch: Arch, nr: u32, args: [u64; 6]) -> SeccompData {
    SeccompData { nr, arch: arch.audit(), instruction_pointer: 0x7fff_dead_beef, args }
}

fn run(filter: &Filter, data: &SeccompData) -> Trace {
    checked(filter).run(data)
}

fn checked(filter: &Filter) -> Program<'_> {
    Program::check(&filter.insns).expect("a compiled filter passes the kernel's checks")
}

/// Compares filter, reference and verdict on one call.
fn agree(program: &Program<'_>, spec: FilterSpec, call: &SeccompData) {
    let want = want(spec, call);
    let got = program.run(call).action;
    let called = i32::try_from(call.nr).ok().and_then(|nr| name(spec.arch, nr));
    assert_eq!(got, want.action(spec.observe), "{called:?} {call:x?} {spec:?}");
    let errno = match want {
        Want::Denial(errno) | Want::Quiet(errno) => errno,
        Want::Done => 0,
        Want::Allow | Want::Kill => return,
    };
    let verdict = explain(&spec, call.nr.cast_signed(), &call.args);
    assert_eq!(verdict.errno, i32::from(errno), "{called:?} {verdict:?} {spec:?}");
    assert!(!verdict.hint.is_empty());
    assert!(
        verdict
            .rule
            .as_str()
            .bytes()
            .all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
    );
    if got == Action::Notify {
        assert!(
            verdict.rule.as_str() != "not_notified" && verdict.rule.as_str() != "not_implemented",
            "{called:?} {verdict:?}"
        );
    }
}

/// Values at which some check changes its mind, for any argument.
fn edges() -> Vec<u64> {
    let mut edges: Vec<u64> = (0..64).collect();
    edges.extend((0..32).map(|bit| 1 << bit));
    edges.extend([
        132, 136, 255, 262, 0x5401, 0x5411, 0x5412, 0x5413, 0x541b, 0x541c, 0x541d, 0x541e, 0x5421,
        0x5422,
    ]);
    edges.extend([
        0x5423,
        0x5424,
        0x540f,
        0x5450,
        0x5451,
        0x802c_542a,
        0x5356_4d41,
        0x0004_0001,
        0xffff_fffe,
    ]);
    edges.extend([
        u64::from(u32::MAX),
        0o020_644,
        0o060_644,
        0o010_644,
        0o140_755,
        0o100_644,
        0o040_755,
    ]);
    // Modes with the setuid and setgid bits, alone, between others and below bits a mode has not.
    edges.extend([0o4755, 0o2755, 0o6755, 0o6000, 0o5777, 0o1777, 0o7777, 0o106_755, 0o100_6755]);
    edges.extend([0xffff_0000 | 0o755, 0xffff_0000 | 0o4755, 0xffff_f3ff, 0xffff_fbff]);
    // O_WRONLY|O_CREAT|O_TRUNC, O_TMPFILE as either architecture has it, and O_DIRECTORY|O_CLOEXEC.
    edges.extend([0o1101, 0o20_200_002, 0o20_040_002, 0o2_200_000, 0o2_040_000]);
    // ioctl requests by kind and number, with and without a size.
    edges.extend([0x9401, 0x9409, 0x940d, 0x9436, 0xbc10, 0x586b, 0x583f, 0x6613, 0x6617, 0x6619]);
    edges.extend([0x5000_9417, 0x4004_9409, 0x4020_940d, 0xc018_9436, 0x4004_940a, 0x0001_9400]);
    edges.extend([
        0x4020_bc10,
        0xbcff,
        0x93ff,
        0x9500,
        0x8038_586c,
        0x587a,
        0x587b,
        0x586d,
        0x6618,
    ]);
    // Sizes of pipes.
    edges.extend([0xffff, 0x1_0001, 0x10_0000, 0x8000_0001]);
    // fork, vfork, pthread_create, and what unshare -Ur asks for.
    edges.extend([0x0120_0011, 0x4111, 0x003d_0f00, 0x1002_0000]);
    // Socket types with SOCK_CLOEXEC and SOCK_NONBLOCK.
    edges.extend((0..16).flat_map(|kind| [kind | 0o2_000_000, kind | 0o2_004_000]));
    let high: Vec<u64> = edges.iter().map(|edge| edge | HIGH).collect();
    edges.extend(high);
    edges
}

#[test]
fn every_filter_answers_every_number_as_written_down() {
    for spec in specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        for nr in 0..1024 {
            for nr in [nr, nr | X32] {
                agree(&program, spec, &data(spec.arch, nr, [0; 6]));
                agree(&program, spec, &data(spec.arch, nr, [u64::MAX; 6]));
                for arch in [AUDIT_I386, AUDIT_ARM, 0, u32::MAX] {
                    let call = SeccompData { arch, ..data(spec.arch, nr, [0; 6]) };
                    assert_eq!(program.run(&call).action, Action::KillProcess);
                }
            }
        }
        for nr in [u32::MAX, u32::MAX - 1, X32 - 1, X32, 1 << 31, i32::MAX.cast_unsigned()] {
            agree(&program, spec, &data(spec.arch, nr, [0; 6]));
            assert_eq!(
                program.run(&data(spec.arch, nr, [0; 6])).action,
                Action::Errno(38),
                "{nr:#x}"
            );
        }
    }
}

#[test]
fn every_checked_call_decides_as_written_down_at_every_edge() {
    let edges = edges();
    for spec in wide_and_narrow_specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        for checked in filter.summary().checked {
            let nr =
                number(spec.arch, checked.call).expect("it came from the table").cast_unsigned();
            for &edge in &edges {
                // No check looks at the last two.
                for i in 0..4 {
                    let mut args = [0; 6];
                    args[i] = edge;
                    agree(&program, spec, &data(spec.arch, nr, args));
                }
            }
        }
    }
}

#[test]
fn socket_decides_on_its_three_arguments_together() {
    let protocols: Vec<u64> = edges().into_iter().filter(|edge| *edge % INT_SPAN < 512).collect();
    for spec in specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        let nr = number(spec.arch, "socket").expect("in the table").cast_unsigned();
        let call = |domain, kind, protocol| {
            agree(&program, spec, &data(spec.arch, nr, [domain, kind, protocol, 0, 0, 0]));
        };
        for domain in (0..48).flat_map(|domain| [domain, domain | HIGH]) {
            for kind in (0..16).flat_map(|kind| [kind, kind | 0o2_004_000 | HIGH]) {
                call(domain, kind, 0);
            }
        }
        for &protocol in &protocols {
            for (domain, kind) in [(1, 1), (2, 1), (2, 2), (2, 3), (10, 1), (10, 2), (16, 3)] {
                call(domain, kind, protocol);
            }
        }
    }
}

/// `(call, arguments, what it comes to)` under the widest spec for commands; `None` is allowed,
/// else the rule.
#[test]
fn commands_are_refused_what_goes_round_the_fence() {
    let rows: &[(&str, [u64; 3], Option<&str>)] = &[
        ("ioctl", [0, 0x5412, 0], Some("terminal_injection")),
        ("ioctl", [0, 0xdead_beef_0000_5412, 0], Some("terminal_injection")),
        ("ioctl", [0, 0x541c, 0], Some("terminal_injection")),
        ("ioctl", [0, 0x5413, 0], None),
        ("socket", [16, 3, 0], Some("netlink")),
        ("socket", [0x1_0000_0010, 3, 0], Some("netlink")),
        ("socket", [17, 3, 0], Some("socket_family")),
        ("socket", [38, 5, 0], Some("socket_family")),
        ("socket", [40, 1, 0], Some("socket_family")),
        ("socket", [1, 0o2_000_001, 0], None),
        ("socket", [HIGH | 1, HIGH | 1, 0], None),
        ("socket", [1, 2, 0], Some("unix_datagram")),
        ("socket", [1, 3, 0], Some("unix_datagram")),
        ("socket", [1, HIGH | 2, 0], Some("unix_datagram")),
        ("socket", [2, 1, 6], None),
        ("socket", [10, 0o4_002, 17], None),
        ("socket", [2, 3, 1], Some("raw_socket")),
        ("socket", [2, 10, 0], Some("raw_socket")),
        ("socket", [2, 2, 1], Some("ping_socket")),
        ("socket", [10, 2, HIGH + 58], Some("ping_socket")),
        ("socket", [2, 1, 132], Some("socket_protocol")),
        ("socket", [2, 1, 262], Some("multipath_tcp")),
        ("socketpair", [1, 1, 0], None),
        ("socketpair", [1, 2, 0], Some("unix_datagram")),
        ("socketpair", [1, 3, 0], Some("unix_datagram")),
        ("connect", [3, 0, 16], Some("unix_connect")),
        ("sendmsg", [3, 0, 0x4000], None),
        ("sendmsg", [3, 0, 0x2000_4000], Some("tcp_fast_open")),
        ("clone", [0x0120_0011, 0, 0], None),
        ("clone", [0x003d_0f00, 0, 0], None),
        ("clone", [0x1000_0011, 0, 0], Some("namespaces")),
        ("clone", [HIGH | 0x0002_0011, 0, 0], Some("namespaces")),
        // 0x80 is part of the exit signal in clone and CLONE_NEWTIME in unshare.
        ("clone", [0x80, 0, 0], None),
        ("unshare", [0x80, 0, 0], Some("namespaces")),
        ("unshare", [0x0004_0600, 0, 0], None),
        ("unshare", [HIGH | 0x4000_0000, 0, 0], Some("namespaces")),
        ("clone3", [0, 88, 0], Some("clone3")),
        ("mknodat", [0, 0, 0o020_666], Some("device_nodes")),
        ("mknodat", [0, 0, HIGH | 0o060_666], Some("device_nodes")),
        // The kernel takes the mode as 16 bits.
        ("mknodat", [0, 0, 0x10000 | 0o020_666], Some("device_nodes")),
        ("mknodat", [0, 0, 0o010_666], None),
        ("personality", [0xffff_ffff, 0, 0], None),
        ("personality", [0x0004_0000, 0, 0], None),
        ("personality", [8, 0, 0], Some("personality")),
        ("personality", [HIGH | 0x0040_0000, 0, 0], Some("personality")),
        ("prctl", [35, 0, 0], Some("process_layout")),
        ("prctl", [HIGH + 35, 0, 0], Some("process_layout")),
        ("prctl", [38, 1, 0], None),
        ("move_pages", [0, 0, 0], None),
        ("move_pages", [1, 0, 0], Some("page_placement")),
        ("ptrace", [0, 0, 0], Some("ptrace")),
        ("io_uring_setup", [8, 0, 0], Some("io_uring")),
        ("execve", [0, 0, 0], None),
        ("seccomp", [1, 0, 0], None),
    ];
    for arch in ARCHES {
        check_rows(command(arch), rows);
    }
}

#[test]
fn code_may_start_threads_and_nothing_else() {
    let rows: &[(&str, [u64; 3], Option<&str>)] = &[
        ("clone", [0x003d_0f00, 0, 0], None),
        ("clone", [HIGH | 0x003d_0f00, 0, 0], None),
        ("clone", [0x0120_0011, 0, 0], Some("processes")),
        ("clone", [HIGH | 0x0120_0011, 0, 0], Some("processes")),
        ("clone", [0x103d_0f00, 0, 0], Some("namespaces")),
        ("clone3", [0, 88, 0], Some("clone3")),
        ("execve", [0, 0, 0], Some("exec")),
        ("execveat", [0, 0, 0], Some("exec")),
        ("socket", [2, 1, 0], Some("sockets")),
        ("connect", [3, 0, 16], Some("sockets")),
        ("socketpair", [1, 0o2_004_001, 0], None),
        ("socketpair", [1, 5, 0], Some("sockets")),
        ("socketpair", [1, 2, 0], Some("sockets")),
        ("unshare", [0x400, 0, 0], Some("outside_code")),
        ("unshare", [HIGH | 0x1000_0000, 0, 0], Some("namespaces")),
        ("prctl", [15, 0, 0], None),
        ("prctl", [22, 2, 0], Some("process_control")),
        ("ioctl", [0, 0x5401, 0], None),
        ("ioctl", [0, HIGH | 0x5412, 0], Some("terminal_injection")),
        ("ioctl", [0, 0x4004_9409, 0], Some("device_control")),
        ("seccomp", [1, 0, 0], Some("outside_code")),
        ("setsockopt", [1, 0, 0], Some("outside_code")),
    ];
    for arch in ARCHES {
        check_rows(code(arch), rows);
    }
    let spec = code(Arch::X86_64);
    check_rows(spec, &[("fork", [0; 3], Some("processes")), ("vfork", [0; 3], Some("processes"))]);
}

/// A guest's file is the host's, so its setuid bit would be too.
#[test]
fn no_file_is_given_a_setuid_or_setgid_bit() {
    const RULE: Option<&str> = Some("setuid_bit");
    let rows: &[(&str, [u64; 4], Option<&str>)] = &[
        ("fchmod", [3, 0o755, 0, 0], None),
        ("fchmod", [3, 0o1777, 0, 0], None),
        ("fchmod", [3, 0o4755, 0, 0], RULE),
        ("fchmod", [3, 0o2755, 0, 0], RULE),
        ("fchmod", [3, 0o6000, 0, 0], RULE),
        ("fchmod", [3, HIGH | 0o4000, 0, 0], RULE),
        // chmod takes a stat's st_mode as it is, and what is above 16 bits is nothing to it.
        ("fchmod", [3, 0o100_755, 0, 0], None),
        ("fchmod", [3, 0o104_755, 0, 0], RULE),
        ("fchmod", [3, 0o106_755, 0, 0], RULE),
        ("fchmod", [3, 0xffff_0000 | 0o755, 0, 0], None),
        ("fchmod", [3, 0xffff_0000 | 0o4755, 0, 0], RULE),
        ("fchmod", [3, 0xffff_f3ff, 0, 0], None),
        ("fchmod", [3, 0o6000 << 16, 0, 0], None),
        ("fchmod", [3, 0o6000 << 32, 0, 0], None),
        // Only the mode's argument counts.
        ("fchmod", [0o6000, 0o755, 0o6000, 0o6000], None),
        ("fchmodat", [0o6000, 0o6000, 0o1777, 0o6000], None),
        ("fchmodat", [0, 0, 0o2000, 0], RULE),
        ("fchmodat2", [0, 0, 0o4711, 0], RULE),
        ("fchmodat2", [0, 0, 0o711, 0o6000], None),
        // The mode counts if a file may be made, and is not looked at otherwise.
        ("openat", [0, 0, 0, 0o6755], None),
        ("openat", [0, 0, 0, u64::MAX], None),
        ("openat", [0, 0, 0o1101, 0o644], None),
        ("openat", [0, 0, 0o1101, 0o4755], RULE),
        ("openat", [0, 0, 0o100, 0o2000], RULE),
        ("openat", [0, 0, HIGH | 0o100, HIGH | 0o2000], RULE),
        ("openat", [0, 0, 0o100, 0xffff_0000 | 0o755], None),
        ("openat", [0, 0, 0o100 << 32, 0o4755], None),
        ("openat", [0, 0, 0xffff_ffff & !0o20_000_100, 0o4755], None),
        // O_TMPFILE of x86-64 and of aarch64, and the O_DIRECTORY each has in it.
        ("openat", [0, 0, 0o20_200_002, 0o4755], RULE),
        ("openat", [0, 0, 0o20_040_002, 0o4755], RULE),
        ("openat", [0, 0, 0o20_000_000, 0o4755], RULE),
        ("openat", [0, 0, 0o20_200_002, 0o600], None),
        ("openat", [0, 0, 0o240_000, 0o4755], None),
        ("mknodat", [0, 0, 0o106_755, 0], RULE),
        ("mknodat", [0, 0, 0o14_644, 0], RULE),
        ("mknodat", [0, 0, HIGH | 0o4000, 0], RULE),
        ("mknodat", [0, 0, 0o100_755, 0], None),
        ("mknodat", [0, 0, 0o024_644, 0], Some("device_nodes")),
        // vfs_mkdir drops the bits.
        ("mkdirat", [0, 0, 0o7777, 0], None),
        // The mode is where no filter sees it.
        ("openat2", [0, 0, 0, 24], Some("openat2")),
    ];
    let x86_64_rows: &[(&str, [u64; 4], Option<&str>)] = &[
        ("chmod", [0, 0o755, 0, 0], None),
        ("chmod", [0, 0o4755, 0, 0], RULE),
        ("chmod", [0, HIGH | 0o106_755, 0, 0], RULE),
        ("creat", [0, 0o644, 0o6000, 0], None),
        ("creat", [0, 0o2644, 0, 0], RULE),
        ("open", [0, 0o1101, 0o644, 0o6000], None),
        ("open", [0, 0o1101, 0o4644, 0], RULE),
        ("open", [0o100, 0, 0o4644, 0], None),
        ("open", [0, HIGH | 0o20_200_002, HIGH | 0o2600, 0], RULE),
        ("mknod", [0, 0o104_755, 0, 0], RULE),
        ("mknod", [0, 0o100_755, 0o6000, 0], None),
        ("mkdir", [0, 0o7777, 0, 0], None),
    ];
    for spec in ARCHES.into_iter().flat_map(|arch| [command(arch), code(arch)]) {
        check_rows(spec, rows);
    }
    for spec in [command(Arch::X86_64), code(Arch::X86_64)] {
        check_rows(spec, x86_64_rows);
    }
}

#[test]
fn an_open_decides_on_its_flags_and_mode_together() {
    let edges = edges();
    for spec in wide_and_narrow_specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        for (call, flags, mode) in [("open", 1, 2), ("openat", 2, 3)] {
            let Some(nr) = number(spec.arch, call) else { continue };
            for &edge in &edges {
                for &other in &edges {
                    let mut args = [0; 6];
                    args[flags] = edge;
                    args[mode] = other;
                    agree(&program, spec, &data(spec.arch, nr.cast_unsigned(), args));
                }
            }
        }
    }
}

/// A limit of 0 or of more than 1 would start the host's core handler, and programs that give up core dumps for safety
/// end when they are refused.
#[test]
fn setting_the_core_limit_is_answered_as_done_and_changes_nothing() {
    const CORE: u64 = 4;
    for spec in specs() {
        let filter = compile(spec);
        let answer = |call: &str, args: [u64; 6]| {
            let nr = number(spec.arch, call).expect(call);
            let action = run(&filter, &data(spec.arch, nr.cast_unsigned(), args)).action;
            (action, explain(&spec, nr, &args).rule.as_str())
        };
        let done = (Action::Errno(0), "core_limit");
        let allowed = (Action::Allow, "not_notified");
        for (resource, pointer) in [(CORE, 1), (CORE, 0), (HIGH | CORE, HIGH | 8)] {
            assert_eq!(answer("setrlimit", [resource, pointer, 0, 0, 0, 0]), done, "{spec:?}");
        }
        assert_eq!(answer("setrlimit", [7, 1, 0, 0, 0, 0]), allowed);
        // A pointer is not NULL by either half: memory can be mapped where the low one is zero.
        for new in [1, 8, 1 << 32, 0x7fff_0000_0000, u64::MAX] {
            for resource in [CORE, HIGH | CORE] {
                assert_eq!(answer("prlimit64", [0, resource, new, 0, 0, 0]), done, "{new:x}");
                assert_eq!(answer("prlimit64", [0, resource, new, 9, 0, 0]), done, "{new:x}");
            }
            assert_eq!(answer("prlimit64", [0, 7, new, 0, 0, 0]), allowed);
        }
        // Asking remains: getrlimit of the C library is this call.
        assert_eq!(answer("prlimit64", [0, CORE, 0, 9, 0, 0]), allowed);
        assert_eq!(answer("prlimit64", [HIGH, HIGH | CORE, 0, 9, 0, 0]), allowed);
    }
}

#[test]
fn a_limit_is_set_by_resource_and_pointer_together() {
    let edges = edges();
    for spec in wide_and_narrow_specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        let nr = number(spec.arch, "prlimit64").expect("in the table").cast_unsigned();
        for pid in [0, 1] {
            for resource in [0, 3, 4, 5, HIGH | 4, 1 << 32] {
                for &new in &edges {
                    agree(&program, spec, &data(spec.arch, nr, [pid, resource, new, 0, 0, 0]));
                }
            }
        }
    }
}

/// Pages of pipes are counted for the user: 63 pipes of 1 MiB would leave none for the user's other programs.
#[test]
fn no_pipe_is_made_larger_than_a_pipe_is_from_birth() {
    const F_SETPIPE_SZ: u64 = 1031;
    const LARGE: Option<&str> = Some("pipe_size");
    let rows: &[(&str, [u64; 3], Option<&str>)] = &[
        ("fcntl", [3, F_SETPIPE_SZ, 0], None),
        ("fcntl", [3, F_SETPIPE_SZ, 4096], None),
        ("fcntl", [3, F_SETPIPE_SZ, 65_536], None),
        ("fcntl", [3, F_SETPIPE_SZ, 65_537], LARGE),
        ("fcntl", [3, F_SETPIPE_SZ, 1 << 20], LARGE),
        ("fcntl", [3, F_SETPIPE_SZ, u64::MAX], LARGE),
        // Newer kernels take the size as 32 bits; older ones take one with high bits for more than any pipe may have.
        ("fcntl", [3, HIGH | F_SETPIPE_SZ, HIGH | 1 << 20], LARGE),
        ("fcntl", [3, HIGH | F_SETPIPE_SZ, HIGH | 4096], None),
        // F_GETPIPE_SZ, F_SETFL and others take what they like.
        ("fcntl", [3, 1032, 1 << 20], None),
        ("fcntl", [3, 4, 1 << 20], None),
    ];
    for arch in ARCHES {
        for profile in [Profile::Command, Profile::Zygote, Profile::Code] {
            check_rows(FilterSpec { profile, ..command(arch) }, rows);
        }
        // Programs ask for more as a favour and go on without: no denial of theirs.
        let filter = compile(command(arch));
        let nr = number(arch, "fcntl").expect("in the table").cast_unsigned();
        let large = data(arch, nr, [3, F_SETPIPE_SZ, 1 << 20, 0, 0, 0]);
        assert_eq!(run(&filter, &large).action, Action::Errno(1));
    }
}

#[test]
fn fcntl_decides_on_its_command_and_argument_together() {
    let edges = edges();
    for spec in wide_and_narrow_specs() {
        let filter = compile(spec);
        let program = checked(&filter);
        let nr = number(spec.arch, "fcntl").expect("in the table").cast_unsigned();
        for command in [0, 4, 1024, 1026, 1031, 1032, HIGH + 1031] {
            for &edge in &edges {
                agree(&program, spec, &data(spec.arch, nr, [3, command, edge, 0, 0, 0]));
            }
        }
    }
}

/// A snapshot is a second view of a directory, without the masks and read-only mounts that lie over the first.
#[test]
fn no_filesystem_shows_or_changes_what_its_mounts_hide() {
    const SNAPSHOT: Option<&str> = Some("snapshots");
    const HANDLE: Option<&str> = Some("file_handles");
    const KEYS: Option<&str> = Some("file_encryption");
    let requests: &[(u64, Option<&str>)] = &[
        // btrfs: SNAP_CREATE, SNAP_CREATE_V2, SUBVOL_CREATE, SNAP_DESTROY, SUBVOL_SETFLAGS, TREE_SEARCH, SEND.
        (0x5000_9401, SNAPSHOT),
        (0x5000_9417, SNAPSHOT),
        (0x5000_940e, SNAPSHOT),
        (0x5000_940f, SNAPSHOT),
        (0x4008_941a, SNAPSHOT),
        (0xd000_9411, SNAPSHOT),
        (0x4048_9426, SNAPSHOT),
        (HIGH | 0x5000_9417, SNAPSHOT),
        // Whatever the size and direction: only these three of the kind are every filesystem's.
        (0x0000_9409, SNAPSHOT),
        (0x4008_9409, SNAPSHOT),
        (0x4004_9409, None),
        (HIGH | 0x4004_9409, None),
        (0x4020_940d, None),
        (0xc018_9436, None),
        // bcachefs: SUBVOLUME_CREATE, SUBVOLUME_DESTROY, REINHERIT_ATTRS.
        (0x4020_bc10, SNAPSHOT),
        (0x4020_bc11, SNAPSHOT),
        (0x8008_bc40, SNAPSHOT),
        // XFS: OPEN_BY_HANDLE, READLINK_BY_HANDLE, ATTRLIST_BY_HANDLE, ATTRMULTI_BY_HANDLE, GETPARENTS_BY_HANDLE.
        (0x8038_586b, HANDLE),
        (0x8038_586c, HANDLE),
        (0x8058_587a, HANDLE),
        (0x8048_587b, HANDLE),
        (0xc040_583f, HANDLE),
        // Every filesystem's FSGETXATTR and FSSETXATTR.
        (0x801c_581f, None),
        (0x401c_5820, None),
        // SET_ENCRYPTION_POLICY, ADD_ENCRYPTION_KEY, REMOVE_ENCRYPTION_KEY, the same for all users.
        (0x800c_6613, KEYS),
        (0xc050_6617, KEYS),
        (0xc040_6618, KEYS),
        (0xc040_6619, KEYS),
        // GETFLAGS, SETFLAGS, FIEMAP, GET_ENCRYPTION_POLICY_EX.
        (0x8008_6601, None),
        (0x4008_6602, None),
        (0xc020_660b, None),
        (0xc009_6616, None),
    ];
    let rows: Vec<_> =
        requests.iter().map(|&(request, rule)| ("ioctl", [3, request], rule)).collect();
    let none: Vec<_> =
        rows.iter().map(|&(call, args, _)| (call, args, Some("device_control"))).collect();
    for arch in ARCHES {
        check_rows(command(arch), &rows);
        check_rows(FilterSpec { profile: Profile::Zygote, ..command(arch) }, &rows);
        check_rows(code(arch), &none);
    }
}

#[test]
fn no_memory_comes_from_the_pool_of_huge_pages() {
    const HUGE: Option<&str> = Some("huge_pages");
    // MFD_HUGETLB alone and of a size, MFD_CLOEXEC; SHM_HUGETLB; a pointer with the same bit.
    let rows: &[(&str, [u64; 3], Option<&str>)] = &[
        ("memfd_create", [9, 4, 0], HUGE),
        ("memfd_create", [9, HIGH | 21 << 26 | 5, 0], HUGE),
        ("memfd_create", [9, 1, 0], None),
        ("shmget", [0, 2 << 20, 0o1600 | 0o4000], HUGE),
        ("shmget", [0, 2 << 20, 0o1600], None),
        ("shmctl", [0, 2, 0x7f00_0000_0800], None),
    ];
    // Its flags come fourth: of anonymous memory, with a size, of a file by MAP_SHARED_VALIDATE; then without the bit.
    let maps = [(0x4_0022, HUGE), (0x1404_0022, HUGE), (0x4_0003, HUGE), (0x22, None), (3, None)]
        .map(|(flags, rule)| ("mmap", [0, 4096, 3, flags], rule));
    for arch in ARCHES {
        check_rows(command(arch), rows);
        for profile in [Profile::Command, Profile::Zygote, Profile::Code] {
            check_rows(FilterSpec { profile, ..command(arch) }, &maps);
        }
    }
}

#[test]
fn without_namespaces_neither_ipc_nor_other_processes_are_reached() {
    const FOREIGN: Option<&str> = Some("foreign_process");
    let rows: &[(&str, [u64; 3], Option<&str>)] = &[
        ("semget", [0; 3], Some("ipc")),
        ("msgrcv", [0; 3], Some("ipc")),
        ("mq_open", [0; 3], Some("ipc")),
        ("mq_timedreceive", [0; 3], Some("ipc")),
        ("shmget", [0; 3], Some("ipc")),
        ("shmat", [0; 3], Some("ipc")),
        ("shmctl", [0; 3], Some("ipc")),
        ("shmdt", [0; 3], None),
        ("memfd_create", [0; 3], None),
        ("prlimit64", [0, 7, 0], None),
        ("prlimit64", [HIGH, 7, 0], None),
        ("prlimit64", [1, 7, 0], FOREIGN),
        ("prlimit64", [HIGH | 1, 7, 0], FOREIGN),
        ("prlimit64", [1 << 31, 7, 0], FOREIGN),
        ("sched_setaffinity", [0, 8, 9], None),
        ("sched_setaffinity", [4242, 8, 9], FOREIGN),
        ("sched_setscheduler", [0, 3, 9], None),
        ("sched_setscheduler", [4242, 3, 9], FOREIGN),
        ("sched_setparam", [0, 9, 0], None),
        ("sched_setparam", [4242, 9, 0], FOREIGN),
        ("sched_setattr", [0, 9, 0], None),
        ("sched_setattr", [4242, 9, 0], FOREIGN),
        // PRIO_PROCESS, PRIO_PGRP, PRIO_USER: 0 as a user is everything the user runs.
        ("setpriority", [0, 0, 19], None),
        ("setpriority", [HIGH, HIGH, 19], None),
        ("setpriority", [0, 4242, 19], FOREIGN),
        ("setpriority", [1, 0, 19], FOREIGN),
        ("setpriority", [2, 0, 19], FOREIGN),
        // The same, counted from one.
        ("ioprio_set", [1, 0, 0x6000], None),
        ("ioprio_set", [HIGH | 1, HIGH, 0x6000], None),
        ("ioprio_set", [1, 4242, 0x6000], FOREIGN),
        ("ioprio_set", [2, 0, 0x6000], FOREIGN),
        ("ioprio_set", [3, 0, 0x6000], FOREIGN),
        ("sched_getaffinity", [4242, 8, 9], None),
        ("getpriority", [2, 0, 0], None),
    ];
    for arch in ARCHES {
        check_rows(on_the_host(arch), rows);
        // With namespaces of its own, a run may do all of it.
        let free: Vec<_> = rows.iter().map(|&(call, args, _)| (call, args, None)).collect();
        check_rows(command(arch), &free);
        // What refuses shared memory as a whole says so for its segments too.
        let counted = FilterSpec { shared_memory: SharedMemory::Refused, ..on_the_host(arch) };
        check_rows(
            counted,
            &[("shmget", [0; 3], Some("shared_memory")), ("semget", [0; 3], Some("ipc"))],
        );
        check_rows(
            FilterSpec { profile: Profile::Code, ..on_the_host(arch) },
            &[
                ("prlimit64", [0, 7, 0], None),
                ("prlimit64", [1, 7, 0], FOREIGN),
                ("sched_setaffinity", [0, 8, 9], None),
                ("sched_setaffinity", [1, 8, 9], FOREIGN),
                ("setpriority", [0, 0, 19], Some("outside_code")),
                ("semget", [0; 3], Some("outside_code")),
            ],
        );
    }
}

fn check_rows<const N: usize>(spec: FilterSpec, rows: &[(&str, [u64; N], Option<&str>)]) {
    let filter = compile(spec);
    for &(call, first, rule) in rows {
        let nr = number(spec.arch, call).expect(call);
        let mut args = [0; 6];
        args[..N].copy_from_slice(&first);
        let action = run(&filter, &data(spec.arch, nr.cast_unsigned(), args)).action;
        assert_eq!(action == Action::Allow, rule.is_none(), "{call} {args:x?}: {action:?}");
        assert_eq!(
            explain(&spec, nr, &args).rule.as_str(),
            rule.unwrap_or("not_notified"),
            "{call} {args:x?}"
        );
    }
}

#[test]
fn a_verdict_names_the_argument_that_mattered() {
    let spec = command(Arch::X86_64);
    for (call, args, argument) in [
        ("socket", [16, 3, 0, 0, 0, 0], Some(0)),
        ("socket", [1, 2, 0, 0, 0, 0], Some(1)),
        ("socket", [2, 1, 132, 0, 0, 0], Some(2)),
        ("ioctl", [0, 0x5412, 0, 0, 0, 0], Some(1)),
        ("mknod", [0, 0o020_000, 0, 0, 0, 0], Some(1)),
        ("mknodat", [0, 0, 0o020_000, 0, 0, 0], Some(2)),
        ("mknod", [0, 0o104_000, 0, 0, 0, 0], Some(1)),
        ("fchmodat", [0, 0, 0o4755, 0, 0, 0], Some(2)),
        ("open", [0, 0o100, 0o4755, 0, 0, 0], Some(2)),
        ("openat", [0, 0, 0o100, 0o4755, 0, 0], Some(3)),
        ("connect", [3, 0, 0, 0, 0, 0], Some(1)),
        ("mount", [0; 6], None),
    ] {
        let nr = number(Arch::X86_64, call).expect(call);
        assert_eq!(explain(&spec, nr, &args).argument, argument, "{call} {args:x?}");
    }
    for (which, who, argument) in [(2, 0, Some(0)), (0, 1, Some(1))] {
        let nr = number(Arch::X86_64, "setpriority").expect("in the table");
        let verdict = explain(&on_the_host(Arch::X86_64), nr, &[which, who, 19, 0, 0, 0]);
        assert_eq!(verdict.argument, argument, "{which} {who}");
    }
}

#[test]
fn unix_sockets_without_a_listener_are_refused() {
    for arch in ARCHES {
        let asked = FilterSpec { observe: Observe::Errno, ..command(arch) };
        let filter = compile(asked);
        assert_eq!(filter.spec.unix_sockets, UnixSockets::Refused);
        assert_eq!(filter, compile(FilterSpec { unix_sockets: UnixSockets::Refused, ..asked }));
        assert!(!filter.listener());
        let [socket, connect] =
            ["socket", "connect"].map(|call| number(arch, call).expect("in the table"));
        let socket = data(arch, socket.cast_unsigned(), [1, 1, 0, 0, 0, 0]);
        assert_eq!(run(&filter, &socket).action, Action::Errno(13));
        assert!(!asked.supervises(connect));
    }
}

#[test]
fn connect_is_supervised_only_where_it_can_be() {
    for spec in specs() {
        let connect = number(spec.arch, "connect").expect("in the table");
        assert!(is_supervised_connect(spec.arch, connect));
        assert!(!is_supervised_connect(spec.arch, connect + 1));
        let filter = compile(spec);
        let supervised = spec.supervises(connect);
        let verdict = explain(&spec, connect, &[0; 6]);
        assert_eq!(supervised, verdict.rule.as_str() == "unix_connect");
        assert_eq!(filter.summary().supervised, if supervised { vec!["connect"] } else { vec![] });
        if supervised {
            assert_eq!(
                run(&filter, &data(spec.arch, connect.cast_unsigned(), [7; 6])).action,
                Action::Notify
            );
        }
    }
}

#[test]
fn only_a_filter_with_a_listener_notifies() {
    const USER_NOTIF: Insn = Insn { code: 6, jt: 0, jf: 0, k: 0x7fc0_0000 };
    for spec in specs() {
        let filter = compile(spec);
        assert_eq!(filter.insns.contains(&USER_NOTIF), filter.listener(), "{spec:?}");
        assert_eq!(filter.listener(), spec.observe == Observe::Notify);
    }
}

#[test]
fn the_summary_counts_every_call_once_and_says_what_the_filter_does() {
    for spec in specs() {
        let filter = compile(spec);
        let summary = filter.summary();
        let n_calls = (0..1024).filter(|&nr| name(spec.arch, nr).is_some()).count();
        let n_supervised = summary.supervised.len();
        assert_eq!(
            summary.n_allowed + summary.n_refused + summary.n_checked + n_supervised,
            n_calls
        );
        assert_eq!(summary.n_insns, filter.insns.len());
        let action = |call: &str| {
            let nr = number(spec.arch, call).expect(call).cast_unsigned();
            run(&filter, &data(spec.arch, nr, [0; 6]))
        };
        for call in &summary.allowed {
            let trace = action(call);
            assert_eq!((trace.action, trace.read_arguments), (Action::Allow, false), "{call}");
        }
        for refused in &summary.refused {
            let trace = action(refused.call);
            let errno = u16::try_from(refused.errno).expect("an error number");
            let want = if refused.observed { Action::Notify } else { Action::Errno(errno) };
            assert_eq!((trace.action, trace.read_arguments), (want, false), "{refused:?}");
        }
        for checked in &summary.checked {
            assert!(action(checked.call).read_arguments, "{checked:?}");
            assert!(!checked.rules.is_empty());
        }
        let json = serde_json::to_value(&summary).expect("a summary is plain data");
        assert_eq!(json["n_allowed"], summary.n_allowed);
    }
}

/// The shortest way to see that a filter changed: its size and the calls whose arguments it looks
/// at.
#[test]
fn filters_are_short_and_hot_calls_are_cheap() {
    const HOT: [&str; 10] = [
        "read",
        "write",
        "close",
        "fstat",
        "newfstatat",
        "munmap",
        "futex",
        "lseek",
        "epoll_ctl",
        "clock_gettime",
    ];
    for spec in specs() {
        let filter = compile(spec);
        assert!(filter.insns.len() < INSNS_MAX / 4, "{}", filter.insns.len());
        let mut n_insns = 0;
        for call in HOT {
            let nr = number(spec.arch, call).expect(call).cast_unsigned();
            let trace = run(&filter, &data(spec.arch, nr, [u64::MAX; 6]));
            // Not reading arguments is what lets the kernel answer from its bitmap.
            assert_eq!((trace.action, trace.read_arguments), (Action::Allow, false), "{call}");
            assert!(trace.n_insns <= 16, "{call}: {} {spec:?}", trace.n_insns);
            n_insns += trace.n_insns;
        }
        let mean = n_insns / HOT.len();
        println!("{spec:?}: {} instructions, hot calls {mean}", filter.insns.len());
        assert!(mean <= 14, "{mean}");
        // An open that makes no file costs a load and a comparison more, whatever its mode.
        for (call, flags) in [("open", 1), ("openat", 2)] {
            let Some(nr) = number(spec.arch, call) else { continue };
            let mut args = [u64::MAX; 6];
            args[flags] = 0o2_000_000;
            let trace = run(&filter, &data(spec.arch, nr.cast_unsigned(), args));
            assert_eq!(trace.action, Action::Allow, "{call}");
            assert!(trace.n_insns <= 18, "{call}: {} {spec:?}", trace.n_insns);
        }
    }
}

#[test]
fn a_damaged_filter_is_noticed() {
    let filter = compile(command(Arch::X86_64));
    let call = data(Arch::X86_64, 0, [0; 6]);
    assert_eq!(simulate(&filter.insns, &call), Ok(Action::Allow));
    let n = filter.insns.len();
    assert!(
        simulate(&filter.insns[..n - 1], &call).is_err(),
        "cut off: a jump leaves it, or nothing returns"
    );
    // Every conditional jump, bent past the end.
    let mut n_jumps = 0;
    for at in 0..n {
        if n - at > 255 || !matches!(filter.insns[at].code, 0x15 | 0x35) {
            continue;
        }
        let mut bent = filter.insns.clone();
        bent[at].jt = 255;
        assert!(simulate(&bent, &call).is_err(), "{at}");
        n_jumps += 1;
    }
    assert!(n_jumps > 10);
}

#[test]
fn rule_names_tell_causes_apart() {
    // One rule, one error and one hint: a reader may key on the name.
    let mut seen = std::collections::BTreeMap::new();
    for spec in wide_and_narrow_specs() {
        for nr in 0..512 {
            for edge in [0, 1, 2, 3, 10, 16, 17, 35, 58, 132, 0x5412, 0x2002_6000] {
                let verdict = explain(&spec, nr, &[edge & 0xf, edge, edge, edge, 0, 0]);
                let first =
                    *seen.entry(verdict.rule.as_str()).or_insert((verdict.errno, verdict.hint));
                assert_eq!(first, (verdict.errno, verdict.hint), "{}", verdict.rule.as_str());
            }
        }
    }
    let hints: BTreeSet<_> = seen.values().map(|(_, hint)| hint).collect();
    assert_eq!(hints.len(), seen.len(), "two rules share a hint");
    assert!(hints.iter().all(|hint| hint.len() < 160));
}

fn any_spec() -> impl Strategy<Value = FilterSpec> {
    prop::sample::select(specs())
}

fn any_nr() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..480_u32, 1 => (0..600_u32).prop_map(|nr| nr | X32), 1 => any::<u32>()]
}

fn any_argument() -> impl Strategy<Value = u64> {
    prop_oneof![3 => prop::sample::select(edges()), 1 => any::<u64>(), 1 => 0..64_u64]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4096,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn filter_and_reference_agree_on_any_call(
        spec in any_spec(),
        nr in any_nr(),
        args in prop::array::uniform6(any_argument()),
    ) {
        agree(&checked(&compile(spec)), spec, &data(spec.arch, nr, args));
    }
}
