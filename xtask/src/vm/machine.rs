//! One boot: qemu by emulation, the console on one serial line and the answers on another.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::CannotTry;
use crate::vm::kernel::Kernel;
use crate::vm::steps::{self, Scenario, UserNamespaces};

/// A boot takes seconds and a step a few more; a machine that is up longer hangs.
const UPTIME_MAX: Duration = Duration::from_mins(10);

/// Every attack there is, emulated, or every figure.
const LONG_UPTIME_MAX: Duration = Duration::from_hours(2);

/// A step that takes longer is killed.
const STEP_MAX: Duration = Duration::from_secs(90);
const LONG_STEP_MAX: Duration = Duration::from_secs(7000);

/// Answer of one step.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: usize,
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A machine that is switched off when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots `scenario` and collects its answers.
pub(crate) fn boot(
    kernel: &Kernel,
    image: &Path,
    scenario: &Scenario,
    dir: &Path,
) -> Result<Vec<Answer>, CannotTry> {
    let name = format!("{}-{}", kernel.release, scenario.name);
    let console = dir.join(format!("{name}.console"));
    let answers = dir.join(format!("{name}.answers"));
    let _ = std::fs::remove_file(&answers);
    let (uptime_max, step_max) = match scenario.duration {
        steps::Duration::Short => (UPTIME_MAX, STEP_MAX),
        steps::Duration::Long => (LONG_UPTIME_MAX, LONG_STEP_MAX),
    };
    // `main.sh` reads these.
    let line = format!(
        "console=ttyS0 quiet panic=-1 ringfence={} ringfence.userns={} ringfence.seconds={} {}",
        scenario.name,
        if scenario.user_namespaces == UserNamespaces::Usable { "usable" } else { "used-up" },
        step_max.as_secs(),
        scenario.kernel_line
    );
    let child = Command::new("qemu-system-x86_64")
        .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "3072"])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .arg("-kernel")
        .arg(&kernel.vmlinuz)
        .arg("-initrd")
        .arg(image)
        .args(["-append", &line])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .arg("-serial")
        .arg(format!("file:{}", answers.display()))
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start qemu-system-x86_64: {e}"))?;
    let mut machine = Machine(child);
    let started = Instant::now();
    loop {
        match machine.0.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("qemu: {status}")),
            Ok(None) if started.elapsed() < uptime_max => {
                std::thread::sleep(Duration::from_millis(50));
            }
            // What it answered until now is judged; the rest is missing.
            Ok(None) => break,
            Err(e) => return Err(format!("cannot wait for qemu: {e}")),
        }
    }
    let text = std::fs::read_to_string(&answers)
        .map_err(|e| format!("cannot read `{}`: {e}", answers.display()))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// `NUMBER CODE STDOUT STDERR`, the last two in base64 and `-` when empty.
fn parse(line: &str) -> Option<Answer> {
    let mut words = line.trim().split(' ');
    let number = words.next()?.parse().ok()?;
    let code = words.next()?.parse().ok()?;
    let stdout = decode(words.next()?)?;
    let stderr = decode(words.next()?)?;
    Some(Answer { number, code, stdout, stderr })
}

fn decode(word: &str) -> Option<String> {
    if word == "-" {
        return Some(String::new());
    }
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::new();
    for chunk in word.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0u32;
        for c in chunk {
            bits = bits << 6 | u32::from(value(*c)?);
        }
        bits <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_four_words() {
        let answer = parse("3 124 aGVsbG8K -").unwrap();
        assert_eq!((answer.number, answer.code), (3, 124));
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("hello\n", ""));
        assert_eq!(decode("YQ=="), Some("a".into()));
        assert_eq!(decode("YWI="), Some("ab".into()));
        assert!(parse("[    0.1] noise").is_none());
    }
}
