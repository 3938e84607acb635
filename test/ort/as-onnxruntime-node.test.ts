import { readFileSync } from 'node:fs'
import * as plain from 'onnxruntime-node'
import { describe, expect, it, vi } from 'vitest'
import { createOrt, Tensor } from '../../src/adapters/ort/ort-exports.ts'
import { identity } from '../models/small.ts'
import { field, message, tensorType, value } from '../onnx-file/wire.ts'
import { sharedEngine } from '../support/open.ts'

// The calls of onnxruntime-node's own unit tests, of both libraries: they do the same, or fail with the same kind of error.

interface Session extends plain.InferenceSession {}
interface Library {
  readonly create: (...args: unknown[]) => Promise<Session>
  readonly tensor: (type: string, data: unknown, dims: readonly number[]) => plain.Tensor
}

const own = createOrt(sharedEngine())
const libraries = {
  'onnxruntime-node': {
    create: (...args) => plain.InferenceSession.create(...(args as [string])),
    tensor: (type, data, dims) => new plain.Tensor(type as 'float32', data as Float32Array, dims),
  },
  zerohop: {
    create: (...args) => own.InferenceSession.create(...(args as [string])),
    tensor: (type, data, dims) => new Tensor(type as 'float32', data as Float32Array, dims),
  },
} satisfies Record<string, Library>

const path = identity('float32')
const file = readFileSync(path)
const buffer = file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength)
const x = ({ tensor }: Library, rows = 1) =>
  tensor(
    'float32',
    Float32Array.from({ length: 4 * rows }, (_, index) => index),
    [rows, 4],
  )

/** y = |x|, whose shape is told or not. */
const absolute = (dims: readonly (number | string)[] | null): Uint8Array =>
  message(
    field(1, 9),
    field(
      7,
      message(
        field(1, message(field(1, 'x'), field(2, 'y'), field(4, 'Abs'))),
        field(2, 'abs'),
        field(11, value('x', tensorType(1, dims))),
        field(12, value('y', tensorType(1, null))),
      ),
    ),
    field(8, field(2, 21)),
  )

type Kind = 'fine' | 'TypeError' | 'RangeError' | 'Error'
type Call = readonly [kind: Kind, says: RegExp, call: (library: Library) => Promise<unknown>]
const fine = /^/

const created = (kind: Kind, says: RegExp, ...args: unknown[]): Call => [
  kind,
  says,
  async ({ create }) => (await create(...args)).inputNames,
]
const withOptions = (kind: Kind, options: Record<string, unknown>): Call =>
  created(kind, kind === 'fine' ? fine : new RegExp(Object.keys(options)[0]!), path, options)
const run = (
  kind: Kind,
  says: RegExp,
  ask: (session: Session, library: Library) => Promise<unknown>,
): Call => [kind, says, async (library) => ask(await library.create(path), library)]
const shown = async (answer: Promise<plain.InferenceSession.ReturnType>) =>
  Object.fromEntries(
    Object.entries(await answer).map(([name, { type, dims, data }]) => [name, { type, dims, data }]),
  )
const anything = (session: Session) =>
  session as unknown as { run(...args: unknown[]): Promise<plain.InferenceSession.ReturnType> }

/** What a tensor of onnxruntime-common has, but for some of it. */
const like = (other: object) => ({
  type: 'float32',
  dims: [1, 4],
  data: new Float32Array(4),
  location: 'cpu',
  size: 4,
  ...other,
})

const threads = (name: string): Record<string, Call> => ({
  [`${name}: another type`]: withOptions('TypeError', { [name]: 'bad-value' }),
  [`${name}: a flag`]: withOptions('TypeError', { [name]: true }),
  [`${name}: null`]: withOptions('TypeError', { [name]: null }),
  [`${name}: no integer`]: withOptions('RangeError', { [name]: 1.5 }),
  [`${name}: below 0`]: withOptions('RangeError', { [name]: -1 }),
  [`${name}: 1`]: withOptions('fine', { [name]: 1 }),
})
const flags = (name: string): Record<string, Call> => ({
  [`${name}: 0`]: withOptions('TypeError', { [name]: 0 }),
  [`${name}: a text`]: withOptions('TypeError', { [name]: 'true' }),
  [`${name}: true`]: withOptions('fine', { [name]: true }),
  [`${name}: false`]: withOptions('fine', { [name]: false }),
})
const choices = (name: string, right: string): Record<string, Call> => ({
  [`${name}: another type`]: withOptions('TypeError', { [name]: 0 }),
  [`${name}: none of them`]: withOptions('TypeError', { [name]: 'bad-value' }),
  [`${name}: ${right}`]: withOptions('fine', { [name]: right }),
})

