//! Finds the nested repositories that a git index names: the host's git enters each of them and obeys its
//! configuration.
//!
//! The index is hostile input. It is read in pieces, with constant memory and under a budget, and parsed exactly as git
//! parses it (gitformat-index(5), and `create_from_disk` in git's read-cache.c where the manual is silent): a second
//! reading of the same bytes would be a way past this one. Anything that cannot be parsed so is an error, never an
//! empty answer.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use ringfence_sys::Budget;

/// Maximum number of nested repositories in one index; an index with more is not judged.
pub(crate) const LINKS_MAX: usize = 256;

/// Longer than any path the kernel takes.
const NAME_BYTES_MAX: usize = 4096;

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// `S_IFMT`: git checks only these bits of a mode.
const TYPE_MASK: u32 = 0o170_000;

/// The type of an entry that is a nested repository: `S_IFGITLINK`.
const GITLINK: u32 = 0o160_000;

/// The type of an entry that stands for a whole directory, in a sparse index.
const SPARSE_DIRECTORY: u32 = 0o040_000;

/// Bytes of an entry before its object name: times, device, inode, mode, owner, size.
const STAT_BYTES: usize = 40;

/// `CE_EXTENDED`: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;

/// `CE_NAMEMASK`: the length of the name, or that it is longer.
const NAME_MASK: u16 = 0x0fff;

/// Length of an object name: 20 bytes for SHA-1, 32 for SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashBytes(pub(crate) usize);

/// Reason an index was not judged.
pub(crate) type NotJudged = String;

/// Content of an index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Paths of nested repositories, in the order of the index.
    pub(crate) links: Vec<PathBuf>,
    /// The base index that this one modifies, if it is split.
    pub(crate) base: Option<Base>,
}

/// The base of a split index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Its name beside the index: `sharedindex.HEX`.
    pub(crate) name: String,
    /// Positions in the base whose entry becomes a nested repository.
    pub(crate) replaced_by_links: Vec<u64>,
}

/// Reads an index.
pub(crate) fn scan(file: &File, hash: HashBytes, budget: &Budget) -> Result<Scan, NotJudged> {
    read(file, hash, budget, &[])
}

/// Reads the base of a split index: its own nested repositories, and the names at `positions`.
pub(crate) fn scan_base(
    file: &File,
    hash: HashBytes,
    budget: &Budget,
    positions: &[u64],
) -> Result<Vec<PathBuf>, NotJudged> {
    let scan = read(file, hash, budget, positions)?;
    match scan.base {
        None => Ok(scan.links),
        Some(_) => Err("the base of a split index is itself split".to_owned()),
    }
}

/// One entry.
struct Entry {
    mode: u32,
    /// Offset in the file.
    at: u64,
}

fn read(
    file: &File,
    hash: HashBytes,
    budget: &Budget,
    positions: &[u64],
) -> Result<Scan, NotJudged> {
    let mut source = Source::new(file, budget);
    let header: [u8; 12] = *source.peek(12)?.first_chunk().ok_or_else(cut)?;
    source.advance(12);
    if header[..4] != *b"DIRC" {
        return Err("it is no index".to_owned());
    }
    let (version, n_entries) = (be32(&header[4..]), be32(&header[8..]));
    if !(2..=4).contains(&version) {
        return Err(format!("its version is {version}"));
    }
    let mut walk = Walk { version, hash, name: Vec::new() };
    let mut links = Vec::new();
    // Entries of a split index that change the mode of an entry in the base have no name of their own.
    let (mut n_unnamed, mut unnamed_links) = (0_u64, Vec::new());
    for position in 0..u64::from(n_entries) {
        let entry = walk.next(&mut source)?;
        let kind = entry.mode & TYPE_MASK;
        if kind == SPARSE_DIRECTORY {
            return Err("it is sparse: entries stand for whole directories".to_owned());
        }
        let unnamed = walk.name.is_empty();
        if kind == GITLINK && unnamed {
            unnamed_links.push(n_unnamed);
        } else if kind == GITLINK || positions.binary_search(&position).is_ok() {
            links.push(walk.path()?);
        }
        n_unnamed += u64::from(unnamed);
        if links.len() + unnamed_links.len() > LINKS_MAX {
            return Err(format!("it names more than {LINKS_MAX} nested repositories"));
        }
    }
    let base = extensions(
        &mut source,
        &mut Extensions { file, hash, version, n_entries, unnamed_links: &unnamed_links },
    )?;
    if base.is_none() && !unnamed_links.is_empty() {
        return Err("it has entries without a name".to_owned());
    }
    Ok(Scan { links, base })
}

