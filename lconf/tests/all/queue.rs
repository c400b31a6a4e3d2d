//! `lconf queue up` and `down`.

use limo_fake::answer;
use limo_proto::{Answer, Change};

use crate::{answered, change, printed};

#[tokio::test]
async fn a_queue_is_taken_down_and_up() {
    for (word, is_down) in [("down", true), ("up", false)] {
        let (output, asked) = answered(&["queue", word, "short"], answer(Answer::Done)).await;
        let expected = change(Change::QueueState { queue: "short".into(), is_down });
        assert_eq!((output, asked), (printed(""), vec![expected]));
    }
}
