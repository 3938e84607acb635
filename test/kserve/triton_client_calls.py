"""The calls that the examples of Triton's own client make, as they make them, of the server at the address that is given."""

import asyncio
import json
import sys
import uuid

import numpy as np
import tritonclient.http as httpclient
import tritonclient.http.aio as aioclient
from tritonclient.utils import InferenceServerException

url = sys.argv[1]
numbers = np.expand_dims(np.arange(start=0, stop=16, dtype=np.int32), axis=0)
minus_ones = np.full(shape=(1, 16), fill_value=-1, dtype=np.int32)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def told(call):
    try:
        call()
    except InferenceServerException as error:
        return error
    sys.exit("FAILED: an error was expected")


def simple_inputs(module, binary=(False, True)):
    inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    inputs[0].set_data_from_numpy(numbers, binary_data=binary[0])
    inputs[1].set_data_from_numpy(minus_ones, binary_data=binary[1])
    return inputs


def simple_outputs(module):
    return [module.InferRequestedOutput("OUTPUT0", binary_data=True), module.InferRequestedOutput("OUTPUT1", binary_data=False)]


def check_simple(result):
    check(np.array_equal(result.as_numpy("OUTPUT0"), numbers + minus_ones), "sum")
    check(np.array_equal(result.as_numpy("OUTPUT1"), numbers - minus_ones), "difference")


def health_and_metadata(client):
    check(client.is_server_live(query_params={"test_1": 1, "test_2": 2}), "is_server_live")
    check(client.is_server_ready(), "is_server_ready")
    check(client.is_model_ready("simple"), "is_model_ready")
    check(client.get_server_metadata()["name"] == "triton", "get_server_metadata")
    check(client.get_model_metadata("simple", query_params={"test_1": 1})["name"] == "simple", "get_model_metadata")
    check(client.get_model_config("simple")["max_batch_size"] == 8, "get_model_config")
    check("Request for unknown model" in told(lambda: client.get_model_metadata("wrong_model_name")).message(), "unknown model")


def infer(client):
    for compression in (None, "gzip", "deflate"):
        options = dict(query_params={"test_1": 1}, request_compression_algorithm=compression, response_compression_algorithm=compression)
        check_simple(client.infer("simple", simple_inputs(httpclient), outputs=simple_outputs(httpclient), **options))
        check_simple(client.infer("simple", simple_inputs(httpclient), outputs=None, **options))
        check_simple(client.infer("simple", simple_inputs(httpclient, (False, False)), outputs=None, model_version="1", request_id="7", **options))
    check(len(client.get_inference_statistics(model_name="simple")["model_stats"]) == 1, "statistics")
    wrong = told(lambda: client.infer("wrong_model_name", simple_inputs(httpclient)))
    check(wrong.message().startswith("Request for unknown model"), "inference of an unknown model")


def async_infer(url):
    client = httpclient.InferenceServerClient(url=url, concurrency=2)
    requests = [client.async_infer(model_name="simple", inputs=simple_inputs(httpclient, (True, True)), outputs=simple_outputs(httpclient)) for _ in range(2)]
    for request in requests:
        check_simple(request.get_result())


async def aio_infer(url):
    client = aioclient.InferenceServerClient(url=url)
    compressed = dict(request_compression_algorithm="gzip", response_compression_algorithm="gzip")
    results = await asyncio.gather(
        client.infer("simple", simple_inputs(aioclient), outputs=simple_outputs(aioclient)),
        client.infer("simple", simple_inputs(aioclient), outputs=None, **compressed),
    )
    for result in results:
        check_simple(result)
    await client.close()


def strings(client):
    inputs = [httpclient.InferInput(name, [1, 16], "BYTES") for name in ("INPUT0", "INPUT1")]
    as_text = lambda array: np.array([str(x).encode("utf-8") for x in array.reshape(16)], dtype=np.object_).reshape(1, 16)
    ones = np.ones(shape=(1, 16), dtype=np.int32)
    inputs[0].set_data_from_numpy(as_text(numbers), binary_data=True)
    inputs[1].set_data_from_numpy(as_text(ones), binary_data=False)
    result = client.infer("simple_string", inputs, outputs=simple_outputs(httpclient))
    for at in range(16):
        check(int(result.as_numpy("OUTPUT0")[0][at]) == at + 1, "sum of strings")
        check(int(result.as_numpy("OUTPUT1")[0][at]) == at - 1, "difference of strings")
    nulls = np.array(["he\x00llo".encode("utf-8") for _ in range(16)], dtype=np.object_).reshape([1, 16])
    blobs = np.array([b"\x00\x01\x02\x03" for _ in range(16)], dtype=np.bytes_).reshape([1, 16])
    for array in (nulls, blobs):
        for binary in (True, False):
            tensor = httpclient.InferInput("INPUT0", [1, 16], "BYTES")
            tensor.set_data_from_numpy(array, binary_data=binary)
            output = httpclient.InferRequestedOutput("OUTPUT0", binary_data=binary)
            answered = client.infer(model_name="simple_identity", inputs=[tensor], outputs=[output]).as_numpy("OUTPUT0")
            answered = answered if binary else np.char.encode(answered.astype(str))
            check(np.array_equal(array.astype(np.bytes_), answered.astype(np.bytes_)), f"identity of strings, binary {binary}")


