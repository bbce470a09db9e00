//! Servers with settings that no flag sets: low limits, short timeouts. The test program runs itself as such a
//! server, so that the product knows nothing of it.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use evenkeel::account::Freshness;
use evenkeel::allocator;
use evenkeel::cli::{self, Cli};
use evenkeel::limits::{Limit, Limits};
use evenkeel::server::config::FixedSettings;

/// The name of the test that is the server, in the root of a test program that uses this.
pub const SERVER: &str = "server_with_fixed_settings";

/// Defines the test that is the server. Its argument is what the allocator of the program has given out, if the
/// program counts that.
#[macro_export]
macro_rules! server_with_fixed_settings {
    (@ $in_use:expr) => {
        #[test]
        #[ignore = "a server, which other tests start"]
        fn server_with_fixed_settings() -> std::process::ExitCode {
            $crate::fixed::serve($in_use)
        }
    };
    () => {
        $crate::server_with_fixed_settings!(@ None);
    };
    ($in_use:expr) => {
        $crate::server_with_fixed_settings!(@ Some($in_use));
    };
}

/// A setting without a flag, to which a text gives a value.
enum Setting {
    Limit(Limit),
    ReservationTtl,
    Duration(fn(&mut FixedSettings) -> &mut Duration),
    Count(fn(&mut FixedSettings) -> &mut usize),
}

/// The setting that `flag` would set if it were one.
fn setting(flag: &str) -> Option<Setting> {
    let name = flag.strip_prefix("--")?;
    if let Some(limit) = Limit::named(name) {
        return (!limit.row().settable).then_some(Setting::Limit(limit));
    }
    Some(match name {
        "max-reservation-ttl" => Setting::ReservationTtl,
        "receive-timeout" => Setting::Duration(|fixed| &mut fixed.receive_timeout),
        "send-timeout" => Setting::Duration(|fixed| &mut fixed.send_timeout),
        "handshake-timeout" => Setting::Duration(|fixed| &mut fixed.handshake_timeout),
        "keepalive-interval" => Setting::Duration(|fixed| &mut fixed.keepalive_interval),
        "keepalive-timeout" => Setting::Duration(|fixed| &mut fixed.keepalive_timeout),
        "view-idle" => Setting::Duration(|fixed| &mut fixed.view_idle),
        "reload-interval" => Setting::Duration(|fixed| &mut fixed.reload_interval),
        "metrics-snapshots" => Setting::Count(|fixed| &mut fixed.metrics_snapshots),
        "decision-log-max-bytes" => Setting::Count(|fixed| &mut fixed.decision_log_bytes),
        "decision-log-max-files" => Setting::Count(|fixed| &mut fixed.decision_log_files),
        _ => return None,
    })
}

impl Setting {
    fn set(&self, text: &str, limits: &mut Limits, fixed: &mut FixedSettings) {
        let duration = || humantime::parse_duration(text).expect("a duration");
        let count = || text.parse().expect("a number");
        match self {
            Self::Limit(limit) => limits.set(*limit, count()),
            Self::ReservationTtl => limits.max_reservation_ttl = duration(),
            Self::Duration(of) => *of(fixed) = duration(),
            Self::Count(of) => *of(fixed) = count(),
        }
    }
}

/// The command that runs this program as the server of a `serve` command with settings that have no flag; `None` if
/// it has none.
pub(crate) fn command_of(serve: &Command) -> Option<Command> {
    let mut args = serve.get_args().filter_map(|arg| arg.to_str());
    args.any(|arg| setting(arg).is_some()).then_some(())?;
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", SERVER, "--ignored", "--nocapture", "--"]);
    command.args(serve.get_args());
    // As the program has it for itself.
    command.env(allocator::VARIABLE, allocator::settings());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = serve.get_current_dir() {
        command.current_dir(directory);
    }
    Some(command)
}

/// Runs the server that [`command_of`] describes. Does nothing if no test has started this program.
pub fn serve(memory_in_use: Option<fn(Freshness) -> usize>) -> ExitCode {
    let given = std::env::args_os().skip_while(|arg| arg != "--");
    let mut given = given.skip(1).peekable();
    if given.peek().is_none() {
        return ExitCode::SUCCESS;
    }
    // As the program does.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let mut args = vec![OsString::from("evenkeel")];
    let mut settings = Vec::new();
    while let Some(arg) = given.next() {
        match arg.to_str().and_then(setting) {
            Some(setting) => settings.push((setting, given.next().expect("a value"))),
            None => args.push(arg),
        }
    }
    let mut cli = match cli::parse::<Cli>(args) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(error.report()),
    };
    let config = cli.server_config().expect("a command `serve`");
    config.fixed.memory_in_use = memory_in_use;
    for (setting, value) in settings {
        let value = value.to_str().expect("text");
        setting.set(value, &mut config.limits, &mut config.fixed);
    }
    cli.run()
}
