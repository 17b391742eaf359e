//! Name resolution: Python's scopes, as far as a rule depends on them. Decides whether a mention can reach a builtin or
//! a module, and errs towards yes: a name counts as the program's own only if no order of execution contradicts it.

use std::collections::hash_map::Entry;

use ruff_text_size::TextSize;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::rules::imports::Imported;

/// Names bound in a program of 2 KB.
const NAMES_EXPECTED: usize = 64;

/// A scope, by number; the module is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(u32);

/// The scope of the whole source.
pub(crate) const MODULE: ScopeId = ScopeId(0);

/// Lookup rules of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// Names not found are builtins.
    Module,
    /// A name bound anywhere in it is its own, from the first line to the last.
    Function,
    /// Like a function for its targets, but `:=` binds outside of it.
    Comprehension,
    /// Names not found are looked up as if it were absent; functions in it do not see its names.
    Class,
}

#[derive(Debug)]
struct Scope {
    kind: ScopeKind,
    parent: ScopeId,
}

/// A scope's declaration of a name.
#[derive(Clone, Copy, Debug)]
enum Binding {
    Own(Imported),
    Global,
    Nonlocal,
}

/// A statement after which a name is bound for certain, up to the end of its block.
#[derive(Clone, Copy, Debug)]
struct Certain {
    scope: ScopeId,
    from: TextSize,
    to: TextSize,
    what: Imported,
}

/// The object that a mention of a name can reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    /// Something the program made itself.
    Own,
    /// A module whose members are known.
    Module(&'static crate::rules::modules::Module),
    /// The builtin of that name, or something the program made.
    BuiltinOrOwn,
    /// The program binds it nowhere: a builtin, or a variable of the session.
    Unbound,
}

/// Scopes and bindings of one source.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    scopes: Vec<Scope>,
    bindings: FxHashMap<(ScopeId, &'a str), Binding>,
    certain: FxHashMap<&'a str, Vec<Certain>>,
    /// Last position at which the module, or a function with a `global` statement, binds a name to a module.
    modules: FxHashMap<&'a str, (TextSize, &'static crate::rules::modules::Module)>,
    /// Names that are bound outside of functions somewhere.
    outside: FxHashSet<&'a str>,
    /// Names that an import binds to a module anywhere.
    imported: FxHashSet<&'a str>,
    /// Names of functions that are bound more than once, or from within.
    rebound: FxHashSet<(ScopeId, &'a str)>,
}

impl<'a> Names<'a> {
    pub(crate) fn new() -> Self {
        Self {
            scopes: vec![Scope { kind: ScopeKind::Module, parent: MODULE }],
            bindings: FxHashMap::with_capacity_and_hasher(NAMES_EXPECTED, FxBuildHasher),
            certain: FxHashMap::with_capacity_and_hasher(NAMES_EXPECTED, FxBuildHasher),
            modules: FxHashMap::default(),
            outside: FxHashSet::default(),
            imported: FxHashSet::default(),
            rebound: FxHashSet::default(),
        }
    }

    /// Opens a scope inside another.
    pub(crate) fn open(&mut self, kind: ScopeKind, parent: ScopeId) -> ScopeId {
        let id = ScopeId(u32::try_from(self.scopes.len()).unwrap_or(u32::MAX));
        self.scopes.push(Scope { kind, parent });
        id
    }

    pub(crate) fn kind(&self, scope: ScopeId) -> ScopeKind {
        self.scopes[scope.0 as usize].kind
    }

    /// The scope that `:=` binds in: the innermost one around that is not a comprehension.
    pub(crate) fn outside_comprehensions(&self, mut scope: ScopeId) -> ScopeId {
        while self.kind(scope) == ScopeKind::Comprehension {
            scope = self.scopes[scope.0 as usize].parent;
        }
        scope
    }

    /// `global name`.
    pub(crate) fn declare_global(&mut self, scope: ScopeId, name: &'a str) {
        self.bindings.insert((scope, name), Binding::Global);
    }

    /// `nonlocal name`.
    pub(crate) fn declare_nonlocal(&mut self, scope: ScopeId, name: &'a str) {
        self.bindings.insert((scope, name), Binding::Nonlocal);
        let mut around = scope;
        while around != MODULE {
            around = self.scopes[around.0 as usize].parent;
            self.rebound.insert((around, name));
        }
    }

