import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { decodeTrace } from '../../src/trace-files/perfetto-timeline.ts'
import { tritonRecords } from '../trace-files/triton-traces.ts'
import { temporaryFolder } from '../../../../test/triton-repository/temporary.ts'
import { zerohop } from '../../../../test/cli/run.ts'

function tritonFile(text = JSON.stringify(tritonRecords)): string {
  return join(temporaryFolder({ 'trace.json': text }), 'trace.json')
}

describe('zerohop trace-summary', () => {
  it("prints the summary of Triton's tool, each trace, and the flow of tensors", async () => {
    const path = tritonFile()
    const { code, stdout, stderr } = await zerohop('trace-summary', path, '-t')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout.split('\n').slice(0, 5)).toEqual([
      `File: ${path}`,
      'simple (1):',
      '\tid: 1',
      '\tHTTP_RECV_START',
      '\t\t20.6us',
    ])
    expect(stdout).toContain('Summary for ensemble (-1): trace count = 1\nGRPC infer request (avg): 1000us\n')
    expect(stdout).toContain('inner (1):\n\tid: 3\n\tparent id: 2\n')
    expect(stdout).toMatch(
      /Data Flow:\n\t=+\n\tName: {3}ensemble\n\tVersion:-1\n\tQUEUE_INPUT:\n\t\traw: \[one two\]\n\t=+\n\t\t=+\n\t\tName: {3}inner\n\t\tVersion:1\n\t\tQUEUE_INPUT:\n\t\t\tinput: \[\[0\.1 0\.2\] \[0\.3 0\.4\]\]\n/,
    )
  })

  it('prints JSON, of several files', async () => {
    const paths = [tritonFile(), tritonFile('[]')]
    const { code, stdout } = await zerohop('trace-summary', ...paths, '--json')
    const { files } = JSON.parse(stdout) as {
      files: { file: string; models: { model: string; handlerUs: number }[] }[]
    }
    expect(code).toBe(0)
    expect(files.map(({ file, models }) => [file, models.map(({ model, handlerUs }) => [model, handlerUs])])).toEqual([
      [paths[0], [['simple', 353.9], ['ensemble', 400], ['inner', 100]]], [paths[1], []],
    ]) // prettier-ignore
    const hostile = tritonFile(
      JSON.stringify([
        { id: 1, model_name: 'm', model_version: 1, request_id: '\u009b31mred\u202e' },
        { id: 2, model_name: 'n' },
      ]),
    )
    const { stdout: shown } = await zerohop('trace-summary', hostile, '-v')
    expect(shown).toContain('"requestId": "\\u009b31mred\\u202e"')
    expect(JSON.parse(shown.slice(0, shown.indexOf('File:')))).toMatchObject([
      { requestId: '\u009b31mred\u202e' },
      { model: 'n' },
    ])
  })

  it('says of a file that was cut off that it was, and shows nothing of a name that it is not', async () => {
    const records = [
      { id: 1, model_name: 'm\nSummary for other', model_version: 1 },
      {
        id: 1,
        timestamps: [
          { name: 'REQUEST_START', ns: 1 },
          { name: 'REQUEST_END', ns: 2001 },
        ],
      },
    ]
    const { code, stdout, stderr } = await zerohop(
      'trace-summary',
      tritonFile(`${JSON.stringify(records).slice(0, -1)},{"id":2`),
    )
    expect(code).toBe(0)
    expect(stderr).toMatch(/ends within a record, which is skipped\n$/)
    expect(stdout).toContain(
      'Summary for m\\u000aSummary for other (1): trace count = 1\n\tHandler (avg): 2us\n',
    )
  })

  it.each([
    ['is not there', null, /^ENOENT|error: .*ENOENT/],
    [
      'is no file of traces',
      'oops',
      /^ERR_INVALID_ARG: .* is no file of traces: it is no JSON array of objects\.\n$/,
    ],
  ] as const)('of a file that %s says so in one line', async (_, content, line) => {
    const path = content === null ? join(temporaryFolder({}), 'none') : tritonFile(content)
    for (const command of ['trace-summary', 'trace-export']) {
      const { code, stdout, stderr } = await zerohop(
        command,
        path,
        ...(command === 'trace-export' ? ['--arrivals'] : []),
      )
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(line)
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })
})

describe('zerohop trace-export', () => {
  it('writes over no file of traces', async () => {
    const path = tritonFile()
    const before = readFileSync(path, 'utf8')
    const { code, stderr } = await zerohop('trace-export', '--perfetto', path, '-o', path)
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `error: --out ${path} is one of the trace files: name another file\n`,
    })
    expect(readFileSync(path, 'utf8')).toBe(before)
  })

  it("writes a timeline for Perfetto's viewer", async () => {
    const out = join(temporaryFolder({}), 'out.pftrace')
    expect(await zerohop('trace-export', '--perfetto', tritonFile(), '-o', out)).toMatchObject({
      code: 0,
      stdout: '',
      stderr: '',
    })
    const { packet } = decodeTrace(readFileSync(out))
    expect(packet.filter(({ track_event: event }) => event?.name === 'abc')).toHaveLength(1)
  })

  it('writes a recording of arrivals, of several files together', async () => {
    const later = tritonRecords.map((record) => ({
      ...record,
      ...('timestamps' in record && {
        timestamps: (record.timestamps as { name: string; ns: number }[]).map(({ name, ns }) => ({
          name,
          ns: ns + 1e6,
        })),
      }),
    }))
    const { code, stdout } = await zerohop(
      'trace-export',
      '--arrivals',
      tritonFile(JSON.stringify(later)),
      tritonFile(),
    )
    expect(code).toBe(0)
    expect(stdout.trimEnd().split('\n').map((line) => JSON.parse(line) as object)).toEqual([
      { atUs: 0, rows: 1, model: 'simple', latencyUs: 353.9 }, { atUs: 490, rows: 1, model: 'ensemble', latencyUs: 400 },
      { atUs: 1000, rows: 1, model: 'simple', latencyUs: 353.9 }, { atUs: 1490, rows: 1, model: 'ensemble', latencyUs: 400 },
    ]) // prettier-ignore
    const out = join(temporaryFolder({}), 'arrivals.jsonl')
    expect(await zerohop('trace-export', '--arrivals', tritonFile(), '-o', out)).toMatchObject({
      code: 0,
      stdout: '',
    })
    expect(readFileSync(out, 'utf8')).toMatch(/^\{.*\}\n\{.*\}\n$/)
  })

  it('says what is wrong with a command line, and where it cannot write', async () => {
    const path = tritonFile()
    expect(await zerohop('trace-export', path)).toMatchObject({
      code: 2,
      stderr: 'error: give either --perfetto or --arrivals\n',
    })
    expect(await zerohop('trace-export', path, '--perfetto', '--arrivals')).toMatchObject({
      code: 2,
      stderr: 'error: give either --perfetto or --arrivals\n',
    })
    expect(await zerohop('trace-export', path, '--perfetto')).toMatchObject({
      code: 2,
      stderr: 'error: --perfetto needs --out, because a timeline is binary\n',
    })
    const { code, stderr } = await zerohop(
      'trace-export',
      path,
      '--perfetto',
      '-o',
      join(temporaryFolder({}), 'none', 'out'),
    )
    expect(code).toBe(1)
    expect(stderr).toMatch(/ENOENT/)
    writeFileSync(path, '')
    expect(await zerohop('trace-export', path, '--arrivals')).toMatchObject({
      code: 1,
      stderr: `ERR_INVALID_ARG: ${path} is no file of traces: it is empty.\n`,
    })
  })
})
