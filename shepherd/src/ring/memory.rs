//! The memory of a stream: a few words and the bytes. A model of it is tested with all interleavings of two threads.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Size of the words before the bytes.
const HEAD: usize = 4096;

/// Largest size of a ring that is accepted, in bytes.
const LARGEST: usize = 64 << 20;

/// A number that two processes share.
pub trait Word {
    /// Returns the number.
    fn load(&self, order: Ordering) -> u64;
    /// Sets the number.
    fn store(&self, value: u64, order: Ordering);
    /// Sets the number, and returns the one before.
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// Orders all accesses before it before all accesses after it, for both processes.
    fn fence();
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Words and bytes that a writer and a reader share.
pub trait Memory {
    /// The type of the words.
    type Word: Word;

    /// Returns the number of bytes.
    fn size(&self) -> usize;

    /// Returns the word with this number, which is less than five.
    fn word(&self, place: usize) -> &Self::Word;

    /// Returns the address of the byte at `place`, which is at most the size.
    fn at(&self, place: usize) -> *mut u8;

    /// Says that from now on the caller writes these bytes, or reads them.
    fn claim(&self, _place: usize, _length: usize, _writes: bool) {}
}

/// Memory that is mapped into each process.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    size: usize,
    file: OwnedFd,
}

// SAFETY: the memory belongs to this value, and all words in it are atomic.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Makes memory with `size` bytes, a multiple of the size of a page.
    pub fn new(size: usize) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"limo-ring", flags)?);
        file.set_len((HEAD + size) as u64)?;
        let seals = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Self::open(file.into())
    }

    /// Maps memory that another process has made.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the file is not the memory of a stream");
        // A file that could shrink would end this process.
        let seals = SealFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        let file = File::from(file);
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let size = length.checked_sub(HEAD).filter(|size| (1..=LARGEST).contains(size)).ok_or_else(invalid)?;
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(invalid());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a free place, and the file has this length and cannot shrink.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(invalid)?;
        Ok(Self { base, size, file: file.into() })
    }

    /// Returns the memory of all bytes to the kernel; they become zero. If that fails, the memory stays in use.
    pub fn punch(&self) {
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let size = libc::off_t::try_from(self.size).unwrap_or(libc::off_t::MAX);
        // SAFETY: the call takes numbers only.
        unsafe { libc::fallocate(self.file.as_raw_fd(), punch, HEAD as libc::off_t, size) };
    }
}

impl Memory for Mapping {
    type Word = AtomicU64;

    fn size(&self) -> usize {
        self.size
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY: the place is within the head of the mapping, which is aligned and lives as long as this value.
        // Every access of every process is atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().add(place)) }
    }

    fn at(&self, place: usize) -> *mut u8 {
        // SAFETY: the callers keep the place within the size.
        unsafe { self.base.as_ptr().add(HEAD + place) }
    }
}

impl AsFd for Mapping {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any longer.
        unsafe { libc::munmap(self.base.as_ptr().cast(), HEAD + self.size) };
    }
}
