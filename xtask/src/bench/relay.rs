//! Upper bounds for the speed of stdio through Limo: the same bytes go over loopback from this process through a
//! relay to a far end, and back the same way. Uses blocking threads, buffers of the size of a pipe, and no protocol.

use std::io::{self, PipeWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Bytes of one read from a full pipe.
const BUFFER: usize = 64 * 1024;

/// Returns the megabytes per second over two hops and two hops back.
///
/// # Errors
/// If loopback does not work.
pub fn mb_per_s(bytes: usize) -> Result<f64> {
    let (end, relay) = relayed()?;
    let echo = thread::spawn(move || -> io::Result<()> {
        let (stream, _) = end.accept()?;
        pass(stream.try_clone()?, stream)
    });
    let stream = TcpStream::connect(relay).context("cannot connect over loopback")?;
    stream.set_nodelay(true)?;
    let rate = there_and_back(bytes, stream.try_clone()?, stream)?;
    joined(echo)?;
    Ok(rate)
}

/// Returns the same speed with `cat` between two pipes at the far end, as in a job, and a third pipe back, as from
/// `lrun`.
///
/// # Errors
/// If loopback or `cat` do not work.
pub fn piped_mb_per_s(bytes: usize) -> Result<f64> {
    let (end, relay) = relayed()?;
    let far = thread::spawn(move || -> io::Result<()> {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdin, stdout) = cat.stdin.take().zip(cat.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        let (stream, _) = end.accept()?;
        stream.set_nodelay(true)?;
        let there = stream.try_clone()?;
        let there = thread::spawn(move || pass(there, stdin));
        pass(stdout, stream)?;
        cat.wait()?;
        joined(there)
    });
    let stream = TcpStream::connect(relay).context("cannot connect over loopback")?;
    stream.set_nodelay(true)?;
    let ((back, to_here), home) = (io::pipe()?, stream.try_clone()?);
    let home = thread::spawn(move || pass(home, to_here));
    let rate = there_and_back(bytes, stream, back)?;
    joined(far)?;
    joined(home)?;
    Ok(rate)
}

/// Starts a relay for one connection. Returns the listener of the far end, and the address of the relay.
fn relayed() -> Result<(TcpListener, std::net::SocketAddr)> {
    let (end, relay) = (listen()?, listen()?);
    let (end_address, relay_address) = (end.local_addr()?, relay.local_addr()?);
    // The thread ends with its connections. If one breaks, bytes are missing at the end.
    thread::spawn(move || -> io::Result<()> {
        let (near, _) = relay.accept()?;
        let far = TcpStream::connect(end_address)?;
        far.set_nodelay(true)?;
        near.set_nodelay(true)?;
        let (back, home) = (far.try_clone()?, near.try_clone()?);
        let back = thread::spawn(move || pass(back, home));
        pass(near, far)?;
        joined(back)
    });
    Ok((end, relay_address))
}

/// Writes bytes to `out` and reads the same number from `back`; returns megabytes per second.
fn there_and_back(bytes: usize, mut out: TcpStream, mut back: impl Read) -> Result<f64> {
    let begin = Instant::now();
    let writer = thread::spawn(move || -> io::Result<()> {
        let piece = vec![b'x'; BUFFER];
        let mut left = bytes;
        while left > 0 {
            let count = left.min(BUFFER);
            out.write_all(&piece[..count])?;
            left -= count;
        }
        out.end()
    });
    let came = read_all(&mut back)?;
    let took = begin.elapsed().as_secs_f64();
    joined(writer)?;
    ensure!(came == bytes, "{came} of {bytes} bytes came back");
    Ok(bytes as f64 / 1e6 / took)
}

fn listen() -> Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")
}

/// Reads to the end; returns the number of bytes.
///
/// # Errors
/// If they cannot be read.
pub fn read_all(from: &mut impl Read) -> io::Result<usize> {
    let (mut came, mut buffer) = (0, vec![0; BUFFER]);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(came),
            count => came += count,
        }
    }
}

fn joined(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the relay panicked")))
}

/// A stream whose end can be signalled.
trait End: Write + Sized {
    fn end(self) -> io::Result<()>;
}

impl End for TcpStream {
    fn end(self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl End for PipeWriter {
    fn end(self) -> io::Result<()> {
        Ok(())
    }
}

impl End for ChildStdin {
    fn end(self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies until the end of input, and signals the end.
fn pass(mut from: impl Read, mut to: impl End) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.end(),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_comes_back() {
        assert!(super::mb_per_s(1_000_001).expect("loopback") > 0.0);
        assert!(super::piped_mb_per_s(1_000_001).expect("loopback and cat") > 0.0);
    }
}
