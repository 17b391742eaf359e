//! Checks that grants are for hosts that the network rules allow: any other grant could never be used.

use ringfence_spec::network::{Host, NetworkRules, NetworkVerdict, host_and_port};
use ringfence_spec::{Hint, Network, Policy};

/// Port of rules that name none.
const HTTPS_PORT: u16 = 443;

/// Succeeds if a policy allows connections to this host and port; else returns the smallest rule that would.
pub(crate) fn allowed_or_rule(policy: &Policy, host: &Host, port: u16) -> Result<(), String> {
    let none = NetworkRules::default();
    let rules = match &policy.network {
        Network::None => &none,
        Network::Allow(rules) => rules,
    };
    match rules.decide(host, port) {
        NetworkVerdict::Allowed(_) => Ok(()),
        NetworkVerdict::Denied(denied) => {
            Err(denied.grant.unwrap_or_else(|| host_and_port(host, port, HTTPS_PORT)))
        }
    }
}

/// The way out: a rule for the host besides the grant.
pub(crate) fn allow_too(rule: &str) -> Hint {
    Hint::operator(
        format!("allow the host too: `--net allow:{rule}`"),
        format!("to allow the host too: `{rule}`"),
    )
}