struct Walk {
    version: u32,
    hash: HashBytes,
    /// The name of the last entry, up to a NUL in it.
    name: Vec<u8>,
}

impl Walk {
    fn next(&mut self, source: &mut Source<'_>) -> Result<Entry, NotJudged> {
        let at = source.position();
        let fixed = STAT_BYTES + self.hash.0;
        let head = source.peek(fixed + 4)?;
        let mode = be32(&head[24..]);
        let flags = u16::from_be_bytes([head[fixed], head[fixed + 1]]);
        // Git checks the bit in every version, although the manual rules it out for version 2.
        let mut used = fixed + if flags & EXTENDED == 0 { 2 } else { 4 };
        let mut kept = 0;
        if self.version == 4 {
            let (strip, n) = varint(source.peek_up_to(used + 10)?.get(used..).ok_or_else(cut)?)?;
            used += n;
            kept = self
                .name
                .len()
                .checked_sub(strip)
                .ok_or_else(|| "a name is too short".to_owned())?;
        }
        let declared = usize::from(flags & NAME_MASK);
        let length = if declared < usize::from(NAME_MASK) {
            // The length of the whole name, of which `kept` bytes are those of the name before.
            declared.checked_sub(kept).ok_or_else(|| "a name is too short".to_owned())?
        } else {
            let rest = source.peek_up_to(used + NAME_BYTES_MAX + 1)?;
            let end = rest.get(used..).and_then(|rest| rest.iter().position(|b| *b == 0));
            end.ok_or_else(|| format!("a name is longer than {NAME_BYTES_MAX} bytes"))?
        };
        if kept + length > NAME_BYTES_MAX {
            return Err(format!("a name is longer than {NAME_BYTES_MAX} bytes"));
        }
        let size = if self.version == 4 { used + length + 1 } else { (used + length + 8) & !7 };
        let whole = source.peek(size)?;
        self.name.truncate(kept);
        self.name.extend_from_slice(&whole[used..used + length]);
        source.advance(size);
        Ok(Entry { mode, at })
    }

    /// The name as a path that stays in the checkout; git stops at a NUL as any C string does.
    fn path(&self) -> Result<PathBuf, NotJudged> {
        let name = self.name.split(|b| *b == 0).next().unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(name));
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !plain {
            return Err("it names a nested repository outside the checkout".to_owned());
        }
        Ok(path.to_owned())
    }
}

/// Values that the extensions after the entries are checked against.
struct Extensions<'a> {
    file: &'a File,
    hash: HashBytes,
    version: u32,
    n_entries: u32,
    unnamed_links: &'a [u64],
}

fn extensions(
    source: &mut Source<'_>,
    about: &mut Extensions<'_>,
) -> Result<Option<Base>, NotJudged> {
    let mut base = None;
    // Behind the last extension stands the checksum.
    while source.left()? >= (about.hash.0 + 8) as u64 {
        let head = source.peek(8)?;
        let (name, size): ([u8; 4], _) = ([head[0], head[1], head[2], head[3]], be32(&head[4..]));
        source.advance(8);
        if u64::from(size) > source.left()? {
            return Err("an extension is cut off".to_owned());
        }
        match &name {
            b"link" => {
                if size as usize > CHUNK {
                    return Err("its split is too large".to_owned());
                }
                base = link(source.peek(size as usize)?, about)?;
            }
            b"sdir" => return Err("it is sparse: entries stand for whole directories".to_owned()),
            b"IEOT" => {
                // A row for each block of entries, of which the file really has as many as it says.
                if u64::from(size) > 4 + 8 * u64::from(about.n_entries) {
                    return Err("its table of offsets is inconsistent".to_owned());
                }
                let table = source.peek_up_to(size as usize)?.to_vec();
                offsets(&table, about, source.budget)?;
            }
            _ => {}
        }
        source.advance(size as usize);
    }
    Ok(base)
}

