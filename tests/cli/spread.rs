//! `evenkeel spread`, in this process and over a server.

use crate::evenkeel::Desk;
use crate::process::Server;

const AFTER_OUTAGE: &str = include_str!("../../examples/three-zones/after-outage.yaml");

fn desk() -> Desk {
    Desk::new().file("cluster.yaml", AFTER_OUTAGE)
}

#[test]
fn violators_come_worst_first() {
    let answer = desk().run("spread --load cluster.yaml");
    let expected = "\
snapshot \"default\", revision 1
violating: 2 of 3 workloads

NAMESPACE  WORKLOAD           PODS  OVER                                                    SKEW   MOST       FEWEST
shop       Deployment/web     5     topology.kubernetes.io/zone, max skew 1, DoNotSchedule  3 > 1  zone-b 3   zone-a 0
shop       StatefulSet/cache  2     kubernetes.io/hostname, max skew 1, ScheduleAnyway      2 > 1  node-b1 2  node-c1 0
";
    assert_eq!((answer.code, answer.out.as_str()), (1, expected));
}

#[test]
fn one_workload_has_a_bar_per_domain() {
    let expected = "\
snapshot \"default\", revision 1

Deployment/web, namespace shop: 5 pods
  over topology.kubernetes.io/zone, max skew 1, DoNotSchedule
    counts   pods with app=web
    skew     3 > 1
    minimum  0
    DOMAIN  PODS  SKEW  NODES  SPREAD
    zone-b  3     3     2      ██████│████████████
    zone-c  2     2     1      ██████│██████
    zone-a  0     0     1      ······│
";
    for kind in ["deployment", "Deployment", "deploy"] {
        let answer = desk().run(&format!(
            "spread -n shop --workload {kind}/web --load cluster.yaml"
        ));
        assert_eq!((answer.code, answer.out.as_str()), (1, expected));
    }
}

#[test]
fn names_and_exit_codes() {
    let cases = [
        ("", 1, "Deployment/shop/web\nStatefulSet/shop/cache\n"),
        ("-n default", 0, ""),
        ("-n shop --workload sts/db", 0, "StatefulSet/shop/db\n"),
        (
            "--by topology.kubernetes.io/zone",
            0,
            "Deployment/shop/web\nStatefulSet/shop/cache\nStatefulSet/shop/db\n",
        ),
        ("--workload sts/db", 2, ""),
        ("--workload sts/shop/db", 0, "StatefulSet/shop/db\n"),
        ("-n shop --workload db", 2, ""),
        ("--workload sts/db --selector app=db", 2, ""),
        ("--by no/key/at/all", 2, ""),
    ];
    for (flags, code, names) in cases {
        let answer = desk().run(&format!("spread {flags} --load cluster.yaml -o name"));
        assert_eq!((answer.code, answer.out.as_str()), (code, names), "{flags}");
    }
}

#[test]
fn a_server_answers_the_same() {
    let server = Server::start(&[]);
    let (asking, alone) = (desk().with_server(server.url()), desk());
    asking.run("load cluster.yaml").expect(0);
    let questions = [
        "",
        "-o wide",
        "-n shop -l app=web",
        "--by kubernetes.io/hostname",
    ];
    for flags in questions {
        let there = asking.run(&format!("spread {flags}"));
        let here = alone.run(&format!("spread {flags} --load cluster.yaml"));
        assert_eq!(there.out, here.out, "{flags}");
        assert_eq!(there.code, here.code, "{flags}");
    }
}
