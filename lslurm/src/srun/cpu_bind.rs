//! `--cpu-bind` of srun.

use limo_client::Failure;
use limo_model::CpuBind;

/// Words about output, which change no binding.
const FLAGS: [&str; 4] = ["q", "quiet", "v", "verbose"];

/// Bindings that Limo does not have, and ignores.
const OTHERS: [&str; 7] = ["boards", "map_cpu", "mask_cpu", "rank", "rank_ldom", "map_ldom", "mask_ldom"];

/// Reads a value such as `verbose,cores`. Returns the binding, if it names one, and a warning about one that is ignored.
///
/// # Errors
/// If it has an unknown word.
pub fn read(value: &str) -> Result<(Option<CpuBind>, Option<String>), Failure> {
    let (mut bind, mut warning) = (None, None);
    let mut rest = value;
    while !rest.is_empty() {
        let (word, after) = rest.split_once(',').unwrap_or((rest, ""));
        let lower = word.to_ascii_lowercase();
        let name = lower.split_once(':').map_or(lower.as_str(), |(name, _)| name);
        match name {
            "no" | "none" => bind = Some(CpuBind::None),
            // The cores of Limo are the CPUs of the kernel.
            "core" | "cores" | "thread" | "threads" => bind = Some(CpuBind::Cores),
            "socket" | "sockets" => bind = Some(CpuBind::Sockets),
            "ldom" | "ldoms" => bind = Some(CpuBind::Numa),
            name if FLAGS.contains(&name) => {}
            name if OTHERS.contains(&name) => {
                warning = Some(format!("Limo ignores --cpu-bind={name}"));
                // Commas are part of its list.
                break;
            }
            _ => return Err(Failure::new(format_args!("unrecognized --cpu-bind argument \"{word}\""))),
        }
        rest = after;
    }
    Ok((bind, warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_have_the_words_of_srun() {
        let check = |value: &str, expected: Option<CpuBind>| {
            assert_eq!(read(value).expect(value), (expected, None), "{value}");
        };
        check("cores", Some(CpuBind::Cores));
        check("verbose,sockets", Some(CpuBind::Sockets));
        check("ldoms", Some(CpuBind::Numa));
        check("threads", Some(CpuBind::Cores));
        check("none", Some(CpuBind::None));
        check("q", None);
        let warning = Some("Limo ignores --cpu-bind=map_cpu".to_owned());
        assert_eq!(read("v,map_cpu:0,2").expect("accepted"), (None, warning));
        let refused = read("hyper").expect_err("unknown").message;
        assert_eq!(refused, "unrecognized --cpu-bind argument \"hyper\"");
    }
}
