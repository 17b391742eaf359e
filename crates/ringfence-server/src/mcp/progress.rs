//! Progress notifications for clients that ask for them: the steps that the program reports, with their total. Between steps,
//! and for a program that reports none, the message tells the elapsed time, and the number only grows by the least there is:
//! seconds in its place would hide the first steps of a slow program.

use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

use ringfence_engine::Run;

/// Interval between notifications about a program without a new step: short enough to show activity, long enough to cost nothing.
const EVERY: Duration = Duration::from_secs(1);

/// Poll interval for steps of the program; at most one notification each.
const STEPS_EVERY: Duration = Duration::from_millis(200);

/// Describes the progress of a run.
pub(super) fn in_words(run: &Run) -> String {
    let seconds = run.began().elapsed().as_secs_f64();
    let note = run.note().map(|note| format!(": {note}")).unwrap_or_default();
    format!("running for {seconds:.0} s{note}")
}

/// Notifications of one call.
pub(super) struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    run: &'a Run,
    /// `None`: the client asked for no notifications.
    token: Option<ProgressToken>,
    sent: Sent,
}

/// Numbers of the last notification. The protocol requires that the progress increases with each.
#[derive(Clone, Copy, Debug)]
struct Sent {
    progress: f64,
}

impl Sent {
    const NOTHING: Self = Self { progress: f64::NEG_INFINITY };

    /// Returns the step's own numbers if that keeps the order.
    fn step(&mut self, done: f64) -> Option<f64> {
        (done > self.progress).then(|| {
            self.progress = done;
            done
        })
    }

    /// Returns the smallest number that shows activity, so that every step of the program is still above it.
    fn heartbeat(&mut self) -> f64 {
        let least = if self.progress.is_finite() { self.progress.next_up() } else { 0.0 };
        // Some readers reject subnormal numbers: strtod(3) reports ERANGE for them.
        self.progress = if least.is_subnormal() { f64::MIN_POSITIVE } else { least };
        self.progress
    }
}

impl<'a> Progress<'a> {
    pub(super) fn new(context: &'a RequestContext<RoleServer>, run: &'a Run) -> Self {
        let token = context.meta.get_progress_token();
        Self { context, run, token, sent: Sent::NOTHING }
    }

    /// Sends notifications forever, or sleeps forever if the client asked for none; the caller drops it when the call ends.
    pub(super) async fn report(&mut self) {
        let mut last = Instant::now();
        loop {
            if self.token.is_none() {
                return std::future::pending().await;
            }
            tokio::time::sleep(STEPS_EVERY).await;
            let is_sent = if self.send_step().await {
                true
            } else if last.elapsed() >= EVERY {
                let progress = self.sent.heartbeat();
                let total = self.run.step().and_then(|step| step.total);
                self.send(progress, total).await;
                true
            } else {
                false
            };
            if is_sent {
                last = Instant::now();
            }
        }
    }

    /// Sends the program's last step, if it was not sent yet. Returns whether it was sent now.
    pub(super) async fn send_step(&mut self) -> bool {
        if self.token.is_none() {
            return false;
        }
        let Some(step) = self.run.step() else { return false };
        let Some(done) = self.sent.step(step.done) else { return false };
        self.send(done, step.total).await;
        true
    }

    async fn send(&mut self, progress: f64, total: Option<f64>) {
        let Some(token) = &self.token else { return };
        let mut report = ProgressNotificationParam::new(token.clone(), progress)
            .with_message(in_words(self.run));
        report.total = total;
        if self.context.peer.notify_progress(report).await.is_err() {
            self.token = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_always_increases() {
        let mut sent = Sent::NOTHING;
        let (first, second, third) = (sent.heartbeat(), sent.heartbeat(), sent.heartbeat());
        assert!(first < second && second < third && third < 1e-300, "{first} {second} {third}");
        assert!(first == 0.0 && second.is_normal() && third.is_normal());
        assert_eq!(sent.step(1.0), Some(1.0), "however long it took");
        assert_eq!(sent.step(3.0), Some(3.0));
        assert_eq!(sent.step(3.0), None, "sent already");
        let beat = sent.heartbeat();
        assert!(beat > 3.0 && beat < 3.1, "{beat}");
        assert_eq!(sent.step(4.0), Some(4.0));
    }
}
