//! Error codes and denial rules: stable names that programs may compare. `docs/reference/errors.md` is generated from
//! these lists.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares an enum of stable names, each with its meaning.
macro_rules! names {
    ($(#[$doc:meta])* $enum:ident; $($variant:ident, $name:literal, $meaning:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $enum {
            $(#[doc = $meaning] $variant,)*
            /// A name of another version of Ringfence.
            Other,
        }

        impl $enum {
            /// All of them, in alphabetical order of their names.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the stable name, in `snake_case`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other => "other",
                }
            }

            /// Returns the meaning, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                    Self::Other => "A name of another version of Ringfence.",
                }
            }

            /// Finds one by its name; `Other` for a name that this version does not have.
            pub fn find(name: &str) -> Self {
                Self::ALL
                    .binary_search_by(|known| known.as_str().cmp(name))
                    .map_or(Self::Other, |at| Self::ALL[at])
            }
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $enum {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $enum {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|name| Self::find(&name))
            }
        }
    };
}

#[rustfmt::skip]
names! {
    /// Error code of a [`crate::Problem`] or of an outcome's error.
    Code;
    AnchorFailed, "anchor_failed", "The anchor could not be written or sent.";
    AnchorInvalid, "anchor_invalid", "A line given as an anchor is not a signed anchor.";
    Architecture, "architecture", "Ringfence has no system call table for this processor architecture.";
    ArchiveUnreadable, "archive_unreadable", "An archive of the ledger cannot be read.";
    ArgsTooLong, "args_too_long", "The arguments of the program are longer than the limit.";
    ArtifactsIncomplete, "artifacts_incomplete", "Not all files of the run could be copied out.";
    AuditOff, "audit_off", "The command needs the ledger, and the operator turned it off.";
    Authority, "authority", "`public_url` and `authorization_server` must be set together.";
    BadArguments, "bad_arguments", "The arguments of a tool call do not fit its schema.";
    BadBody, "bad_body", "The request body is not what the route takes.";
    BadCell, "bad_cell", "A line of `repl --json` is not a JSON string.";
    BadFileName, "bad_file_name", "The name of a file for the run is not valid.";
    BadFilter, "bad_filter", "The filter of a ledger query is not valid.";
    BadFormat, "bad_format", "The export format is not known.";
    BadHost, "bad_host", "A host name or address in the settings is not valid, or a request does not name one host.";
    BadItem, "bad_item", "An item of the batch is not valid.";
    BadMoment, "bad_moment", "A point in time cannot be parsed.";
    BadScope, "bad_scope", "The scope of a token is not known.";
    BadValue, "bad_value", "The value of a setting or flag is not valid.";
    Bench, "bench", "A benchmark could not be run.";
    BodySlow, "body_slow", "The request body did not arrive in time.";
    BodyTooLarge, "body_too_large", "The request body is larger than the limit.";
    Busy, "busy", "The file or directory is in use.";
    Calls, "calls", "A system call of the worker has no number on this architecture.";
    Cancel, "cancel", "A cancellation pipe could not be made.";
    Cancelled, "cancelled", "The caller cancelled the call.";
    CannotListen, "cannot_listen", "The service cannot listen on the address.";
    Ceiling, "ceiling", "A setting exceeds the operator's ceiling.";
    Cgroup, "cgroup", "The cgroup of the run could not be made or used.";
    CheckpointLost, "checkpoint_lost", "The checkpoint of a REPL cell could not be kept.";
    CircuitOpen, "circuit_open", "The client's calls failed too often; its circuit breaker is open.";
    CommandNotExecutable, "command_not_executable", "The program exists in the run's view and cannot be executed.";
    CommandNotFound, "command_not_found", "The program does not exist in the run's view.";
    ConfigChanged, "config_changed", "Another process changed the client's configuration file at the same time.";
    ConfigInvalid, "config_invalid", "The client's configuration file cannot be parsed.";
    ConfigOfAnother, "config_of_another", "The client's configuration file belongs to another user.";
    ConfigUnreadable, "config_unreadable", "The client's configuration file cannot be read.";
    ConfigUnwritable, "config_unwritable", "The client's configuration file cannot be written.";
    ContradictoryPaths, "contradictory_paths", "Two path settings contradict each other.";
    CpuLimit, "cpu_limit", "The run used up its CPU time.";
    Crash, "crash", "The interpreter was ended by a signal.";
    CursorInvalid, "cursor_invalid", "The cursor of a page is not valid.";
    Cwd, "cwd", "The process has no working directory, or one that a command needs cannot be made.";
    CwdMoved, "cwd_moved", "The working directory is no longer at its path.";
    CwdNotADirectory, "cwd_not_a_directory", "The working directory of the run is not a directory.";
    CwdNotVisible, "cwd_not_visible", "The working directory of the run is not in its view.";
    DataDir, "data_dir", "The data directory cannot be used.";
    DiskFull, "disk_full", "The filesystem is full.";
    DiskLimit, "disk_limit", "The run wrote more than its disk limit.";
    Draining, "draining", "The service is shutting down and takes no new requests.";
    EditMismatch, "edit_mismatch", "A text to replace is not in the file, or more than once.";
    EndedFromOutside, "ended_from_outside", "The run was ended by another process.";
    EnvNotInheritable, "env_not_inheritable", "A variable of the caller may not be passed to the run.";
    Exists, "exists", "The file or directory exists already.";
    ExportFailed, "export_failed", "The ledger could not be exported.";
    FileFailed, "file_failed", "A file operation failed.";
    FileSizeLimit, "file_size_limit", "The program wrote a file larger than the disk limit.";
    FilesWithSession, "files_with_session", "Files were given to a call in a session, which has files of its own.";
    FixturesMissing, "fixtures_missing", "The binary was built without conformance fixtures.";
    FixturesPrivate, "fixtures_private", "Conformance fixtures are served on loopback only.";
    FlagForCommands, "flag_for_commands", "The flag is for commands and has no meaning for Python.";
    FlagForPython, "flag_for_python", "The flag is for Python and has no meaning for commands.";
    GrantTooBroad, "grant_too_broad", "The grant covers more than a run may be given.";
    Guest, "guest", "The channel to a Python program failed.";
    HandshakeUnknown, "handshake_unknown", "The MCP session id of the request is not known.";
    HideNeedsNamespaces, "hide_needs_namespaces", "Hiding paths needs namespaces, which this host does not give.";
    Hook, "hook", "The hook could not do its work.";
    HookAnswer, "hook_answer", "The hook's answer could not be written; the command was not run.";
    HookInReach, "hook_in_reach", "The `ringfence` of the hook lies where runs can write.";
    HookInput, "hook_input", "The hook's input is not what the client promises.";
    HostRefused, "host_refused", "The `Host` header names no allowed host.";
    HostsNeeded, "hosts_needed", "A service on this address needs `allow_host`.";
    Index, "index", "The search index of a session cannot be used.";
    IndexBusy, "index_busy", "The search index of the session is being updated.";
    Internal, "internal", "Ringfence failed inside; the call had no effect that is not in the outcome.";
    InterpreterDied, "interpreter_died", "The interpreter ended without a report.";
    Interrupted, "interrupted", "A signal ended the call before the program began.";
    Keeper, "keeper", "The process that starts Python workers could not be started.";
    KeyNotAllowedHere, "key_not_allowed_here", "The settings key is not allowed in this file.";
    Launch, "launch", "The run could not be launched.";
    Launcher, "launcher", "The launcher could not be started or reached.";
    LauncherTooLate, "launcher_too_late", "The launcher must be forked before there are threads.";
    LedgerBody, "ledger_body", "A ledger row could not be serialized.";
    LedgerBusy, "ledger_busy", "Another process holds the ledger for too long.";
    LedgerCorrupt, "ledger_corrupt", "The ledger is damaged.";
    LedgerEmpty, "ledger_empty", "The ledger has no row where one is needed.";
    LedgerForeign, "ledger_foreign", "The ledger belongs to another user, or others may write to it.";
    LedgerFull, "ledger_full", "The filesystem of the ledger is full.";
    LedgerKey, "ledger_key", "The key for sealed ledger bodies is missing or wrong.";
    LedgerKeyInvalid, "ledger_key_invalid", "The given public key is not valid.";
    LedgerMissing, "ledger_missing", "There is no ledger in the data directory.";
    LedgerNewer, "ledger_newer", "The ledger was written by a newer version of Ringfence.";
    LedgerSeal, "ledger_seal", "A ledger body could not be sealed or opened.";
    LedgerSettings, "ledger_settings", "The ledger's own settings cannot be used.";
    LedgerUnwritable, "ledger_unwritable", "The ledger cannot be written.";
    LimitInvalid, "limit_invalid", "The page size is not valid.";
    LimitTooSmall, "limit_too_small", "A limit is too small for a program to start.";
    LinkOutOfWorkspace, "link_out_of_workspace", "A path goes through a link that leads out of a workspace that runs have written.";
    Log, "log", "The log could not be started.";
    MemoryLimit, "memory_limit", "The run used more memory than its limit.";
    MethodUnknown, "method_unknown", "The route does not take this HTTP method.";
    NameInvalid, "name_invalid", "The file name is not valid.";
    Namespaces, "namespaces", "The host refuses the namespaces that the fence needs.";
    NetworkAllowlistUnsupported, "network_allowlist_unsupported", "Connections cannot be captured on this host, or not for this kind of run.";
    NoCaller, "no_caller", "A request reached its handler without authentication.";
    NoCheckpoint, "no_checkpoint", "There is no checkpoint to roll back to.";
    NoCode, "no_code", "The call has no code.";
    NoCommand, "no_command", "The call has no command.";
    NoCwd, "no_cwd", "The working directory of the caller does not exist.";
    NoFallback, "no_fallback", "Python has no weaker tier to fall back to.";
    NoHome, "no_home", "The home directory of the caller is not known.";
    NoKey, "no_key", "A key could not be made.";
    NoPermission, "no_permission", "The operating system refuses access to the path.";
    NoRandomness, "no_randomness", "The kernel gave no random bytes.";
    NoVectors, "no_vectors", "No embedding model is configured.";
    NotADirectory, "not_a_directory", "The path is not a directory.";
    NotAFile, "not_a_file", "The path is not a regular file.";
    NotASocket, "not_a_socket", "The path is not a socket.";
    NotEmpty, "not_empty", "The directory is not empty.";
    NotFound, "not_found", "The path does not exist.";
    NotGiven, "not_given", "The run could not be given its files.";
    NotJson, "not_json", "The request is not JSON.";
    NotText, "not_text", "The file is not text.";
    OomKill, "oom_kill", "The kernel killed the run because memory ran out.";
    OriginRefused, "origin_refused", "The `Origin` header names no allowed origin.";
    OutputLost, "output_lost", "A part of the output could not be read.";
    Owners, "owners", "The filesystem cannot show the workspace under another owner.";
    PathForbidden, "path_forbidden", "The file rules refuse the path.";
    PathLink, "path_link", "The path goes through a link.";
    PathMount, "path_mount", "The path crosses a mount.";
    PathNotFound, "path_not_found", "A path in the settings does not exist.";
    PathNotGrantable, "path_not_grantable", "A path in the settings cannot be granted.";
    PathNotText, "path_not_text", "A path of the run is not UTF-8.";
    PathOutside, "path_outside", "The path leads out of the workspace.";
    PathShared, "path_shared", "The file has several names and another owner than the workspace.";
    PatternInvalid, "pattern_invalid", "The pattern is not valid.";
    PeriodInvalid, "period_invalid", "The period of a query is empty.";
    Pipes, "pipes", "The pipes of the run could not be made.";
    PolicyNotFound, "policy_not_found", "The policy file does not exist.";
    Poll, "poll", "The run could not be watched.";
    PortNotFree, "port_not_free", "A port to publish cannot be bound on the host.";
    PreconditionFailed, "precondition_failed", "The file is not in the state that the request expects (`If-Match`, `If-None-Match`).";
    ProcMount, "proc_mount", "The host refuses a new `/proc`.";
    ProtectedPath, "protected_path", "The path is one of git's files that the host executes or obeys, and cannot be granted.";
    Python, "python", "The Python interpreter could not be started.";
    PythonNotFound, "python_not_found", "No usable Python interpreter was found.";
    PythonWrittenByRuns, "python_written_by_runs", "The interpreter or its packages lie where runs can write.";
    QueueFull, "queue_full", "Too many calls wait already.";
    QuotaExceeded, "quota_exceeded", "The session's files exceed their quota, or its searches or index jobs of a day theirs.";
    QuotaUnknown, "quota_unknown", "The size of the session's files could not be determined.";
    Randomness, "randomness", "The kernel gave no random bytes for an id.";
    RangeInvalid, "range_invalid", "The requested range is not within the file.";
    RateLimited, "rate_limited", "The client exceeded its rate limit.";
    ReadOnly, "read_only", "The session's files are read-only.";
    Repl, "repl", "The interpreter of a REPL failed.";
    RootNeedsNamespaces, "root_needs_namespaces", "Root's runs need namespaces, which this host does not give.";
    RootOutside, "root_outside", "The caller is root of a user namespace and would run as the host's root.";
    RouteUnknown, "route_unknown", "There is no such route.";
    Rule, "rule", "A rule of the operator refuses the call.";
    RunAmbiguous, "run_ambiguous", "The beginning of a run id fits several runs.";
    RunIdInvalid, "run_id_invalid", "The run id is not valid.";
    RunUnknown, "run_unknown", "There is no such run.";
    Runtime, "runtime", "The asynchronous runtime could not be started.";
    ScopeMissing, "scope_missing", "The token lacks the scope that the route needs.";
    Screen, "screen", "Screening refused the program.";
    Seccomp, "seccomp", "The system call filter could not be built.";
    Secret, "secret", "A credential of `--secret` cannot be read or used.";
    SecretPath, "secret_path", "The path holds secrets and cannot be granted.";
    ServiceUnwell, "service_unwell", "Internal failures opened the service's circuit breaker.";
    SessionCopy, "session_copy", "The session's files could not be copied.";
    SessionKey, "session_key", "The key that signs session state cannot be used.";
    SessionLock, "session_lock", "The session could not be locked.";
    SessionNeedsNamespaces, "session_needs_namespaces", "Sessions need namespaces, which this host does not give.";
    SessionTampered, "session_tampered", "The state of the session does not verify.";
    SessionTooDeep, "session_too_deep", "The session's directories are nested deeper than can be copied.";
    SessionTooLarge, "session_too_large", "The session has more files than can be copied.";
    SessionUnknown, "session_unknown", "There is no such session for this client.";
    SessionUnremovable, "session_unremovable", "The session's files could not be removed.";
    SessionUnwritable, "session_unwritable", "The state of the session could not be written.";
    SessionWoke, "session_woke", "The session had been at rest; its variables are gone.";
    Sessions, "sessions", "The sessions could not be opened.";
    SettingsSyntax, "settings_syntax", "A settings file cannot be parsed.";
    SettingsUnreadable, "settings_unreadable", "A settings file cannot be read.";
    SetupTimeout, "setup_timeout", "The fence was not built in time.";
    ShuttingDown, "shutting_down", "The engine is shutting down.";
    Sigkill, "sigkill", "The run was killed from outside.";
    Signal, "signal", "The program was ended by a signal.";
    Signals, "signals", "Signal handling could not be set up.";
    SshAgent, "ssh_agent", "A grant of `--ssh-agent` cannot be used: no agent, no key, or an unknown host key.";
    Stdin, "stdin", "Standard input could not be read.";
    Stdio, "stdio", "The standard streams could not be connected.";
    StdioClosed, "stdio_closed", "A standard stream of the caller is closed.";
    StdioUnsafe, "stdio_unsafe", "A standard stream of the caller would give the run more than it is granted.";
    Stdout, "stdout", "The result could not be written to standard output.";
    StepFailed, "step_failed", "A step of building the fence failed.";
    Supervisor, "supervisor", "The run could not be supervised.";
    SupervisorDied, "supervisor_died", "The supervisor of the run ended without a report.";
    SyscallEntry, "syscall_entry", "The program used a system call entry that the fence refuses.";
    Terminal, "terminal", "The terminal could not be set up.";
    Threads, "threads", "A thread could not be started.";
    TierUnavailable, "tier_unavailable", "The required tier is not available on this host.";
    Tls, "tls", "TLS could not be set up.";
    TlsFiles, "tls_files", "The certificate or key cannot be used.";
    TokenExists, "token_exists", "A token of that name exists already.";
    TokenName, "token_name", "The name of a token is not valid.";
    TokenNeeded, "token_needed", "A service on this address needs a token.";
    TokenUnknown, "token_unknown", "The token is missing, revoked or not known.";
    Tokens, "tokens", "The token file could not be changed.";
    TokensUnusable, "tokens_unusable", "The token file cannot be used.";
    TooLarge, "too_large", "The file is larger than the limit.";
    TooManyHandshakes, "too_many_handshakes", "The client has too many MCP sessions.";
    TooManyRequests, "too_many_requests", "The client has too many requests in progress.";
    TooManyRuns, "too_many_runs", "The client has too many runs in progress.";
    TooManySessions, "too_many_sessions", "The owner has too many sessions.";
    TooManyStreams, "too_many_streams", "The client has too many event streams or uploads open.";
    TransportRefused, "transport_refused", "The request does not fit MCP over HTTP.";
    UnknownClient, "unknown_client", "The MCP client or server is not known to `init`, `wrap` or `hook`.";
    UnknownKey, "unknown_key", "The settings key is not known.";
    Unreadable, "unreadable", "The file cannot be read.";
    Unscreened, "unscreened", "The program was not screened.";
    WallDeadline, "wall_deadline", "The run was still going at its timeout.";
    Worker, "worker", "A Python worker failed.";
    Workspace, "workspace", "The workspace could not be inspected.";
    WorkspaceMissing, "workspace_missing", "The session's workspace is missing.";
    WorkspacePolicy, "workspace_policy", "The workspace's own settings file asks for what it may not.";
    WorkspaceTooBroad, "workspace_too_broad", "The workspace is too broad to be writable, such as `/` or a home directory.";
    WorkspaceTooLarge, "workspace_too_large", "The workspace holds more than can be inspected before a run.";
    Zygote, "zygote", "The process that forks Python workers failed.";
}

