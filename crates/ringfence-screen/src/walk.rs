//! One walk over a syntax tree. Collects bindings and mentions, and applies the rules that can be judged on the spot.
//! Mentions are judged in `mentions.rs`, at the end, when every binding is known.

use ringfence_spec::{CodePreset, Hint};
use ruff_python_ast::visitor::source_order::{self, SourceOrderVisitor};
use ruff_python_ast::{
    CmpOp, Comprehension, ExceptHandler, Expr, ExprAttribute, ExprCall, ExprContext, ExprLambda,
    ExprName, Identifier, InterpolatedStringElement, Parameters, Pattern, PatternKeyword, Stmt,
    StmtClassDef, StmtFunctionDef, StmtImport, StmtImportFrom, TypeParam, TypeParams,
};
use ruff_text_size::{Ranged as _, TextSize};

use crate::names::{MODULE, Names, ScopeId, ScopeKind};
use crate::rules::calls::{self, AttributeName, ReadsByName};
use crate::rules::imports::{self, Imported, Refusal};
use crate::rules::modules::{self, Known, Module};
use crate::rules::{self, Rule, attributes, classes, strict, strings};
use crate::verdict::Findings;

/// Names read in a program of 2 KB.
const MENTIONS_EXPECTED: usize = 256;

/// Walks a valid module and notes every broken rule of a preset.
pub(crate) fn walk(
    body: &[Stmt],
    preset: CodePreset,
    extra_imports: &[String],
    findings: &mut Findings,
) {
    let mut walk = Walk {
        preset,
        extra_imports,
        findings,
        names: Names::new(),
        mentions: Vec::with_capacity(MENTIONS_EXPECTED),
        scope: MODULE,
        block_end: TextSize::default(),
        annotation: false,
        functions: Vec::new(),
        passed_on: Vec::new(),
        chain_buffer: Vec::new(),
    };
    walk.visit_body(body);
    walk.judge_mentions();
    walk.judge_passed_on();
}

/// A name that is read.
pub(crate) struct Mention<'a> {
    pub(crate) name: &'a ExprName,
    pub(crate) scope: ScopeId,
    pub(crate) used: Used<'a>,
}

/// Use of a name.
#[derive(Clone, Copy)]
pub(crate) enum Used<'a> {
    /// A value that may go anywhere.
    Value,
    /// Only a type: an annotation, a comparison, a subscript.
    Type,
    /// By `is` and `is not`.
    Identity,
    /// The argument of a function called by this name.
    Argument(&'a ExprName),
    /// To be called.
    Call(&'a ExprCall),
    /// For a member; the whole chain, outermost attribute first.
    Member(&'a ExprAttribute),
    /// To be unbound.
    Deleted,
}

/// A function being defined around the present place.
struct Defined<'a> {
    name: &'a str,
    parameters: &'a Parameters,
    scope: ScopeId,
    /// True if it is called only by an attribute of an instance: a method without decorators.
    only_by_instance: bool,
}

/// A special method of attributes that passes its own parameters on: `super().__setattr__(name, value)`. Harmless if
/// both are still bound to their arguments, because then the instance's own attribute is meant.
pub(crate) struct PassedOn<'a> {
    pub(crate) scope: ScopeId,
    pub(crate) instance: &'a str,
    pub(crate) name: &'a str,
    /// `super`, which must be Python's.
    pub(crate) builtin: Option<&'a ExprName>,
    pub(crate) method: &'a Identifier,
}

/// The walk, and its results.
pub(crate) struct Walk<'a, 'f> {
    pub(crate) preset: CodePreset,
    extra_imports: &'f [String],
    findings: &'f mut Findings,
    pub(crate) names: Names<'a>,
    pub(crate) mentions: Vec<Mention<'a>>,
    scope: ScopeId,
    /// End of the block of statements being walked.
    block_end: TextSize,
    /// True while an annotation is being walked.
    annotation: bool,
    functions: Vec<Defined<'a>>,
    pub(crate) passed_on: Vec<PassedOn<'a>>,
    pub(crate) chain_buffer: Vec<&'a Identifier>,
}

