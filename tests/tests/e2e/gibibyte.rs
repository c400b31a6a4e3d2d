//! A gibibyte of random bytes passes through `lrun cat`.

use std::io::{Read, Write};
use std::thread;
use std::time::Instant;

use limo_tests::{Cluster, Dice, Digest, finish};

const SIZE: u64 = 1024 * 1024 * 1024;
const BLOCK: usize = 64 * 1024;

#[test]
fn a_gibibyte_comes_back_as_it_went() {
    let cluster = Cluster::of_one_node(1);
    let mut lrun = cluster.submitter().spawn_lrun(&["cat"]);
    let (mut stdin, mut stdout) = (lrun.stdin.take().expect("piped"), lrun.stdout.take().expect("piped"));
    let begin = Instant::now();
    let writer = thread::spawn(move || {
        let (mut digest, mut dice) = (Digest::default(), Dice::new(2018));
        let mut block = vec![0; BLOCK];
        while digest.length < SIZE {
            block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&dice.next_u64().to_le_bytes()));
            digest.take(&block);
            stdin.write_all(&block).expect("lrun reads");
        }
        digest
    });
    let (mut received, mut buffer) = (Digest::default(), vec![0; BLOCK]);
    loop {
        match stdout.read(&mut buffer).expect("lrun writes") {
            0 => break,
            count => received.take(&buffer[..count]),
        }
    }
    let sent = writer.join().expect("it writes");
    finish(lrun).succeeded();
    println!("{:.0} MB/s", received.length as f64 / 1e6 / begin.elapsed().as_secs_f64());
    assert_eq!((received.length, &received), (SIZE, &sent));
}
