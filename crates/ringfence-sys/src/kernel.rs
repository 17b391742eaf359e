//! Files of the kernel's: `/proc`, `/sys` and cgroups. No run can put another there, and reading one does not wait.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens one for reading.
pub fn open_kernel_file(path: impl AsRef<Path>) -> io::Result<File> {
    File::open(path)
}

/// The text of one, whatever its length, which the kernel does not say before. What is not UTF-8 is replaced: a process can
/// have any bytes as its name.
pub fn read_kernel_file(path: impl AsRef<Path>) -> io::Result<String> {
    let file = File::open(path)?;
    // The standard library asks for length and position first, which a file of the kernel's does not have.
    let mut text = Vec::with_capacity(4096);
    while rustix::io::retry_on_intr(|| {
        rustix::io::read(&file, rustix::buffer::spare_capacity(&mut text))
    })? > 0
    {
        text.reserve(1);
    }
    Ok(String::from_utf8(text)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The names in a directory.
pub fn list_kernel_directory(path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
    Ok(std::fs::read_dir(path)?.flatten().map(|entry| entry.file_name()).collect())
}
