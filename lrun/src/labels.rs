//! `lrun --comment` and `--wckey`: texts that the job keeps, and on which nothing depends.

use limo_model::{Labels, check_label};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job")]
pub struct LabelArgs {
    /// Keep this text with the job; shown by `lq show` and sacct
    #[arg(long, value_name = "TEXT", value_parser = label, hide = true)]
    comment: Option<String>,
    /// Keep this key of the site with the job
    #[arg(long, value_name = "KEY", value_parser = label, hide = true)]
    wckey: Option<String>,
}

impl LabelArgs {
    /// Returns the texts, if there are any.
    pub fn labels(&self) -> Option<Box<Labels>> {
        let labels = Labels { comment: self.comment.clone(), wckey: self.wckey.clone() };
        (labels != Labels::default()).then(|| Box::new(labels))
    }
}

fn label(text: &str) -> Result<String, String> {
    check_label(text).map(|()| text.to_owned())
}
