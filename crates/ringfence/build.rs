//! Links the unwinder in: a shared `libgcc_s` costs every start of the program a library to find, map and relocate.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(name).unwrap_or_default();
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}
