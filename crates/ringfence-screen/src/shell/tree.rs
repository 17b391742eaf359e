//! Walks the tree of a script and lists its simple commands.

use brush_parser::ast;

use super::bounds::{self, COMMANDS_MAX, DEPTH_MAX, STEPS_MAX};
use super::words::{self, Word};
use super::{Assignment, Reason, Shape, Simple, scripts, wrappers};

/// Maximum number of programs before a pipe that are kept, the nearest ones.
const FEEDERS_MAX: usize = 8;

/// Words that are listed of a command which has more than the budget allows.
const SHOWN_WORDS_MAX: usize = 64;

/// Position of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// Depth in commands within commands.
    depth: usize,
    /// The programs that run it, outermost first.
    pub(crate) within: Vec<String>,
    /// Programs whose output is its input.
    pub(crate) fed_by: Vec<String>,
    /// The text on its input, if it is known: a here-document, or the output of an `echo` before it.
    pub(crate) input: Option<Input>,
}

/// A command's input, if its own line shows it.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// This text.
    Text(String),
    /// A text with gaps, or a file.
    Hidden(String),
}

impl Position {
    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth > DEPTH_MAX
    }

    /// One level further in, with the same input.
    pub(crate) fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }

    /// One level further in, run by a program.
    pub(crate) fn under(&self, program: &str) -> Self {
        let mut place = self.deeper();
        place.within.push(program.to_owned());
        place
    }
}

/// Commands found so far.
#[derive(Debug, Default)]
pub(crate) struct ShellPart {
    pub(crate) shape: Shape,
    /// Work so far. Past [`STEPS_MAX`] nothing more is read.
    pub(crate) n_steps: usize,
}

impl ShellPart {
    /// Notes a reason once.
    pub(crate) fn opaque(&mut self, reason: Reason) {
        if !self.shape.opaque.contains(&reason) && self.shape.opaque.len() < COMMANDS_MAX {
            self.shape.opaque.push(reason);
        }
    }

    /// Takes steps from the budget, before the work is done; false, with a reason recorded, if they exceed it. Every
    /// later request fails too.
    pub(crate) fn spend(&mut self, n_steps: usize) -> bool {
        let total = self.n_steps.saturating_add(n_steps);
        if total <= STEPS_MAX {
            self.n_steps = total;
            return true;
        }
        self.n_steps = STEPS_MAX;
        self.opaque(Reason::TooCostly);
        false
    }

    /// Lists a command; false if the list is full or the budget spent. A command with too many words is listed with its
    /// first ones, so that its program is seen.
    pub(crate) fn list(&mut self, mut simple: Simple) -> bool {
        if self.shape.commands.len() >= COMMANDS_MAX {
            self.opaque(Reason::TooMany);
            return false;
        }
        let was_spent = self.n_steps >= STEPS_MAX;
        let (n_words, n_bytes) = size(&simple);
        let affordable = self.spend(bounds::listing_steps(n_words, n_bytes));
        if !affordable {
            simple.words.truncate(SHOWN_WORDS_MAX);
            simple.assignments.truncate(SHOWN_WORDS_MAX);
            simple.redirects.truncate(SHOWN_WORDS_MAX);
        }
        if affordable || !was_spent {
            self.shape.commands.push(simple);
        }
        affordable
    }

    pub(crate) fn program(&mut self, program: &ast::Program, place: &Position) {
        for list in &program.complete_commands {
            self.compound_list(list, place);
        }
    }

