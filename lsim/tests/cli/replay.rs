//! Unreadable journals are refused. The end-to-end tests replay journals of live clusters.

use super::{folder, refused};

#[test]
fn no_journal() {
    let folder =
        folder(&[("text", "not a database, and longer than a header of SQLite would have to be to look like one")]);
    let none = "lsim: .: cannot read a journal: cannot open ./journal.db: error returned from database: (code: 14) unable to open database file";
    refused(folder.path(), "replay .", 1, none);
    refused(folder.path(), "what-if --from . --policy easy", 1, none);
    refused(
        folder.path(),
        "replay text",
        1,
        "lsim: text: cannot read a journal: text is damaged: error returned from database: (code: 26) file is not a database",
    );
}

#[test]
fn nothing_is_otherwise() {
    let folder = folder(&[]);
    let printed = super::lsim(folder.path(), "what-if --from .");
    assert!(printed.starts_with("exit 125") && printed.contains("--policy <NAME>|--part"), "{printed}");
}
