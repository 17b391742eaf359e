//! `ringfence doctor`: probes the host's enforcement features, and prints a fix for each gap.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::process::ExitCode;

use ringfence_engine::host::probe;
use ringfence_plan::{CoreDumps, CoreHandler};
use ringfence_spec::{Code, Problem, Tier};
use serde::Serialize;

use crate::cli::{JsonArgs, PolicyFlags, ServiceFlags};
use crate::present;
use crate::settings::{
    Faults, Key, Surroundings, effective, effective_code, effective_code_but_for, notify, rules,
    search, service,
};
use crate::style::{Look, Stream, paint};

/// Result of a probe.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    found: String,
    fix: Option<Cow<'static, str>>,
}

/// Enforcement features of this host.
#[derive(Debug, Serialize)]
pub(super) struct DoctorReport {
    tier: Tier,
    kernel: String,
    checks: Vec<Check>,
}

/// Name of the check of settings, which decides about the exit code.
const SETTINGS: &str = "settings";

/// Probes and prints. Exits 0 in the full tier, 1 in a weaker one, 2 if runs are refused for a settings file, 125 if no tier is
/// available.
pub(crate) fn doctor(args: &JsonArgs) -> ExitCode {
    let report = examine();
    if args.json {
        present::json(&report);
    } else {
        present::text(&render(&report));
    }
    let is_refused = report.checks.iter().any(|check| check.name == SETTINGS && !check.ok);
    ExitCode::from(match report.tier {
        Tier::None => 125,
        _ if is_refused => 2,
        Tier::Namespaces => 0,
        Tier::Landlock => 1,
    })
}

/// Runs every probe. Forks, so the process must not have threads yet.
pub(super) fn examine() -> DoctorReport {
    let filter = probe::filter();
    let namespaces = probe::namespaces();
    let abi = probe::landlock_abi();
    let tier = match () {
        () if !filter => Tier::None,
        () if namespaces.is_ok() => Tier::Namespaces,
        () if abi > 0 => Tier::Landlock,
        () => Tier::None,
    };
    let checks = vec![
        check(
            "user namespaces",
            namespaces.map(|()| "all seven kinds, id map written, mounts made private".to_owned()),
            namespace_fix(),
        ),
        check(
            "procfs in namespaces",
            probe::proc_mount().map(|()| "mounted".to_owned()),
            "this host masks parts of /proc; pass `--proc none`",
        ),
        check(
            "landlock",
            if abi > 0 { Ok(format!("ABI {abi}")) } else { Err("not in this kernel") },
            "boot with `lsm=landlock,…` on a kernel of 5.13 or newer",
        ),
        check(
            "seccomp filters",
            if filter { Ok("available") } else { Err("not in this kernel") }.map(str::to_owned),
            "use a kernel with CONFIG_SECCOMP_FILTER",
        ),
        check(
            "observed denials",
            probe::listener().map(|()| "a listener can be had".to_owned()),
            "under an outer fence or supervisor only one listener is possible; refusals still hold, unreported",
        ),
        check(
            "network capture",
            probe::network_capture()
                .map(|()| "every address of a namespace made local, port 53 bound".to_owned()),
            "without it only programs that use the proxy variables reach what `--net allow:…` grants, `--ssh-agent` and `--publish` are refused, and a refused lookup does not name its host",
        ),
        check(
            "cgroup limits",
            probe::cgroup()
                .map(|kind| format!("{kind}: a leaf with memory and pids limits was made")),
            "run in a delegated cgroup (`systemd-run --user --scope -p Delegate=yes`) or as root; rlimits and a watchdog stand in",
        ),
        {
            let (dumps, pattern) = probe::core_dumps();
            core_dumps(dumps, &pattern)
        },
    ];
    let mut checks = checks;
    checks.push(settings());
    checks.push(check(
        "python",
        python().map_err(|problem| match problem.cause {
            // The rest of a row is on its line.
            Some(cause) => format!("{}: {cause}", problem.message),
            None => problem.message,
        }),
        "install `python3`, or name one with `--python` that is outside the directories that runs may write",
    ));
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    DoctorReport { tier, kernel, checks }
}

/// Describes the interpreter of Python runs, and the location of its packages.
fn python() -> Result<String, Problem> {
    let around = Surroundings::real(false)?;
    // Faults of settings have a row of their own.
    let faults = Faults::noted_but_of(&[Key::Python]);
    let effective = effective_code_but_for(&PolicyFlags::default(), &around, &faults)?;
    let python = ringfence_engine::python_facts(&effective.policy, &effective.place)?;
    let place = python.prefix.display();
    if let Some(written) = &python.written_by_runs {
        let message =
            format!("{} in {place} runs single programs, and no sessions", python.version);
        let cause = format!("it lies in `{}`, which runs may write", written.display());
        return Err(Problem::refused(Code::PythonWrittenByRuns, message).cause(cause));
    }
    let packages: Vec<String> = python.packages.iter().map(|p| p.display().to_string()).collect();
    Ok(match packages.as_slice() {
        [] => format!("{} in {place}, without packages", python.version),
        packages => format!("{} in {place}, packages in {}", python.version, packages.join(", ")),
    })
}

