import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { readKeptResults, type KeptResult } from '../../bench/kept-result.ts'
import { withHeadlines, withNumbers } from '../../bench/numbers-section.ts'
import { resultsDocument } from '../../bench/results-document.ts'
import { runTrial } from '../../bench/run-trial.ts'
import { shown, shownAll, shownRange } from '../../bench/shown.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const readme = readFileSync(`${root}README.md`, 'utf8')
const page = readFileSync(`${root}docs/reference/benchmarks.md`, 'utf8')

function resultOf(trial: string, changes: Partial<KeptResult> = {}): KeptResult {
  return {
    trial,
    describe: `what ${trial} asks`,
    rows: [
      { callers: 1, 'native /s': 54_000 },
      { callers: 64, 'native /s': 420_000 },
    ],
    numbers: [{ question: `question of ${trial}`, plain: '50 /s', zerohop: '100 /s', note: '2 x' }],
    targets: [{ what: 'ratio', found: 2, target: '>= 1.5', met: true }],
    settings: { seconds: 3 },
    machine: { cores: 2, cpu: 'A processor', node: '22.20.0', onnxruntime: '1.30.0' },
    date: '2026-11-22T23:50:00.000Z',
    smoke: false,
    ...changes,
  }
}

function folderWith(files: Record<string, unknown>): string {
  const folder = join(mkdtempSync(join(tmpdir(), 'zerohop-results-')), 'results')
  mkdirSync(folder)
  for (const [file, content] of Object.entries(files))
    writeFileSync(join(folder, file), typeof content === 'string' ? content : JSON.stringify(content))
  return folder
}

describe('what the project tells of its speed', () => {
  const results = readKeptResults(`${root}bench/results`)

  it('is, in README, what npm run bench:numbers makes of the results that are kept: six rows', () => {
    expect(readme).toBe(withHeadlines(readme, results))
    const table = readme.slice(readme.indexOf('## Numbers'), readme.indexOf('## When not to use it'))
    expect(table.match(/^\| .* `[\w-]+`(, shortened)? \|$/gm)).toHaveLength(6)
  })

  it("is, in docs/reference/benchmarks.md, what it makes of them, README's rows among the others", () => {
    expect(page).toBe(withNumbers(page, results))
    const rows = (text: string) => text.match(/^\| .* `[\w-]+`(, shortened)? \|$/gm)!
    expect(rows(page)).toEqual(expect.arrayContaining(rows(readme)))
  })

  it('is, in bench/results.md, what it makes of them', () => {
    const document = existsSync(`${root}bench/results.md`)
      ? readFileSync(`${root}bench/results.md`, 'utf8')
      : null
    expect(document).toBe(results.length === 0 ? null : resultsDocument(results))
  })
})

describe('the numbers of docs/reference/benchmarks.md', () => {
  const numbersOf = (...results: KeptResult[]) => withNumbers(page, results)

  it('name the machine, the day and the trial of each row, the harder questions first', () => {
    const text = numbersOf(resultOf('another'), resultOf('batchers'), resultOf('throughput'))
    expect(text).toContain(
      'On 2 cores (A processor), Node 22.20.0, onnxruntime-node 1.30.0, 2026-11-22; plain is',
    )
    expect(text.match(/`(another|batchers|throughput)` \|/g)).toEqual([
      '`throughput` |',
      '`batchers` |',
      '`another` |',
    ])
    expect(text).toContain('| question of batchers | 50 /s | 100 /s | 2 x | `batchers` |')
  })

  it('say so where runs were shortened, or of several machines and days', () => {
    const text = numbersOf(
      resultOf('a', { quick: true }),
      resultOf('b', {
        date: '2026-11-20T00:00:00Z',
        machine: { cores: 64, node: '24.0.0', onnxruntime: '1.30.0' },
      }),
    )
    expect(text).toContain('`a`, shortened |')
    expect(numbersOf(resultOf('a', { shortened: { seconds: 1, rounds: 3 } }))).toContain('`a`, shortened |')
    expect(text).toContain('On the machines that `bench/results.md` names, 2026-11-20 to 2026-11-22;')
  })

  it.each([
    ['README', readme, withHeadlines],
    ['the page of benchmarks', page, withNumbers],
  ])('do not change when they are made again, and leave the rest of %s alone', (_, text, written) => {
    const result = resultOf('batchers', {
      numbers: [{ question: 'MLP beside a batcher', plain: '1 /s', zerohop: '2 /s', note: '2 x' }],
    })
    const once = written(text, [result])
    expect(once).not.toBe(text)
    expect(written(once, [result])).toBe(once)
    const around = (whole: string) => [whole.split('<!-- Made by')[0], whole.split('<!-- The end')[1]]
    expect(around(once)).toEqual(around(text))
  })

  it('stay as they are where no result says anything of them', () => {
    for (const [text, written] of [
      [readme, withHeadlines],
      [page, withNumbers],
    ] as const) {
      expect(written(text, [])).toBe(text)
      expect(written(text, [resultOf('idle', { numbers: [] })])).toBe(text)
    }
  })

  it('need their place', () => {
    expect(() => withHeadlines('# zerohop', [resultOf('a')])).toThrow(
      /README\.md: expected a place for the numbers/,
    )
    expect(() => withNumbers('# Benchmarks', [resultOf('a')])).toThrow(
      /benchmarks\.md: expected a place for the numbers/,
    )
  })
})

