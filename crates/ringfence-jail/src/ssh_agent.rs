//! The user's SSH agent, as the supervisor sees it: connects to it for the network helper, and turns requests that the
//! helper refused into denials. Reads no byte from the agent.

use std::os::fd::{AsRawFd as _, OwnedFd};

use ringfence_plan::{NetworkPlan, SshAgentPlan};
use ringfence_spec::{AgentRefusal, Code, Denial, DenialRule, Hint, Layer, Problem, escape_name};
use ringfence_sys::untrusted;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects to the user's SSH agent, if the plan has one.
pub(crate) fn connect_agent(plan: &NetworkPlan) -> Result<Option<OwnedFd>, Problem> {
    let Some(SshAgentPlan { socket: path, .. }) = &plan.ssh_agent else { return Ok(None) };
    let cannot = |why: &dyn std::fmt::Display| {
        let message = format!("cannot connect to the SSH agent at `{}`", path.display());
        Problem::cannot_build(Code::SshAgent, message).cause(why)
    };
    // The path was resolved before the run: a link that the run has made since is not followed.
    let node = untrusted::open_absolute(path).map_err(|error| match error.errno {
        Errno::NOENT => cannot(&"there is no such file").hint(start_ssh_agent()),
        errno => cannot(&errno),
    })?;
    let stat = rustix::fs::fstat(&node).map_err(|e| cannot(&e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(
            cannot(&"it is not a socket").hint("`SSH_AUTH_SOCK` must name an agent's socket")
        );
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(cannot(&"it belongs to another user"));
    }
    // Without waiting: an agent that does not accept has its backlog full.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|e| cannot(&e))?;
    // The path may be exchanged at any time; the descriptor cannot.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", node.as_raw_fd()));
    let connected = address.and_then(|address| rustix::net::connect(&socket, &address));
    connected.map_err(|errno| match errno {
        Errno::CONNREFUSED => cannot(&"no agent listens there").hint(start_ssh_agent()),
        Errno::AGAIN => cannot(&"the agent does not answer"),
        errno => cannot(&errno),
    })?;
    Ok(Some(socket))
}

/// The way out where no agent listens.
pub fn start_ssh_agent() -> Hint {
    Hint::operator(
        "start an agent in this shell (`eval $(ssh-agent)`, `ssh-add`), or leave out `--ssh-agent`",
        "to start Ringfence where `SSH_AUTH_SOCK` names an SSH agent that runs",
    )
}

/// The denial for a request to the SSH agent. The helper took its words from a run: each is shown with a bound.
pub(crate) fn agent_denial(refusal: &AgentRefusal) -> Denial {
    let cut = |text: &str| -> String { text.chars().take(500).collect() };
    let request = escape_name(&cut(&refusal.request)).into_owned();
    let reason = cut(&refusal.reason);
    let subject = match &refusal.place {
        Some(place) => format!("ssh_agent({request} for {})", escape_name(&cut(place))),
        None => format!("ssh_agent({request})"),
    };
    let hint = match &refusal.grant {
        Some(grant) => {
            let grant = escape_name(&cut(grant)).into_owned();
            Hint::operator(
                format!("{reason}; allow it with `--ssh-agent {grant}`"),
                format!("to allow logins by the SSH agent: `{grant}`"),
            )
        }
        None => reason.clone().into(),
    };
    let denial = Denial::new(Layer::Network, DenialRule::Network, subject, hint);
    Denial { argument: Some(reason), ..denial }
}
