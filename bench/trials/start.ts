import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

/** What one process found; times are from before the first import of the library. */
interface Started {
  readonly importMs: number
  readonly loadMs: number
  readonly firstMs: number
  readonly secondMs: number
  readonly heapBytes: number
  readonly pssBytes: number
  /** From the start of the process to its end. */
  readonly processMs: number
}

const imports = 20

async function started(input: object, nodeOptions: readonly string[] = []): Promise<Started> {
  const startMs = performance.now()
  const found = await run<Started>('programs/start.mjs', input, nodeOptions, {
    ZEROHOP_CACHE: undefined,
    ZEROHOP_VERIFY: undefined,
  })
  return { ...found, processMs: performance.now() - startMs }
}

/** What a start costs that uses an engine, beside one that does not: each figure in a process of its own. */
export const start: Trial = {
  describe:
    'importing the package, first loads up to the first answer, with and without the cache of compiled models, and memory of a process and of a further thread',
  async run({ rounds, smoke, quick }) {
    const times = smoke ? 1 : quick ? 7 : imports
    const { both, zerohop } = await takeTurns(times, {
      both: () => started({ modules: ['piscina', 'onnxruntime-common'] }),
      zerohop: () => started({ modules: ['zerohop'] }),
    })
    const importRatio = round(middle(zerohop, 'importMs') / middle(both, 'importMs'))
    const rows = [
      row(
        'import, beside piscina and onnxruntime-common',
        'ms',
        middle(both, 'importMs'),
        middle(zerohop, 'importMs'),
      ),
    ]

    const details: unknown[] = [{ both, zerohop }]
    const targets = [atMost(2, 'importing zerohop, to piscina and onnxruntime-common', importRatio)]
    for (const [name, model] of Object.entries(models(smoke, quick))) {
      const dir = mkdtempSync(join(tmpdir(), 'zerohop-'))
      try {
        const engine = (options: object) => ({ model, side: 'zerohop', engine: options, again: true })
        const found = await takeTurns(quick ? 1 : rounds, {
          plain: () => started({ model, side: 'plain', again: true }),
          'cold, with a trial': () => started(engine({ cache: false })),
          'cold, verify: none': () => started(engine({ cache: false, verify: 'none' })),
          'cold, filling the cache': async () => {
            rmSync(dir, { recursive: true, force: true })
            return started({ ...engine({ cache: { dir } }), fillsCache: true })
          },
          'warm, out of the cache': () => started(engine({ cache: { dir } })),
          floor: () => started({ model, side: 'plain', compiled: compiledIn(dir) }),
        })
        const { plain, floor, ...ours } = found
        for (const [how, sides] of Object.entries(ours)) {
          rows.push(
            row(
              `${name} ${how}: import, load and first answer`,
              'ms',
              middle(plain, 'firstMs'),
              middle(sides, 'firstMs'),
            ),
            row(
              `${name} ${how}: the process, to its end`,
              'ms',
              middle(plain, 'processMs'),
              middle(sides, 'processMs'),
            ),
          )
        }
        const warm = found['warm, out of the cache']
        rows.push(
          row(`${name}: a second load`, 'ms', middle(plain, 'secondMs'), middle(warm, 'secondMs')),
          row(
            `${name}: import and a load out of the cache, beside ONNX Runtime that opens the compiled form`,
            'ms',
            middle(floor, 'loadMs'),
            middle(warm, 'loadMs'),
          ),
        )
        const plainMs = middle(plain, 'firstMs')
        const within = (how: keyof typeof ours, times: number, moreMs: number) =>
          atMost(
            round(times * plainMs + moreMs, 0),
            `${name} ${how}: ms to the first answer (${times} x plain + ${moreMs})`,
            middle(ours[how], 'firstMs'),
          )
        targets.push(
          within('cold, with a trial', 2.1, 200),
          within('cold, filling the cache', 1.5, 200),
          within('cold, verify: none', 1.15, 100),
        )
        if (name === 'ResNet-152')
          targets.push(
            atMost(
              round(Math.max(0.06 * middle(plain, 'loadMs'), middle(floor, 'loadMs') + 20), 0),
              `${name} out of the cache: ms to load (6 % of plain, or ONNX Runtime's own + 20)`,
              middle(warm, 'loadMs'),
            ),
          )
        details.push({ name, found })
      } finally {
        rmSync(dir, { recursive: true, force: true })
      }
    }

    const model = benchModel('mlp')
    const memory = (instances: number) => () => {
      const engine = { cpuWorkers: instances, cache: false, verify: 'none' }
      return started({ model, side: 'zerohop', engine, instances, measureMemory: true }, ['--expose-gc'])
    }
    const held = await takeTurns(smoke || quick ? 1 : rounds, {
      plain: () => started({ model, measureMemory: true }, ['--expose-gc']),
      one: memory(1),
      two: memory(2),
    })
    const mb = (of: readonly Started[], key: 'heapBytes' | 'pssBytes') => middle(of, key) / 2 ** 20
    rows.push(
      row(
        'JavaScript heap of a process with one model',
        'MB',
        mb(held.plain, 'heapBytes'),
        mb(held.one, 'heapBytes'),
      ),
      row('PSS of a process with one model', 'MB', mb(held.plain, 'pssBytes'), mb(held.one, 'pssBytes')),
      row('PSS of a further worker thread', 'MB', 0, mb(held.two, 'pssBytes') - mb(held.one, 'pssBytes')),
    )
    return {
      ours: middle(zerohop, 'importMs'),
      plain: middle(both, 'importMs'),
      unit: 'ms an import',
      ratio: importRatio,
      targets,
      rows,
      settings: { imports: times },
      details: [...details, held],
    }
  },
}

/** The path of the graph of the only compiled model in a cache. */
function compiledIn(dir: string): string {
  const graph = readdirSync(dir, { recursive: true, encoding: 'utf8' }).find((file) =>
    /entries\/[^/]+\/model\.onnx$/.test(file),
  )
  if (graph === undefined) throw new Error(`there is no compiled form in ${dir}`)
  return join(dir, graph)
}

function models(smoke: boolean, quick: boolean): Readonly<Record<string, BenchModel>> {
  const squeezeNet = {
    path: sharedPath('models/squeezenet/model.onnx'),
    input: 'data_0',
    rowDims: [3, 224, 224],
  }
  return {
    MLP: benchModel('mlp'),
    ...(hasShared && !smoke && { SqueezeNet: squeezeNet }),
    ...(!smoke && !quick && { 'ResNet-50': benchModel('resnet50'), 'ResNet-152': benchModel('resnet152') }),
  }
}

function middle(all: readonly Started[], key: keyof Started): number {
  return round(median(all.map((one) => one[key])), 1)
}

function row(what: string, unit: string, plain: number, ours: number) {
  return {
    what,
    unit,
    plain: round(plain, 1),
    zerohop: round(ours, 1),
    ratio: plain === 0 ? '' : String(round(ours / plain)),
  }
}