describe('bench/results.md', () => {
  it('has a section for each result: where and when, its table, what was asked and whether it was met', () => {
    const text = resultsDocument([
      resultOf('throughput', { targets: [{ what: 'ratio', found: 2, target: '>= 3', met: false }] }),
    ])
    expect(text).toContain('- [throughput](#throughput): what throughput asks')
    expect(text).toContain(
      '## throughput\n\nwhat throughput asks.\n\n2026-11-22, 2 cores (A processor), Node 22.20.0, onnxruntime-node 1.30.0.',
    )
    expect(text).toContain('| callers | native /s |\n|---|---|\n| 1 | 54000 |\n| 64 | 420000 |')
    expect(text).toContain('| ratio | 2 | >= 3 | **not met** |')
    expect(text).toContain('"seconds": 3')
  })

  it('has several tables where a result has them, with all columns of their rows', () => {
    const text = resultsDocument([
      resultOf('peers', {
        tables: [
          {
            title: 'MLP',
            rows: [
              { peer: 'a | b', '/s': 1 },
              { peer: '<c>', note: null },
            ],
          },
          { title: 'none', rows: [] },
        ],
      }),
    ])
    expect(text).toContain(
      '### MLP\n\n| peer | /s | note |\n|---|---|---|\n| a \\| b | 1 |  |\n| \\<c> |  |  |',
    )
    expect(text).not.toContain('### none')
  })

  it('says what a trial comes to, whose figures README has although no table does', () => {
    const text = resultsDocument([
      resultOf('warm-load', { ours: 73, plain: 719.612345, unit: 'ms a load', ratio: 0.101442 }),
    ])
    expect(text).toContain(
      '| 64 | 420000 |\n\nIn one line: 73 beside 719.612 ms a load; ratio 0.101442.\n\n| asked |',
    )
  })

  it('says which build it was where that is known', () => {
    const text = resultsDocument([resultOf('a', { build: { version: '0.1.0', hash: '0123456789ab' } })])
    expect(text).toContain('2026-11-22, zerohop 0.1.0 (build 0123456789ab), 2 cores')
  })

  it('says how a run was shortened', () => {
    expect(resultsDocument([resultOf('a', { shortened: null })])).not.toContain('shortened')
    expect(resultsDocument([resultOf('a', { shortened: { seconds: 1, rounds: 2 } })])).toContain(
      'onnxruntime-node 1.30.0. A shortened run (`--seconds 1 --rounds 2`).',
    )
    expect(resultsDocument([resultOf('a', { quick: true })])).toContain('A shortened run (`--quick`).')
  })

  it('says below the table what has to be known to read it', () => {
    const text = resultsDocument([resultOf('bursts', { reading: 'Timers wait a millisecond.' })])
    expect(text).toContain('| 64 | 420000 |\n\nTimers wait a millisecond.\n\n| asked |')
  })
})

describe('results that are kept', () => {
  it('are those of a folder, by their names; none where there is no folder', () => {
    const folder = folderWith({ 'b.json': resultOf('b'), 'a.json': resultOf('a'), 'notes.txt': 'not one' })
    expect(readKeptResults(folder).map(({ trial }) => trial)).toEqual(['a', 'b'])
    expect(readKeptResults(join(folder, 'none'))).toEqual([])
  })

  it.each([
    [
      'of a smoke run',
      resultOf('a', { smoke: true }),
      /a\.json: expected a result to be believed, received that of a smoke run\. Run npm run bench -- a --results/,
    ],
    ['without its rows', { ...resultOf('a'), rows: undefined }, /a\.json: expected a result .* without rows/],
    [
      'without a date',
      resultOf('a', { date: 'yesterday' }),
      /a\.json: expected a date, received 'yesterday'/,
    ],
  ])('are refused %s', (_, result, message) => {
    expect(() => readKeptResults(folderWith({ 'a.json': result }))).toThrow(message)
  })
})

describe('a result that is written', () => {
  it('names the version and the build that were measured', async () => {
    const file = join(folderWith({}), 'none.json')
    const said = vi.spyOn(console, 'log').mockReturnValue()
    const trial = {
      describe: 'nothing',
      run: async () => ({
        ours: 1,
        plain: 1,
        unit: '',
        ratio: 1,
        targets: [],
        rows: [{ a: 1 }],
        settings: {},
      }),
    }
    await runTrial('none', trial, { rounds: 1, smoke: true, quick: false, images: 1, requests: 1 }, file)
    said.mockRestore()
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      build: {
        version: expect.stringMatching(/^\d+\.\d+/) as string,
        hash: expect.stringMatching(/^[0-9a-f]{12}$/) as string,
      },
    })
  })
})

describe('a figure in README', () => {
  it.each([
    [513_456, '513 500'],
    [7975.4, '7 975'],
    [999.6, '1 000'],
    [25.37, '25.4'],
    [0.00812, '0.00812'],
    [0, '0'],
    [-1250, '-1 250'],
  ])('is %d as %s', (value, text) => {
    expect(shown(value)).toBe(text)
  })

  it('names its unit once for several', () => {
    expect(shownAll([54_321, 225_000], '/s')).toBe('54.3, 225 thousand /s')
    expect(shownAll([5.81, 1005], 'us')).toBe('5.81, 1 005 us')
    expect([shownRange([3, 1.5], 'MB'), shownRange([2, 2], 'MB')]).toEqual(['1.5 to 3 MB', '2 MB'])
  })
})
