//! The engine in a program that has threads, as in `cargo test`: the launcher is an installed `ringfence`.

use std::time::{Duration, Instant};

use ringfence_engine::{Builder, CodeCall, CommandCall, Engine, HostContext};
use ringfence_spec::{AuditState, Status};

use crate::support::{World, binary, have};

fn builder(world: &World) -> Builder {
    let environment = std::env::vars_os().collect();
    let state = world.root().join("data");
    std::fs::create_dir_all(&state).unwrap();
    Engine::builder().host(HostContext {
        environment,
        cwd: world.work(),
        cwd_id: None,
        state,
        config: None,
    })
}

fn on_threads<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(3).enable_all().build().unwrap().block_on(work)
}

#[test]
fn an_engine_is_built_and_runs_among_threads_and_keeps_a_ledger() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    on_threads(async {
        let engine = builder(&world).launcher_program(binary()).build().unwrap();
        let code = CodeCall { code: b"6 * 7".to_vec(), ..CodeCall::default() };
        let argv = ["sh", "-c", "echo from a command"].map(Into::into).to_vec();
        let command = CommandCall { argv, ..CommandCall::default() };
        let (code, command) =
            tokio::join!(engine.execute("me", code), engine.command("me", command));
        assert_eq!(code.outcome.value.as_deref(), Some("42"), "{:?}", code.outcome);
        assert_eq!(command.outcome.stdout, "from a command\n", "{:?}", command.outcome);
        assert_eq!(code.outcome.enforcement.unwrap().audit, AuditState::On);
        assert_eq!(command.outcome.status, Status::Ok);
    });
    let data = world.root().join("data");
    let listed = world.ringfence(&["audit", "ls", "--json", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    for id in ["execute_code", "run_command"] {
        assert!(listed.stdout.contains(id), "{id}: {}", listed.stdout);
    }
}

#[test]
fn a_program_that_is_no_launcher_of_this_version_is_refused_at_once() {
    let world = World::new();
    let text = "#!/bin/sh\nprintf 'ringfence-launcher 0.0.0 1' >&0\nsleep 5\n";
    let older = world.write_executable("older", text);
    let rows = [
        ("/bin/true".into(), "without a greeting", "ringfence_engine::init()"),
        ("ringfence".into(), "not absolute", ""),
        (world.root().join("none"), "No such file", ""),
        (older, "ringfence-launcher 0.0.0 1", "same version"),
    ];
    for (program, cause, hint) in rows {
        let began = Instant::now();
        let outcome = on_threads(async {
            let engine = builder(&world).launcher_program(&program).build().unwrap();
            let argv = vec!["true".into()];
            engine.command("me", CommandCall { argv, ..CommandCall::default() }).await.outcome
        });
        let error = outcome.error.unwrap();
        assert_eq!((outcome.status, error.code.as_str()), (Status::Failed, "launcher"));
        let said = format!("{} {}", error.message, error.hint.unwrap_or_default());
        assert!(said.contains(cause) && said.contains(hint), "{program:?}: {said}");
        assert!(began.elapsed() < Duration::from_secs(4), "{program:?}: {:?}", began.elapsed());
    }
}
