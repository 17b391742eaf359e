//! Runs Python and a command from a program of one's own: `cargo run -p ringfence-engine --example embed`.

use ringfence_engine::{CodeCall, CommandCall, Engine, SessionOptions};

#[tokio::main]
async fn start() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build()?;
    let session = engine.session_create("me", SessionOptions::default()).await?.id;
    for code in ["x = 20", "print('hello')\nx * 2 + 2"] {
        let call =
            CodeCall { code: code.into(), session: Some(session.clone()), ..CodeCall::default() };
        let outcome = engine.execute("me", call).await.outcome;
        println!("{:?} {:?} {:?}", outcome.status, outcome.stdout, outcome.value);
    }
    let call = CommandCall { argv: vec!["uname".into()], ..CommandCall::default() };
    println!("{:?}", engine.command("me", call).await.outcome.stdout);
    engine.session_close("me", &session).await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First: the engine executes this program again, as the process that launches runs.
    ringfence_engine::init();
    start()
}
