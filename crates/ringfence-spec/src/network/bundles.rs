//! Named lists of hosts for common tools. Each has a date and the page of the tool's own documentation that names its
//! hosts. No bundle holds a host that serves storage to any customer, such as an object store or a pages service.

/// The hosts that one tool needs, on ports 443 and 80.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The name users write.
    pub name: &'static str,
    /// One line about what works with it.
    pub summary: &'static str,
    /// Year and month in which the hosts were listed.
    pub date: &'static str,
    /// Documentation of the tool or service that names the hosts.
    pub source: &'static str,
    /// Exact host names.
    pub hosts: &'static [&'static str],
}

/// Finds a bundle by its name.
pub fn bundle(name: &str) -> Option<&'static Bundle> {
    all().iter().find(|bundle| bundle.name == name)
}

/// Every bundle, by name.
pub fn all() -> &'static [Bundle] {
    BUNDLES
}

/// Year and month in which the hosts below were listed.
const LISTED: &str = "2026-11";

/// Left out for the same reason: Hugging Face, whose main host serves storage buckets.
const BUNDLES: &[Bundle] = &[
    Bundle {
        name: "alpine",
        summary: "packages of Alpine Linux (apk)",
        date: LISTED,
        source: "https://wiki.alpinelinux.org/wiki/Repositories",
        hosts: &["dl-cdn.alpinelinux.org"],
    },
    Bundle {
        name: "anthropic",
        summary: "Claude API",
        date: LISTED,
        source: "https://platform.claude.com/docs/en/api/overview",
        hosts: &["api.anthropic.com"],
    },
    Bundle {
        name: "crates",
        summary: "crates.io (cargo)",
        date: LISTED,
        source: "https://index.crates.io/",
        hosts: &["crates.io", "index.crates.io", "static.crates.io"],
    },
    Bundle {
        name: "debian",
        summary: "packages of Debian (apt)",
        date: LISTED,
        source: "https://wiki.debian.org/SourcesList",
        hosts: &["deb.debian.org", "security.debian.org"],
    },
    Bundle {
        name: "github",
        summary: "git over HTTPS, the API, archives and release files of GitHub; not Git LFS, not Pages",
        date: LISTED,
        source: "https://docs.github.com/en/actions/concepts/runners/communicating-with-self-hosted-runners",
        hosts: &[
            "github.com",
            "api.github.com",
            "codeload.github.com",
            "objects.githubusercontent.com",
            "raw.githubusercontent.com",
            "release-assets.githubusercontent.com",
        ],
    },
    Bundle {
        name: "go",
        // The mirror redirects some modules to storage.googleapis.com, where anybody can rent a bucket.
        summary: "module mirror and checksum database of Go; not the modules it redirects to storage.googleapis.com",
        date: LISTED,
        source: "https://go.dev/ref/mod#environment-variables",
        hosts: &["proxy.golang.org", "sum.golang.org"],
    },
    Bundle {
        name: "google",
        summary: "Gemini API",
        date: LISTED,
        source: "https://ai.google.dev/api",
        hosts: &["generativelanguage.googleapis.com"],
    },
    Bundle {
        name: "maven",
        summary: "Maven Central (mvn, gradle)",
        date: LISTED,
        source: "https://maven.apache.org/ref/current/maven-model-builder/super-pom.html",
        hosts: &["repo.maven.apache.org", "repo1.maven.org"],
    },
    Bundle {
        name: "npm",
        summary: "registry of npm",
        date: LISTED,
        source: "https://docs.npmjs.com/cli/using-npm/registry",
        hosts: &["registry.npmjs.org"],
    },
    Bundle {
        name: "openai",
        summary: "OpenAI API",
        date: LISTED,
        source: "https://platform.openai.com/docs/api-reference/introduction",
        hosts: &["api.openai.com"],
    },
    Bundle {
        name: "pypi",
        summary: "Python package index (pip, uv)",
        date: LISTED,
        source: "https://docs.pypi.org/api/index-api/",
        hosts: &["pypi.org", "files.pythonhosted.org"],
    },
    Bundle {
        name: "rubygems",
        summary: "RubyGems (gem, bundler)",
        date: LISTED,
        source: "https://guides.rubygems.org/rubygems-org-compact-index-api",
        hosts: &["rubygems.org", "index.rubygems.org"],
    },
    Bundle {
        name: "rustup",
        summary: "toolchains of Rust",
        date: LISTED,
        source: "https://rust-lang.github.io/rustup/environment-variables.html",
        hosts: &["static.rust-lang.org"],
    },
    Bundle {
        name: "ubuntu",
        summary: "packages of Ubuntu (apt)",
        date: LISTED,
        source: "https://documentation.ubuntu.com/server/how-to/software/package-management/",
        hosts: &["archive.ubuntu.com", "ports.ubuntu.com", "security.ubuntu.com"],
    },
    Bundle {
        name: "yarn",
        summary: "registry of Yarn",
        date: LISTED,
        source: "https://yarnpkg.com/configuration/yarnrc#npmRegistryServer",
        hosts: &["registry.yarnpkg.com"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::HostName;
    use crate::network::shared_hosting::is_shared;

    #[test]
    fn bundles_are_sorted_dated_and_sourced() {
        assert!(all().is_sorted_by(|a, b| a.name < b.name));
        for Bundle { name, summary, date, source, hosts } in all() {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "{name}");
            assert!(!summary.is_empty() && date.len() == 7, "{name}");
            assert!(source.starts_with("https://"), "{name}");
            assert!(!hosts.is_empty(), "{name}");
        }
        assert_eq!(bundle("pypi").map(|b| b.name), Some("pypi"));
        assert_eq!(bundle("PyPI"), None);
    }

    #[test]
    fn no_bundle_holds_a_host_of_shared_storage() {
        for bundle in all() {
            for host in bundle.hosts {
                let name: HostName = host.parse().unwrap();
                assert_eq!(name.as_str(), *host);
                assert!(!is_shared(&name), "{host} in {}", bundle.name);
            }
        }
    }
}