/// The extension of a split index: the base's name, which of its entries are deleted, and which are replaced in order
/// by the entries without a name.
fn link(bytes: &[u8], about: &Extensions<'_>) -> Result<Option<Base>, NotJudged> {
    let hash = bytes.get(..about.hash.0).ok_or_else(cut)?;
    if hash.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    let name = format!("sharedindex.{}", ringfence_spec::hex(hash));
    let mut replaced_by_links = Vec::new();
    if !about.unnamed_links.is_empty() {
        let mut rest = &bytes[about.hash.0..];
        let (_deleted, after) = bitmap(rest)?;
        rest = after;
        let (replaced, _) = bitmap(rest)?;
        for n in about.unnamed_links {
            let position = usize::try_from(*n).ok().and_then(|n| replaced.get(n));
            replaced_by_links
                .push(*position.ok_or_else(|| "its split is inconsistent".to_owned())?);
        }
        replaced_by_links.sort_unstable();
    }
    Ok(Some(Base { name, replaced_by_links }))
}

/// The positions of the bits set in an EWAH bitmap (gitformat-bitmap(5), appendix A), and the bytes behind it.
fn bitmap(bytes: &[u8]) -> Result<(Vec<u64>, &[u8]), NotJudged> {
    const POSITIONS_MAX: usize = 4 << 20;
    let n_bits = u64::from(be32(bytes.get(..4).ok_or_else(cut)?));
    let n_words = be32(bytes.get(4..8).ok_or_else(cut)?) as usize;
    let end = n_words.checked_mul(8).and_then(|n| n.checked_add(8)).ok_or_else(cut)?;
    let words = bytes.get(8..end).ok_or_else(cut)?;
    let after = bytes.get(end + 4..).ok_or_else(cut)?;
    let mut words =
        words.chunks_exact(8).map(|w| u64::from_be_bytes(*w.first_chunk().unwrap_or(&[0; 8])));
    let mut positions = Vec::new();
    let mut at = 0_u64;
    while let Some(marker) = words.next() {
        let (bit, run, literals) = (marker & 1, (marker >> 1) & 0xffff_ffff, marker >> 33);
        if bit == 1 {
            let upto = at.saturating_add(run.saturating_mul(64)).min(n_bits);
            let n = usize::try_from(upto.saturating_sub(at)).unwrap_or(usize::MAX);
            if n.saturating_add(positions.len()) > POSITIONS_MAX {
                return Err("its split is too large".to_owned());
            }
            positions.extend(at..upto);
        }
        at = at.saturating_add(run.saturating_mul(64));
        for _ in 0..literals {
            let word = words.next().ok_or_else(cut)?;
            positions.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| at + bit));
            at = at.saturating_add(64);
            if positions.len() > POSITIONS_MAX {
                return Err("its split is too large".to_owned());
            }
        }
    }
    positions.retain(|position| *position < n_bits);
    Ok((positions, after))
}

