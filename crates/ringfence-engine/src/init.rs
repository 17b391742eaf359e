//! Lets an embedding program be its own launcher.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Prepares an embedding program to launch runs. Call it first in `main`, before any thread is started.
///
/// The engine launches runs by a helper process with a single thread. With this call it executes the embedding program
/// itself as that helper, and this function then does the helper's work and never returns; the same holds for the process
/// that makes a run's connections. A program without it names an
/// installed `ringfence` by [`crate::Builder::launcher_program`].
///
/// ```no_run
/// #[tokio::main(flavor = "current_thread")]
/// async fn start() -> Result<(), Box<dyn std::error::Error>> {
///     let engine = ringfence_engine::Engine::builder().build()?;
///     let code = ringfence_engine::CodeCall { code: b"6 * 7".to_vec(), ..Default::default() };
///     println!("{:?}", engine.execute("me", code).await.outcome.value);
///     Ok(())
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     ringfence_engine::init();
///     start()
/// }
/// ```
pub fn init() {
    ringfence_net::become_helper_if_asked();
    ringfence_jail::allow_network_helper();
    ringfence_jail::become_launcher_if_asked();
    IS_DONE.store(true, Ordering::Release);
}

/// Returns true if this program can be executed as a launcher.
pub(crate) fn is_done() -> bool {
    IS_DONE.load(Ordering::Acquire)
}
