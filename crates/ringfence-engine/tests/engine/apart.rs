//! Random operations on several sessions of several owners, with copies, rollbacks, ends and restarts of the engine,
//! against a model in memory. Every content is written once and carries the session it was written in, so a byte of
//! another session's cannot pass for the right answer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringfence_engine::files::WriteOptions;
use ringfence_engine::{CodeCall, CommandCall, Engine, ReplState, SessionId, SessionOptions};
use ringfence_spec::{Outcome, Problem, Status};

use crate::world::{World, on_runtime};

/// Real engines, real interpreters: few, and long.
const CASES: u32 = 12;
const OPS: std::ops::Range<usize> = 25..40;

const OWNERS: [&str; 3] = ["ann", "bob", "eve"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Who asks, its owner if nobody is named, and of which of all sessions there ever were.
type RunIdentity = (Option<usize>, prop::sample::Index);

#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    Write(RunIdentity, usize),
    Read(RunIdentity, usize),
    List(RunIdentity),
    CellWrites(RunIdentity, usize),
    CellReads(RunIdentity),
    CommandReads(RunIdentity),
    Fork(RunIdentity),
    Rollback(RunIdentity, prop::sample::Index),
    Close(RunIdentity),
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let asker = || prop_oneof![3 => Just(None), 1 => (0..OWNERS.len()).prop_map(Some)];
    let who = || (asker(), any::<prop::sample::Index>());
    let name = || 0..NAMES.len();
    prop_oneof![
        1 => (0..OWNERS.len()).prop_map(Op::Create),
        6 => (who(), name()).prop_map(|(w, n)| Op::Write(w, n)),
        6 => (who(), name()).prop_map(|(w, n)| Op::Read(w, n)),
        3 => who().prop_map(Op::List),
        6 => (who(), name()).prop_map(|(w, n)| Op::CellWrites(w, n)),
        6 => who().prop_map(Op::CellReads),
        2 => who().prop_map(Op::CommandReads),
        2 => who().prop_map(Op::Fork),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(w, c)| Op::Rollback(w, c)),
        1 => who().prop_map(Op::Close),
        1 => Just(Op::Restart),
    ]
}