/// The table from which git reads the entries with several threads: it must name the same entries as a sequential read.
fn offsets(table: &[u8], about: &Extensions<'_>, budget: &Budget) -> Result<(), NotJudged> {
    let wrong = || "its table of offsets is inconsistent".to_owned();
    let rows = table.get(4..).filter(|_| table.len() >= 4 && be32(table) == 1).ok_or_else(wrong)?;
    if rows.len() % 8 != 0 {
        return Err(wrong());
    }
    let mut rows = rows.chunks_exact(8).map(|row| (u64::from(be32(row)), be32(&row[4..])));
    let mut source = Source::new(about.file, budget);
    source.advance(12);
    let mut walk = Walk { version: about.version, hash: about.hash, name: Vec::new() };
    let mut left_in_block = 0;
    for _ in 0..about.n_entries {
        if left_in_block == 0 {
            let (offset, n) = rows.next().ok_or_else(wrong)?;
            // Git begins a block with no name before it.
            if offset != source.position() || n == 0 {
                return Err(wrong());
            }
            walk.name.clear();
            left_in_block = n;
        }
        let entry = walk.next(&mut source)?;
        debug_assert!(entry.at < source.position());
        left_in_block -= 1;
    }
    if left_in_block == 0 && rows.next().is_none() { Ok(()) } else { Err(wrong()) }
}

/// The offset encoding of pack files.
fn varint(bytes: &[u8]) -> Result<(usize, usize), NotJudged> {
    let mut value = 0usize;
    for (i, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
        value += 1;
    }
    Err(cut())
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b))
}

fn cut() -> NotJudged {
    "it is cut off".to_owned()
}

/// A file read front to back in chunks of one size.
struct Source<'a> {
    file: &'a File,
    budget: &'a Budget,
    buffer: Vec<u8>,
    start: usize,
    /// Offset of the buffer's end in the file.
    end_at: u64,
}

impl<'a> Source<'a> {
    fn new(file: &'a File, budget: &'a Budget) -> Self {
        Self { file, budget, buffer: Vec::new(), start: 0, end_at: 0 }
    }

    fn position(&self) -> u64 {
        self.end_at - (self.buffer.len() - self.start) as u64
    }

    /// The next `n` bytes.
    fn peek(&mut self, n: usize) -> Result<&[u8], NotJudged> {
        let some = self.peek_up_to(n)?;
        if some.len() < n { Err(cut()) } else { Ok(&some[..n]) }
    }

    /// The next `n` bytes, or fewer at the end of the file.
    fn peek_up_to(&mut self, n: usize) -> Result<&[u8], NotJudged> {
        if self.buffer.len() - self.start < n {
            self.buffer.drain(..self.start);
            self.start = 0;
            let wanted = n.max(CHUNK);
            while self.buffer.len() < wanted {
                let had = self.buffer.len();
                // The budget may end before what the file asks for.
                self.buffer.resize(wanted.min(had + CHUNK), 0);
                let read = self.file.read_at(&mut self.buffer[had..], self.end_at);
                let n = read.map_err(|e| format!("it cannot be read: {e}"))?;
                self.buffer.truncate(had + n);
                self.end_at += n as u64;
                self.budget.spend_bytes(n as u64).map_err(|e| e.call)?;
                if n == 0 {
                    break;
                }
            }
        }
        let end = (self.start + n).min(self.buffer.len());
        Ok(&self.buffer[self.start..end])
    }

    fn advance(&mut self, n: usize) {
        let buffered = self.buffer.len() - self.start;
        if n <= buffered {
            self.start += n;
        } else {
            self.end_at += (n - buffered) as u64;
            self.buffer.clear();
            self.start = 0;
        }
    }

