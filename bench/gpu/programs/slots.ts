// How much memory is page-locked for a model that is placed on a device of the CUDA driver, run by whatever provider.
import { InferenceEngine } from 'zerohop'
import { loadBinding } from '../../../src/native/addon.ts'
import { answer, input } from '../../child.ts'

const { path, device } = input<{ path: string; device: number }>()
const engine = new InferenceEngine({ cpuWorkers: 1 })
await engine.load('placed', {
  path,
  instanceGroup: [{ kind: 'cuda', gpus: [device] }],
  executionProviders: ['cpu'],
})
const { pinnedBytes } = loadBinding().binding!.stats()
await engine.close()
answer(pinnedBytes)
