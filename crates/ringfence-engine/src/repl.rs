//! An interactive interpreter on the calling thread. Each cell follows the same call path as every run.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use ringfence_python::{Artifacts, Job};
use ringfence_spec::{Code, Outcome, Problem};

use crate::call::{Launch, ReplLaunch, RunCall};
use crate::engine::{CodeCall, Engine, RunResult};
use crate::files::Workspace;
use crate::sessions::{Quota, SessionId, SessionInterpreter};

/// Maximum completions returned.
const COMPLETIONS_MAX: usize = 200;

/// Maximum size of one. The longest names in public packages have some hundred bytes.
const COMPLETION_BYTES_MAX: usize = 512;

/// Timeout of a completion. A property that takes longer to compute gives no completions.
const COMPLETION_MAX: Duration = Duration::from_millis(500);

/// An interpreter that keeps its variables between cells. Dropping it ends the interpreter.
#[derive(Debug)]
pub struct Repl {
    engine: Engine,
    client: String,
    live: SessionInterpreter,
    session: Option<SessionFiles>,
}

/// The files of a REPL's session, and their quota.
#[derive(Debug)]
struct SessionFiles {
    id: SessionId,
    files: Workspace,
    bytes_max: u64,
}

impl Engine {
    /// Starts an interactive interpreter, in a directory of its own or on a session's files.
    pub fn repl(&self, client: &str, session: Option<&SessionId>) -> Result<Repl, Problem> {
        let live = self.state.start_repl(client, session)?;
        Ok(Repl {
            engine: self.clone(),
            client: client.to_owned(),
            live,
            session: self.session_files(client, session)?,
        })
    }

    fn session_files(
        &self,
        client: &str,
        session: Option<&SessionId>,
    ) -> Result<Option<SessionFiles>, Problem> {
        let Some(id) = session else { return Ok(None) };
        let (files, bytes_max) = self.state.sessions()?.files(client, id)?;
        Ok(Some(SessionFiles { id: id.to_owned(), files, bytes_max }))
    }
}

impl Repl {
    /// Runs one cell. Ends and undoes it if `cancel` becomes readable.
    pub fn cell(&mut self, code: &str, cancel: BorrowedFd<'_>) -> Outcome {
        let call = CodeCall {
            code: code.as_bytes().to_vec(),
            session: self.session.as_ref().map(|session| session.id.clone()),
            ..CodeCall::default()
        };
        let call = RunCall::Code(&call);
        let admitted = match self.engine.state.admit_now(&self.client, "repl", call) {
            Ok(admitted) => admitted,
            Err(outcome) => return *outcome,
        };
        let quota =
            self.session.as_ref().map(|session| Quota::new(&session.files, session.bytes_max));
        let launch =
            Launch::Repl(ReplLaunch { live: &mut self.live, quota: quota.as_ref(), cancel });
        let RunResult { outcome, .. } = self.engine.state.run(admitted, &self.client, call, launch);
        if outcome.error.as_ref().is_some_and(|error| error.code == Code::Repl) {
            // If it cannot be started now, the next cell says so.
            let id = self.session.as_ref().map(|session| &session.id);
            if let Ok(live) = self.engine.state.start_repl(&self.client, id) {
                self.live = live;
            }
        }
        outcome
    }

    /// Returns a copy that continues from the same state.
    pub fn branch(&mut self) -> Result<Self, Problem> {
        let id = self.session.as_ref().map(|session| &session.id);
        Ok(Self {
            engine: self.engine.clone(),
            client: self.client.clone(),
            live: self.live.branch()?,
            session: self.engine.session_files(&self.client, id)?,
        })
    }

    /// Lists the cells that can be rolled back to.
    pub fn checkpoints(&self) -> Vec<u64> {
        self.live.checkpoints()
    }

    /// Restores the state after a cell.
    pub fn rollback(&mut self, cell: u64) -> Result<(), Problem> {
        self.live.rollback(cell)
    }

    /// Returns the files in its directory.
    pub fn artifacts(&self) -> Result<Artifacts, Problem> {
        self.live.artifacts()
    }

    /// Returns the interpreter's own completions of `text`, from a cell that is undone.
    pub fn completions(&mut self, text: &str) -> Vec<String> {
        let code = format!(
            "import json, rlcompleter\ncompleter = rlcompleter.Completer(globals())\nfound = []\n\
             for i in range({COMPLETIONS_MAX}):\n    one = completer.complete({}, i)\n    if one is None: break\n    \
             found.append(one)\nprint(json.dumps(found))",
            serde_json::json!(text)
        );
        let job =
            Job { timeout: Some(COMPLETION_MAX), ..self.live.context().job(code.into_bytes()) };
        let Ok(stdout) = self.live.ask(&job) else { return Vec::new() };
        let found: Vec<String> = serde_json::from_slice(&stdout).unwrap_or_default();
        // Code of earlier cells may have replaced what prints them.
        let is_ours = |found: &String| found.starts_with(text) && is_completion(found);
        found.into_iter().filter(is_ours).take(COMPLETIONS_MAX).collect()
    }
}

/// Returns true for what Python's own completer can give: attributes, with a parenthesis if they can be called, and keywords
/// with what follows them. Anything else could write to the terminal that shows it.
fn is_completion(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '(' | ')' | ':' | ' ');
    text.len() <= COMPLETION_BYTES_MAX && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_names_and_keywords() {
        for text in ["os.path.join(", "for ", "try:", "été", "__name__", "x.y()"] {
            assert!(is_completion(text), "{text}");
        }
        let long = "x".repeat(COMPLETION_BYTES_MAX + 1);
        for text in ["\u{1b}]0;t\u{7}", "a\nb", "a\u{202e}b", "a\u{9b}b", "a;b", &long] {
            assert!(!is_completion(text), "{text:?}");
        }
    }
}