    fn left(&self) -> Result<u64, NotJudged> {
        let length = self.file.metadata().map_err(|e| format!("it cannot be read: {e}"))?.len();
        Ok(length.saturating_sub(self.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its rows would be more than its entries; and what a file asks for is not reserved before the budget allows it.
    #[test]
    fn a_table_of_offsets_takes_no_more_memory_than_the_budget_allows() {
        let mut index = b"DIRC\0\0\0\x02\0\0\0\0IEOT".to_vec();
        index.extend(0xffff_ff00_u32.to_be_bytes());
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("index");
        std::fs::write(&path, index).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_len(5 << 30).unwrap();
        let budget = Budget::new(10, 2 << 20, std::time::Duration::from_mins(1));
        let error = scan(&file, HashBytes(20), &budget).unwrap_err();
        assert_eq!(error, "its table of offsets is inconsistent");
        let mut source = Source::new(&file, &budget);
        assert!(source.peek_up_to(4 << 30).is_err());
        assert!(source.buffer.capacity() <= 8 << 20, "{}", source.buffer.capacity());
    }
    use ringfence_testing::BoundedCommand as _;
    use std::process::Command;

    const SHA1: HashBytes = HashBytes(20);

    fn git(dir: &Path, args: &[&str]) {
        let base = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "safe.directory=*"];
        let output =
            Command::new("git").args(base).args(args).current_dir(dir).bounded_output().unwrap();
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
    }

    fn repository(format: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "-q", "--object-format", format, "."]);
        for name in ["a", "deep/er/b"] {
            let nested = root.join(name);
            std::fs::create_dir_all(&nested).unwrap();
            git(&nested, &["init", "-q", "--object-format", format, "."]);
            git(&nested, &["commit", "-q", "--allow-empty", "-m", "x"]);
        }
        for i in 0..40 {
            std::fs::write(root.join(format!("file-{i}")), "x").unwrap();
        }
        std::fs::write(root.join("x".repeat(200)), "x").unwrap();
        git(root, &["add", "-A"]);
        dir
    }

    fn links_of(dir: &Path, hash: HashBytes) -> Result<Vec<PathBuf>, NotJudged> {
        let git_dir = dir.join(".git");
        let index = File::open(git_dir.join("index")).unwrap();
        let budget = Budget::unlimited();
        let scanned = scan(&index, hash, &budget)?;
        let mut links = scanned.links;
        if let Some(base) = scanned.base {
            let file = File::open(git_dir.join(&base.name)).unwrap();
            links.extend(scan_base(&file, hash, &budget, &base.replaced_by_links)?);
        }
        links.sort();
        links.dedup();
        Ok(links)
    }

    fn scan_bytes(bytes: &[u8]) -> Result<Scan, NotJudged> {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        scan(&file, SHA1, &Budget::unlimited())
    }

    #[test]
    fn nested_repositories_are_found_in_every_version_and_format() {
        for (format, hash) in [("sha1", SHA1), ("sha256", HashBytes(32))] {
            let dir = repository(format);
            let expected = [Path::new("a"), Path::new("deep/er/b")];
            for version in ["2", "3", "4"] {
                git(dir.path(), &["update-index", "--index-version", version]);
                assert_eq!(links_of(dir.path(), hash).unwrap(), expected, "{format} {version}");
            }
            // A flag of version 3, which makes entries longer.
            git(dir.path(), &["update-index", "--index-version", "3", "--skip-worktree", "file-1"]);
            assert_eq!(links_of(dir.path(), hash).unwrap(), expected, "{format} extended");
        }
    }

    #[test]
    fn a_split_index_is_read_with_its_base() {
        let dir = repository("sha1");
        let expected = [Path::new("a"), Path::new("deep/er/b")];
        git(dir.path(), &["update-index", "--split-index"]);
        assert_eq!(links_of(dir.path(), SHA1).unwrap(), expected);
        // Another commit in the nested repository: an entry without a name replaces the one in the base.
        git(&dir.path().join("a"), &["commit", "-q", "--allow-empty", "-m", "y"]);
        git(dir.path(), &["add", "a"]);
        assert_eq!(links_of(dir.path(), SHA1).unwrap(), expected);
        // A file becomes a nested repository.
        let hash = "0123456789012345678901234567890123456789";
        let info = format!("160000,{hash},file-7");
        git(dir.path(), &["update-index", "--cacheinfo", &info]);
        let links = links_of(dir.path(), SHA1).unwrap();
        assert!(links.contains(&PathBuf::from("file-7")), "{links:?}");
    }

