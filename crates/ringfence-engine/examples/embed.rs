//! The engine in a program of one's own: `cargo run -p ringfence-engine --example embed`.

#![allow(clippy::disallowed_methods)]

use ringfence_engine::{CodeCall, Engine, HostContext, Launcher};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First: runs are launched by a process that is forked before there are threads.
    let launcher = Launcher::start()?;
    let data = std::env::temp_dir().join(format!("ringfence-embed-{}", std::process::id()));
    let engine = Engine::builder().launcher(launcher).place(HostContext::here(&data)?).build()?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let session = engine.session_create("me", false).await?.id.to_string();
        for code in ["x = 20", "x * 2 + 2"] {
            let (code, session) = (code.into(), Some(session.clone()));
            let ran = engine.execute("me", CodeCall { code, session, ..CodeCall::default() }).await;
            println!("{:?} {:?}", ran.outcome.status, ran.outcome.value);
        }
        engine.session_close("me", &session).await
    })?;
    Ok(std::fs::remove_dir_all(data)?)
}
