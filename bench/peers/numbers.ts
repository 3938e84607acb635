import { shownAll } from '../shown.ts'
import type { NumbersRow } from '../trial.ts'
import type { Found } from './result.ts'
import type { WorkloadName } from './workload.ts'

/** What README shows: the hard baselines, not the easy ones. */
const baselines: readonly {
  readonly workload: WorkloadName
  readonly model: string
  readonly peer: string
  readonly what: string
  readonly ours?: string
}[] = [
  {
    workload: 'mlp',
    model: 'MLP',
    peer: 'same-thread-batcher',
    what: "a batcher (`dataloader`) on the callers' own thread",
  },
  {
    workload: 'mlp',
    model: 'MLP',
    peer: 'triton-in-process',
    what: "Triton in its callers' process, in C++",
  },
  {
    workload: 'mlp',
    model: 'MLP',
    peer: 'python-onnxruntime',
    what: "Python's onnxruntime batched by hand, whose callers are no promises but entries of a queue",
  },
  {
    workload: 'squeezenet',
    model: 'SqueezeNet of JPEGs',
    peer: 'same-thread-batcher',
    what: 'the same batcher, and the same decoder',
  },
  {
    workload: 'squeezenet',
    model: 'SqueezeNet of JPEGs',
    peer: 'python-onnxruntime',
    what: "Python's onnxruntime by hand, with OpenCV's decoder",
  },
  {
    workload: 'squeezenet',
    model: 'SqueezeNet of JPEGs',
    peer: 'openvino',
    what: "OpenVINO's own queue; zerohop with its plugin, both in bfloat16",
    ours: 'zerohop-openvino',
  },
  {
    workload: 'resnet50',
    model: 'ResNet-50',
    peer: 'triton-in-process',
    what: "Triton in its callers' process, in C++",
  },
  {
    workload: 'resnet50',
    model: 'ResNet-50',
    peer: 'openvino',
    what: "OpenVINO's own queue; zerohop with its plugin, both in bfloat16",
    ours: 'zerohop-openvino',
  },
]

/** Lines of README's numbers, of those that were measured. */
export function numbersOf(found: Found, callers: readonly number[]): NumbersRow[] {
  return baselines.flatMap(({ workload, model, peer, what, ours = 'zerohop' }) => {
    const loads = callers.flatMap((count) => {
      const beside = found.beside(workload, ours, peer, count)
      return beside === null ? [] : [{ count, ...beside }]
    })
    if (loads.length === 0) return []
    const perSecond = (who: 'own' | 'other'): string =>
      shownAll(
        loads.map((load) => load[who]),
        'requests/s',
      )
    return {
      question: `${model} in process, ${loads.map(({ count }) => count).join(', ')} callers, beside ${what}`,
      plain: `${perSecond('other')} (that one)`,
      zerohop: perSecond('own'),
      note: `${loads.map(({ ratio }) => ratio.toFixed(2)).join(', ')} x`,
    }
  })
}
