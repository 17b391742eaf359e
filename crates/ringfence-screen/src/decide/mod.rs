//! Rules over calls: the policy's allow and deny rules by tool, path and command, and the risk of a call.
//!
//! Rules are data from the operator; nothing here is about one tool. Decides by the text of a call before it runs, so a
//! rule is advice to an honest agent and a record of a dishonest one: the boundary is the jail.

mod command;
mod fault;
mod glob;
mod path;
mod places;
mod rate;
mod risks;

use serde::{Deserialize, Serialize};

pub use command::CommandRule;
pub use fault::RuleFault;
pub use glob::{Glob, GlobError};
pub use rate::{Rated, risk};

use crate::shell::{Shape, Word};

/// A policy's rules about calls.
///
/// ```
/// use ringfence_screen::decide::{Call, Rules};
/// let rules: Rules = serde_json::from_str(
///     r#"{"deny": [{"name": "no-push", "commands": [{"program": "git", "arguments": ["push"]}]}]}"#,
/// ).unwrap();
/// let shape = ringfence_screen::shell::shape("git add . && git push");
/// let call = Call { tool: "run_command", shape: Some(&shape), ..Call::default() };
/// assert!(!rules.decide(&call).is_allowed());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Verdict on a call that no rule matches.
    pub default: Stance,
    /// Treatment of unreadable parts: `deny` makes every deny rule about commands match an opaque shape, and every gap
    /// in a word match any pattern.
    pub opaque: Stance,
    /// Refused calls. The first that matches names the refusal; deny stands above allow.
    pub deny: Vec<AccessRule>,
    /// Allowed calls, where the default is `deny`.
    pub allow: Vec<AccessRule>,
}

/// Allow or deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stance {
    /// Let it through.
    #[default]
    Allow,
    /// Refuse it.
    Deny,
}

/// One rule. Every list that is not empty has to match; within a list one entry is enough. A rule without lists matches
/// every call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessRule {
    /// Its name in answers and records.
    pub name: String,
    /// Names of tools, as patterns.
    pub tools: Vec<Glob>,
    /// Paths of the call, of its redirections and, for a deny rule, those that well-known programs change (`cp`, `mv`,
    /// `tee`, …), as patterns over the path that the run sees.
    pub paths: Vec<Glob>,
    /// Commands.
    pub commands: Vec<CommandRule>,
    /// The reason, shown to the refused caller.
    pub reason: String,
    /// An alternative to suggest.
    pub hint: String,
}

/// A call before it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'c> {
    /// The tool.
    pub tool: &'c str,
    /// Paths it names, as the run sees them.
    pub paths: &'c [&'c str],
    /// The commands of its command line.
    pub shape: Option<&'c Shape>,
    /// Base of relative paths. Empty: they stay relative.
    pub cwd: &'c str,
    /// Value of `~`. Empty: it stays `~`.
    pub home: &'c str,
}

/// The verdict on a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum RuleVerdict {
    /// It may run.
    Allowed,
    /// It may not.
    Denied {
        /// The name of the rule, or `default`.
        rule: String,
        /// The reason.
        reason: String,
        /// An alternative. Empty if the policy has none.
        hint: String,
    },
}

impl RuleVerdict {
    /// Returns true if it may run.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

impl Rules {
    /// Decides one call.
    pub fn decide(&self, call: &Call<'_>) -> RuleVerdict {
        let paths = path::all_of(call);
        let mut touched = paths.clone();
        if self.deny.iter().any(|rule| !rule.paths.is_empty()) {
            let commands = call.shape.iter().flat_map(|shape| &shape.commands);
            let changed = commands.flat_map(path::changed_by);
            touched.extend(changed.map(|path| path::resolved(&path, call)));
        }
        for (at, rule) in self.deny.iter().enumerate() {
            if let Some(subject) = self.denies(rule, call, &touched) {
                return rule.refusal(at, &subject);
            }
        }
        match self.default {
            Stance::Allow => RuleVerdict::Allowed,
            Stance::Deny => self.decide_by_allow(call, &paths),
        }
    }

