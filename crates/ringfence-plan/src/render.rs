//! Renders a plan as text for review: visible paths and refusals, in order.

use std::fmt::Write as _;
use std::path::Path;

use ringfence_spec::invisible::escape_unseen;
use ringfence_spec::{Limits, escape_name};

use crate::calls::Arg;
use crate::code::{CodePlan, WorkerPlan};
use crate::plan::{Access, BindSource, LandlockReading, Mount, Plan, RuleAccess, Step};

/// Renders the plan as text. One line per decision, in the order in which the child executes them.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_plan(&mut out, plan);
    out
}

/// Renders the plans of Python runs as text: the zygote's, then the calls of each worker inside it.
pub fn render_code(plan: &CodePlan) -> String {
    let mut out = String::from("python, which no run may write\n");
    let python = &plan.python;
    let _ = writeln!(out, "  {} in {}", python.version, shown(&python.prefix));
    for packages in &python.packages {
        let _ = writeln!(out, "  packages in {}", shown(packages));
    }
    out.push_str("\nthe zygote, from which workers are forked\n\n");
    let _ = write_plan(&mut out, &plan.zygote);
    let worker = &plan.worker;
    let _ = write_worker(&mut out, worker);
    out
}

/// A name that a run may have chosen: it moves no cursor and begins no line.
fn shown(path: &Path) -> String {
    escape_name(&path.to_string_lossy()).into_owned()
}

/// One line; `pids` is the unit that the process limit counts.
fn write_limits(out: &mut String, l: &Limits, pids: &str) -> std::fmt::Result {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    writeln!(
        out,
        "limits      timeout {}, cpu {}, memory {}, {pids} {}, fds {}, disk {}",
        or_none(l.timeout.map(|v| v.to_string())),
        or_none(l.cpu.map(|v| v.to_string())),
        or_none(l.memory.map(|v| v.to_string())),
        or_none(l.pids.map(|v| v.to_string())),
        or_none(l.fds.map(|v| v.to_string())),
        or_none(l.disk.map(|v| v.to_string())),
    )
}

fn write_worker(out: &mut String, worker: &WorkerPlan) -> std::fmt::Result {
    writeln!(out, "\na worker, in a pid namespace of its own")?;
    write_limits(out, &worker.limits, "threads")?;
    for (n, call) in worker.setup.iter().chain(&worker.seal).enumerate() {
        let args: Vec<String> = call.args.iter().map(Arg::to_string).collect();
        writeln!(out, "  {n:>3} {}({})", call.name, args.join(", "))?;
    }
    Ok(())
}

fn write_plan(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let e = &plan.enforcement;
    writeln!(out, "tier        {}", plan.tier)?;
    writeln!(out, "process     {}", e.process)?;
    writeln!(out, "syscalls    {}", e.syscalls)?;
    writeln!(out, "resources   {}", e.resources)?;
    writeln!(out, "network     {}", e.network)?;
    writeln!(out, "filesystem  {}", e.filesystem)?;
    if let Some(python) = &e.python {
        writeln!(out, "python      {python}")?;
    }
    let id = plan.identity;
    writeln!(
        out,
        "identity    uid {} gid {} inside, uid {} gid {} on the host",
        id.guest_uid, id.guest_gid, id.host_uid, id.host_gid
    )?;
    if let Some((uid, gid)) = id.disk_owner {
        writeln!(out, "            files it writes belong to uid {uid} gid {gid} on disk")?;
    }
    write_limits(out, &plan.limits, "pids")?;
    writeln!(out, "cwd         {}", shown(&plan.cwd))?;
    for gap in e.gaps.iter().map(|gap| escape_unseen(gap, |_| false)) {
        writeln!(out, "gap         {gap}")?;
    }
    if !plan.placeholders.is_empty() {
        writeln!(out, "\nheld on the host while the run lasts")?;
        for p in &plan.placeholders {
            writeln!(out, "  {}", shown(&p.root.join(&p.path)))?;
        }
    }
    if !plan.initial_namespaces.is_empty() {
        let names: Vec<&str> = plan.initial_namespaces.iter().map(|n| n.name()).collect();
        writeln!(out, "\nborn into new namespaces: {}", names.join(", "))?;
    }
    steps(out, "setup", &plan.setup)?;
    steps(out, "program", &plan.payload)?;
    if let Some(landlock) = &plan.landlock {
        let reading = match landlock.reading {
            LandlockReading::Seen => "",
            LandlockReading::Free => ", reading is free",
        };
        writeln!(out, "\nlandlock (ABI {}{reading})", landlock.abi)?;
        for rule in &landlock.rules {
            let access = match rule.access {
                RuleAccess::Read => "read",
                RuleAccess::Write => "write",
                RuleAccess::Device => "device",
            };
            writeln!(out, "  {access:<7} {}", shown(&rule.path))?;
        }
    }
    if let Some(filter) = &plan.seccomp {
        let summary = filter.summary();
        writeln!(out, "\nseccomp ({} instructions)", filter.insns.len())?;
        writeln!(
            out,
            "  {} calls allowed, {} refused, {} decided by their arguments",
            summary.n_allowed, summary.n_refused, summary.n_checked
        )?;
        let refused: Vec<&str> = summary.refused.iter().map(|r| r.call).collect();
        writeln!(out, "  refused: {}", refused.join(" "))?;
    }
    writeln!(out, "\nenvironment")?;
    for (name, value) in &plan.environment {
        writeln!(out, "  {}={}", name.to_string_lossy(), value.to_string_lossy())?;
    }
    Ok(())
}

