import { InferenceEngine, Tensor, type Model } from 'zerohop'
import { softmax } from 'zerohop/function'
import * as image from 'zerohop/image'
import * as processes from 'zerohop/processes'
import { kserve } from 'zerohop/kserve'
import * as prometheus from 'zerohop/prometheus'
import { inspector } from 'zerohop/inspector'
import * as opentelemetry from 'zerohop/opentelemetry'
import * as ort from 'zerohop/ort'
import * as transformers from 'zerohop/transformers'
import { createServer } from 'node:http'

const engine = new InferenceEngine({ cpuWorkers: 1 })
const model: Model = await engine.load('digits', { path: 'model.onnx' })
const { probabilities } = await model.infer({ image: new Tensor('float32', new Float32Array(64), [1, 1, 8, 8]) })
console.log(probabilities!.dims, softmax, image, processes, prometheus, opentelemetry, ort, transformers)
createServer(inspector(engine))
createServer(kserve(engine))
