"""The model of a workload in Python's onnxruntime, as every Python peer opens it."""

import os

import numpy
import onnxruntime

onnxruntime.disable_telemetry_events()


class Model:
    """What a workload is, as the peers are told it in JSON, with a session of so many threads that spin as long as ours do."""

    def __init__(self, workload, threads):
        model = workload["model"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.spin_duration_us", "20")
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model["path"], options, providers=["CPUExecutionProvider"])
        self.input, self.output = model["input"], model["output"]
        self.row_dims = model["rowDims"]
        self.elements = model["outputElements"]
        self.jpeg = workload["jpeg"]

    def row(self, body):
        """One row of the input, of the bytes that came: floats, or a JPEG."""
        if self.jpeg:
            from images import decode

            return decode(body)
        return numpy.frombuffer(body, numpy.float32).reshape(self.row_dims)

    def run(self, rows):
        """Rows of the output, for an array of rows of the input."""
        return self.session.run([self.output], {self.input: rows})[0].reshape(len(rows), self.elements)


def settings_of_environment():
    """What servers are told, by an environment variable that their workers have as well."""
    import json

    return json.loads(os.environ["PEER_SETTINGS"])
