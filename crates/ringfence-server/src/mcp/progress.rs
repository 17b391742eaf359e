//! Progress notifications for clients that ask for them: the steps that the program reports, with their total. Between steps,
//! and for a program that reports none, the message tells the elapsed time, and the number grows by a millionth each second:
//! whole seconds would hide the first steps of a slow program.

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
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    progress: Option<f64>,
    /// Last step of the program that was sent.
    step: f64,
}

impl Sent {
    /// Returns the step's own numbers if that keeps the order.
    fn step(&mut self, done: f64) -> Option<f64> {
        self.progress.is_none_or(|sent| done > sent).then(|| {
            *self = Self { progress: Some(done), step: done };
            done
        })
    }

    /// Returns a number that shows activity and is hardly above the last step: a millionth for each second.
    fn heartbeat(&mut self, elapsed: Duration) -> f64 {
        let by_time = self.step + elapsed.as_secs_f64() * 1e-6;
        let progress = self.progress.map_or(by_time, |sent| by_time.max(sent.next_up()));
        self.progress = Some(progress);
        progress
    }
}

impl<'a> Progress<'a> {
    pub(super) fn new(context: &'a RequestContext<RoleServer>, run: &'a Run) -> Self {
        let token = context.meta.get_progress_token();
        Self { context, run, token, sent: Sent::default() }
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
                let progress = self.sent.heartbeat(self.run.began().elapsed());
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
        let mut sent = Sent::default();
        let [first, second] = [1, 2].map(|s| sent.heartbeat(Duration::from_secs(s)));
        assert!(0.0 < first && first < second && second < 1e-5, "{first} {second}");
        assert_eq!(sent.step(1.0), Some(1.0), "however long it took");
        assert_eq!(sent.step(3.0), Some(3.0));
        assert_eq!(sent.step(3.0), None, "sent already");
        let beat = sent.heartbeat(Duration::from_mins(1));
        assert!(beat > 3.0 && beat < 3.001, "{beat}");
        assert_eq!(sent.step(4.0), Some(4.0));
    }
}
