//! The `evenkeel` binary.

use std::ffi::OsString;
use std::process::ExitCode;

use cap::Cap;
use evenkeel::cli::{self, Cli};
use mimalloc::MiMalloc;

/// With mimalloc a feed takes a third less CPU than with the system's allocator. What it has given
/// out is counted, because its own figures never fall: they include what it has returned.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

fn main() -> ExitCode {
    use_small_pages();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = cli::complete(&args) {
        return code;
    }
    match cli::parse::<Cli>(args) {
        Ok(mut cli) => {
            if let Some(config) = cli.server_config() {
                return_memory_at_once();
                config.fixed.memory_in_use = Some(|| ALLOCATOR.allocated());
            }
            cli.run()
        }
        Err(error) => ExitCode::from(error.report()),
    }
}

/// Keeps memory in pages of 4 KiB. The allocator asks Linux for pages of 2 MiB. The system clears a
/// whole page as soon as a byte of it is used, so thousands of half-sent messages would take
/// gigabytes and most of the processors' time. A large snapshot takes a fifth less memory in small
/// pages, and 3 % more time to load.
fn use_small_pages() {
    // A system without large pages refuses the call. No harm is done.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Makes the allocator return memory as soon as it is free. By default the allocator keeps memory
/// for a second, and then returns all of it at once, on the thread that asks next. With gigabytes,
/// the callers of that thread wait. The allocator reads its settings before `main`, so the program
/// starts again with this setting in its environment, unless the user has set it.
fn return_memory_at_once() {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;

        const DELAY: &str = "MIMALLOC_PURGE_DELAY";
        let mut args = std::env::args_os();
        if let (None, Ok(program), Some(name)) = (
            std::env::var_os(DELAY),
            std::env::current_exe(),
            args.next(),
        ) {
            let mut again = std::process::Command::new(program);
            // This returns only if it fails; the server runs even so.
            let _ = again.arg0(name).args(args).env(DELAY, "0").exec();
        }
    }
}
