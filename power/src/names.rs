//! Names of this machine's hardware, by which profiles are known.

use std::fs;
use std::thread;

/// Longest hardware name from a processor's model name, in bytes; names may have up to 64.
const HARDWARE_LENGTH: usize = 48;

/// Returns the hardware name of this machine's CPU.
pub fn processor() -> String {
    hardware_name(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Returns the number of cores that this process may use.
pub fn cores() -> u32 {
    thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Converts `NVIDIA H200` to `nvidia-h200`.
pub fn gpu_name(name: &str) -> String {
    dashed(&name.to_lowercase()).unwrap_or_else(|| "gpu".to_owned())
}

/// Converts `Intel(R) Xeon(R) CPU E3-1275 v5 @ 3.60GHz` to `intel-xeon-e3-1275-v5`; without a model name returns the
/// architecture.
fn hardware_name(processors: &str) -> String {
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, v)| v));
    let model = model.unwrap_or_default().to_lowercase();
    let model = model.split('@').next().unwrap_or_default().replace("(r)", " ").replace("(tm)", " ");
    dashed(&model).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Makes a hardware name of the words of a product's name; `None` without words.
fn dashed(model: &str) -> Option<String> {
    let mut words: Vec<&str> = model
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-')))
        .filter(|word| !word.is_empty() && !matches!(*word, "cpu" | "processor"))
        .collect();
    while words.iter().map(|word| word.len() + 1).sum::<usize>() > HARDWARE_LENGTH {
        words.pop();
    }
    (!words.is_empty()).then(|| words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names() {
        let check = |model: &str, expected: &str| {
            assert_eq!(hardware_name(&format!("processor\t: 0\nmodel name\t: {model}\n")), expected);
        };
        check("Intel(R) Xeon(R) CPU E3-1275 v5 @ 3.60GHz", "intel-xeon-e3-1275-v5");
        check("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763-64-core");
        check("x (y/z) ??", "x-y-z");
        assert_eq!(hardware_name("no model here"), std::env::consts::ARCH);
        assert_eq!(gpu_name("NVIDIA A100-SXM4-80GB"), "nvidia-a100-sxm4-80gb");
        assert_eq!(gpu_name(" "), "gpu");
        assert!(hardware_name(&format!("model name: {}", "abcd ".repeat(40))).len() <= 64);
    }
}
