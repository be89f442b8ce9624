"""The server, called by tritonclient: REST and gRPC, each type of elements, each method that the clients have.

Arguments: the ports of HTTP and gRPC. Prints a line for each check that fails, and at the end `N passed, N failed`.
"""

import sys
import traceback

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

http_port, grpc_port = sys.argv[1:3]
passed = 0
failures = []


def check(name):
    """Runs a function and counts whether it raised."""

    def decorate(function):
        global passed
        try:
            function()
            passed += 1
        except Exception:
            failures.append(name)
            print(f"FAIL {name}\n{traceback.format_exc()}")
        return function

    return decorate


def refused(function, *texts):
    try:
        function()
    except InferenceServerException as error:
        for text in texts:
            assert text in str(error), str(error)
        return
    raise AssertionError("it was not refused")


types = {
    "bool": np.array([True, False]),
    "uint8": np.array([0, 255], np.uint8),
    "uint16": np.array([0, 65535], np.uint16),
    "uint32": np.array([0, 2**32 - 1], np.uint32),
    "uint64": np.array([0, 2**64 - 1], np.uint64),
    "int8": np.array([-128, 127], np.int8),
    "int16": np.array([-32768, 32767], np.int16),
    "int32": np.array([-(2**31), 2**31 - 1], np.int32),
    "int64": np.array([-(2**63), 2**63 - 1], np.int64),
    "float16": np.array([1.5, -2], np.float16),
    "float": np.array([0.1, np.inf], np.float32),
    "double": np.array([0.5, -2.5], np.float64),
}

clients = {
    "http": (triton_http, triton_http.InferenceServerClient(f"127.0.0.1:{http_port}", concurrency=4)),
    "grpc": (triton_grpc, triton_grpc.InferenceServerClient(f"127.0.0.1:{grpc_port}")),
}

