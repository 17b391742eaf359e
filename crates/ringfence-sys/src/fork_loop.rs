//! Code that takes requests for workers and forks them.

/// Machine code of a function of C, to be copied to wherever it is to run and called as `long f(block)`: receives requests and
/// forks until there is something for its caller to do. It writes to its block, its stack and what `fork` writes to, and to
/// nothing else: every page that a process writes to after a fork is copied first.
///
/// The block, by offset: 0 a `msghdr` whose buffers are below, 72 the address of the C library's `fork`, 80 where four
/// descriptors are left for the child, 88 a descriptor of the pid namespace, 112 the channel, 128 control messages, 272 the answer,
/// 320 the frame.
///
/// A request is `S`, a flag, two bytes, and then the pids of children to reap, with four descriptors for each child. Each child
/// is forked into a new pid namespace, and the answer `P`, three bytes, and a pid for each child that was forked is sent;
/// the descriptors are closed.
///
/// Returns 0 in a child; the length of a frame that is no such request, or that names a child which is not dead yet; a
/// negated errno; -5000 at the end of the channel. Empty on processors it is not written for.
pub fn fork_loop_code() -> &'static [u8] {
    code()
}

// rbx the block, r12 the next descriptor or the next pid to reap, r13 the end of the pids or the descriptor to close, r14 the number
// of descriptors. Four registers and the return address: eight bytes more align the stack for `fork`.
machine_code! {
    code from ringfence_fork_loop_start to ringfence_fork_loop_end:
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "sub rsp, 8",
    "mov rbx, rdi",
    // recvmsg(channel, msghdr, 0), with room for 32 descriptors.
    "2:",
    "mov qword ptr [rbx + 40], 144",
    "mov qword ptr [rbx + 128], 0",
    "mov edi, [rbx + 112]",
    "mov rsi, rbx",
    "xor edx, edx",
    "mov eax, 47",
    "syscall",
    "cmp rax, -4",
    "je 2b",
    "test rax, rax",
    "js 12f",
    "jz 11f",
    "cmp byte ptr [rbx + 320], 0x53",
    "jne 12f",
    // Descriptors: what is in the one control message after its head, if it is SCM_RIGHTS at the level of sockets.
    "mov r14, [rbx + 128]",
    "sub r14, 16",
    "jle 12f",
    "cmp dword ptr [rbx + 136], 1",
    "jne 12f",
    "cmp dword ptr [rbx + 140], 1",
    "jne 12f",
    "shr r14, 2",
    "jz 12f",
    "test r14, 3",
    "jnz 12f",
    // wait4(pid, 0, WNOHANG, 0) for each pid in the frame.
    "lea r12, [rbx + 324]",
    "lea r13, [rbx + rax + 320]",
    "mov [rbx + 104], rax",
    "3:",
    "lea rax, [r12 + 4]",
    "cmp rax, r13",
    "ja 4f",
    "movsxd rdi, dword ptr [r12]",
    "xor esi, esi",
    "mov edx, 1",
    "xor r10d, r10d",
    "mov eax, 61",
    "syscall",
    "add r12, 4",
    "test rax, rax",
    "jnz 3b",
    "mov rax, [rbx + 104]",
    "jmp 12f",
    // For each four descriptors: unshare(CLONE_NEWPID), fork(), setns(own, CLONE_NEWPID).
    "4:",
    "xor r12d, r12d",
    "5:",
    "cmp r12, r14",
    "jae 8f",
    "mov rcx, [rbx + 80]",
    "movsxd rax, dword ptr [rbx + r12 * 4 + 144]",
    "mov [rcx], rax",
    "movsxd rax, dword ptr [rbx + r12 * 4 + 148]",
    "mov [rcx + 8], rax",
    "movsxd rax, dword ptr [rbx + r12 * 4 + 152]",
    "mov [rcx + 16], rax",
    "movsxd rax, dword ptr [rbx + r12 * 4 + 156]",
    "mov [rcx + 24], rax",
    "mov edi, 0x20000000",
    "mov eax, 272",
    "syscall",
    "test rax, rax",
    "js 8f",
    "call qword ptr [rbx + 72]",
    "movsxd r13, eax",
    "test r13, r13",
    "jz 10f",
    "mov rdi, [rbx + 88]",
    "mov esi, 0x20000000",
    "mov eax, 308",
    "syscall",
    "test r13, r13",
    "js 8f",
    "mov [rbx + r12 + 276], r13d",
    "add r12, 4",
    "jmp 5b",
    // close(each), then write(channel, answer, its length).
    "8:",
    "xor r13d, r13d",
    "9:",
    "movsxd rdi, dword ptr [rbx + r13 * 4 + 144]",
    "mov eax, 3",
    "syscall",
    "inc r13",
    "cmp r13, r14",
    "jb 9b",
    "mov edi, [rbx + 112]",
    "lea rsi, [rbx + 272]",
    "lea rdx, [r12 + 4]",
    "mov eax, 1",
    "syscall",
    "jmp 2b",
    "10:",
    "xor eax, eax",
    "jmp 12f",
    "11:",
    "mov rax, -5000",
    "12:",
    "add rsp, 8",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "ret",
}
