import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { graph } from '../models/builder.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { markedModel } from '../support/versions.ts'
import { temporaryFolder, type Files } from '../triton-repository/temporary.ts'

const options = { mode: 'watch', pollMs: 5, debounceMs: 25 } as const

/** An ensemble of one step: OUT is what an output of a model of {@link markedModel} is. */
const ensemble = (model: string, output = 'sum', dims = 4) => `
  platform: "ensemble" max_batch_size: 4 input { name: "IN" data_type: TYPE_FP32 dims: [${dims}] } output { name: "OUT" data_type: TYPE_FP32 dims: [${dims}] }
  ensemble_scheduling { step { model_name: "${model}" model_version: -1 input_map { key: "x" value: "IN" } output_map { key: "${output}" value: "OUT" } } }`

/** sum = x + x, of rows of three. */
const narrowModel = () =>
  graph('narrow')
    .input('x', 'float32', ['N', 3])
    .output('sum', 'float32', ['N', 3])
    .node('Add', ['x', 'x'], ['sum'])
    .build()

/** A watched repository, how its files are changed, and what was told of it. */
async function watched(files: Files) {
  const engine = ownEngine()
  const events: string[] = []
  engine.on('repository', ({ type, model, version, error }) =>
    events.push([type, model, version, error?.code].join(' ').trim()),
  )
  const folder = temporaryFolder(files)
  const write = (path: string, content: string | Uint8Array) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const remove = (name: string) => rmSync(join(folder, name), { recursive: true })
  /** Resolves when that has been told so often. */
  const told = (event: string, times = 1) =>
    until(() => events.filter((each) => each === event).length === times)
  await engine.loadRepository(folder, options)
  return { engine, events, write, remove, told }
}

const whole: Files = {
  'a/1/model.onnx': markedModel(1),
  'both/config.pbtxt': ensemble('a'),
  'both/1/.keep': '',
}
/** OUT for an IN full of twos. */
const answerOf = async (engine: InferenceEngine, elements = 4) =>
  (await engine.infer('both', { IN: new Float32Array(elements).fill(2) }))['OUT']!.data[0]
/** Long enough for several looks. */
const aWhile = () => new Promise((resolve) => setTimeout(resolve, 6 * options.debounceMs))

