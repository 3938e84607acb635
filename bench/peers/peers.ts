import type { Peer } from './peer.ts'
import { bentoMl } from './peers/bentoml.ts'
import { fastApi } from './peers/fastapi.ts'
import { litServe } from './peers/litserve.ts'
import {
  fastifyDataloader,
  fastifyPiscina,
  fastifyPlain,
  piscinaInProcess,
  plain,
  sameThreadBatcher,
} from './peers/onnxruntime-node.ts'
import { openVinoDefault, openVinoFloat32, pythonOnnxRuntime } from './peers/python-in-process.ts'
import { pyTriton } from './peers/pytriton.ts'
import { rayServe } from './peers/ray-serve.ts'
import { torchServe } from './peers/torchserve.ts'
import { transformersJs } from './peers/transformers-js.ts'
import { tritonInProcess } from './peers/triton-in-process.ts'
import { tritonHttp } from './peers/triton.ts'
import {
  fastifyZerohop,
  fastifyZerohopOpenVino,
  kserveZerohop,
  zerohop,
  zerohopOpenVino,
  zerohopOpenVinoFloat32,
} from './peers/zerohop.ts'

/** All that is compared, in the order of the tables: in process first. */
export const peers: readonly Peer[] = [
  zerohop,
  sameThreadBatcher,
  plain,
  piscinaInProcess,
  transformersJs,
  pythonOnnxRuntime,
  tritonInProcess,
  openVinoFloat32,
  zerohopOpenVinoFloat32,
  openVinoDefault,
  zerohopOpenVino,
  kserveZerohop,
  fastifyZerohop,
  fastifyZerohopOpenVino,
  fastifyDataloader,
  fastifyPlain,
  fastifyPiscina,
  fastApi,
  litServe,
  bentoMl,
  rayServe,
  torchServe,
  pyTriton,
  tritonHttp,
]
