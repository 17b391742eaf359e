//! Describes a filter: the verdict on one refused call, and the whole filter for `ringfence explain`.

use super::checks::Outcome;
use super::errno::EPERM;
use super::reasons::{self, Reason, Reporting};
use super::rules::{self, Ruling};
use super::{Arch, Filter, FilterSpec, Observe, Profile, table};
use ringfence_spec::DenialRule;
use serde::Serialize;
use std::collections::BTreeSet;

/// Verdict on a refused call: the error to return, and the explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SyscallVerdict {
    /// The rule that refused it: a stable name such as `mount` or `socket_family`.
    pub rule: DenialRule,
    /// The error the program gets; 0 if the call pretends to succeed.
    pub errno: i32,
    /// The argument that decided, from 0; `None` if the call is refused whatever its arguments.
    pub argument: Option<u8>,
    /// An alternative, for the program's author.
    pub hint: &'static str,
}

/// The reason that `spec` refuses this call. With [`Observe::Notify`] it is used for calls that came to the listener: a
/// notified call always gets the rule that sent it there.
///
/// For a connect that the supervisor decides, it is the verdict to use if the supervisor refuses. A call that the spec
/// allows never comes to the listener; should one, it is refused as `not_notified`.
pub fn explain(spec: &FilterSpec, nr: i32, args: &[u64; 6]) -> SyscallVerdict {
    let spec = spec.normalised();
    let ruling = u32::try_from(nr).ok().and_then(|nr| rules::ruling(spec, nr));
    let unknown = Outcome::Refuse { reason: &reasons::NOT_IMPLEMENTED, argument: None };
    let outcome = ruling.map_or(unknown, |ruling| ruling.decide(args));
    match outcome {
        Outcome::Refuse { reason, argument } => {
            SyscallVerdict { rule: reason.rule, errno: reason.errno, argument, hint: reason.hint }
        }
        Outcome::Allow => SyscallVerdict {
            rule: DenialRule::NotNotified,
            errno: EPERM,
            argument: None,
            hint: "the sandbox allows this call, yet the supervisor was asked; report this bug",
        },
    }
}

/// A filter in words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// Architecture of the system calls.
    pub arch: Arch,
    /// Kind of run.
    pub profile: Profile,
    /// Handling of refusals.
    pub observe: Observe,
    /// Length of the program.
    pub n_insns: usize,
    /// Number of calls allowed whatever their arguments.
    pub n_allowed: usize,
    /// Number of calls refused whatever their arguments, without those that the supervisor decides.
    pub n_refused: usize,
    /// Number of calls that depend on their arguments.
    pub n_checked: usize,
    /// Calls allowed whatever their arguments.
    pub allowed: Vec<&'static str>,
    /// Calls refused whatever their arguments.
    pub refused: Vec<RefusedCall>,
    /// Calls whose arguments decide.
    pub checked: Vec<CheckedCall>,
    /// Calls the supervisor decides and performs.
    pub supervised: Vec<&'static str>,
}

/// A call that is refused whatever its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RefusedCall {
    /// Its name.
    pub call: &'static str,
    /// The rule that refuses it.
    pub rule: DenialRule,
    /// The error the program gets.
    pub errno: i32,
    /// True if the supervisor is notified.
    pub observed: bool,
}

/// A call whose arguments decide.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckedCall {
    /// Its name.
    pub call: &'static str,
    /// The rules that can refuse it.
    pub rules: BTreeSet<DenialRule>,
}

pub(super) fn summary(filter: &Filter) -> Summary {
    let spec = filter.spec.normalised();
    let mut allowed = Vec::new();
    let mut refused = Vec::new();
    let mut checked = Vec::new();
    let mut supervised = Vec::new();
    for &(nr, call) in table::calls(spec.arch) {
        let Some(ruling) = rules::ruling(spec, nr) else {
            continue;
        };
        if i32::try_from(nr).is_ok_and(|nr| spec.supervises(nr)) {
            supervised.push(call);
        } else if !ruling.guards.is_empty() {
            checked.push(CheckedCall { call, rules: refusing_rules(&ruling) });
        } else if let Some(reason) = reason(ruling.otherwise) {
            let observed = spec.observe == Observe::Notify && reason.report == Reporting::Denial;
            refused.push(RefusedCall { call, rule: reason.rule, errno: reason.errno, observed });
        } else {
            allowed.push(call);
        }
    }
    Summary {
        arch: spec.arch,
        profile: spec.profile,
        observe: spec.observe,
        n_insns: filter.insns.len(),
        n_allowed: allowed.len(),
        n_refused: refused.len(),
        n_checked: checked.len(),
        allowed,
        refused,
        checked,
        supervised,
    }
}

fn refusing_rules(ruling: &Ruling) -> BTreeSet<DenialRule> {
    let outcomes = ruling.guards.iter().map(|guard| guard.then).chain([ruling.otherwise]);
    outcomes.filter_map(reason).map(|reason| reason.rule).collect()
}

fn reason(outcome: Outcome) -> Option<&'static Reason> {
    match outcome {
        Outcome::Refuse { reason, .. } => Some(reason),
        Outcome::Allow => None,
    }
}
