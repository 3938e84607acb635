import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hasShared, sharedPath } from '../../../test/support/shared.ts'
import { run } from '../../child.ts'
import { benchModel } from '../../models.ts'
import { atLeast, type Target } from '../../targets.ts'
import {
  eachWrong,
  optionNamedBy,
  providerWasLoaded,
  right,
  type CudaAnswer,
  type CudaQuestion,
} from '../cuda-question.ts'
import { capabilitiesHere } from '../here.ts'
import type { Part } from '../part.ts'
import { overStandInRuntime } from '../stand-ins.ts'

const wrong = eachWrong(right)
const allRight = 'all right'
/** Less than the weights of the model take. */
const littleMemory = 'gpu_mem_limit of 1 MiB'

/** Whether options of the CUDA provider reach it. */
export const cudaOptions: Part = {
  describe:
    'options of the CUDA provider: each with a value that it cannot have, which the provider refuses by its name, and, on a GPU, a limit of memory by its effect',
  async run() {
    const { native, cuda } = await capabilitiesHere()
    const little = { [littleMemory]: { ...right, gpu_mem_limit: 2 ** 20 } }
    const own = await ask({
      entry: 'zerohop',
      ...model(),
      attempts: { ...wrong, [allRight]: right, ...(cuda.available ? little : {}) },
    })
    const absent = Object.values(own).find((message) => !providerWasLoaded(message))
    const answers = absent === undefined ? own : await onStandIn(native.path!)
    const named = Object.keys(wrong).filter((option) => optionNamedBy(answers[option] ?? '') === option)
    return {
      on:
        absent === undefined
          ? "ONNX Runtime's CUDA provider"
          : `the ONNX Runtime of the C++ tests (${reasonOf(absent!)})`,
      standIn: absent !== undefined,
      rows: Object.entries(answers).map(([attempt, message]) => ({
        attempt: attempt in wrong ? `${attempt}: 'wrong'` : attempt,
        answer: message === null ? 'loaded, and it answers' : tail(message),
      })),
      targets: [
        atLeast(Object.keys(wrong).length, 'options that are refused by their names', named.length),
        ...(absent !== undefined || cuda.available
          ? [atLeast(1, 'loads with options that are all right', Number(answers[allRight] === null))]
          : []),
        ...(absent === undefined && cuda.available ? [limitTarget(answers)] : []),
      ],
    }
  },
}

function limitTarget(answers: CudaAnswer): Target {
  return atLeast(
    1,
    'models that a limit of memory keeps from running',
    Number(typeof answers[littleMemory] === 'string'),
  )
}

function model(): Omit<CudaQuestion, 'entry' | 'attempts'> {
  if (hasShared)
    return { path: sharedPath('models/squeezenet/model.onnx'), input: 'data_0', dims: [1, 3, 224, 224] }
  const { path, input, rowDims } = benchModel('resnet50')
  return { path, input, dims: [1, ...rowDims] }
}

/** Its models are told by the names of their files. */
function onStandIn(addon: string): Promise<CudaAnswer> {
  return overStandInRuntime(addon, (entry, environment) => {
    const path = join(dirname(entry), 'plus-one')
    writeFileSync(path, '')
    return ask(
      { entry, path, input: 'x', dims: [1, 4], attempts: { ...wrong, [allRight]: right } },
      environment,
    )
  })
}

function ask(question: CudaQuestion, environment: NodeJS.ProcessEnv = {}): Promise<CudaAnswer> {
  return run<CudaAnswer>('gpu/programs/cuda-options.ts', question, [], environment)
}

const reasonOf = (message: string): string =>
  `there is no ${/(\w+\.(?:so|dll))\b/.exec(message)?.[1] ?? 'library of the CUDA provider'}`

/** ONNX Runtime's own words come last. */
function tail(message: string, length = 150): string {
  const line = message.replaceAll(/\s+/g, ' ')
  return line.length <= length ? line : `... ${line.slice(-length)}`
}
