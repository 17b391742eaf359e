//! The part of a plan that the child executes, in a form that can be sent to it: a child may be forked before its plan.

use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_spec::ResourceFence;
use serde::{Deserialize, Serialize};

use crate::plan::{CgroupPlan, Identity, LandlockPlan, Namespace, Plan, Step};
use crate::seccomp::Insn;

/// The host name that a run sees.
const HOSTNAME: &str = "ringfence";

/// The child's steps and their inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// The user and group it becomes.
    pub identity: Identity,
    /// Steps of the first process.
    pub setup: Vec<Step>,
    /// Steps of the program's own process.
    pub payload: Vec<Step>,
    /// The system call filter.
    pub seccomp: Option<FilterOrders>,
    /// Landlock rules.
    pub landlock: Option<LandlockPlan>,
    /// The program's whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
}

/// A filter ready to be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterOrders {
    /// True if it is installed with a listener for its notifications.
    pub listener: bool,
    /// The program.
    pub insns: Vec<Insn>,
}

/// The part of a plan that does not depend on the workspace, the program or its environment: a child can have done it
/// before it has the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemView {
    /// The steps before the first that needs something of the run: devices, the host's system files, the network. Each
    /// names what it mounts by device and inode.
    pub steps: Vec<Step>,
    /// The limits of its cgroup.
    pub cgroup: Option<CgroupPlan>,
}

impl SystemView {
    /// That of a plan; `None` if it has none that a child could have done before.
    pub fn of(plan: &Plan) -> Option<Self> {
        let end = plan.setup.iter().position(|step| *step == Step::TakeSupplies)?;
        let steps = plan.setup[..end].to_vec();
        Orders::can_follow(plan, &Orders::opening()).then_some(Self { steps, cgroup: plan.cgroup })
    }
}

impl Orders {
    /// The steps that every run in namespaces begins with, whatever its plan: so a child can begin before it has one.
    pub fn opening() -> Vec<Step> {
        let mut steps = Self::before_mounts();
        steps.push(Step::DropBoundingSet);
        steps.extend(crate::view::devices().into_iter().map(Step::Mount));
        steps
    }

    /// The same, up to its first mount.
    pub(crate) fn before_mounts() -> Vec<Step> {
        vec![
            Step::CloseDescriptors,
            Step::WipeSelf,
            Step::Unshare { namespaces: Namespace::REST.to_vec() },
            Step::TakeIdentity,
            Step::PrivateMounts,
            Step::Hostname { name: HOSTNAME.to_owned() },
            Step::LoopbackUp,
            Step::NewRoot,
        ]
    }

    /// The steps that every setup in namespaces ends with.
    pub(crate) fn closing(resources: ResourceFence) -> Vec<Step> {
        let mut steps = vec![
            Step::SealRoot,
            Step::DetachOldRoot,
            // PDEATHSIG is cleared by a change of uid, so it comes after TakeIdentity; it must hold before the program
            // starts.
            Step::DieWithParent,
            Step::HideSelf,
            // As late as possible: meanwhile the launcher makes the cgroup and requests the permit.
            Step::TakeLeave,
        ];
        if resources != ResourceFence::Rlimit {
            steps.push(Step::JoinCgroup);
        }
        steps.push(Step::ForkPayload);
        steps
    }

    /// The child's part of a plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            identity: plan.identity,
            setup: plan.setup.clone(),
            payload: plan.payload.clone(),
            seccomp: plan.seccomp.as_ref().map(|filter| FilterOrders {
                listener: filter.listener(),
                insns: filter.insns.clone(),
            }),
            landlock: plan.landlock.clone(),
            environment: plan.environment.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            argv: plan.argv.clone(),
            cwd: plan.cwd.clone(),
        }
    }

    /// Namespaces that a child is created in before its plan.
    pub fn initial_namespaces() -> Vec<Namespace> {
        Namespace::INITIAL.to_vec()
    }

    /// Returns true if a child that has done these steps can continue with this plan.
    pub fn can_follow(plan: &Plan, done: &[Step]) -> bool {
        plan.initial_namespaces == Self::initial_namespaces() && plan.setup.starts_with(done)
    }
}