/// Reads every setting as runs and services do.
fn settings() -> Check {
    let read = || {
        let (around, flags) = (Surroundings::real(false)?, PolicyFlags::default());
        effective(&flags, &around)?;
        effective_code(&flags, &around)?;
        rules(&flags, &around)?;
        search(&flags, &around)?;
        notify(&flags, &around)?;
        service(&ServiceFlags::default(), &flags, &around)?;
        Ok::<_, Problem>(around)
    };
    let problem = match read() {
        Ok(around) => {
            let files: Vec<String> =
                around.files().iter().map(|file| file.display().to_string()).collect();
            let found = match &files[..] {
                [] => "no file of settings".to_owned(),
                files => files.join(", "),
            };
            return Check { name: SETTINGS, ok: true, found, fix: None };
        }
        Err(problem) => problem,
    };
    // Of several lines the first says where, the last what.
    let cause = problem.cause.as_deref().unwrap_or_default();
    let lines: Vec<&str> = cause.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let cause = match lines[..] {
        [] => String::new(),
        [one] => format!(": {one}"),
        [first, .., last] => format!(": {first}: {last}"),
    };
    let hint = problem.hint.map(|hint| hint.to_string());
    let fix =
        hint.unwrap_or_else(|| "correct it; `ringfence policy check FILE` checks it".to_owned());
    let found = format!("{}{cause}", problem.message);
    Check { name: SETTINGS, ok: false, found, fix: Some(fix.into()) }
}

/// Checks that the core dump of a crashed run does not leave the run.
fn core_dumps(dumps: CoreDumps, pattern: &str) -> Check {
    let found = match dumps.handler {
        CoreHandler::File => "none written: a run's limit is 1 byte".to_owned(),
        CoreHandler::Program => format!("`{pattern}` is not started: a run's limit is 1"),
        CoreHandler::Socket => String::new(),
    };
    let fix = match dumps.handler {
        CoreHandler::Socket => {
            "`sysctl kernel.core_pattern=core`, or a handler that is started by a pipe (`|/path %P`)"
        }
        _ => {
            "raise the hard limit to 1 or more where the session starts (limits.conf, `LimitCORE=`)"
        }
    };
    check("core dumps", dumps.gap().map_or(Ok(found), Err), fix)
}

fn namespace_fix() -> &'static str {
    let read = |path: &str| ringfence_sys::read_kernel_file(path).unwrap_or_default();
    match () {
        () if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() == "1" => {
            "AppArmor restricts user namespaces: add a profile for ringfence with `userns,`, or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        }
        () if read("/proc/sys/user/max_user_namespaces").trim() == "0" => {
            "`sysctl user.max_user_namespaces=15000`"
        }
        () if read("/proc/sys/kernel/unprivileged_userns_clone").trim() == "0" => {
            "`sysctl kernel.unprivileged_userns_clone=1`"
        }
        () => {
            "a container profile or service unit forbids them; `docker run --security-opt seccomp=unconfined` or `RestrictNamespaces=no` allows them"
        }
    }
}

fn check<E: std::fmt::Display>(
    name: &'static str,
    result: Result<String, E>,
    fix: &'static str,
) -> Check {
    match result {
        Ok(found) => Check { name, ok: true, found, fix: None },
        Err(error) => Check { name, ok: false, found: error.to_string(), fix: Some(fix.into()) },
    }
}

fn render(report: &DoctorReport) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "tier    {}", report.tier);
    let _ = writeln!(out, "kernel  {}\n", report.kernel);
    for check in &report.checks {
        let (mark, look) = if check.ok { ("yes", Look::Good) } else { ("no ", Look::Bad) };
        let mark = paint(Stream::Stdout, look, mark);
        let _ = writeln!(out, "{mark}  {:<22} {}", check.name, check.found);
        if let Some(fix) = &check.fix {
            let _ = writeln!(out, "     {:<22} fix: {fix}", "");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_handler_is_named_and_so_is_what_keeps_it_away() {
        for (pattern, hard, ok, found, fix) in [
            ("core", None, true, "none written", None),
            ("|/usr/share/apport/apport %p", None, true, "apport %p` is not started", None),
            ("|/x", Some(0), false, "hard limit on core dumps is 0", Some("LimitCORE=")),
            ("@/run/x.socket", None, false, "begins with `@`", Some("kernel.core_pattern=core")),
        ] {
            let check = core_dumps(CoreDumps::new(pattern, hard), pattern);
            assert_eq!(check.ok, ok, "{pattern}");
            assert!(check.found.contains(found), "{}", check.found);
            assert_eq!(check.fix.is_some(), fix.is_some());
            assert!(check.fix.as_deref().unwrap_or_default().contains(fix.unwrap_or_default()));
        }
    }
}
