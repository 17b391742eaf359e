//! Rules parsed, compared and decided by.

use proptest::prelude::*;

use super::*;

fn host(text: &str) -> Host {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// One word for a decision: the dial of a grant, the grant of a refusal, or the deny rule.
fn decided(list: &str, name: &str, port: u16) -> String {
    let rules = NetworkRules::parse(list).unwrap_or_else(|e| panic!("{e}"));
    let host = host(name);
    match rules.decide(&host, port) {
        NetworkVerdict::Allowed(grant) => match &grant.dial {
            Dial::Public => "public".into(),
            Dial::Within(ranges) => {
                ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            Dial::Exact(ip) => format!("exactly {ip}"),
            Dial::HostLoopback => "loopback".into(),
        },
        NetworkVerdict::Denied(Denied { grant: Some(grant), by: None }) => format!("needs {grant}"),
        NetworkVerdict::Denied(Denied { grant: None, by: Some(by) }) => by,
        NetworkVerdict::Denied(Denied { grant: None, by: None }) => "never".into(),
        NetworkVerdict::Denied(other) => panic!("{other:?}"),
    }
}

#[test]
fn accepted_lists() {
    let rows: &[(&str, &[u16])] = &[
        ("example.com", &[80, 443]),
        ("EXAMPLE.com.", &[80, 443]),
        ("example.com:443", &[443]),
        ("example.com:8443", &[8443]),
        ("example.com:1", &[1]),
        ("example.com:65535", &[65535]),
        ("example.com:0443", &[443]),
        ("a.example,b.example:22", &[22, 80, 443]),
        (" a.example , b.example ", &[80, 443]),
        ("*.example.com", &[80, 443]),
        ("*.example.com:8443", &[8443]),
        ("**.example.com", &[80, 443]),
        ("*", &[80, 443]),
        ("*:22", &[22]),
        ("*,*:22", &[22, 80, 443]),
        ("*,example.com:22", &[22, 80, 443]),
        ("*,localhost:5432", &[80, 443, 5432]),
        ("*,registry.corp@10.0.0.0/8", &[80, 443]),
        ("*,10.1.2.3", &[80, 443]),
        ("*,deny:example.com", &[80, 443]),
        ("registry.corp@10.0.0.0/8", &[80, 443]),
        ("registry.corp:5000@10.0.0.0/8", &[5000]),
        ("registry@10.1.2.3", &[80, 443]),
        ("registry:5000", &[5000]),
        ("registry.", &[80, 443]),
        ("*.corp.example@10.0.0.0/8", &[80, 443]),
        ("a.example@fd00::/8", &[80, 443]),
        ("a.example@127.0.0.1/32", &[80, 443]),
        ("a.example@::1", &[80, 443]),
        ("localhost:5432", &[5432]),
        ("LOCALHOST:5432", &[5432]),
        ("8.8.8.8", &[80, 443]),
        ("8.8.8.8:853", &[853]),
        ("10.1.2.3:22", &[22]),
        ("169.254.169.254", &[80, 443]),
        ("[2001:4860:4860::8888]", &[80, 443]),
        ("[2001:4860:4860::8888]:853", &[853]),
        ("*.github.io!", &[80, 443]),
        ("**.github.io!", &[80, 443]),
        ("*.github.io:8443!", &[8443]),
        ("*.com!", &[80, 443]),
        ("*.s3.amazonaws.com!", &[80, 443]),
        ("*.example.com!", &[80, 443]),
        ("github.io", &[80, 443]),
        ("s3.amazonaws.com", &[80, 443]),
        ("foo.github.io", &[80, 443]),
        ("*.foo.github.io", &[80, 443]),
        ("*.internal", &[80, 443]),
        ("pypi", &[80, 443]),
        ("pypi,npm,crates,go,debian,ubuntu,github", &[80, 443]),
        ("anthropic,openai,google,rubygems,maven", &[80, 443]),
        ("github.", &[80, 443]),
        ("github.:8443", &[8443]),
        ("github,deny:api.github.com", &[80, 443]),
        ("github.com,deny:github", &[80, 443]),
        ("example.com,deny:example.com:80", &[80, 443]),
        ("example.com:80,deny:example.com:443", &[80]),
        ("**.example.com,deny:*.example.com", &[80, 443]),
        ("example.com,example.com", &[80, 443]),
        ("example.com,deny:8.8.8.8", &[80, 443]),
        ("example.com,deny:127.0.0.1", &[80, 443]),
        ("example.com,deny:*.com", &[80, 443]),
        ("example.com,deny:*", &[80, 443]),
        ("_srv.example.com", &[80, 443]),
        ("xn--bcher-kva.example", &[80, 443]),
    ];
    for (list, ports) in rows {
        let rules = NetworkRules::parse(list).unwrap_or_else(|e| panic!("{e}"));
        assert!(rules.tcp_ports().into_iter().eq(ports.iter().copied()), "{list}");
        assert!(!rules.is_empty());
        let shown = rules.to_string();
        assert_eq!(NetworkRules::parse(&shown), Ok(rules), "{shown}");
    }
    let rules = NetworkRules::parse("a.example, deny:b.example:80,A.example.").unwrap();
    assert!(rules.rules().eq(["a.example", "deny:b.example:80"]));
    assert_eq!(serde_json::to_string(&rules).unwrap(), r#"["a.example","deny:b.example:80"]"#);
}

#[test]
fn refused_lists() {
    let rows = [
        ("", "names no host"),
        (",", "names no host"),
        ("example.com,", "names no host"),
        (":443", "not a host name"),
        ("@10.0.0.0/8", "names no host"),
        ("!", "names no host"),
        ("deny:", "names no host"),
        ("example.com:", "`` is not a port"),
        ("example.com:0", "`0` is not a port"),
        ("example.com:65536", "is not a port"),
        ("example.com:+443", "is not a port"),
        ("example.com:-1", "is not a port"),
        ("example.com:https", "`https` is not a port"),
        ("example.com:443:80", "in brackets"),
        ("example.com:53", "port 53"),
        ("https://example.com", "without scheme"),
        ("example.com/path", "without scheme"),
        ("::1", "in brackets"),
        ("2001:db8::1", "in brackets"),
        ("[2001:db8::1", "without `]`"),
        ("[2001:db8::1]443", "after `]`"),
        ("[fe80::1%eth0]", "zone"),
        ("[example.com]", "IPv6"),
        ("bücher.example", "A-labels"),
        ("evil\0.google.com", "letters"),
        ("a b.example", "letters"),
        ("127.1", "number"),
        ("0x7f.1:443", "number"),
        ("2130706433", "number"),
        ("*.1.2.3.4", "number"),
        ("**", "stands alone"),
        ("*example.com", "stands alone"),
        ("a*.example.com", "stands alone"),
        ("a.*.com", "stands alone"),
        ("*.*.com", "only one"),
        ("***.com", "stands alone"),
        ("*.", "empty"),
        ("*.com", "`*.com!`"),
        ("**.co.uk", "`**.co.uk!`"),
        ("*.github.io", "`*.github.io!`"),
        ("*.github.io:8443", "`*.github.io:8443!`"),
        ("*.s3.amazonaws.com", "!`"),
        ("*.amazonaws.com", "!`"),
        ("*.storage.googleapis.com", "!`"),
        ("*.github.io@10.0.0.0/8", "different owners"),
        ("*.github.io@10.0.0.0/8!", "different owners"),
        ("example.com!", "wildcards"),
        ("*!", "wildcards"),
        ("pypi!", "bundle"),
        ("pypi:443", "`pypi.`"),
        ("pypi@10.0.0.0/8", "bundle"),
        ("pipy", "neither a bundle"),
        ("localhost", "`localhost:5432`"),
        ("localhost:80@10.0.0.0/8", "no range"),
        ("*.localhost", "localhost:PORT"),
        ("127.0.0.1:8080", "`localhost:8080`"),
        ("127.0.0.1", "`localhost:PORT`"),
        ("[::1]:8080", "`localhost:8080`"),
        ("[::ffff:127.0.0.1]:8080", "`localhost:8080`"),
        ("127.0.0.2:80", "localhost"),
        ("0.0.0.0", "one host"),
        ("[::]:80", "one host"),
        ("224.0.0.1", "one host"),
        ("255.255.255.255", "one host"),
        ("10.0.0.0/8", "without scheme"),
        ("8.8.8.8@8.0.0.0/8", "no range"),
        ("*@10.0.0.0/8", "no range"),
        ("a.example@10.0.0.1/8", "write `10.0.0.0/8`"),
        ("a.example@10", "address range"),
        ("a.example@", "address range"),
        ("a.example@0.0.0.0/0", "too large"),
        ("a.example@8.0.0.0/7", "too large"),
        ("a.example@::/0", "too large"),
        ("a.example@224.0.0.0/8", "one host"),
        ("a.example@10.0.0.0/8@10.0.0.0/8", "prefix"),
        ("example.com,deny:a.example!", "neither"),
        ("example.com,deny:a.example@10.0.0.0/8", "neither"),
        ("deny:deny:a.example", "not a port"),
        ("deny:example.com", "allows no host"),
        ("example.com,deny:example.com", "`example.com` and `deny:example.com` contradict"),
        ("deny:example.com,EXAMPLE.com.", "contradict"),
        ("example.com:80,deny:example.com", "contradict"),
        ("example.com:80,deny:example.com:80", "contradict"),
        (
            "example.com,deny:example.com:80,deny:example.com:443",
            "`deny:example.com:80` and `deny:example.com:443`",
        ),
        ("*.example.com,deny:*.example.com", "contradict"),
        ("pypi,deny:pypi", "contradict"),
        ("localhost:80,deny:127.0.0.1", "contradict"),
        ("*,deny:*", "contradict"),
        ("*,example.com", "`*` already allows `example.com`"),
        ("example.com:80,*", "`*` already allows `example.com:80`"),
        ("*,pypi", "already allows"),
        ("*,*.example.com", "already allows"),
        ("*:443,*:80,example.com", "already allows"),
    ];
    for (list, reason) in rows {
        let error = NetworkRules::parse(list).expect_err(list);
        assert!(error.contains(reason), "{list}: {error}");
        assert!(!error.contains('\0'), "{error:?}");
    }
}

#[test]
fn decisions() {
    let rows = [
        ("example.com", "example.com", 443, "public"),
        ("example.com", "example.com", 80, "public"),
        ("Example.COM.", "EXAMPLE.com.", 443, "public"),
        ("example.com", "example.com", 8443, "needs example.com:8443"),
        ("example.com", "example.com", 22, "needs example.com:22"),
        ("example.com:8443", "example.com", 443, "needs example.com"),
        ("example.com", "www.example.com", 443, "needs www.example.com"),
        ("example.com", "notexample.com", 443, "needs notexample.com"),
        ("example.com", "example.com.evil.net", 443, "needs example.com.evil.net"),
        ("example.com", "com", 443, "needs com:443"),
        ("example.com", "registry", 80, "needs registry:80"),
        ("example.com", "registry", 5000, "needs registry:5000"),
        ("example.com", "github", 443, "needs github.:443"),
        ("example.com", "example.com", 53, "never"),
        ("example.com", "example.com", 0, "never"),
        ("*.example.com", "www.example.com", 443, "public"),
        ("*.example.com", "a.b.c.example.com", 80, "public"),
        ("*.example.com", "example.com", 443, "needs example.com"),
        ("*.example.com", "badexample.com", 443, "needs badexample.com"),
        ("*.example.com:8443", "www.example.com", 8443, "public"),
        ("*.example.com:8443", "www.example.com", 443, "needs www.example.com"),
        ("**.example.com", "example.com", 443, "public"),
        ("**.example.com", "a.example.com", 443, "public"),
        ("**.example.com", "xexample.com", 443, "needs xexample.com"),
        ("*", "anything.example", 443, "public"),
        ("*", "anything.example", 22, "needs anything.example:22"),
        ("*", "localhost", 443, "needs localhost:443"),
        ("*", "8.8.8.8", 443, "public"),
        ("*", "10.0.0.1", 443, "needs 10.0.0.1"),
        ("*", "127.0.0.1", 443, "needs localhost:443"),
        ("*", "127.0.0.2", 443, "never"),
        ("*", "64:ff9b::10.0.0.1", 443, "needs [64:ff9b::a00:1]"),
        ("*,deny:evil.example", "evil.example", 443, "deny:evil.example"),
        ("*,deny:evil.example", "a.evil.example", 443, "public"),
        ("*,deny:evil.example", "8.8.8.8", 443, "needs 8.8.8.8"),
        ("*,8.8.8.8,deny:evil.example", "8.8.8.8", 443, "exactly 8.8.8.8"),
        ("*,deny:8.8.8.8", "8.8.4.4", 443, "public"),
        ("*,deny:8.8.8.8", "8.8.8.8", 443, "deny:8.8.8.8"),
        ("*,deny:**.evil.example", "a.evil.example", 443, "deny:**.evil.example"),
        ("deny:*.example.com,**.example.com", "a.example.com", 443, "deny:*.example.com"),
        ("**.example.com,deny:*.example.com", "a.example.com", 443, "deny:*.example.com"),
        ("**.example.com,deny:*.example.com", "example.com", 443, "public"),
        ("example.com,deny:example.com:80", "example.com", 80, "deny:example.com:80"),
        ("example.com,deny:example.com:80", "example.com", 443, "public"),
        ("example.com,deny:*", "example.com", 443, "deny:*"),
        ("github,deny:api.github.com", "api.github.com", 443, "deny:api.github.com"),
        ("github,deny:api.github.com", "github.com", 443, "public"),
        ("*,deny:github", "codeload.github.com", 443, "deny:github"),
        ("pypi", "files.pythonhosted.org", 443, "public"),
        ("pypi", "pypi.org", 22, "needs pypi.org:22"),
        ("pypi", "pypi", 443, "needs pypi.:443"),
        ("registry.corp@10.0.0.0/8", "registry.corp", 443, "10.0.0.0/8"),
        (
            "registry.corp,registry.corp@10.0.0.0/8,*.corp@fd00::/8",
            "registry.corp",
            443,
            "10.0.0.0/8 fd00::/8",
        ),
        ("registry.corp:5000@10.0.0.0/8", "registry.corp", 443, "needs registry.corp"),
        ("localhost:5432", "localhost", 5432, "loopback"),
        ("localhost:5432", "127.0.0.1", 5432, "loopback"),
        ("localhost:5432", "::1", 5432, "loopback"),
        ("localhost:5432", "::ffff:127.0.0.1", 5432, "loopback"),
        ("localhost:5432", "127.0.0.2", 5432, "never"),
        ("localhost:5432", "localhost", 5433, "needs localhost:5433"),
        ("localhost:5432", "a.localhost", 5432, "needs a.localhost:5432"),
        ("8.8.8.8", "8.8.8.8", 443, "exactly 8.8.8.8"),
        ("8.8.8.8", "::ffff:8.8.8.8", 443, "exactly 8.8.8.8"),
        ("8.8.8.8", "8.8.4.4", 443, "needs 8.8.4.4"),
        ("8.8.8.8", "8.8.8.8", 22, "needs 8.8.8.8:22"),
        ("10.1.2.3:22", "10.1.2.3", 22, "exactly 10.1.2.3"),
        ("example.com", "2001:db8::1", 443, "needs [2001:db8::1]"),
        ("example.com", "2001:db8::1", 22, "needs [2001:db8::1]:22"),
        ("example.com", "0.0.0.0", 443, "never"),
        ("example.com", "224.0.0.1", 443, "never"),
        ("*.github.io!", "anyone.github.io", 443, "public"),
        ("*.github.io!", "github.io", 443, "needs github.io"),
    ];
    for (list, name, port, expected) in rows {
        let got = decided(list, name, port);
        assert_eq!(got, expected, "{list} {name}:{port}");
        // A grant that is told must work.
        if let Some(grant) = got.strip_prefix("needs ") {
            let wider = NetworkRules::parse(&format!("{list},{grant}"))
                .unwrap_or_else(|e| panic!("{list} {grant}: {e}"));
            let host = host(name);
            assert!(
                matches!(wider.decide(&host, port), NetworkVerdict::Allowed(_)),
                "{list} {grant}"
            );
        }
    }
}

#[test]
fn addresses_of_a_granted_name() {
    // (list, host, port, address, text of the refusal, grant that is told)
    let rows = [
        ("a.example", "a.example", 443, "8.8.8.8", None, None),
        ("a.example", "a.example", 443, "10.1.2.3", Some("private"), Some("a.example@10.1.2.3/32")),
        (
            "a.example:22",
            "a.example",
            22,
            "::ffff:10.1.2.3",
            Some("private"),
            Some("a.example:22@10.1.2.3/32"),
        ),
        ("*", "a.example", 443, "127.0.0.1", Some("loopback"), Some("a.example@127.0.0.1/32")),
        ("*", "registry", 443, "fd00::1", Some("private"), Some("registry@fd00::1/128")),
        ("*", "pypi", 443, "fd00::1", Some("private"), Some("pypi.@fd00::1/128")),
        ("a.example", "a.example", 443, "0.0.0.0", Some("one host"), None),
        ("a.example", "a.example", 443, "ff02::1", Some("one host"), None),
        (
            "a.example",
            "a.example",
            443,
            "64:ff9b::10.1.2.3",
            Some("private"),
            Some("a.example@64:ff9b::a01:203/128"),
        ),
        ("a.example@10.0.0.0/8", "a.example", 443, "10.1.2.3", None, None),
        ("a.example@10.0.0.0/8", "a.example", 443, "::ffff:10.1.2.3", None, None),
        ("a.example@10.0.0.0/8", "a.example", 443, "64:ff9b::10.1.2.3", None, None),
        ("a.example@10.0.0.0/8", "a.example", 443, "8.8.8.8", None, None),
        (
            "a.example@10.0.0.0/8",
            "a.example",
            443,
            "192.168.0.1",
            Some("private"),
            Some("a.example@192.168.0.1/32"),
        ),
        ("a.example@127.0.0.1/32", "a.example", 443, "127.0.0.1", None, None),
        (
            "a.example@127.0.0.1/32",
            "a.example",
            443,
            "127.0.0.2",
            Some("loopback"),
            Some("a.example@127.0.0.2/32"),
        ),
        ("a.example,deny:8.8.8.8", "a.example", 443, "8.8.8.8", Some("deny:8.8.8.8"), None),
        ("a.example,deny:8.8.8.8:80", "a.example", 443, "8.8.8.8", None, None),
        ("a.example,deny:8.8.8.8", "a.example", 443, "64:ff9b::8.8.8.8", Some("deny:"), None),
        ("localhost:80", "localhost", 80, "127.0.0.1", None, None),
        ("localhost:80", "localhost", 80, "::1", None, None),
        ("localhost:80", "localhost", 80, "127.0.0.53", Some("not the loopback"), None),
        ("localhost:80", "localhost", 80, "8.8.8.8", Some("not the loopback"), None),
        ("10.1.2.3", "10.1.2.3", 80, "10.1.2.3", None, None),
        ("10.1.2.3", "10.1.2.3", 80, "10.1.2.4", Some("not the address"), None),
    ];
    for (list, name, port, ip, refusal, told) in rows {
        let rules = NetworkRules::parse(list).unwrap();
        let (host, ip) = (host(name), ip.parse().unwrap());
        let NetworkVerdict::Allowed(grant) = rules.decide(&host, port) else {
            panic!("{list} {name}")
        };
        match (grant.may_dial(ip), refusal) {
            (Ok(()), None) => {}
            (Err(error), Some(text)) if error.contains(text) => {
                let denied = grant.denied_address(ip);
                assert_eq!(denied.grant.as_deref(), told, "{list} {ip}");
                assert_eq!(denied.by.is_some(), text.starts_with("deny:"), "{list} {ip}");
                if let Some(told) = told {
                    let wider = NetworkRules::parse(&format!("{list},{told}")).unwrap();
                    let NetworkVerdict::Allowed(grant) = wider.decide(&host, port) else {
                        panic!()
                    };
                    assert_eq!(grant.may_dial(ip), Ok(()), "{list} {told}");
                }
            }
            (got, _) => panic!("{list} {name} {ip}: {got:?}"),
        }
    }
}

#[test]
fn names_that_dns_answers() {
    let rows = [
        ("example.com", "example.com", true),
        ("example.com:22", "example.com", true),
        ("example.com", "www.example.com", false),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*", "example.com", true),
        ("*", "localhost", false),
        ("*,deny:example.com", "example.com", false),
        ("*,deny:example.com:80", "example.com", true),
        ("*,deny:example.com", "a.example.com", true),
        ("localhost:80", "localhost", true),
        ("8.8.8.8", "example.com", false),
        ("github,deny:api.github.com", "api.github.com", false),
        ("pypi", "pypi.org", true),
    ];
    for (list, name, known) in rows {
        let rules = NetworkRules::parse(list).unwrap();
        assert_eq!(rules.knows_name(&name.parse().unwrap()), known, "{list} {name}");
    }
    assert!(NetworkRules::parse("localhost:80").unwrap().has_host_loopback());
    assert!(!NetworkRules::parse("*,deny:localhost").unwrap().has_host_loopback());
}

#[test]
fn a_workspace_adds_denials_only() {
    let mut rules = NetworkRules::parse("**.example.com").unwrap();
    rules.with_denials(["deny:a.example.com", "deny:**.example.com:80"]).unwrap();
    assert_eq!(rules.to_string(), "**.example.com,deny:a.example.com,deny:**.example.com:80");
    let error = rules.with_denials(["deny:b.example.com", "c.example"]).unwrap_err();
    assert!(error.contains("`deny:c.example`"), "{error}");
    assert!(!rules.to_string().contains("b.example.com"), "nothing is added after an error");
    rules.with_denials(["deny:**.example.com"]).unwrap();
    let name = host("example.com");
    assert!(matches!(rules.decide(&name, 443), NetworkVerdict::Denied(_)));
}

#[test]
fn the_empty_list_allows_nothing() {
    let rules = NetworkRules::default();
    assert!(rules.is_empty() && rules.tcp_ports().is_empty());
    let name = host("example.com");
    assert!(matches!(rules.decide(&name, 443), NetworkVerdict::Denied(_)));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,80}", other in "[a-z*!@:.,\\[\\]0-9/-]{0,40}") {
        for text in [&text, &other] {
            if let Ok(rules) = NetworkRules::parse(text) {
                prop_assert_eq!(NetworkRules::parse(&rules.to_string()), Ok(rules));
            }
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse(), Ok(host));
            }
        }
    }

    /// A denial never makes a list allow more.
    #[test]
    fn denials_only_narrow(name in "[ab]\\.(example|test)", port in prop::sample::select(vec![80u16, 443, 22]), deny in "deny:(\\*\\.|\\*\\*\\.)?([ab]\\.)?(example|test)(:80)?") {
        let rules = NetworkRules::parse("*.example,a.test:22,b.test").unwrap();
        let mut fewer = rules.clone();
        fewer.with_denials([deny.as_str()]).unwrap();
        let host = host(&name);
        let before = matches!(rules.decide(&host, port), NetworkVerdict::Allowed(_));
        let after = matches!(fewer.decide(&host, port), NetworkVerdict::Allowed(_));
        prop_assert!(before || !after);
    }
}