    fn compound_list(&mut self, list: &ast::CompoundList, place: &Position) {
        for item in &list.0 {
            for (_, pipeline) in &item.0 {
                self.pipeline(pipeline, place);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline, place: &Position) {
        let mut place = place.clone();
        for (at, command) in pipeline.seq.iter().enumerate() {
            let first = self.shape.commands.len();
            if first >= COMMANDS_MAX {
                return self.opaque(Reason::TooMany);
            }
            if self.n_steps >= STEPS_MAX {
                return;
            }
            self.command(command, &place);
            if at + 1 == pipeline.seq.len() {
                break;
            }
            let new = &self.shape.commands[first.min(self.shape.commands.len())..];
            // The output is known only of a single `echo` or `printf`.
            place.input = match (command, new) {
                (ast::Command::Simple(_), [echo]) => Some(said_by(echo)),
                _ => Some(Input::Hidden(
                    new.last().and_then(Simple::program).unwrap_or("…").to_owned(),
                )),
            };
            place
                .fed_by
                .extend(new.iter().map(|simple| simple.program().unwrap_or("…").to_owned()));
            let n_old = place.fed_by.len().saturating_sub(FEEDERS_MAX);
            place.fed_by.drain(..n_old);
        }
    }

    fn command(&mut self, command: &ast::Command, place: &Position) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple, place),
            ast::Command::Compound(compound, redirects) => {
                let place = self.redirected(redirects.as_ref(), place);
                self.compound(compound, &place);
            }
            ast::Command::Function(function) => {
                // A function's body may run; a call of it shows only its name.
                let place = self.redirected(function.body.1.as_ref(), place);
                self.compound(&function.body.0, &place);
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.redirected(redirects.as_ref(), place);
                self.test(&test.expr, place);
            }
        }
    }

    /// The redirections of a group: listed as a command without words, and its input made known to those inside.
    fn redirected(&mut self, redirects: Option<&ast::RedirectList>, place: &Position) -> Position {
        let mut place = place.clone();
        let Some(redirects) = redirects else { return place };
        let mut simple = Simple { within: place.within.clone(), ..Simple::default() };
        for redirect in &redirects.0 {
            self.redirect(redirect, &mut simple, &mut place);
        }
        if !simple.redirects.is_empty() {
            self.list(simple);
        }
        place
    }

    fn compound(&mut self, compound: &ast::CompoundCommand, place: &Position) {
        use ast::CompoundCommand as C;
        match compound {
            C::Arithmetic(arithmetic) => self.arithmetic(&arithmetic.expr, place),
            C::ArithmeticForClause(clause) => {
                for part in
                    [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten()
                {
                    self.arithmetic(part, place);
                }
                self.compound_list(&clause.body.list, place);
            }
            C::BraceGroup(group) => self.compound_list(&group.list, place),
            C::Subshell(subshell) => self.compound_list(&subshell.list, place),
            C::ForClause(clause) => {
                for word in clause.values.iter().flatten() {
                    self.word(word, place);
                }
                self.compound_list(&clause.body.list, place);
            }
            C::CaseClause(clause) => {
                self.word(&clause.value, place);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern, place);
                    }
                    if let Some(list) = &case.cmd {
                        self.compound_list(list, place);
                    }
                }
            }
            C::IfClause(clause) => {
                self.compound_list(&clause.condition, place);
                self.compound_list(&clause.then, place);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.compound_list(condition, place);
                    }
                    self.compound_list(&other.body, place);
                }
            }
            C::WhileClause(clause) | C::UntilClause(clause) => {
                self.compound_list(&clause.0, place);
                self.compound_list(&clause.1.list, place);
            }
            C::Coprocess(coprocess) => self.command(&coprocess.body, place),
        }
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr, place: &Position) {
        use ast::ExtendedTestExpr as T;
        match test {
            T::And(left, right) | T::Or(left, right) => {
                self.test(left, place);
                self.test(right, place);
            }
            T::Not(inner) | T::Parenthesized(inner) => self.test(inner, place),
            T::UnaryTest(_, word) => drop(self.word(word, place)),
            T::BinaryTest(_, left, right) => {
                self.word(left, place);
                self.word(right, place);
            }
        }
    }

    fn arithmetic(&mut self, expression: &ast::UnexpandedArithmeticExpr, place: &Position) {
        let mut scripts = Vec::new();
        let n_bytes = words::inner_scripts(&expression.value, &mut scripts);
        self.spend(n_bytes);
        self.inner(&scripts, place);
    }

    fn simple(&mut self, command: &ast::SimpleCommand, place: &Position) {
        let mut simple = Simple {
            within: place.within.clone(),
            fed_by: place.fed_by.clone(),
            ..Simple::default()
        };
        let mut place = place.clone();
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut simple, &mut place);
        }
        if let Some(word) = &command.word_or_name {
            let words = self.word(word, &place);
            simple.words.extend(words);
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut simple, &mut place);
        }
        wrappers::add(simple, &place, self);
    }

    fn item(
        &mut self,
        item: &ast::CommandPrefixOrSuffixItem,
        simple: &mut Simple,
        place: &mut Position,
    ) {
        use ast::CommandPrefixOrSuffixItem as Item;
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, simple, place),
            Item::Word(word) => {
                let words = self.word(word, place);
                simple.words.extend(words);
            }
            Item::AssignmentWord(assignment, word) => {
                let value = self.assignment(assignment, place);
                if simple.words.is_empty() {
                    simple.assignments.push(value);
                } else {
                    // Behind a program it is an argument: `export A=b`, `env A=b c`.
                    let expanded = words::expand(&word.value);
                    self.spend(expanded.n_bytes);
                    simple.words.extend(expanded.words);
                }
            }
            Item::ProcessSubstitution(_, subshell) => {
                self.process_substitution(subshell, place);
                simple.words.push(Word::unknown());
            }
        }
    }

    fn assignment(&mut self, assignment: &ast::Assignment, place: &Position) -> Assignment {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name.clone(),
            ast::AssignmentName::ArrayElementName(name, index) => {
                let mut scripts = Vec::new();
                let n_bytes = words::inner_scripts(index, &mut scripts);
                self.spend(n_bytes);
                self.inner(&scripts, place);
                name.clone()
            }
        };
        let value = match &assignment.value {
            ast::AssignmentValue::Scalar(word) => {
                let words = self.word(word, place);
                words.into_iter().next().unwrap_or_default()
            }
            ast::AssignmentValue::Array(items) => {
                for (key, word) in items {
                    if let Some(key) = key {
                        self.word(key, place);
                    }
                    self.word(word, place);
                }
                Word::unknown()
            }
        };
        Assignment { name, value }
    }

    pub(crate) fn process_substitution(
        &mut self,
        subshell: &ast::SubshellCommand,
        place: &Position,
    ) {
        let mut place = place.deeper();
        (place.input, place.fed_by) = (None, Vec::new());
        if place.is_too_deep() {
            return self.opaque(Reason::TooDeep);
        }
        self.compound_list(&subshell.list, &place);
    }

    /// Expands a word; parses the commands inside it.
    pub(crate) fn word(&mut self, word: &ast::Word, place: &Position) -> Vec<Word> {
        if !self.spend(word.value.len()) {
            return vec![Word::unknown()];
        }
        let expanded = words::expand(&word.value);
        // Bytes of braces and nested expansions that were parsed again are bounded by the word, and charged afterwards.
        self.spend(expanded.n_bytes);
        self.inner(&expanded.scripts, place);
        if expanded.broken {
            self.opaque(Reason::TooDeep);
        }
        expanded.words
    }

    pub(crate) fn inner(&mut self, inner: &[String], place: &Position) {
        let mut place = place.deeper();
        (place.input, place.fed_by) = (None, Vec::new());
        for script in inner {
            scripts::read(script, &place, self);
        }
    }
}

/// Words and bytes of a command.
fn size(simple: &Simple) -> (usize, usize) {
    let redirects = simple.redirects.iter().map(|redirect| &redirect.path);
    let assignments = simple.assignments.iter().map(|assignment| &assignment.value);
    let words = simple.words.iter().chain(redirects).chain(assignments);
    words.fold((0, 0), |(n, bytes), word| (n + 1, bytes + word.n_bytes()))
}

/// The output of a command, if it is `echo` or `printf` and all its words are known.
fn said_by(command: &Simple) -> Input {
    let program = command.program().unwrap_or("…");
    let hidden = Input::Hidden(program.to_owned());
    let words: Option<Vec<&str>> = command.arguments().iter().map(Word::text).collect();
    match (program, words) {
        ("echo", Some(words)) if !words.first().is_some_and(|w| w.starts_with('-')) => {
            Input::Text(words.join(" "))
        }
        ("printf", Some(words)) if words.len() == 1 && !words[0].contains(['%', '\\']) => {
            Input::Text(words[0].to_owned())
        }
        ("printf", Some(words)) if words.len() == 2 && matches!(words[0], "%s" | "%s\\n") => {
            Input::Text(words[1].to_owned())
        }
        _ => hidden,
    }
}
