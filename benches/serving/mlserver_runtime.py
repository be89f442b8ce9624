"""A runtime of MLServer around onnxruntime, to measure beside `webnn-node serve`."""

import asyncio

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class OnnxRuntime(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.settings.parameters.extra["threads"]
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options, providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]
        return True

    async def predict(self, payload):
        feeds = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
        # The loop of the server goes on meanwhile.
        results = await asyncio.to_thread(self.session.run, None, feeds)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output(name, result) for name, result in zip(self.names, results)])
