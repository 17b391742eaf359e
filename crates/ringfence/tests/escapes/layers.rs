//! Takes a layer out of a plan and runs what is left: how a document shows which layer carries the weight.
//! The plan is the one `ringfence run` or `ringfence exec` would make, from the same modules; only the edit is ours.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use ringfence_engine::{
    Builder, Call, CodeCall, CommandCall, Engine, Foreground, Io, LOCAL, Prefork, Recorder,
};
use ringfence_plan::{
    Access, BindSource, FileId, ListenerKind, Mount, Namespace, NetworkListener, Plan, Step,
};
use ringfence_spec::network::NetworkRules;
use ringfence_spec::{Code, Outcome, Problem};

use crate::cli::{Cli, Command, ExecArgs, RunArgs};
use crate::program::PORT;
use crate::settings::{Surroundings, effective, effective_code};

/// What can be taken out. `escapes/README.md` says what each of them means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Syscalls,
    Landlock,
    Filesystem,
    Masks,
    Network,
    Capture,
    Rules,
    Resources,
    Process,
    Privileges,
    Environment,
}

/// Ports that documents with names attack.
const VICTIMS_PORTS: [u16; 5] = [80, 443, 8080, 8443, PORT];
/// Addresses that such documents ask for without a name.
const VICTIMS_ADDRESSES: [&str; 4] = ["10.0.0.9", "20.30.40.50", "198.18.7.7", "[2001:db8::9]"];
/// Where their names lead.
const VICTIMS_RANGES: [&str; 6] =
    ["10.0.0.0/8", "20.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "2001:db8::/32", "2002:a00::/24"];

const NAMES: &[(Layer, &str)] = &[
    (Layer::Syscalls, "syscalls"),
    (Layer::Landlock, "landlock"),
    (Layer::Filesystem, "filesystem"),
    (Layer::Masks, "masks"),
    (Layer::Network, "network"),
    (Layer::Capture, "capture"),
    (Layer::Rules, "rules"),
    (Layer::Resources, "resources"),
    (Layer::Process, "process"),
    (Layer::Privileges, "privileges"),
    (Layer::Environment, "environment"),
];

impl Layer {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(layer, _)| *layer)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(layer, _)| *layer == self).map_or("", |(_, name)| name)
    }

    /// Returns true if taking it out takes out this layer of the contract, or a part of it.
    pub(crate) fn is_part_of(self, layer: &str) -> bool {
        match self {
            Self::Masks | Self::Landlock => layer == "filesystem",
            Self::Privileges | Self::Environment => layer == "process",
            Self::Capture | Self::Rules => layer == "network",
            _ => layer == self.name(),
        }
    }

    fn take_out(self, plan: &mut Plan) -> std::io::Result<()> {
        match self {
            Self::Syscalls => {
                plan.seccomp = None;
                plan.payload.retain(|step| *step != Step::Seccomp);
            }
            Self::Landlock => {
                plan.landlock = None;
                plan.payload.retain(|step| *step != Step::Landlock);
            }
            Self::Filesystem => {
                Self::Landlock.take_out(plan)?;
                plan.placeholders.clear();
                plan.setup.retain(|step| {
                    !matches!(
                        step,
                        Step::NewRoot
                            | Step::SizeRoot { .. }
                            | Step::Mount(_)
                            | Step::NoExecute { .. }
                            | Step::SealRoot
                            | Step::DetachOldRoot
                    )
                });
                plan.cwd = std::env::current_dir()?;
            }
            Self::Masks => plan.setup.retain(|step| {
                !matches!(step, Step::Mount(Mount::Mask { .. } | Mount::Text { .. }))
            }),
            Self::Network => {
                Self::Capture.take_out(plan)?;
                let resolver =
                    ["/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"].map(Path::new);
                plan.setup.retain(|step| match step {
                    Step::LoopbackUp => false,
                    Step::Mount(Mount::Text { at, .. }) => !resolver.contains(&at.as_path()),
                    _ => true,
                });
                for step in &mut plan.setup {
                    if let Step::Unshare { namespaces } = step {
                        namespaces.retain(|n| *n != Namespace::Network);
                    }
                }
            }
            Self::Capture => {
                plan.network = None;
                plan.setup.retain(|step| !matches!(step, Step::CaptureNetwork { .. }));
            }
            Self::Rules => {
                let Some(network) = &mut plan.network else { return Ok(()) };
                network.rules = everything().map_err(std::io::Error::other)?;
                let held = |port| network.listeners.iter().any(|l| l.port == port);
                let new = network.rules.tcp_ports().into_iter().filter(|port| !held(*port));
                let kind = ListenerKind::Captured;
                let listener =
                    |port| [false, true].map(|ipv6| NetworkListener { kind, port, ipv6 });
                let new: Vec<_> = new.flat_map(listener).collect();
                network.listeners.extend(new);
                for step in &mut plan.setup {
                    if let Step::CaptureNetwork { listeners, .. } = step {
                        listeners.clone_from(&network.listeners);
                    }
                }
            }
            Self::Resources => {
                plan.cgroup = None;
                plan.setup.retain(|step| *step != Step::JoinCgroup);
                plan.payload.retain(|step| !matches!(step, Step::SetRlimits { .. }));
                for step in &mut plan.setup {
                    if let Step::SizeRoot { bytes_max, inodes_max } = step {
                        (*bytes_max, *inodes_max) = (0, 0);
                    }
                }
                let limits = &mut plan.limits;
                (limits.timeout, limits.cpu) = (None, None);
                (limits.memory, limits.disk) = (None, None);
                (limits.pids, limits.fds) = (None, None);
            }
            Self::Process => {
                plan.initial_namespaces.retain(|n| *n != Namespace::Pid);
                plan.setup.retain(|step| {
                    !matches!(step, Step::WipeSelf | Step::HideSelf | Step::Hostname { .. })
                });
                // A new procfs needs a pid namespace of one's own, so the container's stands in for it.
                let proc = std::fs::metadata("/proc")?;
                let id = FileId { dev: proc.dev(), ino: proc.ino() };
                for step in &mut plan.setup {
                    match step {
                        Step::Unshare { namespaces } => {
                            namespaces.retain(|n| *n == Namespace::Network);
                        }
                        Step::Mount(mount @ (Mount::Proc { .. } | Mount::ProcOfPids { .. })) => {
                            let at = PathBuf::from("/proc");
                            let source = BindSource::Host { path: at.clone(), id, idmapped: false };
                            *mount = Mount::Bind { source, at, access: Access::ReadWrite };
                        }
                        _ => {}
                    }
                }
            }
            Self::Privileges => {
                // Only uid 0 keeps its capabilities across exec.
                (plan.identity.guest_uid, plan.identity.guest_gid) = (0, 0);
                let dropped =
                    [Step::DropBoundingSet, Step::DropCapabilities, Step::NoNewPrivileges];
                for steps in [&mut plan.setup, &mut plan.payload] {
                    steps.retain(|step| !dropped.contains(step));
                }
            }
            Self::Environment => plan.environment = std::env::vars_os().collect(),
        }
        Ok(())
    }
}

