"""A handler of TorchServe that runs an ONNX model. https://pytorch.org/serve/batch_inference_with_ts.html"""

import numpy
from onnx_model import Model, settings_of_environment


class Handler:
    def initialize(self, context):
        told = settings_of_environment()
        self.model = Model(told["workload"], told["settings"]["intraOpNumThreads"])
        self.json = told["workload"]["json"]

    def handle(self, data, context):
        bodies = [request.get("body") or request.get("data") for request in data]
        if self.json:
            rows = numpy.array([body["input"] for body in bodies], numpy.float32)
            return [{"output": row} for row in self.model.run(rows).tolist()]
        rows = numpy.stack([self.model.row(bytes(body)) for body in bodies])
        return [row.tobytes() for row in self.model.run(rows)]
