"""OpenVINO by itself: its AsyncInferQueue, to which requests that wait are given as batches."""

import json
import os
import sys

import numpy
import openvino

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../python"))
from images import decode  # noqa: E402
from load import Load  # noqa: E402

told = json.loads(sys.argv[1])
settings, workload = told["settings"], told["workload"]
model = workload["model"]
core = openvino.Core()
# https://docs.openvino.ai/2026/openvino-workflow/running-inference/optimize-inference/high-level-performance-hints.html
config = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": settings["threads"], **settings["config"]}
network = core.read_model(model["path"])
if settings["maxBatchSize"] == 1:  # https://docs.openvino.ai/2024/openvino-workflow/model-preparation/setting-input-shapes.html
    network.reshape({model["input"]: [1, *model["rowDims"]]})
compiled = core.compile_model(network, "CPU", config)
queue = openvino.AsyncInferQueue(compiled)  # as many requests as the plugin holds for best
bodies = [open(file, "rb").read() for file in workload["files"]]
if not workload["jpeg"]:
    bodies = [numpy.frombuffer(body, numpy.float32).reshape(model["rowDims"]) for body in bodies]

for level in told["levels"]:
    load = Load(level, bodies)
    queue.set_callback(lambda request, taken: load.done(taken, request.get_output_tensor(0).data.reshape(len(taken), -1).copy()))
    while True:
        queue.get_idle_request_id()  # what waits meanwhile may still join
        if (taken := load.take(settings["maxBatchSize"])) is None:
            break
        rows = [decode(bodies[index]) if workload["jpeg"] else bodies[index] for _, index in taken]
        queue.start_async({model["input"]: numpy.stack(rows)}, taken)
    queue.wait_all()
    load.report()
