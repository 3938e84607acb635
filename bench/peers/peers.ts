import type { Peer } from './peer.ts'
import { fastifyDataloader, fastifyPiscina, fastifyPlain, piscinaInProcess, plain, sameThreadBatcher } from './peers/onnxruntime-node.ts'
import { openVinoDefault, openVinoFloat32, pythonOnnxRuntime } from './peers/python-in-process.ts'
import { transformersJs } from './peers/transformers-js.ts'
import { fastifyZerohop, fastifyZerohopOpenVino, zerohop, zerohopOpenVino, zerohopOpenVinoFloat32 } from './peers/zerohop.ts'

/** All that is compared, in the order of the tables: in process first. */
export const peers: readonly Peer[] = [
  zerohop,
  sameThreadBatcher,
  plain,
  piscinaInProcess,
  transformersJs,
  pythonOnnxRuntime,
  openVinoFloat32,
  zerohopOpenVinoFloat32,
  openVinoDefault,
  zerohopOpenVino,
  fastifyZerohop,
  fastifyZerohopOpenVino,
  fastifyDataloader,
  fastifyPlain,
  fastifyPiscina,
]
