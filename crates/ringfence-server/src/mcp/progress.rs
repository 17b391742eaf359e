//! Tells a client that asked for it how long its run has been going on, and what the program says of it.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;

use ringfence_engine::Run;

/// Often enough to show life, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_secs(1);

/// How a run is getting on.
pub(super) fn in_words(run: &Run) -> String {
    let seconds = run.began().elapsed().as_secs_f64();
    let note = run.partial().note.map(|note| format!(": {note}")).unwrap_or_default();
    format!("running for {seconds:.0} s{note}")
}

/// Reports for ever, or sleeps for ever if nobody asked; the caller drops it when the call ends.
pub(super) async fn report(context: &RequestContext<RoleServer>, run: &Run) {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(EVERY).await;
        // Always more than before, as the protocol asks: the clock does not go back.
        let seconds = run.began().elapsed().as_secs_f64();
        let report =
            ProgressNotificationParam::new(token.clone(), seconds).with_message(in_words(run));
        if context.peer.notify_progress(report).await.is_err() {
            return std::future::pending().await;
        }
    }
}
