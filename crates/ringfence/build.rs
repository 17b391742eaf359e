//! How the program is linked, for its start is part of every run.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(name).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        // A shared `libgcc_s` would be a library to find, map and relocate.
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
        // A position-independent program of this size is relocated in thousands of places before its first
        // instruction, and each page so written is copied. Libraries, heap, stack and mappings stay at random places
        // (`SECURITY.md`).
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