for protocol, (library, client) in clients.items():

    def tensor(array, name="x", datatype=None, **options):
        made = library.InferInput(name, list(array.shape), datatype or np_to_triton_dtype(array.dtype))
        made.set_data_from_numpy(array, **options)
        return made

    def ready(name):
        try:
            return client.is_model_ready(name)
        except InferenceServerException:
            return False

    pair = np.array([[3, 5]], np.float32)

    @check(f"{protocol}: what the server is")
    def _():
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("double") and client.is_model_ready("versions", "2")
        about = client.get_server_metadata()
        assert (about["name"] if protocol == "http" else about.name) == "webnn-node"

    @check(f"{protocol}: what a model is")
    def _():
        if protocol == "http":
            about, config = client.get_model_metadata("double"), client.get_model_config("double")
            assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}], about
            assert config["input"][0]["data_type"] == "TYPE_FP32"
        else:
            about, config = client.get_model_metadata("double"), client.get_model_config("double").config
            assert list(about.inputs[0].shape) == [-1, 2], about
            assert config.input[0].name == "x" and list(config.input[0].dims) == [-1, 2]

    for type_name, array in types.items():

        @check(f"{protocol}: {type_name}")
        def _():
            result = client.infer(f"same-{type_name}", [tensor(array)], request_id="7")
            assert result.as_numpy("y").dtype == array.dtype
            np.testing.assert_array_equal(result.as_numpy("y"), array)

        if protocol == "http" and type_name != "float16":

            @check(f"{protocol}: {type_name} in JSON")
            def _():
                finite = np.nan_to_num(array, posinf=7) if array.dtype.kind == "f" else array
                outputs = [library.InferRequestedOutput("y", binary_data=False)]
                result = client.infer(f"same-{type_name}", [tensor(finite, binary_data=False)], outputs=outputs)
                np.testing.assert_array_equal(result.as_numpy("y"), finite)

    @check(f"{protocol}: BF16")
    def _():
        array = np.array([1.5, -2], ml_dtypes.bfloat16)
        result = client.infer("same-bfloat16", [tensor(array, datatype="BF16")])
        np.testing.assert_array_equal(np.asarray(result.as_numpy("y"), np.float32), np.asarray(array, np.float32))

    @check(f"{protocol}: BYTES is refused")
    def _():
        text = np.array([b"a", b"b"], np.object_)
        refused(lambda: client.infer("same-float", [tensor(text, datatype="BYTES")]), "BYTES is not supported")

    @check(f"{protocol}: versions, outputs and ids")
    def _():
        np.testing.assert_array_equal(client.infer("versions", [tensor(pair)], "1").as_numpy("y"), [[6, 10]])
        np.testing.assert_array_equal(client.infer("versions", [tensor(pair)], "2").as_numpy("y"), [[9, 25]])
        result = client.infer("two", [tensor(pair)], outputs=[library.InferRequestedOutput("product")], request_id="my id")
        np.testing.assert_array_equal(result.as_numpy("product"), [[9, 25]])
        assert result.as_numpy("sum") is None
        response = result.get_response()
        assert (response["id"] if protocol == "http" else response.id) == "my id"

    @check(f"{protocol}: open dimensions, many at a time")
    def _():
        arrays = [np.full((rows, 2), rows, np.float32) for rows in range(1, 9)]
        if protocol == "http":
            waiting = [client.async_infer("double", [tensor(array)]) for array in arrays]
            results = [one.get_result() for one in waiting]
        else:
            import queue

            found = queue.Queue()
            for array in arrays:
                client.async_infer("double", [tensor(array)], lambda result, error: found.put(error or result), request_id=str(array.shape[0]))
            results = sorted((found.get(timeout=60) for _ in arrays), key=lambda result: int(result.get_response().id))
        for array, result in zip(arrays, results):
            np.testing.assert_array_equal(result.as_numpy("y"), 2 * array)

    @check(f"{protocol}: priority and timeout")
    def _():
        client.infer("double", [tensor(pair)], priority=1, timeout=10_000_000)
        one = np.zeros((1, 1), np.float32)
        refused(lambda: client.infer("slow", [tensor(one)], timeout=1000), "did not end within 1 ms")

    @check(f"{protocol}: errors")
    def _():
        refused(lambda: client.infer("none", [tensor(pair)]), "no such model")
        refused(lambda: client.infer("double", [tensor(pair.astype(np.int32))]), "expected FP32")
        refused(lambda: client.infer("double", [tensor(pair, name="z")]), "no such input")
        refused(lambda: client.infer("double", [tensor(np.zeros((1, 3), np.float32))]), "")

    @check(f"{protocol}: the repository")
    def _():
        client.unload_model("versions")
        assert not ready("versions")
        client.load_model("versions")
        assert ready("versions")
        index = client.get_model_repository_index()
        found = [model["name"] for model in index] if protocol == "http" else [model.name for model in index.models]
        assert "double" in found

    @check(f"{protocol}: statistics")
    def _():
        stats = client.get_inference_statistics("double")
        if protocol == "http":
            assert stats["model_stats"][0]["inference_stats"]["success"]["count"] > 0
        else:
            assert stats.model_stats[0].inference_stats.success.count > 0

    @check(f"{protocol}: shared memory, traces and logs are refused politely")
    def _():
        refused(lambda: client.register_system_shared_memory("r", "/r", 8), "shared memory")
        refused(lambda: client.get_system_shared_memory_status(), "shared memory")
        refused(lambda: client.register_cuda_shared_memory("r", b"AA==", 0, 8), "shared memory")
        refused(lambda: client.get_trace_settings(), "not supported")
        refused(lambda: client.get_log_settings(), "not supported")
        other = library.InferInput("x", [1, 2], "FP32")
        other.set_shared_memory("r", 8)
        refused(lambda: client.infer("double", [other]), "shared memory is not supported")

    if protocol == "http":

        @check("http: compressed requests")
        def _():
            for algorithm in ("gzip", "deflate"):
                result = client.infer("double", [tensor(pair)], request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)
                np.testing.assert_array_equal(result.as_numpy("y"), [[6, 10]])

    if protocol == "grpc":

        @check("grpc: a stream")
        def _():
            import queue

            found = queue.Queue()
            client.start_stream(lambda result, error: found.put(error or result))
            for index in range(10):
                client.async_stream_infer("double", [tensor(pair * index)], request_id=str(index))
            for _ in range(10):
                result = found.get(timeout=60)
                index = int(result.get_response().id)
                np.testing.assert_array_equal(result.as_numpy("y"), 2 * index * pair)
            client.stop_stream()

        @check("grpc: compressed requests")
        def _():
            result = client.infer("double", [tensor(pair)], compression_algorithm="gzip")
            np.testing.assert_array_equal(result.as_numpy("y"), [[6, 10]])

        @check("grpc: a deadline cancels")
        def _():
            refused(lambda: client.infer("slow", [tensor(np.zeros((1, 1), np.float32))], client_timeout=0.02), "Deadline")

    client.close()

print(f"{passed} passed, {len(failures)} failed")
sys.exit(1 if failures else 0)
