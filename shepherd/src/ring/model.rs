//! All interleavings of a writer and a reader of a ring, and all values that their loads may return: `loom` runs the code of
//! [`Ring`] on a model of its memory.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::memory::{Memory, Word};
use super::*;

/// Bytes of the ring: fewer than are written, so that the writer overwrites.
const SIZE: usize = 2;

/// Bytes that the writer writes.
const TEXT: &[u8] = b"abc";

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

/// The memory of both threads. A claim without order to the other thread's claim of a byte is an error.
struct Model {
    words: [AtomicU64; 5],
    claims: [UnsafeCell<()>; SIZE],
    bytes: std::cell::UnsafeCell<[u8; SIZE]>,
}

// SAFETY: loom runs one thread at a time, and reports claims of the bytes that are not ordered.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Memory for Arc<Model> {
    type Word = AtomicU64;

    fn size(&self) -> usize {
        SIZE
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        &self.words[place]
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.bytes.get().cast::<u8>().wrapping_add(place)
    }

    fn claim(&self, place: usize, length: usize, writes: bool) {
        for claim in &self.claims[place..place + length] {
            if writes { claim.with_mut(|_| ()) } else { claim.with(|_| ()) }
        }
    }
}

fn rings() -> (Ring<Arc<Model>>, Ring<Arc<Model>>) {
    let model = Arc::new(Model {
        words: std::array::from_fn(|_| AtomicU64::new(0)),
        claims: std::array::from_fn(|_| UnsafeCell::new(())),
        bytes: std::cell::UnsafeCell::new([0; SIZE]),
    });
    (Ring { memory: Arc::clone(&model) }, Ring { memory: model })
}

#[test]
fn bytes_arrive_once_and_in_order_in_all_interleavings() {
    loom::model(|| {
        let (mut writer, reader) = rings();
        let writes = thread::spawn(move || {
            let mut written = 0;
            while written < TEXT.len() {
                match writer.write(&TEXT[written..]) {
                    0 => thread::yield_now(),
                    count => written += count,
                }
            }
            writer.end();
        });
        let mut read = Vec::new();
        loop {
            let has_ended = reader.has_ended();
            let parts: Vec<u8> = reader.unread(read.len() as u64, SIZE).iter().flat_map(|part| part.to_vec()).collect();
            if parts.is_empty() {
                if has_ended {
                    break;
                }
                thread::yield_now();
            }
            read.extend(parts);
            reader.release(read.len() as u64);
        }
        assert_eq!(read, TEXT);
        // A panic of the other thread ends the test.
        writes.join().expect("it ends");
    });
}

#[test]
fn a_waiting_side_is_woken_or_sees_the_change_in_all_interleavings() {
    loom::model(|| {
        let (mut writer, reader) = rings();
        let writes = thread::spawn(move || {
            writer.write(b"a");
            writer.wakes_reader()
        });
        reader.reader_waits();
        let sees = reader.tail() > 0;
        // A panic of the other thread ends the test.
        assert!(writes.join().expect("it ends") || sees, "the reader waits for ever");
    });
    loom::model(|| {
        let (mut writer, reader) = rings();
        writer.write(b"ab");
        let reads = thread::spawn(move || {
            reader.release(1);
            reader.wakes_writer()
        });
        writer.writer_waits();
        let sees = writer.room() > 0;
        // A panic of the other thread ends the test.
        assert!(reads.join().expect("it ends") || sees, "the writer waits for ever");
    });
}
