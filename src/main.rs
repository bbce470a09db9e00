//! The `evenkeel` binary.

use std::ffi::OsString;
use std::process::ExitCode;

use evenkeel::allocator;
use evenkeel::cli::{self, Cli};
use tikv_jemallocator::Jemalloc;

/// jemalloc knows what it has given out. A counter around an allocator without such a figure costs a
/// streamed question a quarter of its time, because all threads write it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    use_small_pages();
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = cli::complete(&args) {
        return code;
    }
    match cli::parse::<Cli>(args) {
        Ok(mut cli) => {
            if let Some(config) = cli.server_config() {
                set_up_allocator();
                config.fixed.memory_in_use = Some(allocator::in_use);
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

/// Sets the allocator up for a server. It reads its settings before `main`, so the program starts
/// again with them in its environment, unless the user has set some.
fn set_up_allocator() {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;

        let mut args = std::env::args_os();
        if let (None, Ok(program), Some(name)) = (
            std::env::var_os(allocator::VARIABLE),
            std::env::current_exe(),
            args.next(),
        ) {
            let mut again = std::process::Command::new(program);
            again.env(allocator::VARIABLE, allocator::settings());
            // This returns only if it fails; the server runs even so.
            let _ = again.arg0(name).args(args).exec();
        }
    }
}
