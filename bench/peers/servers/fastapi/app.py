"""FastAPI as its documentation advises for speed: a process for each core, uvloop and httptools, orjson, requests taken directly."""

import numpy
import orjson
from fastapi import FastAPI, Request, Response
from onnx_model import Model, settings_of_environment

told = settings_of_environment()
model = Model(told["workload"], told["settings"]["intraOpNumThreads"])
app = FastAPI(openapi_url=None)
BINARY = "application/octet-stream"


# A process has one core, so a run on its event loop keeps nobody from another one. https://fastapi.tiangolo.com/advanced/using-request-directly/
@app.post("/json")
async def of_json(request: Request):
    row = numpy.array(orjson.loads(await request.body())["input"], numpy.float32)
    output = model.run(row[None])[0]
    return Response(orjson.dumps({"output": output}, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


@app.post("/bytes")
async def of_bytes(request: Request):
    output = model.run(model.row(await request.body())[None])[0]
    return Response(output.tobytes(), media_type=BINARY)
