//! Machines: network namespaces of this one, joined by a bridge. What one sends to another can
//! be dropped, in one way or both.

use std::process::Command;

/// The network of all of them; this process is its last address.
const NETWORK: &str = "10.213.77";

const BRIDGE: &str = "evk-bridge";

/// Machines of which each is reached at an address of its own.
pub(crate) struct Machines {
    count: usize,
}

/// Runs a command that root may; whether it succeeds.
fn try_run(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let program = words.next().expect("a program");
    let ran = Command::new(program).args(words).output();
    ran.is_ok_and(|it| it.status.success())
}

fn run(line: &str) {
    assert!(try_run(line), "{line}");
}

fn name(number: usize) -> String {
    format!("evk-{number}")
}

impl Machines {
    /// Starts some; `None` where this process may not.
    pub(crate) fn start(count: usize) -> Option<Self> {
        // Left by an earlier process that was killed.
        drop(Self { count });
        if !try_run(&format!("ip link add {BRIDGE} type bridge")) {
            return None;
        }
        run(&format!("ip addr add {NETWORK}.254/24 dev {BRIDGE}"));
        run(&format!("ip link set {BRIDGE} up"));
        for number in 0..count {
            let (machine, host) = (name(number), Self::host(number));
            run(&format!("ip netns add {machine}"));
            run(&format!(
                "ip link add {machine} type veth peer name eth0 netns {machine}"
            ));
            run(&format!("ip link set {machine} master {BRIDGE} up"));
            let inside = format!("ip -n {machine}");
            run(&format!("{inside} addr add {host}/24 dev eth0"));
            run(&format!("{inside} link set eth0 up"));
            run(&format!("{inside} link set lo up"));
        }
        Some(Self { count })
    }

    /// Where one is reached.
    pub(crate) fn host(number: usize) -> String {
        format!("{NETWORK}.{}", number + 1)
    }

    /// A program, to be run on one.
    pub(crate) fn on(&self, number: usize, program: &Command) -> Command {
        assert!(number < self.count, "there is one");
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &name(number)])
            .arg(program.get_program())
            .args(program.get_args());
        for (variable, value) in program.get_envs() {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        command
    }

    /// Drops what one sends to another.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        let (machine, host) = (name(to), Self::host(from));
        run(&format!(
            "ip netns exec {machine} iptables -A INPUT -s {host} -j DROP"
        ));
    }

    /// Drops nothing more.
    pub(crate) fn join(&self) {
        for number in 0..self.count {
            run(&format!("ip netns exec {} iptables -F INPUT", name(number)));
        }
    }

    /// Drops one of five packets that one sends.
    pub(crate) fn lose_some(&self, number: usize) {
        let machine = name(number);
        run(&format!(
            "ip netns exec {machine} iptables -A OUTPUT \
             -m statistic --mode random --probability 0.2 -j DROP"
        ));
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for number in 0..self.count {
            try_run(&format!("ip netns del {}", name(number)));
            try_run(&format!("ip link del {}", name(number)));
        }
        try_run(&format!("ip link del {BRIDGE}"));
    }
}
