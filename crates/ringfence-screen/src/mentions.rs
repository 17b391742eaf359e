//! Judges names that are read, when every binding of the source is known: builtins, modules and the way to their
//! members.

use std::borrow::Cow;

use ringfence_spec::CodePreset;
use ruff_python_ast::{Expr, ExprAttribute, ExprName};
use ruff_text_size::Ranged as _;

use crate::names::{Reach, ScopeId};
use crate::rules::calls::{self, AttributeName, Unless};
use crate::rules::imports::Imported;
use crate::rules::modules::{self, Module};
use crate::rules::{self, strict};
use crate::walk::{Mention, Used, Walk};

impl<'a> Walk<'a, '_> {
    /// Judges the mentions that the walk collected.
    pub(crate) fn judge_mentions(&mut self) {
        for mention in std::mem::take(&mut self.mentions) {
            self.judge_mention(&mention);
        }
    }

    /// Judges methods of attributes that pass their parameters on, once all bindings are known.
    pub(crate) fn judge_passed_on(&mut self) {
        for passed in std::mem::take(&mut self.passed_on) {
            let scope = passed.scope;
            let rebound = [passed.instance, passed.name]
                .into_iter()
                .any(|name| self.names.is_rebound(scope, name));
            if rebound || passed.builtin.is_some_and(|name| !self.is_unbound(name, scope)) {
                self.computed_attribute(passed.method);
            }
        }
    }

    fn judge_mention(&mut self, mention: &Mention<'a>) {
        let id = mention.name.id.as_str();
        let at = mention.name.start();
        let strict = self.preset == CodePreset::Strict;
        // Strict allows no harmless form of these: its own list of builtins judges them.
        let blocked =
            calls::blocked(id).filter(|builtin| !strict || builtin.unless == Unless::Never);
        if let Some(builtin) = blocked {
            match self.names.reach(mention.scope, id, at) {
                // Deleting a name of the program's own uncovers the builtin that it hid.
                _ if matches!(mention.used, Used::Deleted) => self.judge_builtin(mention, builtin),
                Reach::Own => {}
                Reach::Module(module) => self.judge_module(mention, module),
                Reach::BuiltinOrOwn | Reach::Unbound => self.judge_builtin(mention, builtin),
            }
            return;
        }
        if let Some(reads) = calls::reads_by_name(id) {
            match mention.used {
                Used::Call(call) => self.reader(call, id, reads),
                Used::Deleted => {}
                _ => self.reads_computed(mention.name.end(), id),
            }
            return;
        }
        if strict && strict::is_other_builtin(id) {
            match self.names.reach(mention.scope, id, at) {
                Reach::Own | Reach::Module(_) if !matches!(mention.used, Used::Deleted) => {}
                _ => {
                    let hint = "use one of the 36 builtins of this preset";
                    self.add(&rules::BUILTIN_NOT_ALLOWED, at, id, hint);
                }
            }
            return;
        }
        if self.names.may_be_module(id) {
            if let Reach::Module(module) = self.names.reach(mention.scope, id, at) {
                self.judge_module(mention, module);
            }
        } else if let Used::Member(outermost) = mention.used {
            self.judge_member_of_unknown(mention, outermost);
        }
    }

    fn judge_builtin(&mut self, mention: &Mention<'a>, builtin: &'static calls::Builtin) {
        let id = mention.name.id.as_str();
        let at = mention.name.start();
        match (builtin.unless, mention.used) {
            (Unless::LiteralName, Used::Call(call)) => {
                match calls::attribute_name(&call.arguments, 1) {
                    AttributeName::Literal(name) => {
                        self.literal_attribute(call.arguments.args[1].start(), name);
                    }
                    AttributeName::Computed => {
                        self.add(&rules::COMPUTED_ATTRIBUTE_NAME, at, id, builtin.hint);
                    }
                }
            }
            (Unless::OneArgument, Used::Call(call)) if calls::has_one_argument(call) => {}
            (Unless::OneArgument, Used::Call(_)) => {
                self.add(&rules::DYNAMIC_CLASS, at, id, builtin.hint);
            }
            (Unless::OneArgument, Used::Type | Used::Identity) => {}
            (Unless::OneArgument, Used::Argument(callee))
                if matches!(callee.id.as_str(), "isinstance" | "issubclass")
                    && self.is_unbound(callee, mention.scope) => {}
            (_, Used::Call(_)) => self.add(&rules::CALL_NOT_ALLOWED, at, id, builtin.hint),
            _ => self.add(&rules::NAME_NOT_ALLOWED, at, id, builtin.hint),
        }
    }

    /// Returns true if the source binds a name nowhere.
    fn is_unbound(&self, name: &ExprName, scope: ScopeId) -> bool {
        matches!(self.names.reach(scope, name.id.as_str(), name.start()), Reach::Unbound)
    }

    fn judge_module(&mut self, mention: &Mention<'a>, module: &'static Module) {
        match mention.used {
            Used::Member(outermost) => {
                let last = self.judge_members(self.preset, module, outermost);
                if last.is_some_and(|last| !last.callable) {
                    let hint = "import the module itself and use it by its name";
                    let at = outermost.attr.start();
                    self.add(&rules::MODULE_AS_VALUE, at, &outermost.attr.id, hint);
                }
            }
            Used::Deleted | Used::Identity => {}
            _ if module.callable => {}
            Used::Argument(callee)
                if calls::only_looks(callee.id.as_str())
                    && self.is_unbound(callee, mention.scope) => {}
            _ => {
                let hint = "use the module by its name, or import the member you need";
                let id = mention.name.id.as_str();
                self.add(&rules::MODULE_AS_VALUE, mention.name.start(), id, hint);
            }
        }
    }

    /// Follows a chain of attributes from a module to its member, by the rules of a preset. Returns the module that the
    /// whole chain stands for, if any.
    fn judge_members(
        &mut self,
        by: CodePreset,
        module: &'static Module,
        outermost: &'a ExprAttribute,
    ) -> Option<&'static Module> {
        // One buffer for every chain: most are one or two names long.
        let mut chain = std::mem::take(&mut self.chain_buffer);
        let mut current = outermost;
        chain.push(&outermost.attr);
        while let Expr::Attribute(inner) = &*current.value {
            chain.push(&inner.attr);
            current = inner;
        }
        let mut module = module;
        let mut path = Cow::Borrowed(module.name);
        let mut is_module = true;
        while let Some(name) = chain.pop() {
            let id = name.id.as_str();
            let is_last = chain.is_empty();
            // Past a member nothing is known but names that lead out: `asyncio.events.os`.
            if is_module || modules::leads_out(id) {
                match self.member(by, module, &path, name) {
                    Imported::Module(next) => {
                        is_module = true;
                        module = next;
                        path = Cow::Borrowed(next.name);
                        continue;
                    }
                    Imported::Value => is_module = false,
                }
            }
            if !is_last {
                path = Cow::Owned(format!("{path}.{id}"));
            }
        }
        self.chain_buffer = chain;
        is_module.then_some(module)
    }

    /// A name that this source does not bind is a variable of the session, which may be a module.
    fn judge_member_of_unknown(&mut self, mention: &Mention<'a>, outermost: &'a ExprAttribute) {
        let id = mention.name.id.as_str();
        let mut first = outermost;
        while let Expr::Attribute(inner) = &*first.value {
            first = inner;
        }
        let member = first.attr.id.as_str();
        let module = modules::listed(id);
        let leads_out = matches!(member, "sys" | "os" | "builtins" | "bltns" | "_sys" | "_os");
        if !(module.is_some() || leads_out) || !self.is_unbound(mention.name, mention.scope) {
            return;
        }
        if let Some(module) = module {
            // By the looser preset's rules in `strict` too, so that `standard` refuses no member that `strict` allows.
            self.judge_members(CodePreset::Standard, module, outermost);
        } else {
            let hint = format!("if `{id}` is a module, import what you need of it");
            self.add(&rules::MODULE_MEMBER_NOT_ALLOWED, first.attr.start(), member, hint);
        }
    }
}
