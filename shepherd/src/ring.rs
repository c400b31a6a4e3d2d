//! The unacknowledged bytes of one stream, in memory that `lshepherd` and `lslave` share. One of them writes and the other
//! reads. If either is killed, the other still has every byte.
//!
//! A writer publishes `tail`, the offset after the last byte, once the bytes are in place. A reader releases bytes by
//! publishing `head`; before that, the writer does not overwrite them. Offsets count from the start of the stream, and
//! the end of the stream counts as one byte. The layout never changes, because programs of different releases share it.

mod memory;
#[cfg(test)]
mod model;

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use memory::{Mapping, Memory, Word};

/// Number of written bytes above which [`Ring::reset`] returns the memory to the kernel.
const KEPT: u64 = 64 << 10;

/// Places of the words, in units of 8 bytes.
mod word {
    pub const HEAD: usize = 0;
    pub const TAIL: usize = 1;
    pub const ENDED: usize = 2;
    pub const READER_WAITS: usize = 3;
    pub const WRITER_WAITS: usize = 4;
}

/// One stream in shared memory.
#[derive(Debug)]
pub struct Ring<M = Mapping> {
    memory: M,
}

impl Ring {
    /// Makes an empty ring of `size` bytes, a multiple of the size of a page.
    ///
    /// # Errors
    /// If the kernel has no memory for it.
    pub fn new(size: usize) -> io::Result<Self> {
        Ok(Self { memory: Mapping::new(size)? })
    }

    /// Opens a ring that another process has made.
    ///
    /// # Errors
    /// If the file is not a ring, or the kernel refuses.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { memory: Mapping::open(file)? })
    }

    /// Starts a new stream. No process may read or write meanwhile.
    pub fn reset(&self) {
        if self.tail() > KEPT {
            self.memory.punch();
        }
        for place in [word::HEAD, word::TAIL, word::ENDED, word::READER_WAITS, word::WRITER_WAITS] {
            self.store(place, 0);
        }
    }
}

impl<M: Memory> Ring<M> {
    fn load(&self, place: usize) -> u64 {
        self.memory.word(place).load(Ordering::SeqCst)
    }

    fn store(&self, place: usize, value: u64) {
        self.memory.word(place).store(value, Ordering::SeqCst);
    }

    /// Returns the offset below which the reader has released all bytes; one more than the tail after the end.
    pub fn head(&self) -> u64 {
        self.load(word::HEAD)
    }

    /// Returns the offset after the last byte.
    pub fn tail(&self) -> u64 {
        self.load(word::TAIL)
    }

    /// Returns true if the writer has ended the stream. Read the tail after this.
    pub fn has_ended(&self) -> bool {
        self.load(word::ENDED) != 0
    }

