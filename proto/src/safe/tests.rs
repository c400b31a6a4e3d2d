//! Safe places, and places that another user could change.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use limo_requirements::{Requirement, skip};

use super::*;

const STRANGER: u32 = 65_533;

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("own file");
}

/// Gives a file to another user; returns false if this process is not allowed to.
fn given_away(path: &Path) -> bool {
    let given = chown(path, Some(STRANGER), None).is_ok();
    if !given {
        skip(Requirement::Root, "only root can give a file away");
    }
    given
}

fn refused(path: &Path) -> String {
    own_directory(path).expect_err("refused").to_string()
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let dir = place();
    let state = dir.path().join("a/b");
    own_directory(&state).expect("a private place");
    own_directory(&state).expect("again");
    assert_eq!(fs::metadata(&state).expect("made").mode() & 0o7777, 0o700);
    fs::write(state.join("file"), "").expect("written");
    own_directory(&state).expect("with a file in it");
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let dir = place();
    let state = dir.path().join("state");
    own_directory(&state).expect("a private place");
    for open in [0o770, 0o707, 0o1777] {
        mode(&state, open);
        let expected = format!("(mode {open:04o}): run `chmod go-w {}`", state.display());
        assert!(refused(&state).ends_with(&expected), "{}", refused(&state));
    }
    mode(&state, 0o755);
    own_directory(&state).expect("others may look");
    mode(dir.path(), 0o777);
    assert!(refused(&state).contains("can be written by other users (mode 0777)"), "a parent counts, too");
    mode(dir.path(), 0o1777);
    own_directory(&state).expect("a sticky parent keeps what is ours");
}

#[test]
fn files_of_other_users_are_refused() {
    let dir = place();
    let state = dir.path().join("parent/state");
    own_directory(&state).expect("a private place");
    let file = state.join("file");
    fs::write(&file, "").expect("written");
    if !given_away(&file) {
        return;
    }
    assert!(
        refused(&state).contains(&format!("file belongs to uid {STRANGER}, who could change")),
        "{}",
        refused(&state)
    );
    fs::remove_file(&file).expect("root may");
    given_away(&state);
    assert!(refused(&state).contains(&format!("state belongs to uid {STRANGER}")), "{}", refused(&state));
    chown(&state, Some(0), None).expect("root may");
    own_directory(&state).expect("ours again");
    given_away(state.parent().expect("it has one"));
    assert!(refused(&state).contains(&format!("parent belongs to uid {STRANGER}")), "{}", refused(&state));
}

#[test]
fn links_are_followed_on_the_way_and_refused_inside() {
    let dir = place();
    let (state, way) = (dir.path().join("state"), dir.path().join("way"));
    own_directory(&state).expect("a private place");
    symlink("../".to_owned() + dir.path().file_name().and_then(|name| name.to_str()).expect("text") + "/state", &way)
        .expect("a link");
    own_directory(&way).expect("an own link leads to an own directory");
    let inside = state.join("journal.db");
    symlink("/etc/passwd", &inside).expect("a link");
    assert!(refused(&way).contains("journal.db is a symbolic link inside a state directory"), "{}", refused(&way));
    fs::remove_file(&inside).expect("own link");
    let circle = dir.path().join("circle");
    symlink(&circle, &circle).expect("a link");
    assert!(refused(&circle).contains("more than 40 symbolic links"), "{}", refused(&circle));
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(refused(&file).ends_with("is not a directory"));
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let dir = place();
    let (state, way) = (dir.path().join("state"), dir.path().join("way"));
    own_directory(&state).expect("a private place");
    symlink(&state, &way).expect("a link");
    if std::os::unix::fs::lchown(&way, Some(STRANGER), None).is_err() {
        return skip(Requirement::Root, "only root can give a link away");
    }
    mode(dir.path(), 0o1777);
    assert!(refused(&way).contains(&format!("way belongs to uid {STRANGER}")), "{}", refused(&way));
}

#[test]
fn the_directory_of_a_socket_belongs_to_a_trusted_user() {
    let dir = place();
    let socket = dir.path().join("master.sock");
    safe_socket(&socket, &Trusted::own()).expect("an own directory");
    let missing = safe_socket(&dir.path().join("none/master.sock"), &Trusted::own()).expect_err("missing");
    let UnsafePlace::Io { source, .. } = missing else { panic!("{missing}") };
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
    for open in [0o777, 0o1777] {
        mode(dir.path(), open);
        let error = safe_socket(&socket, &Trusted::own()).expect_err("anybody could bind there").to_string();
        assert!(error.contains("can be written by other users"), "{error}");
    }
    mode(dir.path(), 0o755);
    if !given_away(dir.path()) {
        return;
    }
    let error = safe_socket(&socket, &Trusted::own()).expect_err("of a stranger").to_string();
    assert!(error.ends_with("it must belong to root (uid 0)"), "{error}");
    let service = Trusted::with_service_user(Some(&STRANGER.to_string())).expect("a user");
    safe_socket(&socket, &service).expect("the stranger is the service user");
}
