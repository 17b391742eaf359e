//! The error numbers the filter answers with. They are the same on every architecture of
//! [`super::Arch`].

/// Operation not permitted.
pub const EPERM: i32 = 1;
/// Cannot allocate memory.
pub const ENOMEM: i32 = 12;
/// Permission denied.
pub const EACCES: i32 = 13;
/// Function not implemented.
pub const ENOSYS: i32 = 38;
/// Protocol not available: an option that the socket does not have.
pub const ENOPROTOOPT: i32 = 92;
/// Protocol not supported.
pub const EPROTONOSUPPORT: i32 = 93;
/// Operation not supported on transport endpoint.
pub const EOPNOTSUPP: i32 = 95;
/// Address family not supported by protocol.
pub const EAFNOSUPPORT: i32 = 97;
