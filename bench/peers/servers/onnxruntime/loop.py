"""onnxruntime batched by hand: each thread takes what waits, stacks it, runs it, and hands out the rows. No promises, no queue of tasks."""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../python"))
from load import hold  # noqa: E402
from onnx_model import Model  # noqa: E402

told = json.loads(sys.argv[1])
settings = told["settings"]
model = Model(told["workload"], settings["intraOpNumThreads"])
bodies = [open(file, "rb").read() for file in told["workload"]["files"]]
if not model.jpeg:
    bodies = [model.row(body) for body in bodies]


def answer(taken):
    rows = [model.row(body) for body in taken] if model.jpeg else taken
    return model.run(numpy.stack(rows) if len(rows) > 1 else rows[0][None])


for level in told["levels"]:
    hold(level, bodies, settings["threads"], settings["maxBatchSize"], answer)