fn steps(out: &mut String, title: &str, steps: &[Step]) -> std::fmt::Result {
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for (index, step) in steps.iter().enumerate() {
        writeln!(out, "  {:>3} {}", index + 1, line(step))?;
    }
    Ok(())
}

fn line(step: &Step) -> String {
    match step {
        Step::CloseDescriptors => "close every descriptor that is not for this run".into(),
        Step::JoinCgroup => "join the cgroup".into(),
        Step::TakeIdentity => "take the identity above".into(),
        Step::Unshare { namespaces } => {
            let names: Vec<&str> = namespaces.iter().map(|n| n.name()).collect();
            format!("new namespaces: {}", names.join(", "))
        }
        Step::TakeSupplies => "take what the launcher prepared".into(),
        Step::TakeLeave => "wait for leave to start".into(),
        Step::PrivateMounts => "make every mount private".into(),
        Step::Hostname { name } => format!("hostname {name}"),
        Step::LoopbackUp => "bring the private loopback up".into(),
        Step::CaptureNetwork { captures, listeners } => {
            let by_port = |l: &&crate::NetworkListener| {
                !matches!(l.kind, crate::ListenerKind::Inward | crate::ListenerKind::SshAgent)
            };
            let mut ports: Vec<u16> = listeners.iter().filter(by_port).map(|l| l.port).collect();
            let has_agent = listeners.iter().any(|l| l.kind == crate::ListenerKind::SshAgent);
            let agent = if has_agent { ", and at the SSH agent's socket" } else { "" };
            ports.dedup();
            if *captures {
                format!("make every address local and listen on ports {ports:?}{agent}")
            } else {
                format!("listen on ports {ports:?}")
            }
        }
        Step::NewRoot => "new root in memory, pivot_root".into(),
        Step::SizeRoot { bytes_max, inodes_max } => {
            format!("room on the root: {} MiB, {inodes_max} inodes", bytes_max >> 20)
        }
        Step::Mount(mount) => mount_line(mount),
        Step::NoExecute { at } => format!("nothing executable in {}", shown(at)),
        Step::SealRoot => "make the root itself read-only".into(),
        Step::DetachOldRoot => "detach the old root".into(),
        Step::DieWithParent => "die with the supervisor".into(),
        Step::WipeSelf => "wipe the caller's arguments and environment from memory".into(),
        Step::HideSelf => "close own memory to others".into(),
        Step::ForkPayload => "fork the program's process; stay as init".into(),
        Step::NewSession => "own session".into(),
        Step::ChangeDirectory => "enter the working directory".into(),
        Step::SetRlimits { limits } => {
            let list: Vec<String> =
                limits.iter().map(|l| format!("{:?} {}", l.resource, l.max)).collect();
            format!("rlimits {}", list.join(", ")).to_lowercase()
        }
        Step::BecomeUser { uid, gid } => format!("become uid {uid} gid {gid}"),
        Step::DropBoundingSet => "empty the bounding set of capabilities".into(),
        Step::DropCapabilities => "empty every other capability set".into(),
        Step::NoNewPrivileges => "no new privileges".into(),
        Step::Landlock => "landlock".into(),
        Step::Seccomp => "seccomp".into(),
        Step::Execute => "execute the program".into(),
    }
}

fn mount_line(mount: &Mount) -> String {
    match mount {
        Mount::Scratch { at, mode } => format!("private  {} ({mode:o})", shown(at)),
        Mount::Bind { source, at, access } => {
            let word = match access {
                Access::ReadOnly => "read",
                Access::ReadWrite => "write",
            };
            match source {
                BindSource::Host { path, .. } if path != at => {
                    format!("{word:<8} {} (from {})", shown(at), shown(path))
                }
                BindSource::Host { .. } => format!("{word:<8} {}", shown(at)),
                BindSource::Beneath { .. } => format!("{word:<8} {} (pinned)", shown(at)),
            }
        }
        Mount::Directory { at, .. } => format!("empty    {}", shown(at)),
        Mount::Symlink { at, target } => {
            format!("link     {} -> {}", shown(at), shown(target))
        }
        Mount::Text { at, .. } | Mount::Bytes { at, .. } => format!("ours     {}", shown(at)),
        Mount::Device { at } => format!("device   {}", shown(at)),
        Mount::Devpts { at } => format!("devpts   {}", shown(at)),
        Mount::Proc { at } => format!("proc     {}", shown(at)),
        Mount::ProcOfPids { at } => format!("proc     {} (processes only)", shown(at)),
        Mount::Mask { at, .. } => format!("mask     {}", shown(at)),
    }
}
