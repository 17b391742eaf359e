//! Faults in sources of settings. What starts a run refuses them all; a command that starts nothing needs few keys, and goes on
//! without the rest.

use std::cell::RefCell;
use std::path::Path;

use ringfence_spec::Problem;
use ringfence_sys::untrusted;

use super::Key;
use super::layer::FILE_BYTES_MAX;

/// What becomes of a fault.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Keys whose faults are refused; `None` for all.
    needed: Option<&'static [Key]>,
    noted: RefCell<Vec<Problem>>,
}

impl Faults {
    /// Refuses every fault.
    pub(crate) const fn refused() -> Self {
        Self { needed: None, noted: RefCell::new(Vec::new()) }
    }

    /// Refuses faults of these keys, and notes others.
    pub(crate) const fn noted_but_of(needed: &'static [Key]) -> Self {
        Self { needed: Some(needed), noted: RefCell::new(Vec::new()) }
    }

    /// Takes a fault of a key, or of a name that is none.
    pub(super) fn of_key(&self, key: Option<Key>, problem: Problem) -> Result<(), Problem> {
        match self.needed {
            Some(needed) if !key.is_some_and(|key| needed.contains(&key)) => {
                self.note(problem);
                Ok(())
            }
            _ => Err(problem),
        }
    }

    /// Takes the fault of a file that cannot be read as settings. It is refused if it may set a key that is needed.
    pub(super) fn of_file(&self, path: &Path, problem: Problem) -> Result<(), Problem> {
        let Some(needed) = self.needed else { return Err(problem) };
        let Ok(text) = untrusted::read_trusted(path, FILE_BYTES_MAX) else { return Err(problem) };
        let text = String::from_utf8_lossy(&text);
        if needed.iter().any(|key| text.contains(key.name())) {
            return Err(problem);
        }
        self.note(problem);
        Ok(())
    }

    /// Number of faults that were noted.
    pub(super) fn n_noted(&self) -> usize {
        self.noted.borrow().len()
    }

    fn note(&self, problem: Problem) {
        self.noted.borrow_mut().push(problem);
    }

    /// Warnings about the faults that were noted.
    pub(crate) fn warnings(self) -> Vec<String> {
        let warning = |problem: Problem| {
            format!("{}; runs are refused until that is corrected", problem.message)
        };
        self.noted.into_inner().into_iter().map(warning).collect()
    }
}
