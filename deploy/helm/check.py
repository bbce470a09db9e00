"""What the chart promises, checked on its rendering for each values file.

deploy/validate runs this. HELM and KUSTOMIZE are the tools, PROMETHEUS_OPERATOR
is the directory with the definitions of its kinds, EVENKEEL a binary.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

import jsonschema
import kubernetes_validate
import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
CHART = DEPLOY / "helm" / "evenkeel"
VALUES = sorted((DEPLOY / "helm" / "values").glob("*.yaml"))
# The oldest that the chart says it runs on, the one of the rules, the newest.
KUBERNETES = ["1.27", "1.35", "1.37"]

# The operator's kinds, and the file with the definition of each.
OPERATOR = {
    "ServiceMonitor": "monitoring.coreos.com_servicemonitors.yaml",
    "PrometheusRule": "monitoring.coreos.com_prometheusrules.yaml",
}

# Values files that install on any cluster, as they stand.
SELF_CONTAINED = ["minimal.yaml", "persistence.yaml", "production.yaml"]

# Values that are refused, and what the message must name.
REFUSED = [
    ({"replicas": -1}, "/replicas"),
    ({"replicas": "2"}, "/replicas"),
    ({"replica": 2}, "replica"),
    ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    ({"image": {"digest": "sha256:12"}}, "/image/digest"),
    ({"ports": {"grpc": 70000}}, "/ports/grpc"),
    ({"tls": {"enabled": True}}, "/tls/secretName"),
    ({"settings": {"Max-Nodes": 1}}, "Max-Nodes"),
    ({"settings": {"max-node": 3}}, "max-node"),
    ({"settings": {"max-nodes": {"a": 1}}}, "/settings/max-nodes"),
    ({"settings": {"max-nodes": 0}}, "/settings/max-nodes"),
    ({"settings": {"drain-pause": 5}}, "/settings/drain-pause"),
    ({"settings": {"stale": "never"}}, "/settings/stale"),
    # The default settings take 35 s to drain.
    ({"terminationGracePeriodSeconds": 35}, "terminationGracePeriodSeconds of 35"),
    ({"settings": {"drain-timeout": "1m 30s"}}, "drain-timeout of 1m 30s"),
    ({"settings": {"drain-pause": "15500 ms"}}, "drain-pause of 15500 ms"),
    # Set by other values, which ports and volumes follow.
    ({"settings": {"listen": "0.0.0.0:1"}}, "listen"),
    ({"prometheusRule": {"runbooks": "docs/operations.md"}}, "/prometheusRule/runbooks"),
    ({"settings": {"kubernetes": True}}, "kubernetes"),
    ({"kubernetes": {"enabled": "yes"}}, "/kubernetes/enabled"),
    ({"kubernetes": {"schedulerConfig": "configmap/x"}}, "/kubernetes/schedulerConfig"),
    ({"persistence": {"size": "ten"}}, "/persistence/size"),
    ({"persistence": {"durability": "some"}}, "/persistence/durability"),
    ({"topologySpreadConstraints": [{"maxSkew": 0}]}, "/topologySpreadConstraints/0"),
    ({"serviceMonitor": {"interval": "often"}}, "/serviceMonitor/interval"),
]


def template(*arguments, values=None, version="1.35", chart=CHART):
    command = [os.environ["HELM"], "template", "evenkeel", str(chart)]
    command += ["--namespace", "evenkeel", "--kube-version", version, *arguments]
    if values is not None:
        command += ["--values", "-"]
    given = None if values is None else json.dumps(values)
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)


@functools.cache
def rendered(values, version="1.35"):
    """The objects for a values file; None for the chart's own values."""
    done = template(*(["--values", str(values)] if values else []), version=version)
    if done.returncode:
        raise AssertionError(f"{values}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def notes(values):
    """What is told after an installation: Helm asks a cluster before it tells,
    so a chart that renders its notes is made."""
    with tempfile.TemporaryDirectory() as directory:
        chart = pathlib.Path(directory, "evenkeel")
        shutil.copytree(CHART, chart)
        (chart / "templates" / "NOTES.txt").rename(chart / "notes")
        (chart / "templates" / "notes.yaml").write_text(
            'notes: {{ tpl (.Files.Get "notes") . | toJson }}')
        done = template(values=values, chart=chart)
    if done.returncode:
        raise AssertionError(done.stderr)
    return next(o["notes"] for o in yaml.safe_load_all(done.stdout) if o and "notes" in o)


def find(objects, kind, suffix=""):
    name = "evenkeel" + suffix
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    return found[0] if found else None


def settings(objects):
    return tomllib.loads(find(objects, "ConfigMap")["data"]["evenkeel.toml"])


def pod_template(objects):
    return find(objects, "StatefulSet")["spec"]["template"]


def seconds(duration):
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(int(n) * units[u] for n, u in re.findall(r"(\d+)(ms|s|m|h)", duration))


def closed(schema):
    """The schema, with unknown fields refused and flags of patterns in front,
    where Python wants them."""
    if isinstance(schema, dict):
        if "(?i)" in str(schema.get("pattern")):
            schema = {**schema, "pattern": "(?i)" + schema["pattern"].replace("(?i)", "")}
        schema = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return schema


def mounted_files(directory):
    """Files as the chart's Secrets and volumes have them, by setting."""
    names = {"tls-cert": "tls.crt", "tls-key": "tls.key", "tls-client-ca": "tls.crt",
             "access-file": "access.toml", "state-dir": "state",
             "log-credentials": "fleet.nk", "log-ca": "tls.crt"}
    files = {setting: directory / name for setting, name in names.items()}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=evenkeel", "-addext", "subjectAltName=DNS:evenkeel",
         "-keyout", files["tls-key"], "-out", files["tls-cert"]],
        capture_output=True, check=True, timeout=60)
    # Any seed of a user will do: no nats-server is asked.
    files["log-credentials"].write_text("SU" + 56 * "A")
    files["access-file"].write_text(
        '[[allow]]\nanyone = true\nrole = "reader"\nsnapshots = ["*"]\n')
    return files


