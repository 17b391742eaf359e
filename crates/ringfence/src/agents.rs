//! Coding agents that `ringfence agent` knows: program, directories of their own, hosts and credentials. Data only.

/// A coding agent.
#[derive(Debug)]
pub(crate) struct Agent {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Program to execute.
    pub(crate) program: &'static str,
    /// Directories below the home that the agent keeps between runs. They are its own, behind the fence: the host's
    /// directories of these names are not shown, with their hooks, servers and logins.
    pub(crate) directories: &'static [&'static str],
    /// Directories below the home that hold the program.
    pub(crate) programs: &'static [&'static str],
    /// Rules of its network besides those of its keys.
    pub(crate) rules: &'static [&'static str],
    /// Variables that hold a key, and the host that each is for.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Variables that it is given; `~` is the home.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Arguments before all others.
    pub(crate) arguments: &'static [&'static str],
    /// Arguments that make it use a key: the key's variable, and the arguments before the caller's.
    pub(crate) key_arguments: Option<(&'static str, &'static [&'static str])>,
}

const ANTHROPIC: &str = "api.anthropic.com";
const OPENAI: &str = "api.openai.com";

/// Every agent, by name.
pub(crate) const AGENTS: &[Agent] = &[
    Agent {
        name: "aider",
        program: "aider",
        directories: &[".aider"],
        programs: &[".local/bin", ".local/share/uv", ".local/share/pipx"],
        rules: &[],
        keys: &[("ANTHROPIC_API_KEY", ANTHROPIC), ("OPENAI_API_KEY", OPENAI)],
        variables: &[("AIDER_ANALYTICS", "false"), ("AIDER_CHECK_UPDATE", "false")],
        arguments: &[],
        key_arguments: None,
    },
    Agent {
        name: "claude",
        program: "claude",
        directories: &[".claude"],
        programs: &[".local/bin", ".local/share/claude"],
        // Claude Code 2.1 asks the second host at its first start in a terminal, and exits if there is no answer.
        rules: &["anthropic", "platform.claude.com"],
        keys: &[("ANTHROPIC_API_KEY", ANTHROPIC), ("CLAUDE_CODE_OAUTH_TOKEN", ANTHROPIC)],
        variables: &[
            ("CLAUDE_CONFIG_DIR", "~/.claude"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
        ],
        arguments: &[],
        key_arguments: None,
    },
    Agent {
        name: "codex",
        program: "codex",
        directories: &[".codex"],
        programs: &[".local/bin"],
        rules: &["openai"],
        keys: &[("OPENAI_API_KEY", OPENAI), ("CODEX_API_KEY", OPENAI)],
        variables: &[("CODEX_HOME", "~/.codex")],
        // Its own sandbox cannot start inside, and every command would fail. A caller's `-s` comes later and wins.
        arguments: &["-c", "sandbox_mode=danger-full-access"],
        // Codex 0.169 asks for a login, whatever OPENAI_API_KEY is, unless a provider names the variable. The placeholder
        // differs in each run, so a login with it would not last.
        key_arguments: Some((
            "OPENAI_API_KEY",
            &[
                "-c",
                "model_provider=openai-key",
                "-c",
                r#"model_providers.openai-key={name="OpenAI",base_url="https://api.openai.com/v1",env_key="OPENAI_API_KEY",wire_api="responses"}"#,
            ],
        )),
    },
    Agent {
        name: "gemini",
        program: "gemini",
        directories: &[".gemini"],
        programs: &[".local/bin"],
        rules: &["google"],
        keys: &[("GEMINI_API_KEY", "generativelanguage.googleapis.com")],
        variables: &[("GEMINI_TELEMETRY_ENABLED", "false")],
        arguments: &[],
        key_arguments: None,
    },
    Agent {
        name: "opencode",
        program: "opencode",
        directories: &[
            ".cache/opencode",
            ".config/opencode",
            ".local/share/opencode",
            ".local/state/opencode",
        ],
        programs: &[".local/bin", ".opencode/bin"],
        rules: &["models.dev"],
        keys: &[("ANTHROPIC_API_KEY", ANTHROPIC), ("OPENAI_API_KEY", OPENAI)],
        variables: &[("OPENCODE_DISABLE_AUTOUPDATE", "true")],
        arguments: &[],
        key_arguments: None,
    },
];

/// Finds an agent by its name.
pub(crate) fn find(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}
