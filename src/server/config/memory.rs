//! The memory that the process may use.

/// The least that the account allows by default, however small the machine.
const FLOOR: usize = 64 << 20;

/// The default limit of the memory that clients can make the server hold: three quarters of the
/// memory. The last quarter is for the waste of allocators, stacks of threads and the program
/// itself. There is no limit if the size of the memory is unknown.
pub(super) fn usual_limit() -> usize {
    let Some(there_is) = limit().or_else(machine) else {
        return usize::MAX;
    };
    let share = usize::try_from(there_is / 4 * 3).unwrap_or(usize::MAX);
    share.max(FLOOR)
}

/// Returns the memory that the process's control groups allow, of version 2 or 1, if they have a
/// limit.
#[cfg(target_os = "linux")]
pub fn limit() -> Option<u64> {
    use std::path::Path;

    let read = |file: &Path| {
        let text = std::fs::read_to_string(file).ok()?;
        let limit = text.trim().parse::<u64>().ok()?;
        // Version 1 reports a larger value when there is no limit.
        (limit < i64::MAX as u64 / 2).then_some(limit)
    };
    // The limits of the groups above a group bind it, too. In a container the process's group is
    // the root.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(own.unwrap_or_default());
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| read(&group.join("memory.max")));
    limits
        .chain(read(&root.join("memory/memory.limit_in_bytes")))
        .min()
}

/// Returns no limit: control groups are unknown on this system.
#[cfg(not(target_os = "linux"))]
pub fn limit() -> Option<u64> {
    None
}

/// The memory of the machine.
#[cfg(target_os = "linux")]
fn machine() -> Option<u64> {
    use procfs::Current;
    Some(procfs::Meminfo::current().ok()?.mem_total)
}

/// The memory of the machine: unknown on this system.
#[cfg(not(target_os = "linux"))]
fn machine() -> Option<u64> {
    None
}
