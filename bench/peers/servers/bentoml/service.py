"""BentoML with a process for each core, and adaptive batching for rows of JSON: its batches take no bodies of bytes. https://docs.bentoml.com/en/latest/get-started/adaptive-batching.html"""

from typing import Annotated

import bentoml
import numpy
from bentoml.validators import ContentType
from onnx_model import Model, settings_of_environment

told = settings_of_environment()
settings = told["settings"]


@bentoml.service(workers=settings["workers"], threads=1, traffic={"timeout": 600}, metrics={"enabled": False}, logging={"access": {"enabled": False}})
class Peer:
    def __init__(self):
        self.model = Model(told["workload"], settings["intraOpNumThreads"])

    # What takes longer than max_latency_ms is refused: it must never come to that here.
    @bentoml.api(batchable=True, max_batch_size=max(2, settings["maxBatchSize"]), max_latency_ms=60_000)
    def rows(self, input: numpy.ndarray) -> numpy.ndarray:
        return self.model.run(numpy.asarray(input, numpy.float32))

    @bentoml.api
    def body(self, body: bytes, /) -> Annotated[bytes, ContentType("application/octet-stream")]:
        return self.model.run(self.model.row(body)[None])[0].tobytes()