    /// Returns true if a name of a function may stand for anything but its first binding. Valid after the whole source
    /// has been walked.
    pub(crate) fn is_rebound(&self, scope: ScopeId, name: &'a str) -> bool {
        self.rebound.contains(&(scope, name))
    }

    /// Notes that a scope binds a name somewhere.
    pub(crate) fn bind(&mut self, scope: ScopeId, name: &'a str, at: TextSize, what: Imported) {
        if let Imported::Module(_) = what {
            self.imported.insert(name);
        }
        if self.is_outside(scope, name) {
            if self.kind(scope) == ScopeKind::Class {
                self.bindings.entry((scope, name)).or_insert(Binding::Own(what));
            }
            self.outside.insert(name);
            if let Imported::Module(module) = what {
                self.modules.insert(name, (at, module));
            }
            return;
        }
        match self.bindings.entry((scope, name)) {
            Entry::Vacant(first) => {
                first.insert(Binding::Own(what));
            }
            Entry::Occupied(mut again) => {
                self.rebound.insert((scope, name));
                // Once a module, always perhaps a module.
                if let (Binding::Own(known @ Imported::Value), Imported::Module(_)) =
                    (again.get_mut(), what)
                {
                    *known = what;
                }
            }
        }
    }

    /// Notes that a statement binds a name for certain; the rest of its block comes after it.
    pub(crate) fn bind_for_certain(
        &mut self,
        scope: ScopeId,
        name: &'a str,
        (from, to): (TextSize, TextSize),
        what: Imported,
    ) {
        if self.is_outside(scope, name) {
            let scope = if self.kind(scope) == ScopeKind::Class { scope } else { MODULE };
            self.certain.entry(name).or_default().push(Certain { scope, from, to, what });
        }
    }

    /// Returns true if a binding here is looked up like one of the module: a name is bound only once it has been
    /// executed.
    pub(crate) fn is_outside(&self, scope: ScopeId, name: &str) -> bool {
        match self.kind(scope) {
            ScopeKind::Module | ScopeKind::Class => true,
            ScopeKind::Function | ScopeKind::Comprehension => {
                matches!(self.bindings.get(&(scope, name)), Some(Binding::Global))
            }
        }
    }

    /// Returns true if a name stands for a module anywhere in the source: cheaper than [`Names::reach`].
    pub(crate) fn may_be_module(&self, name: &str) -> bool {
        self.imported.contains(name)
    }

    /// The object that a mention of a name reaches. Valid after the whole source has been walked.
    pub(crate) fn reach(&self, scope: ScopeId, name: &str, at: TextSize) -> Reach {
        let mut current = scope;
        loop {
            match self.kind(current) {
                ScopeKind::Module => break,
                // A name that a class body binds skips the functions around it.
                ScopeKind::Class if current == scope => {
                    if self.bindings.contains_key(&(current, name)) {
                        break;
                    }
                }
                ScopeKind::Class => {}
                ScopeKind::Function | ScopeKind::Comprehension => {
                    match self.bindings.get(&(current, name)) {
                        Some(Binding::Own(Imported::Value)) => return Reach::Own,
                        Some(Binding::Own(Imported::Module(module))) => {
                            return Reach::Module(module);
                        }
                        Some(Binding::Global) => break,
                        Some(Binding::Nonlocal) | None => {}
                    }
                }
            }
            current = self.scopes[current.0 as usize].parent;
        }
        let module = self.modules.get(name);
        let own = self.certain.get(name).is_some_and(|list| {
            list.iter().any(|c| {
                (c.scope == MODULE || c.scope == scope)
                    && c.from <= at
                    && at < c.to
                    && matches!(c.what, Imported::Value)
                    && module.is_none_or(|(last, _)| *last < c.from)
            })
        });
        match module {
            _ if own => Reach::Own,
            Some((_, module)) => Reach::Module(module),
            None if self.outside.contains(name) => Reach::BuiltinOrOwn,
            None => Reach::Unbound,
        }
    }
}