#[rustfmt::skip]
names! {
    /// Rule of a [`crate::Denial`].
    DenialRule;
    AttributeNotAllowed, "attribute_not_allowed", "Screening refuses a reflective attribute: `__class__`, `__globals__`, `gi_frame`.";
    Bpf, "bpf", "BPF programs and maps.";
    BuiltinNotAllowed, "builtin_not_allowed", "Screening refuses a builtin outside the 36.";
    CallNotAllowed, "call_not_allowed", "Screening refuses a call of a builtin that runs code, reads files or reflects.";
    ChildProcess, "child_process", "A child process of a Python run.";
    Clock, "clock", "Setting clocks.";
    Clone3, "clone3", "clone3(2), answered as by a kernel without it.";
    ComputedAttributeName, "computed_attribute_name", "Screening refuses getattr and its kin with a name that is not a literal.";
    CoreLimit, "core_limit", "Raising the limit of core dumps.";
    CpuLimit, "cpu_limit", "The limit of CPU time.";
    DescriptorMethod, "descriptor_method", "Screening refuses `__get__`, `__set__`, `__delete__`, `__set_name__`.";
    DeviceControl, "device_control", "Device control (ioctl) that is not allowed.";
    DeviceNodes, "device_nodes", "Making device nodes.";
    DiskAdmin, "disk_admin", "Administration of disks and filesystems.";
    DiskLimit, "disk_limit", "The disk limit.";
    DynamicClass, "dynamic_class", "Screening refuses a class made by a call: `type` with three arguments and its kin.";
    ExceptionObject, "exception_object", "Screening refuses `obj` of an `AttributeError`: the object that lacked the attribute, however hidden.";
    Exec, "exec", "Executing a program.";
    Fanotify, "fanotify", "Watching whole filesystems.";
    FileAttributes, "file_attributes", "Setting extended attributes of files.";
    FileEncryption, "file_encryption", "Keys of encrypted directories.";
    FileHandles, "file_handles", "Opening files by handle.";
    FileSizeLimit, "file_size_limit", "A file larger than the disk limit.";
    ForeignProcess, "foreign_process", "Control of a process outside the run.";
    FormatNotAllowed, "format_not_allowed", "Screening refuses a format string that names a private attribute, or one that is computed.";
    Hardware, "hardware", "Direct access to hardware.";
    HostName, "host_name", "Setting the host name.";
    HugePages, "huge_pages", "Reserved huge pages.";
    ImportNotAllowed, "import_not_allowed", "Screening refuses an import that is not on the preset's list.";
    InternetSockets, "internet_sockets", "Internet sockets.";
    IoUring, "io_uring", "`io_uring`.";
    Ipc, "ipc", "System V IPC and POSIX message queues.";
    KernelAdmin, "kernel_admin", "Administration of the kernel.";
    KernelKeyring, "kernel_keyring", "Kernel keyrings.";
    KernelLog, "kernel_log", "Reading the kernel's log.";
    Leases, "leases", "A lease on a file (`F_SETLEASE`), which holds up whatever opens the file.";
    MemoryLimit, "memory_limit", "The memory limit.";
    Metaclass, "metaclass", "Screening refuses a metaclass.";
    ModuleAsValue, "module_as_value", "Screening refuses a module handed on as a value, where its members can no longer be told.";
    ModuleMemberNotAllowed, "module_member_not_allowed", "Screening refuses a member of a module that leads elsewhere: `enum.sys`, `string.Formatter`.";
    ModuleMissing, "module_missing", "A module that is not installed for the run's Python.";
    More, "more", "Counts denials past those that are listed.";
    MoreViolations, "more_violations", "Counts violations of screening past the hundredth.";
    Mount, "mount", "Mounting and unmounting.";
    MultipathTcp, "multipath_tcp", "A multipath TCP socket.";
    NameNotAllowed, "name_not_allowed", "Screening refuses such a builtin as a value, and names like `__builtins__`.";
    Namespaces, "namespaces", "Making or entering namespaces.";
    Netlink, "netlink", "Netlink sockets.";
    Network, "network", "A connection or name lookup that no rule of the run allows.";
    NotImplemented, "not_implemented", "A system call that does not exist in the sandbox.";
    NotNotified, "not_notified", "A system call that the filter should have decided by itself.";
    NotVisible, "not_visible", "A path that is not in the view of the run.";
    NullByte, "null_byte", "Screening refuses a null byte.";
    Openat2, "openat2", "openat2(2), answered as by a kernel without it.";
    OutsideCode, "outside_code", "A system call that commands have and Python code has not.";
    PagePlacement, "page_placement", "Placement of memory pages.";
    PerformanceEvents, "performance_events", "Performance events.";
    Personality, "personality", "Changing the execution domain.";
    PidsLimit, "pids_limit", "More processes than the limit.";
    PingSocket, "ping_socket", "ICMP sockets.";
    PipeSize, "pipe_size", "A pipe larger than 64 KiB.";
    PrivateAttribute, "private_attribute", "Screening refuses an attribute that begins with an underscore.";
    ProcessControl, "process_control", "Control of other processes.";
    ProcessLayout, "process_layout", "Changing the memory layout of a process.";
    ProcessMemory, "process_memory", "Reading or writing another process's memory.";
    Processes, "processes", "Making a process.";
    Ptrace, "ptrace", "Tracing a process.";
    RawSocket, "raw_socket", "Raw and packet sockets.";
    ReadOnly, "read_only", "Writing where the run may only read.";
    RelativeImport, "relative_import", "Screening refuses an import that begins with a dot.";
    RootDirectory, "root_directory", "Changing the root directory.";
    SecretMemory, "secret_memory", "Memory that the kernel cannot count or read.";
    ServerSocket, "server_socket", "A server's socket in a run that shares the host's network.";
    SetuidBit, "setuid_bit", "Making a set-uid or set-gid file.";
    SharedMemory, "shared_memory", "Shared memory that cannot be counted.";
    Snapshots, "snapshots", "Snapshots of filesystems.";
    SocketFamily, "socket_family", "A socket family that is not allowed.";
    SocketOption, "socket_option", "A socket option that is not allowed.";
    SocketProtocol, "socket_protocol", "A socket protocol that is not allowed.";
    Sockets, "sockets", "Making sockets.";
    SourceEncoding, "source_encoding", "Screening refuses a coding comment that names anything but UTF-8.";
    SourceNotUtf8, "source_not_utf8", "Screening refuses bytes that are not UTF-8.";
    SourceTooLarge, "source_too_large", "Screening refuses more than 1 MiB of source, in `standard` and `strict` more than 50 KiB.";
    SpecialMethodNotAllowed, "special_method_not_allowed", "Screening refuses a special method that classes and copies are made through: `__init_subclass__`, `__reduce__`.";
    StarImport, "star_import", "Screening refuses `from x import *` where that brings more than the module's own functions.";
    SyntaxError, "syntax_error", "Screening refuses a text that is not Python.";
    SyntaxNotAllowed, "syntax_not_allowed", "Screening refuses syntax outside the whitelist: import, def, class, with, try.";
    TcpFastOpen, "tcp_fast_open", "Connecting by sending (TCP fast open).";
    TerminalInjection, "terminal_injection", "Pushing input to a terminal.";
    TooDeep, "too_deep", "Screening refuses nesting over 100 levels, or a tree over 1,000.";
    UdpSocket, "udp_socket", "A UDP socket in a run that shares the host's network.";
    UnixConnect, "unix_connect", "Connecting to a unix socket.";
    UnixDatagram, "unix_datagram", "Unix datagram sockets.";
    UnixSocket, "unix_socket", "A connection to a unix socket outside the run.";
    UnixSockets, "unix_sockets", "Unix sockets.";
    Userfaultfd, "userfaultfd", "Handling page faults in user space.";
    WallDeadline, "wall_deadline", "The timeout of the run.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_unique_and_found_by_name() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.as_str() < b.as_str()));
        for code in Code::ALL {
            assert_eq!(Code::find(code.as_str()), *code);
            assert!(code.meaning().ends_with('.') && code.meaning().len() > 10, "{code}");
        }
        assert_eq!(Code::find("of_tomorrow"), Code::Other);
        assert!(DenialRule::ALL.is_sorted_by(|a, b| a.as_str() < b.as_str()));
        for rule in DenialRule::ALL {
            assert_eq!(DenialRule::find(rule.as_str()), *rule);
        }
    }
}
