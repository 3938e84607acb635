import type { Peer } from './peer.ts'
import { fastifyDataloader, fastifyPiscina, fastifyPlain, piscinaInProcess, plain, sameThreadBatcher } from './peers/onnxruntime-node.ts'
import { transformersJs } from './peers/transformers-js.ts'
import { fastifyZerohop, fastifyZerohopOpenVino, zerohop, zerohopOpenVino, zerohopOpenVinoFloat32 } from './peers/zerohop.ts'

/** All that is compared, in the order of the tables: in process first. */
export const peers: readonly Peer[] = [
  zerohop,
  sameThreadBatcher,
  plain,
  piscinaInProcess,
  transformersJs,
  zerohopOpenVinoFloat32,
  zerohopOpenVino,
  fastifyZerohop,
  fastifyZerohopOpenVino,
  fastifyDataloader,
  fastifyPlain,
  fastifyPiscina,
]
