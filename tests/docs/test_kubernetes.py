"""docs/kubernetes: manifests that Kubernetes' own schemas take, for the versions and ports that the job has."""

import os
import re
import subprocess
import sys

import pyspark
import pytest
import yaml

from ingest.config import pipeline_file
from ingest.config.resources import resource
from tests.outside import packages

FILE = resource("docs", "kubernetes", "ingest.yaml")
MANIFESTS = {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text())}
SPARK = pipeline_file.parse(MANIFESTS["ConfigMap"]["data"]["shop.yaml"]).spark


def test_the_pipeline_file_of_the_manifests_is_one_and_of_this_spark():
    assert SPARK.masters == [("kubernetes.default.svc", 443)]
    image = SPARK.conf["spark.kubernetes.container.image"]
    assert image == f"apache/spark:{pyspark.__version__}-python3"


def test_executors_find_the_driver_by_the_service_s_name_and_ports():
    service = MANIFESTS["Service"]
    assert SPARK.conf["spark.driver.host"] == service["metadata"]["name"]
    ports = {str(one["port"]) for one in service["spec"]["ports"]}
    assert {SPARK.conf[f"spark.driver{of}.port"] for of in ("", ".blockManager")} <= ports
    pod = f"{MANIFESTS['StatefulSet']['metadata']['name']}-0"
    assert SPARK.conf["spark.kubernetes.driver.pod.name"] == pod
    labels = MANIFESTS["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels


def test_the_job_reads_what_the_stateful_set_mounts():
    pod = MANIFESTS["StatefulSet"]["spec"]["template"]["spec"]
    mounts = [one["mountPath"] for one in pod["containers"][0]["volumeMounts"]]
    text = MANIFESTS["ConfigMap"]["data"]["shop.yaml"]
    files = [*re.findall(r"file: (/[\w/.-]+)", text), pod["containers"][0]["args"][-1]]
    assert all(any(file.startswith(f"{mount}/") for mount in mounts) for file in files)
    assert all(
        one["name"] in {v["name"] for v in pod["volumes"]}
        for one in pod["containers"][0]["volumeMounts"]
    )


@pytest.mark.long
def test_kubernetes_own_schemas_take_the_manifests():
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", str(FILE)]
    environment = {**os.environ, "PYTHONPATH": str(packages.installed("kubernetes"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(MANIFESTS), done.stdout
