//! Code for another process: makes a list of system calls in one go.

/// Position-independent machine code, to be called as `long calls(const uint64_t (*rows)[8], long n, long *next, const long *results)`.
///
/// A row's first word says what it is. 0 and 1 are calls: then come the number and six arguments, and what the kernel answers is
/// written to `next`, which moves on; after an answer below zero a 0 is the end and a 1 is not. 2 and 3 store: the second word says
/// which of `results`, the third where, 2 its lower four bytes and 3 all eight. Returns how many rows are left, the one that
/// failed among them: nothing when all went well. Empty on processors it is not written for.
pub fn calls_code() -> &'static [u8] {
    code()
}

// rbx the row, r12 how many are left, r13 where the next answer goes, r14 the results.
machine_code! {
    code from ringfence_calls_start to ringfence_calls_end:
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "mov rbx, rdi",
    "mov r12, rsi",
    "mov r13, rdx",
    "mov r14, rcx",
    "2:",
    "test r12, r12",
    "jz 6f",
    "cmp qword ptr [rbx], 2",
    "jae 4f",
    "mov rax, [rbx + 8]",
    "mov rdi, [rbx + 16]",
    "mov rsi, [rbx + 24]",
    "mov rdx, [rbx + 32]",
    "mov r10, [rbx + 40]",
    "mov r8, [rbx + 48]",
    "mov r9, [rbx + 56]",
    "syscall",
    "mov [r13], rax",
    "add r13, 8",
    "test rax, rax",
    "jns 3f",
    "cmp qword ptr [rbx], 1",
    "jne 6f",
    "3:",
    "add rbx, 64",
    "dec r12",
    "jmp 2b",
    "4:",
    "mov rax, [rbx + 8]",
    "mov rax, [r14 + rax * 8]",
    "mov rcx, [rbx + 16]",
    "cmp qword ptr [rbx], 3",
    "je 5f",
    "mov [rcx], eax",
    "jmp 3b",
    "5:",
    "mov [rcx], rax",
    "jmp 3b",
    "6:",
    "mov rax, r12",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "ret",
}
