//! Links the program so that it starts quickly: its start is part of every run.

#![allow(clippy::disallowed_methods)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the standard library asks for by name. `libc.a` holds most of it since glibc 2.34.
const ASKED_FOR: [&str; 7] = ["c", "m", "gcc_s", "dl", "rt", "util", "pthread"];

/// What stands in for all of it.
const ARCHIVES: [&str; 4] = ["libm.a", "libc.a", "libgcc.a", "libgcc_eh.a"];

/// Names the file with the functions that a run calls, in their order.
const ORDER: &str = "RINGFENCE_LINK_ORDER";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RINGFENCE_LINK");
    println!("cargo::rerun-if-env-changed=CC");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    // The directory of the profile: `dist` for figures.
    let out = PathBuf::from(var("OUT_DIR"));
    let profile = out.ancestors().nth(3).and_then(Path::file_name).unwrap_or_default();
    println!("cargo::rustc-env=BUILD_PROFILE={}", profile.to_string_lossy());
    let is_static = var("CARGO_CFG_TARGET_FEATURE").split(',').any(|f| f == "crt-static");
    if var("CARGO_CFG_TARGET_OS") != "linux" || var("CARGO_CFG_TARGET_ENV") != "gnu" || is_static {
        return;
    }
    // A position-independent program of this size is relocated in thousands of places before its first instruction,
    // and each page so written is copied. Heap, stack and mappings stay at random places (`SECURITY.md`).
    // `RINGFENCE_LINK=pie` builds one for comparison.
    let position_independent = var("RINGFENCE_LINK") == "pie";
    println!(
        "cargo::rustc-link-arg-bins=-{}",
        if position_independent { "static-pie" } else { "no-pie" }
    );
    // A shared `libgcc_s` would be a library to find, map and relocate.
    println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    // So are `libc` and `libm`, and with them the loader that finds them: a tenth of a run of `true`.
    let wanted = var("RINGFENCE_LINK") != "shared" && var("HOST") == var("TARGET");
    if wanted && let Some(dir) = stand_ins(Path::new(&var("OUT_DIR"))) {
        println!("cargo::rustc-link-arg-bins=-L{}", dir.display());
        println!("cargo::rustc-link-arg-bins=-Wl,--no-dynamic-linker");
    }
    // A run calls one of fifteen megabytes of code, scattered: each stretch of it is a page fault, in two processes.
    // `cargo xtask dist` makes the list.
    println!("cargo::rerun-if-env-changed={ORDER}");
    let order = [
        format!("-Wl,--symbol-ordering-file={}", var(ORDER)),
        "-Wl,--no-warn-symbol-ordering".to_owned(),
    ];
    if !var(ORDER).is_empty() && links_with(&order) {
        for arg in order {
            println!("cargo::rustc-link-arg-bins={arg}");
        }
    }
}

/// Whether this build's linker takes these arguments. LLVM's does, which is the compiler's own on x86-64.
fn links_with(args: &[String]) -> bool {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let mut compiler = Command::new(var("RUSTC"));
    compiler.args(["-", "--crate-name=linked", "--crate-type=bin", "--target", &var("TARGET")]);
    compiler.args(["--out-dir", &var("OUT_DIR")]);
    compiler.args(var("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').filter(|flag| !flag.is_empty()));
    if !var("RUSTC_LINKER").is_empty() {
        compiler.arg(format!("-Clinker={}", var("RUSTC_LINKER")));
    }
    compiler.args(args.iter().map(|arg| format!("-Clink-arg={arg}")));
    compiler.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let compiled = compiler.spawn().and_then(|mut child| {
        child.stdin.take().map_or(Ok(()), |mut source| source.write_all(b"fn main() {}"))?;
        child.wait()
    });
    compiled.is_ok_and(|status| status.success())
}

/// A directory in which every shared library that is asked for turns out to be the static ones.
///
/// The compiler's own way, `-C target-feature=+crt-static`, is for all crates of a build or none, and procedural macros
/// cannot be built with it. `None` where the static libraries are not installed: then the shared ones do.
fn stand_ins(out: &Path) -> Option<PathBuf> {
    let archives = ARCHIVES.iter().map(|name| find(name)).collect::<Option<Vec<_>>>()?;
    let script = format!("GROUP({})\n", archives.join(" "));
    let dir = out.join("static");
    std::fs::create_dir_all(&dir).ok()?;
    for name in ASKED_FOR {
        std::fs::write(dir.join(format!("lib{name}.so")), &script).ok()?;
    }
    Some(dir)
}

/// Where the C compiler finds a library.
fn find(name: &str) -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let answer = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
    // A library it does not find is answered by its bare name.
    (Path::new(&path).is_absolute() && !path.contains([' ', '(', ')'])).then_some(path)
}
