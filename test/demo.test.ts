import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Command } from 'commander'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { describe, expect, it } from 'vitest'
import { InferenceError } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { classifierOf, likeliest, runJobs } from '../examples/demo/classify.ts'
import { imageOptionsFor } from '../examples/demo/image-input.ts'
import { parseOptions, readLabels } from '../examples/demo/options.ts'
import { accuracyOf, outcomeTable, stagingLines, summary } from '../examples/demo/report.ts'
import { UsageError } from '../examples/demo/usage-error.ts'
import { identityUnbatched } from './models/small.ts'
import { full } from './support/full.ts'

const quiet = (): Command => new Command().exitOverride().configureOutput({ writeErr: () => undefined })
const parse = (...line: string[]) => parseOptions(line, quiet())

describe('the options of the demo', () => {
  it('are the digits, their labels and 100 jobs when nothing is given', () => {
    const { model, labels, files, jobs } = parse()
    expect(model).toMatch(/digits.model\.onnx$/)
    expect(readLabels(labels)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
    expect(files).toHaveLength(300)
    expect(jobs).toBe(100)
    expect([parse().all, parse('--all').all]).toEqual([false, true])
  })
  it("are read for a model of one's own", () => {
    const line =
      '--model m.onnx --labels l.txt --channels bgr --layout nhwc --fit contain --size 320x240 --jobs 7 --scale 1/255 --mean 0.5'
    expect(parse(...line.split(' '), '--std', '1,2,-4/2', 'a.jpg', 'b.jpg')).toMatchObject({
      model: 'm.onnx',
      labels: 'l.txt',
      channels: 'bgr',
      layout: 'nhwc',
      fit: 'contain',
      size: { width: 320, height: 240 },
      jobs: 7,
      scale: 1 / 255,
      mean: [0.5],
      std: [1, 2, -2],
      files: ['a.jpg', 'b.jpg'],
    })
    expect(parse('--size', '64', 'a.jpg').size).toEqual({ width: 64, height: 64 })
  })
  it.each([
    ['--jobs', '0'],
    ['--jobs', '1.5'],
    ['--delay', '-1'],
    ['--delay', '3000000000'],
    ['--size', 'big'],
    ['--scale', 'x'],
    ['--scale', '1/0'],
    ['--mean', '1,,2'],
    ['--channels', 'rgba'],
    ['--layout', 'chw'],
    ['--fit', 'inside'],
    ['--unknown'],
  ])('refuse %s %s', (...line) => {
    expect(() => parse(...line)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^commander\./) }),
    )
  })
  it('ask for images beside a model', () => {
    expect(() => parse('--model', 'm.onnx')).toThrow(UsageError)
  })
  it('say plainly that the labels file is missing', () => {
    expect(() => readLabels('no-labels.txt')).toThrow(
      /^the labels file cannot be read: ENOENT.*no-labels\.txt/,
    )
  })
})

describe('the image options found from a model', () => {
  const input = (shape: (number | string)[], type = 'float32') => [{ name: 'x', type, shape }]
  it.each([
    [['N', 1, 8, 8], {}, { width: 8, height: 8, channels: 'gray', layout: 'nchw', dtype: 'float32' }],
    [['N', 3, 20, 30], { channels: 'bgr' }, { width: 30, height: 20, channels: 'bgr', layout: 'nchw' }],
    [
      [1, 20, 30, 3],
      { scale: 2, mean: [1], std: [1, 2, 3] },
      { width: 30, height: 20, layout: 'nhwc', scale: 2, mean: 1, std: [1, 2, 3] },
    ],
    [['N', 3, 'h', 'w'], { size: { width: 5, height: 6 } }, { width: 5, height: 6 }],
    [
      ['N', 'c', 'h', 'w'],
      { size: { width: 5, height: 6 }, layout: 'nhwc' },
      { channels: 'rgb', layout: 'nhwc' },
    ],
  ] as const)('for [%s]', (shape, options, expected) => {
    expect(imageOptionsFor(input([...shape]), options as never)).toMatchObject(expected)
  })
  it.each([
    ['a second input', [...input(['N', 3, 8, 8]), ...input(['N', 1])], {}, /2 inputs/],
    ['three dimensions', input([3, 8, 8]), {}, /4 dimensions/],
    ['text', input(['N', 3, 8, 8], 'string'), {}, /string/],
    ['open channels', input(['N', 'c', 'h', 'w']), {}, /--layout/],
    ['nameless dimensions', input(['', '', 2, 2]), {}, /\[\?, \?, 2, 2\]/],
    ['an open size', input(['N', 3, 'h', 8]), {}, /height open: give --size/],
    ['another size', input(['N', 3, 8, 8]), { size: { width: 9, height: 8 } }, /fixes the width to 8/],
    ['other channels', input(['N', 3, 8, 8]), { channels: 'gray' }, /3 channels/],
  ] as const)('are refused for %s', (_, inputs, options, message) => {
    expect(() => imageOptionsFor(inputs, options)).toThrow(message)
  })
})

