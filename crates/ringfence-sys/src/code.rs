//! Machine code for a process in which none of ours runs: assembled with us, sent as bytes.

/// A function `$name` that returns the bytes of these instructions, which must not depend on where they are. Empty on processors
/// they are not written for.
macro_rules! machine_code {
    ($name:ident from $start:ident to $end:ident: $($line:literal,)+) => {
        #[cfg(target_arch = "x86_64")]
        std::arch::global_asm!(
            concat!(".pushsection .rodata.", stringify!($start), ", \"a\""),
            // Seen from wherever the optimizer puts the code that reads it.
            concat!(".globl ", stringify!($start)),
            concat!(".hidden ", stringify!($start)),
            concat!(".globl ", stringify!($end)),
            concat!(".hidden ", stringify!($end)),
            concat!(stringify!($start), ":"),
            $($line,)+
            concat!(stringify!($end), ":"),
            ".popsection",
        );

        #[cfg(target_arch = "x86_64")]
        fn $name() -> &'static [u8] {
            unsafe extern "C" {
                static $start: u8;
                static $end: u8;
            }
            let (start, end) = (&raw const $start, &raw const $end);
            // SAFETY: both labels are in one section of constants, the second after the first, and nothing writes there.
            unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) }
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn $name() -> &'static [u8] {
            &[]
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_code_is_whole() {
        for code in [crate::pack_code(), crate::calls_code(), crate::fork_loop_code()] {
            if cfg!(target_arch = "x86_64") {
                assert_eq!(code.first(), Some(&0x53), "push rbx");
                assert_eq!(code.last(), Some(&0xc3), "ret");
            }
            // Each is copied to a page of its own.
            assert!(code.len() < 512, "{}", code.len());
        }
    }
}
