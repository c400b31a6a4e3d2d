//! Files that nobody wrote.

use super::*;

#[test]
fn mutated_files_are_read_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lslave.toml");
    // The examples in the comments of a file are settings, too.
    let all = include_str!("../../../deploy/etc/lslave.toml");
    let settings = all.lines().filter(|line| !line.starts_with("# "));
    let all: String = settings.map(|line| line.trim_start_matches('#').to_owned() + "\n").collect();
    let seeds = [
        all.as_str(),
        include_str!("../../../deploy/examples/power-limited-lslave.toml"),
        include_str!("../../../deploy/examples/pool-lslave.toml"),
        "owner = \"logind\"\nowner_away_after = \"10min\"\n[idle]\ndraw = \"45 W\"\noff = \"suspend\"\nwake = \"command\"\n",
        "hardware = \"hardware.toml\"\nmachine = \"m\"\ncpus = 4\n[reboot]\ncommand = [\"/sbin/reboot\"]\n",
    ];
    let words = [
        "\"1e99 W\"",
        "\"-1s\"",
        "9223372036854775807",
        "powercap+nvml",
        "mcp39f511:/dev/ttyACM0",
        "nan",
        "\"\"",
        "= [",
    ];
    limo_mutations::read_mutated(&seeds, &words, |file| {
        std::fs::write(&path, file).expect("written");
        let words = ["lslave", "--state-dir", "/s", "--master", "unix:/m", "--config"].map(Into::into);
        let arguments = Arguments::try_parse_from(words.into_iter().chain([path.clone().into_os_string()]));
        Settings::load(&arguments.expect("arguments")).is_ok()
    });
}