const calls: Record<string, Call> = {
  'create: nothing': created('TypeError', /argument\[0\]/),
  'create: null': created('TypeError', /argument\[0\]/, null),
  'create: an offset below 0': created('RangeError', /'byteOffset'/, buffer, -1),
  'create: an offset behind the end': created('RangeError', /'byteOffset'/, buffer, 100_000_000),
  'create: an offset that is no integer': created('RangeError', /'byteOffset'/, buffer, 0.5),
  'create: a length below 0': created('RangeError', /'byteLength'/, buffer, 0, -1),
  'create: a length beyond the end': created('RangeError', /'byteLength'/, buffer, 0, 100_000_000),
  'create: a length that is no number': created('TypeError', /'byteLength'/, buffer, 0, 'all'),
  'create: a path, and options that are none': created('TypeError', /'options'/, path, 'cpu'),
  'create: bytes, and options that are none': created('TypeError', /'options'/, new Uint8Array(file), 'cpu'),
  'create: a buffer, and options that are none': created('TypeError', /'options'/, buffer, 0, buffer.byteLength, 'cpu'),
  'create: no such file': created('Error', /failed/, '/this/is/an/invalid/path.onnx'),
  'create: no bytes': created('Error', /Model data pointer is null/, new Uint8Array(0)),
  'create: bytes of nothing': created('Error', /protobuf parsing failed/, Uint8Array.of(1, 2, 3)),
  'create: bytes': created('fine', fine, new Uint8Array(file)),
  'create: a buffer': created('fine', fine, buffer),
  'create: a part of a buffer': created('fine', fine, buffer, 0, buffer.byteLength),

  'metadata: names': [ 'fine', fine, async ({ create }) => create(path).then(({ inputNames, outputNames }) => ({ inputNames, outputNames }))], // prettier-ignore
  ...Object.fromEntries(([['no shape', null], ['names for a shape', ['a', 'b']], ['a fixed shape', [2, 4]]] as const).map(([what, dims]) => [`metadata: ${what}`, ['fine', fine, async ({ create }) => create(absolute(dims)).then(({ inputMetadata, outputMetadata }) => ({ inputMetadata, outputMetadata }))] satisfies Call])),

  'executionProviders: a text': created('TypeError', fine, path, { executionProviders: 'bad-EP-name' }),
  ...Object.fromEntries([0, false, ''].map((value) => [`executionProviders: ${JSON.stringify(value)}`, withOptions('fine', { executionProviders: value })])),
  'executionProviders: null among them': created('TypeError', fine, path, { executionProviders: [null] }),
  'executionProviders: one that there is not': created('Error', /bad-EP-name/, path, { executionProviders: ['bad-EP-name'] }),
  'executionProviders: the same as an object': created('Error', /bad-EP-name/, path, { executionProviders: [{ name: 'bad-EP-name' }] }),
  'executionProviders: cpu': withOptions('fine', { executionProviders: ['cpu'] }),
  'executionProviders: cpu as an object': withOptions('fine', { executionProviders: [{ name: 'cpu' }] }),
  ...threads('intraOpNumThreads'),
  ...threads('interOpNumThreads'),
  ...choices('graphOptimizationLevel', 'basic'),
  ...choices('executionMode', 'sequential'),
  ...flags('enableCpuMemArena'),
  ...flags('enableMemPattern'),
  'enableProfiling: a number': withOptions('TypeError', { enableProfiling: 1 }),
  'enableProfiling: without a prefix': created('TypeError', /profileFilePrefix/, path, { enableProfiling: true }),
  'enableProfiling: a prefix that is none': created('TypeError', /profileFilePrefix/, path, { enableProfiling: true, profileFilePrefix: null }),
  'profileFilePrefix: a number without profiling': withOptions('fine', { profileFilePrefix: 1 }),
  'logVerbosityLevel: a function': withOptions('fine', { logVerbosityLevel: () => 1 }),
  'logId: a number': withOptions('TypeError', { logId: 1 }),
  'optimizedModelFilePath: a number': withOptions('TypeError', { optimizedModelFilePath: 1 }),
  'logSeverityLevel: a text': withOptions('TypeError', { logSeverityLevel: '2' }),
  'logSeverityLevel: 8': withOptions('RangeError', { logSeverityLevel: 8 }),
  'logSeverityLevel: no integer': withOptions('RangeError', { logSeverityLevel: 1.5 }),
  'logSeverityLevel: 4': withOptions('fine', { logSeverityLevel: 4 }),
  'extra: a text': withOptions('TypeError', { extra: 'x' }),
  'extra: a number among them': withOptions('TypeError', { extra: { a: 1 } }),
  'extra: a name twice': withOptions('fine', { extra: { session: { intra_op: { allow_spinning: '1' } }, 'session.intra_op.allow_spinning': '0' } }),
  'extra: an object of a class': withOptions('fine', { extra: new (class { 'session.intra_op.allow_spinning' = '0' })() }),
  'extra: an array': withOptions('fine', { extra: [] }),
  'extra: a map': withOptions('fine', { extra: new Map([['a', 1]]) }),
  'externalData: a text': withOptions('TypeError', { externalData: 'x' }),
  'externalData: a number among them': withOptions('TypeError', { externalData: [1] }),
  'externalData: no path': withOptions('TypeError', { externalData: [{ data: new Uint8Array(1) }] }),
  'externalData: a path that is none': withOptions('TypeError', { externalData: [{ path: 1, data: new Uint8Array(1) }] }),
  ...Object.fromEntries([undefined, null, new Float32Array(1), new DataView(new ArrayBuffer(4))].map((data) => [`externalData: data ${Object.prototype.toString.call(data)}`, withOptions('TypeError', { externalData: [{ path: 'a', data }] })])),
  'preferredOutputLocation: none': withOptions('TypeError', { preferredOutputLocation: 'none' }),
  'preferredOutputLocation: an output nowhere': withOptions('TypeError', { preferredOutputLocation: { y: 'gpu' } }),
  'preferredOutputLocation: another output': created('TypeError', /z.* output|outputs.* 'z'/, path, { preferredOutputLocation: { z: 'cpu' } }),
  'preferredOutputLocation: of each output': withOptions('fine', { preferredOutputLocation: { y: 'cpu' } }),
  'preferredOutputLocation: an array': withOptions('fine', { preferredOutputLocation: [] }),
  'options: inherited': created('RangeError', /intraOpNumThreads/, path, Object.create({ intraOpNumThreads: -1 })),
  'options: of a class': created('RangeError', /intraOpNumThreads/, path, new (class { get intraOpNumThreads() { return -1 } })()),
  'preferredOutputLocation: nowhere': withOptions('TypeError', { preferredOutputLocation: 'gpu' }),

  'run: null': run('TypeError', /'feeds'/, (session) => anything(session).run(null)),
  'run: a tensor': run('TypeError', /'feeds'/, (session, library) => anything(session).run(x(library))),
  'run: an array': run('TypeError', /'feeds'/, (session, library) => anything(session).run([x(library)])),
  'run: no input': run('Error', /input 'x' is missing/, (session) => session.run({})),
  'run: another input': run('Error', /input 'x' is missing/, (session, library) => session.run({ z: x(library) })),
  'run: another type': run('Error', /type/, (session, { tensor }) => session.run({ x: tensor('int32', new Int32Array(4), [1, 4]) })),
  'run: another rank': run('Error', /rank/, (session, { tensor }) => session.run({ x: tensor('float32', new Float32Array(4), [4]) })),
  'run: other dims': run('Error', /invalid dimensions|shape \[N, 4\]/, (session, { tensor }) => session.run({ x: tensor('float32', new Float32Array(5), [1, 5]) })),
  ...Object.fromEntries(
    (
      [
        ['null', 'TypeError', null], ['a number', 'TypeError', 1], ['a text', 'TypeError', 'x'], ['an array', 'TypeError', [1, 2, 3, 4]], ['an object', 'TypeError', {}], ['of no type', 'TypeError', like({ type: 'float99' })], ['without dims', 'TypeError', like({ dims: undefined })],
        ['with dims of text', 'TypeError', like({ dims: ['1', 4] })], ['with dims below 0', 'RangeError', like({ dims: [-1, 4] })], ['with dims that are not whole', 'RangeError', like({ dims: [0.5, 4] })], ['with too few elements', 'Error', like({ data: new Float32Array(3) })],
        ['on a GPU', 'TypeError', like({ location: 'gpu-buffer' })], ['in a texture', 'TypeError', like({ location: 'texture' })], ['disposed', 'RangeError', like({ location: 'none' })],
        ['elsewhere', 'RangeError', like({ location: 'abroad' })], ['of a type of 4 bits', 'TypeError', like({ type: 'int4' })], ['without data', 'TypeError', like({ data: undefined })], ['with data of an array', 'TypeError', like({ data: [1, 2, 3, 4] })], ['with data of another type', 'TypeError', like({ data: new Int32Array(4) })],
        ['with a hole in dims', 'TypeError', like({ dims: Object.assign([], { 1: 4 }) })], ['with dims beyond 32 bits', 'RangeError', like({ dims: [2 ** 33, 4] })],
      ] as const
    ).map(([what, kind, feed]) => [`run: a feed: ${what}`, run(kind, fine, (session) => anything(session).run({ x: feed }))]),
  ),
  'run: a feed: texts that are none': ['TypeError', fine, async ({ create }) => anything(await create(identity('string'))).run({ x: like({ type: 'string', data: ['a', 'b', 'c', 1] }) })],
  'run: a feed: holes for texts': ['TypeError', fine, async ({ create }) => anything(await create(identity('string'))).run({ x: like({ type: 'string', data: Object.assign([], { length: 4 }) }) })],
  'run: a fetch that is disposed': run('RangeError', fine, (session, library) => { const y = x(library); y.dispose(); return session.run({ x: x(library) }, { y }) }),
  'run: a fetch on a GPU': run('TypeError', fine, (session, library) => session.run({ x: x(library) }, { y: Object.assign(x(library), { dataLocation: 'gpu-buffer', gpuBufferData: {} }) })),
  'run: a fetch of another type': run('Error', /int32/, (session, library) => session.run({ x: x(library) }, { y: library.tensor('int32', new Int32Array(4), [1, 4]) })),
  'run: a fetch of another rank': run('Error', /y/, (session, library) => session.run({ x: x(library) }, { y: library.tensor('float32', new Float32Array(4), [4]) })),
  ...Object.fromEntries(([['a number', 5], ['an array', new Float32Array(4)], ['an object', {}]] as const).map(([what, fetch]) => [`run: what is read as options: ${what}`, run('fine', fine, (session, library) => anything(session).run({ x: x(library) }, { y: fetch }))])),
  'run: no fetches': run('fine', fine, (session, library) => shown(session.run({ x: x(library, 3) }))),
  'run: names of fetches': run('fine', fine, (session, library) => shown(session.run({ x: x(library) }, ['y']))),
  'run: an object of fetches': run('fine', fine, (session, library) => shown(session.run({ x: x(library) }, { y: null }))),
  'run: fetches null': run('TypeError', /argument\[1\]/, (session, library) => anything(session).run({ x: x(library) }, null)),
  'run: fetches a number': run('TypeError', /argument\[1\]/, (session, library) => anything(session).run({ x: x(library) }, 1)),
  'run: fetches a tensor': run('TypeError', /'fetches'/, (session, library) => anything(session).run({ x: x(library) }, x(library))),
  'run: fetches nothing': run('TypeError', /'fetches'/, (session, library) => anything(session).run({ x: x(library) }, [])),
  'run: fetches numbers': run('TypeError', /'fetches'/, (session, library) => anything(session).run({ x: x(library) }, [1, 2, 3])),
  'run: fetches of another name': run('RangeError', /'fetches'/, (session, library) => anything(session).run({ x: x(library) }, ['im_a_wrong_output_name'])),
  'run: options that are none': run('TypeError', /'options'/, (session, library) => anything(session).run({ x: x(library) }, ['y'], 1)),
  'run: logSeverityLevel a text': run('TypeError', /logSeverityLevel/, (session, library) => anything(session).run({ x: x(library) }, { logSeverityLevel: 'error' })),
  'run: logSeverityLevel 8': run('RangeError', /logSeverityLevel/, (session, library) => anything(session).run({ x: x(library) }, { logSeverityLevel: 8 })),
  'run: logSeverityLevel no integer': run('RangeError', /logSeverityLevel/, (session, library) => anything(session).run({ x: x(library) }, ['y'], { logSeverityLevel: 1.5 })),
  'run: logSeverityLevel 4': run('fine', fine, (session, library) => shown(anything(session).run({ x: x(library) }, { logSeverityLevel: 4 }))),
  'run: tag a number': run('TypeError', /tag/, (session, library) => anything(session).run({ x: x(library) }, { tag: 1 })),
  'run: tag a number, inherited': run('TypeError', /tag/, (session, library) => anything(session).run({ x: x(library) }, Object.create({ tag: 1 }))),
  'run: terminate': run('fine', fine, (session, library) => shown(session.run({ x: x(library) }, { terminate: true }))),
  'release: twice': run('Error', /Session already disposed/, async (session) => (await session.release(), session.release())),
  'release: twice at once': run('Error', /Session already disposed/, (session) => Promise.all([session.release(), session.release()])),
  'release: a profile after it': run('Error', /Session already disposed/, async (session) => (await session.release(), session.endProfiling())),
  'run: released': run('Error', /Session already disposed/, async (session, library) => (await session.release(), session.run({ x: x(library) }))),

  ...Object.fromEntries(
    (
      [
        ['float32', Float32Array.of(1, -2.5, 0, 3e38)], ['float64', Float64Array.of(1, -2.5, 0, 1e300)], ['int8', Int8Array.of(-128, 127, 0, 1)], ['uint8', Uint8Array.of(0, 255, 1, 2)], ['int16', Int16Array.of(-32768, 32767, 0, 1)], ['uint16', Uint16Array.of(0, 65535, 1, 2)],
        ['int32', Int32Array.of(-(2 ** 31), 2 ** 31 - 1, 0, 1)], ['uint32', Uint32Array.of(0, 2 ** 32 - 1, 1, 2)], ['int64', BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n, 0n, 1n)], ['uint64', BigUint64Array.of(0n, 2n ** 64n - 1n, 1n, 2n)], ['bool', Uint8Array.of(0, 1, 1, 0)], ['string', ['a', '', 'ü', '😀']],
      ] as const
    ).map(([type, data]) => [`run: ${type}`, ['fine', fine, async ({ create, tensor }) => shown((await create(identity(type))).run({ x: tensor(type, data, [1, 4]) }))] satisfies Call]),
  ),
} // prettier-ignore

type Outcome = { kind: 'fine'; answer: unknown } | { kind: string; error: Error }

async function outcomeOf(library: Library, [, , call]: Call): Promise<Outcome> {
  try {
    return { kind: 'fine', answer: await call(library) }
  } catch (error) {
    const { name } = error as Error
    return { kind: name === 'InferenceError' ? 'Error' : name, error: error as Error } // it is one by its class
  }
}

describe('sessions do what those of onnxruntime-node do', () => {
  it('in as many cases as its own unit tests have, and more', () =>
    expect(Object.keys(calls).length).toBeGreaterThanOrEqual(63))

  it.each(Object.entries(calls))('%s', async (_, call) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const [kind, says] = call
    const theirs = await outcomeOf(libraries['onnxruntime-node'], call)
    const ours = await outcomeOf(libraries.zerohop, call)
    expect([theirs.kind, ours.kind]).toEqual([kind, kind])
    if ('answer' in theirs) return expect(ours).toEqual(theirs)
    for (const { error } of [theirs, ours as { error: Error }]) {
      expect(error.message).toMatch(says)
      expect([error instanceof TypeError, error instanceof RangeError]).toEqual([
        kind === 'TypeError',
        kind === 'RangeError',
      ])
    }
  })
})