    /// Returns the number of bytes that the writer may add.
    pub fn room(&self) -> usize {
        let kept = self.tail().saturating_sub(self.head());
        self.memory.size().saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX))
    }

    /// Returns the parts of the memory for the offsets from `from` on.
    fn parts(&self, from: u64, length: usize) -> [(usize, usize); 2] {
        // The rest is less than the size, which is a usize.
        let start = usize::try_from(from % self.memory.size() as u64).unwrap_or(0);
        let first = length.min(self.memory.size() - start);
        [(start, first), (0, length - first)]
    }

    /// Returns the memory that the writer may fill before [`Ring::publish`].
    pub fn spare(&mut self) -> [IoSliceMut<'_>; 2] {
        self.parts(self.tail(), self.room()).map(|(start, length)| {
            self.memory.claim(start, length, true);
            // SAFETY: the parts are within the memory and do not overlap. The reader accesses them only once they are
            // published, and the borrow excludes other accesses of this process.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(self.memory.at(start), length) })
        })
    }

    /// Publishes `count` bytes of [`Ring::spare`].
    pub fn publish(&mut self, count: usize) {
        self.store(word::TAIL, self.tail() + count.min(self.room()) as u64);
    }

    /// Writes as many of the bytes as there is room for; returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        for mut part in self.spare() {
            let count = part.len().min(bytes.len() - written);
            part[..count].copy_from_slice(&bytes[written..written + count]);
            written += count;
        }
        self.publish(written);
        written
    }

    /// Ends the stream. The writer adds nothing afterwards.
    pub fn end(&mut self) {
        self.store(word::ENDED, 1);
    }

    /// Returns the number of bytes from `from` on. Zero if that offset is not in the memory.
    fn available(&self, from: u64) -> usize {
        let count = self.tail().saturating_sub(from);
        usize::try_from(count).ok().filter(|count| *count <= self.memory.size()).unwrap_or(0)
    }

    /// Returns the bytes from `from` on, at most `most`. The reader must not have released them.
    pub fn unread(&self, from: u64, most: usize) -> [IoSlice<'_>; 2] {
        self.parts(from, self.available(from).min(most)).map(|(start, length)| {
            self.memory.claim(start, length, false);
            // SAFETY: the parts are within the memory and published, and the writer does not change them before they
            // are released.
            IoSlice::new(unsafe { std::slice::from_raw_parts(self.memory.at(start), length) })
        })
    }

    /// Releases the bytes below `offset`; the end of the stream counts as one. An offset below the head changes nothing.
    pub fn release(&self, offset: u64) {
        let end = self.tail() + u64::from(self.has_ended());
        if offset > self.head() {
            self.store(word::HEAD, offset.min(end));
        }
    }

    /// Announces that the reader waits for bytes. It must look once more afterwards.
    pub fn reader_waits(&self) {
        self.store(word::READER_WAITS, 1);
        M::Word::fence();
    }

    /// Returns true, once, if the reader waits and has to be told about new bytes.
    pub fn wakes_reader(&self) -> bool {
        // The fences of both sides order the change before the look at the other side.
        M::Word::fence();
        self.memory.word(word::READER_WAITS).swap(0, Ordering::SeqCst) != 0
    }

    /// Announces that the writer waits for the release of bytes. It must look once more afterwards.
    pub fn writer_waits(&self) {
        self.store(word::WRITER_WAITS, 1);
        M::Word::fence();
    }

    /// Returns true, once, if the writer waits and has to be told about released bytes.
    pub fn wakes_writer(&self) -> bool {
        // The fences of both sides order the change before the look at the other side.
        M::Word::fence();
        self.memory.word(word::WRITER_WAITS).swap(0, Ordering::SeqCst) != 0
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    fn text(ring: &Ring, from: u64) -> Vec<u8> {
        ring.unread(from, usize::MAX).iter().flat_map(|part| part.to_vec()).collect()
    }

    #[test]
    fn bytes_stay_until_they_are_released() {
        let mut writer = Ring::new(4096).expect("memory");
        let reader = Ring::open(writer.as_fd().try_clone_to_owned().expect("a descriptor")).expect("the same ring");
        assert_eq!((writer.write(&[1; 4000]), writer.write(&[2; 200]), writer.room()), (4000, 96, 0));
        assert_eq!((reader.tail(), text(&reader, 3999)), (4096, [&[1][..], &[2; 96]].concat()));
        assert_eq!(reader.unread(0, 5).map(|part| part.len()), [5, 0]);
        reader.release(4000);
        assert_eq!((writer.room(), writer.write(&[3; 100])), (4000, 100));
        assert_eq!(text(&reader, 4000), [[2; 96].to_vec(), [3; 100].to_vec()].concat(), "across the end of the memory");
        assert_eq!(text(&reader, 0), [0; 0], "an offset that is gone");
        reader.release(9999);
        assert_eq!(reader.head(), 4196, "only what exists is released");
        writer.end();
        reader.release(9999);
        assert_eq!((reader.head(), reader.has_ended(), writer.room()), (4197, true, 4096), "the end counts as one");
        writer.reset();
        assert_eq!((reader.head(), reader.tail(), reader.has_ended()), (0, 0, false));
    }

    #[test]
    fn each_side_is_woken_once() {
        let ring = Ring::new(4096).expect("memory");
        assert!(!ring.wakes_reader() && !ring.wakes_writer());
        ring.reader_waits();
        ring.writer_waits();
        assert_eq!([ring.wakes_reader(), ring.wakes_reader()], [true, false]);
        assert_eq!([ring.wakes_writer(), ring.wakes_writer()], [true, false]);
    }

    #[test]
    fn other_files_are_refused() {
        let file = File::open("/dev/null").expect("there");
        assert!(Ring::open(file.into()).is_err());
        let unsealed = memfd_create(c"other", MFdFlags::MFD_CLOEXEC).expect("memory");
        File::from(unsealed.try_clone().expect("a descriptor")).set_len(8192).expect("memory");
        assert!(Ring::open(unsealed).is_err());
    }
}
