//! Jobs per second of a session over loopback with the application `dummy`, next to the figure of limo-2018:
//! `cargo bench -p lprof`.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use lprof::apps;
use lprof::session::wire::StreamInit;
use lprof::session::{executor, generator};
use lprof::workload::format::{MAX_PACKAGE, Reader, Writer};
use lprof::workload::matrix::Matrices;
use lprof::workload::recipe::Recipe;

/// Jobs of one session.
const JOBS: usize = 500_000;

/// Matrices per second of m16_i0 in limo-2018, Table 4.3: 2.22 million in 61.3 s, limited by a network of 1 Gbit/s.
const THESIS: f64 = 36_200.0;

fn main() {
    let recipe: Recipe = "m16_i0".parse().expect("one of the twenty");
    let mut matrices = Matrices::new(1);
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text);
    for job in recipe.jobs(1).take(JOBS) {
        let content: Vec<u8> = matrices.draw(job.dimension()).iter().flat_map(|value| value.to_le_bytes()).collect();
        // Without delays, the rate is that of the session.
        writer.package(Duration::ZERO, &content).expect("memory takes it");
    }
    for _ in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a generator");
            executor::greet(&stream).expect("it listens");
            executor::run(&stream, &stream, apps::ALL, MAX_PACKAGE).expect("a session")
        });
        let stream = TcpStream::connect(address).expect("it listens");
        let init = StreamInit::new(0, "bench").expect("a short name");
        let input = stream.try_clone().expect("a copy");
        let sent = generator::run(&mut Reader::new(text.as_slice(), MAX_PACKAGE), &init, input, &stream);
        let sent = sent.expect("a session");
        server.join().expect("it ends");
        let rate = sent.packages as f64 / sent.duration.as_secs_f64();
        println!(
            "m16_i0 over loopback: {:.0} jobs/s, {:.0} MB/s; limo-2018: {THESIS:.0} jobs/s; ratio {:.1}",
            rate,
            sent.bytes as f64 / sent.duration.as_secs_f64() / 1e6,
            rate / THESIS
        );
    }
}
