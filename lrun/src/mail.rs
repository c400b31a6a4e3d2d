//! `lrun --mail-type`: events of the job that the master passes to the program of the site.

use limo_model::{Mail, MailEvents, check_mail_user};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job")]
pub struct MailArgs {
    /// Tell the user of events by the program of the site, e.g. BEGIN,END,FAIL or ALL
    #[arg(long, value_name = "EVENT,...", value_parser = str::parse::<MailEvents>, hide = true)]
    mail_type: Option<MailEvents>,
    /// Tell this address of them [default: the user's name]
    #[arg(long, value_name = "ADDRESS", value_parser = mail_user, hide = true)]
    mail_user: Option<String>,
}

impl MailArgs {
    /// Returns the events that are asked for, if there are any.
    pub fn mail(&self) -> Option<Box<Mail>> {
        let events = self.mail_type.filter(|events| !events.is_empty())?;
        Some(Box::new(Mail { events, user: self.mail_user.clone().unwrap_or_default() }))
    }
}

fn mail_user(text: &str) -> Result<String, String> {
    check_mail_user(text).map(|()| text.to_owned())
}