impl<'a> Walk<'a, '_> {
    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        at: TextSize,
        subject: &str,
        hint: impl Into<Hint>,
    ) {
        if self.preset <= rule.up_to {
            self.findings.add(rule, at.to_u32(), subject, hint);
        }
    }

    fn refuse(&mut self, at: TextSize, refusal: Refusal) {
        let Refusal { rule, risk, subject, hint } = refusal;
        if self.preset <= rule.up_to {
            self.findings.add_at_risk(rule, risk, at.to_u32(), &subject, hint);
        }
    }

    fn bind(&mut self, name: &'a Identifier, what: Imported) {
        if let Some((rule, hint)) = classes::judge_definition(name.id.as_str()) {
            self.add(rule, name.start(), &name.id, hint);
        }
        self.names.bind(self.scope, name.id.as_str(), name.start(), what);
    }

    fn mention(&mut self, name: &'a ExprName, used: Used<'a>) {
        let used = if self.annotation && matches!(used, Used::Value) { Used::Type } else { used };
        self.mentions.push(Mention { name, scope: self.scope, used });
    }

    /// Records a bare name with its use; walks anything else.
    fn visit_used(&mut self, expression: &'a Expr, used: Used<'a>) {
        match expression {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.visit_name_spelling(name);
                self.mention(name, used);
            }
            other => self.visit_expr(other),
        }
    }

    fn within(&mut self, kind: ScopeKind, body: impl FnOnce(&mut Self)) {
        let outer = self.scope;
        self.scope = self.names.open(kind, outer);
        body(self);
        self.scope = outer;
    }

    fn attribute(&mut self, attribute: &Identifier) {
        if let Some((rule, hint)) = attributes::judge(&attribute.id) {
            self.add(rule, attribute.start(), &attribute.id, hint);
        }
    }

    /// A literal that stands for an attribute: the second argument of getattr.
    pub(crate) fn literal_attribute(&mut self, at: TextSize, name: &str) {
        if let Some((rule, hint)) = attributes::judge(name) {
            self.add(rule, at, name, hint);
        }
    }

    /// Dunder names are judged by their spelling, wherever they stand.
    fn visit_name_spelling(&mut self, name: &'a ExprName) {
        let id = name.id.as_str();
        if !attributes::is_dunder(id) {
            return;
        }
        if name.ctx == ExprContext::Store {
            if let Some((rule, hint)) = classes::judge_definition(id) {
                self.add(rule, name.start(), id, hint);
            }
        } else if !attributes::is_harmless_dunder(id) {
            let hint = "it is the interpreter's own; use what the program made itself";
            self.add(&rules::NAME_NOT_ALLOWED, name.start(), id, hint);
        }
    }

    /// A chain of attributes, walked without recursion: `a.b.c.d`.
    fn chain(&mut self, outermost: &'a ExprAttribute, skip_last: bool) {
        let mut current = outermost;
        let is_read = outermost.ctx == ExprContext::Load;
        if !skip_last && (is_read || outermost.attr.id.as_str() != attributes::EXCEPTIONS_OBJECT) {
            self.attribute(&outermost.attr);
        }
        loop {
            match &*current.value {
                Expr::Attribute(inner) => {
                    self.attribute(&inner.attr);
                    current = inner;
                }
                Expr::Name(name) => {
                    self.visit_name_spelling(name);
                    self.mention(name, Used::Member(outermost));
                    return;
                }
                other => {
                    self.visit_expr(other);
                    return;
                }
            }
        }
    }

    fn call(&mut self, call: &'a ExprCall) {
        match &*call.func {
            Expr::Name(name) => {
                self.visit_name_spelling(name);
                self.mention(name, Used::Call(call));
                self.arguments_of(call, name);
                return;
            }
            Expr::Attribute(attribute) => {
                let method = attribute.attr.id.as_str();
                let by_name = attributes::is_attribute_protocol(method);
                if by_name {
                    self.attribute_protocol(call, attribute);
                }
                if strings::formats(method) && !strings::is_literal(&attribute.value) {
                    let hint = "call it on a literal, or use an f-string";
                    self.add(&rules::FORMAT_NOT_ALLOWED, attribute.attr.start(), method, hint);
                }
                if let Some(reads) = calls::reads_by_name(method) {
                    self.reader(call, method, reads);
                }
                self.chain(attribute, by_name);
            }
            other => {
                if calls::calls_a_metaclass(other) {
                    let hint = "write a `class` statement";
                    self.add(&rules::DYNAMIC_CLASS, call.start(), "type(…)(…)", hint);
                }
                self.visit_expr(other);
            }
        }
        self.visit_arguments(&call.arguments);
    }

    /// The arguments of a function called by name: some functions only read their arguments.
    fn arguments_of(&mut self, call: &'a ExprCall, callee: &'a ExprName) {
        for argument in &call.arguments.args {
            match argument {
                Expr::Tuple(tuple) => {
                    for element in tuple {
                        self.visit_used(element, Used::Argument(callee));
                    }
                }
                other => self.visit_used(other, Used::Argument(callee)),
            }
        }
        for keyword in &call.arguments.keywords {
            self.visit_expr(&keyword.value);
        }
    }

    /// `super().__setattr__("x", 1)`, `object.__getattribute__(self, name)`.
    fn attribute_protocol(&mut self, call: &'a ExprCall, method: &'a ExprAttribute) {
        let after_name = usize::from(method.attr.id.as_str() == "__setattr__");
        let arguments = &call.arguments;
        let position = arguments.args.len().checked_sub(1 + after_name);
        if let Some(position) = position.filter(|_| arguments.keywords.is_empty()) {
            match calls::attribute_name(arguments, position) {
                AttributeName::Literal(name) => {
                    self.literal_attribute(arguments.args[position].start(), name);
                    return;
                }
                AttributeName::Computed => {
                    if let Some(passed_on) = self.passes_on(call, method, position) {
                        self.passed_on.push(passed_on);
                        return;
                    }
                }
            }
        }
        self.computed_attribute(&method.attr);
    }

    pub(crate) fn computed_attribute(&mut self, method: &Identifier) {
        let hint = "write the name as a literal; a method of this kind passes its own parameters on, `super().__setattr__(name, value)`";
        self.add(&rules::COMPUTED_ATTRIBUTE_NAME, method.start(), &method.id, hint);
    }

    /// Detects a method of attributes that passes its own parameters on, to `super()` or to a class together with its
    /// instance. The name may still be computed, by `hasattr` or `str.format`; but then it is looked up on the instance
    /// alone.
    fn passes_on(
        &self,
        call: &'a ExprCall,
        method: &'a ExprAttribute,
        position: usize,
    ) -> Option<PassedOn<'a>> {
        let function = self.functions.last()?;
        // Not in a lambda or a comprehension, which bind names of their own.
        let here = function.scope == self.scope && function.only_by_instance;
        if !here || !attributes::is_attribute_protocol(function.name) {
            return None;
        }
        let mut parameters = function.parameters.iter().map(|p| p.name().id.as_str());
        let (instance, name) = (parameters.next()?, parameters.next()?);
        let is = |argument: Option<&Expr>, wanted: &str| matches!(argument, Some(Expr::Name(n)) if n.id.as_str() == wanted);
        let arguments = &call.arguments.args;
        if !is(arguments.get(position), name) {
            return None;
        }
        let builtin = match (position, &*method.value) {
            (0, Expr::Call(bound)) => match (&*bound.func, &*bound.arguments.args) {
                (Expr::Name(name), []) if name.id.as_str() == "super" => Some(name),
                (Expr::Name(name), [_, of])
                    if name.id.as_str() == "super" && is(Some(of), instance) =>
                {
                    Some(name)
                }
                _ => return None,
            },
            (1, _) if is(arguments.first(), instance) => None,
            _ => return None,
        };
        Some(PassedOn { scope: self.scope, instance, name, builtin, method: &method.attr })
    }

    /// `operator.attrgetter("a.b")`, `functools.wraps(f)`.
    pub(crate) fn reader(&mut self, call: &'a ExprCall, function: &str, reads: ReadsByName) {
        let arguments = &call.arguments;
        let names = match reads {
            ReadsByName::Each => 0..arguments.args.len().max(1),
            ReadsByName::First => 0..1,
            ReadsByName::None => {
                if !calls::has_one_argument(call) {
                    self.reads_computed(call.func.end(), function);
                }
                return;
            }
        };
        for position in names {
            match calls::attribute_name(arguments, position) {
                AttributeName::Literal(names) => {
                    for name in names.split('.') {
                        self.literal_attribute(arguments.args[position].start(), name);
                    }
                }
                AttributeName::Computed => {
                    self.reads_computed(call.func.end(), function);
                    return;
                }
            }
        }
    }

    pub(crate) fn reads_computed(&mut self, at: TextSize, function: &str) {
        let hint = match function {
            "wraps" => "call it where it stands with the function alone: `@wraps(function)`",
            _ => "call it where it stands with literal names, or write a lambda",
        };
        self.add(&rules::COMPUTED_ATTRIBUTE_NAME, at, function, hint);
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        for decorator in &function.decorator_list {
            self.visit_used(&decorator.expression, Used::Value);
        }
        let name = function.name.id.as_str();
        let only_by_instance =
            function.decorator_list.is_empty() && self.names.kind(self.scope) == ScopeKind::Class;
        self.bind(&function.name, Imported::Value);
        // Without decorators nothing can call it before its name is bound.
        let bound_from = match function.body.first() {
            Some(first) if function.decorator_list.is_empty() => first.start(),
            _ => function.end(),
        };
        self.certain(name, bound_from);
        self.with_type_params(function.type_params.as_deref(), |walk| {
            walk.parameters(&function.parameters);
            if let Some(returns) = &function.returns {
                walk.visit_annotation(returns);
            }
            walk.within(ScopeKind::Function, |walk| {
                for parameter in &*function.parameters {
                    walk.bind(parameter.name(), Imported::Value);
                }
                let (parameters, scope) = (&*function.parameters, walk.scope);
                walk.functions.push(Defined { name, parameters, scope, only_by_instance });
                walk.visit_body(&function.body);
                walk.functions.pop();
            });
        });
    }

    fn lambda(&mut self, lambda: &'a ExprLambda) {
        if let Some(parameters) = &lambda.parameters {
            self.parameters(parameters);
        }
        self.within(ScopeKind::Function, |walk| {
            for parameter in lambda.parameters.iter().flat_map(|p| p.iter()) {
                walk.bind(parameter.name(), Imported::Value);
            }
            walk.visit_used(&lambda.body, Used::Value);
        });
    }

    /// Defaults and annotations belong to the scope around a function.
    fn parameters(&mut self, parameters: &'a Parameters) {
        for parameter in parameters {
            if let Some(annotation) = parameter.annotation() {
                self.visit_annotation(annotation);
            }
            if let Some(default) = parameter.default() {
                self.visit_used(default, Used::Value);
            }
        }
    }

    fn class(&mut self, class: &'a StmtClassDef) {
        for decorator in &class.decorator_list {
            self.visit_used(&decorator.expression, Used::Value);
        }
        for (at, subject, hint) in classes::judge_head(class) {
            self.add(classes::HEAD, at.into(), &subject, hint);
        }
        self.with_type_params(class.type_params.as_deref(), |walk| {
            if let Some(arguments) = &class.arguments {
                walk.visit_arguments(arguments);
            }
            walk.within(ScopeKind::Class, |walk| walk.visit_body(&class.body));
        });
        self.bind(&class.name, Imported::Value);
        self.certain(class.name.id.as_str(), class.end());
    }

    fn with_type_params(
        &mut self,
        type_params: Option<&'a TypeParams>,
        body: impl FnOnce(&mut Self),
    ) {
        match type_params {
            None => body(self),
            Some(type_params) => self.within(ScopeKind::Function, |walk| {
                walk.visit_type_params(type_params);
                body(walk);
            }),
        }
    }

    fn comprehension(&mut self, generators: &'a [Comprehension], results: &[&'a Expr]) {
        let Some((first, rest)) = generators.split_first() else { return };
        self.visit_used(&first.iter, Used::Value);
        self.within(ScopeKind::Comprehension, |walk| {
            walk.visit_expr(&first.target);
            for test in &first.ifs {
                walk.visit_expr(test);
            }
            for generator in rest {
                walk.visit_comprehension(generator);
            }
            for result in results {
                walk.visit_used(result, Used::Value);
            }
        });
    }

    fn import(&mut self, statement: &'a StmtImport) {
        for alias in &statement.names {
            let path = alias.name.id.as_str();
            let what = match imports::module(path, self.preset, self.extra_imports) {
                Ok(imported) => imported,
                Err(refusal) => {
                    self.refuse(alias.start(), refusal);
                    Imported::Value
                }
            };
            if let Some(name) = &alias.asname {
                self.bind_import(name.id.as_str(), name.start(), statement.end(), what);
                continue;
            }
            // `import a.b` binds `a`.
            let top = path.split_once('.').map_or(path, |(top, _)| top);
            let what = match modules::find(top, self.preset, self.extra_imports) {
                Known::Listed(module) => Imported::Module(module),
                Known::Extra | Known::No => Imported::Value,
            };
            self.bind_import(top, alias.start(), statement.end(), what);
        }
    }

    fn import_from(&mut self, statement: &'a StmtImportFrom) {
        let module = statement.module.as_ref();
        let path = module.map_or("", |m| m.id.as_str());
        if statement.level > 0 {
            let dots = ".".repeat(statement.level.min(8) as usize);
            let hint = "a program is one file; import a module by its full name";
            self.add(&rules::RELATIVE_IMPORT, statement.start(), &format!("{dots}{path}"), hint);
            return;
        }
        let found = imports::module(path, self.preset, self.extra_imports);
        let at = module.map_or(statement.start(), Identifier::start);
        let of = match found {
            Ok(Imported::Module(module)) => Some(module),
            Ok(Imported::Value) => None,
            Err(refusal) => {
                self.refuse(at, refusal);
                None
            }
        };
        for alias in &statement.names {
            let name = alias.name.id.as_str();
            if name == "*" {
                if let Some(of) = of.filter(|of| !of.star) {
                    let hint = format!("name what you need: `from {} import …`", of.name);
                    self.add(&rules::STAR_IMPORT, alias.start(), path, hint);
                }
                continue;
            }
            let what = match of {
                None => Imported::Value,
                Some(of) => self.member(self.preset, of, path, &alias.name),
            };
            if alias.asname.is_some() && calls::reads_by_name(name).is_some() {
                let hint = "import it under its own name";
                self.add(&rules::MODULE_MEMBER_NOT_ALLOWED, alias.start(), name, hint);
            }
            let bound = alias.asname.as_ref().unwrap_or(&alias.name);
            self.bind_import(bound.id.as_str(), bound.start(), statement.end(), what);
        }
    }

    fn bind_import(&mut self, name: &'a str, at: TextSize, end: TextSize, what: Imported) {
        if let Some((rule, hint)) = classes::judge_definition(name)
            && !matches!(what, Imported::Module(_))
        {
            self.add(rule, at, name, hint);
        }
        if matches!(what, Imported::Module(_)) && self.names.kind(self.scope) == ScopeKind::Class {
            let hint = "import it outside of the class, where its name can be followed";
            self.add(&rules::MODULE_AS_VALUE, at, name, hint);
        }
        self.names.bind(self.scope, name, at, what);
        self.names.bind_for_certain(self.scope, name, (end, self.block_end), what);
    }

    pub(crate) fn member(
        &mut self,
        by: CodePreset,
        of: &'static Module,
        path: &str,
        name: &Identifier,
    ) -> Imported {
        match imports::member(of, path, name.id.as_str(), by, self.extra_imports) {
            Ok(imported) => imported,
            Err(refusal) => {
                self.refuse(name.start(), refusal);
                Imported::Value
            }
        }
    }

    /// Names of attributes that patterns read by position.
    fn match_args(&mut self, names: &Expr) {
        for name in names.as_tuple_expr().iter().flat_map(|tuple| &tuple.elts) {
            if let Expr::StringLiteral(literal) = name {
                self.literal_attribute(literal.start(), literal.value.to_str());
            }
        }
    }

    fn certain(&mut self, name: &'a str, from: TextSize) {
        let range = (from, self.block_end);
        self.names.bind_for_certain(self.scope, name, range, Imported::Value);
    }

    /// Every name in an assignment's target is bound after it.
    fn certain_targets(&mut self, target: &'a Expr, (from, to): (TextSize, TextSize)) {
        match target {
            Expr::Name(name) => {
                let range = (from, to);
                self.names.bind_for_certain(self.scope, name.id.as_str(), range, Imported::Value);
            }
            Expr::Tuple(tuple) => {
                for element in tuple {
                    self.certain_targets(element, (from, to));
                }
            }
            Expr::List(list) => {
                for element in list {
                    self.certain_targets(element, (from, to));
                }
            }
            Expr::Starred(starred) => self.certain_targets(&starred.value, (from, to)),
            _ => {}
        }
    }
}