pub(crate) fn no_read_returns_another_sessions_byte(_: &World) {
    let config = Config {
        cases: CASES,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let ops = prop::collection::vec(op(), OPS);
    let done = runner.run(&ops, |ops| {
        let world = World::new();
        let mut model = Model::default();
        let ops: Vec<Op> = [Op::Create(0), Op::Create(1)].into_iter().chain(ops).collect();
        // An engine for each stretch without a restart, on the same data. Each needs a launcher, which only a process with
        // one thread may start: so this also shows that nothing of an engine outlives it.
        for stretch in ops.split(|op| matches!(op, Op::Restart)) {
            let engine = world.engine();
            on_runtime(async {
                for op in stretch {
                    model.step(&engine, op).await;
                }
            });
            drop(engine);
            model.restarted();
        }
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
}

#[derive(Default)]
struct Model {
    sessions: Vec<Session>,
    n_written: u32,
}

/// One session as it should be.
#[derive(Clone, Default)]
struct Session {
    id: SessionId,
    owner: usize,
    closed: bool,
    files: BTreeMap<&'static str, String>,
    /// The variable `v`, if there is one.
    v: Option<String>,
    /// What it was after the cells that can be gone back to.
    checkpoints: BTreeMap<u64, Option<String>>,
    /// Cells the interpreter ran since it was started, 0 if there is none.
    n_cells: u64,
    /// True if any ran before.
    has_slept: bool,
}

impl Model {
    async fn step(&mut self, engine: &Engine, op: &Op) {
        match op {
            Op::Create(owner) => {
                let state =
                    engine.session_create(OWNERS[*owner], SessionOptions::default()).await.unwrap();
                let id = state.id;
                self.sessions.push(Session { id, owner: *owner, ..Session::default() });
            }
            Op::Write(who, name) => {
                let Some((at, owner)) = self.find(who) else { return };
                let (content, name) = (self.fresh(at), NAMES[*name]);
                let session = &mut self.sessions[at];
                let bytes = content.clone().into_bytes();
                let options = WriteOptions::default();
                let done = engine.file_write(owner, &session.id, name.into(), bytes, options).await;
                if session.answers(owner, done).is_some() {
                    session.files.insert(name, content);
                }
            }
            Op::Read(who, name) => {
                let Some((at, owner)) = self.find(who) else { return };
                let (session, name) = (&self.sessions[at], NAMES[*name]);
                let read = engine.file_read(owner, &session.id, name.into(), 0, None).await;
                match (session.files.get(name), read) {
                    (None, Err(problem)) if problem.code.as_str() == "not_found" => {
                        assert!(session.is(owner));
                    }
                    (expected, read) => {
                        let Some(read) = session.answers(owner, read) else { return };
                        assert_eq!(Some(String::from_utf8(read.bytes).unwrap()), expected.cloned());
                    }
                }
            }
            Op::List(who) => {
                let Some((at, owner)) = self.find(who) else { return };
                let session = &self.sessions[at];
                let listing = engine.file_list(owner, &session.id, ".".into(), 3, 100).await;
                let Some(listing) = session.answers(owner, listing) else { return };
                let names: Vec<&str> = listing.entries.iter().map(|e| e.path.as_str()).collect();
                assert_eq!(names, session.files.keys().copied().collect::<Vec<_>>());
                let own = engine.session_list(owner).await.unwrap();
                let mut own: Vec<SessionId> = own.iter().map(|state| state.id.clone()).collect();
                let open = self.sessions.iter().filter(|session| session.is(owner));
                let mut expected: Vec<SessionId> = open.map(|session| session.id.clone()).collect();
                own.sort();
                expected.sort();
                assert_eq!(own, expected);
            }
            Op::CellWrites(who, name) => {
                let Some((at, owner)) = self.find(who) else { return };
                let (content, name) = (self.fresh(at), NAMES[*name]);
                let session = &mut self.sessions[at];
                let code = format!("v = '{content}'\nn = open('{name}', 'w').write(v)");
                let outcome = cell(engine, owner, &session.id, &code).await;
                if session.ran(owner, &outcome) {
                    session.files.insert(name, content.clone());
                    session.kept(Some(content));
                }
            }
            Op::CellReads(who) => {
                let Some((at, owner)) = self.find(who) else { return };
                let session = &mut self.sessions[at];
                // All that is there, wherever it lies.
                let code = "import os\nfound = {}\nfor top, _, names in os.walk('/workspace'):\n    \
                    for name in names: found[name] = open(os.path.join(top, name)).read()\n\
                    sorted(found.items()), globals().get('v')";
                let outcome = cell(engine, owner, &session.id, code).await;
                if session.ran(owner, &outcome) {
                    assert_eq!(outcome.value, Some(session.told()));
                    session.kept(session.v.clone());
                }
            }
            Op::CommandReads(who) => {
                let Some((at, owner)) = self.find(who) else { return };
                let session = &self.sessions[at];
                let argv = ["sh", "-c", "for f in *; do [ -f $f ] && cat $f && echo; done; true"];
                let argv = argv.map(Into::into).to_vec();
                let id = session.id.clone();
                let call = CommandCall { argv, session: Some(id), ..CommandCall::default() };
                let outcome = engine.command(owner, call).await.outcome;
                if session.ran(owner, &outcome) {
                    let all: Vec<&str> = session.files.values().map(String::as_str).collect();
                    assert_eq!(outcome.stdout.lines().collect::<Vec<_>>(), all);
                }
            }
            Op::Fork(who) => {
                let Some((at, owner)) = self.find(who) else { return };
                let parent = &self.sessions[at];
                let copy = engine.session_fork(owner, &parent.id).await;
                let Some(copy) = parent.answers(owner, copy) else { return };
                let (id, owner, files) = (copy.id, parent.owner, parent.files.clone());
                self.sessions.push(Session { id, owner, files, ..Session::default() });
            }
            Op::Rollback(who, which) => {
                let Some((at, owner)) = self.find(who) else { return };
                let session = &mut self.sessions[at];
                let info = engine.session_info(owner, &session.id).await;
                let Some(info) = session.answers(owner, info) else { return };
                assert_eq!(info.repl, session.repl());
                let known: Vec<u64> = session.checkpoints.keys().copied().collect();
                assert_eq!(info.checkpoints, known);
                if known.is_empty() {
                    let refused = engine.session_rollback(owner, &session.id, 1).await;
                    assert_eq!(refused.unwrap_err().code.as_str(), "no_checkpoint");
                    return;
                }
                let cell = known[which.index(known.len())];
                engine.session_rollback(owner, &session.id, cell).await.unwrap();
                session.checkpoints.split_off(&(cell + 1));
                session.v.clone_from(&session.checkpoints[&cell]);
            }
            Op::Close(who) => {
                let Some((at, owner)) = self.find(who) else { return };
                let session = &mut self.sessions[at];
                let closed = engine.session_close(owner, &session.id).await;
                if session.answers(owner, closed).is_some() {
                    session.closed = true;
                }
            }
            Op::Restart => {}
        }
    }

    /// Interpreters end with their engine.
    fn restarted(&mut self) {
        for session in &mut self.sessions {
            session.has_slept |= session.n_cells > 0;
            session.n_cells = 0;
            session.v = None;
            session.checkpoints.clear();
        }
    }

    fn find(&self, (asker, which): &RunIdentity) -> Option<(usize, &'static str)> {
        let n = self.sessions.len();
        let at = (n > 0).then(|| which.index(n))?;
        Some((at, OWNERS[asker.unwrap_or(self.sessions[at].owner)]))
    }

    /// A content that is written once, and says where.
    fn fresh(&mut self, at: usize) -> String {
        self.n_written += 1;
        format!("{} {}", self.sessions[at].id, self.n_written)
    }
}

impl Session {
    /// Returns true if this session is there for them.
    fn is(&self, owner: &str) -> bool {
        !self.closed && OWNERS[self.owner] == owner
    }

    /// The answer to its owner; everybody else, and everybody after its end, gets the one answer.
    fn answers<T>(&self, owner: &str, answer: Result<T, Problem>) -> Option<T> {
        if self.is(owner) {
            return Some(answer.unwrap());
        }
        match answer {
            Ok(_) => panic!("{owner} was answered about a session of {}", OWNERS[self.owner]),
            Err(problem) => assert_eq!(problem.code.as_str(), "session_unknown"),
        }
        None
    }

    /// The same for runs.
    fn ran(&self, owner: &str, outcome: &Outcome) -> bool {
        if self.is(owner) {
            assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
            return true;
        }
        let code = outcome.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(code, Some("session_unknown"), "{outcome:?}");
        assert!(outcome.stdout.is_empty() && outcome.value.is_none(), "{outcome:?}");
        false
    }

    /// A cell ended, and `v` is this now.
    fn kept(&mut self, v: Option<String>) {
        if self.n_cells == 0 {
            self.checkpoints.insert(0, None);
        }
        self.n_cells += 1;
        self.checkpoints.insert(self.n_cells, v.clone());
        self.v = v;
        // The first and the last eight are kept.
        if self.checkpoints.len() > 9 {
            let oldest = *self.checkpoints.keys().nth(1).unwrap();
            self.checkpoints.remove(&oldest);
        }
    }

    fn repl(&self) -> ReplState {
        match (self.n_cells, self.has_slept) {
            (0, false) => ReplState::New,
            (0, true) => ReplState::Dormant,
            _ => ReplState::Live,
        }
    }

    /// What Python says of its files and of `v`.
    fn told(&self) -> String {
        let quoted = |text: &str| format!("'{text}'");
        let files = self.files.iter().map(|(name, text)| format!("('{name}', '{text}')"));
        let v = self.v.as_deref().map_or("None".to_owned(), quoted);
        format!("([{}], {v})", files.collect::<Vec<_>>().join(", "))
    }
}

async fn cell(engine: &Engine, owner: &str, session: &SessionId, code: &str) -> Outcome {
    let call =
        CodeCall { code: code.into(), session: Some(session.to_owned()), ..CodeCall::default() };
    engine.execute(owner, call).await.outcome
}