describe('the likeliest class', () => {
  it('keeps what is a probability already, and takes the softmax of scores', () => {
    expect(likeliest([0.25, 0.75], ['a', 'b'])).toEqual({ label: 'b', probability: 0.75 })
    expect(likeliest([1001, 1000])).toEqual({
      label: 'class 0',
      probability: expect.closeTo(1 / (1 + Math.exp(-1)), 10),
    })
  })
  it('is refused when the labels are not as many as the classes', () => {
    expect(() => likeliest([0.5, 0.5], ['a'])).toThrow('2 classes apart, and the labels file has 1 lines')
  })
})

describe('the jobs', () => {
  it('run as many at once as asked, and keep the order of the files', async () => {
    let running = 0
    let most = 0
    const outcomes = await runJobs(
      [...'abcdefgh'],
      3,
      async (file) => {
        most = Math.max(most, ++running)
        await new Promise(setImmediate)
        running--
        return { file, label: file, probability: 1 }
      },
      () => undefined,
    )
    expect(most).toBe(3)
    expect(outcomes.map(({ file }) => file).join('')).toBe('abcdefgh')
  })
  it('report an unreadable file and go on, and stop at any other failure', async () => {
    const classify = async (file: string) => {
      if (file === 'bad')
        throw new InferenceError('ERR_IMAGE_DECODE', 'source: ...', { cause: new Error('no\nimage') })
      if (file === 'fatal') throw new InferenceError('ERR_EXECUTION', 'the run failed')
      return { file, label: 'x', probability: 1 }
    }
    const outcomes = await runJobs(['bad', 'good'], 1, classify, () => undefined)
    expect(outcomes).toEqual([
      { file: 'bad', error: 'ERR_IMAGE_DECODE: no image' },
      { file: 'good', label: 'x', probability: 1 },
    ])
    await expect(runJobs(['fatal', 'good'], 1, classify, () => undefined)).rejects.toMatchObject({
      code: 'ERR_EXECUTION',
    })
  })
})

describe('the report', () => {
  const outcomes = [
    { file: 'in/3-0001.png', label: '3', probability: 0.98765 },
    { file: '8-2.png', label: '3', probability: 0.5 },
    { file: 'holiday.png', label: '1', probability: 1 },
    { file: '1-3.png', error: 'ERR_IMAGE_DECODE: it is empty' },
  ]
  const labels = ['1', '3', '8']
  const rowsOf = (text: string) =>
    text
      .split('\n')
      .filter((line) => line.startsWith('│'))
      .slice(1)
  it('has a row for every file, those that are wrong or unreadable first', () => {
    const text = outcomeTable(outcomes, labels)
    const [order, , head] = text.split('\n')
    expect(order).toBe(
      'files that are wrong or unreadable (2) come first, then the others in the given order:',
    )
    expect(head).toMatch(/file .* label .* probability/)
    const rows = rowsOf(text)
    expect(rows).toHaveLength(4)
    expect(rows[0]).toMatch(/8-2\.png .* 3 .* 0\.5000/)
    expect(rows[1]).toMatch(/1-3\.png .* ERR_IMAGE_DECODE: it is empty/)
    expect(rows[2]).toMatch(/in\/3-0001\.png .* 3 .* 0\.9877/)
    expect(rows[3]).toMatch(/holiday\.png/)
    expect(text).not.toContain('more')
  })
  it('has 20 rows at most where not all are asked for, and says how many more there are', () => {
    const right = Array.from({ length: 30 }, (_, index) => ({
      file: `3-${index}.png`,
      label: '3',
      probability: 1,
    }))
    const wrong = Array.from({ length: 25 }, (_, index) => ({
      file: `1-${index}.png`,
      label: '3',
      probability: 1,
    }))
    const few = outcomeTable([...right, ...wrong.slice(0, 2)], labels)
    expect(rowsOf(few)).toHaveLength(20)
    expect(
      rowsOf(few)
        .slice(0, 3)
        .map((row) => /[13]-\d+/.exec(row)![0]),
    ).toEqual(['1-0', '1-1', '3-0'])
    expect(few.split('\n').at(-1)).toBe('and 12 more; --all shows them')
    const many = outcomeTable([...right, ...wrong], labels)
    expect(rowsOf(many).every((row) => /1-\d+/.test(row))).toBe(true)
    expect(many.split('\n').at(-1)).toBe('and 35 more, 5 of them wrong or unreadable; --all shows them')
    expect(rowsOf(outcomeTable(right, undefined))).toHaveLength(20)
    const all = outcomeTable([...right, ...wrong], labels, Infinity)
    expect(rowsOf(all)).toHaveLength(55)
    expect(all).not.toContain('more')
  })
  it('counts images, batches by size, right answers and unreadable files', () => {
    const text = summary(
      outcomes,
      100,
      1500,
      [{ batchSize: 32, computeInfer: { count: 4, ns: 2e6 } }],
      labels,
    )
    expect(text).toContain('3 images through 100 concurrent jobs in 1.50 s: 2.0 images/s')
    expect(text).toContain('4 batches, 2.0 ms in the model')
    expect(text).toMatch(/32 .* 4 .* 0\.500/)
    expect(text).toContain('accuracy: 50.00 % (1 of the 2 images')
    expect(text).toContain('1 of 4 files could not be read')
  })
  it('keeps silent about accuracy where no name tells a label', () => {
    expect(accuracyOf(outcomes, undefined)).toBeUndefined()
    expect(summary(outcomes, 1, 1, [], ['dog'])).not.toContain('accuracy')
  })
  it('says which memory is used and what is missing', () => {
    const text = stagingLines({
      staging: { kind: 'copy', reason: 'no addon' },
      native: { available: false, reason: 'no binary' },
    })
    expect(text).toBe('staging memory: copy (no addon)\nnative addon: not in use: no binary')
  })
})