    /// The part of the call that a deny rule matches.
    fn denies(&self, rule: &AccessRule, call: &Call<'_>, paths: &[Word]) -> Option<String> {
        let gaps = if self.opaque == Stance::Deny { Gaps::Match } else { Gaps::Differ };
        let mut subject = format!("the tool `{}`", call.tool);
        if !rule.tools.is_empty() && !rule.matches_tool(call.tool) {
            return None;
        }
        if !rule.paths.is_empty() {
            let path = paths
                .iter()
                .find(|path| rule.paths.iter().any(|glob| glob.matches_path(path, gaps)))?;
            subject = format!("the path `{}`", path.shown());
        }
        if !rule.commands.is_empty() {
            let shape = call.shape?;
            let command = shape
                .commands
                .iter()
                .find(|c| rule.commands.iter().any(|r| r.matches(c, call, gaps)));
            subject = match (command, gaps, shape.opaque.first()) {
                (Some(command), ..) => format!("the command `{}`", command::shown(command)),
                (None, Gaps::Match, Some(_)) => {
                    "a command that could not be read to the end".into()
                }
                _ => return None,
            };
        }
        Some(subject)
    }

    /// Decides if the default is deny: the tool, every path and every command need a rule that allows them.
    fn decide_by_allow(&self, call: &Call<'_>, paths: &[Word]) -> RuleVerdict {
        let of_tool: Vec<&AccessRule> = self
            .allow
            .iter()
            .filter(|rule| rule.tools.is_empty() || rule.matches_tool(call.tool))
            .collect();
        let refused = |what: String| RuleVerdict::Denied {
            rule: "default".into(),
            reason: format!("no rule allows {what}"),
            hint: String::new(),
        };
        if of_tool.is_empty() {
            return refused(format!("the tool `{}`", call.tool));
        }
        let open = |rule: &&&AccessRule| rule.paths.is_empty() && rule.commands.is_empty();
        if of_tool.iter().any(|rule| open(&rule)) {
            return RuleVerdict::Allowed;
        }
        for path in paths {
            let allowed = |rule: &&AccessRule| {
                rule.paths.iter().any(|glob| glob.matches_path(path, Gaps::Differ))
            };
            if !of_tool.iter().any(allowed) {
                return refused(format!("the path `{}`", path.shown()));
            }
        }
        let Some(shape) = call.shape else {
            // Rules about commands alone allow no call that has none.
            let some = !paths.is_empty() || of_tool.iter().any(|rule| rule.commands.is_empty());
            return if some {
                RuleVerdict::Allowed
            } else {
                refused(format!("the tool `{}`", call.tool))
            };
        };
        if self.opaque == Stance::Deny && !shape.opaque.is_empty() {
            return refused("a command that could not be read to the end".into());
        }
        for simple in shape.commands.iter().filter(|simple| !simple.words.is_empty()) {
            let allowed = |rule: &&AccessRule| {
                rule.commands.iter().any(|r| r.matches(simple, call, Gaps::Differ))
            };
            if !of_tool.iter().any(allowed) {
                return refused(format!("the command `{}`", command::shown(simple)));
            }
        }
        RuleVerdict::Allowed
    }
}

impl AccessRule {
    fn matches_tool(&self, tool: &str) -> bool {
        let tool = Word::known(tool);
        self.tools.iter().any(|glob| glob.matches(&tool, Gaps::Differ))
    }

    fn refusal(&self, at: usize, subject: &str) -> RuleVerdict {
        let name = self.shown_name("deny", at);
        let reason = if self.reason.is_empty() {
            format!("the policy refuses {subject}")
        } else {
            format!("{} ({subject})", self.reason)
        };
        RuleVerdict::Denied { rule: name, reason, hint: self.hint.clone() }
    }
}

impl AccessRule {
    /// Its name, or its place in the list.
    fn shown_name(&self, list: &str, at: usize) -> String {
        if self.name.is_empty() { format!("{list}[{at}]") } else { self.name.clone() }
    }
}

/// Treatment of a gap in a word by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// Any text: a word that could match does.
    Match,
    /// No text: only known text matches.
    Differ,
}
