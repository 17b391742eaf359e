//! Tests with processes that hide their mappings.

use ringfence_testing::as_ordinary_user;

use super::*;
use crate::fake_peer::{FakeProcess, wait_for_file};

#[test]
fn a_process_that_hides_its_mappings_counts_with_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    let code = format!(
        "import ctypes, mmap, time; m = mmap.mmap(-1, 64 << 30, flags=0x4021); ctypes.CDLL(None).prctl(4, 0); open(\"{}\", \"w\").close(); time.sleep(987)",
        ready.display()
    );
    let process = FakeProcess::of(&format!("exec python3 -I -c '{code}'"));
    wait_for_file(&ready);
    let members = [Member::of(process.pid).unwrap().unwrap()];
    let (maps, bytes) = as_ordinary_user(|| (members[0].text("maps"), shared_bytes(&members)));
    assert!(maps.is_err(), "its mappings can be read");
    // Less the mappings of Ringfence's own binary, twice: here the test's, with what its threads reserve. Of the 64 GiB none is
    // reserved (MAP_NORESERVE).
    assert!(bytes >= 32 << 30, "{bytes}");
    process.kill();
    process.wait_for_death();
    assert_eq!(shared_bytes(&members), 0);
}

#[test]
fn lines_of_the_kernel_that_are_none_are_no_numbers() {
    for (line, first) in [("", 0), ("1", 1), ("x 2", 0), ("-1", 0), ("18446744073709551616", 0)] {
        assert_eq!(numbers::<1>(line, first), None, "{line}");
    }
    assert_eq!(numbers::<2>("0 1 2 3", 1), Some([1, 2]));
    assert_eq!(in_kib("VmPTE:\t   12 kB\nVmSwap:\t x kB\n", "VmPTE:"), Some(12));
    for key in ["VmSwap:", "VmLck:"] {
        assert_eq!(in_kib("VmPTE:\t   12 kB\nVmSwap:\t x kB\n", key), None, "{key}");
    }
}
