//! Limits of the run's network, and what is left of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_spec::network::{Host, NetworkLimit, NetworkLimitKind};

use crate::report::Refusal;

/// Every limit of a run.
pub(crate) struct Budgets(Vec<Arc<Budget>>);

/// One limit. Shared with streams that hyper may move between threads; here is one.
pub(crate) struct Budget {
    limit: NetworkLimit,
    left: AtomicU64,
}

impl Budgets {
    pub(crate) fn new(limits: &[NetworkLimit]) -> Self {
        let budget = |limit: &NetworkLimit| Budget {
            left: AtomicU64::new(limit.most),
            limit: limit.clone(),
        };
        Self(limits.iter().map(budget).map(Arc::new).collect())
    }

    fn of<'a>(
        &'a self,
        kind: NetworkLimitKind,
        host: &'a Host,
    ) -> impl Iterator<Item = &'a Arc<Budget>> {
        self.0.iter().filter(move |b| b.limit.kind == kind && b.limit.is_about(host))
    }

    /// Counts one connection or request; refuses it if a limit is used up.
    pub(crate) fn take(&self, kind: NetworkLimitKind, host: &Host) -> Result<(), Refusal> {
        if let Some(budget) = self.of(kind, host).find(|b| b.left.load(Ordering::Relaxed) == 0) {
            return Err(budget.refusal());
        }
        for budget in self.of(kind, host) {
            budget.spend(1);
        }
        Ok(())
    }

    /// The limits that bytes to and from a host count against.
    pub(crate) fn bytes(&self, host: &Host) -> Vec<Arc<Budget>> {
        self.of(NetworkLimitKind::Bytes, host).cloned().collect()
    }
}

impl Budget {
    /// Counts; returns false if the limit is passed.
    pub(crate) fn spend(&self, n: u64) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(n), Ordering::Relaxed);
        n <= left
    }

    pub(crate) fn refusal(&self) -> Refusal {
        let reason = format!("the limit `{}` of this run's network is used up", self.limit);
        Refusal { rule: Some("net_limit".to_owned()), ..Refusal::denied(reason) }
    }
}