describe('an ensemble in a watched repository', () => {
  it('that appears before its steps do is served once they have, and its failure is told once', async () => {
    const { engine, events, write, told } = await watched({
      'both/config.pbtxt': ensemble('a'),
      'both/1/.keep': '',
    })
    await aWhile()
    expect(events).toEqual(['failed both 1 ERR_MODEL_NOT_FOUND'])
    write('a/1/model.onnx', markedModel(1))
    await told('loaded both 1')
    expect(await answerOf(engine)).toBe(3)
    expect(events).toEqual(['failed both 1 ERR_MODEL_NOT_FOUND', 'loaded a 1', 'loaded both 1'])
  })

  it('goes on with what a step has become, every request with one or the other', async () => {
    const { engine, events, write, told } = await watched(whole)
    const seen = new Set<unknown>()
    for (let mark = 2; mark < 5; mark++) {
      write('a/1/model.onnx', markedModel(mark))
      while (!seen.has(2 + mark)) {
        for (const answer of await Promise.all(Array.from({ length: 8 }, () => answerOf(engine))))
          seen.add(answer)
        await new Promise(setImmediate)
      }
      await told('loaded a 1', mark)
    }
    expect([...seen]).toEqual([3, 4, 5, 6])
    expect(events).toEqual(['loaded a 1', 'loaded both 1', 'loaded a 1', 'loaded a 1', 'loaded a 1']) // and the ensemble is the same
  })

  it('is replaced when its configuration changes, while it serves', async () => {
    const { engine, write, told } = await watched(whole)
    const model = engine.model('both')
    write('both/config.pbtxt', ensemble('a', 'product'))
    let answers = 0
    const asking = (async () => {
      for (let last: unknown = 3; last === 3; answers++) {
        last = await answerOf(engine)
        expect([3, 2]).toContain(last)
        await new Promise(setImmediate)
      }
    })()
    await told('loaded both 1', 2)
    await asking
    expect(answers).toBeGreaterThan(1)
    expect((await model.infer({ IN: new Float32Array(4).fill(2) }))['OUT']!.data[0]).toBe(2)
  })

  it.each(['the step', 'the ensemble'])(
    'that fits its step no more does again when both have changed, %s first',
    async (first) => {
      const { engine, events, write, told } = await watched(whole)
      const changes = [
        () => write('a/1/model.onnx', narrowModel()),
        () => write('both/config.pbtxt', ensemble('a', 'sum', 3)),
      ]
      const [one, other] = first === 'the step' ? changes : changes.toReversed()
      one!()
      await (first === 'the step' ? told('loaded a 1', 2) : told('failed both 1 ERR_MODEL_CONFIG'))
      if (first === 'the step')
        await expect(answerOf(engine)).rejects.toMatchObject({
          code: 'ERR_MODEL_CONFIG',
          model: 'both',
          argument: 'steps[0].inputs.x',
        })
      else expect(await answerOf(engine)).toBe(3) // what there was serves on
      await aWhile()
      other!()
      await told('loaded both 1', 2)
      expect(await answerOf(engine, 3)).toBe(4)
      expect(events.filter((event) => event.startsWith('failed'))).toEqual(
        first === 'the step' ? [] : ['failed both 1 ERR_MODEL_CONFIG'],
      )
    },
  )

  it('keeps a step whose folder disappears, and takes what comes back', async () => {
    const { engine, events, write, remove, told } = await watched(whole)
    remove('a')
    await aWhile()
    expect([await answerOf(engine), engine.model('a').state]).toEqual([3, 'ready'])
    expect(events).toEqual(['loaded a 1', 'loaded both 1'])
    write('a/1/model.onnx', markedModel(5))
    await told('loaded a 1', 2)
    expect(await answerOf(engine)).toBe(7)
  })

  it('lets go of a step whose folder disappears as soon as it is loaded without it', async () => {
    const { engine, events, write, remove, told } = await watched({
      ...whole,
      'b/1/model.onnx': markedModel(6),
    })
    remove('a')
    write('both/config.pbtxt', ensemble('b'))
    await told('unloaded a 1')
    expect(await answerOf(engine)).toBe(8)
    expect(events.slice(-2)).toEqual(['loaded both 1', 'unloaded a 1'])
    expect(
      engine
        .models()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['b', 'both'])
  })

  it('of ensembles of ensembles is served from the first look on, in whichever order their names are', async () => {
    const of = (model: string) => ensemble(model, 'OUT').replace('key: "x"', 'key: "IN"')
    const chains: Record<string, string | Uint8Array> = {
      'm/1/model.onnx': markedModel(1),
      'a9/config.pbtxt': ensemble('m'),
      'b0/config.pbtxt': ensemble('m'),
    }
    for (let depth = 0; depth < 9; depth++) {
      chains[`a${depth}/config.pbtxt`] = of(`a${depth + 1}`)
      chains[`b${depth + 1}/config.pbtxt`] = of(`b${depth}`)
    }
    const folders = Object.keys(chains).filter((file) => file.endsWith('.pbtxt'))
    for (const file of folders) chains[file.replace('config.pbtxt', '1/.keep')] = ''
    const { engine, events } = await watched(chains)
    expect(events.filter((event) => event.startsWith('failed'))).toEqual([])
    for (const name of ['a0', 'b9'])
      expect((await engine.infer(name, { IN: new Float32Array(4).fill(2) }))['OUT']!.data[0]).toBe(3)
  })

  it('goes with its steps when all their folders do', async () => {
    const { engine, events, remove, told } = await watched(whole)
    remove('a')
    remove('both')
    await told('unloaded a 1')
    await told('unloaded both 1')
    expect([engine.models(), events.filter((event) => event.startsWith('failed'))]).toEqual([[], []])
  })
})
