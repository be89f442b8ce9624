"""The metrics of the server, read by Prometheus's own parser. Arguments: the ports of HTTP and gRPC."""

import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

text = urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics").read().decode()
families = {family.name: family for family in text_string_to_metric_families(text)}
wanted = {
    "nv_inference_request_success": {"model", "version"},
    "nv_inference_request_failure": {"model", "version", "reason"},
    "nv_inference_count": {"model", "version"},
    "nv_inference_exec_count": {"model", "version"},
    "nv_inference_pending_request_count": {"model", "version"},
    "nv_inference_request_duration_us": {"model", "version"},
    "nv_inference_compute_infer_duration_us": {"model", "version"},
    "webnn_memory_bytes": {"kind"},
    "webnn_requests_in_flight": set(),
}
failed = 0
for name, labels in wanted.items():
    samples = families[name].samples if name in families else []
    if not samples or set(samples[0].labels) != labels:
        failed += 1
        print(f"FAIL {name}: found {samples[:1]}")
print(f"{len(wanted) - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
