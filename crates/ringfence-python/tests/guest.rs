//! The guest's own functions, in an interpreter without a fence.

use std::process::Command;

use ringfence_plan::seccomp::{Arch, number};

#[test]
fn the_last_expression_is_the_same_found_by_lines_and_by_tree() {
    let program =
        concat!(include_str!("../src/guest/program.py"), include_str!("../src/guest/seldom.py"));
    let output = Command::new("python3")
        .args(["-I", "-W", "ignore", "-c", include_str!("parted.py"), program])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let n_parted = String::from_utf8_lossy(&output.stdout).trim().parse::<usize>();
    // Else nothing was compared.
    assert!(n_parted.is_ok_and(|n| n >= 30), "{output:?}");
}

#[test]
fn the_kernel_fills_the_state_of_random_and_the_next_numbers_come_from_it() {
    let guest = concat!(
        include_str!("../src/guest/pack.py"),
        include_str!("../src/guest/calls.py"),
        include_str!("../src/guest/seeds.py"),
    );
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    let getrandom = number(arch, "getrandom").unwrap();
    let script = format!(
        "import ctypes, os, random, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n{guest}
random.gauss(0, 1)
calls = Calls(run_rows, dict(getrandom={getrandom}))
seeds = Seeds(calls)
calls.lay_out()
before = random.getstate()
seen = set()
for _ in range(3):
    calls.make()
    seeds.draw()
    state = random.getstate()
    seen.add((random.random(), random.gauss(0, 1), random.getrandbits(64)))
    random.setstate(state)
    assert state[1][:624] != before[1][:624] and state[2] is None, state
    # Every word of it is new, and the numbers are those that such a state gives.
    again = random.Random()
    again.setstate(state)
    assert again.random() == random.random()
print(len(seen), len(seeds.others))"
    );
    let output = Command::new("python3").args(["-I", "-c", &script]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "3 0", "{stderr}");
}
