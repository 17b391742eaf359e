//! Progress notifications: the elapsed time of a run, and the program's own note, for clients that ask for them.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;

use ringfence_engine::Run;

/// Interval between notifications: short enough to show activity, long enough to cost nothing.
const EVERY: Duration = Duration::from_secs(1);

/// Describes the progress of a run.
pub(super) fn in_words(run: &Run) -> String {
    let seconds = run.began().elapsed().as_secs_f64();
    let note = run.partial().note.map(|note| format!(": {note}")).unwrap_or_default();
    format!("running for {seconds:.0} s{note}")
}

/// Sends notifications forever, or sleeps forever if the client asked for none; the caller drops it when the call ends.
pub(super) async fn report(context: &RequestContext<RoleServer>, run: &Run) {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(EVERY).await;
        // Always increases, as the protocol requires: the clock is monotonic.
        let seconds = run.began().elapsed().as_secs_f64();
        let report =
            ProgressNotificationParam::new(token.clone(), seconds).with_message(in_words(run));
        if context.peer.notify_progress(report).await.is_err() {
            return std::future::pending().await;
        }
    }
}
