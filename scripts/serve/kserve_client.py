"""The server, called by KServe's clients over REST and gRPC. Arguments: the ports of HTTP and gRPC."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

http_port, grpc_port = sys.argv[1:3]
pair = np.array([[3, 5]], np.float32)
passed = 0


def expect(found, wanted):
    global passed
    np.testing.assert_array_equal(found, wanted)
    passed += 1


def request(binary):
    tensor = InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(pair, binary_data=binary)
    return InferRequest("double", [tensor])


async def main():
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    base = f"http://127.0.0.1:{http_port}"
    expect([await rest.is_server_live(base), await rest.is_server_ready(base), await rest.is_model_ready(base, "double")], True)
    for binary in (False, True):
        expect((await rest.infer(base, request(binary), model_name="double")).outputs[0].as_numpy(), 2 * pair)
    grpc = InferenceGRPCClient(f"127.0.0.1:{grpc_port}")
    expect([await grpc.is_server_live(), await grpc.is_server_ready(), await grpc.is_model_ready("double")], True)
    expect((await grpc.infer(request(True))).outputs[0].as_numpy(), 2 * pair)


asyncio.run(main())
print(f"{passed} passed, 0 failed")