/// Rules that allow every host and port of the victims.
fn everything() -> Result<NetworkRules, String> {
    let mut rules = Vec::new();
    for port in VICTIMS_PORTS {
        rules.push(format!("localhost:{port}"));
        rules.extend(VICTIMS_ADDRESSES.map(|address| format!("{address}:{port}")));
        rules.extend(VICTIMS_RANGES.map(|range| format!("**.test:{port}@{range}")));
    }
    NetworkRules::parse(&rules.join(","))
}

/// Runs the plan of `ringfence ARGS` without `layers` (joined by `+`) and prints the outcome as JSON.
pub(crate) fn run_without(layers: &str, args: Vec<OsString>) -> ExitCode {
    match attempt(layers, args) {
        Ok(outcome) => {
            println!("{}", serde_json::to_string(&outcome).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem:?}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(layers: &str, args: Vec<OsString>) -> Result<Outcome, Problem> {
    let cli = Cli::try_parse_from(args).map_err(|e| broken(e.to_string()))?;
    match cli.command {
        Command::Run(args) => command(layers, args),
        Command::Exec(args) => program(layers, &args),
        _ => Err(broken("only `run` and `exec` can be run")),
    }
}

fn command(layers: &str, args: RunArgs) -> Result<Outcome, Problem> {
    let around = Surroundings::real(false)?;
    let effective = effective(&args.policy, &around)?;
    let engine = Engine::builder().host(effective.place).command_policy(effective.policy);
    let call = CommandCall { argv: args.argv, ..CommandCall::default() };
    run(layers, engine, &call.into())
}

fn program(layers: &str, args: &ExecArgs) -> Result<Outcome, Problem> {
    let around = Surroundings::real(false)?;
    let effective = effective_code(&args.policy, &around)?;
    let code = args.program().0.code.ok_or_else(|| broken("no code"))?.into_encoded_bytes();
    let engine = Engine::builder().host(effective.place).code_policy(effective.policy);
    run(layers, engine, &CodeCall { code, ..CodeCall::default() }.into())
}

fn run(layers: &str, engine: Builder, call: &Call) -> Result<Outcome, Problem> {
    let layers = layers.to_owned();
    let engine = engine.recorder(Recorder::off());
    let engine = engine.edit_plan(move |plan| without(&layers, plan)).build()?;
    let foreground = Foreground { prefork: Prefork::none(), io: Io::Capture };
    Ok(engine
        .run_in_foreground(LOCAL, "run", call, foreground, &|text| eprintln!("{text}"))
        .outcome)
}

fn without(layers: &str, plan: &mut Plan) -> Result<(), Problem> {
    for name in layers.split('+') {
        let layer = Layer::by_name(name).ok_or_else(|| broken(format!("no layer `{name}`")))?;
        layer.take_out(plan).map_err(|e| broken(e.to_string()))?;
    }
    Ok(())
}

fn broken(what: impl Into<String>) -> Problem {
    Problem::internal(Code::Internal, what)
}