def for_each_values(test):
    """Calls a test with the objects for each values file."""

    @functools.wraps(test)
    def run(self):
        for values in [None, *VALUES]:
            with self.subTest(values=values.name if values else "default"):
                test(self, rendered(values))

    return run


class Chart(unittest.TestCase):
    def test_objects_are_valid(self):
        for values in [None, *VALUES]:
            for version in KUBERNETES:
                with self.subTest(values=values, version=version):
                    for document in rendered(values, version):
                        if document["kind"] not in OPERATOR:
                            kubernetes_validate.validate(document, version, strict=True)

    def test_objects_of_the_operator_are_valid(self):
        for kind, file in OPERATOR.items():
            definition = pathlib.Path(os.environ["PROMETHEUS_OPERATOR"], file).read_text()
            definition = yaml.safe_load(definition)["spec"]["versions"][0]
            schema = closed(definition["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found = [o for o in (find(r, kind) for r in map(rendered, VALUES)) if o]
            self.assertGreater(len(found), 0, kind)
            for document in found:
                jsonschema.validate(document, schema)

    @for_each_values
    def test_service_monitors_select_the_servers(self, objects):
        if monitor := find(objects, "ServiceMonitor"):
            labels = find(objects, "Service", "-feed")["metadata"]["labels"]
            self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_rules_and_dashboard_are_the_files(self):
        alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
        dashboard = (DEPLOY / "grafana" / "evenkeel.json").read_text()
        objects = rendered(DEPLOY / "helm" / "values" / "monitoring.yaml")
        self.assertEqual(find(objects, "PrometheusRule")["spec"], alerts)
        data = find(objects, "ConfigMap", "-dashboard")["data"]
        self.assertEqual(json.loads(data["evenkeel.json"]), json.loads(dashboard))

    def test_runbooks_lead_where_values_say(self):
        elsewhere = "https://wiki.test/evenkeel"
        values = {"prometheusRule": {"enabled": True, "runbooks": elsewhere}}
        objects = yaml.safe_load_all(template(values=values).stdout)
        groups = find(list(objects), "PrometheusRule")["spec"]["groups"]
        alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        for alert in alerts:
            link = f"{elsewhere}#{alert['alert'].lower()}"
            self.assertEqual(alert["annotations"]["runbook_url"], link)

    def test_nothing_is_needed_that_nobody_makes(self):
        for values in [None, *(DEPLOY / "helm" / "values" / name for name in SELF_CONTAINED)]:
            with self.subTest(values=values):
                objects = rendered(values)
                self.assertFalse([o for o in objects if o["kind"] in OPERATOR])
                spec = pod_template(objects)["spec"]
                image = re.fullmatch(r"evenkeel:(.+)", spec["containers"][0]["image"])
                chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
                self.assertEqual(image[1], chart["appVersion"])
                self.assertFalse([v for v in spec["volumes"] if "secret" in v])
                self.assertNotIn("priorityClassName", spec)
                for claim in find(objects, "StatefulSet")["spec"].get("volumeClaimTemplates", []):
                    self.assertNotIn("storageClassName", claim["spec"])

    def test_notes_tell_where_reservations_live(self):
        for replicas, several in [(1, False), (3, True)]:
            told = notes({"replicas": replicas})
            self.assertIn("Reservations live in one server", told)
            self.assertEqual("to one and the same server" in told, several)

    def test_notes_warn(self):
        secret = {"secretName": "s"}
        for values, warning in [
            ({"tls": {"enabled": False}}, "plain text"),
            ({"access": {"secretName": ""}}, "may do everything"),
            ({"prometheusRule": {"enabled": True}}, "runbooks by path"),
        ]:
            self.assertIn(warning, notes(values))
        links = {"enabled": True, "runbooks": "https://wiki.test/evenkeel"}
        tls = {"enabled": True, **secret}
        quiet = notes({"tls": tls, "access": secret, "prometheusRule": links})
        for warning in ("plain text", "may do everything", "runbooks by path"):
            self.assertNotIn(warning, quiet)

    @for_each_values
    def test_selectors_select_the_servers_and_nothing_else(self, objects):
        servers = pod_template(objects)["metadata"]["labels"]
        tester = find(rendered(None), "Pod", "-ready")["metadata"]["labels"]
        selectors = [find(objects, "Service", s)["spec"]["selector"] for s in ("", "-feed")]
        spec = find(objects, "StatefulSet")["spec"]
        selectors.append(spec["selector"]["matchLabels"])
        for constraint in spec["template"]["spec"].get("topologySpreadConstraints") or []:
            selectors.append(constraint["labelSelector"]["matchLabels"])
        for kind, field in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
            if found := find(objects, kind):
                selectors.append(found["spec"][field]["matchLabels"])
        for selector in selectors:
            self.assertLessEqual(selector.items(), servers.items())
            self.assertFalse(selector.items() <= tester.items())

    @for_each_values
    def test_feeds_reach_servers_that_are_not_ready(self, objects):
        feed = find(objects, "Service", "-feed")["spec"]
        self.assertEqual(feed["clusterIP"], "None")
        self.assertTrue(feed["publishNotReadyAddresses"])
        self.assertEqual(find(objects, "StatefulSet")["spec"]["serviceName"], "evenkeel-feed")
        self.assertNotIn("publishNotReadyAddresses", find(objects, "Service")["spec"])

    @for_each_values
    def test_the_server_listens_where_it_is_asked(self, objects):
        container = pod_template(objects)["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        wanted = settings(objects)
        self.assertEqual(wanted["listen"], f"0.0.0.0:{ports['grpc']}")
        self.assertEqual(wanted["admin-listen"], f"0.0.0.0:{ports['admin']}")
        services = [find(objects, "Service", suffix) for suffix in ("", "-feed")]
        for port in [p for service in services for p in service["spec"]["ports"]]:
            self.assertIn(port["targetPort"], ports)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container[kind]
            port = probe.get("httpGet", probe.get("grpc"))["port"]
            self.assertIn(port, [*ports, *ports.values()])

    @for_each_values
    def test_files_of_the_settings_are_mounted(self, objects):
        spec = pod_template(objects)["spec"]
        mounts = spec["containers"][0]["volumeMounts"]
        claims = find(objects, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
        volumes = {v["name"] for v in spec["volumes"]} | {c["metadata"]["name"] for c in claims}
        self.assertEqual({mount["name"] for mount in mounts}, volumes)
        paths = [v for v in settings(objects).values() if str(v).startswith("/")]
        for path in paths:
            inside = [m for m in mounts if f"{path}/".startswith(m["mountPath"] + "/")]
            self.assertEqual(len(inside), 1, path)
            writable = not inside[0].get("readOnly")
            self.assertEqual(writable, path == settings(objects).get("state-dir"))

    @for_each_values
    def test_containers_are_locked_down(self, objects):
        for pod in filter(None, (pod_template(objects), find(objects, "Pod", "-ready"))):
            self.assertTrue(pod["spec"]["securityContext"]["runAsNonRoot"])
            watches = settings(objects).get("kubernetes", False) and pod is pod_template(objects)
            self.assertEqual(pod["spec"]["automountServiceAccountToken"], watches)
            context = pod["spec"]["containers"][0]["securityContext"]
            self.assertTrue(context["readOnlyRootFilesystem"])
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})

    def test_servers_that_watch_may_read_the_cluster_and_nothing_else(self):
        place = "configmap/kube-system/scheduler:policy.yaml"
        for values, roles in [
            ({}, 1),
            ({"schedulerConfig": place}, 2),
            ({"enabled": False}, 0),
        ]:
            with self.subTest(values=values):
                done = template(values={"kubernetes": values})
                objects = [o for o in yaml.safe_load_all(done.stdout) if o]
                made = [o for o in objects if o["kind"] in ("ClusterRole", "Role")]
                self.assertEqual(len(made), roles)
                rules = [rule for role in made for rule in role["rules"]]
                for rule in rules:
                    self.assertLessEqual(set(rule["verbs"]), {"get", "list", "watch"})
                    self.assertEqual("configmaps" in rule["resources"], "resourceNames" in rule)
                for role in made:
                    kinds = [o for o in objects if o["kind"] == role["kind"] + "Binding"]
                    self.assertEqual([b["roleRef"]["name"] for b in kinds], [role["metadata"]["name"]])
                    account = pod_template(objects)["spec"]["serviceAccountName"]
                    self.assertEqual([s["name"] for s in kinds[0]["subjects"]], [account])
                wanted = settings(objects)
                self.assertEqual(wanted.get("kubernetes", False), values.get("enabled", True))
                self.assertEqual(wanted.get("kubernetes-scheduler-config"),
                                 values.get("schedulerConfig"))

    @for_each_values
    def test_there_is_time_to_drain(self, objects):
        wanted = settings(objects)
        drain = seconds(wanted["drain-pause"]) + seconds(wanted["drain-timeout"])
        grace = pod_template(objects)["spec"]["terminationGracePeriodSeconds"]
        self.assertGreater(grace, drain)
        probe = pod_template(objects)["spec"]["containers"][0]["readinessProbe"]
        noticed = probe["periodSeconds"] * probe["failureThreshold"]
        self.assertGreater(seconds(wanted["drain-pause"]), noticed)

    def test_a_change_of_settings_restarts_the_servers(self):
        annotation = lambda objects: pod_template(objects)["metadata"]["annotations"]
        changed = template(values={"settings": {"max-nodes": 7}})
        changed = list(yaml.safe_load_all(changed.stdout))
        self.assertEqual(settings(changed)["max-nodes"], 7)
        self.assertNotEqual(annotation(changed), annotation(rendered(None)))

    def test_servers_run_as_the_account_that_values_name(self):
        for values, created, used in [
            ({}, "evenkeel", "evenkeel"),
            ({"name": "mine"}, "mine", "mine"),
            ({"create": False}, None, "default"),
            ({"create": False, "name": "mine"}, None, "mine"),
        ]:
            with self.subTest(values=values):
                done = template(values={"serviceAccount": values})
                objects = [o for o in yaml.safe_load_all(done.stdout) if o]
                accounts = [o for o in objects if o["kind"] == "ServiceAccount"]
                names = [account["metadata"]["name"] for account in accounts]
                self.assertEqual(names, [created] if created else [])
                self.assertEqual(pod_template(objects)["spec"]["serviceAccountName"], used)

    def test_bad_values_are_refused_by_name(self):
        for values, name in REFUSED:
            with self.subTest(values=values):
                refused = template(values=values)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(name, refused.stderr)

    @for_each_values
    def test_the_server_takes_the_settings(self, objects):
        config = find(objects, "ConfigMap")["data"]["evenkeel.toml"]
        with tempfile.TemporaryDirectory() as elsewhere:
            # What Secrets and volumes would bring.
            files = mounted_files(pathlib.Path(elsewhere))
            for name, value in settings(objects).items():
                if str(value).startswith("/"):
                    config = config.replace(value, str(files[name]))
            file = pathlib.Path(elsewhere, "evenkeel.toml")
            file.write_text(config)
            command = [os.environ["EVENKEEL"], "serve", "--config", str(file)]
            command += ["--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"]
            server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            lines = []
            try:
                for line in server.stderr:
                    lines.append(line)
                    if '"listening"' in line:
                        break
                    # There is no nats-server: it has read all that it needs to ask one.
                    if "log" in settings(objects) and '"waiting for the log"' in line:
                        break
                else:
                    self.fail("".join(lines))
            finally:
                server.kill()
                server.communicate()

    @for_each_values
    def test_evenkeel_places_its_own_servers(self, objects):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(find(objects, "StatefulSet"), file)
            cluster = DEPLOY.parent / "examples" / "three-zones" / "cluster.yaml"
            command = [os.environ["EVENKEEL"], "place", "-f", file.name]
            command += ["--load", str(cluster), "-o", "json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            # 1: some found no node, such as one for a node selector.
            self.assertIn(done.returncode, (0, 1), done.stderr)
            if not pod_template(objects)["spec"].get("nodeSelector"):
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_kustomize_base_is_the_rendering(self):
        done = subprocess.run(
            [*os.environ["KUSTOMIZE"].split(), str(DEPLOY / "kustomize" / "base")],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        built = [document for document in yaml.safe_load_all(done.stdout) if document]
        for document in built:
            kubernetes_validate.validate(document, KUBERNETES[1], strict=True)
        fresh = subprocess.run(
            [DEPLOY / "kustomize" / "render"], capture_output=True, text=True, timeout=60)
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        base = DEPLOY / "kustomize" / "base" / "evenkeel.yaml"
        self.assertEqual(base.read_text(), fresh.stdout)


if __name__ == "__main__":
    unittest.main()
