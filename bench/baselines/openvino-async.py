"""OpenVINO by itself: its AsyncInferQueue over a model, in images a second, by size of batch. Arguments and answer are JSON."""

import json
import os
import sys
import time

import numpy
import openvino

settings = json.loads(sys.argv[1])
core = openvino.Core()


def measure(rows, streams):
    model = core.read_model(settings["path"])
    model.reshape({settings["input"]: [rows, *settings["rowDims"]]})
    config = {"INFERENCE_PRECISION_HINT": settings["precision"], "NUM_STREAMS": streams}
    queue = openvino.AsyncInferQueue(core.compile_model(model, "CPU", config))
    feeds = {settings["input"]: numpy.full([rows, *settings["rowDims"]], 0.1, dtype=numpy.float32)}
    done = 0

    def count(request, _):
        nonlocal done
        request.get_output_tensor(0).data.copy()
        done += rows

    queue.set_callback(count)
    for seconds in (settings["warmupSeconds"], settings["seconds"]):
        queue.wait_all()
        done = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            queue.start_async(feeds)
        queue.wait_all()
        took = time.perf_counter() - start
    return done / took


print(json.dumps([{"rows": rows, "streams": streams, "perSecond": measure(rows, streams)} for rows in settings["batches"] for streams in settings["streams"]]), flush=True)
# OpenVINO's threads are ended with the process: joining them as Python ends has aborted it.
os._exit(0)
