"""The child: OpenVINO and one model. Its last line on stdout is JSON.

    python benches/openvino/measure.py MODEL INPUTS '{"threads":1,"precision":"default","warmUpMs":300,"sampleMs":1000}'

`precision` is `f32`, or `default`, which is bfloat16 on CPUs that have instructions for it.
"""

import json
import sys
import time

import numpy as np
import openvino

LEAST_SAMPLES = 5
TYPES = {'float32': np.float32, 'int32': np.int32, 'int64': np.int64, 'int8': np.int8, 'uint8': np.uint8, 'float16': np.float16}


def read_arrays(file):
    with open(file, 'rb') as stream:
        head = json.loads(stream.readline())
        return {a['name']: np.frombuffer(stream.read(a['byteLength']), TYPES[a['dataType']]).reshape(a['shape']) for a in head}


def repeat(run, for_ms):
    samples, end = [], time.perf_counter() + for_ms / 1000
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        samples.append((now - start) * 1000)
        if now >= end and len(samples) >= LEAST_SAMPLES:
            return samples


def main():
    model, inputs, settings = sys.argv[1], read_arrays(sys.argv[2]), json.loads(sys.argv[3])
    hints = {'INFERENCE_NUM_THREADS': settings['threads'], 'NUM_STREAMS': 1, 'PERFORMANCE_HINT': 'LATENCY'}
    if settings['precision'] == 'f32':
        hints['INFERENCE_PRECISION_HINT'] = 'f32'
    start = time.perf_counter()
    request = openvino.Core().compile_model(model, 'CPU', hints).create_infer_request()
    load_ms = (time.perf_counter() - start) * 1000
    # From arrays to arrays, which results are copied to.
    run = lambda: [request.get_output_tensor(i).data.copy() for i in range(len(request.infer(inputs, share_inputs=True, share_outputs=True)))]
    run()
    repeat(run, settings['warmUpMs'])
    samples = repeat(run, settings['sampleMs'])
    precision = str(request.get_compiled_model().get_property('INFERENCE_PRECISION_HINT'))
    print(json.dumps({'loadMs': load_ms, 'medianMs': float(np.median(samples)), 'bestMs': min(samples), 'samples': len(samples),
                      'version': openvino.__version__, 'precision': precision}))


main()
