//! Code for another process: moves its memory onto pages that lie side by side, between two of its own instructions.

/// Position-independent machine code, to be called as `long pack(const uint64_t (*rows)[4], long n, long mem)` in a process with
/// one thread, `mem` being its `/proc/self/mem`. A row is a range's address and length, the address of as many writable bytes
/// elsewhere, and the range's protection; all of whole pages.
///
/// First everything is copied, then the copies are given their protection, then each is moved over what it was copied from.
/// Nothing else runs meanwhile, so nothing that is written to the ranges is lost; neither the code, the rows, the stack nor the
/// copies may be in one. Returns the number of rows moved, or something negative when nothing was: a range is not there any more,
/// or a protection is refused. Empty on processors it is not written for.
pub fn pack_code() -> &'static [u8] {
    code()
}

// rbx the rows, r12 their number, r13 the row's number, r14 the row, r15 the memory as a file.
machine_code! {
    code from ringfence_pack_start to ringfence_pack_end:
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rbx, rdi",
    "mov r12, rsi",
    "mov r15, rdx",
    // Copy: pread64(mem, copy, length, address), which does not crash where nothing is.
    "xor r13d, r13d",
    "mov r14, rbx",
    "2:",
    "cmp r13, r12",
    "jae 3f",
    "mov rdi, r15",
    "mov rsi, [r14 + 16]",
    "mov rdx, [r14 + 8]",
    "mov r10, [r14]",
    "mov eax, 17",
    "syscall",
    "cmp rax, [r14 + 8]",
    "jne 10f",
    "add r14, 32",
    "inc r13",
    "jmp 2b",
    // Protect: mprotect(copy, length, protection), where it is not read and write.
    "3:",
    "xor r13d, r13d",
    "mov r14, rbx",
    "4:",
    "cmp r13, r12",
    "jae 6f",
    "mov rdx, [r14 + 24]",
    "cmp rdx, 3",
    "je 5f",
    "mov rdi, [r14 + 16]",
    "mov rsi, [r14 + 8]",
    "mov eax, 10",
    "syscall",
    "test rax, rax",
    "js 10f",
    "5:",
    "add r14, 32",
    "inc r13",
    "jmp 4b",
    // Move: mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, address).
    "6:",
    "xor r13d, r13d",
    "mov r14, rbx",
    "7:",
    "cmp r13, r12",
    "jae 8f",
    "mov rdi, [r14 + 16]",
    "mov rsi, [r14 + 8]",
    "mov rdx, rsi",
    "mov r10d, 3",
    "mov r8, [r14]",
    "mov eax, 25",
    "syscall",
    "test rax, rax",
    "js 8f",
    "add r14, 32",
    "inc r13",
    "jmp 7b",
    "8:",
    "mov rax, r13",
    "jmp 9f",
    "10:",
    "mov rax, -1",
    "9:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "ret",
}
