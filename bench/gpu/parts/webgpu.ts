import { findPlugins } from '../../../src/cli/providers.ts'
import { hasShared, sharedPath } from '../../../test/support/shared.ts'
import { run } from '../../child.ts'
import { benchModel } from '../../models.ts'
import { round } from '../../statistics.ts'
import { atLeast, atMost } from '../../targets.ts'
import { capabilitiesHere, pluginFolder } from '../here.ts'
import type { Part } from '../part.ts'
import { pluginForSoftware, vulkanDriver } from '../stand-ins.ts'
import type { GpuFound, GpuInput } from '../gpu-question.ts'

/** Of answers by WebGPU to those of the CPU, which adds up in another order. */
const tolerance = 1e-3

type Question = Omit<GpuInput, 'seconds'>

/** Photographs that SqueezeNet is asked about. */
export const photographs = ['fish.png', 'mug.jpg', 'wolves.jpg']

interface Attempt {
  readonly model: string
  readonly way: string
  readonly driver: string
  readonly found: GpuFound
}

const ownDriver = "the machine's own"
const software = 'SwiftShader'

/** Small models and real ones by WebGPU, built in and as a plugin, through the executor that runs all others. */
export const webGpu: Part = {
  describe:
    "models by WebGPU through the native executor, built in and as a plugin; their answers against the CPU's",
  async run({ seconds, smoke }) {
    const library = (await findPlugins(pluginFolder)).find(({ name }) => name === 'webgpu')?.library
    const { cuda } = await capabilitiesHere()
    const ways: Record<string, { library?: string }> = {
      'built in': {},
      ...(library === undefined ? {} : { plugin: { library } }),
    }
    const attempts: Attempt[] = []
    for (const [way, plugin] of Object.entries(ways)) {
      for (const [model, question] of Object.entries(questions(smoke)))
        attempts.push(...(await attempt(model, way, { ...question, ...plugin, seconds })))
    }
    const standIn = attempts.some(({ driver }) => driver === software)
    const nothing = attempts.every(({ found }) => found.ran === null)
    return {
      on: [
        standIn
          ? 'SwiftShader, which is Vulkan in software'
          : nothing
            ? 'nothing: WebGPU finds no device, and it is the typed reason that counts'
            : 'what the driver of this machine offers',
        ...(library === undefined
          ? ['the plugin is not installed (node scripts/providers/install-webgpu.mjs does that)']
          : []),
        ...(hasShared ? [] : ['SqueezeNet is not beside the checkout']),
      ].join('; '),
      standIn,
      rows: attempts.map(({ model, way, driver, found: { ran, ...refused } }) => ({
        model,
        WebGPU: way,
        driver,
        answer:
          ran === null
            ? shown(refused as { code: string; reason: string })
            : `right within ${ran.difference.toExponential(1)}`,
        'ms a request': ran === null ? '' : String(round(ran.gpuMs)),
        'ms on the CPU': ran === null ? '' : String(round(ran.cpuMs)),
      })),
      targets: attempts.map(({ model, way, driver, found }) => {
        const what = `${model}, ${way}, driver ${driver}`
        if (found.ran !== null)
          return atMost(tolerance, `${what}: largest difference to the largest output`, found.ran.difference)
        if (cuda.available || driver === software) return atLeast(1, `${what}: models that ran`, 0)
        return atLeast(
          1,
          `${what}: typed reasons`,
          Number(/^(ERR|ZEROHOP)_[A-Z_]+$/.test(found.code) && found.reason !== ''),
        )
      }),
    }
  },
}

/** Where the machine's own driver has no device for it, on the stand-in, too. */
async function attempt(model: string, way: string, question: GpuInput): Promise<Attempt[]> {
  const ask = (changed: GpuInput, environment: NodeJS.ProcessEnv = {}) =>
    run<GpuFound>('gpu/programs/answers.ts', changed, [], environment)
  const own: Attempt = { model, way, driver: ownDriver, found: await ask(question) }
  const environment = own.found.ran === null ? vulkanDriver() : null
  if (environment === null) return [own]
  const library = question.library === undefined ? undefined : pluginForSoftware(question.library)
  if (library === null) return [own]
  return [
    own,
    {
      model,
      way,
      driver: software,
      found: await ask(library === undefined ? question : { ...question, library }, environment),
    },
  ]
}

function questions(smoke: boolean): Record<string, Question> {
  const { path, input, rowDims } = benchModel('mlp')
  const mlp: Question = { kind: 'webgpu', path, input, rowDims, images: [] }
  if (smoke || !hasShared) return { mlp }
  const images = photographs.map((image) => sharedPath(`images/${image}`))
  return {
    mlp,
    squeezenet: {
      kind: 'webgpu',
      path: sharedPath('models/squeezenet/model.onnx'),
      input: 'data_0',
      rowDims: [3, 224, 224],
      images,
    },
  }
}

/** The end of ONNX Runtime's words says what it was. */
function shown({ code, reason }: { code: string; reason: string }): string {
  const line = reason.replaceAll(/\s+/g, ' ')
  return `${code}: ${line.length <= 80 ? line : `... ${line.slice(-80)}`}`
}
