//! Who outside is heard: tasks that bring the desk what they say. Decides nothing.

pub mod grid;
