//! `lrun --account` and `--qos`: the project to which a job belongs, and its quality of service.

use limo_model::check_name;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accounting")]
pub struct AccountingArgs {
    /// Account to which the job belongs [default: your first account, or the site's default]
    #[arg(short = 'A', long, value_name = "NAME", env = "LIMO_ACCOUNT", value_parser = account, hide = true)]
    pub account: Option<String>,
    /// QOS of the job, with a priority and limits of its own [default: the site's default]
    #[arg(long, value_name = "NAME", env = "LIMO_QOS", value_parser = qos, hide = true)]
    pub qos: Option<String>,
}

fn account(text: &str) -> Result<String, String> {
    check_name("account", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn qos(text: &str) -> Result<String, String> {
    check_name("QOS", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}
