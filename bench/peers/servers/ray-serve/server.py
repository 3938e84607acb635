"""Ray Serve with its request batching; its dashboard and logs off. https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html"""

import signal
import sys

import numpy
import orjson
import ray
from onnx_model import Model, settings_of_environment
from ray import serve
from starlette.responses import Response

told = settings_of_environment()
settings = told["settings"]


@serve.deployment(num_replicas=settings["replicas"], max_ongoing_requests=2000, ray_actor_options={"num_cpus": 1 / settings["replicas"]})
class Peer:
    def __init__(self):
        self.model = Model(told["workload"], settings["intraOpNumThreads"])
        self.json = told["workload"]["json"]

    @serve.batch(max_batch_size=settings["maxBatchSize"], batch_wait_timeout_s=settings["batchWaitSeconds"])
    async def run(self, rows):
        return list(self.model.run(numpy.stack(rows)))

    async def __call__(self, request):
        body = await request.body()
        if self.json:
            output = await self.run(numpy.array(orjson.loads(body)["input"], numpy.float32))
            return Response(orjson.dumps({"output": output}, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")
        output = await self.run(self.model.row(body))
        return Response(output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    port = int(sys.argv[1])
    ray.init(num_cpus=4, include_dashboard=False, configure_logging=False, log_to_driver=False, object_store_memory=100_000_000, _temp_dir=sys.argv[2])
    serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config={"log_level": "ERROR", "enable_access_log": False})
    serve.run(Peer.bind(), name="peer", route_prefix="/")

    def end(*_):
        serve.shutdown()
        ray.shutdown()
        sys.exit()

    signal.signal(signal.SIGTERM, end)
    signal.pause()
