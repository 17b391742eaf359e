//! A data directory, a working directory and engines in them.

use std::path::PathBuf;
use std::sync::Arc;

use ringfence_audit::{Filter, LedgerSettings, Reader, Record};
use ringfence_engine::admission::AdmissionSettings;
use ringfence_engine::clock::TestClock;
use ringfence_engine::{Builder, CodePolicy, CodeRules, Engine, HostContext, Recorder};
use ringfence_jail::Launcher;
use ringfence_spec::{CodePreset, Limits};

/// Some moment.
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) clock: Arc<TestClock>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "work"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, clock: Arc::new(TestClock::at_ms(NOW_MS)) }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.data().join("ledger")
    }

    pub(crate) fn place(&self) -> HostContext {
        HostContext {
            environment: std::env::vars_os().collect(),
            cwd: self.work(),
            cwd_id: None,
            state: self.data(),
            config: None,
        }
    }

    /// An engine that writes everything down. The calling process must have one thread.
    pub(crate) fn builder(&self) -> Builder {
        // A thread that was joined is still listed for a moment.
        let began = std::time::Instant::now();
        while std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count) > 1 {
            assert!(began.elapsed() < ringfence_testing::limit(), "the last engine left a thread");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let launcher = Launcher::start().unwrap();
        Engine::builder()
            .launcher(launcher)
            .host(self.place())
            .code_policy(policy(CodePreset::Open))
            .recorder(
                Recorder::open(&self.ledger(), LedgerSettings::new(ringfence_engine::redact))
                    .unwrap(),
            )
            .admission(AdmissionSettings::default())
            .clock(Arc::clone(&self.clock) as Arc<dyn ringfence_engine::clock::Clock>)
            .parallel(1)
    }

    pub(crate) fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    /// Everything that was written down, the newest first.
    pub(crate) fn rows(&self) -> Vec<Record> {
        let reader = Reader::open(&self.ledger(), None).unwrap();
        let filter = Filter { view: ringfence_audit::View::Rows, ..Filter::default() };
        reader.page(&filter, None, 1000).unwrap().records
    }
}

pub(crate) fn policy(preset: CodePreset) -> CodePolicy {
    CodePolicy {
        rules: CodeRules { preset, ..CodeRules::default() },
        limits: Limits::for_code(preset),
        python: None,
        ..CodePolicy::default()
    }
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}