    #[test]
    fn a_table_of_offsets_must_agree_with_the_entries() {
        let dir = repository("sha1");
        for i in 0..200 {
            std::fs::write(dir.path().join(format!("more-{i}")), "x").unwrap();
        }
        git(
            dir.path(),
            &["-c", "index.threads=2", "-c", "index.recordOffsetTable=true", "add", "-A"],
        );
        let index = dir.path().join(".git/index");
        let bytes = std::fs::read(&index).unwrap();
        let Some(at) = bytes.windows(4).position(|w| w == b"IEOT") else { return };
        assert_eq!(scan_bytes(&bytes).unwrap().links.len(), 2);
        let mut forged = bytes.clone();
        forged[at + 8 + 4 + 3] ^= 8;
        assert!(scan_bytes(&forged).unwrap_err().contains("offsets"));
    }

    /// One entry of version 2.
    fn entry(mode: u32, flags: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes.extend(mode.to_be_bytes());
        bytes.extend([0; 12 + 20]);
        bytes.extend(flags.to_be_bytes());
        if flags & EXTENDED != 0 {
            bytes.extend([0; 2]);
        }
        let size = (bytes.len() + name.len() + 8) & !7;
        bytes.extend(name);
        bytes.resize(size, 0);
        bytes
    }

    fn index(version: u32, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        bytes.extend(entries.concat());
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn hostile_entries_are_read_as_git_reads_them() {
        // Version 2 with the bit of version 3, behind which git expects two more bytes.
        let bytes = index(2, &[entry(0o100_644, EXTENDED | 1, b"x"), entry(GITLINK, 1, b"q")]);
        assert_eq!(scan_bytes(&bytes).unwrap().links, [Path::new("q")]);
        // Permissions beside the type.
        let bytes = index(2, &[entry(GITLINK | 0o644, 1, b"q")]);
        assert_eq!(scan_bytes(&bytes).unwrap().links, [Path::new("q")]);
        // A name that ends before its length does.
        let bytes = index(2, &[entry(GITLINK, 4, b"q\0zz")]);
        assert_eq!(scan_bytes(&bytes).unwrap().links, [Path::new("q")]);
        for name in [&b"../q"[..], b"/q", b"a/../q", b"./q", b"\0q"] {
            let bytes = index(2, &[entry(GITLINK, u16::try_from(name.len()).unwrap(), name)]);
            assert!(scan_bytes(&bytes).is_err(), "{name:?}");
        }
        let long = index(2, &[entry(GITLINK, NAME_MASK, &vec![b'n'; 5000])]);
        assert!(scan_bytes(&long).unwrap_err().contains("longer"));
        assert!(scan_bytes(&index(2, &[entry(SPARSE_DIRECTORY, 2, b"d/")])).is_err());
    }

    #[test]
    fn nonsense_is_an_error_and_takes_no_memory() {
        for bytes in
            [&b""[..], b"DIRC", b"DIRC\0\0\0\x02\xff\xff\xff\xff", b"NOPE\0\0\0\x02\0\0\0\x01"]
        {
            assert!(scan_bytes(bytes).is_err());
        }
        let mut cut = b"DIRC\0\0\0\x04\0\0\0\x02".to_vec();
        cut.extend([0u8; 70]);
        assert!(scan_bytes(&cut).is_err());
        // Sixty megabytes of one name: refused after some kilobytes.
        let mut huge = b"DIRC\0\0\0\x04\0\0\0\x29".to_vec();
        huge.extend([0; 60]);
        huge.extend([0x0f, 0xff, 0]);
        huge.resize(60 << 20, b'n');
        let budget = Budget::new(10, 2 << 20, std::time::Duration::from_mins(1));
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &huge).unwrap();
        assert!(scan(&file, SHA1, &budget).unwrap_err().contains("longer"));
    }

    #[test]
    fn reading_ends_with_its_budget() {
        let entries: Vec<Vec<u8>> =
            (0..60_000).map(|i| entry(0o100_644, 6, format!("{i:06}").as_bytes())).collect();
        let bytes = index(2, &entries);
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let spent = scan(&file, SHA1, &Budget::new(10, 1 << 20, std::time::Duration::from_mins(1)));
        assert!(spent.unwrap_err().contains("budget"));
        assert!(scan(&file, SHA1, &Budget::unlimited()).unwrap().links.is_empty());
    }
}