/// `__match_args__ = ("x", "y")`: names of attributes that a class pattern reads by position, all of them harmless.
fn is_match_args(target: &Expr, value: Option<&Expr>) -> bool {
    let names: &[Expr] = match (target, value) {
        (Expr::Name(name), Some(Expr::Tuple(tuple))) if name.id.as_str() == "__match_args__" => {
            &tuple.elts
        }
        _ => return false,
    };
    names.iter().all(|name| match name {
        Expr::StringLiteral(literal) => !attributes::is_reflective(literal.value.to_str()),
        _ => false,
    })
}

/// From the first statement of a block to the end of its last.
fn inside(body: &[Stmt]) -> (TextSize, TextSize) {
    match (body.first(), body.last()) {
        (Some(first), Some(last)) => (first.start(), last.end() + TextSize::new(1)),
        _ => (TextSize::default(), TextSize::default()),
    }
}

impl<'a> SourceOrderVisitor<'a> for Walk<'a, '_> {
    fn visit_body(&mut self, body: &'a [Stmt]) {
        let outer = self.block_end;
        self.block_end = body.last().map_or(outer, |last| last.end() + TextSize::new(1));
        for statement in body {
            self.visit_stmt(statement);
        }
        self.block_end = outer;
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if self.preset == CodePreset::Strict
            && let Some(construct) = strict::refused_statement(statement)
        {
            let hint = strict::hint(construct);
            self.add(&rules::SYNTAX_NOT_ALLOWED, statement.start(), construct, hint);
        }
        let end = statement.end();
        let rest = (end, self.block_end);
        match statement {
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => self.class(class),
            Stmt::Import(import) => self.import(import),
            Stmt::ImportFrom(import) => self.import_from(import),
            Stmt::Global(global) => {
                for name in &global.names {
                    self.names.declare_global(self.scope, name.id.as_str());
                }
            }
            Stmt::Nonlocal(nonlocal) => {
                for name in &nonlocal.names {
                    self.names.declare_nonlocal(self.scope, name.id.as_str());
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    if is_match_args(target, Some(&assign.value)) {
                        self.match_args(&assign.value);
                    } else {
                        self.visit_expr(target);
                        self.certain_targets(target, rest);
                    }
                }
                self.visit_used(&assign.value, Used::Value);
            }
            Stmt::AnnAssign(assign) => {
                match assign.value.as_deref() {
                    Some(value) if is_match_args(&assign.target, Some(value)) => {
                        self.match_args(value);
                    }
                    _ => self.visit_expr(&assign.target),
                }
                self.visit_annotation(&assign.annotation);
                if let Some(value) = &assign.value {
                    self.visit_used(value, Used::Value);
                    self.certain_targets(&assign.target, rest);
                }
            }
            Stmt::AugAssign(assign) => {
                // It reads the name too: `eval += x` hands `eval` to `x.__radd__`.
                match &*assign.target {
                    Expr::Name(name) => self.mention(name, Used::Value),
                    Expr::Attribute(attribute)
                        if attribute.attr.id.as_str() == attributes::EXCEPTIONS_OBJECT =>
                    {
                        self.attribute(&attribute.attr);
                    }
                    _ => {}
                }
                source_order::walk_stmt(self, statement);
            }
            Stmt::For(s) => {
                self.certain_targets(&s.target, inside(&s.body));
                source_order::walk_stmt(self, statement);
            }
            Stmt::With(s) => {
                // Not after it: an earlier item may suppress an exception that a later one raises before it binds.
                for target in s.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                    self.certain_targets(target, inside(&s.body));
                }
                source_order::walk_stmt(self, statement);
            }
            _ => source_order::walk_stmt(self, statement),
        }
    }

    fn visit_annotation(&mut self, annotation: &'a Expr) {
        let outer = std::mem::replace(&mut self.annotation, true);
        self.visit_expr(annotation);
        self.annotation = outer;
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if self.preset == CodePreset::Strict
            && let Some(construct) = strict::refused_expression(expression)
        {
            let hint = strict::hint(construct);
            self.add(&rules::SYNTAX_NOT_ALLOWED, expression.start(), construct, hint);
        }
        match expression {
            Expr::Name(name) => {
                self.visit_name_spelling(name);
                match name.ctx {
                    ExprContext::Load | ExprContext::Invalid => self.mention(name, Used::Value),
                    ExprContext::Store => {
                        let id = name.id.as_str();
                        self.names.bind(self.scope, id, name.start(), Imported::Value);
                    }
                    ExprContext::Del => {
                        if self.names.is_outside(self.scope, name.id.as_str()) {
                            self.mention(name, Used::Deleted);
                        }
                    }
                }
            }
            Expr::Attribute(attribute) => {
                let method = attribute.attr.id.as_str();
                if calls::reads_by_name(method).is_some() {
                    self.reads_computed(attribute.attr.end(), method);
                }
                if strings::formats(method) {
                    let hint = "call it on a literal, or use an f-string";
                    self.add(&rules::FORMAT_NOT_ALLOWED, attribute.attr.start(), method, hint);
                }
                self.chain(attribute, false);
            }
            Expr::Call(call) => self.call(call),
            Expr::Lambda(lambda) => self.lambda(lambda),
            Expr::Named(named) => {
                if let Expr::Name(name) = &*named.target {
                    self.visit_name_spelling(name);
                    let scope = self.names.outside_comprehensions(self.scope);
                    self.names.bind(scope, name.id.as_str(), name.start(), Imported::Value);
                }
                self.visit_used(&named.value, Used::Value);
            }
            Expr::ListComp(e) => self.comprehension(&e.generators, &[&e.elt]),
            Expr::SetComp(e) => self.comprehension(&e.generators, &[&e.elt]),
            Expr::Generator(e) => self.comprehension(&e.generators, &[&e.elt]),
            Expr::DictComp(e) => match e.key.as_deref() {
                Some(key) => self.comprehension(&e.generators, &[key, &e.value]),
                None => self.comprehension(&e.generators, &[&e.value]),
            },
            Expr::Compare(compare) => {
                // `is` calls nothing.
                let identity = compare.ops.iter().all(|op| matches!(op, CmpOp::Is | CmpOp::IsNot));
                let used = if identity { Used::Identity } else { Used::Type };
                self.visit_used(&compare.left, used);
                for operand in &compare.comparators {
                    self.visit_used(operand, used);
                }
            }
            Expr::Subscript(subscript) => {
                self.visit_used(&subscript.value, Used::Type);
                match &*subscript.slice {
                    Expr::Tuple(tuple) => {
                        for element in tuple {
                            self.visit_used(element, Used::Type);
                        }
                    }
                    other => self.visit_used(other, Used::Type),
                }
            }
            Expr::StringLiteral(literal) => {
                if self.preset == CodePreset::Strict
                    && strings::names_a_private_attribute(literal.value.to_str())
                {
                    let hint = "name no private attribute in a format string";
                    let subject = literal.value.to_str();
                    self.add(&rules::FORMAT_NOT_ALLOWED, literal.start(), subject, hint);
                }
            }
            _ => source_order::walk_expr(self, expression),
        }
    }

    fn visit_interpolated_string_element(&mut self, element: &'a InterpolatedStringElement) {
        if let InterpolatedStringElement::Literal(literal) = element
            && self.preset == CodePreset::Strict
            && strings::names_a_private_attribute(&literal.value)
        {
            let hint = "name no private attribute in a format string";
            self.add(&rules::FORMAT_NOT_ALLOWED, literal.start(), &literal.value, hint);
        }
        source_order::walk_interpolated_string_element(self, element);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(clause) = handler;
        if let Some(name) = &clause.name {
            let id = name.id.as_str();
            self.bind(name, Imported::Value);
            // The name is unbound again at the end of the clause, which uncovers the builtin that it hid.
            if self.names.is_outside(self.scope, id)
                && let Some(builtin) = calls::blocked(id)
            {
                self.add(&rules::NAME_NOT_ALLOWED, name.start(), id, builtin.hint);
            }
        }
        source_order::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(p) => p.name.as_ref(),
            Pattern::MatchStar(p) => p.name.as_ref(),
            Pattern::MatchMapping(p) => p.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name, Imported::Value);
        }
        source_order::walk_pattern(self, pattern);
    }

    fn visit_pattern_keyword(&mut self, keyword: &'a PatternKeyword) {
        self.attribute(&keyword.attr);
        source_order::walk_pattern_keyword(self, keyword);
    }

    fn visit_type_param(&mut self, parameter: &'a TypeParam) {
        self.bind(parameter.name(), Imported::Value);
        source_order::walk_type_param(self, parameter);
    }
}
