"""The manifests of packages/serve/deploy, against the schemas that Kubernetes and KServe publish. Unknown fields are errors.

KServe's schema is in serving-runtime.schema.json; what it has of pods is Kubernetes' own.
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

here = pathlib.Path(__file__).parent
folder = here.parent.parent / "packages" / "serve" / "deploy"
VERSION = "1.30"
passed = 0
failed = 0


def count(name, function):
    global passed, failed
    try:
        function()
        passed += 1
    except Exception as error:
        failed += 1
        print(f"FAIL {name}: {str(error).splitlines()[0]}")


def closed(schema):
    """The same schema, which refuses properties that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


for document in yaml.safe_load_all((folder / "kubernetes.yaml").read_text()):
    count(document["kind"], lambda: kubernetes_validate.validate(document, VERSION, strict=True))

runtime = yaml.safe_load((folder / "serving-runtime.yaml").read_text())
schema = closed(json.loads((here / "serving-runtime.schema.json").read_text()))
schema["properties"]["metadata"] = {"type": "object"}
count("ServingRuntime", lambda: jsonschema.validate(runtime, schema))
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": runtime["spec"]["containers"]}}
count("containers of the ServingRuntime", lambda: kubernetes_validate.validate(pod, VERSION, strict=True))

print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
