//! A master that no longer leads: its epoch is lower than one that the node has met.

use limo_model::Epoch;

use crate::master::{Daemon, Master};

async fn master(address: &str, epoch: u64) -> Master {
    let mut master = Master::at(address).await;
    master.identity.epoch = Epoch(epoch);
    master
}

#[tokio::test]
async fn a_node_hangs_up_on_a_master_of_a_lower_epoch_also_after_its_restart() {
    let first = Master::new().await;
    let address = first.address();
    drop(first);
    let leader = master(&address, 5).await;
    let mut daemon = Daemon::start(&leader, &[]);
    drop(leader.welcome().await);
    drop(leader);
    let deposed = master(&address, 4).await;
    assert!(deposed.is_turned_down().await);
    daemon.kill();
    daemon.restart(&deposed);
    assert!(deposed.is_turned_down().await);
    drop(deposed);
    master(&address, 6).await.welcome().await;
}
