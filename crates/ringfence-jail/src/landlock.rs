//! Applies Landlock rules: exactly the ABI that the plan names, with no substitute for features the kernel lacks.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use ringfence_plan::{LandlockPlan, LandlockReading, RuleAccess};
use ringfence_sys::{CallError, Named};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Restricts this thread permanently.
pub(crate) fn restrict(plan: &LandlockPlan) -> Result<(), CallError> {
    let abi = known_abi(plan.abi);
    let call = |what: &str, error: &dyn std::fmt::Display| {
        CallError::new(format!("landlock {what}: {error}"), Errno::INVAL)
    };
    let handled = match plan.reading {
        LandlockReading::Seen => AccessFs::from_all(abi),
        LandlockReading::Free => {
            AccessFs::from_all(abi) & !(AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Truncate)
        }
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .map_err(|e| call("handle_access", &e))?;
    if plan.deny_tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(|e| call("tcp", &e))?;
    }
    if plan.abi >= 6 {
        ruleset = ruleset.scope(Scope::from_all(abi)).map_err(|e| call("scope", &e))?;
    }
    // Best effort only for rules: rights that a file cannot have are left out of its rule.
    let created = ruleset.create().map_err(|e| call("create_ruleset", &e))?;
    let mut created = created.set_compatibility(CompatLevel::BestEffort);
    for rule in &plan.rules {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd: OwnedFd = match rustix::fs::open(&rule.path, flags, Mode::empty()) {
            // A directory the plan makes only if the host has it; no rule means no access.
            Err(Errno::NOENT) if rule.id.is_none() => continue,
            other => other.named(|| format!("open({:?}) for landlock", rule.path))?,
        };
        if let Some(id) = rule.id
            && crate::open::file_id(&fd)? != id
        {
            return Err(CallError::new(
                format!("open({:?}): another file than was surveyed", rule.path),
                Errno::STALE,
            ));
        }
        let access = rights(rule.access, abi) & handled;
        created = created
            .add_rule(PathBeneath::new(fd, access))
            .map_err(|e| call(&format!("add_rule {:?}", rule.path), &e))?;
    }
    let created = created.set_compatibility(CompatLevel::HardRequirement);
    let status = created.restrict_self().map_err(|e| call("restrict_self", &e))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(call("restrict_self", &"not enforced")),
        _ => Ok(()),
    }
}

/// The newest ABI that both the plan and the crate know.
fn known_abi(abi: u32) -> ABI {
    match abi {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    }
}

fn rights(access: RuleAccess, abi: ABI) -> BitFlags<AccessFs> {
    let read = AccessFs::from_read(abi);
    match access {
        RuleAccess::Read => read,
        RuleAccess::Write => AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        RuleAccess::Device => {
            let ioctl = AccessFs::from_all(abi) & AccessFs::IoctlDev;
            let truncate = AccessFs::from_all(abi) & AccessFs::Truncate;
            read | AccessFs::WriteFile | ioctl | truncate
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfence_plan::LandlockRule;

    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_granted_directory_is_refused() {
        if ringfence_sys::landlock_abi() == 0 {
            return ringfence_testing::missing("landlock", "this kernel has no Landlock");
        }
        let dir = tempfile::tempdir().unwrap();
        let (made, other) = (dir.path().join("made"), dir.path().join("other"));
        std::fs::create_dir(&made).unwrap();
        std::fs::create_dir(&other).unwrap();
        let id = crate::open::file_id(std::fs::File::open(&made).unwrap()).unwrap();
        std::fs::rename(&made, dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&other, &made).unwrap();
        let plan = LandlockPlan {
            abi: ringfence_sys::landlock_abi(),
            reading: LandlockReading::Seen,
            deny_tcp: false,
            rules: vec![LandlockRule { path: made, access: RuleAccess::Write, id: Some(id) }],
        };
        assert_eq!(restrict(&plan).unwrap_err().errno, Errno::STALE);
    }

    #[test]
    fn a_rule_for_a_file_leaves_out_what_only_directories_have() {
        if ringfence_sys::landlock_abi() == 0 {
            return ringfence_testing::missing("landlock", "this kernel has no Landlock");
        }
        let dir = tempfile::tempdir().unwrap();
        let (named, other) = (dir.path().join("named"), dir.path().join("other"));
        for file in [&named, &other] {
            std::fs::write(file, "text").unwrap();
        }
        let plan = LandlockPlan {
            abi: ringfence_sys::landlock_abi(),
            reading: LandlockReading::Seen,
            deny_tcp: false,
            rules: vec![LandlockRule { path: named.clone(), access: RuleAccess::Read, id: None }],
        };
        // It restricts the thread.
        let read = std::thread::spawn(move || {
            restrict(&plan).unwrap();
            [named, other].map(|file| std::fs::read(file).map_err(|e| e.kind()))
        });
        let [named, other] = read.join().unwrap();
        assert_eq!(named, Ok(b"text".to_vec()));
        assert_eq!(other, Err(std::io::ErrorKind::PermissionDenied));
    }
}
