//! Numbers and names of system calls, per architecture.

mod aarch64;
mod x86_64;

use super::Arch;

/// The system calls Ringfence knows on `arch`, sorted by number. Any other number is answered with
/// `ENOSYS`.
pub(super) const fn calls(arch: Arch) -> &'static [(u32, &'static str)] {
    match arch {
        Arch::X86_64 => x86_64::CALLS,
        Arch::Aarch64 => aarch64::CALLS,
    }
}

/// The name of system call `nr`, if Ringfence knows it.
pub fn name(arch: Arch, nr: i32) -> Option<&'static str> {
    let nr = u32::try_from(nr).ok()?;
    let calls = calls(arch);
    let at = calls.binary_search_by_key(&nr, |&(nr, _)| nr).ok()?;
    Some(calls[at].1)
}

/// The number of the system call called `name`.
pub fn number(arch: Arch, name: &str) -> Option<i32> {
    let &(nr, _) = calls(arch).iter().find(|(_, n)| *n == name)?;
    i32::try_from(nr).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn tables_are_sorted_and_names_are_unique() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let calls = calls(arch);
            assert!(calls.is_sorted_by(|a, b| a.0 < b.0), "{arch:?}");
            let names: BTreeSet<_> = calls.iter().map(|(_, name)| name).collect();
            assert_eq!(names.len(), calls.len(), "{arch:?}");
        }
    }

    #[test]
    fn names_and_numbers_are_each_others_inverse() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for nr in -1..1024 {
                if let Some(name) = name(arch, nr) {
                    assert_eq!(number(arch, name), Some(nr));
                }
            }
        }
        assert_eq!(name(Arch::X86_64, -1), None);
        assert_eq!(number(Arch::X86_64, "no_such_call"), None);
    }
}
