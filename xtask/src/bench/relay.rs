//! The limit of stdio through Limo: the same bytes over loopback from this process to a relay, on to an end that sends them
//! back, and the same way home. Threads that block, the buffers of a pipe, no protocol.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// What one read of a full pipe gives.
const BUFFER: usize = 64 * 1024;

/// Megabytes a second that come back.
///
/// # Errors
/// Where loopback does not work.
pub fn mb_per_s(bytes: usize) -> Result<f64> {
    let (end, relay) = (listen()?, listen()?);
    let (end_address, relay_address) = (end.local_addr()?, relay.local_addr()?);
    let echo = thread::spawn(move || -> io::Result<()> {
        let (stream, _) = end.accept()?;
        pass(stream.try_clone()?, stream)
    });
    let between = thread::spawn(move || -> io::Result<()> {
        let (near, _) = relay.accept()?;
        let far = TcpStream::connect(end_address)?;
        far.set_nodelay(true)?;
        near.set_nodelay(true)?;
        let (back, home) = (far.try_clone()?, near.try_clone()?);
        let back = thread::spawn(move || pass(back, home));
        pass(near, far)?;
        back.join().unwrap_or(Ok(()))
    });
    let stream = TcpStream::connect(relay_address).context("cannot connect over loopback")?;
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let begin = Instant::now();
    let writer = thread::spawn(move || -> io::Result<()> {
        let piece = vec![b'x'; BUFFER];
        let mut left = bytes;
        while left > 0 {
            let count = left.min(BUFFER);
            out.write_all(&piece[..count])?;
            left -= count;
        }
        out.shutdown(std::net::Shutdown::Write)
    });
    let mut came = 0;
    let (mut stream, mut buffer) = (stream, vec![0; BUFFER]);
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => came += count,
        }
    }
    let took = begin.elapsed().as_secs_f64();
    for thread in [writer, between, echo] {
        thread.join().unwrap_or(Ok(())).context("the relay broke")?;
    }
    ensure!(came == bytes, "{came} of {bytes} bytes came back");
    Ok(bytes as f64 / 1e6 / took)
}

fn listen() -> Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")
}

/// Until the end, which is passed on.
fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(std::net::Shutdown::Write),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_comes_back() {
        assert!(super::mb_per_s(1_000_001).expect("loopback") > 0.0);
    }
}