def sequences(client):
    values = [11, 7, 5, 3, 2, 0, 1]
    for first, sequence_id in ((0, 1000), (100, 1001), (20, str(uuid.uuid4()))):
        all_values = [first] + [value if first == 0 else -value for value in values]
        for count, value in enumerate(all_values, start=1):
            tensor = httpclient.InferInput("INPUT", [1, 1], "INT32")
            tensor.set_data_from_numpy(np.full(shape=[1, 1], fill_value=value, dtype=np.int32))
            result = client.infer(
                model_name="simple_sequence", inputs=[tensor], outputs=[httpclient.InferRequestedOutput("OUTPUT")],
                sequence_id=sequence_id, sequence_start=(count == 1), sequence_end=(count == len(all_values)),
            )
            check(result.as_numpy("OUTPUT")[0][0] == value + (count == 1), f"step {count} of sequence {sequence_id}")


def all_types(client):
    for name, datatype in (("bool", "BOOL"), ("int8", "INT8"), ("uint16", "UINT16"), ("int64", "INT64"), ("float16", "FP16"), ("float32", "FP32"), ("float64", "FP64")):
        array = (np.arange(8).reshape(2, 4) % 2).astype(name)
        for binary in (True, False):
            if name == "float16" and not binary:
                continue
            tensor = httpclient.InferInput("x", [2, 4], datatype)
            tensor.set_data_from_numpy(array, binary_data=binary)
            answered = client.infer(f"identity_{name}", [tensor], outputs=[httpclient.InferRequestedOutput("y", binary_data=binary)]).as_numpy("y")
            check(answered.dtype == array.dtype and np.array_equal(answered, array), f"{name}, binary {binary}")


def classification(client):
    tensor = httpclient.InferInput("x", [2, 4], "FP32")
    tensor.set_data_from_numpy(np.array([[1, 4, 2, 3], [8, 0, 0, 9]], dtype=np.float32))
    result = client.infer("identity_float32", [tensor], outputs=[httpclient.InferRequestedOutput("y", class_count=2)])
    check(result.as_numpy("y").tolist() == [[b"4:1", b"3:3"], [b"9:3", b"8:0"]], "classification")


def model_control(client):
    check(len(client.get_model_repository_index()) == 11, "repository index")
    client.load_model("simple")
    check(client.is_model_ready("simple"), "load_model")
    bad = '"parameters": {"config": {{"max_batch_size": "16"}}}'
    check("failed to load" in told(lambda: client.load_model("simple", config=bad)).message(), "a configuration that is sent")
    config = client.get_model_config("simple")
    client.load_model("simple", config=json.dumps({**config, "max_batch_size": 3}))
    check(client.get_model_config("simple")["max_batch_size"] == 3, "load_model with a configuration")
    client.unload_model("simple")
    check({"name": "simple", "state": "UNAVAILABLE", "reason": "unloaded"} in client.get_model_repository_index(), "what is not loaded")
    check(not client.is_model_ready("simple"), "unload_model")
    check("failed to load" in told(lambda: client.load_model("wrong_model_name")).message(), "load of an unknown model")


def shared_memory(client):
    for call in (client.unregister_system_shared_memory, client.unregister_cuda_shared_memory, client.get_system_shared_memory_status):
        error = told(call)
        check(error.status() == "501" and "shared memory is not supported" in error.message(), "shared memory")


client = httpclient.InferenceServerClient(url=url)
for step in (health_and_metadata, infer, strings, sequences, all_types, classification, shared_memory):
    step(client)
    print(step.__name__)
async_infer(url)
print("async_infer")
asyncio.run(aio_infer(url))
print("aio_infer")
model_control(client)
print("model_control")