it('tells at least 97 % of the held-out digits, in one batch and one by one alike', async () => {
  const { model, labels, files } = parse()
  const session = await InferenceSession.create(model)
  const [input] = session.inputMetadata as unknown as [
    { name: string; type: string; shape: (number | string)[] },
  ]
  const classifier = {
    metadata: { inputs: [input], outputs: session.outputMetadata as never },
    infer: async (feeds: Record<string, Tensor>) => (await session.run(feeds)) as Record<string, Tensor>,
  }
  const imageOptions = imageOptionsFor(classifier.metadata.inputs, {})
  const names = readLabels(labels)
  const outcomes = await runJobs(
    files,
    100,
    classifierOf(classifier, (file) => decodeImage(file, imageOptions), names),
    () => undefined,
  )
  const { known, right } = accuracyOf(outcomes, names)!
  expect(known).toBe(300)
  expect(right / known).toBeGreaterThanOrEqual(0.97)
  const batch = new Float32Array(300 * 64)
  await Promise.all(
    files.map((file, index) => decodeImage(file, imageOptions, { into: batch, offset: index * 64 })),
  )
  const { probabilities } = await session.run({ image: new Tensor('float32', batch, [300, 1, 8, 8]) })
  const together = files.map((file, row) => ({
    file,
    ...likeliest((probabilities!.data as Float32Array).slice(row * 10, row * 10 + 10), names),
  }))
  expect(together.map(({ label }) => label)).toEqual(
    outcomes.map((outcome) => 'label' in outcome && outcome.label),
  )
})

describe('the demo with a model', () => {
  const image = 'examples/digits/images/' + parse().files[0]!.split('/').at(-1)
  const demo = async (...line: string[]) => {
    const root = fileURLToPath(new URL('..', import.meta.url))
    const child = promisify(execFile)(
      process.execPath,
      ['--import', 'tsx', 'examples/demo/main.ts', ...line, image],
      { cwd: root },
    )
    return child.then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    )
  }

  it.runIf(full).each([
    [
      'whose input is no image',
      identityUnbatched('float32', [2, 3]),
      "input 'x' [2, 3] has not the 4 dimensions batch, channels, height and width",
    ],
    [
      'whose output has no classes',
      identityUnbatched('float32', [1, 1, 8, 8]),
      "none of its outputs has one number for each class (output 'y' [1, 1, 8, 8])",
    ],
  ])('%s says so', async (_, model, reason) => {
    const { code, stderr } = await demo('--model', model)
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `error: the model is no image classifier: ${reason}\n`,
    })
  })

  it.runIf(full)('that takes one image at a time classifies all the same', async () => {
    const { code, stdout } = await demo('--model', identityUnbatched('float32', [1, 1, 1, 8]))
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringContaining('1 images through 100 concurrent jobs'),
    })
  })
})
