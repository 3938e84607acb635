"""LitServe with batching, a worker or two that open the model, and its fast queue. https://lightning.ai/docs/litserve/features/batching"""

import sys

import litserve
import numpy
from fastapi import Response
from onnx_model import Model, settings_of_environment


class PeerApi(litserve.LitAPI):
    def setup(self, device):
        told = settings_of_environment()
        self.model = Model(told["workload"], told["settings"]["intraOpNumThreads"])
        self.json = told["workload"]["json"]

    def decode_request(self, request):
        if self.json:
            return numpy.array(request["input"], numpy.float32)
        return self.model.row(request["body"].file.read())

    def batch(self, inputs):
        return numpy.stack(inputs)

    def predict(self, rows):
        return self.model.run(rows if rows.ndim > len(self.model.row_dims) else rows[None])

    def unbatch(self, rows):
        return list(rows)

    def encode_response(self, output):
        if self.json:
            return {"output": output.reshape(-1).tolist()}
        return Response(output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    settings = settings_of_environment()["settings"]
    api = PeerApi(max_batch_size=settings["maxBatchSize"], batch_timeout=settings["batchTimeoutSeconds"])
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=settings["workers"], fast_queue=True, timeout=False)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), num_api_servers=settings["apiServers"], log_level="error", generate_client_file=False, access_log=False)
