"""PyTriton with Triton's dynamic batcher. https://triton-inference-server.github.io/pytriton/latest/guides/binding_models/"""

import signal
import sys

import numpy
from onnx_model import Model, settings_of_environment
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

told = settings_of_environment()
settings = told["settings"]
http, grpc, metrics = (int(port) for port in sys.argv[1:4])


def instance():
    model = Model(told["workload"], settings["intraOpNumThreads"])

    @batch
    def infer(**inputs):
        (rows,) = inputs.values()
        if model.jpeg:
            rows = numpy.stack([model.row(row[0]) for row in rows])
        return [model.run(rows)]

    return infer


signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # else its workspace and shared memory would stay
names = told["workload"]["model"]
given = Tensor(name=names["input"], dtype=bytes, shape=(1,)) if told["workload"]["jpeg"] else Tensor(name=names["input"], dtype=numpy.float32, shape=tuple(names["rowDims"]))
config = TritonConfig(http_address="127.0.0.1", http_port=http, grpc_address="127.0.0.1", grpc_port=grpc, metrics_port=metrics, allow_metrics=False)
with Triton(config=config) as triton:
    triton.bind(
        model_name="peer",
        infer_func=[instance() for _ in range(settings["instances"])],
        inputs=[given],
        outputs=[Tensor(name=names["output"], dtype=numpy.float32, shape=(names["outputElements"],))],
        config=ModelConfig(
            max_batch_size=settings["maxBatchSize"],
            batcher=DynamicBatcher(max_queue_delay_microseconds=settings["maxQueueDelayMicroseconds"]),
        ),
        strict=False,  # its check of each answer's type and shape costs time
    )
    triton.serve()
