//! Machines: network namespaces of this host, joined by a bridge. Packets from one to another can
//! be dropped, in one direction or both.

use std::process::Command;

/// The network of all machines. This process has its last address.
const NETWORK: &str = "10.213.77";

const BRIDGE: &str = "evk-bridge";

/// Machines that each have an address of their own.
pub(crate) struct Machines {
    count: usize,
}

/// Runs a command that needs root. Returns true if it succeeds.
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
    /// Makes machines.
    pub(crate) fn start(count: usize) -> Self {
        // An earlier process that was killed may have left machines.
        drop(Self { count });
        let needs = "needs root, and ip and iptables: apt-get install iproute2 iptables";
        assert!(
            try_run(&format!("ip link add {BRIDGE} type bridge")),
            "{needs}"
        );
        assert!(try_run("iptables --version"), "{needs}");
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
        Self { count }
    }

    /// The address of a machine.
    pub(crate) fn host(number: usize) -> String {
        format!("{NETWORK}.{}", number + 1)
    }

    /// The command that runs a program on a machine.
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

    /// Drops what one machine sends to another.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        let (machine, host) = (name(to), Self::host(from));
        run(&format!(
            "ip netns exec {machine} iptables -A INPUT -s {host} -j DROP"
        ));
    }

    /// Stops dropping what machines receive.
    pub(crate) fn join(&self) {
        for number in 0..self.count {
            run(&format!("ip netns exec {} iptables -F", name(number)));
        }
    }

    /// Drops one of five packets that a machine sends.
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
