//! News about the owner of the machine, for the loop.

use limo_node::Input;
use limo_owner::News;
use tokio::sync::mpsc;
use tracing::warn;

use crate::shell::Event;

/// Passes news to the loop. Returns false if the loop has ended.
pub fn told(events: &mpsc::Sender<Event>, news: News) -> bool {
    match news {
        News::There(is_there) => events.blocking_send(Event::Node(Input::Owner { is_there })).is_ok(),
        News::Failed { name, error } => {
            warn!(source = name, %error, "cannot tell if the owner is there; what was seen last holds");
            !events.is_closed()
        }
    }
}
